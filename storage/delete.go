package storage

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"math"
	"time"

	"github.com/batonrun/baton/runtime/model"
)

// dependents are the rows of a table that belong to a thread or a run, and go before it, some at a time.
type dependents struct {
	table string
	of    string // the column with the thread's or the run's key
	key   string // identifies a row
	order string // an index has the rows in this order
	size  string // of a row, in bytes
}

// threadRows are deleted before the thread's runs.
var threadRows = []deletion{
	deletionOf(dependents{"events", "thread_key", "thread_key, last_event_id", "last_event_id", "octet_length(payload)"}),
	deletionOf(dependents{"event_segments", "thread_key", "thread_key, last_event_id", "last_event_id", "octet_length(data)"}),
	deletionOf(dependents{"messages", "thread_key", "key", "seq, key", "octet_length(message)"}),
	deletionOf(dependents{"run_spans", "thread_key", "thread_key, first_event_id", "first_event_id", "COALESCE(octet_length(state), 0)"}),
}

// runRows are deleted before the run. Its names come last: they find a run of which rows are left.
var runRows = []deletion{
	deletionOf(dependents{"messages", "run_key", "key", "key", "octet_length(message)"}),
	deletionOf(dependents{"memos", "run_key", "run_key, generation, step, place", "generation, step, place", "COALESCE(octet_length(output), 0)"}),
	deletionOf(dependents{
		"interrupts", "run_key", "run_key, interrupt_id", "interrupt_id",
		"COALESCE(octet_length(body), 0) + COALESCE(octet_length(payload), 0)",
	}),
	deletionOf(dependents{"steps", "run_key", "run_key, number", "number", "octet_length(input) + COALESCE(octet_length(output), 0)"}),
	deletionOf(dependents{"node_states", "run_key", "run_key, node_id", "node_id", "COALESCE(octet_length(output), 0)"}),
	deletionOf(dependents{"attachment_uses", "run_key", "run_key, attachment_key", "attachment_key", "64"}).after(loosenAttachments),
	{sizes: sizeAnswers, remove: forgetAnswers},
	deletionOf(dependents{"run_names", "run_key", "project_id, name, user_id", "name", "octet_length(name)"}),
}

// keysOfRun are kept when a run is deleted alone, so that a request that is repeated learns that its run is gone.
var keysOfRun = deletionOf(dependents{"idempotency_keys", "run_key", "scope", "scope", "COALESCE(octet_length(answer), 0)"})

// deletion removes the next rows of a kind. Its statements take the thread's or the run's key and a number of rows.
type deletion struct {
	sizes  string // the sizes of the next rows
	before string // statement that updates references to the next rows; "" for none
	remove string
}

func deletionOf(d dependents) deletion {
	next := " FROM " + d.table + " WHERE " + d.of + " = ? ORDER BY " + d.order + " LIMIT ?"
	return deletion{
		sizes:  "SELECT " + d.size + next,
		remove: "DELETE FROM " + d.table + " WHERE (" + d.key + ") IN (SELECT " + d.key + next + ")",
	}
}

// after returns the deletion that runs another statement first.
func (d deletion) after(before string) deletion {
	d.before = before
	return d
}

const (
	// An attachment that is no longer used becomes one that was last used at the given time.
	loosenAttachments = `
UPDATE attachments SET state = 'kept', used_at = ?
WHERE state = 'used' AND key IN (
	SELECT attachment_key FROM attachment_uses WHERE run_key = ? ORDER BY attachment_key LIMIT ?)`

	sizeAnswers = `
SELECT octet_length(answer) FROM idempotency_keys WHERE run_key = ? AND answer IS NOT NULL ORDER BY scope LIMIT ?`

	forgetAnswers = `
UPDATE idempotency_keys SET answer = NULL WHERE scope IN (
	SELECT scope FROM idempotency_keys WHERE run_key = ? AND answer IS NOT NULL ORDER BY scope LIMIT ?)`

	// The events of one run lie in the spans of its thread's log.
	sizeRunEvents = `
SELECT octet_length(payload)` + eventsOfSpan

	deleteRunEvents = `
DELETE FROM events WHERE (thread_key, last_event_id) IN (
	SELECT thread_key, last_event_id` + eventsOfSpan + `)`

	eventsOfSpan = ` FROM events
	WHERE thread_key = ? AND last_event_id >= ? AND last_event_id <= ? AND run_key = ? ORDER BY last_event_id LIMIT ?`

	deleteSpan = `
DELETE FROM run_spans WHERE run_key = ? AND n = ?`

	sizeRun = `
SELECT COALESCE(octet_length(r.output_summary), 0) + COALESCE(octet_length(i.input), 0) + COALESCE(octet_length(i.definition), 0)
FROM runs r LEFT JOIN run_inputs i ON i.run_key = r.key WHERE r.key = ?`

	deleteRunInput = `
DELETE FROM run_inputs WHERE run_key = ?`

	deleteRun = `
DELETE FROM runs WHERE key = ?`

	firstRunOfThread = `
SELECT key FROM runs WHERE thread_key = ? ORDER BY key LIMIT 1`

	lockThread = `
SELECT key FROM threads WHERE key = ? FOR UPDATE`

	deleteThreadState = `
DELETE FROM thread_states WHERE thread_key = ?`

	deleteThread = `
DELETE FROM threads WHERE key = ?`
)

// Deletions of which parts are left.
const (
	noteDeletion = `
INSERT INTO deletions (thread_key, run_key, events, last_event_id) VALUES (?, ?, ?, ?)
ON CONFLICT (thread_key, run_key) DO UPDATE SET events = excluded.events, last_event_id = excluded.last_event_id`

	forgetDeletion = `
DELETE FROM deletions WHERE thread_key = ? AND run_key = ?`

	forgetDeletions = `
DELETE FROM deletions WHERE thread_key = ?`

	selectDeletions = `
SELECT d.thread_key, d.run_key, d.events, d.last_event_id, t.project_id FROM deletions d JOIN threads t ON t.key = d.thread_key
WHERE (d.thread_key, d.run_key) > (?, ?) ORDER BY d.thread_key, d.run_key LIMIT ?`
)

// deletedBytes is about the size of the rows that one part of a deletion removes.
const deletedBytes = 2 << 20

// runCost is how many rows a part counts for each run of a thread, beside the run's rows: several statements look for these.
const runCost = 4

// part is the remaining limits of one part of a deletion.
type part struct{ rows, bytes int }

func (p *part) over() bool { return p.rows <= 0 || p.bytes <= 0 }

// admit returns how many of the next rows, of these sizes, the part removes, and counts them. The last row may exceed the part.
func (p *part) admit(sizes []int) (n int) {
	n, p.bytes = within(sizes, p.bytes)
	p.rows -= n
	return n
}

// Deletions returns up to limit deletions of which parts are left: see [model.ByKey].
func (r reader) Deletions(ctx context.Context, afterThread, afterRun int64, limit int) ([]model.Deletion, error) {
	return all(ctx, r.q, func(rows *sql.Rows) (d model.Deletion, err error) {
		err = rows.Scan(&d.ThreadKey, &d.RunKey, &d.Events, &d.Last, &d.Project)
		return d, err
	}, selectDeletions, afterThread, afterRun, limit)
}

// delete writes all pending rows, carries out the next part of a deletion, and notes whether parts are left. It ignores a thread
// that does not exist.
func (tx *tx) delete(d *model.Delete) error {
	if err := tx.deletePart(d); err != nil {
		return err
	}
	switch {
	case d.Left:
		events := 0
		if d.Events {
			events = 1
		}
		return tx.exec(noteDeletion, d.ThreadKey, d.RunKey, events, d.Last)
	case d.RunKey == 0:
		return tx.exec(forgetDeletions, d.ThreadKey)
	}
	return tx.exec(forgetDeletion, d.ThreadKey, d.RunKey)
}

func (tx *tx) deletePart(d *model.Delete) error {
	d.Left = false
	if err := tx.finish(); err != nil {
		return err
	}
	_, err := one(tx.ctx, tx, scalar[int64], lockThread, d.ThreadKey) // against Seal
	if errors.Is(err, model.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := tx.reserveEventIDs(d.ThreadKey); err != nil {
		return err
	}
	p := &part{d.Limit, deletedBytes}
	if d.RunKey == 0 {
		d.Left, err = tx.deleteThread(d.ThreadKey, p)
		return err
	}
	if d.Left, err = tx.deleteSpans(d.RunKey, p); d.Left || d.Events || err != nil {
		return err
	}
	d.Left, err = tx.deleteRun(d.RunKey, p)
	return err
}

// reserveEventIDs reserves the ids of the thread's events, so that no new event gets one of them when the last events are removed.
func (tx *tx) reserveEventIDs(threadKey int64) error {
	last, err := tx.LastEventID(tx.ctx, threadKey)
	if err != nil {
		return err
	}
	return tx.exec(raiseLastSeq, last, threadKey, last)
}

// deleteSpans removes the next events of a run, and each span that becomes empty.
func (tx *tx) deleteSpans(runKey int64, p *part) (left bool, err error) {
	for {
		spans, err := all(tx.ctx, tx, scanSpan, selectSpans, runKey, 1)
		if err != nil || len(spans) == 0 {
			return false, err
		}
		if p.over() {
			return true, nil
		}
		if left, err := tx.deleteSpan(&spans[0], p); left || err != nil {
			return left, err
		}
	}
}

func (tx *tx) deleteSpan(span *model.Span, p *part) (left bool, err error) {
	if span.Last == 0 {
		span.Last = math.MaxInt64 - 1
	}
	some := p.rows
	sizes, err := all(tx.ctx, tx, scalar[int], sizeRunEvents, span.ThreadKey, span.First, span.Last, span.RunKey, some)
	if err != nil {
		return false, err
	}
	n := p.admit(sizes)
	if n > 0 {
		if err := tx.exec(deleteRunEvents, span.ThreadKey, span.First, span.Last, span.RunKey, n); err != nil {
			return false, err
		}
	}
	if n == some || n < len(sizes) {
		return true, nil
	}
	if left, err := tx.deleteSealed(span, p); left || err != nil {
		return left, err
	}
	p.rows--
	return false, tx.exec(deleteSpan, span.RunKey, span.N)
}

// deleteRun removes the next rows of a run without spans, and with the last of them the run.
func (tx *tx) deleteRun(key int64, p *part) (left bool, err error) {
	for i := range runRows {
		if left, err := tx.deleteSome(&runRows[i], key, p); left || err != nil {
			return left, err
		}
	}
	if p.over() {
		return true, nil
	}
	sizes, err := all(tx.ctx, tx, scalar[int], sizeRun, key)
	if err != nil {
		return false, err
	}
	p.admit(sizes)
	return false, cmp.Or(tx.exec(deleteRunInput, key), tx.exec(deleteRun, key))
}

// deleteThread removes the next rows of a thread, then its runs one by one, and at last the thread.
func (tx *tx) deleteThread(key int64, p *part) (left bool, err error) {
	for i := range threadRows {
		if left, err := tx.deleteSome(&threadRows[i], key, p); left || err != nil {
			return left, err
		}
	}
	for {
		run, err := one(tx.ctx, tx, scalar[int64], firstRunOfThread, key)
		if errors.Is(err, model.ErrNotFound) {
			return false, cmp.Or(tx.exec(deleteThreadState, key), tx.exec(deleteThread, key))
		}
		if err != nil {
			return false, err
		}
		if left, err := tx.deleteSome(&keysOfRun, run, p); left || err != nil {
			return left, err
		}
		if left, err := tx.deleteRun(run, p); left || err != nil {
			return left, err
		}
		p.rows -= runCost
	}
}

// deleteSome removes the next rows of a kind that belong to a thread or a run.
func (tx *tx) deleteSome(d *deletion, key int64, p *part) (left bool, err error) {
	if p.over() {
		return true, nil
	}
	some := p.rows
	sizes, err := all(tx.ctx, tx, scalar[int], d.sizes, key, some)
	if err != nil || len(sizes) == 0 {
		return false, err
	}
	n := p.admit(sizes)
	if d.before != "" {
		if err := tx.exec(d.before, longAgo(), key, n); err != nil {
			return false, err
		}
	}
	return n == some || n < len(sizes), tx.exec(d.remove, key, n)
}

// within returns how many of the next rows, of these sizes, fit into a number of bytes, and how many bytes are left. The last row
// may exceed them.
func within(sizes []int, bytes int) (n, left int) {
	for ; n < len(sizes) && bytes > 0; n++ {
		bytes -= sizes[n]
	}
	return n, bytes
}

// longAgo is when an attachment that no run uses any more was last used, so that it is collected soon.
func longAgo() time.Time { return ms(time.Unix(0, 0)) }
