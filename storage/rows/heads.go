package rows

import (
	"context"
	"database/sql"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/eventlog"
	"github.com/batonrun/baton/storage/sqldb"
)

const (
	// selectLogHeads finds the end of an open span among the events. Otherwise the thread has it.
	selectLogHeads = `
SELECT t.key, t.removals, t.last_seq,
	COALESCE(CASE WHEN r.key IS NOT NULL THEN (
		SELECT e.last_event_id FROM events e WHERE e.thread_key = t.key ORDER BY e.last_event_id DESC LIMIT 1) END, 0),
	r.key IS NOT NULL OR EXISTS (SELECT 1 FROM runs q
		WHERE q.thread_key = t.key AND q.status IN ('QUEUED', 'RUNNING', 'WAITING') AND q.status = 'QUEUED')
FROM threads t
LEFT JOIN runs r ON r.thread_key = t.key AND r.status IN ('QUEUED', 'RUNNING', 'WAITING') AND r.owner_instance <> ''
	AND CASE r.status WHEN 'QUEUED' THEN r.key ELSE 0 END >= 0
WHERE t.key = ANY (?)`

	// selectLatest reads the first rows behind places in logs, with the name of their run in its span. A row of events in two spans has none.
	selectLatest = `
SELECT e.thread_key, e.first_event_id, e.last_event_id, e.run_key, e.payload, s.run_id
FROM unnest(?::bigint[], ?::bigint[]) AS log (thread_key, after)
CROSS JOIN LATERAL (
	SELECT * FROM events WHERE events.thread_key = log.thread_key AND last_event_id > log.after ORDER BY last_event_id LIMIT 8) AS e
CROSS JOIN LATERAL (
	SELECT run_id, last_event_id FROM run_spans
	WHERE run_spans.thread_key = e.thread_key AND first_event_id <= e.first_event_id ORDER BY first_event_id DESC LIMIT 1) AS s
WHERE s.last_event_id = 0 OR s.last_event_id >= e.last_event_id`
)

// LogHeads returns the heads of the logs of those of the threads that exist, as of one moment.
func (r *Logs) LogHeads(ctx context.Context, of []data.LogPlace) ([]data.LogHead, error) {
	threads, after := make([]int64, len(of)), make(map[int64]int64, len(of))
	for i, log := range of {
		threads[i], after[log.Thread] = log.Thread, log.After
	}
	heads, err := sqldb.All(ctx, r.q, func(rows *sql.Rows) (h data.LogHead, err error) {
		var written int64
		err = rows.Scan(&h.Thread, &h.Removals, &h.Last, &written, &h.Busy)
		h.Last = max(h.Last, written)
		return h, err
	}, selectLogHeads, r.d.List(threads))
	if err != nil || r.d.Single {
		return heads, err
	}
	return heads, r.readLatest(ctx, heads, after)
}

// readLatest adds the events behind the places to the heads, about maxPage bytes in all.
func (r *Logs) readLatest(ctx context.Context, heads []data.LogHead, after map[int64]int64) error {
	var threads, places sqldb.Int8s
	grown := make(map[int64]*data.LogHead)
	for i := range heads {
		h := &heads[i]
		if from := after[h.Thread]; from >= 0 && from < h.Last {
			threads, places, grown[h.Thread] = append(threads, h.Thread), append(places, from), h
		}
	}
	if len(grown) == 0 {
		return nil
	}
	type row struct {
		eventlog.Row
		runID string
	}
	size := 0
	rows, err := sqldb.Some(ctx, r.q, func(rows *sql.Rows) (l row, err error) {
		err = rows.Scan(&l.Thread, &l.First, &l.Last, &l.Run, &l.Payload, &l.runID)
		return l, err
	}, func(l row) bool {
		size += len(l.Payload)
		return size < maxPage
	}, selectLatest, threads, places)
	for i := range rows {
		l := &rows[i]
		h := grown[l.Thread]
		from := max(after[h.Thread], l.First-1)
		if l.Last > h.Last { // written since
			continue
		}
		p := eventlog.NewPage(h.Thread, from, int(l.Last-from))
		if p.Add(&l.Row) != nil { // damaged: its own readers get the error
			continue
		}
		for j := range p.Events {
			p.Events[j].RunID = l.runID
		}
		h.Latest = append(h.Latest, p.Events...)
	}
	return err
}
