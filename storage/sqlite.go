package storage

import (
	"errors"
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
	keysAmong, "SELECT run_terms.rowid AS key, 0 AS at FROM run_terms WHERE +run_terms.rowid IN (SELECT value FROM json_each(?)) AND run_terms MATCH ?",
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
