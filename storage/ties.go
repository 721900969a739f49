package storage

import (
	"context"
	"database/sql"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

// A statement below that changes runs changes one, by itself: it waits for one commit at most, and a commit for no more than it.
const (
	// takeTie ties a run to the connection of a repeated request, unless the server of the connection that it is tied to has ended.
	takeTie = `
UPDATE runs SET tied_to = ?
WHERE key = ? AND tied_to <> '' AND status IN ('QUEUED', 'RUNNING', 'WAITING') AND (
	EXISTS (SELECT 1 FROM instances WHERE id = split_part(runs.tied_to, '.', 1) AND NOT fenced)
	OR EXISTS (SELECT 1 FROM ties WHERE run_key = runs.key AND ties.tied_to = runs.tied_to AND NOT joined))`

	untieRun = `
UPDATE runs SET tied_to = ''
WHERE key = ? AND tied_to <> '' AND ? IN ('', tied_to) AND status IN ('QUEUED', 'RUNNING', 'WAITING')`

	// dropTie sees the run as a repeat at the same time leaves it. It does nothing if the client has joined the thread at another
	// server while this one noticed that the connection is closed, or if this server was fenced.
	dropTie = `
INSERT INTO ties (` + tieColumns + `, ends_at, joined)
SELECT project_id, user_id, ?, key, ?, ?, CAST(? AS bigint), tied_to, clock_timestamp() + ? * interval '1 millisecond', FALSE FROM runs
WHERE key = ? AND tied_to = ? AND status IN ('QUEUED', 'RUNNING', 'WAITING')
	AND EXISTS (SELECT 1 FROM instances WHERE id = split_part(tied_to, '.', 1) AND NOT fenced) FOR NO KEY UPDATE OF runs
ON CONFLICT (run_key) DO UPDATE SET run_id = excluded.run_id, scope = excluded.scope, after_event = excluded.after_event,
	tied_to = excluded.tied_to, ends_at = excluded.ends_at, joined = FALSE
WHERE NOT ties.joined OR ties.tied_to <> excluded.tied_to OR ties.ends_at < clock_timestamp()`

	// joinThread sees a connection that is dropped at the same time, or is seen by dropTie.
	joinThread = `
INSERT INTO ties (` + tieColumns + `, ends_at, joined)
SELECT project_id, user_id, '', key, '', '', 0, tied_to, clock_timestamp() + interval '2 seconds', TRUE FROM runs
WHERE thread_key = ? AND status IN ('QUEUED', 'RUNNING', 'WAITING') AND split_part(tied_to, '.', 1) NOT IN ('', ?) ORDER BY key LIMIT 100
ON CONFLICT (run_key) DO UPDATE SET tied_to = excluded.tied_to, ends_at = excluded.ends_at, joined = TRUE`

	tieColumns = `project_id, user_id, thread_id, run_key, run_id, scope, after_event, tied_to`

	// tieCounts is no EXISTS, for which PostgreSQL may read all open runs.
	tieCounts = `NOT joined AND COALESCE((
	SELECT runs.tied_to = ties.tied_to AND status IN ('QUEUED', 'RUNNING', 'WAITING') FROM runs WHERE key = run_key), FALSE)`

	selectDropped = `
SELECT ` + tieColumns + ` FROM ties
WHERE project_id = ? AND user_id = ? AND thread_id = ? AND ` + tieCounts + ` ORDER BY run_key LIMIT 100`

	// claimOverdue leaves each tie to one server for a while, and deletes those that do not count any more.
	claimOverdue = `
WITH overdue AS (
	SELECT run_key, ` + tieCounts + ` AS counts FROM ties WHERE ends_at < now() ORDER BY ends_at LIMIT 100 FOR UPDATE SKIP LOCKED),
over AS (DELETE FROM ties USING overdue o WHERE ties.run_key = o.run_key AND NOT o.counts)
UPDATE ties SET ends_at = clock_timestamp() + interval '10 seconds' FROM overdue o
WHERE ties.run_key = o.run_key AND o.counts
RETURNING project_id, user_id, thread_id, ties.run_key, run_id, scope, after_event, tied_to`
)

// Ties are the runs of all servers that belong to connections. The run's row names its connection, from the commit that starts the run.
// A row of ties exists once the connection is closed. Statements run beside the commits.
type Ties struct{ b beside }

// Ties returns the ties in the database, which must be PostgreSQL.
func (db *DB) Ties() *Ties { return &Ties{db.beside} }

func scanTie(rows *sql.Rows) (t data.Tie, err error) {
	return sqldb.Scan(rows, &t, &t.Project, &t.User, &t.ThreadID, &t.RunKey, &t.RunID, &t.Scope, &t.After, &t.TiedTo)
}

// Take ties a run to t.TiedTo, the connection of a repeated request. It reports false if the run belongs to no connection.
func (ts *Ties) Take(ctx context.Context, t *data.Tie) (bool, error) {
	n, err := ts.b.w.Session.Pool.Exec(ctx, takeTie, t.TiedTo, t.RunKey)
	return n > 0, err
}

// Untie unties a run from t.TiedTo, or from any connection if that is empty.
func (ts *Ties) Untie(ctx context.Context, t *data.Tie) error {
	_, err := ts.b.w.Session.Pool.Exec(ctx, untieRun, t.RunKey, t.TiedTo)
	return err
}

// Drop begins the grace of a run whose connection is closed, if the run still belongs to it. It unties the run instead if the client has
// just joined the thread at another server.
func (ts *Ties) Drop(ctx context.Context, t *data.Tie, grace time.Duration) error {
	n, err := ts.b.w.Session.Pool.Exec(ctx, dropTie, t.ThreadID, t.RunID, t.Scope, t.After, grace.Milliseconds(), t.RunKey, t.TiedTo)
	if err != nil || n > 0 {
		return err
	}
	return ts.Untie(ctx, t)
}

// Join unties the runs of a thread whose connections are closed, because a client of its user has joined it at the instance.
func (ts *Ties) Join(ctx context.Context, t *data.Tie, thread int64, instance string) error {
	dropped, err := ts.Dropped(ctx, t)
	for i := range dropped {
		if err == nil {
			err = ts.Untie(ctx, &dropped[i])
		}
	}
	if err == nil {
		_, err = ts.b.w.Session.Pool.Exec(ctx, joinThread, thread, instance)
	}
	return err
}

// Dropped returns the runs of a thread whose connections are closed.
func (ts *Ties) Dropped(ctx context.Context, t *data.Tie) ([]data.Tie, error) {
	return sqldb.All(ctx, ts.b.read, scanTie, selectDropped, t.Project, t.User, t.ThreadID)
}

// Overdue returns up to 100 runs whose grace is over. Other calls do not return them again for 10 seconds.
func (ts *Ties) Overdue(ctx context.Context) ([]data.Tie, error) {
	return sqldb.All(ctx, ts.b.w.Session.Pool.Unprepared(), scanTie, claimOverdue)
}
