package storage_test

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/postgrestest"
	"github.com/batonrun/baton/storage/storagetest"
)

// retry makes a commit until the database has answered, as a committer does, and fails on any other error.
func retry(tb testing.TB, commit func() error) (tries int) {
	tb.Helper()
	for deadline := time.Now().Add(10 * time.Minute); ; <-time.After(5 * time.Millisecond) {
		tries++
		err := commit()
		switch {
		case err == nil:
			return tries
		case !errors.Is(err, data.ErrUnavailable):
			tb.Fatalf("commit: %v, want ErrUnavailable", err)
		case time.Now().After(deadline):
			tb.Fatalf("commit: still %v", err)
		}
	}
}

// decision is a batch of events and of a decision to start a run.
func (l *workload) decision(tb testing.TB, events []data.StoredEvent) *data.Batch {
	tb.Helper()
	thread, run, rows := l.newRun(tb)
	name := data.Name{Project: "p", User: "u", ID: thread.ID}
	return &data.Batch{
		Events: events, Asks: []data.Ask{{Name: name, RunName: name}},
		Decide: func(_ int, v *data.View) data.Changes {
			if v.Exists || len(v.Names) > 0 {
				return data.Changes{Refused: data.Refuse(data.KindConflict, "exists", "run %d is there already", run.Key)}
			}
			return data.Changes{Rows: rows}
		},
	}
}

// Whatever question or answer a connection is cut at, a commit that is repeated is written once.
func TestConnectionCutAnywhereLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	direct := postgrestest.New(t)
	p, through := storagetest.NewProxy(t, direct)
	db := open(t, through)
	log := newLog(t, joined(t, db), 1)
	said, runs := 0, 1
	for _, decides := range []bool{false, true} {
		for cut, clean := int64(1), 0; clean < 3; cut++ { // until nothing is left to cut
			events := log.batch(2)
			said += len(events)
			b := &data.Batch{Events: events}
			if decides {
				runs++
				b = log.decision(t, events)
			}
			log.n++
			p.Left.Store(cut)
			tries := retry(t, func() error { return db.Commit(t.Context(), log.n, b) })
			if clean++; tries > 1 {
				clean = 0
			}
			p.Left.Store(math.MaxInt64)
		}
	}
	for i, ev := range readLog(t, db, log.threads[0], 500) {
		if ev.ID != int64(i+1) {
			t.Fatalf("event %d is at place %d", ev.ID, i+1)
		}
		said--
	}
	if said != 0 {
		t.Errorf("%d events are missing", said)
	}
	if _, total, err := storagetest.Parts(db.ByProject().Runs(t.Context(), data.RunFilter{Project: "p", Count: true})); err != nil || total != runs {
		t.Errorf("%d runs, %v, want %d", total, err, runs)
	}
}

func TestSilentNetworkEndsInErrUnavailable(t *testing.T) {
	t.Parallel()
	direct := postgrestest.New(t)
	p, through := storagetest.NewProxy(t, direct)
	db, err := storage.Open(t.Context(), storage.Config{
		URL: through, Migrate: true, Timeout: time.Second, LockTimeout: time.Second, ConnectTimeout: time.Second,
	})
	must(t, err)
	defer db.Close()
	log := newLog(t, joined(t, db), 1)

	limited := func(what string, call func() error) {
		t.Helper()
		start := time.Now()
		if err := call(); !errors.Is(err, data.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrUnavailable", what, err)
		}
		if took := time.Since(start); took > time.Minute {
			t.Errorf("%s took %v", what, took)
		}
	}
	// Silence falls while a transaction is open and holds the instance's row.
	events := log.batch(5)
	log.n++
	commit := func() error {
		return db.Commit(context.WithoutCancel(t.Context()), log.n, &data.Batch{
			Events: events, Asks: make([]data.Ask, 1),
			Decide: func(int, *data.View) data.Changes { p.Silent.Store(true); return data.Changes{} },
		})
	}
	limited("Commit", commit)
	limited("Events", func() error {
		_, err := db.Events(t.Context(), log.threads[0], 0, 10)
		return err
	})
	p.Silent.Store(false)
	retry(t, func() error { return db.Commit(t.Context(), log.n, &data.Batch{Events: events}) })
	if got := readLog(t, open(t, direct), log.threads[0], 100); len(got) != 5 {
		t.Errorf("%d events, want 5", len(got))
	}
}

func TestEventsGoToTheirDay(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	log := newLog(t, joined(t, open(t, url)), 1)
	log.commit(t, log.batch(3))
	db, err := sql.Open("postgres", url)
	must(t, err)
	defer db.Close()
	count := func(query string) (n int) {
		t.Helper()
		must(t, db.QueryRowContext(t.Context(), query).Scan(&n))
		return n
	}
	if n := count(`SELECT count(*) FROM pg_inherits WHERE inhparent = 'events'::regclass`); n != 3 {
		t.Errorf("%d partitions, want today, tomorrow and the default", n)
	}
	if n := count(`SELECT count(*) FROM events_default`); n != 0 {
		t.Errorf("%d rows are in the default partition", n)
	}
}

// Connections that the database has closed meanwhile are no reason for a server that stops in order to say that it has failed.
func TestCloseOfLostConnectionsIsNoFailure(t *testing.T) {
	t.Parallel()
	direct := postgrestest.New(t)
	db, err := storage.Open(t.Context(), storage.Config{URL: direct, Migrate: true})
	must(t, err)
	defer db.Close()
	log := newLog(t, joined(t, db), 1)
	if _, err := db.Events(t.Context(), log.threads[0], 0, 10); err != nil {
		t.Fatal(err)
	}
	q, err := sqlx.Open("postgres", direct)
	must(t, err)
	defer q.Close()
	const others = "pid <> pg_backend_pid() AND datname = current_database()"
	q.MustExec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE " + others)
	for n := 1; n > 0; {
		must(t, q.Get(&n, "SELECT count(*) FROM pg_stat_activity WHERE "+others))
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
