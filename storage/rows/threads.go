package rows

import (
	"context"
	"database/sql"
	"encoding/json"

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
	return sqldb.Scan(rows, &h, intoHead(&h)...)
}

// intoHead returns the scan destinations of a head's columns.
func intoHead(h *data.ThreadHead) []any {
	return []any{
		&h.Project, &h.User, &h.ID, &h.ConversationID, &h.LastEventID, &h.LastSeq, sqldb.Into(&h.CreatedAt),
		sqldb.Into(&h.UpdatedAt), &h.Key,
	}
}

// ScanThread reads a thread, and the columns behind it.
func ScanThread(rows *sql.Rows, more ...any) (t data.Thread, err error) {
	into := append(intoHead(&t.ThreadHead), sqldb.Into(&t.State), &t.Title, sqldb.Into(&t.Metadata), &t.Archived)
	return sqldb.Scan(rows, &t, append(into, more...)...)
}

func scanThread(rows *sql.Rows) (data.Thread, error) { return ScanThread(rows) }

// Thread returns the thread with the key.
func (r *Reader) Thread(ctx context.Context, key int64) (data.Thread, error) {
	return sqldb.One(ctx, r.q, scanThread, selectThread, key)
}

// ThreadByID returns the user's thread with the id.
func ThreadByID(ctx context.Context, q sqldb.Querier, project, user, id string) (data.Thread, error) {
	return sqldb.One(ctx, q, scanThread, selectThreadByID, id, project, user, id)
}

// ThreadByConversation returns the project's thread with the conversation id.
func (r *Project) ThreadByConversation(ctx context.Context, project, conversationID string) (data.Thread, error) {
	return sqldb.One(ctx, r.q, scanThread, selectThreadByConversation, conversationID, project)
}

// LatestThread returns the user's thread with the latest activity.
func (r *Project) LatestThread(ctx context.Context, project, user string) (data.Thread, error) {
	return sqldb.One(ctx, r.q, scanThread, selectLatestThread, project, user)
}

// ThreadsNamed returns those of the users' threads that exist, read in one statement.
func ThreadsNamed(ctx context.Context, pool *sqldb.Pool, names []data.Name) ([]data.Thread, error) {
	query := selectListedThreads
	if !pool.DB.Single {
		query = selectThreadsByID
	}
	return sqldb.Find(ctx, pool, scanThread, query, namesOf(names))
}
