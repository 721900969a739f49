package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"
)

// A SQLite file does not become smaller by itself: pages that are free wait for what comes next. A file that was made
// for it gives them back a few at a time; an older one is made so when it is written anew as a whole, which Vacuum,
// Backup and Restore do.

const (
	countPages = `
PRAGMA page_count`

	countFree = `
PRAGMA freelist_count`

	selectShrinks = `
PRAGMA auto_vacuum`

	// shrinkStep moves as many pages as a commit may wait for.
	shrinkStep = `
PRAGMA incremental_vacuum(%[1]d)`

	moveWALGently = `
PRAGMA wal_checkpoint(PASSIVE)`

	willShrink = `
PRAGMA auto_vacuum = 2`

	writeAnew = `
VACUUM`
)

const (
	shrinkPages = 256
	spareFree   = 1024 // free pages that are left for what comes next, and a tenth of the file
	shrinking   = 2    // what selectShrinks returns of a file that can
)

// shrink gives free pages of a SQLite file back to the file system.
func (db *DB) shrink(ctx context.Context) error {
	mode, err := one(ctx, db.read, scalar[int], selectShrinks)
	if err != nil || mode != shrinking {
		return err
	}
	for before := 0; ; {
		pages, err := one(ctx, db.read, scalar[int], countPages)
		if err != nil {
			return err
		}
		free, err := one(ctx, db.read, scalar[int], countFree)
		if err != nil {
			return err
		}
		if free <= spareFree+pages/10 || free == before {
			return nil
		}
		before = free
		if err := db.shrinkOnce(ctx); err != nil {
			return fmt.Errorf("shrink the database: %w", err)
		}
	}
}

func (db *DB) shrinkOnce(ctx context.Context) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	session, err := db.writer(ctx)
	if err != nil {
		return err
	}
	if err := session.exec(ctx, fmt.Sprintf(shrinkStep, shrinkPages)); err != nil {
		return db.broken(ctx, err)
	}
	if err := session.exec(ctx, moveWALGently); err != nil { // only then the file becomes smaller
		return db.broken(ctx, err)
	}
	return nil
}

// willBeAbleToShrink has a file that the connection writes anew shrink by itself. To one that does so already the statement
// would write.
func willBeAbleToShrink(ctx context.Context, db *sqlx.DB) error {
	mode := 0
	err := db.QueryRowContext(ctx, selectShrinks).Scan(&mode)
	if err == nil && mode != shrinking {
		_, err = db.ExecContext(ctx, willShrink)
	}
	return sqliteDialect().explained(ctx, err)
}

// Vacuum writes a SQLite database anew, without free pages, and makes it one that becomes smaller by itself after events
// were sealed. It takes as much room as the data once more, and fails with ErrLocked while a server has the database.
// PostgreSQL does all that itself.
func Vacuum(ctx context.Context, cfg Config) error {
	d, err := dialectOf(cfg.URL)
	if err != nil {
		return err
	}
	if !d.single {
		return errors.New("PostgreSQL vacuums by itself")
	}
	cfg = cfg.withDefaults()
	cfg.Serve = true
	held, err := d.lock(cfg)
	if err != nil {
		return err
	}
	defer held.Close()
	if err := d.check(cfg); err != nil {
		return err
	}
	db, err := d.open(cfg, copying)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := checkSchema(ctx, d, &pool{DB: db, d: d}); err != nil && !errors.Is(err, errOlderSchema) {
		return err
	}
	if err := willBeAbleToShrink(ctx, db); err != nil {
		return err
	}
	for _, statement := range []string{writeAnew, moveWAL} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("vacuum: %w", d.explained(ctx, err))
		}
	}
	return nil
}
