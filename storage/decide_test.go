package storage_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/postgrestest"
	"github.com/batonrun/baton/storage/storagetest"
)

// The reads and writes of many decisions share round trips: sixty-four take as many messages as one.
func TestDecisionsShareRoundTrips(t *testing.T) {
	t.Parallel()
	p, through := storagetest.NewProxy(t, postgrestest.New(t))
	log := newLog(t, joined(t, open(t, through)), 1)
	passed := func(b *data.Batch) int64 {
		t.Helper()
		log.n++
		before := p.Left.Load()
		must(t, log.db.Commit(t.Context(), log.n, b))
		return before - p.Left.Load()
	}
	messages := func(n int) (started, ended int64) {
		batches := log.startAndEnd(t, n)
		return passed(batches[0]), passed(batches[1])
	}
	p.Left.Store(math.MaxInt64)
	messages(1)
	messages(64) // all statements are prepared now
	started1, ended1 := messages(1)
	started64, ended64 := messages(64)
	t.Logf("a start passes %d messages, 64 pass %d; an end %d, 64 pass %d", started1, started64, ended1, ended64)
	// A message that is larger than the proxy's buffer passes in pieces.
	if started64 > started1+8 || ended64 > ended1+8 {
		t.Error("each decision costs round trips of its own")
	}
}

// However large the requests are that wait in a thread, a decision about it reads none of them.
func TestDecisionsReadNothingLarge(t *testing.T) {
	t.Parallel()
	p, through := storagetest.NewProxy(t, postgrestest.New(t))
	log := newLog(t, joined(t, open(t, through)), 1)
	log.crowd(t)
	p.Left.Store(math.MaxInt64)
	p.Bytes.Store(0)
	must(t, log.look(t))
	if n := p.Bytes.Load(); n == 0 || n > 64<<10 {
		t.Errorf("the view of a thread takes %d bytes", n)
	}
}

// crowd has requests, messages, questions and a state of a megabyte each wait in the thread.
func (l *workload) crowd(t *testing.T) {
	t.Helper()
	large := []byte(`{"x":"` + strings.Repeat("x", 1<<20) + `"}`)
	rows := []data.Row{&data.ThreadState{Key: l.threads[0], State: large}}
	for i := range 10 {
		run := l.runOf(t, l.threads[0], fmt.Sprint("large ", i))
		run.Status, run.Input, run.Definition, run.InputQuery, run.Metadata = data.Queued, large, large, string(large), large
		m := &data.Message{ThreadKey: l.threads[0], RunKey: run.Key, State: data.MessageQueued}
		m.ID, m.Role, m.Content = run.ID, agui.RoleUser, string(large)
		rows = append(rows, run, m)
	}
	l.commit(t, nil, rows...)
}

// look takes a decision about the thread.
func (l *workload) look(t *testing.T) error {
	t.Helper()
	l.n++
	return l.db.Commit(t.Context(), l.n, &data.Batch{
		Asks: []data.Ask{{Thread: l.threads[0], IDs: []string{"large 1", "large 2"}}},
		Decide: func(_ int, v *data.View) data.Changes {
			if len(v.Runs) != 11 || len(v.Inbox) != 10 || len(v.Known) != 2 {
				t.Errorf("the view has %d runs, %d inboxes and %d ids", len(v.Runs), len(v.Inbox), len(v.Known))
			}
			return data.Changes{}
		},
	})
}

// direct opens a database beside the store.
func direct(t *testing.T, url string) *sqlx.DB {
	t.Helper()
	db, err := sqlx.Connect("postgres", url)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// A statement that takes too long is given up, and the batch can be tried again or changed.
func TestSlowStatementIsGivenUp(t *testing.T) {
	t.Parallel()
	// commits tries until a commit ends with want: a busy machine may be slower than the limits.
	commits := func(t *testing.T, want error, commit func() error) {
		t.Helper()
		for range 100 {
			switch err := commit(); {
			case errors.Is(err, want):
				return
			case !errors.Is(err, data.ErrTooSlow) && !errors.Is(err, data.ErrUnavailable):
				t.Fatalf("%v, want: %v", err, want)
			}
		}
		t.Fatalf("never: %v", want)
	}
	blocked := func(t *testing.T, cfg storage.Config, begin, end string, want error) {
		t.Helper()
		unlimited := joined(t, open(t, cfg.URL)) // migrates
		log := newLog(t, unlimited, 1)
		var store *storage.DB
		commits(t, nil, func() (err error) { store, err = storage.Open(t.Context(), cfg); return err })
		defer store.Close()
		commits(t, nil, func() error { return store.Members().Join(t.Context(), "limited", "127.0.0.1:1") })
		driver, dsn := "postgres", cfg.URL
		if rest, ok := strings.CutPrefix(cfg.URL, "sqlite:"); ok {
			driver, dsn = "sqlite", rest
		}
		other, err := sqlx.Connect(driver, dsn)
		must(t, err)
		defer other.Close()
		conn, err := other.Connx(t.Context())
		must(t, err)
		defer conn.Close()
		exec := func(query string) {
			t.Helper()
			if _, err := conn.ExecContext(t.Context(), query); err != nil {
				t.Fatal(err)
			}
		}
		b := &data.Batch{
			Events: log.batch(3), Asks: []data.Ask{{Thread: log.threads[0]}},
			Decide: func(int, *data.View) data.Changes { return data.Changes{} },
		}
		exec(begin)
		commit := func() error { return store.Commit(t.Context(), 1, b) }
		for range 2 {
			commits(t, want, commit)
		}
		exec(end)
		commits(t, nil, commit)
		if got := readLog(t, unlimited, log.threads[0], 10); len(got) != 3 {
			t.Errorf("%d events, want 3", len(got))
		}
	}
	t.Run("sqlite", func(t *testing.T) {
		blocked(t, storage.Config{URL: newSQLite(t), LockTimeout: 10 * time.Millisecond}, "BEGIN IMMEDIATE", "ROLLBACK", data.ErrTooSlow)
	})
	t.Run("postgres", func(t *testing.T) {
		blocked(t, storage.Config{URL: postgrestest.New(t), Timeout: 200 * time.Millisecond}, `
			CREATE FUNCTION sleep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(3600); END';
			CREATE TRIGGER slow BEFORE INSERT ON events EXECUTE FUNCTION sleep()`,
			"DROP TRIGGER slow ON events", data.ErrTooSlow)
	})
	for what, lock := range map[string]string{
		"row": "SELECT FROM instances FOR UPDATE", "table": "LOCK TABLE events IN SHARE MODE", // as CREATE INDEX does
	} {
		t.Run("postgres, a locked "+what, func(t *testing.T) { // is not the batch's fault
			url := postgrestest.New(t)
			blocked(t, storage.Config{URL: url, Timeout: 200 * time.Millisecond}, "BEGIN; "+lock, "ROLLBACK", data.ErrUnavailable)
		})
	}
}
