package storage

import (
	"context"
	"database/sql"
	"math"
	"time"

	"github.com/batonrun/baton/runtime"
)

const threadColumns = `project_id, user_id, thread_id, conversation_id, last_seq, state, title, metadata,
	created_at, updated_at, key`

const (
	insertThread = `
INSERT INTO threads (project_id, user_id, thread_id, conversation_id, last_seq, state, title, metadata,
	created_at, updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
RETURNING key`

	reserveThreads = `
SELECT nextval(pg_get_serial_sequence('threads', 'key')) FROM generate_series(1, 32)`

	upsertThread = `
INSERT INTO threads (` + threadColumns + `)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET
	project_id = excluded.project_id, user_id = excluded.user_id, thread_id = excluded.thread_id,
	conversation_id = excluded.conversation_id, last_seq = excluded.last_seq, state = excluded.state,
	title = excluded.title, metadata = excluded.metadata, created_at = excluded.created_at,
	updated_at = excluded.updated_at`

	selectThread = `
SELECT ` + threadColumns + ` FROM threads WHERE key = ?`

	lockThread = selectThread + ` FOR UPDATE`

	selectThreadByID = `
SELECT ` + threadColumns + ` FROM threads WHERE project_id = ? AND user_id = ? AND thread_id = ?`

	selectThreadByConversation = `
SELECT ` + threadColumns + ` FROM threads WHERE conversation_id = ? AND project_id = ?`

	selectLatestThread = `
SELECT ` + threadColumns + ` FROM threads WHERE project_id = ? AND user_id = ?
ORDER BY updated_at DESC, key DESC LIMIT 1`

	raiseLastSeq = `
UPDATE threads SET last_seq = ? WHERE key = ? AND last_seq < ?`

	// The state is left out: it can be large, and a list has no use for it.
	selectListed = `
SELECT t.project_id, t.user_id, t.thread_id, t.conversation_id, t.last_seq, NULL, t.title, t.metadata,
	t.created_at, t.updated_at, t.key, COALESCE(r.id, ''), COALESCE(r.workflow_id, ''), COALESCE(r.status, '')
FROM threads t
LEFT JOIN runs r ON r.key = COALESCE(
	(SELECT key FROM runs WHERE thread_key = t.key AND status IN ('RUNNING', 'WAITING') LIMIT 1),
	(SELECT key FROM runs WHERE thread_key = t.key ORDER BY key DESC LIMIT 1))`

	selectListedThread = selectListed + `
WHERE t.key = ?`

	selectThreads = selectListed + `
WHERE t.project_id = ? AND t.user_id = ? AND (t.updated_at, t.key) < (?, ?)
ORDER BY t.updated_at DESC, t.key DESC LIMIT ?`

	countThreads = `
SELECT count(*) FROM (SELECT 1 FROM threads WHERE project_id = ? AND user_id = ? LIMIT ?) AS counted`
)

func threadArgs(t *runtime.Thread) []any {
	return []any{
		t.Project, t.User, t.ID, t.ConversationID, t.LastEventID, raw(t.State), t.Title, raw(t.Metadata),
		ms(t.CreatedAt), ms(t.UpdatedAt),
	}
}

func scanThread(rows *sql.Rows) (t runtime.Thread, err error) {
	err = rows.Scan(&t.Project, &t.User, &t.ID, &t.ConversationID, &t.LastEventID, rawInto{&t.State}, &t.Title,
		rawInto{&t.Metadata}, timeInto{&t.CreatedAt}, timeInto{&t.UpdatedAt}, &t.Key)
	return t, err
}

// Thread returns the thread of that key.
func (r reader) Thread(ctx context.Context, key int64) (runtime.Thread, error) {
	return one(ctx, r.q, scanThread, selectThread, key)
}

// ThreadByID returns the user's thread of that id.
func (r reader) ThreadByID(ctx context.Context, project, user, id string) (runtime.Thread, error) {
	return one(ctx, r.q, scanThread, selectThreadByID, project, user, id)
}

// ThreadByConversation returns the project's thread of that conversation id.
func (r reader) ThreadByConversation(ctx context.Context, project, conversationID string) (runtime.Thread, error) {
	return one(ctx, r.q, scanThread, selectThreadByConversation, conversationID, project)
}

// LatestThread returns the user's thread with the latest activity.
func (r reader) LatestThread(ctx context.Context, project, user string) (runtime.Thread, error) {
	return one(ctx, r.q, scanThread, selectLatestThread, project, user)
}

func scanListed(rows *sql.Rows) (t runtime.ListedThread, err error) {
	err = rows.Scan(&t.Project, &t.User, &t.ID, &t.ConversationID, &t.LastEventID, rawInto{&t.State}, &t.Title,
		rawInto{&t.Metadata}, timeInto{&t.CreatedAt}, timeInto{&t.UpdatedAt}, &t.Key, &t.RunID, &t.Agent, &t.Status)
	return t, err
}

// ListedThread returns the thread of that key as Threads lists it.
func (r reader) ListedThread(ctx context.Context, key int64) (runtime.ListedThread, error) {
	return one(ctx, r.q, scanListed, selectListedThread, key)
}

// endOfTime is later than all activity.
var endOfTime = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)

// Threads lists the user's threads without their states, those with the latest activity first, and counts
// all, up to 10 000. Without a limit it lists 50.
func (r reader) Threads(ctx context.Context, f runtime.ThreadFilter) ([]runtime.ListedThread, int, error) {
	if f.Limit <= 0 {
		f.Limit = 50
	}
	if f.BeforeKey == 0 || f.BeforeTime.After(endOfTime) { // no later time fits into a column
		f.BeforeTime, f.BeforeKey = endOfTime, math.MaxInt64
	}
	total, err := one(ctx, r.q, scalar[int], countThreads, f.Project, f.User, maxCount)
	if err != nil {
		return nil, 0, err
	}
	threads, err := all(ctx, r.q, scanListed, selectThreads, f.Project, f.User, ms(f.BeforeTime), f.BeforeKey, f.Limit)
	return threads, total, err
}
