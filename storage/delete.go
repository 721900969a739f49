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

// What belongs to a thread is deleted in the order of these statements, of which one says how large the next rows are and
// the others delete some of them. Each takes the thread's key and how many rows.
const (
	sizeThreadEvents = `
SELECT octet_length(payload) FROM events WHERE thread_key = ? ORDER BY last_event_id LIMIT ?`

	deleteThreadEvents = `
DELETE FROM events WHERE (thread_key, last_event_id) IN (
	SELECT thread_key, last_event_id FROM events WHERE thread_key = ? ORDER BY last_event_id LIMIT ?)`

	sizeThreadSegments = `
SELECT octet_length(data) FROM event_segments WHERE thread_key = ? ORDER BY last_event_id LIMIT ?`

	deleteThreadSegments = `
DELETE FROM event_segments WHERE (thread_key, last_event_id) IN (
	SELECT thread_key, last_event_id FROM event_segments WHERE thread_key = ? ORDER BY last_event_id LIMIT ?)`

	sizeThreadMessages = `
SELECT octet_length(message) FROM messages WHERE thread_key = ? ORDER BY seq, key LIMIT ?`

	deleteThreadMessages = `
DELETE FROM messages WHERE key IN (
	SELECT key FROM messages WHERE thread_key = ? ORDER BY seq, key LIMIT ?)`

	sizeThreadMemos = `
SELECT COALESCE(octet_length(c.output), 0) FROM runs r JOIN memos c ON c.run_key = r.key
WHERE r.thread_key = ? ORDER BY r.key, c.generation, c.step, c.place LIMIT ?`

	deleteThreadMemos = `
DELETE FROM memos WHERE (run_key, generation, step, place) IN (
	SELECT c.run_key, c.generation, c.step, c.place FROM runs r JOIN memos c ON c.run_key = r.key
	WHERE r.thread_key = ? ORDER BY r.key, c.generation, c.step, c.place LIMIT ?)`

	sizeThreadKeys = `
SELECT COALESCE(octet_length(c.answer), 0) FROM runs r JOIN idempotency_keys c ON c.run_key = r.key
WHERE r.thread_key = ? ORDER BY r.key, c.scope LIMIT ?`

	deleteThreadKeys = `
DELETE FROM idempotency_keys WHERE (scope) IN (
	SELECT c.scope FROM runs r JOIN idempotency_keys c ON c.run_key = r.key
	WHERE r.thread_key = ? ORDER BY r.key, c.scope LIMIT ?)`

	sizeThreadSteps = `
SELECT octet_length(c.input) + COALESCE(octet_length(c.output), 0) FROM runs r JOIN steps c ON c.run_key = r.key
WHERE r.thread_key = ? ORDER BY r.key, c.number LIMIT ?`

	deleteThreadSteps = `
DELETE FROM steps WHERE (run_key, number) IN (
	SELECT c.run_key, c.number FROM runs r JOIN steps c ON c.run_key = r.key
	WHERE r.thread_key = ? ORDER BY r.key, c.number LIMIT ?)`

	sizeThreadNodes = `
SELECT COALESCE(octet_length(c.output), 0) FROM runs r JOIN node_states c ON c.run_key = r.key
WHERE r.thread_key = ? ORDER BY r.key, c.node_id LIMIT ?`

	deleteThreadNodes = `
DELETE FROM node_states WHERE (run_key, node_id) IN (
	SELECT c.run_key, c.node_id FROM runs r JOIN node_states c ON c.run_key = r.key
	WHERE r.thread_key = ? ORDER BY r.key, c.node_id LIMIT ?)`

	sizeThreadInterrupts = `
SELECT COALESCE(octet_length(c.body), 0) + COALESCE(octet_length(c.payload), 0) FROM runs r JOIN interrupts c ON c.run_key = r.key
WHERE r.thread_key = ? ORDER BY r.key, c.interrupt_id LIMIT ?`

	deleteThreadInterrupts = `
DELETE FROM interrupts WHERE (run_key, interrupt_id) IN (
	SELECT c.run_key, c.interrupt_id FROM runs r JOIN interrupts c ON c.run_key = r.key
	WHERE r.thread_key = ? ORDER BY r.key, c.interrupt_id LIMIT ?)`

	sizeThreadSpans = `
SELECT COALESCE(octet_length(state), 0) FROM run_spans WHERE thread_key = ? ORDER BY first_event_id LIMIT ?`

	deleteThreadSpans = `
DELETE FROM run_spans WHERE (thread_key, first_event_id) IN (
	SELECT thread_key, first_event_id FROM run_spans WHERE thread_key = ? ORDER BY first_event_id LIMIT ?)`

	sizeThreadNames = `
SELECT octet_length(c.name) FROM runs r JOIN run_names c ON c.run_key = r.key
WHERE r.thread_key = ? ORDER BY r.key, c.name LIMIT ?`

	deleteThreadNames = `
DELETE FROM run_names WHERE (project_id, name, user_id) IN (
	SELECT c.project_id, c.name, c.user_id FROM runs r JOIN run_names c ON c.run_key = r.key
	WHERE r.thread_key = ? ORDER BY r.key, c.name LIMIT ?)`

	sizeThreadRuns = `
SELECT COALESCE(octet_length(r.output_summary), 0) + COALESCE(octet_length(i.input), 0)
	+ COALESCE(octet_length(i.definition), 0)
FROM runs r LEFT JOIN run_inputs i ON i.run_key = r.key
WHERE r.thread_key = ? ORDER BY r.key LIMIT ?`

	selectThreadRuns = `
SELECT key FROM runs WHERE thread_key = ? ORDER BY key LIMIT ?`

	deleteThreadInputs = `
DELETE FROM run_inputs WHERE run_key IN (
	SELECT key FROM runs WHERE thread_key = ? ORDER BY key LIMIT ?)`

	deleteThreadRuns = `
DELETE FROM runs WHERE key IN (
	SELECT key FROM runs WHERE thread_key = ? ORDER BY key LIMIT ?)`

	lockThread = `
SELECT key FROM threads WHERE key = ? FOR UPDATE`

	deleteThreadState = `
DELETE FROM thread_states WHERE thread_key = ?`

	deleteThread = `
DELETE FROM threads WHERE key = ?`
)

// What a deletion that goes in parts has left.
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

// What belongs to one run goes likewise, before its row.
const (
	sizeRunEvents = `
SELECT octet_length(payload)` + eventsOfSpan

	deleteRunEvents = `
DELETE FROM events WHERE (thread_key, last_event_id) IN (
	SELECT thread_key, last_event_id` + eventsOfSpan + `)`

	eventsOfSpan = ` FROM events
	WHERE thread_key = ? AND last_event_id >= ? AND last_event_id <= ? AND run_key = ? ORDER BY last_event_id LIMIT ?`

	deleteSpan = `
DELETE FROM run_spans WHERE run_key = ? AND n = ?`

	sizeRunMessages = `
SELECT octet_length(message) FROM messages WHERE run_key = ? ORDER BY key LIMIT ?`

	deleteRunMessages = `
DELETE FROM messages WHERE key IN (
	SELECT key FROM messages WHERE run_key = ? ORDER BY key LIMIT ?)`

	sizeRunMemos = `
SELECT COALESCE(octet_length(output), 0) FROM memos WHERE run_key = ? ORDER BY generation, step, place LIMIT ?`

	deleteRunMemos = `
DELETE FROM memos WHERE (run_key, generation, step, place) IN (
	SELECT run_key, generation, step, place FROM memos WHERE run_key = ? ORDER BY generation, step, place LIMIT ?)`

	sizeRunInterrupts = `
SELECT COALESCE(octet_length(body), 0) + COALESCE(octet_length(payload), 0) FROM interrupts
WHERE run_key = ? ORDER BY interrupt_id LIMIT ?`

	deleteRunInterrupts = `
DELETE FROM interrupts WHERE (run_key, interrupt_id) IN (
	SELECT run_key, interrupt_id FROM interrupts WHERE run_key = ? ORDER BY interrupt_id LIMIT ?)`

	sizeRunSteps = `
SELECT octet_length(input) + COALESCE(octet_length(output), 0) FROM steps WHERE run_key = ? ORDER BY number LIMIT ?`

	deleteRunSteps = `
DELETE FROM steps WHERE (run_key, number) IN (
	SELECT run_key, number FROM steps WHERE run_key = ? ORDER BY number LIMIT ?)`

	sizeRunNodes = `
SELECT COALESCE(octet_length(output), 0) FROM node_states WHERE run_key = ? ORDER BY node_id LIMIT ?`

	deleteRunNodes = `
DELETE FROM node_states WHERE (run_key, node_id) IN (
	SELECT run_key, node_id FROM node_states WHERE run_key = ? ORDER BY node_id LIMIT ?)`

	sizeRunNames = `
SELECT octet_length(name) FROM run_names WHERE run_key = ? ORDER BY name LIMIT ?`

	deleteRunNames = `
DELETE FROM run_names WHERE (project_id, name, user_id) IN (
	SELECT project_id, name, user_id FROM run_names WHERE run_key = ? ORDER BY name LIMIT ?)`

	sizeRunAnswers = `
SELECT octet_length(answer) FROM idempotency_keys WHERE run_key = ? AND answer IS NOT NULL ORDER BY scope LIMIT ?`

	forgetRunAnswers = `
UPDATE idempotency_keys SET answer = NULL WHERE scope IN (
	SELECT scope FROM idempotency_keys WHERE run_key = ? AND answer IS NOT NULL ORDER BY scope LIMIT ?)`

	deleteRunInput = `DELETE FROM run_inputs WHERE run_key = ?`
	deleteRun      = `DELETE FROM runs WHERE key = ?`
)

// runParts are the tables of which a run may have many rows, or large ones. Its names are the last by which it is found.
var runParts = []partOf{
	{sizeRunMessages, []string{deleteRunMessages}},
	{sizeRunMemos, []string{deleteRunMemos}},
	{sizeRunInterrupts, []string{deleteRunInterrupts}},
	{sizeRunSteps, []string{deleteRunSteps}},
	{sizeRunNodes, []string{deleteRunNodes}},
	{sizeRunUses, []string{deleteRunUses}},
	{sizeRunAnswers, []string{forgetRunAnswers}},
	{sizeRunNames, []string{deleteRunNames}},
}

// partOf is a table of which some rows are deleted: how large the next are, and the statements that remove so many of them.
type partOf struct {
	sizes  string
	remove []string
}

// threadParts are the tables of which a thread may have many rows, or large ones.
var threadParts = []partOf{
	{sizeThreadEvents, []string{deleteThreadEvents}},
	{sizeThreadSegments, []string{deleteThreadSegments}},
	{sizeThreadMessages, []string{deleteThreadMessages}},
	{sizeThreadMemos, []string{deleteThreadMemos}},
	{sizeThreadKeys, []string{deleteThreadKeys}},
	{sizeThreadSteps, []string{deleteThreadSteps}},
	{sizeThreadNodes, []string{deleteThreadNodes}},
	{sizeThreadInterrupts, []string{deleteThreadInterrupts}},
	{sizeThreadUses, []string{deleteThreadUses}},
	{sizeThreadSpans, []string{deleteThreadSpans}},
	{sizeThreadNames, []string{deleteThreadNames}},
	{sizeThreadRuns, []string{deleteThreadInputs, deleteThreadRuns}},
}

// deletedBytes is about how large the rows are that a part of a deletion removes.
const deletedBytes = 2 << 20

// part is what a part of a deletion may still remove.
type part struct{ rows, bytes int }

func (p *part) over() bool { return p.rows <= 0 || p.bytes <= 0 }

// takes counts the next rows of these sizes, and returns how many of them the part removes: the last may be larger than what is
// left.
func (p *part) takes(sizes []int) (n int) {
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

// delete removes what was asked for, or a part of it, after all that is pending, and notes whether more is left. What is not there
// needs no removing.
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
	if err := tx.keepLastID(d.ThreadKey); err != nil {
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

// keepLastID keeps ids of the thread's events from being used again when the last of them are removed.
func (tx *tx) keepLastID(threadKey int64) error {
	last, err := tx.LastEventID(tx.ctx, threadKey)
	if err != nil {
		return err
	}
	return tx.exec(raiseLastSeq, last, threadKey, last)
}

// deleteSpans removes the next of a run's events, with the spans they are all of.
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
	n := p.takes(sizes)
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

// deleteRun removes the next of what a run without spans has, and with the last of it the run.
func (tx *tx) deleteRun(key int64, p *part) (left bool, err error) {
	for i := range runParts {
		if left, err := tx.deleteSome(&runParts[i], key, p); left || err != nil {
			return left, err
		}
	}
	if err := tx.countGone([]int64{key}); err != nil {
		return false, err
	}
	for _, remove := range []string{deleteRunInput, deleteRun} {
		if err := tx.exec(remove, key); err != nil {
			return false, err
		}
	}
	return false, nil
}

// deleteThread removes the next of what a thread has, and with the last of it its own row.
func (tx *tx) deleteThread(key int64, p *part) (left bool, err error) {
	for i := range threadParts {
		if left, err := tx.deleteSome(&threadParts[i], key, p); left || err != nil {
			return left, err
		}
	}
	return false, cmp.Or(tx.exec(deleteThreadState, key), tx.exec(deleteThread, key))
}

// deleteSome removes the next rows of a table that belong to a thread or a run.
func (tx *tx) deleteSome(of *partOf, key int64, p *part) (left bool, err error) {
	if p.over() {
		return true, nil
	}
	some := p.rows
	sizes, err := all(tx.ctx, tx, scalar[int], of.sizes, key, some)
	if err != nil || len(sizes) == 0 {
		return false, err
	}
	n := p.takes(sizes)
	switch of.sizes {
	case sizeThreadUses:
		err = tx.exec(loosenOfThread, longAgo(), key, n)
	case sizeRunUses:
		err = tx.exec(loosenOfRun, longAgo(), key, n)
	case sizeThreadRuns:
		err = tx.countGoneOf(key, n)
	}
	if err != nil {
		return false, err
	}
	for _, remove := range of.remove {
		if err := tx.exec(remove, key, n); err != nil {
			return false, err
		}
	}
	return n == some || n < len(sizes), nil
}

// countGoneOf counts the next runs of a thread that are over, before they are gone.
func (tx *tx) countGoneOf(threadKey int64, n int) error {
	keys, err := all(tx.ctx, tx, scalar[int64], selectThreadRuns, threadKey, n)
	if err != nil {
		return err
	}
	return tx.countGone(keys)
}

// within returns how many rows of these sizes are removed at once, and how many bytes are left then: the last may exceed them.
func within(sizes []int, bytes int) (n, left int) {
	for ; n < len(sizes) && bytes > 0; n++ {
		bytes -= sizes[n]
	}
	return n, bytes
}

// longAgo is when what nobody refers to any more was asked for last.
func longAgo() time.Time { return ms(time.Unix(0, 0)) }
