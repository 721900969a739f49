package storage

import (
	"context"
	"database/sql"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

const threadColumns = `project_id, user_id, thread_id, conversation_id, last_seq, last_message_seq, created_at,
	updated_at, key`

const (
	insertThread = `
INSERT INTO threads (` + threadColumns + `, title, metadata, archived)
VALUES (?::text, ?::text, ?::text, ?::text, ?::bigint, ?::bigint, ?::timestamptz, ?::timestamptz, ?::bigint, ?::text,
	?::text, ?::boolean)`

	updateThread = `
UPDATE threads SET last_seq = ?::bigint, last_message_seq = ?::bigint, updated_at = ?::timestamptz
WHERE key = ?::bigint`

	patchThread = `
UPDATE threads SET title = COALESCE(?::text, title),
	metadata = CASE WHEN ?::boolean THEN ?::text ELSE metadata END, archived = COALESCE(?::boolean, archived)
WHERE key = ?::bigint`

	upsertState = `
INSERT INTO thread_states (thread_key, state)
VALUES (?::bigint, ?::text)
ON CONFLICT (thread_key) DO UPDATE SET state = excluded.state`

	selectThreadHead = `
SELECT ` + threadColumns + ` FROM threads`

	lockThreads = selectThreadHead + ` WHERE key = ANY (?) ORDER BY key FOR NO KEY UPDATE SKIP LOCKED`

	selectThreadKeys = `
SELECT key FROM threads WHERE key = ANY (?)`

	// byThreadID finds the thread with an id among a user's. The order makes the index of ids alone fit, also in a table of which
	// PostgreSQL knows nothing; otherwise PostgreSQL may read all threads of the user.
	byThreadID = `
WHERE t.project_id = asked.project AND t.user_id = asked.owner AND t.thread_id >= asked.name ORDER BY t.thread_id LIMIT 1`

	selectThreadsNamed = selectThreadHead + ` WHERE key IN (
	SELECT (SELECT CASE t.thread_id WHEN asked.name THEN t.key END FROM threads t` + byThreadID + `) FROM ` + unnestNames + `)`

	selectWholeThread = `
SELECT t.project_id, t.user_id, t.thread_id, t.conversation_id, t.last_seq, t.last_message_seq, t.created_at,
	t.updated_at, t.key, CASE WHEN s.thread_key IS NULL THEN '{}' ELSE s.state END, t.title, t.metadata, t.archived
FROM threads t LEFT JOIN thread_states s ON s.thread_key = t.key`

	selectThread = selectWholeThread + `
WHERE t.key = ?`

	selectThreadByID = selectWholeThread + `
WHERE t.key = (SELECT CASE thread_id WHEN ? THEN key END FROM threads
	WHERE project_id = ? AND user_id = ? AND thread_id >= ? ORDER BY thread_id LIMIT 1)`

	// selectThreadsByID is for PostgreSQL, which would read the whole table for a join until it has analyzed the table. It plans the
	// statement once, because a subquery hides how long the lists are.
	selectThreadsByID = `
SELECT found.* FROM unnest((SELECT ?::text[]), (SELECT ?::text[]), (SELECT ?::text[])) AS asked (project, owner, name)
CROSS JOIN LATERAL (` + selectWholeThread + byThreadID + `) AS found WHERE found.thread_id = asked.name`

	// selectListedThreads is selectThreadsByID for SQLite.
	selectListedThreads = selectWholeThread + `
WHERE t.key IN (
	SELECT n.key FROM ` + unnestNames + `
	CROSS JOIN threads n WHERE n.project_id = asked.project AND n.user_id = asked.owner AND n.thread_id = asked.name)`

	selectThreadByConversation = selectWholeThread + `
WHERE t.conversation_id = ? AND t.project_id = ?`

	selectLatestThread = selectWholeThread + `
WHERE t.project_id = ? AND t.user_id = ?
ORDER BY t.updated_at DESC, t.key DESC LIMIT 1`

	// A list does not show the state, which can be large.
	listedColumns = `
SELECT t.project_id, t.user_id, t.thread_id, t.conversation_id, t.last_seq, t.last_message_seq, t.created_at,
	t.updated_at, t.key, NULL, t.title, t.metadata, t.archived, COALESCE(r.id, ''),
	COALESCE(r.workflow_id, ''), COALESCE(r.status, ''), 
	COALESCE(CASE WHEN octet_length(i.input_query) <= 65536 THEN substr(i.input_query, 1, 200) END, '')` // a larger text is not read for 200 characters

	shownRun = `
LEFT JOIN runs r ON r.key = COALESCE(
	(SELECT key FROM runs WHERE thread_key = t.key AND status IN ('QUEUED', 'RUNNING', 'WAITING') AND status <> 'QUEUED'
		LIMIT 1),
	(SELECT key FROM runs WHERE thread_key = t.key ORDER BY key DESC LIMIT 1))
LEFT JOIN run_inputs i ON i.run_key = r.key`

	selectListedThread = listedColumns + `
FROM threads t` + shownRun + `
WHERE t.key = ? AND t.project_id = ?`

	// The statement of a page is listedColumns, the count or sqldb.Uncounted, and one of the last three constants.
	pageOfThreads = `), sized.found
FROM (SELECT sized_key, at, found
	FROM (SELECT sized_key, at, sum(size) OVER (ORDER BY at DESC, sized_key DESC) - size AS behind, count(*) OVER () AS found
		FROM (SELECT key AS sized_key, updated_at AS at, COALESCE(octet_length(metadata), 0) AS size FROM threads
			WHERE project_id = ?`
	ofOneUser    = ` AND user_id = ?`
	latestOfThem = ` AND (updated_at, key) < (?, ?)
			ORDER BY updated_at DESC, key DESC LIMIT ?`
	thatFitAThread = `) AS plain) AS counted
	WHERE behind < ? ORDER BY at DESC, sized_key DESC` + sqldb.SizedFirst + `
JOIN threads t ON t.key = sized_key` + shownRun + `
ORDER BY sized.at DESC, sized_key DESC`

	threadsOfUser = pageOfThreads + ofOneUser + latestOfThem + thatFitAThread
	threadsOfAll  = pageOfThreads + latestOfThem + thatFitAThread

	countThreads = `
SELECT count(*) FROM (SELECT 1 FROM threads WHERE project_id = ? AND user_id = ? LIMIT ?) AS counted`
	countAllThreads = `
SELECT count(*) FROM (SELECT 1 FROM threads WHERE project_id = ? LIMIT ?) AS counted`
)

func threadCells(t *data.Thread) []any {
	return []any{
		t.Project, t.User, t.ID, t.ConversationID, t.LastEventID, t.LastSeq, sqldb.Time(t.CreatedAt), sqldb.Time(t.UpdatedAt), t.Key,
		t.Title, sqldb.JSON(t.Metadata), t.Archived,
	}
}

func threadHeadCells(h *data.ThreadHead) []any {
	return []any{h.LastEventID, h.LastSeq, sqldb.Time(h.UpdatedAt), h.Key}
}

func stateCells(s *data.ThreadState) []any { return []any{s.Key, sqldb.JSON(s.State)} }

func patchCells(p *data.ThreadPatch) []any {
	var metadata json.RawMessage
	if p.Metadata != nil && string(p.Metadata) != "null" {
		metadata = p.Metadata
	}
	var archived any
	if p.Archived != nil {
		archived = *p.Archived
	}
	return []any{p.Title, p.Metadata != nil, sqldb.JSON(metadata), archived, p.Key}
}

func scanThreadHead(rows *sql.Rows) (h data.ThreadHead, err error) {
	return sqldb.Scan(rows, &h, intoThread(&h)...)
}

// intoThread returns the scan destinations of a head's columns.
func intoThread(h *data.ThreadHead, more ...any) []any {
	return append([]any{
		&h.Project, &h.User, &h.ID, &h.ConversationID, &h.LastEventID, &h.LastSeq,
		sqldb.Into(&h.CreatedAt),
		sqldb.Into(&h.UpdatedAt),
		&h.Key,
	}, more...)
}

// intoWhole returns the scan destinations of the columns after a head.
func intoWhole(t *data.Thread) []any {
	return []any{sqldb.Into(&t.State), &t.Title, sqldb.Into(&t.Metadata), &t.Archived}
}

func scanThread(rows *sql.Rows) (t data.Thread, err error) {
	return sqldb.Scan(rows, &t, intoThread(&t.ThreadHead, intoWhole(&t)...)...)
}

// Thread returns the thread with the key.
func (r keyed) Thread(ctx context.Context, key int64) (data.Thread, error) {
	return sqldb.One(ctx, r.q, scanThread, selectThread, key)
}

// ThreadByID returns the user's thread with the id.
func (r reader) ThreadByID(ctx context.Context, project, user, id string) (data.Thread, error) {
	return sqldb.One(ctx, r.q, scanThread, selectThreadByID, id, project, user, id)
}

// ThreadByConversation returns the project's thread with the conversation id.
func (r reader) ThreadByConversation(ctx context.Context, project, conversationID string) (data.Thread, error) {
	return sqldb.One(ctx, r.q, scanThread, selectThreadByConversation, conversationID, project)
}

// LatestThread returns the user's thread with the latest activity.
func (r reader) LatestThread(ctx context.Context, project, user string) (data.Thread, error) {
	return sqldb.One(ctx, r.q, scanThread, selectLatestThread, project, user)
}

func scanListed(rows *sql.Rows) (data.ListedThread, error) { return scanListedAnd(rows) }

func scanListedAnd(rows *sql.Rows, more ...any) (t data.ListedThread, err error) {
	own := append(intoWhole(&t.Thread), &t.RunID, &t.Agent, &t.Status, &t.Asked)
	err = rows.Scan(intoThread(&t.ThreadHead, append(own, more...)...)...)
	return t, err
}

// ListedThread returns the thread with the key as Threads lists it.
func (r reader) ListedThread(ctx context.Context, project string, key int64) (data.ListedThread, error) {
	return sqldb.One(ctx, r.q, scanListed, selectListedThread, key, project)
}

// endOfTime is later than any activity.
var endOfTime = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)

// Threads lists the threads of a user or of a project without their states, latest activity first. The default limit is 50.
func (r reader) Threads(ctx context.Context, f data.ThreadFilter) (data.Page[data.ListedThread], error) {
	if f.Limit <= 0 {
		f.Limit = 50
	}
	if f.BeforeKey == 0 || f.BeforeTime.After(endOfTime) { // no later time fits into a column
		f.BeforeTime, f.BeforeKey = endOfTime, math.MaxInt64
	}
	if f.Searches() {
		return searched(ctx, r, func(ctx context.Context, r reader) (data.Page[data.ListedThread], error) {
			return r.lookThreads(ctx, &f)
		})
	}
	list, count, whose := threadsOfAll, countAllThreads, []any{f.Project}
	if f.User != "" {
		list, count, whose = threadsOfUser, countThreads, append(whose, f.User)
	}
	counting := slices.Concat(whose, []any{sqldb.MaxCount + 1})
	if !f.Count {
		count, counting = sqldb.Uncounted, nil
	}
	p, err := sqldb.PageOf(ctx, r.q, scanListedAnd, data.PageBytes, f.Limit, listedColumns+`, (`+count+list,
		slices.Concat(counting, whose, []any{sqldb.Time(f.BeforeTime), f.BeforeKey})...)
	if err != nil || !f.Count {
		return p, err
	}
	return sqldb.Counted(ctx, r.q, p, count, counting...)
}
