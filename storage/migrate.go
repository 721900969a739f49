package storage

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations
var migrations embed.FS

const (
	versionTable = "schema_versions"

	selectVersion = `
SELECT COALESCE(max(version_id), 0) FROM schema_versions WHERE is_applied`
)

// Migrate creates the database's schema or brings it to this program's. It fails with ErrSchema when the database has
// the schema of a newer Baton. Of several programs that migrate at once one does it and the others wait; on SQLite it
// fails with ErrLocked while a server has the database.
func Migrate(ctx context.Context, cfg Config) error {
	d, err := dialectOf(cfg.URL)
	if err != nil {
		return err
	}
	cfg = cfg.withDefaults()
	cfg.Migrate, cfg.Serve = true, true
	held, err := d.lock(cfg)
	if err != nil {
		return err
	}
	defer held.Close()
	if err := d.check(cfg); err != nil {
		return err
	}
	return migrate(ctx, cfg, d)
}

// migrate is Migrate for who has the lock.
func migrate(ctx context.Context, cfg Config, d *dialect) error {
	db, err := d.open(cfg, migrating)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := checkSchema(ctx, &pool{DB: db, d: d}); !errors.Is(err, ErrSchema) || errors.Is(err, errNewerSchema) {
		return err
	}
	options := []goose.ProviderOption{
		goose.WithTableName(versionTable), goose.WithSlog(cfg.Log), goose.WithDisableGlobalRegistry(true),
	}
	if !d.single {
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300))
		if err != nil {
			return err
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	dir, err := fs.Sub(migrations, "migrations/"+d.name)
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(d.goose, db.DB, dir, options...)
	if err != nil {
		return err
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", d.explained(ctx, err))
	}
	return nil
}

// schemaVersion is the version of this program's last migration.
func schemaVersion(d *dialect) (int64, error) {
	files, err := migrations.ReadDir("migrations/" + d.name)
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("no migrations: %w", err)
	}
	return goose.NumericComponent(files[len(files)-1].Name())
}

// Ping reports whether the database answers and has the schema this program needs.
func (db *DB) Ping(ctx context.Context) error { return checkSchema(ctx, db.read) }

// Of an ErrSchema: that a migration helps, or none does.
var (
	errOlderSchema = fmt.Errorf("%w: it must be migrated", ErrSchema)
	errNewerSchema = fmt.Errorf("%w: it is of a newer Baton", ErrSchema)
)

// checkSchema returns ErrSchema unless the database has the schema this program needs.
func checkSchema(ctx context.Context, p *pool) error {
	want, err := schemaVersion(p.d)
	if err != nil {
		return err
	}
	got, err := one(ctx, p, scalar[int64], selectVersion)
	switch {
	case isUndefinedTable(err):
		return fmt.Errorf("%w: it must be migrated: %w", ErrSchema, err)
	case err != nil:
		return fmt.Errorf("read the schema's version: %w", err)
	case got < want:
		return fmt.Errorf("%w from version %d to %d", errOlderSchema, got, want)
	case got > want:
		return fmt.Errorf("%w, with version %d; this one knows %d", errNewerSchema, got, want)
	}
	return nil
}
