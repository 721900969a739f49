package storage

import (
	"context"
	"database/sql"
	"errors"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/eventlog"
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
	err = rows.Scan(&s.First, &s.Last, &s.Events, &s.Data)
	return s, err
}

// readSegments adds the sealed events after at and before an event to the page.
func (r logReader) readSegments(ctx context.Context, thread int64, p *eventlog.Page, at, before int64) error {
	for !p.Full() && p.Size < maxPage {
		segments, err := all(ctx, r.q, scanSegment, selectSegments, thread, at, before, 1)
		if err != nil || len(segments) == 0 {
			return err
		}
		s := &segments[0]
		s.Thread = thread
		rows, err := r.z.Rows(s)
		if err != nil {
			return r.q.failed(ctx, err)
		}
		p.Grow(rows)
		for i := range rows {
			if err := p.Add(&rows[i]); err != nil {
				return r.q.failed(ctx, err)
			}
		}
		at = s.Last
	}
	return nil
}

// deleteSealed removes the next events of a run from the segments of a span.
func (r *removal) deleteSealed(span *data.Span) (left bool, err error) {
	for at := span.First - 1; ; {
		s, err := one(r.ctx, r, scanSegment, selectSegments, span.ThreadKey, at, span.Last+1, 1)
		if errors.Is(err, data.ErrNotFound) {
			return false, nil
		}
		if err != nil || r.over() {
			return true, err
		}
		s.Thread = span.ThreadKey
		if err := r.deleteFromSegment(&s, span.RunKey); err != nil {
			return false, err
		}
		at = s.Last
	}
}

func (r *removal) deleteFromSegment(s *eventlog.Segment, runKey int64) error {
	left, rows, bytes, err := r.c.codec.Without(s, runKey)
	if err != nil {
		return r.fail(err)
	}
	r.rows, r.bytes = r.rows-rows, r.bytes-bytes
	switch {
	case rows == 0:
		return nil
	case left.Events == 0:
		return r.exec(deleteSegment, s.Thread, s.Last)
	}
	return r.exec(replaceSegment, left.Events, left.Data, s.Thread, s.Last)
}
