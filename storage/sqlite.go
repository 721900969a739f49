package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/pressly/goose/v3"

	"github.com/batonrun/baton/storage/sqlite"
)

// sqliteWords maps PostgreSQL's syntax to SQLite's. A writing transaction locks the whole database, so FOR UPDATE is
// unnecessary. SQLite would compile a statement again for each value of a LIMIT that is a bare parameter, because its
// plan could depend on it.
var sqliteWords = strings.NewReplacer(append([]string{
	keysByTerms, "SELECT run_terms.rowid AS key, 0 AS at FROM run_terms WHERE run_terms MATCH ?",
	free, "",
	freed, "",
}, append(listWords,
	"clock_timestamp()", "CAST(round(unixepoch('subsec') * 1000) AS INTEGER)",
	" FOR UPDATE", "",
	" FOR NO KEY UPDATE SKIP LOCKED", "",
	"LIMIT ?", "LIMIT +?",
	" * interval '1 millisecond'", "",
	"run_terms.terms @@ ?", "run_terms MATCH ?",
	"run_terms.run_key", "run_terms.rowid",
	"run_terms (run_key, terms)", "run_terms (rowid, terms)",
	"array_to_tsvector(string_to_array(?::text, ' '))", "?",
	replaceTerms, "", // writers take turns, and FTS5 knows no conflicts
)...)...)

func sqliteDialect() *dialect {
	sqlx.BindDriver("sqlite", sqlx.QUESTION)
	return &dialect{
		name:       "sqlite",
		goose:      goose.DialectSQLite3,
		migrations: migrationsOf("sqlite"),
		bind:       sqlx.QUESTION,
		words:      sqliteWords,
		begin:      "BEGIN IMMEDIATE",
		beginRead:  "BEGIN DEFERRED",
		single:     true,
		message:    1 << 20, // beside the database's own copy
		open:       openSQLite,
		check:      checkSQLite,
		lock:       lockSQLite,
		list:       func(slice any) any { return jsonText(slice) },
		search:     searchSQLite,
		lazyTerms:  true,
		explain:    sqlite.Explain,
	}
}

// lockSQLite locks the file for a server, and checks its WAL for everyone.
func lockSQLite(cfg Config) (lock *sqlite.Lock, err error) {
	path, err := sqlite.Path(cfg.URL)
	if err != nil {
		return nil, err
	}
	if cfg.Serve {
		if err := sqlite.CheckAccess(path); err != nil {
			return nil, err
		}
	}
	if cfg.Serve && cfg.Migrate {
		if err := sqlite.Create(path); err != nil {
			return nil, err
		}
	}
	if cfg.Serve {
		if lock, err = sqlite.Acquire(path, cfg.Addr); err != nil {
			return nil, err
		}
	}
	if err := sqlite.CheckWAL(path, cfg.Serve); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// warnOfNetwork warns of a file that is not on a disk of this machine.
func warnOfNetwork(cfg Config) {
	path, err := sqlite.Path(cfg.URL)
	if err != nil {
		return
	}
	if kind := sqlite.Network(path); kind != "" {
		cfg.Log.Warn("the database is on a network disk, whose locks may fail: two servers may damage it; use a local disk or PostgreSQL", "file", path, "disk", kind)
	}
}

const selectForeign = `
SELECT min(name) FROM sqlite_schema
WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\'
    AND NOT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'schema_versions')`

// checkSQLite fails if the file is another program's.
func checkSQLite(ctx context.Context, q querier) error {
	table, err := one(ctx, q, scalar[*string], selectForeign)
	if err == nil && table != nil {
		err = fmt.Errorf("the file is the database of another program, which has a table %s; name another file, such as sqlite:baton.db", *table)
	}
	return err
}

func openSQLite(cfg Config, m mode) (*sqlx.DB, error) {
	path, err := sqlite.Path(cfg.URL)
	if err != nil {
		return nil, err
	}
	if m == migrating {
		if err := sqlite.Create(path); err != nil {
			return nil, err
		}
	}
	conns := 1
	if m == reading {
		conns = cfg.Readers
	}
	return sqlite.Open(path, conns, cfg.LockTimeout, pragmas(path, m)...)
}

func pragmas(path string, m mode) []string {
	if m == reading {
		return []string{"query_only(1)", "cache_size(-4096)"}
	}
	list := []string{"journal_mode(WAL)", "synchronous(FULL)", "journal_size_limit(67108864)", checkpointed, "cache_size(-32768)"}
	if info, err := os.Stat(path); err == nil && info.Size() == 0 { // a new one; elsewhere it would write
		list = slices.Insert(list, 0, "auto_vacuum(2)")
	}
	return list
}

// checkpointed is the number of WAL pages after which SQLite moves the WAL into the file. A checkpoint syncs the disk
// twice, and writes each changed page once; pages at the ends of tables change in each commit. That number of pages
// fits into one block of the WAL's index.
const checkpointed = "wal_autocheckpoint(4000)"
