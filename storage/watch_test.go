package storage

import (
	"database/sql"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/storagetest"
)

// An instance has died once its row has stood still for a lease, over an unbroken chain of looks.
func TestWatch_JudgesByAnUnbrokenChainOfLooks(t *testing.T) {
	const lease = 4 * time.Second
	start := time.Now()
	// at is a look at a second that took some, and saw the rows.
	at := func(second, took float64, rows ...sighting) look {
		began := start.Add(time.Duration(second * float64(time.Second)))
		return look{began, began.Add(time.Duration(took * float64(time.Second))), rows}
	}
	x := func(n int64) sighting { return sighting{id: "x", commit: n, leased: n, expired: true} }
	valid := func(n int64) sighting { return sighting{id: "x", commit: n, leased: n} }
	every := func(from, to float64, row sighting) (looks []look) {
		for s := from; s <= to; s++ {
			looks = append(looks, at(s, 0.1, row))
		}
		return looks
	}
	for name, test := range map[string]struct {
		looks  []look
		dead   bool // after the last look, and not before
		locked bool
		gone   bool
	}{
		"a lease": {looks: every(0, 5, x(1)), dead: true},
		"not yet a lease since the end of a look": {looks: every(0, 4, x(1))},
		"it commits":                               {looks: slices.Concat(every(0, 3, x(1)), every(4, 7, x(2)))},
		"it renews its lease":                      {looks: append(every(0, 4, x(1)), at(5, 0.1, sighting{id: "x", commit: 1, leased: 2, expired: true}))},
		"it dies later":                            {looks: slices.Concat(every(0, 3, x(1)), every(4, 9, x(2))), dead: true},
		"its lease lasts longer":                   {looks: every(0, 12, valid(1))},
		"the clock was set back":                   {looks: every(0, 13, valid(1)), dead: true, locked: true},
		"its lease ends later":                     {looks: append(every(0, 6, valid(1)), at(7, 0.1, x(1))), dead: true},
		"the watcher was stopped":                  {looks: append(every(0, 2, x(1)), at(6, 0.1, x(1)))},
		"a lease after the watcher was stopped":    {looks: slices.Concat(every(0, 2, x(1)), every(6, 11, x(1))), dead: true},
		"nobody could write for three seconds":     {looks: append(every(0, 3, x(1)), at(4, 3.1, x(1)), at(7.2, 0.1, x(1)))},
		"a slow look does not count but is no gap": {looks: append(every(0, 3, x(1)), at(3.5, 2.4, x(1))), dead: false},
		"looks two seconds apart":                  {looks: []look{at(0, 0.1, x(1)), at(2, 0.1, x(1)), at(4.5, 0.1, x(1))}, dead: true},
		"its row is gone":                          {looks: append(every(0, 2, x(1)), at(3, 0.1)), gone: true},
		"its row is gone after a gap":              {looks: append(every(0, 2, x(1)), at(60, 0.1)), gone: true},
		"another one stands still":                 {looks: []look{at(0, 0.1, x(1), sighting{id: "y"}), at(3, 0.1, x(2), sighting{id: "y"}), at(5, 0.1, x(3), sighting{id: "y"})}},
	} {
		w := watch{lease: lease}
		for i, l := range test.looks {
			dead, gone, _ := w.add(l)
			last := i == len(test.looks)-1
			if died := len(dead) > 0; died != (test.dead && last) && (last || !test.locked) {
				t.Errorf("%s: after look %d it has died: %t", name, i, died)
			}
			if last && len(dead) > 0 && dead[0].locked != test.locked {
				t.Errorf("%s: its sessions are ended: %t", name, dead[0].locked)
			}
			if gone != (test.gone && last) {
				t.Errorf("%s: after look %d one is gone: %t", name, i, gone)
			}
		}
	}
}

// An instance that another one of its name has succeeded dies after three seconds. Two living ones of a name need a whole lease.
func TestWatch_ReplacesAnInstanceByItsSuccessor(t *testing.T) {
	start := time.Now()
	row := func(id, name string, n int64) sighting { return sighting{id: id, name: name, commit: n, leased: n} }
	old, next, far := func(n int64) sighting { return row("old", "pod", n) }, func(n int64) sighting { return row("next", "pod", n) }, row("far", "other", 1)
	for what, test := range map[string]struct {
		looks []look // one each second
		dead  []string
		twins int
	}{
		"a successor":           {looks: []look{{rows: []sighting{old(1), far}}, {rows: []sighting{old(2), far}}, {rows: []sighting{old(2), next(1), far}}, {rows: []sighting{old(2), next(2), far}}, {rows: []sighting{old(2), next(3), far}}}, dead: []string{"old"}},
		"no successor":          {looks: []look{{rows: []sighting{old(1)}}, {rows: []sighting{old(1)}}, {rows: []sighting{old(1)}}, {rows: []sighting{old(1)}}, {rows: []sighting{old(1)}}}},
		"a new watcher":         {looks: []look{{rows: []sighting{old(1), next(1)}}, {rows: []sighting{old(1), next(2)}}, {rows: []sighting{old(1), next(3)}}, {rows: []sighting{old(1), next(4)}}}, dead: []string{"old"}},
		"less than 3 seconds":   {looks: []look{{rows: []sighting{old(1), next(1)}}, {rows: []sighting{old(1), next(2)}}, {rows: []sighting{old(1), next(3)}}}},
		"both stand still":      {looks: []look{{rows: []sighting{old(1), next(1)}}, {rows: []sighting{old(1), next(1)}}, {rows: []sighting{old(1), next(1)}}, {rows: []sighting{old(1), next(1)}}}},
		"a slow batch of twins": {looks: []look{{rows: []sighting{old(1), next(1)}}, {rows: []sighting{old(2), next(2)}}, {rows: []sighting{old(2), next(3)}}, {rows: []sighting{old(2), next(4)}}, {rows: []sighting{old(2), next(5)}}, {rows: []sighting{old(2), next(6)}}}, twins: 1},
		"after the twins": {looks: []look{
			{rows: []sighting{old(1), next(1)}},
			{rows: []sighting{old(2), next(2)}},
			{rows: []sighting{old(3)}},
			{rows: []sighting{old(3), row("third", "pod", 1)}},
			{rows: []sighting{old(3), row("third", "pod", 2)}},
			{rows: []sighting{old(3), row("third", "pod", 3)}},
		}, dead: []string{"old"}, twins: 1},
		"without names": {looks: []look{{rows: []sighting{row("a", "", 1), row("b", "", 1)}}, {rows: []sighting{row("a", "", 1), row("b", "", 2)}}, {rows: []sighting{row("a", "", 1), row("b", "", 3)}}, {rows: []sighting{row("a", "", 1), row("b", "", 4)}}}},
	} {
		w := watch{lease: 15 * time.Second}
		var dead []string
		found := 0
		for i, l := range test.looks {
			l.began = start.Add(time.Duration(i)*time.Second + 10*time.Duration(i)*time.Millisecond)
			l.ended = l.began.Add(time.Millisecond)
			died, _, twins := w.add(l)
			found += len(twins)
			for _, d := range died {
				dead = append(dead, d.id)
				if i < len(test.looks)-1 {
					t.Errorf("%s: %s has died after look %d", what, d.id, i)
				}
			}
		}
		if !slices.Equal(dead, test.dead) || found != test.twins {
			t.Errorf("%s: %v have died, and %d names have two servers", what, dead, found)
		}
	}
}

// joins opens the database as an instance.
func joins(t *testing.T, url, instance string, lease time.Duration) *DB {
	t.Helper()
	db, err := Open(t.Context(), Config{URL: url, Migrate: true, Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := db.Join(t.Context(), instance, ""); err != nil {
		t.Fatal(err)
	}
	return db
}

// watchFor watches the others, and shows life, for a time.
func watchFor(t *testing.T, w *DB, d time.Duration) (gone bool) {
	t.Helper()
	for began := time.Now(); time.Since(began) < d; <-time.After(20 * time.Millisecond) {
		look := time.Now()
		ended, err := w.Watch(t.Context())
		if err := errors.Join(err, w.Renew(t.Context(), 0)); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(look); d > time.Second {
			t.Errorf("a look has waited for %v", d)
		}
		gone = gone || ended
	}
	return gone
}

// An instance whose batch cannot be written renews its lease between the attempts, and is not fenced.
func TestWatch_LeavesABusyInstanceAlone(t *testing.T) {
	url := storagetest.Postgres(t).NewDatabase(t)
	const lease = 2 * time.Second
	x, y := joins(t, url, "x", lease), joins(t, url, "y", lease)
	other, err := openForPlans(t, url).write.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Rollback() //nolint:errcheck // it is over then
	if _, err := other.ExecContext(t.Context(), "INSERT INTO idempotency_keys ("+keyColumns+") VALUES ('key', '', 0, '', now())"); err != nil {
		t.Fatal(err)
	}
	batch := &data.Batch{Rows: []data.Row{&data.IdempotencyKey{Scope: "key", CreatedAt: time.Now()}}}
	began := time.Now()
	for renewed := began; time.Since(began) < 2*lease; {
		if err := x.Commit(t.Context(), 1, batch); !errors.Is(err, data.ErrUnavailable) {
			t.Fatalf("Commit: %v, want ErrUnavailable", err)
		}
		err := x.KeepLease(t.Context())
		fenced := watchFor(t, y, time.Millisecond)
		if time.Since(renewed) > lease { // this machine has stood still, and x with it
			return
		}
		if renewed = time.Now(); err != nil || fenced {
			t.Fatalf("fenced: %v, %v", fenced, err)
		}
	}
	if err := errors.Join(other.Rollback(), x.Commit(t.Context(), 1, batch)); err != nil {
		t.Error(err)
	}
}

// What a COMMIT has written that waited for a standby when its session ended is not acknowledged before the standby has it.
func TestConfirm_WaitsForTheStandby(t *testing.T) {
	pg := storagetest.StartPostgres(t)
	url := pg.NewDatabase(t)
	x := joins(t, url, "x", time.Hour)
	admin := openForPlans(t, url).write
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
			if err := admin.GetContext(t.Context(), &shown, "SHOW synchronous_standby_names"); err != nil {
				t.Fatal(err)
			}
		}
	}
	standby("away")
	commit := func() <-chan error {
		done := make(chan error, 1)
		go func() {
			done <- x.Commit(t.Context(), 1, &data.Batch{Asks: make([]data.Ask, 1), Decide: func(int, *data.View) data.Changes { return data.Changes{} }})
		}()
		for waiting := 0; waiting == 0; <-time.After(time.Millisecond) {
			if err := admin.GetContext(t.Context(), &waiting, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-done:
				t.Fatalf("Commit does not wait: %v", err)
			default:
			}
		}
		return done
	}
	first := commit()
	exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
	if err := <-first; !errors.Is(err, data.ErrUnavailable) {
		t.Errorf("Commit: %v, want ErrUnavailable", err)
	}
	again := commit() // which can be read already
	standby("")
	if err := <-again; err != nil {
		t.Errorf("Commit once the standby is not waited for: %v", err)
	}
}

// A server that was stopped in a transaction is fenced after another lease, and no other waits for it meanwhile. Its transaction
// is rolled back.
func TestWatch_EndsATransactionThatStandsStill(t *testing.T) {
	url := storagetest.Postgres(t).NewDatabase(t)
	const lease = 300 * time.Millisecond
	x := joins(t, url, "x", lease)
	began := time.Now()
	y := joins(t, url, "y", lease) // its first look is in Join
	release := make(chan struct{})
	committed := make(chan error, 1)
	go func() {
		committed <- x.Commit(t.Context(), 1, &data.Batch{Asks: make([]data.Ask, 1), Decide: func(int, *data.View) data.Changes {
			<-release
			return data.Changes{}
		}})
	}()
	for n := int64(0); ; n++ {
		look := time.Now()
		gone, err := y.Watch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := y.Renew(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if gone {
			break
		}
		if d := time.Since(look); d > time.Second {
			t.Errorf("a look has waited for %v", d)
		}
		<-time.After(lease / 10)
	}
	if d := time.Since(began); d < 2*lease {
		t.Errorf("it was fenced after %v", d)
	}
	close(release)
	if err := <-committed; err == nil {
		t.Error("the transaction was committed")
	}
	if in, err := y.Instance(t.Context(), "x"); err != nil || in.End != data.EndCrashed {
		t.Errorf("%+v, %v", in, err)
	}
	if gone, err := x.Watch(t.Context()); err == nil || gone {
		t.Errorf("the fenced one judges others: %t, %v", gone, err)
	}
}

// Where writing fails, a look fails, and no instance is fenced once writing is possible again.
func TestWatch_FencesNobodyWhereNobodyCanWrite(t *testing.T) {
	url := storagetest.Postgres(t).NewDatabase(t)
	db, err := Open(t.Context(), Config{URL: url, Migrate: true, Lease: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	other := openForPlans(t, url)
	if err := db.Join(t.Context(), "watcher", ""); err != nil {
		t.Fatal(err)
	}
	exec := func(statement string) {
		t.Helper()
		if _, err := other.write.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	exec(`INSERT INTO servers (instance, name, alone, schema, seen_at) VALUES ('x', '', FALSE, 1, now())`)
	exec(`INSERT INTO instances VALUES ('x', FALSE, '', '', '', 1, now() - interval '1 hour', now())`)
	if gone, err := db.Watch(t.Context()); gone || err != nil {
		t.Fatalf("%t, %v", gone, err)
	}
	for range 3 {
		func() {
			conn, err := other.write.BeginTxx(t.Context(), &sql.TxOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Rollback() //nolint:errcheck // it has only a lock
			if _, err := conn.ExecContext(t.Context(), "LOCK TABLE servers IN SHARE MODE"); err != nil {
				t.Fatal(err)
			}
			if gone, err := db.Watch(t.Context()); gone || err == nil {
				t.Errorf("gone: %t, %v", gone, err)
			}
		}()
	}
	if in, err := db.Instance(t.Context(), "x"); err != nil || in.End != "" {
		t.Errorf("%+v, %v", in, err)
	}
}
