package rows

import (
	"context"
	"database/sql"
	"encoding/json"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

// HeadColumns are the columns of a run's head.
const HeadColumns = `thread_key, project_id, user_id, id, agent, workflow_id, status, generation, attempt, spans,
	span_name, turn, answered, owner_instance, replaces, roll_back, closed_event_id, error, created_at, queued_at,
	started_at, finished_at, claimed_at, waits, parked_event, active_ms, signals, key`

const (
	insertRun = `
INSERT INTO runs (` + HeadColumns + `, output_summary, usage, tied_to)
VALUES (?::bigint, ?::text, ?::text, ?::text, ?::text, ?::text, ?::text, ?::bigint, ?::bigint, ?::bigint, ?::text,
	?::bigint, ?::boolean, ?::text, ?::text, ?::boolean, ?::bigint, ?::text, ?::timestamptz, ?::timestamptz,
	?::timestamptz, ?::timestamptz, ?::timestamptz, ?::text, ?::bigint, ?::bigint, ?::bigint, ?::bigint, ?::text, ?::text, ?::text)`

	insertInput = `
INSERT INTO run_inputs (run_key, input, definition, input_query, context_item_ids, metadata, parent_run)
VALUES (?::bigint, ?::text, ?::text, ?::text, ?::text, ?::text, ?::text)`

	setHead = `
UPDATE runs SET status = ?::text, generation = ?::bigint, attempt = ?::bigint, spans = ?::bigint,
	span_name = ?::text, turn = ?::bigint, answered = ?::boolean, owner_instance = ?::text, replaces = ?::text,
	roll_back = ?::boolean, closed_event_id = ?::bigint, error = ?::text, queued_at = ?::timestamptz,
	started_at = ?::timestamptz, finished_at = ?::timestamptz, claimed_at = ?::timestamptz, waits = ?::text,
	parked_event = ?::bigint, active_ms = ?::bigint, signals = ?::bigint,
	cancel_asked = CASE WHEN ?::text = 'RUNNING' THEN cancel_asked END`

	updateRun = setHead + `
WHERE key = ?::bigint`

	// endRun is updateRun and updateResult.
	endRun = setHead + `, output_summary = ?::text, usage = ?::text
WHERE key = ?::bigint`

	updateResult = `
UPDATE runs SET output_summary = ?::text, usage = ?::text
WHERE key = ?::bigint`

	crashRun = `
UPDATE runs SET attempt = ?::bigint
WHERE key = ?::bigint`

	tieRun = `
UPDATE runs SET tied_to = ?::text
WHERE key = ?::bigint`

	// askCancel leaves a run alone that has left RUNNING, and an earlier request in place.
	askCancel = `
UPDATE runs SET cancel_asked = ?::text
WHERE key = ?::bigint AND status = 'RUNNING' AND cancel_asked IS NULL`

	selectCancelAsks = `
SELECT key, cancel_asked FROM runs WHERE owner_instance = ? AND cancel_asked IS NOT NULL ORDER BY key LIMIT 1000`

	insertName = `
INSERT INTO run_names (project_id, user_id, name, run_key, body_hash)
VALUES (?::text, ?::text, ?::text, ?::bigint, ?::text)`

	runColumns = `
SELECT r.thread_key, r.project_id, r.user_id, r.id, r.agent, r.workflow_id, r.status, r.generation, r.attempt, r.spans,
	r.span_name, r.turn, r.answered, r.owner_instance, r.replaces, r.roll_back, r.closed_event_id, r.error, r.created_at,
	r.queued_at, r.started_at, r.finished_at, r.claimed_at, r.waits, r.parked_event, r.active_ms, r.signals, r.key, `
	ofRun = `, COALESCE(i.input_query, ''), r.output_summary,
	r.usage, i.context_item_ids, i.metadata, COALESCE(i.parent_run, ''), t.thread_id, t.title, t.conversation_id
FROM runs r
LEFT JOIN run_inputs i ON i.run_key = r.key
JOIN threads t ON t.key = r.thread_key`

	// Inputs and definitions may be large, and few requests need them.
	selectRun = runColumns + `NULL, NULL` + ofRun

	selectRunByKey = runColumns + `i.input, i.definition` + ofRun + `
WHERE r.key = ?`

	selectRunsByName = selectRun + `
WHERE r.key IN (SELECT run_key FROM run_names WHERE project_id = ? AND name = ? LIMIT 2)
ORDER BY r.key LIMIT 2`

	selectRunOfUser = selectRun + `
WHERE r.key = (SELECT run_key FROM run_names WHERE project_id = ? AND name = ? AND user_id = ?)`

	selectRunsNamed = `
SELECT n.project_id, n.user_id, n.name, r.key, r.thread_key, r.id, n.body_hash, r.status, COALESCE((
	SELECT s.first_event_id FROM run_spans s WHERE s.run_key = r.key AND s.run_id = n.name ORDER BY s.n LIMIT 1), 0)
FROM ` + unnestNames + `
CROSS JOIN run_names n CROSS JOIN runs r
WHERE n.project_id = asked.project AND n.name = asked.name AND n.user_id = asked.owner AND r.key = n.run_key`

	// selectOpenHeads reads the open runs of threads in the order of their claims.
	selectOpenHeads = `
SELECT ` + HeadColumns + ` FROM runs` + openInOrder

	openInOrder = `
WHERE thread_key = ANY (?) AND status IN ('QUEUED', 'RUNNING', 'WAITING')
ORDER BY CASE status WHEN 'QUEUED' THEN 1 ELSE 0 END, answered DESC, turn, queued_at, key`

	selectHeads = `
SELECT ` + HeadColumns + ` FROM runs WHERE key = ANY (?)`

	// These show decisions which runs have queued messages: few, so selectInbox is rarely needed.
	selectOpenSubjects = `
SELECT ` + subjectColumns + ` FROM runs` + openInOrder

	selectSubjects = `
SELECT ` + subjectColumns + ` FROM runs WHERE key = ANY (?) ORDER BY key`

	subjectColumns = HeadColumns + `,
	(SELECT max(m.key) FROM messages m WHERE m.run_key = runs.key AND m.state = 'queued') IS NOT NULL, cancel_asked IS NOT NULL`

	selectLastRun = selectRun + `
WHERE r.thread_key = ? ORDER BY r.key DESC LIMIT 1`

	selectOrphans = `
SELECT ` + HeadColumns + ` FROM runs
WHERE status = 'RUNNING' AND status IN ('QUEUED', 'RUNNING', 'WAITING')
	AND (thread_key, CASE status WHEN 'QUEUED' THEN key ELSE 0 END) > (?, 0)
	AND NOT EXISTS (SELECT 1 FROM instances WHERE id = owner_instance AND NOT fenced)
ORDER BY thread_key, CASE status WHEN 'QUEUED' THEN key ELSE 0 END LIMIT ?`
)

func runCells(r *data.Run) []any {
	return []any{
		r.ThreadKey, r.Project, r.User, r.ID, r.Agent, r.WorkflowID, string(r.Status), r.Generation, r.Attempt, r.Spans,
		r.SpanName, r.Turn, r.Answered, r.Owner, sqldb.JSON(r.Replaces), r.RollBack, r.ClosedEvent, sqldb.JSON(r.Error),
		sqldb.Time(r.CreatedAt), sqldb.Time(r.QueuedAt), sqldb.Time(r.StartedAt), sqldb.Time(r.FinishedAt), sqldb.Time(r.ClaimedAt),
		sqldb.JSON(r.Waits), r.ParkedEvent, r.ActiveMs, r.Signals, r.Key,
		r.OutputSummary, sqldb.JSON(r.Usage), r.TiedTo,
	}
}

func inputCells(r *data.Run) []any {
	return []any{
		r.Key, sqldb.JSON(r.Input), sqldb.JSON(r.Definition), r.InputQuery, sqldb.JSON(r.ContextItemIDs), sqldb.JSON(r.Metadata), r.ParentRun,
	}
}

func headCells(h *data.RunHead) []any {
	return []any{
		string(h.Status), h.Generation, h.Attempt, h.Spans, h.SpanName, h.Turn, h.Answered, h.Owner, sqldb.JSON(h.Replaces),
		h.RollBack, h.ClosedEvent, sqldb.JSON(h.Error), sqldb.Time(h.QueuedAt), sqldb.Time(h.StartedAt), sqldb.Time(h.FinishedAt),
		sqldb.Time(h.ClaimedAt), sqldb.JSON(h.Waits), h.ParkedEvent, h.ActiveMs, h.Signals, string(h.Status), h.Key,
	}
}

func endedCells(e *endedRun) []any {
	cells := headCells(&e.head)
	return append(cells[:len(cells)-1], resultCells(&e.result)...)
}

func resultCells(r *data.RunResult) []any { return []any{r.OutputSummary, sqldb.JSON(r.Usage), r.Key} }

func crashesCells(c *data.RunCrashes) []any { return []any{c.Attempt, c.Key} }

func tieCells(t *data.RunTie) []any { return []any{t.TiedTo, t.Key} }

func cancelCells(c *data.CancelAsk) []any {
	by, _ := json.Marshal(c.By) // of strings
	return []any{string(by), c.RunKey}
}

func nameCells(n *data.RunName) []any {
	return []any{n.Project, n.User, n.Name, n.RunKey, n.BodyHash}
}

// into returns the scan destinations of a head's columns.
func into(h *data.RunHead, more ...any) []any {
	return append([]any{
		&h.ThreadKey, &h.Project, &h.User, &h.ID, &h.Agent, &h.WorkflowID, &h.Status, &h.Generation, &h.Attempt, &h.Spans,
		&h.SpanName, &h.Turn, &h.Answered, &h.Owner, sqldb.Into(&h.Replaces), &h.RollBack, &h.ClosedEvent, sqldb.Into(&h.Error),
		sqldb.Into(&h.CreatedAt), sqldb.Into(&h.QueuedAt), sqldb.Into(&h.StartedAt), sqldb.Into(&h.FinishedAt),
		sqldb.Into(&h.ClaimedAt), sqldb.Into(&h.Waits), &h.ParkedEvent, &h.ActiveMs, &h.Signals, &h.Key,
	}, more...)
}

// ScanHead reads a row of HeadColumns.
func ScanHead(rows *sql.Rows) (h data.RunHead, err error) { return sqldb.Scan(rows, &h, into(&h)...) }

// subject is a run that a decision sees.
type subject struct {
	data.RunHead
	queued bool // it has queued messages
	asked  bool // it is to be cancelled
}

func scanSubject(rows *sql.Rows) (s subject, err error) {
	return sqldb.Scan(rows, &s, into(&s.RunHead, &s.queued, &s.asked)...)
}

func scanRun(rows *sql.Rows) (data.Run, error) { return ScanRun(rows) }

// ScanRun reads a run as lists have it, and the columns behind it.
func ScanRun(rows *sql.Rows, more ...any) (run data.Run, err error) {
	return sqldb.Scan(rows, &run, into(&run.RunHead, append([]any{
		sqldb.Into(&run.Input), sqldb.Into(&run.Definition), &run.InputQuery, &run.OutputSummary, sqldb.Into(&run.Usage),
		sqldb.Into(&run.ContextItemIDs), sqldb.Into(&run.Metadata), &run.ParentRun, &run.ThreadID, &run.ThreadTitle,
		&run.ConversationID,
	}, more...)...)...)
}

// named is a run with one of its names.
type named struct {
	data.Name
	run data.NamedRun
}

func scanNamed(rows *sql.Rows) (n named, err error) {
	return sqldb.Scan(rows, &n, &n.Project, &n.User, &n.ID, &n.run.RunKey, &n.run.ThreadKey, &n.run.ID, &n.run.BodyHash, &n.run.Status, &n.run.First)
}

// Run returns the run with the key.
func (r *Reader) Run(ctx context.Context, key int64) (data.Run, error) {
	return sqldb.One(ctx, r.q, scanRun, selectRunByKey, key)
}

// RunsByName returns the project's runs that have the name: see [data.ByProject].
func (r *Project) RunsByName(ctx context.Context, project, user, name string) ([]data.Run, error) {
	if user == "" {
		return sqldb.All(ctx, r.q, scanRun, selectRunsByName, project, name)
	}
	return sqldb.All(ctx, r.q, scanRun, selectRunOfUser, project, name, user)
}

// OpenRuns returns the thread's QUEUED, RUNNING and WAITING runs in the order they will be claimed.
func (r *Reader) OpenRuns(ctx context.Context, threadKey int64) ([]data.RunHead, error) {
	return sqldb.All(ctx, r.q, ScanHead, selectOpenHeads, r.d.List([]int64{threadKey}))
}

// Heads returns the heads of those of the runs that exist.
func (r *Reader) Heads(ctx context.Context, runs []int64) ([]data.RunHead, error) {
	return sqldb.All(ctx, r.q, ScanHead, selectHeads, r.d.List(runs))
}

// CancelAsks returns the requests to cancel runs that an instance executes.
func (r *Reader) CancelAsks(ctx context.Context, instance string) ([]data.CancelAsk, error) {
	return sqldb.All(ctx, r.q, func(rows *sql.Rows) (c data.CancelAsk, err error) {
		return sqldb.Scan(rows, &c, &c.RunKey, sqldb.Into(&c.By))
	}, selectCancelAsks, instance)
}

// LastRun returns the thread's newest run, without its input and definition.
func (r *Reader) LastRun(ctx context.Context, threadKey int64) (data.Run, error) {
	return sqldb.One(ctx, r.q, scanRun, selectLastRun, threadKey)
}

// Orphans returns up to limit RUNNING runs whose owner may not write any more: see [data.Queue].
func (r *Queue) Orphans(ctx context.Context, afterThread int64, limit int) ([]data.RunHead, error) {
	return sqldb.All(ctx, r.q, ScanHead, selectOrphans, afterThread, limit)
}

// selectWeight reads sizes from columns beside the large values, which it does not read.
const selectWeight = `
SELECT
	COALESCE((SELECT COALESCE(octet_length(input), 0) + COALESCE(octet_length(definition), 0)
		FROM run_inputs WHERE run_key = ?), 0)
	+ COALESCE((SELECT octet_length(state) FROM thread_states WHERE thread_key = ?), 0)
	+ COALESCE((SELECT sum(size) FROM (SELECT octet_length(message) + ? AS size FROM messages
		WHERE run_key = ? AND state = 'queued' LIMIT ?) AS plain), 0)
	+ COALESCE((SELECT sum(size) FROM (SELECT octet_length(output) AS size FROM memos
		WHERE run_key = ? AND generation = (SELECT generation FROM runs WHERE key = ?) LIMIT ?) AS plain), 0),
	COALESCE((SELECT sum(size) FROM (SELECT octet_length(message) + ? AS size FROM messages
		WHERE thread_key = ? AND state = 'consumed' ORDER BY seq DESC LIMIT ?) AS plain), 0),
	COALESCE((SELECT sum(size) FROM (SELECT octet_length(message) AS size FROM messages
		WHERE run_key = ? AND state = 'consumed'
			AND event_id > COALESCE((SELECT min(first_event_id) FROM run_spans
				WHERE run_key = ? AND generation = (SELECT generation FROM runs WHERE key = ?)), 0)
			AND event_id NOT IN (SELECT first_event_id FROM run_spans WHERE run_key = ?) LIMIT ?) AS plain), 0)`

// Weight returns the size of a run's input and output. Its input is its own, its records, the thread's state, queued
// messages, and the thread's messages up to the limit for workers. Its output is its generation's messages, except
// those with which its spans begin: these are input.
func (r *Reader) Weight(ctx context.Context, threadKey, runKey int64) (data.Weight, error) {
	return sqldb.One(ctx, r.q, func(rows *sql.Rows) (w data.Weight, err error) {
		var history int64
		err = rows.Scan(&w.Asked, &history, &w.Said)
		w.Asked += min(history, data.ThreadBytes)
		return w, err
	}, selectWeight, runKey, threadKey, data.MessageBytes, runKey, weighed, runKey, runKey, weighed, data.MessageBytes, threadKey, latest, runKey, runKey, runKey, runKey, weighed)
}

// Limits of the rows whose sizes are added up. A worker gets the latest messages of its thread; the other limit is above what a run
// can have.
const (
	latest  = 2000
	weighed = 1_000_000
)
