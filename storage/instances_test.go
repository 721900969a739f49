package storage_test

import (
	"bufio"
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/postgrestest"
)

func leased(t *testing.T, url string, lease time.Duration) *storage.DB {
	t.Helper()
	db, err := storage.Open(t.Context(), storage.Config{URL: url, Serve: true, Migrate: true, Lease: lease})
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func wantHeld(t *testing.T, err error) {
	t.Helper()
	if held, ok := errors.AsType[*data.HeldError](err); !ok || *held != (data.HeldError{Instance: "instance", Addr: "127.0.0.1:1"}) {
		t.Errorf("%v, want it to name instance at 127.0.0.1:1", err)
	}
}

// wantFenced checks that a write fails because its instance was fenced. The fence has also ended its session.
func wantFenced(t *testing.T, write func() error) {
	t.Helper()
	err := write()
	for errors.Is(err, data.ErrUnavailable) {
		err = write()
	}
	if !errors.Is(err, data.ErrFenced) {
		t.Errorf("%v, want ErrFenced", err)
	}
}

// ends checks why an instance may not write any more.
func ends(t *testing.T, db *storage.DB, instance string, want data.End) {
	t.Helper()
	if in, err := db.Members().Instance(t.Context(), instance); err != nil || in.End != want {
		t.Errorf("%s: %+v, %v, want the end %q", instance, in, err, want)
	}
}

// A claim that an instance has outlived by a second can be told from one that it has not, also where an idle instance writes nothing and
// where it writes events alone.
func TestInstances_ShowWhichBatchTheyOutlived(t *testing.T) {
	t.Parallel()
	for name, open := range databases {
		for _, events := range []bool{false, true} {
			db := open(t)
			log := newLog(t, joined(t, db), 1)
			was, err := db.Members().Instance(t.Context(), "instance")
			for in := was; err == nil && in.SeenAt.Sub(was.SeenAt) < time.Second; in, err = db.Members().Instance(t.Context(), "instance") {
				if <-time.After(5 * time.Millisecond); events {
					log.commit(t, log.batch(1))
				} else if err := db.Members().Renew(t.Context(), log.n); err != nil {
					t.Fatal(err)
				}
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// Several instances write a database, and each may leave or be fenced.
func TestInstances_WriteBesideOthers(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	first, second := leased(t, url, time.Hour), leased(t, url, time.Hour)
	joined(t, first)
	wantHeld(t, second.Registry.Unused(t.Context()))
	if err := errors.Join(second.Members().Join(t.Context(), "second", "b"), first.Commit(t.Context(), 1, &data.Batch{}), second.Commit(t.Context(), 1, &data.Batch{})); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(first.Members().Leave(t.Context()), second.Commit(t.Context(), 2, &data.Batch{}), first.Members().Join(t.Context(), "third", "c"), first.Members().Fence(t.Context(), "second")); err != nil {
		t.Fatal(err)
	}
	if err := second.Members().Renew(t.Context(), 2); !errors.Is(err, data.ErrFenced) {
		t.Errorf("Renew of the fenced one: %v, want ErrFenced", err)
	}
	ends(t, first, "second", data.EndFenced)
}

// An instance sees what the others have reserved of a project's budgets, until they have ended.
func TestReserveBudgets_ShowsLivingInstances(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	first, second := leased(t, url, time.Hour), leased(t, url, time.Hour)
	joined(t, first)
	must(t, second.Members().Join(t.Context(), "second", "b"))
	reserve := func(db *storage.DB, instance, project string, amounts ...int64) (others int64) {
		t.Helper()
		if err := db.Budgets().ReserveBudgets(t.Context(), instance, project, func(list []data.Reserved) (ours []data.Reserved, _ error) {
			for _, r := range list {
				others += r.Amount
			}
			for i, n := range amounts {
				ours = append(ours, data.Reserved{Budget: "b", Subject: string(rune('a' + i)), From: data.Day(time.Now()), Amount: n})
			}
			return ours, nil
		}); err != nil {
			t.Fatal(err)
		}
		return others
	}
	reserve(second, "second", "p", 1, 2)
	reserve(second, "second", "other", 4)
	if got := reserve(first, "instance", "p", 8); got != 3 {
		t.Errorf("the first sees %d, want 3", got)
	}
	if got := reserve(second, "second", "p", 16); got != 8 {
		t.Errorf("the second sees %d, want 8", got)
	}
	must(t, first.Members().Fence(t.Context(), "second"))
	if got := reserve(first, "instance", "p"); got != 0 {
		t.Errorf("of a server that has ended the first sees %d", got)
	}
}

// An instance whose lease has run out by the database's clock is fenced once it has been seen silent for a lease, unless it renews
// the lease or commits something.
func TestLeaseRunsOut(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	first, second := leased(t, url, time.Hour), leased(t, url, 50*time.Millisecond)
	log := newLog(t, joined(t, first), 1)
	expire := func() {
		t.Helper()
		execute(t, url, `UPDATE instances SET leased_until = clock_timestamp()`)
	}
	expire()
	must(t, first.Members().Renew(t.Context(), log.n))
	wantHeld(t, second.Registry.Unused(t.Context()))
	expire()
	log.n++
	must(t, first.Commit(t.Context(), log.n, &data.Batch{}))
	wantHeld(t, second.Registry.Unused(t.Context()))
	expire()
	log.n++
	if err := first.Commit(t.Context(), log.n, &data.Batch{Events: log.batch(1)}); err != nil { // in one statement
		t.Fatal(err)
	}
	wantHeld(t, second.Registry.Unused(t.Context()))
	for what, renew := range map[string]func() error{ // while the outcome of a batch is unknown, and once it is known
		"KeepLease":          func() error { return first.Members().KeepLease(t.Context()) },
		"the same batch":     func() error { return first.Commit(t.Context(), log.n, &data.Batch{}) },
		"the same of events": func() error { return first.Commit(t.Context(), log.n, &data.Batch{Events: log.batch(1)}) },
	} {
		expire()
		if err := renew(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		wantHeld(t, second.Registry.Unused(t.Context()))
	}
	expire()
	looks := 0
	for err := error(nil); ; looks++ {
		held, others := errors.AsType[*data.HeldError](err)
		if others && (!held.Silent || held.Instance != "instance") {
			t.Fatalf("Unused: %v, %+v", err, held)
		}
		if err = second.Registry.Unused(t.Context()); err == nil {
			break
		}
		if _, others := errors.AsType[*data.HeldError](err); !others {
			t.Fatal(err)
		}
	}
	if looks < 1 {
		t.Error("it was fenced at the first look")
	}
	wantFenced(t, func() error { return first.Members().Renew(t.Context(), log.n) })
	if err := first.Members().KeepLease(t.Context()); err != nil {
		t.Errorf("KeepLease of the one before: %v", err)
	}
	ends(t, second, "instance", data.EndCrashed)
}

// A database that a newer Baton has migrated meanwhile is not joined, whoever had it before.
func TestNewerSchemaIsNotJoined(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"sqlite": newSQLite(t), "postgres": postgrestest.New(t)} {
		t.Run(name, func(t *testing.T) {
			first, second := leased(t, url, time.Millisecond), openBeside(t, url)
			joined(t, first)
			execute(t, url, `INSERT INTO schema_versions (version_id, is_applied) VALUES (1000, TRUE)`)
			execute(t, url, `UPDATE schema_oldest SET oldest = 1000`)
			if err := second.Members().Join(t.Context(), "second", ""); !errors.Is(err, data.ErrSchema) {
				t.Errorf("Join: %v, want ErrSchema", err)
			}
			ends(t, second, "instance", "")
		})
	}
}

// openBeside opens a database that another one may have the lock of.
func openBeside(t *testing.T, url string) *storage.DB {
	t.Helper()
	db, err := storage.Open(t.Context(), storage.Config{URL: url})
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// execute runs a statement beside the store.
func execute(t *testing.T, url, statement string) {
	t.Helper()
	driver := "postgres"
	if file, ok := strings.CutPrefix(url, "sqlite:"); ok {
		driver, url = "sqlite", "file:"+file+"?_pragma=busy_timeout(10000)"
	}
	db, err := sql.Open(driver, url)
	must(t, err)
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// Join does not wait for an instance whose process was killed on this machine.
func TestKilledInstanceIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	if url := os.Getenv("BATON_TEST_JOIN"); url != "" {
		joined(t, leased(t, url, time.Hour))
		_, _ = os.Stdout.WriteString("joined\n")
		select {}
	}
	url := postgrestest.New(t)
	second := leased(t, url, time.Hour)
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledInstanceIsNotWaitedFor$")
	cmd.Env = append(os.Environ(), "BATON_TEST_JOIN="+url)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	if said, err := bufio.NewReader(out).ReadString('\n'); said != "joined\n" {
		t.Fatalf("the process said %q, %v", said, err)
	}
	wantHeld(t, second.Registry.Unused(t.Context()))
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	must(t, second.Members().Join(t.Context(), "second", ""))
	ends(t, second, "instance", data.EndCrashed)
}

// Processes of other machines, and new processes with the same number, are distinguished.
func TestOtherProcessesAreToldApart(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	first, second := leased(t, url, time.Hour), leased(t, url, time.Hour)
	joined(t, first)
	execute(t, url, `UPDATE instances SET process = 'another-machine ' || process`)
	wantHeld(t, second.Registry.Unused(t.Context()))
	execute(t, url, `UPDATE instances SET process = replace(process, 'another-machine ', '') || '0'`)
	if err := second.Members().Join(t.Context(), "second", ""); err != nil {
		t.Errorf("the number is another process's: %v", err)
	}
}

func TestKeys_AreOrderedOverAllServersButForAMoment(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	servers := []*storage.DB{leased(t, url, time.Hour), leased(t, url, time.Hour)}
	highest := int64(0)
	for range 3 {
		given, before := make(map[int64]bool), highest
		for i := range 100 {
			key, err := servers[i%2].NewRunKey(t.Context())
			if err != nil || key <= before || given[key] {
				t.Fatalf("the key %d after %d, given: %t, %v", key, before, given[key], err)
			}
			given[key], highest = true, max(highest, key)
		}
		<-time.After(50 * time.Millisecond) // the rest of the last keys serves no more
	}
}
