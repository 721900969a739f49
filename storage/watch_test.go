package storage

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
	"github.com/batonrun/baton/storage/storagetest"
)

// joins opens the database as an instance.
func joins(t *testing.T, cfg Config, instance string) *DB {
	t.Helper()
	db, err := Open(t.Context(), cfg)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	must(t, db.Members().Join(t.Context(), instance, ""))
	return db
}

// lookAfter has a server look at the others once its clock has gone on by d since its last look.
func lookAfter(t *testing.T, server *DB, d time.Duration) (gone bool) {
	t.Helper()
	for {
		counted := server.watcher.Elapse(d)
		seen, err := server.Members().Watch(t.Context())
		must(t, err)
		if seen.Gone || counted() {
			return seen.Gone
		}
		d = 0
	}
}

// until waits for a condition.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it is never so that %s", what)
		}
	}
}

// count returns the number that a query selects.
func count(t *testing.T, db *DB, query string) (n int) {
	t.Helper()
	must(t, db.w.Pool.SQL.GetContext(t.Context(), &n, query))
	return n
}

// An instance whose batch cannot be written renews its lease between the attempts, and is not fenced.
func TestWatch_LeavesABusyInstanceAlone(t *testing.T) {
	t.Parallel()
	url := storagetest.Postgres(t).NewDatabase(t)
	const lease = time.Hour
	y := joins(t, Config{URL: url, Migrate: true, Lease: lease}, "y")
	x := joins(t, Config{URL: url + "&lock_timeout=50", Lease: lease}, "x")
	other, err := openForPlans(t, url).w.Pool.SQL.BeginTxx(t.Context(), nil)
	must(t, err)
	defer other.Rollback() //nolint:errcheck // it is over then
	if _, err := other.ExecContext(t.Context(), "INSERT INTO idempotency_keys (scope, body_hash, run_key, answer, created_at) VALUES ('key', '', 0, '', now())"); err != nil {
		t.Fatal(err)
	}
	batch := &data.Batch{Rows: []data.Row{&data.IdempotencyKey{Scope: "key", CreatedAt: time.Now()}}}
	for range 3 {
		if err := x.Commit(t.Context(), 1, batch); !errors.Is(err, data.ErrUnavailable) {
			t.Fatalf("Commit: %v, want ErrUnavailable", err)
		}
		if err := x.Members().KeepLease(t.Context()); err != nil || lookAfter(t, y, 3*lease) {
			t.Fatalf("fenced, %v", err)
		}
	}
	if err := errors.Join(other.Rollback(), x.Commit(t.Context(), 1, batch)); err != nil {
		t.Error(err)
	}
}

// What a COMMIT has written that waited for a standby when its session ended is not acknowledged before the standby has it.
func TestConfirm_WaitsForTheStandby(t *testing.T) {
	t.Parallel()
	pg := storagetest.StartPostgres(t)
	url := pg.NewDatabase(t)
	x := joins(t, Config{URL: url, Migrate: true}, "x")
	admin := openForPlans(t, url).w.Pool.SQL
	exec := func(statement string) {
		t.Helper()
		if _, err := admin.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	standby := func(name string) {
		t.Helper()
		exec("ALTER SYSTEM SET synchronous_standby_names = '" + name + "'")
		exec("SELECT pg_reload_conf()")
		for shown := name + "?"; shown != name; <-time.After(time.Millisecond) {
			must(t, admin.GetContext(t.Context(), &shown, "SHOW synchronous_standby_names"))
		}
	}
	standby("away")
	// commit makes commit n, and returns once it waits. ok is false if it has not waited.
	commit := func(n int64) (done chan error, ok bool) {
		done = make(chan error, 1)
		go func() {
			done <- x.Commit(t.Context(), n, &data.Batch{Asks: make([]data.Ask, 1), Decide: func(int, *data.View) data.Changes { return data.Changes{} }})
		}()
		for waiting := 0; waiting == 0; <-time.After(time.Millisecond) {
			must(t, admin.GetContext(t.Context(), &waiting, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"))
			select {
			case err := <-done:
				if err != nil {
					t.Fatalf("Commit: %v", err)
				}
				return nil, false
			default:
			}
		}
		return done, true
	}
	n := int64(1)
	first, ok := commit(n)
	for ; !ok; first, ok = commit(n) { // until PostgreSQL's checkpointer, which tells the others of a standby, has read the setting
		n++
	}
	exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
	if err := <-first; !errors.Is(err, data.ErrUnavailable) {
		t.Errorf("Commit: %v, want ErrUnavailable", err)
	}
	again, ok := commit(n) // which can be read already
	if !ok {
		t.Fatal("what the standby does not have is acknowledged")
	}
	standby("")
	if err := <-again; err != nil {
		t.Errorf("Commit once the standby is not waited for: %v", err)
	}
}

// An instance whose commit lasts longer than its lease is not fenced while the transaction has its row locked. After another lease it
// is taken for stopped: its session is ended, nothing of the commit is stored, and nobody has waited for it.
func TestWatch_LeavesALongCommitAnotherLease(t *testing.T) {
	t.Parallel()
	url := storagetest.Postgres(t).NewDatabase(t)
	const lease = time.Hour
	x := joins(t, Config{URL: url + "&idle_in_transaction_session_timeout=0", Migrate: true, Lease: lease}, "x")
	y := joins(t, Config{URL: url, Lease: lease}, "y")
	// begins begins a commit that remembers the key once it is released. The lease has expired by the database's clock.
	begins := func(n int64, key string) (release func(), committed chan error) {
		if _, err := y.w.Pool.SQL.ExecContext(t.Context(), "UPDATE instances SET leased_until = clock_timestamp() WHERE id = 'x'"); err != nil {
			t.Fatal(err)
		}
		lookAfter(t, y, 0)
		begun, released := make(chan struct{}), make(chan struct{})
		release, committed = sync.OnceFunc(func() { close(released) }), make(chan error, 1)
		t.Cleanup(release)
		go func() {
			committed <- x.Commit(t.Context(), n, &data.Batch{Asks: []data.Ask{{Scope: key}}, Decide: func(int, *data.View) data.Changes {
				close(begun)
				<-released
				return data.Changes{Rows: []data.Row{&data.IdempotencyKey{Scope: key, CreatedAt: time.Now()}}}
			}})
		}()
		select {
		case <-begun:
		case err := <-committed:
			t.Fatal(err)
		}
		return release, committed
	}
	release, committed := begins(1, "long")
	for _, d := range []time.Duration{lease, lease / 2} {
		if lookAfter(t, y, d) {
			t.Fatal("it is fenced in a commit")
		}
	}
	release()
	if err := <-committed; err != nil || lookAfter(t, y, lease/2) {
		t.Fatalf("it is fenced after a long commit, %v", err)
	}

	release, committed = begins(2, "stopped")
	if lookAfter(t, y, lease) {
		t.Fatal("it is fenced in a commit")
	}
	until(t, "a stopped transaction is ended", func() bool { return lookAfter(t, y, lease) })
	for n, key := range []string{"long", "stopped"} {
		b := &data.Batch{Asks: []data.Ask{{Scope: key}}, Decide: func(_ int, v *data.View) data.Changes {
			if _, known := v.Remembered[key]; known != (key == "long") {
				t.Errorf("the commit %q is there: %t", key, known)
			}
			return data.Changes{}
		}}
		if err := y.Commit(t.Context(), int64(n+1), b); err != nil || len(b.Deferred) > 0 {
			t.Errorf("after the commit %q: %v, deferred %v", key, err, b.Deferred)
		}
	}
	release()
	if err := <-committed; err == nil {
		t.Error("the stopped transaction was committed")
	}
	if in, err := y.Members().Instance(t.Context(), "x"); err != nil || in.End != data.EndCrashed {
		t.Errorf("%+v, %v", in, err)
	}
	if seen, err := x.Members().Watch(t.Context()); err == nil || seen.Gone {
		t.Errorf("the fenced one judges others: %+v, %v", seen, err)
	}
}

// stuck waits until a session of the instance x is blocked in sending to a client that does not read.
func stuck(t *testing.T, db *DB) {
	t.Helper()
	until(t, "a session cannot send", func() bool {
		return count(t, db, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'baton x' AND wait_event = 'ClientWrite'") == 1
	})
}

// A server may be stopped while PostgreSQL sends it a large answer. PostgreSQL ends the session after the time for which the server
// would wait for an answer; and if that is longer than two leases, others end it with the fence. The locks end with it.
func TestWatch_EndsASessionThatNobodyReads(t *testing.T) {
	t.Parallel()
	for what, lease := range map[string]time.Duration{"PostgreSQL": 9 * time.Second, "the watcher": time.Hour} {
		t.Run(what, func(t *testing.T) {
			url := storagetest.Postgres(t).NewDatabase(t)
			y := joins(t, Config{URL: url, Migrate: true, Lease: time.Hour}, "y")
			p, through := storagetest.NewProxy(t, url)
			defer p.Restore()
			x := joins(t, Config{URL: through, Lease: lease}, "x")
			must(t, y.Commit(t.Context(), 1, &data.Batch{Rows: []data.Row{&data.Thread{ThreadHead: data.ThreadHead{Key: 1}}}}))
			stopped, ended := make(chan struct{}), make(chan error, 1)
			stop := sync.OnceFunc(func() {
				p.Stuck.Store(true)
				close(stopped)
			})
			go func() {
				ended <- x.commits.w.Aside(t.Context(), func(tx *sqldb.Tx) error {
					if err := tx.Exec(lockUnsealed, 1); err != nil {
						return err
					}
					_, err := sqldb.All(t.Context(), tx, func(rows *sql.Rows) (string, error) {
						stop()
						return sqldb.Scalar[string](rows)
					}, "SELECT repeat('x', 1 << 20) FROM generate_series(1, 64)")
					return err
				})
			}()
			select {
			case <-stopped:
			case err := <-ended:
				t.Fatal(err)
			}
			n := int64(1)
			locked := func() bool {
				n++
				b := &data.Batch{Asks: []data.Ask{{Thread: 1}}, Decide: func(int, *data.View) data.Changes { return data.Changes{} }}
				must(t, y.Commit(t.Context(), n, b))
				return len(b.Deferred) > 0
			}
			if what == "PostgreSQL" {
				until(t, "the thread is free", func() bool { return !locked() })
			} else if stuck(t, y); !locked() {
				t.Error("the thread is not locked")
			}
			until(t, "the server is fenced", func() bool { return lookAfter(t, y, 3*time.Hour) })
			if locked() {
				t.Error("the thread of a fenced server is locked")
			}
			p.Stuck.Store(false)
			if err := <-ended; err == nil {
				t.Error("the answer was read")
			}
		})
	}
}

// A stopped server that listens keeps all notifications behind it in PostgreSQL's queue, until it is fenced.
func TestWatch_EndsAStoppedListener(t *testing.T) {
	t.Parallel()
	url := storagetest.StartPostgres(t).NewDatabase(t)
	const lease = time.Hour
	y := joins(t, Config{URL: url, Migrate: true, Lease: lease}, "y")
	p, through := storagetest.NewProxy(t, url)
	defer p.Restore()
	x := joins(t, Config{URL: through, Lease: lease}, "x")
	b := x.Registry.Bus()
	defer b.Close()
	now, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Receive(now); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	p.Stuck.Store(true)
	if _, err := y.w.Pool.SQL.ExecContext(t.Context(), "SELECT pg_notify($1, repeat('x', 7900) || n) FROM generate_series(1, 3000) n", "baton"); err != nil {
		t.Fatal(err)
	}
	stuck(t, y)
	queued := func() bool { return count(t, y, "SELECT (pg_notification_queue_usage() > 0.002)::int") == 1 }
	if lookAfter(t, y, lease) || !queued() {
		t.Error("nothing is in the queue")
	}
	until(t, "the server is fenced", func() bool { return lookAfter(t, y, 3*lease) })
	until(t, "the queue is empty", func() bool { return !queued() })
	p.Stuck.Store(false)
}

// Where writing fails, a look fails, and no instance is fenced once writing is possible again.
func TestWatch_FencesNobodyWhereNobodyCanWrite(t *testing.T) {
	url := storagetest.Postgres(t).NewDatabase(t)
	db, err := Open(t.Context(), Config{URL: url, Migrate: true, Lease: 50 * time.Millisecond})
	must(t, err)
	defer db.Close()
	other := openForPlans(t, url)
	must(t, db.Members().Join(t.Context(), "watcher", ""))
	exec := func(statement string) {
		t.Helper()
		if _, err := other.w.Pool.SQL.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	exec(`INSERT INTO servers (instance, name, schema, seen_at) VALUES ('x', '', 1, now())`)
	exec(`INSERT INTO instances VALUES ('x', FALSE, '', '', '', 1, now() - interval '1 hour', now())`)
	if seen, err := db.Members().Watch(t.Context()); seen.Gone || err != nil {
		t.Fatalf("%+v, %v", seen, err)
	}
	for range 3 {
		func() {
			conn, err := other.w.Pool.SQL.BeginTxx(t.Context(), &sql.TxOptions{})
			must(t, err)
			defer conn.Rollback() //nolint:errcheck // it has only a lock
			if _, err := conn.ExecContext(t.Context(), "LOCK TABLE servers IN SHARE MODE"); err != nil {
				t.Fatal(err)
			}
			if seen, err := db.Members().Watch(t.Context()); seen.Gone || err == nil {
				t.Errorf("%+v, %v", seen, err)
			}
		}()
	}
	if in, err := db.Members().Instance(t.Context(), "x"); err != nil || in.End != "" {
		t.Errorf("%+v, %v", in, err)
	}
}
