package storage

import (
	"context"
	"database/sql/driver"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/members"
	"github.com/batonrun/baton/storage/sqldb"
)

// migrations has a folder for each database. The first file of each is the schema; every later change of the schema is a file of
// its own, with the same name in both folders.
//
//go:embed migrations
var migrations embed.FS

func migrationsOf(dialect string) fs.FS {
	dir, err := fs.Sub(migrations, "migrations/"+dialect)
	if err != nil {
		panic(err) // the name is no path
	}
	return dir
}

const (
	versionTable = "schema_versions"

	selectVersion = `
SELECT COALESCE(max(version_id), 0) FROM schema_versions WHERE is_applied`

	selectOldest = `
SELECT oldest FROM schema_oldest`
)

// setsOldest is the statement with which a migration says which programs may go on after it.
var setsOldest = regexp.MustCompile(`(?m)^UPDATE schema_oldest SET oldest = (\d+);$`)

// Migrate creates the database's schema or upgrades it to this program's. It fails with ErrSchema when the database has the
// schema of a newer Baton that this program cannot serve. While a server serves the database whose program cannot go on after the
// migration, it fails with a *data.HeldError, on SQLite with ErrLocked while any server does. It waits for a lease to find out whether
// a silent server has died. When several programs migrate at once, one does and the others wait. A migration that waits a second for
// the transactions of others begins again.
func Migrate(ctx context.Context, cfg Config) error {
	cfg, d, err := cfg.database()
	if err != nil {
		return err
	}
	return lockAndMigrate(ctx, cfg, d)
}

func lockAndMigrate(ctx context.Context, cfg Config, d *sqldb.DB) error {
	cfg.Migrate, cfg.Serve = true, true
	held, err := lockFile(cfg, d)
	if err != nil {
		return err
	}
	defer held.Close()
	if err := checkDatabase(ctx, d); err != nil {
		return err
	}
	return migrateAfter(ctx, cfg, d, func(held *data.HeldError) bool { return held.Silent })
}

// migrate is Migrate without the lock, which the caller holds, and without waiting.
func migrate(ctx context.Context, cfg Config, d *sqldb.DB, w *members.Watcher) error {
	p, err := d.Open(sqldb.Migrating)
	if err != nil {
		return err
	}
	defer p.Close()
	if err := cfg.checkSchema(ctx, p); !errors.Is(err, ErrSchema) || errors.Is(err, errOtherSchema) {
		return err
	}
	if !d.Single {
		oldest, err := oldestAfter(ctx, cfg.migrations, p)
		if err != nil {
			return err
		}
		release, err := keepOthersOut(ctx, p, w, oldest)
		if err != nil {
			return err
		}
		defer release()
		if err := prepareSchema(ctx, p); err != nil {
			return err
		}
	}
	dialect, options := goose.DialectSQLite3, []goose.ProviderOption{
		goose.WithTableName(versionTable), goose.WithSlog(cfg.Log), goose.WithDisableGlobalRegistry(true),
	}
	if !d.Single {
		dialect = goose.DialectPostgres
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300))
		if err != nil {
			return err
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	provider, err := goose.NewProvider(dialect, p.SQL.DB, cfg.migrations, options...)
	if err != nil {
		return err
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", p.Failed(ctx, err))
	}
	return nil
}

const (
	hasSchema = `
SELECT current_schema() IS NOT NULL`

	createSchema = `
DO $$ BEGIN EXECUTE format('CREATE SCHEMA %I', (parse_ident(split_part(current_setting('search_path'), ',', 1)))[1]); END $$`
)

// prepareSchema creates the schema of Baton's tables, unless the search_path of the session has one that exists.
func prepareSchema(ctx context.Context, p *sqldb.Pool) error {
	exists, err := sqldb.One(ctx, p, sqldb.Scalar[bool], hasSchema)
	if err != nil || exists {
		return err
	}
	if _, err := p.Exec(ctx, createSchema); err != nil {
		return fmt.Errorf("create the schema of Baton's tables (the owner of the database can: CREATE SCHEMA baton AUTHORIZATION user): %w", err)
	}
	return nil
}

const lockJoining = `
SELECT pg_advisory_lock(hashtext('baton instances'))`

// oldestAfter returns the oldest program that may serve the database after the migrations that it lacks.
func oldestAfter(ctx context.Context, migrations fs.FS, q sqldb.Querier) (oldest int64, err error) {
	have, err := sqldb.One(ctx, q, sqldb.Scalar[int64], selectVersion)
	if sqldb.IsUndefinedTable(err) || err == nil && have == 0 {
		return 0, nil // it has no servers
	} else if err != nil {
		return 0, err
	}
	return oldestOf(migrations, have)
}

// oldestOf returns the oldest program that may serve a database after the migrations from one on, exclusively.
func oldestOf(migrations fs.FS, have int64) (oldest int64, err error) {
	files, err := fs.ReadDir(migrations, ".")
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		version, err := goose.NumericComponent(f.Name())
		if err != nil {
			return 0, err
		}
		if version <= have {
			continue
		}
		text, err := fs.ReadFile(migrations, f.Name())
		if err != nil {
			return 0, err
		}
		set := setsOldest.FindSubmatch(text)
		if set == nil {
			return 0, fmt.Errorf("migration %s does not set schema_oldest", f.Name())
		}
		n, err := strconv.ParseInt(string(set[1]), 10, 64)
		if err != nil {
			return 0, err
		}
		oldest = max(oldest, n)
	}
	return oldest, nil
}

// keepOthersOut stops instances from joining until release is called. It fails with a *data.HeldError while an instance of a program
// older than oldest serves the database.
func keepOthersOut(ctx context.Context, p *sqldb.Pool, w *members.Watcher, oldest int64) (release func(), err error) {
	conn, err := p.SQL.Connx(ctx)
	if err != nil {
		return nil, p.Failed(ctx, err)
	}
	release = func() { // the lock ends with its session
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		_ = conn.Close()
	}
	if _, err = conn.ExecContext(ctx, lockJoining); err == nil {
		err = noneOlder(ctx, p, w, oldest)
	}
	if err != nil {
		release()
		return nil, p.Failed(ctx, err)
	}
	return release, nil
}

// noneOlder fails when an instance of a program older than oldest serves the database, and fences instances that have died: one that was
// only paused must not write to a newer schema.
func noneOlder(ctx context.Context, p *sqldb.Pool, w *members.Watcher, oldest int64) error {
	if _, err := sqldb.One(ctx, p, sqldb.Scalar[int64], selectVersion); sqldb.IsUndefinedTable(err) {
		return nil
	} else if err != nil {
		return err
	}
	return w.Free(ctx, "migration", func(schema int64) bool { return schema < oldest })
}

// migrateAfter is migrate after the instances that serve the database, as long as waits says so.
func migrateAfter(ctx context.Context, cfg Config, d *sqldb.DB, waits func(*data.HeldError) bool) error {
	w := members.NewWatcher(cfg.member(d))
	defer w.Close()
	told := false
	for {
		err := migrate(ctx, cfg, d, w)
		held, others := errors.AsType[*data.HeldError](err)
		locked := sqldb.IsLocked(err)
		if !locked && (!others || !waits(held)) {
			return err
		}
		if locked && !told {
			cfg.Log.Info("the migration waits for transactions of others", "error", err)
			told = true
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("migrate: %w: %w", ctx.Err(), err)
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// migrateInTurn is migrate for a server that starts: it waits until no other server serves the database.
func migrateInTurn(ctx context.Context, cfg Config, d *sqldb.DB) error {
	told := false
	return migrateAfter(ctx, cfg, d, func(held *data.HeldError) bool {
		if !told {
			cfg.Log.Info("the database must be migrated, and waits for the server that has it", "reason", held)
		}
		told = true
		return true
	})
}

// schemaVersion is the version of this program's last migration.
func (c Config) schemaVersion() int64 {
	files, err := fs.ReadDir(c.migrations, ".")
	if err != nil {
		panic(err) // the files are in the program
	}
	version, err := goose.NumericComponent(files[len(files)-1].Name())
	if err != nil {
		panic(err)
	}
	return version
}

// Ping reports whether the database answers and has the schema this program needs.
func (db *DB) Ping(ctx context.Context) error { return db.cfg.checkSchema(ctx, db.read) }

var (
	// ErrOlderSchema means that Migrate can upgrade the database. It wraps ErrSchema.
	ErrOlderSchema = fmt.Errorf("%w: it must be migrated", ErrSchema)
	// errOtherSchema means that this program can neither use nor migrate the database.
	errOtherSchema = fmt.Errorf("%w, but that of another Baton", ErrSchema)
)

// checkSchema returns ErrSchema unless the database has the schema this program needs, or a newer one that suits it.
func (c Config) checkSchema(ctx context.Context, q sqldb.Querier) error {
	want := c.schemaVersion()
	got, err := sqldb.One(ctx, q, sqldb.Scalar[int64], selectVersion)
	switch {
	case sqldb.IsUndefinedTable(err):
		return fmt.Errorf("%w: it must be migrated: %w", ErrSchema, err)
	case err != nil:
		return fmt.Errorf("read the schema's version: %w", err)
	case got == 0: // the first migration has failed
		return fmt.Errorf("%w: it must be migrated", ErrSchema)
	}
	oldest, err := sqldb.One(ctx, q, sqldb.Scalar[int64], selectOldest)
	switch {
	case sqldb.IsUndefinedTable(err):
		return fmt.Errorf("%w: a build before the first release made it; start with a new database", errOtherSchema)
	case err != nil:
		return fmt.Errorf("read which programs may serve the database: %w", err)
	case got < want:
		return fmt.Errorf("%w from version %d to %d", ErrOlderSchema, got, want)
	}
	if oldest > want {
		return fmt.Errorf("%w: a newer Baton made it, with version %d, and this one knows %d; use the newer one", errOtherSchema, got, want)
	}
	return nil
}
