package rows

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

const messageColumns = `thread_key, run_key, seq, event_id, state, message_id, tool_call_id, context_item_ids,
	message, day, created_at, content_hash`

const (
	// insertMessage queues a message. It fails when the thread's run on another instance has used its id meanwhile: see guards.
	insertMessage = `
INSERT INTO messages (` + messageColumns + `, instructs)
VALUES (?::bigint, ?::bigint, ?::bigint, ?::bigint, ?::text, ?::text, ?::text, ?::text, ?::text, ?::bigint,
	?::timestamptz, ?::bigint, ?::boolean)`

	upsertMessage = insertMessage + `
ON CONFLICT (thread_key, message_id) DO UPDATE SET
	run_key = excluded.run_key, seq = excluded.seq, event_id = excluded.event_id, state = excluded.state,
	tool_call_id = excluded.tool_call_id, context_item_ids = excluded.context_item_ids,
	message = excluded.message, day = excluded.day, content_hash = excluded.content_hash, instructs = excluded.instructs`

	selectRunMessages = `
SELECT ` + messageColumns + `, key, (` + countRunMessages + `), sized.found
FROM (SELECT sized_key, found
	FROM (SELECT sized_key, sum(size) OVER (ORDER BY sized_key) - size AS behind, count(*) OVER () AS found
		FROM (SELECT key AS sized_key, octet_length(message) AS size FROM messages
			WHERE run_key = ` + runOfProject + ` AND key > ? AND state <> 'hidden' ORDER BY key LIMIT ?) AS plain) AS counted
	WHERE behind < ? ORDER BY sized_key` + sqldb.SizedFirst + `
JOIN messages ON key = sized_key ORDER BY sized_key`

	countRunMessages = `
SELECT count(*) FROM (SELECT 1 FROM messages WHERE run_key = ` + runOfProject + ` AND state <> 'hidden' LIMIT ?) AS counted`

	selectQueuedMessages = `
SELECT ` + messageColumns + `, key FROM messages
WHERE run_key = ? AND state = 'queued' AND key > ? ORDER BY key LIMIT ?`

	// selectInbox reads no text, because queued messages can be large.
	selectInbox = `
SELECT run_key, count(*), sum(octet_length(message)), max(key) FROM messages
WHERE run_key = ANY (?) AND state = 'queued' GROUP BY run_key`

	selectAppended = `
SELECT run_key, count(*) FROM messages WHERE run_key = ANY (?) AND state = 'queued' GROUP BY run_key`

	selectKnown = `
SELECT asked.thread_key, asked.id FROM ` + unnestIDs + `
CROSS JOIN messages m WHERE m.thread_key = asked.thread_key AND m.message_id = asked.id
UNION ALL
SELECT asked.thread_key, asked.id FROM ` + unnestIDs + `
CROSS JOIN messages m WHERE m.thread_key = asked.thread_key AND m.tool_call_id = asked.id AND m.tool_call_id <> ''`

	selectMessages = `
SELECT ` + messageColumns + `, key FROM messages
WHERE thread_key = ? AND state = 'consumed' AND event_id <= ?` + newestFirst

	selectInstructions = `
SELECT ` + messageColumns + `, key FROM messages
WHERE thread_key = ? AND instructs AND state = 'consumed' AND event_id <= ? ORDER BY seq LIMIT 100`

	selectMessagesBefore = `
SELECT ` + messageColumns + `, key FROM messages
WHERE thread_key = ` + threadOfProject + ` AND seq < ? AND (state = 'consumed' OR state = ? AND event_id > 0)` + newestFirst

	newestFirst = ` ORDER BY seq DESC LIMIT ?`

	// A query stands between the two: see messages.
	newestFrom = `
SELECT ` + messageColumns + `, key
FROM (SELECT *, sum(octet_length(message)) OVER (ORDER BY seq DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING) AS before FROM (`
	newestUntilFull = `) AS plain) AS sized
WHERE COALESCE(before, 0) < ? ORDER BY seq DESC`

	selectMessagesUntilFull       = newestFrom + selectMessages + newestUntilFull
	selectMessagesBeforeUntilFull = newestFrom + selectMessagesBefore + newestUntilFull

	selectMessagesByID = `
SELECT ` + messageColumns + `, key FROM messages WHERE thread_key = ? AND message_id = ANY (?)
UNION ALL
SELECT ` + messageColumns + `, key FROM messages
WHERE thread_key = ? AND tool_call_id = ANY (?) AND tool_call_id <> '' AND NOT message_id = ANY (?)
ORDER BY key`

	messageHead = `run_key, seq, state, message_id, tool_call_id, content_hash`

	selectMessageHeads = `
SELECT ` + messageHead + ` FROM messages WHERE thread_key = ? AND message_id = ANY (?)
UNION ALL
SELECT ` + messageHead + ` FROM messages
WHERE thread_key = ? AND tool_call_id = ANY (?) AND tool_call_id <> '' AND NOT message_id = ANY (?)`

	selectShownHeads = `
SELECT ` + messageHead + ` FROM messages WHERE thread_key = ? AND state = 'consumed' ORDER BY seq DESC LIMIT ?`

	selectLastMessage = `
SELECT seq FROM messages WHERE thread_key = ? ORDER BY seq DESC LIMIT 1`

	hideOfRun = `
UPDATE messages SET state = 'hidden'
WHERE run_key = ?::bigint AND thread_key = ?::bigint AND state <> 'hidden'
	AND (state = 'queued' AND ?::boolean OR event_id >= ?::bigint OR seq >= ?::bigint)`

	hideOfThread = `
UPDATE messages SET state = 'hidden'
WHERE thread_key = ?::bigint AND seq >= ?::bigint AND state <> 'hidden'
	AND (state = 'queued' AND ?::boolean OR event_id >= ?::bigint OR seq >= ?::bigint)`

	hideOne = `
UPDATE messages SET state = 'hidden'
WHERE thread_key = ?::bigint AND message_id = ?::text AND state <> 'hidden'`
)

func messageCells(m *data.Message) []any {
	text := messageText(m) // which fills m.Hash
	return []any{
		m.ThreadKey, sqldb.OrNull(m.RunKey), m.Seq, m.EventID, string(m.State), m.ID, m.ToolCallID,
		sqldb.JSON(m.ContextItemIDs), text, dayOrNull(m.Day), sqldb.Time(m.CreatedAt), m.Hash,
		data.Instructs(&m.Message),
	}
}

// messageText returns the message's JSON.
func messageText(m *data.Message) any {
	if text := m.Stored(); len(text) > 0 {
		return string(text)
	}
	return errors.New("not JSON")
}

func scanMessage(rows *sql.Rows) (m data.Message, err error) { return scanMessageAnd(rows) }

func scanMessageAnd(rows *sql.Rows, more ...any) (m data.Message, err error) {
	err = scanMessageWith(rows, &m, &messageInto{m: &m.Message}, more...)
	return m, err
}

// scanMessageWith scans a row into m, of which text scans the text, and the columns behind it.
func scanMessageWith(rows *sql.Rows, m *data.Message, text *messageInto, more ...any) error {
	var run sql.NullInt64
	var id, toolCallID string
	err := rows.Scan(append([]any{
		&m.ThreadKey, &run, &m.Seq, &m.EventID, (*string)(&m.State), &id, &toolCallID, sqldb.Into(&m.ContextItemIDs), text,
		dayInto{&m.Day},
		sqldb.Into(&m.CreatedAt), &m.Hash, &m.Key,
	}, more...)...)
	m.RunKey, m.ID, m.ToolCallID = run.Int64, id, toolCallID
	return err
}

// messageInto reads the text of a message, which was valid JSON when it was written.
type messageInto struct {
	m    *agui.Message
	size int // of the text
}

func (s *messageInto) Scan(src any) error {
	var text []byte
	switch src := src.(type) {
	case string:
		text = []byte(src)
	case []byte:
		text = src // the message refers to nothing of it
	default:
		return fmt.Errorf("a text is a %T", src)
	}
	s.size = len(text)
	return s.m.UnmarshalJSON(text)
}

// RunMessages lists a run's messages that are not hidden with a key above after, by key.
func (r *Project) RunMessages(ctx context.Context, project string, runKey, after int64, limit int) (data.Page[data.Message], error) {
	p, err := sqldb.PageOf(ctx, r.q, scanMessageAnd, data.PageBytes, limit, selectRunMessages,
		runKey, project, sqldb.MaxCount, runKey, project, after)
	return sqldb.Counted(ctx, r.q, p, err, true, countRunMessages, runKey, project, sqldb.MaxCount)
}

// Appended returns the number of queued messages of those of the runs that have any.
func (r *Queue) Appended(ctx context.Context, runs []int64) (map[int64]int, error) {
	counts := make(map[int64]int)
	_, err := sqldb.All(ctx, r.q, func(rows *sql.Rows) (n int, err error) {
		var run int64
		err = rows.Scan(&run, &n)
		counts[run] = n
		return n, err
	}, selectAppended, r.d.List(runs))
	return counts, err
}

// Queued returns the run's queued messages by key.
func (r *Reader) Queued(ctx context.Context, runKey int64) (list []data.Message, err error) {
	const page = 1000
	for after := int64(0); ; after = list[len(list)-1].Key {
		more, err := sqldb.All(ctx, r.q, scanMessage, selectQueuedMessages, runKey, after, page)
		if list = append(list, more...); err != nil || len(more) < page {
			return list, err
		}
	}
}

// hidden reports whether h hides the message.
func hidden(h *data.Hide, m *data.Message) bool {
	if h.ID != "" {
		return m.ThreadKey == h.ThreadKey && m.ID == h.ID
	}
	return m.ThreadKey == h.ThreadKey && (h.RunKey == 0 || m.RunKey == h.RunKey) &&
		(h.Queued && m.State == data.MessageQueued || h.FromEvent > 0 && m.EventID >= h.FromEvent ||
			h.FromSeq > 0 && m.Seq >= h.FromSeq)
}

func hideOfRunCells(h *data.Hide) []any {
	return []any{h.RunKey, h.ThreadKey, h.Queued, orEnd(h.FromEvent), orEnd(h.FromSeq)}
}

func hideOfThreadCells(h *data.Hide) []any {
	lowest := h.FromSeq
	if h.Queued || h.FromEvent > 0 {
		lowest = 0
	}
	return []any{h.ThreadKey, lowest, h.Queued, orEnd(h.FromEvent), orEnd(h.FromSeq)}
}

func hideOneCells(h *data.Hide) []any { return []any{h.ThreadKey, h.ID} }

// orEnd returns n, or the largest number for 0.
func orEnd(n int64) int64 {
	if n <= 0 {
		return math.MaxInt64
	}
	return n
}

// inbox is a run's queued messages.
type inbox struct {
	run int64
	data.Inbox
}

func scanInbox(rows *sql.Rows) (in inbox, err error) {
	return sqldb.Scan(rows, &in, &in.run, &in.Messages, &in.Bytes, &in.Last)
}

// known is an id of a message of a thread.
type known struct {
	thread int64
	id     string
}

func scanKnown(rows *sql.Rows) (k known, err error) { return sqldb.Scan(rows, &k, &k.thread, &k.id) }

// Messages lists the newest limit of the thread's consumed messages: see [data.Reader].
func (r *Reader) Messages(ctx context.Context, threadKey, upTo int64, limit int) ([]data.Message, error) {
	if upTo == 0 {
		upTo = math.MaxInt64
	}
	p, err := messagePage(ctx, r.q, r.d, data.ThreadBytes, limit, messages{selectMessages, selectMessagesUntilFull}, threadKey, upTo)
	slices.Reverse(p.Rows)
	return p.Rows, err
}

// Instructions returns the thread's first hundred messages that instruct models.
func (r *Reader) Instructions(ctx context.Context, threadKey, upTo int64) ([]data.Message, error) {
	return sqldb.All(ctx, r.q, scanMessage, selectInstructions, threadKey, orEnd(upTo))
}

// MessagesBefore lists the newest limit of the thread's consumed messages below a seq: see [data.ByProject].
func (r *Project) MessagesBefore(ctx context.Context, project string, threadKey, before int64, withHidden bool, limit int) (data.Page[data.Message], error) {
	also := data.MessageConsumed
	if withHidden {
		also = data.MessageHidden
	}
	p, err := messagePage(ctx, r.q, r.d, data.ThreadBytes, limit, messages{selectMessagesBefore, selectMessagesBeforeUntilFull}, threadKey, project, orEnd(before), string(also))
	slices.Reverse(p.Rows)
	return p, err
}

// MessagesByID returns the thread's messages, hidden ones included, whose id or toolCallId is among ids, by key.
func (r *Reader) MessagesByID(ctx context.Context, threadKey int64, ids []string) ([]data.Message, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	list := r.d.List(ids)
	return sqldb.All(ctx, r.q, scanMessage, selectMessagesByID, threadKey, list, threadKey, list, list)
}

// MessageHeads returns the heads of the thread's messages, hidden ones included, whose id or toolCallId is among ids.
func (r *Reader) MessageHeads(ctx context.Context, threadKey int64, ids []string) ([]data.MessageHead, error) {
	list := r.d.List(ids)
	return sqldb.All(ctx, r.q, scanMessageHead, selectMessageHeads, threadKey, list, threadKey, list, list)
}

// ShownHeads returns the heads of the newest limit of the thread's consumed messages, by seq.
func (r *Reader) ShownHeads(ctx context.Context, threadKey int64, limit int) ([]data.MessageHead, error) {
	heads, err := sqldb.All(ctx, r.q, scanMessageHead, selectShownHeads, threadKey, limit)
	slices.Reverse(heads)
	return heads, err
}

func scanMessageHead(rows *sql.Rows) (h data.MessageHead, err error) {
	var run sql.NullInt64
	err = rows.Scan(&run, &h.Seq, &h.State, &h.ID, &h.ToolCallID, &h.Hash)
	h.RunKey = run.Int64
	return h, err
}

// LastSeq returns the highest seq of the thread's messages, 0 if it has none.
func (r *Reader) LastSeq(ctx context.Context, threadKey int64) (int64, error) {
	seqs, err := sqldb.All(ctx, r.q, sqldb.Scalar[int64], selectLastMessage, threadKey)
	if err != nil || len(seqs) == 0 {
		return 0, err
	}
	return seqs[0], nil
}

// messages selects messages in the order of their seqs. untilFull is the query as a statement that ends behind the first row that exceeds a
// number of bytes, its last parameter.
type messages struct{ query, untilFull string }

// messagePage returns the first messages that a statement selects: at most limit, the statement's last parameter, and at most bytes, but
// at least one message. SQLite reads rows one at a time, so messagePage stops reading. PostgreSQL sends all rows, so the statement limits
// their bytes.
func messagePage(ctx context.Context, q sqldb.Querier, d *sqldb.DB, bytes, limit int, some messages, args ...any) (p data.Page[data.Message], err error) {
	args = append(args, limit+1)
	query := some.query
	if !d.Single {
		query, args = some.untilFull, append(args, bytes)
	}
	n, size := 0, 0
	p.Rows, err = sqldb.Some(ctx, q, func(rows *sql.Rows) (m data.Message, err error) {
		if p.More = n == limit || size >= bytes; !p.More {
			text := messageInto{m: &m.Message}
			err = scanMessageWith(rows, &m, &text)
			n, size = n+1, size+text.size
		}
		return m, err
	}, func(data.Message) bool { return !p.More }, query, args...)
	p.Rows = p.Rows[:min(n, len(p.Rows))]
	return p, err
}

const (
	selectHistoryDay = `
SELECT day FROM messages
WHERE thread_key = ` + threadOfProject + ` AND state = 'consumed' AND day < ? ORDER BY day DESC LIMIT 1`

	selectHistory = `
SELECT ` + messageColumns + `, key FROM messages
WHERE thread_key = ` + threadOfProject + ` AND state = 'consumed' AND day = ? AND seq > ? ORDER BY seq LIMIT ?`

	selectHistoryUntilFull = `
SELECT ` + messageColumns + `, key
FROM (SELECT *, sum(octet_length(message)) OVER (ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING) AS before FROM (` + selectHistory + `) AS plain) AS sized
WHERE COALESCE(before, 0) < ? ORDER BY seq`
)

const secondsPerDay = 24 * 60 * 60

// dayOf is the UTC day of a time, counted from 1970.
func dayOf(t time.Time) int64 {
	return t.UTC().Truncate(24*time.Hour).Unix() / secondsPerDay
}

// dayOrNull is the day of a time, NULL for the zero time.
func dayOrNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return dayOf(t)
}

type dayInto struct{ t *time.Time }

func (s dayInto) Scan(src any) error {
	*s.t = time.Time{}
	switch day := src.(type) {
	case nil:
	case int64:
		*s.t = time.Unix(day*secondsPerDay, 0).UTC()
	default:
		return fmt.Errorf("a day is a %T", src)
	}
	return nil
}

// HistoryDay returns the latest UTC day before that of a time with messages of the thread.
func (r *Project) HistoryDay(ctx context.Context, project string, threadKey int64, before time.Time) (time.Time, error) {
	return sqldb.One(ctx, r.q, func(rows *sql.Rows) (day time.Time, err error) {
		return sqldb.Scan(rows, &day, dayInto{&day})
	}, selectHistoryDay, threadKey, project, dayOf(before))
}

// History lists the thread's consumed messages of a UTC day, by seq, from those above after.
func (r *Project) History(ctx context.Context, project string, threadKey int64, day time.Time, after int64, limit int) (data.Page[data.Message], error) {
	return messagePage(ctx, r.q, r.d, data.PageBytes, limit, messages{selectHistory, selectHistoryUntilFull}, threadKey, project, dayOf(day), after)
}
