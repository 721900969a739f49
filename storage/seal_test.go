package storage_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/postgrestest"
)

// history fills threads with finished runs of n events each and returns the logs as they must stay.
func history(tb testing.TB, db data.Store, threads, runs, n int) (*workload, map[int64][]data.StoredEvent) {
	tb.Helper()
	log := newLog(tb, db, threads)
	for r := range runs {
		if r > 0 {
			log.commit(tb, nil, log.nextRuns(tb, fmt.Sprint("again", r))...)
		}
		for range n / 10 {
			log.commit(tb, log.batch(10*threads))
		}
		log.commit(tb, nil, log.finishRuns(tb)...)
	}
	want := make(map[int64][]data.StoredEvent)
	for _, key := range log.threads {
		want[key] = readLog(tb, db, key, 1000)
	}
	return log, want
}

func readLog(tb testing.TB, db data.Store, thread int64, limit int) []data.StoredEvent {
	tb.Helper()
	var all []data.StoredEvent
	for after := int64(0); ; {
		page, err := db.Events(tb.Context(), thread, after, limit)
		must(tb, err)
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
		after = page[len(page)-1].ID
	}
}

// sameLog is cmp.Diff for many events.
func sameLog(t *testing.T, got, want []data.StoredEvent) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d events, want %d", len(got), len(want))
	}
	for i := range got {
		if !bytes.Equal(got[i].Payload, want[i].Payload) || got[i].ID != want[i].ID || got[i].RunKey != want[i].RunKey ||
			got[i].RunID != want[i].RunID || got[i].Kind != want[i].Kind || got[i].ThreadKey != want[i].ThreadKey {
			t.Fatalf("event %d is %+v, want %+v", i, got[i], want[i])
		}
	}
}

func seal(t *testing.T, db *storage.DB, after time.Duration, want int) {
	t.Helper()
	got, err := db.Retention.Seal(t.Context(), time.Now().Add(after))
	if err != nil || got != want {
		t.Fatalf("Seal after %v: %d events, %v, want %d", after, got, err, want)
	}
}

func TestSealKeepsTheLog(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db *storage.DB) {
		log, want := history(t, db, 3, 4, 310) // 1240 events in each thread
		check := func() {
			t.Helper()
			for key, events := range want {
				for _, limit := range []int{1 << 20, 500, 97} {
					sameLog(t, readLog(t, db, key, limit), events)
				}
				last, err := db.LastEventID(t.Context(), key)
				if err != nil || last != int64(len(events)) {
					t.Fatalf("LastEventID: %d, %v, want %d", last, err, len(events))
				}
			}
		}
		seal(t, db, 0, 0)
		seal(t, db, 2*time.Hour, 3*1030) // a segment of 1024 in rows of ten; 210 are too few for another
		check()
		seal(t, db, 2*time.Hour, 0)
		seal(t, db, 72*time.Hour, 3*210)
		check()
		seal(t, db, 72*time.Hour, 0)

		// On goes the log.
		log.commit(t, nil, log.nextRuns(t, "later")...)
		log.commit(t, log.batch(30))
		log.commit(t, nil, log.finishRuns(t)...)
		for key := range want {
			want[key] = readLog(t, db, key, 1<<20)
			if len(want[key]) != 1250 {
				t.Fatalf("thread %d has %d events", key, len(want[key]))
			}
		}
		check()
		seal(t, db, 72*time.Hour, 30)
		check()
	})
}

func TestReadersNeverSkipWhileSealing(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db *storage.DB) {
		log, _ := history(t, db, 20, 1, 600)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for n := range 2 {
			wg.Go(func() { // ends when sealing has
				for i := n; ctx.Err() == nil; i++ {
					after, key := int64(0), log.threads[i%20]
					for after < 600 {
						page, err := db.Events(t.Context(), key, after, 130)
						if err != nil || len(page) == 0 || page[0].ID != after+1 ||
							page[len(page)-1].ID != after+int64(len(page)) {
							t.Errorf("after %d: %d events, %v", after, len(page), err)
							return
						}
						after += int64(len(page))
					}
				}
			})
		}
		seal(t, db, 72*time.Hour, 20*600)
		stop()
		wg.Wait()
	})
}

func TestForgetKeys(t *testing.T) {
	t.Parallel()
	db := open(t, newSQLite(t))
	log := &workload{db: joined(t, db)}
	now := time.Now()
	log.commit(t, nil, &data.IdempotencyKey{Scope: "old", CreatedAt: now.Add(-time.Hour)},
		&data.IdempotencyKey{Scope: "new", CreatedAt: now})
	must(t, db.Retention.ForgetKeys(t.Context(), now.Add(-time.Minute)))
	log.n++
	err := log.db.Commit(t.Context(), log.n, &data.Batch{
		Asks: []data.Ask{{Scope: "old"}, {Scope: "new"}},
		Decide: func(_ int, v *data.View) data.Changes {
			if _, ok := v.Remembered["new"]; len(v.Remembered) != 1 || !ok {
				t.Errorf("remembered are %v", v.Remembered)
			}
			return data.Changes{}
		},
	})
	must(t, err)
}

// Several instances may come to drop the same day: all but the first find that it is done.
func TestDaysAreDroppedByWhoeverComesFirst(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	instances := []*storage.DB{open(t, url), open(t, url), open(t, url)}
	direct, err := sqlx.Connect("postgres", url)
	must(t, err)
	defer direct.Close()
	day := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 30 {
		next := day.AddDate(0, 0, 1)
		_, err := direct.Exec(fmt.Sprintf("CREATE TABLE events_%s PARTITION OF events FOR VALUES FROM ('%s') TO ('%s')",
			day.Format("20060102"), day.Format(time.DateOnly), next.Format(time.DateOnly)))
		must(t, err)
		day = next
	}
	var wg sync.WaitGroup
	for _, db := range instances {
		wg.Go(func() {
			if _, err := db.Retention.Seal(t.Context(), time.Now()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var left int
	if err := direct.Get(&left, "SELECT count(*) FROM pg_class WHERE relname LIKE 'events_2020____'"); err != nil || left > 0 {
		t.Errorf("%d days are left, %v", left, err)
	}
}

// To find whether a day is sealed takes long, and no commit waits for it.
func TestCommitsGoOnWhileADayIsLookedAt(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	log := newLog(t, joined(t, open(t, url)), 1)
	direct := connect(t, url)
	if _, err := direct.Exec("CREATE TABLE events_20200101 PARTITION OF events FOR VALUES FROM ('2020-01-01') TO ('2020-01-02')"); err != nil {
		t.Fatal(err)
	}
	hold, err := direct.Beginx()
	must(t, err)
	defer func() { _ = hold.Rollback() }()
	if _, err := hold.Exec("LOCK TABLE events_20200101 IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	sealed := make(chan error, 1)
	go func() {
		_, err := log.db.(*storage.DB).Retention.Seal(t.Context(), time.Now())
		sealed <- err
	}()
	for waiting := 0; waiting == 0; {
		must(t, direct.Get(&waiting, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'events_20200101'::regclass"))
	}
	log.commit(t, log.batch(1))
	select {
	case err := <-sealed:
		t.Fatalf("the commit has waited until nobody looked any more: %v", err)
	default:
	}
	must(t, hold.Rollback())
	if err := <-sealed; err != nil {
		t.Error(err)
	}
}

// A clock that was set back at midnight has a thread's earlier events in a later day than those that follow. Once that day is dropped, they
// are still read between those that are in rows.
func TestReadersSkipNoDayThatIsDroppedFirst(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	db := open(t, url)
	log, want := history(t, joined(t, db), 1, 1, 30)
	direct := connect(t, url)
	thread := log.threads[0]
	early := want[thread][11].ID // the first row of ten stands for what was written while the clock was ahead
	for _, statement := range []string{
		"CREATE TABLE events_20200101 PARTITION OF events FOR VALUES FROM ('2020-01-01') TO ('2020-01-02')",
		"UPDATE events SET committed_at = '2020-01-01 23:59:00Z' WHERE last_event_id > $1",
	} {
		var args []any
		if strings.Contains(statement, "$1") {
			args = []any{early}
		}
		if _, err := direct.Exec(statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	seal(t, db, 72*time.Hour, len(want[thread]))
	log.commit(t, nil, log.nextRuns(t, "later")...)
	log.commit(t, log.batch(30))
	log.commit(t, nil, log.finishRuns(t)...)
	var rows []int64
	if err := direct.Select(&rows, "SELECT first_event_id FROM events ORDER BY first_event_id"); err != nil || rows[0] != 1 || int(rows[len(rows)-1]) <= len(want[thread]) {
		t.Fatalf("the rows that are left begin with the events %v, %v", rows, err)
	}
	for _, limit := range []int{1 << 20, 7} {
		got := readLog(t, db, thread, limit)
		for i := range got {
			if got[i].ID != int64(i+1) {
				t.Fatalf("event %d follows event %d, with pages of %d", got[i].ID, i, limit)
			}
		}
		sameLog(t, got[:len(want[thread])], want[thread])
	}
}
