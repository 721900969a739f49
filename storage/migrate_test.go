package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/storagetest"
)

// replaces sets the oldest program to that of the migration withNext.
const replaces = "UPDATE schema_oldest SET oldest = 99999;"

// withNext is the dialect with one more migration than the databases have.
func withNext(t *testing.T, d *dialect, oldest string) *dialect {
	t.Helper()
	text := "-- +goose Up\nALTER TABLE threads ADD COLUMN next integer;\n" + oldest + "\n"
	files, next := fstest.MapFS{"99999_next.sql": {Data: []byte(text)}}, *d
	err := fs.WalkDir(d.migrations, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := fs.ReadFile(d.migrations, path)
		files[path] = &fstest.MapFile{Data: text}
		return err
	})
	must(t, err)
	next.migrations = files
	return &next
}

// servedBy is a new PostgreSQL database with an instance, whose lease ends at a time.
func servedBy(t *testing.T, id string, leasedUntil time.Time) (url string) {
	t.Helper()
	url = storagetest.Postgres(t).NewDatabase(t)
	db := openForPlans(t, url)
	if _, err := db.write.ExecContext(t.Context(), `
INSERT INTO instances (id, fenced, ended, addr, process, commit_no, leased_until, started_at) VALUES ($1, FALSE, '', 'a:1', '', 0, $2, $2)`,
		id, leasedUntil); err != nil {
		t.Fatal(err)
	}
	return url
}

// A later migration upgrades a database that has rows, once.
func TestMigrate_UpgradesTheSchema(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db *DB) {
		next := withNext(t, db.d, replaces)
		for range 2 {
			upgraded, err := openAs(t.Context(), db.cfg, next)
			must(t, err)
			if v, err := one(t.Context(), upgraded.read, scalar[int64], selectVersion); v != 99999 || err != nil {
				t.Errorf("version %d, %v", v, err)
			}
			must(t, upgraded.Close())
		}
		if err := db.Ping(t.Context()); !errors.Is(err, errOtherSchema) {
			t.Errorf("the older program: %v", err)
		}
	})
}

// A database is not migrated while a server serves it that could not go on: Migrate fails and names the server, Open waits until the
// server has left.
func TestMigrate_RespectsTheServer(t *testing.T) {
	t.Parallel()
	url := servedBy(t, "first", time.Now().Add(time.Hour))
	next := withNext(t, postgresDialect(), replaces)
	first := data.HeldError{Instance: "first", Addr: "a:1"}
	if held, ok := errors.AsType[*data.HeldError](migrateAfter(t.Context(), Config{URL: url}.withDefaults(), next, func(*data.HeldError) bool { return false })); !ok || *held != first {
		t.Errorf("Migrate: %v, want it to name the first", held)
	}
	told := make(chan string, 10)
	result := make(chan error, 1)
	go func() {
		cfg := Config{URL: url, Migrate: true, Log: slog.New(slog.NewTextHandler(lines(told), nil))}
		db, err := openAs(t.Context(), cfg.withDefaults(), next)
		if err == nil {
			err = db.Close()
		}
		result <- err
	}()
	direct, err := openPostgres(Config{URL: url}.withDefaults(), writing)
	must(t, err)
	defer direct.Close()
	if line := <-told; !strings.Contains(line, "a:1") {
		t.Errorf("it says %q", line)
	}
	if len(result) > 0 {
		t.Fatalf("it did not wait: %v", <-result)
	}
	if _, err := direct.Exec(`UPDATE instances SET fenced = TRUE, ended = 'left'`); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Fatal(err)
	}
}

// A migration after which the programs before it can go on is done under a living server, as soon as no transaction is in its way,
// and more servers of both programs start beside it.
func TestMigrate_UnderLivingServers(t *testing.T) {
	t.Parallel()
	url := storagetest.Postgres(t).NewDatabase(t)
	told := make(chan string, 100)
	cfg := Config{URL: url, Migrate: true, Log: slog.New(slog.NewTextHandler(lines(told), nil))}.withDefaults()
	next := withNext(t, postgresDialect(), "UPDATE schema_oldest SET oldest = 1;")
	joins := func(name string, d *dialect) *DB {
		t.Helper()
		db, err := openAs(t.Context(), cfg, d)
		if err == nil {
			err = db.Join(t.Context(), name, "")
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	first := joins("first", postgresDialect())
	report, err := first.read.BeginTxx(t.Context(), nil)
	if err == nil {
		_, err = report.ExecContext(t.Context(), "SELECT count(*) FROM threads")
	}
	must(t, err)
	migrated := make(chan error, 1)
	go func() { migrated <- migrateAfter(t.Context(), cfg, next, func(*data.HeldError) bool { return false }) }()
	for line := ""; !strings.Contains(line, "waits for transactions"); line = <-told {
	}
	must(t, report.Rollback())
	if err := <-migrated; err != nil {
		t.Fatal(err)
	}
	joins("next", next)
	joins("another", postgresDialect())
	if err := errors.Join(first.Commit(t.Context(), 1, &data.Batch{}), first.Ping(t.Context())); err != nil {
		t.Errorf("the first server: %v", err)
	}
}

// A migration must say which programs can go on after it.
func TestMigrate_NamesTheOldestProgram(t *testing.T) {
	t.Parallel()
	url := servedBy(t, "first", time.Now().Add(time.Hour))
	next := withNext(t, postgresDialect(), "")
	err := migrateAfter(t.Context(), Config{URL: url}.withDefaults(), next, func(*data.HeldError) bool { return false })
	if err == nil || !strings.Contains(err.Error(), "99999_next.sql") {
		t.Errorf("%v, want it to name the migration", err)
	}
	for _, d := range []*dialect{postgresDialect(), sqliteDialect()} {
		if _, err := oldestOf(d.migrations, 1); err != nil {
			t.Error(err)
		}
	}
}

// A migration fences a server whose lease has ended, once it has been silent for a lease.
func TestMigrate_FencesSilentServer(t *testing.T) {
	url := servedBy(t, "silent", time.Now().Add(-time.Hour))
	db, err := openAs(t.Context(), Config{URL: url, Migrate: true, Lease: 50 * time.Millisecond}.withDefaults(), withNext(t, postgresDialect(), replaces))
	must(t, err)
	defer db.Close()
	if in, err := db.Instance(t.Context(), "silent"); err != nil || in.End != data.EndCrashed {
		t.Errorf("the silent one: %+v, %v, want the end %q", in, err, data.EndCrashed)
	}
}

// lines is a writer that forwards complete lines.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// The schema lists the statuses of runs: a program that writes another one needs a migration, which keeps out those that do not know it.
func TestSchema_ListsTheStatusesOfRuns(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db *DB) {
		for i, status := range []data.Status{data.Queued, data.Running, data.Waiting, data.Completed, data.Failed, data.Cancelled, "PARKED"} {
			now := "now()"
			if db.d.single {
				now = "0"
			}
			_, err := db.write.ExecContext(t.Context(), fmt.Sprintf(`
INSERT INTO runs (key, thread_key, id, project_id, user_id, agent, workflow_id, status, generation, attempt, answered, owner_instance, closed_event_id, created_at, queued_at)
VALUES (%d, %[1]d, '', '', '', '', '', '%s', 1, 0, FALSE, '', 0, %s, %[3]s)`, i, status, now))
			if listed := status != "PARKED"; (err == nil) != listed {
				t.Errorf("%s: %v", status, err)
			}
		}
	})
}
