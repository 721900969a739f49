package storage

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/batonrun/baton/runtime/model"
)

//go:embed migrations
var migrations embed.FS

const (
	versionTable = "schema_versions"

	selectVersion = `
SELECT COALESCE(max(version_id), 0) FROM schema_versions WHERE is_applied`
)

// Migrate creates the database's schema or brings it to this program's. It does nothing to one that is
// newer. Of several programs that migrate at once one does it and the others wait; on SQLite it fails with
// ErrLocked while a server has the database.
func Migrate(ctx context.Context, cfg Config) error {
	d, err := dialectOf(cfg.URL)
	if err != nil {
		return err
	}
	return migrate(ctx, cfg.withDefaults(), d, false)
}

func migrate(ctx context.Context, cfg Config, d *dialect, locked bool) (err error) {
	if !locked {
		held, err := d.lock(cfg)
		if err != nil {
			return err
		}
		defer held.Close()
	}
	db, err := d.open(cfg, migrating)
	if err != nil {
		return err
	}
	defer db.Close()
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
func (db *DB) Ping(ctx context.Context) error {
	want, err := schemaVersion(db.d)
	if err != nil {
		return err
	}
	got, err := one(ctx, db.read, scalar[int64], selectVersion)
	switch {
	case errors.Is(err, model.ErrUnavailable) || ctx.Err() != nil:
		return err
	case err != nil:
		return fmt.Errorf("%w: it must be migrated: %w", ErrSchema, err)
	case got < want:
		return fmt.Errorf("%w: it has version %d and must be migrated to %d", ErrSchema, got, want)
	case got > want:
		return fmt.Errorf("%w: it has version %d, of a newer Baton; this one knows %d", ErrSchema, got, want)
	}
	return nil
}
