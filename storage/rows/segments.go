package rows

import (
	"context"
	"database/sql"
	"math"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/eventlog"
	"github.com/batonrun/baton/storage/sqldb"
)

const (
	selectSegments = `
SELECT first_event_id, last_event_id, events, data
FROM event_segments
WHERE thread_key = ? AND last_event_id > ? AND first_event_id < ?
ORDER BY last_event_id
LIMIT ?`

	insertSegment = `
INSERT INTO event_segments (thread_key, first_event_id, last_event_id, events, data)
VALUES (?, ?, ?, ?, ?)`

	replaceSegment = `
UPDATE event_segments SET events = ?, data = ? WHERE thread_key = ? AND last_event_id = ?`

	deleteSegment = `
DELETE FROM event_segments WHERE thread_key = ? AND last_event_id = ?`
)

func scanSegment(rows *sql.Rows) (s eventlog.Segment, err error) {
	return sqldb.Scan(rows, &s, &s.First, &s.Last, &s.Events, &s.Data)
}

// readSegments adds the sealed events after at and before an event to the page.
func (r *Logs) readSegments(ctx context.Context, thread int64, p *eventlog.Page, at, before int64) error {
	for !p.Full() && p.Size < maxPage {
		segments, err := sqldb.All(ctx, r.q, scanSegment, selectSegments, thread, at, before, 1)
		if err != nil || len(segments) == 0 {
			return err
		}
		s := &segments[0]
		s.Thread = thread
		rows, err := r.codec.Rows(s)
		if err != nil {
			return r.q.Failed(ctx, err)
		}
		p.Grow(rows)
		for i := range rows {
			if err := p.Add(&rows[i]); err != nil {
				return r.q.Failed(ctx, err)
			}
		}
		at = s.Last
	}
	return nil
}

// deleteSealed removes the events of a run from the segments that a span shares with other runs. These are at most two.
func (r *removal) deleteSealed(span *data.Span) error {
	last := span.Last
	if last == 0 {
		last = math.MaxInt64 - 1
	}
	segments, err := sqldb.All(r.Context(), r, scanSegment, selectSegments, span.ThreadKey, span.First-1, last+1, 2)
	for i := range segments {
		s := &segments[i]
		s.Thread = span.ThreadKey
		left, n, err := r.c.codec.Without(s, span.RunKey)
		if err != nil {
			return r.Fail(err)
		}
		switch {
		case n == 0:
		case left.Events == 0:
			err = r.Exec(deleteSegment, s.Thread, s.Last)
		default:
			err = r.Exec(replaceSegment, left.Events, left.Data, s.Thread, s.Last)
		}
		if err != nil {
			return err
		}
	}
	return err
}

// InsertSegment writes a segment.
func InsertSegment(tx *sqldb.Tx, s *eventlog.Segment) error {
	return tx.Exec(insertSegment, s.Thread, s.First, s.Last, s.Events, s.Data)
}
