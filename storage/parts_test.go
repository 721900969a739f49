package storage

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/members"
	"github.com/batonrun/baton/storage/sqldb"
	"github.com/batonrun/baton/storage/storagetest"
)

// However much there is to tidy up, commits get their turn.
func TestHousekeepingGoesInParts(t *testing.T) {
	t.Parallel()
	parts := 0
	db := tapped(t, func(query string, do func() error) error {
		if strings.Contains(query, "DELETE FROM idempotency_keys") || strings.Contains(query, "DELETE FROM memos") {
			parts++
		}
		return do()
	})
	ctx, now := t.Context(), time.Now()
	must(t, db.Members().Join(ctx, "instance", ""))
	ended := now.Add(-25 * time.Hour)
	run := data.RunHead{Key: 1, ThreadKey: 1, Generation: 1, Status: data.Completed, FinishedAt: &ended}
	rows := []data.Row{&data.Thread{ThreadHead: data.ThreadHead{Key: 1}}, &data.Run{RunHead: run}}
	const n = 2*members.TidyRows + members.TidyRows/2
	for i := range n {
		rows = append(rows, &data.IdempotencyKey{Scope: fmt.Sprint(i), CreatedAt: ended},
			&data.Memo{RunKey: 1, Generation: 1, Place: fmt.Sprint(i)})
	}
	must(t, db.Commit(ctx, 1, &data.Batch{Rows: rows}))
	for table, tidy := range map[string]func() error{
		"idempotency_keys": func() error { return db.Retention.ForgetKeys(ctx, now) },
		"memos":            func() error { return db.Retention.Prune(ctx, now) },
	} {
		parts = 0
		must(t, tidy())
		if left, err := sqldb.One(ctx, db.read, sqldb.Scalar[int], "SELECT count(*) FROM "+table); parts != 3 || left != 0 || err != nil {
			t.Errorf("%s: %d parts, %d rows are left, %v", table, parts, left, err)
		}
	}
}

// No statement of the instance that writes takes as long as its lease, nor does PostgreSQL wait for the instance in a transaction for as long.
func TestStatementsAreShorterThanTheLease(t *testing.T) {
	t.Parallel()
	url := storagetest.Postgres(t).NewDatabase(t)
	for lease, want := range map[time.Duration]string{6 * time.Second: "2s 4s 4000", 15 * time.Second: "5s 10s 10000", time.Hour: "30s 10s 35000", time.Millisecond: "1s 2s 2000"} {
		db, err := Open(t.Context(), Config{URL: url, Migrate: true, Lease: lease})
		must(t, err)
		defer db.Close()
		var got string
		if err := db.w.Pool.SQL.GetContext(t.Context(), &got, `SELECT concat_ws(' ', current_setting('statement_timeout'),
			current_setting('idle_in_transaction_session_timeout'), current_setting('tcp_user_timeout'))`); err != nil || got != want {
			t.Errorf("with a lease of %v: %s, %v, want %s", lease, got, err, want)
		}
	}
}

// A commit that takes longer than the lease renews it, so that the instance does not count as dead.
func TestLateCommitRenewsTheLease(t *testing.T) {
	url := storagetest.Postgres(t).NewDatabase(t)
	const lease = time.Second
	db, err := Open(t.Context(), Config{URL: url, Migrate: true, Lease: lease})
	must(t, err)
	defer db.Close()
	must(t, db.Members().Join(t.Context(), "instance", ""))
	err = db.Commit(t.Context(), 1, &data.Batch{Asks: make([]data.Ask, 1), Decide: func(_ int, v *data.View) data.Changes {
		for now := v.Now; now.Before(v.Now.Add(lease)); {
			if now, err = sqldb.Now(t.Context(), db.read); err != nil {
				t.Error(err)
				break
			}
		}
		return data.Changes{}
	}})
	must(t, err)
	expired, err := sqldb.One(t.Context(), db.read, sqldb.Scalar[bool], "SELECT leased_until <= clock_timestamp() FROM instances")
	if err != nil || expired {
		t.Errorf("the lease has run out: %t, %v", expired, err)
	}
}

// A day is over by the database's clock, which says to which day an event belongs.
func TestDaysEndByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	db, err := Open(t.Context(), Config{URL: storagetest.Postgres(t).NewDatabase(t), Migrate: true})
	must(t, err)
	defer db.Close()
	must(t, db.Members().Join(t.Context(), "instance", ""))
	if _, err := db.Retention.Seal(t.Context(), time.Now().Add(72*time.Hour)); err != nil {
		t.Fatal(err)
	}
	days, err := sqldb.All(t.Context(), db.read, sqldb.Scalar[string], selectPartitions)
	if err != nil || len(days) != 2 {
		t.Errorf("of today and tomorrow %v is left, %v", days, err)
	}
}

// Beside a dump, which locks all tables, servers start and write, and none is fenced. The events of that day have no partition, but those
// of the next day have one.
func TestServers_GoOnBesideADump(t *testing.T) {
	t.Parallel()
	url := storagetest.Postgres(t).NewDatabase(t)
	const lease = time.Hour
	y := joins(t, Config{URL: url, Migrate: true, Lease: lease}, "y")
	days := func() []string {
		t.Helper()
		days, err := sqldb.All(t.Context(), y.read, sqldb.Scalar[string], selectPartitions)
		must(t, err)
		return days
	}
	for _, day := range days() {
		if _, err := y.w.Pool.SQL.ExecContext(t.Context(), fmt.Sprintf(dropPartition, day)); err != nil {
			t.Fatal(err)
		}
	}
	dump, err := openForPlans(t, url).w.Pool.SQL.BeginTxx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	must(t, err)
	defer dump.Rollback() //nolint:errcheck // it is over then
	if _, err := dump.ExecContext(t.Context(), `DO $$ DECLARE name text;
BEGIN FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'baton' LOOP EXECUTE 'LOCK TABLE ' || name || ' IN ACCESS SHARE MODE'; END LOOP; END $$`); err != nil {
		t.Fatal(err)
	}
	x := joins(t, Config{URL: url + "&lock_timeout=50", Lease: lease}, "x")
	n := int64(0)
	say := func() {
		t.Helper()
		n++
		events := []data.StoredEvent{{ThreadKey: 1, ID: n, RunKey: 1, Payload: []byte("{}")}}
		if err := x.Commit(t.Context(), n, &data.Batch{Events: events}); err != nil || lookAfter(t, y, 3*lease) {
			t.Fatalf("fenced, %v", err)
		}
	}
	for range 3 {
		say()
	}
	if got := days(); len(got) > 0 {
		t.Errorf("the dump has not locked the tables: there are %v", got)
	}
	must(t, dump.Rollback())
	x.commits.prepared = time.Time{} // a minute later
	say()
	now, err := x.Members().Now(t.Context())
	if tomorrow := now.AddDate(0, 0, 1).Format(partitionFormat); err != nil || !slices.Equal(days(), []string{tomorrow}) {
		t.Errorf("there are partitions %v, %v, want %s", days(), err, tomorrow)
	}
}
