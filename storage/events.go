package storage

import (
	"context"
	"database/sql"
	"errors"
	"math"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/eventlog"
	"github.com/batonrun/baton/storage/sqldb"
)

const (
	insertEvents = `
INSERT INTO events (thread_key, first_event_id, last_event_id, run_key, committed_at, payload)
VALUES (?::bigint, ?::bigint, ?::bigint, ?::bigint, ?::timestamptz, ?::text)`

	selectEvents = `
SELECT first_event_id, last_event_id, run_key, payload
FROM events
WHERE thread_key = ? AND last_event_id > ?
ORDER BY last_event_id
LIMIT ?`

	selectLastEvent = `
SELECT last_event_id FROM events WHERE thread_key = ? ORDER BY last_event_id DESC LIMIT 1`

	selectLastSeq = `
SELECT last_seq FROM threads WHERE key = ?`
)

// maxPage is about how large the events are that Events returns at once, however many a reader asks for.
const maxPage = 1 << 20

// Events returns up to limit events of the thread with an id above after, by id, fewer when they are large. None
// means that there are no more.
func (r logReader) Events(ctx context.Context, threadKey, after int64, limit int) ([]data.StoredEvent, error) {
	end, err := r.pages.Take(ctx, r.q)
	if err != nil {
		return nil, err
	}
	defer end()
	for stray := int64(0); ; {
		events, err := r.readPage(ctx, threadKey, after, limit)
		if err != nil {
			return nil, err
		}
		// An event that lies in no span has been removed since it was read, unless it is still there.
		first, err := r.nameRuns(ctx, threadKey, events)
		if err != nil || first == 0 || first == stray {
			return events, err
		}
		stray = first
	}
}

// readPage reads a page of events, without their RunID.
func (r logReader) readPage(ctx context.Context, threadKey, after int64, limit int) ([]data.StoredEvent, error) {
	p := eventlog.NewPage(threadKey, after, limit)
	for rows, read := 64, 0; !p.Full() && p.Size < maxPage; {
		more, err := r.readOn(ctx, threadKey, p, rows)
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		// The next rows will hold about as many events as those before.
		read += rows
		rows = min(limit, 1+(limit-len(p.Events))*read/max(1, len(p.Events)))
	}
	return p.Events, nil
}

// readOn adds the next events of the thread's log to the page, from up to limit rows, and reports whether there may be more.
//
// It reads rows before segments, so it finds events that are sealed meanwhile in one of both.
func (r logReader) readOn(ctx context.Context, thread int64, p *eventlog.Page, limit int) (more bool, err error) {
	size := p.Size
	fits := func(row eventlog.Row) bool {
		size += len(row.Payload)
		return size < maxPage
	}
	rows, err := sqldb.Some(ctx, r.q, scanRow, fits, selectEvents, thread, p.End(), limit)
	if err != nil {
		return false, err
	}
	p.Grow(rows)
	for i := range rows {
		if more, err := r.fill(ctx, thread, p, rows[i].First); err != nil || more {
			return more, err
		}
		if err := p.Add(&rows[i]); err != nil {
			return false, r.q.Failed(ctx, err)
		}
	}
	if len(rows) == 0 {
		return r.fill(ctx, thread, p, math.MaxInt64)
	}
	return len(rows) == limit || size >= maxPage, nil
}

// fill adds the sealed events between the end of the page and an event, and reports whether there were any: the following events may
// be sealed by now. Gaps between rows occur after PostgreSQL's clock was set back: then a day is dropped before the day with the
// thread's earlier events.
func (r logReader) fill(ctx context.Context, thread int64, p *eventlog.Page, before int64) (some bool, err error) {
	at := p.End()
	if before <= at+1 {
		return false, nil
	}
	err = r.readSegments(ctx, thread, p, at, before)
	return err == nil && p.End() > at, err
}

// LastEventID returns the id of the thread's last event, also when that event has been removed.
func (r logReader) LastEventID(ctx context.Context, threadKey int64) (int64, error) {
	seq, err := sqldb.One(ctx, r.q, sqldb.Scalar[int64], selectLastSeq, threadKey)
	if err != nil {
		return 0, err
	}
	id, err := sqldb.One(ctx, r.q, sqldb.Scalar[int64], selectLastEvent, threadKey)
	if errors.Is(err, data.ErrNotFound) {
		return seq, nil
	}
	return max(id, seq), err
}

// nameRuns sets the events' RunID, from the spans they lie in. It returns the id of the first that lies in none, or 0.
func (r logReader) nameRuns(ctx context.Context, threadKey int64, events []data.StoredEvent) (stray int64, err error) {
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

func scanRow(rows *sql.Rows) (r eventlog.Row, err error) {
	return sqldb.Scan(rows, &r, &r.First, &r.Last, &r.Run, &r.Payload)
}

func scanSpan(rows *sql.Rows) (s data.Span, err error) {
	return sqldb.Scan(rows, &s, &s.RunKey, &s.N, &s.ThreadKey, &s.RunID, &s.Generation, &s.First, &s.Last, sqldb.Into(&s.State))
}

// Spans returns the run's spans in order.
func (r logReader) Spans(ctx context.Context, runKey int64) ([]data.Span, error) {
	return sqldb.Whole(ctx, r.q, scanSpan, sqldb.MaxCount, selectSpans, runKey)
}

// SpanAfter returns the thread's first span that begins after the event.
func (r logReader) SpanAfter(ctx context.Context, threadKey, eventID int64) (data.Span, error) {
	return sqldb.One(ctx, r.q, scanSpan, selectSpanAfter, threadKey, eventID)
}
