package rows

import (
	"context"
	"database/sql"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

const spanColumns = `run_key, n, thread_key, run_id, generation, first_event_id, last_event_id, state`

const (
	// insertSpan begins a span where the last one has ended: two writers of one log would give ids twice, which PostgreSQL
	// cannot see on events. There is no first event then to put, and the column refuses that.
	insertSpan = `
INSERT INTO run_spans (` + spanColumns + `)
VALUES (?::bigint, ?::bigint, ?::bigint, ?::text, ?::bigint, (SELECT ?::bigint WHERE 0 <> COALESCE((
	SELECT last_event_id FROM run_spans WHERE thread_key = ?::bigint ORDER BY first_event_id DESC LIMIT 1), -1)),
	?::bigint, ?::text)`

	endSpan = `
UPDATE run_spans SET last_event_id = ?::bigint
WHERE run_key = ?::bigint AND n = ?::bigint`

	selectSpans = `
SELECT ` + spanColumns + ` FROM run_spans WHERE run_key = ? ORDER BY n LIMIT ?`

	selectSpanAfter = `
SELECT ` + spanColumns + ` FROM run_spans
WHERE thread_key = ? AND first_event_id > ? ORDER BY first_event_id LIMIT 1`

	// Without the state, which can be large and which readers of events do not need.
	selectSpansOver = `
SELECT run_key, n, thread_key, run_id, generation, first_event_id, last_event_id, NULL
FROM run_spans
WHERE thread_key = ? AND first_event_id <= ? AND first_event_id >= COALESCE((
	SELECT first_event_id FROM run_spans
	WHERE thread_key = ? AND first_event_id <= ? ORDER BY first_event_id DESC LIMIT 1), 0)
ORDER BY first_event_id
LIMIT ?`
)

func spanCells(s *data.Span) []any {
	return []any{s.RunKey, s.N, s.ThreadKey, s.RunID, s.Generation, s.First, s.ThreadKey, s.Last, sqldb.JSON(s.State)}
}

func spanEndCells(e *data.SpanEnd) []any { return []any{e.Last, e.RunKey, e.N} }

func scanSpan(rows *sql.Rows) (s data.Span, err error) {
	return sqldb.Scan(rows, &s, &s.RunKey, &s.N, &s.ThreadKey, &s.RunID, &s.Generation, &s.First, &s.Last, sqldb.Into(&s.State))
}

// Spans returns the run's spans in order.
func (r *Logs) Spans(ctx context.Context, runKey int64) ([]data.Span, error) {
	return sqldb.Whole(ctx, r.q, scanSpan, sqldb.MaxCount, selectSpans, runKey)
}

// SpanAfter returns the thread's first span that begins after the event.
func (r *Logs) SpanAfter(ctx context.Context, threadKey, eventID int64) (data.Span, error) {
	return sqldb.One(ctx, r.q, scanSpan, selectSpanAfter, threadKey, eventID)
}

// nameRuns sets the events' RunID, from the spans they lie in. It returns the id of the first that lies in none, or 0.
func (r *Logs) nameRuns(ctx context.Context, threadKey int64, events []data.StoredEvent) (stray int64, err error) {
	if len(events) == 0 {
		return 0, nil
	}
	first, last := events[0].ID, events[len(events)-1].ID
	spans, err := sqldb.Whole(ctx, r.q, scanSpan, len(events)+sqldb.MaxCount, selectSpansOver, threadKey, last, threadKey, first)
	if err != nil {
		return 0, err
	}
	n := 0
	for i := range events {
		id := events[i].ID
		for n+1 < len(spans) && spans[n+1].First <= id {
			n++
		}
		if n < len(spans) && spans[n].First <= id && (spans[n].Last == 0 || id <= spans[n].Last) {
			events[i].RunID = spans[n].RunID
		} else if stray == 0 {
			stray = id
		}
	}
	return stray, nil
}
