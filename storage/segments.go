package storage

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/batonrun/baton/runtime/model"
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

// segment is a row of event_segments: rows of events, compressed together. Before compression a row is its
// run, the first and the last event id and the payload's length as uvarints, and the payload.
type segment struct {
	thread      int64
	first, last int64
	events      int
	data        []byte
}

func scanSegment(rows *sql.Rows) (s segment, err error) {
	err = rows.Scan(&s.first, &s.last, &s.events, &s.data)
	return s, err
}

func newSegment(z *zstd.Encoder, rows []packed) segment {
	s := segment{thread: rows[0].thread, first: rows[0].first, last: rows[len(rows)-1].last}
	var plain []byte
	for i := range rows {
		r := &rows[i]
		s.events += int(r.last - r.first + 1)
		for _, n := range []int64{r.run, r.first, r.last, int64(len(r.payload))} {
			plain = binary.AppendUvarint(plain, uint64(n))
		}
		plain = append(plain, r.payload...)
	}
	s.data = z.EncodeAll(plain, nil)
	return s
}

// rows returns what newSegment was given.
func (s *segment) rows(z unzipper) ([]packed, error) {
	plain, err := z.DecodeAll(s.data, nil)
	if err != nil {
		return nil, fmt.Errorf("segment %d to %d of thread %d: %w", s.first, s.last, s.thread, err)
	}
	var rows []packed
	for len(plain) > 0 {
		var head [4]int64
		for i := range head {
			v, n := binary.Uvarint(plain)
			if n <= 0 {
				return nil, s.damaged()
			}
			head[i], plain = int64(v), plain[n:]
		}
		size := head[3]
		if size < 0 || size > int64(len(plain)) {
			return nil, s.damaged()
		}
		rows = append(rows, packed{
			thread: s.thread, run: head[0], first: head[1], last: head[2], payload: plain[:size:size],
		})
		plain = plain[size:]
	}
	return rows, nil
}

func (s *segment) damaged() error {
	return fmt.Errorf("segment %d to %d of thread %d is damaged", s.first, s.last, s.thread)
}

// readSegments adds to the page the sealed events after at and before an event.
func (r reader) readSegments(ctx context.Context, p *page, at, before int64) error {
	for len(p.events) < p.limit && p.size < maxPage {
		segments, err := all(ctx, r.q, scanSegment, selectSegments, p.thread, at, before, 1)
		if err != nil || len(segments) == 0 {
			return err
		}
		s := &segments[0]
		s.thread = p.thread
		rows, err := r.z.rows(s)
		if err != nil {
			return r.q.failed(ctx, err)
		}
		p.grow(rows)
		for i := range rows {
			if err := p.add(&rows[i]); err != nil {
				return r.q.failed(ctx, err)
			}
		}
		at = s.last
	}
	return nil
}

// deleteSealed removes the next of a run's events from the segments of a span.
func (tx *tx) deleteSealed(span *model.Span, p *part) (left bool, err error) {
	for at := span.First - 1; ; {
		s, err := one(tx.ctx, tx, scanSegment, selectSegments, span.ThreadKey, at, span.Last+1, 1)
		if errors.Is(err, model.ErrNotFound) {
			return false, nil
		}
		if err != nil || p.over() {
			return true, err
		}
		s.thread = span.ThreadKey
		if err := tx.deleteFromSegment(&s, span.RunKey, p); err != nil {
			return false, err
		}
		at = s.last
	}
}

func (tx *tx) deleteFromSegment(s *segment, runKey int64, p *part) error {
	rows, err := s.rows(tx.z)
	if err != nil {
		return tx.fail(err)
	}
	kept := rows[:0]
	for _, row := range rows {
		if row.run != runKey {
			kept = append(kept, row)
			continue
		}
		p.rows, p.bytes = p.rows-1, p.bytes-len(row.payload)
	}
	switch len(kept) {
	case len(rows):
		return nil
	case 0:
		return tx.exec(deleteSegment, s.thread, s.last)
	}
	left := newSegment(tx.db.zip, kept)
	return tx.exec(replaceSegment, left.events, left.data, s.thread, s.last)
}
