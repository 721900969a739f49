package storage_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/postgrestest"
)

func TestPruneKeepsTheRecordsOfRunsAtWork(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db *storage.DB) {
		log := newLog(t, db, 4)
		now := time.Now()
		var rows []data.Row
		for i, key := range log.runs {
			run, err := db.Run(t.Context(), key)
			must(t, err)
			run.Generation = 3
			switch i {
			case 1, 2:
				at := now.Add(time.Duration(4*i-29) * time.Hour)
				run.Status, run.FinishedAt = data.Completed, &at
			case 3:
				run.Status = data.Waiting
			}
			rows = append(rows, &run.RunHead)
			for generation := 1; generation <= 3; generation++ {
				rows = append(rows, &data.Memo{RunKey: key, Generation: generation, Step: 1, Place: "do#1"})
			}
		}
		log.commit(t, nil, rows...)
		must(t, db.Retention.Prune(t.Context(), now))
		got := make([]string, 4)
		for i, key := range log.runs {
			for generation := 1; generation <= 3; generation++ {
				memos, err := db.Memos(t.Context(), key, generation)
				must(t, err)
				got[i] += fmt.Sprint(len(memos))
			}
		}
		if diff := cmp.Diff([]string{"001", "000", "001", "001"}, got); diff != "" {
			t.Errorf("records by generation, of runs that run, ended, ended today, wait: %s", diff)
		}
	})
}

func TestPruneForgetsInstancesThatOwnNothing(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"sqlite": newSQLite(t), "postgres": postgrestest.New(t)} {
		t.Run(name, func(t *testing.T) {
			db := open(t, url)
			for _, instance := range []string{"idle", "owner", "last"} {
				must(t, errors.Join(db.Members().Leave(t.Context()), db.Members().Join(t.Context(), instance, "")))
			}
			log := newLog(t, db, 1)
			run, err := db.Run(t.Context(), log.runs[0])
			must(t, err)
			run.Owner = "owner"
			log.commit(t, nil, &run.RunHead)
			prune := func(at time.Time, want ...string) {
				t.Helper()
				must(t, db.Retention.Prune(t.Context(), at))
				direct := connect(t, url)
				var got []string
				must(t, direct.Select(&got, "SELECT id FROM instances ORDER BY id"))
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			}
			prune(time.Now(), "idle", "last", "owner")
			prune(time.Now().Add(25*time.Hour), "last", "owner")
		})
	}
}

// connect opens a database for a test's own statements.
func connect(t *testing.T, url string) *sqlx.DB {
	t.Helper()
	driver, name := "postgres", url
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		driver, name = "sqlite", "file:"+path
	}
	db, err := sqlx.Connect(driver, name)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestOneThreadThatCannotBeSealedStopsNoOther(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"sqlite": newSQLite(t), "postgres": postgrestest.New(t)} {
		t.Run(name, func(t *testing.T) {
			var told strings.Builder
			db, err := storage.Open(t.Context(), storage.Config{URL: url, Migrate: true, Log: slog.New(slog.NewTextHandler(&told, nil))})
			must(t, err)
			defer db.Close()
			log, want := history(t, joined(t, db), 3, 1, 300)
			direct := connect(t, url)
			insert := direct.Rebind("INSERT INTO event_segments (thread_key, first_event_id, last_event_id, events, data) VALUES (?, 1, 300, 1, ?)")
			if _, err := direct.Exec(insert, log.threads[1], []byte{}); err != nil {
				t.Fatal(err)
			}
			seal(t, db, 72*time.Hour, 600)
			if !strings.Contains(told.String(), fmt.Sprint("thread=", log.threads[1])) {
				t.Errorf("the log was told %q", told.String())
			}
			if _, err := direct.Exec(direct.Rebind("DELETE FROM event_segments WHERE thread_key = ?"), log.threads[1]); err != nil {
				t.Fatal(err)
			}
			seal(t, db, 72*time.Hour, 300)
			for key, events := range want {
				sameLog(t, readLog(t, db, key, 500), events)
			}
		})
	}
}

// Keys that were revoked or expired long ago are deleted; other keys stay.
func TestPrune_ForgetsOldAPIKeys(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db *storage.DB) {
		now := time.Now().UTC().Truncate(time.Millisecond)
		days := func(n int) *time.Time { at := now.AddDate(0, 0, -n); return &at }
		for id, k := range map[string]data.APIKey{
			"good": {}, "revoked": {RevokedAt: days(89)}, "revoked long ago": {RevokedAt: days(91)},
			"over": {ExpiresAt: days(89)}, "over for long": {ExpiresAt: days(91)},
		} {
			revoked := k.RevokedAt
			k.ID, k.User, k.Projects, k.Role, k.CreatedAt = id, "u", []string{"p"}, "user", *days(100)
			must(t, db.Accounts.PutAPIKey(t.Context(), &k, nil))
			if revoked != nil {
				must(t, db.Accounts.RevokeAPIKey(t.Context(), id, *revoked, nil))
			}
		}
		must(t, db.Retention.Prune(t.Context(), now))
		page, err := db.Accounts.ProjectAPIKeys(t.Context(), "p", 0, 10)
		var left []string
		for i := range page.Rows {
			left = append(left, page.Rows[i].ID)
		}
		slices.Sort(left)
		if diff := cmp.Diff([]string{"good", "over", "revoked"}, left); diff != "" || err != nil || page.Total != 3 {
			t.Errorf("of %d keys, %v: %s", page.Total, err, diff)
		}
		if list, err := db.Accounts.APIKeysAfter(t.Context(), "", 10); err != nil || len(list) != 3 {
			t.Errorf("%d keys are left, %v", len(list), err)
		}
	})
}
