package rows

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

// Events returns up to limit events of a log behind one: see [data.Reader].
func (r *Logs) Events(ctx context.Context, threadKey, after int64, limit int) ([]data.StoredEvent, error) {
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
func (r *Logs) readPage(ctx context.Context, threadKey, after int64, limit int) ([]data.StoredEvent, error) {
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
func (r *Logs) readOn(ctx context.Context, thread int64, p *eventlog.Page, limit int) (more bool, err error) {
	size := p.Size
	fits := func(row eventlog.Row) bool {
		size += len(row.Payload)
		return size < maxPage
	}
	rows, err := sqldb.Some(ctx, r.q, ScanEvents, fits, selectEvents, thread, p.End(), limit)
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
func (r *Logs) fill(ctx context.Context, thread int64, p *eventlog.Page, before int64) (some bool, err error) {
	at := p.End()
	if before <= at+1 {
		return false, nil
	}
	err = r.readSegments(ctx, thread, p, at, before)
	return err == nil && p.End() > at, err
}

// LastEventID returns the id of the thread's last event, also when that event has been removed.
func (r *Logs) LastEventID(ctx context.Context, threadKey int64) (int64, error) {
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

// ScanEvents reads a row of events of a thread that the caller knows.
func ScanEvents(rows *sql.Rows) (r eventlog.Row, err error) {
	return sqldb.Scan(rows, &r, &r.First, &r.Last, &r.Run, &r.Payload)
}
