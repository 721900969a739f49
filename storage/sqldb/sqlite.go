package sqldb

import (
	"os"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/batonrun/baton/storage/sqlite"
)

// sqliteWords maps PostgreSQL's syntax to SQLite's. A writing transaction locks the whole database, so FOR UPDATE is
// unnecessary. SQLite would compile a statement again for each value of a LIMIT that is a bare parameter, because its
// plan could depend on it.
var sqliteWords = []string{
	"= ANY (?)", "IN (SELECT value FROM json_each(?))",
	"clock_timestamp()", "CAST(round(unixepoch('subsec') * 1000) AS INTEGER)",
	"now()", "CAST(round(unixepoch('subsec') * 1000) AS INTEGER)",
	" FOR UPDATE", "",
	" FOR NO KEY UPDATE SKIP LOCKED", "",
	"LIMIT ?", "LIMIT +?",
	" * interval '1 millisecond'", "",
}

func newSQLite(cfg Config) *DB {
	sqlx.BindDriver("sqlite", sqlx.QUESTION)
	return &DB{
		Name:      "sqlite",
		Single:    true,
		cfg:       cfg,
		bind:      sqlx.QUESTION,
		words:     strings.NewReplacer(slices.Concat(cfg.Words, sqliteWords)...),
		begin:     "BEGIN IMMEDIATE",
		beginRead: "BEGIN DEFERRED",
		message:   1 << 20, // beside the database's own copy
		open:      openSQLite,
		list:      func(slice any) any { return jsonText(slice) },
		explain:   sqlite.Explain,
	}
}

func openSQLite(cfg Config, m Mode) (*sqlx.DB, error) {
	path, err := sqlite.Path(cfg.URL)
	if err != nil {
		return nil, err
	}
	if m == Migrating {
		if err := sqlite.Create(path); err != nil {
			return nil, err
		}
	}
	conns := 1
	if m == Reading {
		conns = cfg.Readers
	}
	return sqlite.Open(path, conns, cfg.LockTimeout, pragmas(path, m)...)
}

func pragmas(path string, m Mode) []string {
	if m == Reading {
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
