package storage

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/data"
)

const (
	tieRun = `
INSERT INTO ties (project_id, user_id, thread_id, run_key, run_id, scope, after_event, instance)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run_key) DO UPDATE SET run_id = excluded.run_id, scope = excluded.scope, after_event = excluded.after_event,
	instance = excluded.instance, grace_ends = NULL, joined_at = NULL`

	// takeTie takes over the tie of a repeated request, unless the server that held the connection has ended.
	takeTie = `
UPDATE ties SET instance = ?, after_event = ?, grace_ends = NULL, joined_at = NULL
WHERE run_key = ? AND (grace_ends IS NOT NULL OR EXISTS (SELECT 1 FROM instances WHERE id = ties.instance AND NOT fenced))`

	untieRun = `
DELETE FROM ties WHERE run_key = ? AND after_event = ? AND instance = ?`

	untieAnywhere = `
DELETE FROM ties WHERE run_key = ?`

	// dropTie does nothing if the client has joined the thread at another server while this one noticed that the connection is gone.
	dropTie = `
UPDATE ties SET grace_ends = clock_timestamp() + ? * interval '1 millisecond'
WHERE run_key = ? AND after_event = ? AND instance = ? AND (joined_at IS NULL OR joined_at < clock_timestamp() - interval '2 seconds')`

	// joinThread sees a connection that is dropped at the same time, or is seen by dropTie.
	joinThread = `
UPDATE ties SET joined_at = clock_timestamp()
WHERE project_id = ? AND user_id = ? AND thread_id = ? AND (instance <> ? OR grace_ends IS NOT NULL)
RETURNING grace_ends IS NOT NULL`

	untieDropped = `
DELETE FROM ties WHERE project_id = ? AND user_id = ? AND thread_id = ? AND grace_ends IS NOT NULL`

	tieColumns = `project_id, user_id, thread_id, run_key, run_id, scope, after_event, instance`

	selectDropped = `
SELECT ` + tieColumns + ` FROM ties
WHERE project_id = ? AND user_id = ? AND thread_id = ? AND grace_ends IS NOT NULL ORDER BY run_key LIMIT 100`

	// claimOverdue leaves each tie to one server for a while.
	claimOverdue = `
UPDATE ties SET grace_ends = clock_timestamp() + interval '10 seconds'
WHERE run_key IN (
	SELECT run_key FROM ties WHERE grace_ends < now() ORDER BY grace_ends LIMIT 100 FOR UPDATE SKIP LOCKED)
RETURNING ` + tieColumns

	// deleteTies removes the ties to connections of servers that have ended.
	deleteTies = `
DELETE FROM ties WHERE grace_ends IS NULL AND instance NOT IN (SELECT id FROM instances WHERE NOT fenced)`
)

// Ties has the ties of runs to connections, for the servers of a cluster: which server holds the connection that owns a run, and
// since when it is closed. A tie of a server that has ended lasts only if the connection was closed before. Its statements
// run beside the commits.
type Ties struct {
	b beside
}

// Ties returns the ties in the database, which must be PostgreSQL.
func (db *DB) Ties() *Ties { return &Ties{beside{db.writer, db.read}} }

func scanTie(rows *sql.Rows) (t data.Tie, err error) {
	err = rows.Scan(&t.Project, &t.User, &t.ThreadID, &t.RunKey, &t.RunID, &t.Scope, &t.After, &t.Instance)
	return t, err
}

// Tie ties a run to a connection of t.Instance. With repeat, for a repeated request, it only takes over a tie. It reports
// whether the run is tied then.
func (ts *Ties) Tie(ctx context.Context, t *data.Tie, repeat bool) (bool, error) {
	if repeat {
		n, err := ts.count(ctx, takeTie, t.Instance, t.After, t.RunKey)
		return n > 0, err
	}
	_, err := ts.count(ctx, tieRun, t.Project, t.User, t.ThreadID, t.RunKey, t.RunID, t.Scope, t.After, t.Instance)
	return err == nil, err
}

// Untie removes a tie, unless another server has taken it over or the run was tied again. Without an instance it removes every tie
// of the run.
func (ts *Ties) Untie(ctx context.Context, t *data.Tie) (err error) {
	if t.Instance == "" {
		_, err = ts.count(ctx, untieAnywhere, t.RunKey)
	} else {
		_, err = ts.count(ctx, untieRun, t.RunKey, t.After, t.Instance)
	}
	return err
}

// Drop begins the grace of a tie whose connection is closed. It removes the tie instead if the client has just joined the thread
// at another server.
func (ts *Ties) Drop(ctx context.Context, t *data.Tie, grace time.Duration) error {
	n, err := ts.count(ctx, dropTie, grace.Milliseconds(), t.RunKey, t.After, t.Instance)
	if err != nil || n > 0 {
		return err
	}
	return ts.Untie(ctx, t)
}

// Join removes the ties of a thread whose connections are closed, because a client of its user has joined it at t.Instance.
func (ts *Ties) Join(ctx context.Context, t *data.Tie) error {
	dropped, err := all(ctx, ts.beside(), scalar[bool], joinThread, t.Project, t.User, t.ThreadID, t.Instance)
	if err == nil && slices.Contains(dropped, true) {
		_, err = ts.count(ctx, untieDropped, t.Project, t.User, t.ThreadID)
	}
	return err
}

// Dropped returns the ties of a thread whose connections are closed.
func (ts *Ties) Dropped(ctx context.Context, t *data.Tie) ([]data.Tie, error) {
	return all(ctx, ts.b.read, scanTie, selectDropped, t.Project, t.User, t.ThreadID)
}

// Overdue returns up to 100 ties whose grace is over. Other calls do not return them again for 10 seconds.
func (ts *Ties) Overdue(ctx context.Context) ([]data.Tie, error) {
	return all(ctx, ts.beside(), scanTie, claimOverdue)
}

// beside returns the querier of statements that also write.
func (ts *Ties) beside() querier { return unprepared{&pool{DB: ts.b.write, d: ts.b.d}} }

// count runs a statement and returns how many rows it has changed.
func (ts *Ties) count(ctx context.Context, query string, args ...any) (int64, error) {
	res, err := ts.b.write.ExecContext(ctx, ts.b.d.statement(query, plain), args...)
	if err != nil {
		return 0, ts.b.d.explained(ctx, err)
	}
	return res.RowsAffected()
}
