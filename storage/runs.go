package storage

import (
	"context"
	"database/sql"
	"math"
	"strings"
	"time"

	"github.com/batonrun/baton/runtime"
)

// maxCount bounds every count that stands beside a page.
const maxCount = 10_000

const runColumns = `thread_key, id, project_id, user_id, agent, workflow_id, status, input, definition,
	input_query, output_summary, error, usage, context_item_ids, metadata, parent_run, background,
	generation, attempt, answered, owner_instance, closed_event_id, created_at, queued_at, started_at,
	finished_at`

const (
	insertRun = `
INSERT INTO runs (` + runColumns + `)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
RETURNING key`

	reserveRuns = `
SELECT nextval(pg_get_serial_sequence('runs', 'key')) FROM generate_series(1, 32)`

	upsertRun = `
INSERT INTO runs (` + runColumns + `, key)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET
	thread_key = excluded.thread_key, id = excluded.id, project_id = excluded.project_id,
	user_id = excluded.user_id, agent = excluded.agent, workflow_id = excluded.workflow_id,
	status = excluded.status, input = COALESCE(excluded.input, runs.input),
	definition = COALESCE(excluded.definition, runs.definition), input_query = excluded.input_query,
	output_summary = excluded.output_summary, error = excluded.error, usage = excluded.usage,
	context_item_ids = excluded.context_item_ids, metadata = excluded.metadata,
	parent_run = excluded.parent_run, background = excluded.background, generation = excluded.generation,
	attempt = excluded.attempt, answered = excluded.answered, owner_instance = excluded.owner_instance,
	closed_event_id = excluded.closed_event_id, created_at = excluded.created_at,
	queued_at = excluded.queued_at, started_at = excluded.started_at, finished_at = excluded.finished_at`

	// insertName names a run. When another run of the user has the name there is no key to put, and the
	// column refuses that.
	insertName = `
INSERT INTO run_names (project_id, user_id, name, run_key)
VALUES (?, ?, ?, ?)
ON CONFLICT (project_id, name, user_id) DO UPDATE SET
	run_key = CASE WHEN run_names.run_key = excluded.run_key THEN excluded.run_key END`

	selectRunUser = `
SELECT project_id, user_id FROM runs WHERE key = ?`

	selectRun = `
SELECT r.thread_key, r.id, r.project_id, r.user_id, r.agent, r.workflow_id, r.status, r.input, r.definition,
	r.input_query, r.output_summary, r.error, r.usage, r.context_item_ids, r.metadata, r.parent_run,
	r.background, r.generation, r.attempt, r.answered, r.owner_instance, r.closed_event_id, r.created_at,
	r.queued_at, r.started_at, r.finished_at, r.key, t.thread_id, t.conversation_id
FROM runs r
JOIN threads t ON t.key = r.thread_key`

	selectRunByKey = selectRun + `
WHERE r.key = ?`

	selectRunsByName = selectRun + `
WHERE r.key IN (SELECT run_key FROM run_names WHERE project_id = ? AND name = ? LIMIT 2)
ORDER BY r.key LIMIT 2`

	selectRunOfUser = selectRun + `
WHERE r.key = (SELECT run_key FROM run_names WHERE project_id = ? AND name = ? AND user_id = ?)`

	// A filter stands between the first and the second of each. The page finds its keys first, which an index
	// alone can tell, and has SQLite choose the right one.
	selectFiltered = selectRun + `
WHERE r.key IN (SELECT key FROM runs`
	pageOfFiltered = ` AND key < ? ORDER BY key DESC LIMIT ?) ORDER BY r.key DESC`

	countFiltered = `
SELECT count(*) FROM (SELECT 1 FROM runs`
	maxOfFiltered = ` LIMIT ?) AS counted`

	selectOpenRuns = selectRun + `
WHERE r.thread_key = ? AND r.status IN ('QUEUED', 'RUNNING', 'WAITING')` + claimOrder
	claimOrder = `
ORDER BY CASE r.status WHEN 'QUEUED' THEN 1 ELSE 0 END, r.answered DESC, r.queued_at, r.key
LIMIT 10000`

	selectLastRun = selectRun + `
WHERE r.thread_key = ? ORDER BY r.key DESC LIMIT 1`

	selectUnfinished = selectRun + `
WHERE r.status = ? AND r.status IN ('QUEUED', 'RUNNING', 'WAITING') AND (r.queued_at, r.key) > (?, ?)
ORDER BY r.queued_at, r.key LIMIT ?`

	countRuns = `
SELECT status, count(*) FROM runs WHERE status IN ('QUEUED', 'RUNNING', 'WAITING') GROUP BY status`

	deleteRun = `
DELETE FROM runs WHERE key = ?`
)

func runArgs(r *runtime.Run) []any {
	return []any{
		r.ThreadKey, r.ID, r.Project, r.User, r.Agent, r.WorkflowID, string(r.Status), raw(r.Input),
		raw(r.Definition), r.InputQuery, r.OutputSummary, jsonOf(r.Error), jsonOf(r.Usage),
		jsonOf(r.ContextItemIDs), raw(r.Metadata), r.ParentRun, r.Background, r.Generation, r.Attempt,
		r.Answered, r.Owner, r.ClosedEvent, ms(r.CreatedAt), ms(r.QueuedAt), msOrNull(r.StartedAt),
		msOrNull(r.FinishedAt),
	}
}

func scanRun(rows *sql.Rows) (r runtime.Run, err error) {
	err = rows.Scan(&r.ThreadKey, &r.ID, &r.Project, &r.User, &r.Agent, &r.WorkflowID, &r.Status,
		rawInto{&r.Input}, rawInto{&r.Definition}, &r.InputQuery, &r.OutputSummary, jsonInto{&r.Error},
		jsonInto{&r.Usage}, jsonInto{&r.ContextItemIDs}, rawInto{&r.Metadata}, &r.ParentRun, &r.Background,
		&r.Generation, &r.Attempt, &r.Answered, &r.Owner, &r.ClosedEvent, timeInto{&r.CreatedAt},
		timeInto{&r.QueuedAt}, timePtrInto{&r.StartedAt}, timePtrInto{&r.FinishedAt}, &r.Key, &r.ThreadID,
		&r.ConversationID)
	return r, err
}

// user is whom a run belongs to.
type user struct{ project, id string }

func scanUser(rows *sql.Rows) (u user, err error) {
	err = rows.Scan(&u.project, &u.id)
	return u, err
}

// Run returns the run of that key.
func (r reader) Run(ctx context.Context, key int64) (runtime.Run, error) {
	return one(ctx, r.q, scanRun, selectRunByKey, key)
}

// RunsByName returns the runs of that name, first or later, in the project: of one user, or with user ""
// of all, at most 2.
func (r reader) RunsByName(ctx context.Context, project, user, name string) ([]runtime.Run, error) {
	if user == "" {
		return all(ctx, r.q, scanRun, selectRunsByName, project, name)
	}
	return all(ctx, r.q, scanRun, selectRunOfUser, project, name, user)
}

// Runs lists runs, newest first, and counts those the filter admits, up to 10 000. Without a limit it lists 50.
func (r reader) Runs(ctx context.Context, f runtime.RunFilter) ([]runtime.Run, int, error) {
	if f.Limit <= 0 {
		f.Limit = 50
	}
	where, args := filterRuns(&f)
	total, err := one(ctx, r.q, scalar[int], countFiltered+where+maxOfFiltered, append(args, maxCount)...)
	if err != nil {
		return nil, 0, err
	}
	if f.BeforeKey == 0 {
		f.BeforeKey = math.MaxInt64
	}
	runs, err := all(ctx, r.q, scanRun, selectFiltered+where+pageOfFiltered, append(args, f.BeforeKey, f.Limit)...)
	return runs, total, err
}

// filterRuns returns the WHERE clause of a filter, all but its cursor.
func filterRuns(f *runtime.RunFilter) (string, []any) {
	var query strings.Builder
	args := make([]any, 0, 10)
	query.WriteString("\nWHERE TRUE")
	and := func(cond string, arg any) {
		query.WriteString(` AND `)
		query.WriteString(cond)
		args = append(args, arg)
	}
	if f.Project != "" {
		and(`project_id = ?`, f.Project)
	}
	if f.User != "" {
		and(`user_id = ?`, f.User)
	}
	if f.ThreadKey != 0 {
		and(`thread_key = ?`, f.ThreadKey)
	}
	if f.Status != "" {
		and(`status = ?`, string(f.Status))
	}
	if f.Agent != "" {
		and(`agent = ?`, f.Agent)
	}
	if f.WorkflowID != "" {
		and(`workflow_id = ?`, f.WorkflowID)
	}
	if !f.Since.IsZero() {
		and(`created_at >= ?`, ms(f.Since))
	}
	return query.String(), args
}

// OpenRuns returns the thread's QUEUED, RUNNING and WAITING runs in the order they will be claimed.
func (r reader) OpenRuns(ctx context.Context, threadKey int64) ([]runtime.Run, error) {
	return all(ctx, r.q, scanRun, selectOpenRuns, threadKey)
}

// LastRun returns the thread's run that was created last.
func (r reader) LastRun(ctx context.Context, threadKey int64) (runtime.Run, error) {
	return one(ctx, r.q, scanRun, selectLastRun, threadKey)
}

// Unfinished returns up to limit runs of all threads that have the status, in the order of their queued
// times, from those after the given one.
func (r reader) Unfinished(ctx context.Context, status runtime.Status, afterQueued time.Time, afterKey int64, limit int) ([]runtime.Run, error) {
	return all(ctx, r.q, scanRun, selectUnfinished, string(status), ms(afterQueued), afterKey, limit)
}

// Counts returns how many runs are in each status that is not final.
func (r reader) Counts(ctx context.Context) (map[runtime.Status]int, error) {
	type count struct {
		status runtime.Status
		n      int
	}
	list, err := all(ctx, r.q, func(rows *sql.Rows) (c count, err error) {
		err = rows.Scan(&c.status, &c.n)
		return c, err
	}, countRuns)
	counts := make(map[runtime.Status]int, len(list))
	for _, c := range list {
		counts[c.status] = c.n
	}
	return counts, err
}
