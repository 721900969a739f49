package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
	"github.com/batonrun/baton/storage/storagetest"
)

// replaces sets the oldest program to that of the migration withNext.
const replaces = "UPDATE schema_oldest SET oldest = 99999;"

// withNext is a Config with one more migration than the databases have.
func withNext(t *testing.T, cfg Config, oldest string) Config {
	t.Helper()
	cfg, _, err := cfg.database()
	must(t, err)
	text := "-- +goose Up\nALTER TABLE threads ADD COLUMN next integer;\n" + oldest + "\n"
	files := fstest.MapFS{"99999_next.sql": {Data: []byte(text)}}
	names, err := fs.Glob(cfg.migrations, "*.sql")
	must(t, err)
	for _, name := range names {
		text, err := fs.ReadFile(cfg.migrations, name)
		must(t, err)
		files[name] = &fstest.MapFile{Data: text}
	}
	cfg.migrations = files
	return cfg
}

// migratesNow is Migrate that waits for no server.
func migratesNow(ctx context.Context, cfg Config) error {
	cfg, d, err := cfg.database()
	if err != nil {
		return err
	}
	return migrateAfter(ctx, cfg, d, func(*data.HeldError) bool { return false })
}

// servedBy is a new PostgreSQL database with an instance, whose lease ends at a time.
func servedBy(t *testing.T, id string, leasedUntil time.Time) (url string) {
	t.Helper()
	url = storagetest.Postgres(t).NewDatabase(t)
	db := openForPlans(t, url)
	if _, err := db.w.Pool.SQL.ExecContext(t.Context(), `
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
		next := withNext(t, db.cfg, replaces)
		for range 2 {
			upgraded, err := Open(t.Context(), next)
			must(t, err)
			if v, err := sqldb.One(t.Context(), upgraded.read, sqldb.Scalar[int64], selectVersion); v != 99999 || err != nil {
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
	next := withNext(t, Config{URL: url}, replaces)
	first := data.HeldError{Instance: "first", Addr: "a:1"}
	if held, ok := errors.AsType[*data.HeldError](migratesNow(t.Context(), next)); !ok || *held != first {
		t.Errorf("Migrate: %v, want it to name the first", held)
	}
	told := make(chan string, 10)
	result := make(chan error, 1)
	go func() {
		next.Migrate, next.Log = true, slog.New(slog.NewTextHandler(lines(told), nil))
		db, err := Open(t.Context(), next)
		if err == nil {
			err = db.Close()
		}
		result <- err
	}()
	_, d, err := next.database()
	must(t, err)
	direct, err := d.Open(sqldb.Writing)
	must(t, err)
	defer direct.Close()
	if line := <-told; !strings.Contains(line, "a:1") {
		t.Errorf("it says %q", line)
	}
	if len(result) > 0 {
		t.Fatalf("it did not wait: %v", <-result)
	}
	if _, err := direct.Exec(t.Context(), `UPDATE instances SET fenced = TRUE, ended = 'left'`); err != nil {
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
	cfg := Config{URL: url, Migrate: true, Log: slog.New(slog.NewTextHandler(lines(told), nil))}
	next := withNext(t, cfg, "UPDATE schema_oldest SET oldest = 1;")
	joins := func(name string, cfg Config) *DB {
		t.Helper()
		db, err := Open(t.Context(), cfg)
		if err == nil {
			err = db.Members().Join(t.Context(), name, "")
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	first := joins("first", cfg)
	report, err := first.read.SQL.BeginTxx(t.Context(), nil)
	if err == nil {
		_, err = report.ExecContext(t.Context(), "SELECT count(*) FROM threads")
	}
	must(t, err)
	migrated := make(chan error, 1)
	go func() { migrated <- migratesNow(t.Context(), next) }()
	for line := ""; !strings.Contains(line, "waits for transactions"); line = <-told {
	}
	must(t, report.Rollback())
	if err := <-migrated; err != nil {
		t.Fatal(err)
	}
	joins("next", next)
	joins("another", cfg)
	if err := errors.Join(first.Commit(t.Context(), 1, &data.Batch{}), first.Ping(t.Context())); err != nil {
		t.Errorf("the first server: %v", err)
	}
}

// A migration must say which programs can go on after it.
func TestMigrate_NamesTheOldestProgram(t *testing.T) {
	t.Parallel()
	url := servedBy(t, "first", time.Now().Add(time.Hour))
	err := migratesNow(t.Context(), withNext(t, Config{URL: url}, ""))
	if err == nil || !strings.Contains(err.Error(), "99999_next.sql") {
		t.Errorf("%v, want it to name the migration", err)
	}
	for _, name := range []string{"postgres", "sqlite"} {
		if _, err := oldestOf(migrationsOf(name), 1); err != nil {
			t.Error(err)
		}
	}
}

// A migration fences a server whose lease has ended, once it has been silent for a lease.
func TestMigrate_FencesSilentServer(t *testing.T) {
	url := servedBy(t, "silent", time.Now().Add(-time.Hour))
	db, err := Open(t.Context(), withNext(t, Config{URL: url, Migrate: true, Lease: 50 * time.Millisecond}, replaces))
	must(t, err)
	defer db.Close()
	if in, err := db.Members().Instance(t.Context(), "silent"); err != nil || in.End != data.EndCrashed {
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
			if db.d.Single {
				now = "0"
			}
			_, err := db.w.Pool.SQL.ExecContext(t.Context(), fmt.Sprintf(`
INSERT INTO runs (key, thread_key, id, project_id, user_id, agent, workflow_id, status, generation, attempt, answered, owner_instance, closed_event_id, created_at, queued_at)
VALUES (%d, %[1]d, '', '', '', '', '', '%s', 1, 0, FALSE, '', 0, %s, %[3]s)`, i, status, now))
			if listed := status != "PARKED"; (err == nil) != listed {
				t.Errorf("%s: %v", status, err)
			}
		}
	})
}
