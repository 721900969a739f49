package rows

import (
	"context"
	"database/sql"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

const (
	upsertPlace = `
INSERT INTO queue (thread_key, todo, run_key, project_id, user_id, workflow, agent, rank, since)
VALUES (?::bigint, ?::bigint, ?::bigint, ?::text, ?::text, ?::text, ?::text, ?::bigint, ?::timestamptz)
ON CONFLICT (thread_key) DO UPDATE SET todo = excluded.todo, run_key = excluded.run_key, project_id = excluded.project_id,
	user_id = excluded.user_id, workflow = excluded.workflow, agent = excluded.agent, rank = excluded.rank, since = excluded.since` + freed

	deletePlace = `
DELETE FROM queue
WHERE thread_key = ?::bigint`

	// selectMisplaced reads, in one snapshot, the threads whose row in the queue cannot be what their runs need. Rows of decisions about
	// runs are written together with the runs.
	selectMisplaced = `
SELECT thread_key FROM (
	SELECT r.thread_key FROM runs r
	WHERE r.status = 'QUEUED' AND NOT EXISTS (SELECT 1 FROM queue q WHERE q.thread_key = r.thread_key) AND NOT EXISTS (
		SELECT 1 FROM runs o WHERE o.thread_key = r.thread_key AND o.status IN ('RUNNING', 'WAITING'))
	UNION
	SELECT r.thread_key FROM runs r
	WHERE r.status = 'WAITING' AND r.waits IS NOT NULL AND NOT EXISTS (SELECT 1 FROM queue q WHERE q.thread_key = r.thread_key)
	UNION
	SELECT q.thread_key FROM queue q
	LEFT JOIN runs r ON r.key = q.run_key AND r.thread_key = q.thread_key AND r.status IN ('QUEUED', 'RUNNING', 'WAITING')
	WHERE r.key IS NULL OR q.todo = 2 AND r.status <> 'QUEUED' OR q.todo = 3 AND r.status <> 'WAITING'
) AS misplaced ORDER BY thread_key LIMIT ?`

	placeColumns = `q.thread_key, q.todo, q.run_key, q.project_id, q.user_id, q.workflow, q.agent, q.rank, q.since`

	// free leaves out the rows that another server has taken. None is taken for so long, unless the clock was set back since.
	free = ` AND (q.taken_until <= now() OR q.taken_until > now() + interval '20 seconds')`

	// freed takes a row from the server that has taken it, as the thread needs something else.
	freed = `, taken_until = DEFAULT`

	// takeRows takes rows for a time. It reads those of the array alone, also if it was planned while the queue was empty.
	takeRows = `
UPDATE queue SET taken_until = clock_timestamp() + ? * interval '1 millisecond'
WHERE thread_key = ANY (ARRAY(
	SELECT q.thread_key FROM queue q WHERE q.thread_key = ANY (?) AND q.todo = 2` + free + ` FOR UPDATE SKIP LOCKED))
RETURNING thread_key`

	giveBackRows = `
UPDATE queue SET taken_until = '-infinity' WHERE thread_key = ANY (?)`

	// selectLane finds the first row of the next lane with one descent of the index. No row has the rank 3: behind the last row of a
	// lane, SQLite looks up the exact place only with it, and would otherwise read the rest of the lane.
	selectLane = `
SELECT ` + placeColumns + ` FROM queue q
WHERE q.todo = 2 AND q.project_id = ? AND (q.user_id, q.workflow, q.agent, q.rank) > (?, ?, ?, 3)` + free + firstOfLane

	firstOfLane = `
ORDER BY q.user_id, q.workflow, q.agent, q.rank, q.since, q.thread_key LIMIT 1`

	selectProject = `
SELECT ` + placeColumns + ` FROM queue q
WHERE q.todo = 2 AND q.project_id > ?` + free + firstOfProject

	firstOfProject = `
ORDER BY q.project_id, q.user_id, q.workflow, q.agent, q.rank, q.since, q.thread_key LIMIT 1`

	// selectLanes and selectProjects go from each row that selectLane or selectProject finds to the next one. PostgreSQL returns the
	// rows of a recursion in the order in which it finds them.
	selectLanes = `
WITH RECURSIVE found AS (
	SELECT 1 AS n, first.* FROM (` + selectLane + `) AS first
	UNION ALL
	SELECT found.n + 1, next.* FROM found CROSS JOIN LATERAL (
		SELECT ` + placeColumns + ` FROM queue q
		WHERE q.todo = 2 AND q.project_id = found.project_id
			AND (q.user_id, q.workflow, q.agent, q.rank) > (found.user_id, found.workflow, found.agent, 3)` + free + firstOfLane + `) AS next
	WHERE found.n < ?)
SELECT ` + foundColumns + ` FROM found`

	selectProjects = `
WITH RECURSIVE found AS (
	SELECT 1 AS n, first.* FROM (` + selectProject + `) AS first
	UNION ALL
	SELECT found.n + 1, next.* FROM found CROSS JOIN LATERAL (
		SELECT ` + placeColumns + ` FROM queue q
		WHERE q.todo = 2 AND q.project_id > found.project_id` + free + firstOfProject + `) AS next
	WHERE found.n < ?)
SELECT ` + foundColumns + ` FROM found`

	foundColumns = `thread_key, todo, run_key, project_id, user_id, workflow, agent, rank, since`

	selectRows = `
SELECT ` + placeColumns + ` FROM queue q
WHERE q.todo = 2 AND q.project_id = ? AND q.user_id = ? AND q.workflow = ? AND q.agent = ?
	AND (q.rank, q.since, q.thread_key) > (?, ?, ?)` + free + `
ORDER BY q.rank, q.since, q.thread_key LIMIT ?`

	selectCancels = `
SELECT ` + placeColumns + ` FROM queue q
WHERE q.todo = 1 AND q.thread_key > ? ORDER BY q.thread_key LIMIT ?`

	selectDue = `
SELECT ` + placeColumns + ` FROM queue q
WHERE q.todo = 3 AND q.since <= now() AND (q.since, q.thread_key) > (?, ?) ORDER BY q.since, q.thread_key LIMIT ?`

	selectPosition = `
SELECT ` + placeColumns + `, CASE q.todo WHEN 2 THEN 1 + (SELECT count(*) FROM (
	SELECT 1 FROM queue ahead
	WHERE ahead.todo = 2 AND ahead.project_id = q.project_id AND ahead.user_id = q.user_id
		AND (ahead.rank, ahead.since, ahead.thread_key) < (q.rank, q.since, q.thread_key) LIMIT ?) AS plain) ELSE 0 END
FROM queue q WHERE q.thread_key = ?`

	// selectBacklog reads the indexes of open runs and of lanes from their beginnings.
	selectBacklog = `
SELECT count(*) FILTER (WHERE owner_instance = ''), count(*) FILTER (WHERE owner_instance <> ''),
	(SELECT min(since) FROM queue WHERE todo = 2 AND project_id > '')
FROM runs
WHERE status = 'WAITING' AND status IN ('QUEUED', 'RUNNING', 'WAITING') AND (thread_key, CASE status WHEN 'QUEUED' THEN key ELSE 0 END) > (0, 0)`
)

// maxPosition is the last position that Position counts.
const maxPosition = 1000

func leftCells(p *data.Place) []any { return []any{p.ThreadKey} }

func placeCells(p *data.Place) []any {
	return []any{p.ThreadKey, int(p.Todo), p.RunKey, p.Project, p.User, p.Workflow, p.Agent, p.Rank(), sqldb.Time(p.Since)}
}

func scanPlace(rows *sql.Rows, more ...any) (p data.Place, err error) {
	rank := 0
	err = rows.Scan(append([]any{
		&p.ThreadKey, &p.Todo, &p.RunKey, &p.Project, &p.User, &p.Workflow, &p.Agent, &rank, sqldb.Into(&p.Since),
	}, more...)...)
	p.Answered = rank == 1
	return p, err
}

// Misplaced returns up to limit threads whose rows in the queue do not agree with their runs: see [data.Queue].
func (r *Queue) Misplaced(ctx context.Context, limit int) ([]int64, error) {
	return sqldb.All(ctx, r.q, sqldb.Scalar[int64], selectMisplaced, limit)
}

// Line returns up to limit rows of the queue behind a place: see [data.Queue].
func (r *Queue) Line(ctx context.Context, after data.Place, each data.Each, limit int) ([]data.Place, error) {
	switch {
	case limit < 1:
		return nil, nil
	case each == data.EachCancel:
		return placesOf(ctx, r.looks, selectCancels, after.ThreadKey, limit)
	case each == data.EachDue:
		return placesOf(ctx, r.looks, selectDue, sqldb.Time(after.Since), after.ThreadKey, limit)
	case each == data.EachRow:
		rank, since := after.Rank(), sqldb.Time(after.Since)
		if after.ThreadKey == 0 {
			rank, since = 0, time.UnixMilli(0).UTC()
		}
		return placesOf(ctx, r.looks, selectRows, after.Project, after.User, after.Workflow, after.Agent, rank, since, after.ThreadKey, limit)
	case r.d.Single:
		return stepsOf(ctx, r.looks, after, each, limit)
	case each == data.EachLane:
		return placesOf(ctx, r.looks, selectLanes, after.Project, after.User, after.Workflow, after.Agent, limit)
	}
	return placesOf(ctx, r.looks, selectProjects, after.Project, limit)
}

// stepsOf finds one row after the other: a statement of SQLite costs less than a recursion.
func stepsOf(ctx context.Context, q sqldb.Querier, after data.Place, each data.Each, limit int) (list []data.Place, err error) {
	for len(list) < limit {
		var next []data.Place
		if each == data.EachLane {
			next, err = placesOf(ctx, q, selectLane, after.Project, after.User, after.Workflow, after.Agent)
		} else {
			next, err = placesOf(ctx, q, selectProject, after.Project)
		}
		if err != nil || len(next) == 0 {
			return list, err
		}
		after = next[0]
		list = append(list, after)
	}
	return list, nil
}

func placesOf(ctx context.Context, q sqldb.Querier, query string, args ...any) ([]data.Place, error) {
	return sqldb.All(ctx, q, func(rows *sql.Rows) (data.Place, error) { return scanPlace(rows) }, query, args...)
}

// Take takes rows of the queue for a time, or gives them back: see [data.Queue]. It waits for no commit.
func (r *Queue) Take(ctx context.Context, threads []int64, hold time.Duration) ([]int64, error) {
	if r.d.Single {
		return threads, nil
	}
	if hold == 0 {
		return sqldb.All(ctx, r.looks, sqldb.Scalar[int64], giveBackRows, r.d.List(threads))
	}
	return sqldb.All(ctx, r.looks, sqldb.Scalar[int64], takeRows, hold.Milliseconds(), r.d.List(threads))
}

// Position returns a thread's row in the queue, and its position among those of its user: see [data.Queue].
func (r *Queue) Position(ctx context.Context, thread int64) (data.Place, int, error) {
	at := 0
	p, err := sqldb.One(ctx, r.q, func(rows *sql.Rows) (data.Place, error) { return scanPlace(rows, &at) }, selectPosition, maxPosition-1, thread)
	return p, at, err
}

// Backlog returns the work that waits: see [data.Queue].
func (r *Queue) Backlog(ctx context.Context) (data.Backlog, error) {
	return sqldb.One(ctx, r.q, func(rows *sql.Rows) (b data.Backlog, err error) {
		var oldest *time.Time
		if err = rows.Scan(&b.Waiting, &b.Parked, sqldb.Into(&oldest)); oldest != nil {
			b.Oldest = *oldest
		}
		return b, err
	}, selectBacklog)
}
