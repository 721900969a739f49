// Package rows writes, reads and deletes the rows of threads and runs: a file for each table has its statements. A [Tx] writes the rows of
// a batch and reads the [Views] of its decisions; a [Reader], a [Project], a [Queue] and [Logs] read rows. The package begins no transaction
// and decides nothing.
package rows

import (
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/eventlog"
	"github.com/batonrun/baton/storage/sqldb"
)

// Reader reads rows by their keys: see [data.Reader].
type Reader struct {
	q     sqldb.Querier
	looks sqldb.Querier // at the queue
	d     *sqldb.DB
}

// Project reads the rows of a project: see [data.ByProject].
type Project Reader

// Queue reads the queue, and takes its rows: see [data.Queue].
type Queue Reader

// NewReader returns a Reader of a database, which looks at the queue by looks.
func NewReader(d *sqldb.DB, q, looks sqldb.Querier) *Reader { return &Reader{q, looks, d} }

// Logs reads the logs of threads: see [data.Reader].
type Logs struct {
	q     sqldb.Querier
	d     *sqldb.DB
	codec *eventlog.Codec
	pages sqldb.Turns
}

// NewLogs returns the Logs of a database, of which pages are read in turns.
func NewLogs(d *sqldb.DB, q sqldb.Querier, codec *eventlog.Codec, pages sqldb.Turns) *Logs {
	return &Logs{q, d, codec, pages}
}

// Words are texts of statements, each before the text that SQLite has instead of it: see [sqldb.Config].
var Words = []string{
	free, "",
	freed, "",
	"run_terms (run_key, terms)", "run_terms (rowid, terms)",
	"array_to_tsvector(string_to_array(?::text, ' '))", "?",
	replaceTerms, "", // writers take turns, and FTS5 knows no conflicts
}

// Guards are the constraints that only a concurrent write of another instance can violate. Decisions ensure the others.
var Guards = []string{
	"threads_project_id_user_id_thread_id_key", "threads_project_id_conversation_id_key", "run_names_pkey", "runs_open",
	"idempotency_keys_pkey", "messages_thread_key_message_id_key",
}

// Reads on behalf of a client use these conditions: a key alone never reaches another project's rows. Each is evaluated
// once per statement.
const (
	runOfProject    = `(SELECT key FROM runs WHERE key = ? AND project_id = ?)`
	threadOfProject = `(SELECT key FROM threads WHERE key = ? AND project_id = ?)`
)

func keysOf(keys []int64) (list [][]any) {
	for _, key := range keys {
		list = append(list, []any{key})
	}
	return list
}

func namesOf(names []data.Name) (list [][]any) {
	for _, n := range names {
		list = append(list, []any{n.Project, n.User, n.ID})
	}
	return list
}

// Lists that statements read from.
const (
	unnestNames = `unnest(?::text[], ?::text[], ?::text[]) AS asked (project, owner, name)`
	unnestIDs   = `unnest(?::bigint[], ?::text[]) AS asked (thread_key, id)`
)
