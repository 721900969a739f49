package storage

import (
	"cmp"
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
	+ COALESCE(octet_length(i.definition), 0) + COALESCE(octet_length(s.data), 0)
FROM runs r LEFT JOIN run_inputs i ON i.run_key = r.key LEFT JOIN sealed_runs s ON s.run_key = r.key
WHERE r.thread_key = ? ORDER BY r.key LIMIT ?`

	selectThreadRuns = `
SELECT key FROM runs WHERE thread_key = ? ORDER BY key LIMIT ?`

	deleteThreadInputs = `
DELETE FROM run_inputs WHERE run_key IN (
	SELECT key FROM runs WHERE thread_key = ? ORDER BY key LIMIT ?)`

	deleteThreadSealed = `
DELETE FROM sealed_runs WHERE run_key IN (
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

// What belongs to one run, and then the run.
const (
	deleteRunMessages   = `DELETE FROM messages WHERE run_key = ?`
	deleteRunMemos      = `DELETE FROM memos WHERE run_key = ?`
	deleteRunInterrupts = `DELETE FROM interrupts WHERE run_key = ?`
	deleteRunSpans      = `DELETE FROM run_spans WHERE run_key = ?`
	deleteRunNames      = `DELETE FROM run_names WHERE run_key = ?`
	deleteRunInput      = `DELETE FROM run_inputs WHERE run_key = ?`
	deleteRunUses       = `DELETE FROM attachment_uses WHERE run_key = ?`
	deleteRun           = `DELETE FROM runs WHERE key = ?`
)

var runParts = []string{
	deleteRunMessages, deleteRunMemos, deleteRunInterrupts, takeSteps, takeNodes, deleteRunSpans, deleteRunNames,
	deleteRunInput, deleteRunUses, deleteSealedRun, deleteRun,
}

// threadParts are the tables of which a thread may have many rows, or large ones.
var threadParts = []struct {
	sizes  string
	remove []string
}{
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
	{sizeThreadRuns, []string{deleteThreadInputs, deleteThreadSealed, deleteThreadRuns}},
}

// deletedBytes is about how large the rows are that a part of a deletion removes.
const deletedBytes = 2 << 20

// delete removes what was asked for, after all that is pending. What is not there needs no removing.
func (tx *tx) delete(d *model.Delete) error {
	if err := tx.finish(); err != nil {
		return err
	}
	_, err := one(tx.ctx, tx, scalar[int64], lockThread, d.ThreadKey) // against Seal
	switch {
	case errors.Is(err, model.ErrNotFound):
		return nil
	case err != nil:
		return err
	case d.RunKey != 0:
		return tx.deleteRun(d.RunKey, d.Events)
	}
	return tx.deleteThread(d.ThreadKey, d.Limit)
}

// deleteRun removes a run with its names, spans, events, steps, nodes, messages, memos and interrupts, or its events and
// spans alone.
func (tx *tx) deleteRun(runKey int64, eventsAlone bool) error {
	spans, err := tx.Spans(tx.ctx, runKey)
	if err != nil {
		return err
	}
	for _, span := range spans {
		if err := tx.deleteSpan(&span); err != nil {
			return err
		}
	}
	if eventsAlone {
		return tx.exec(deleteRunSpans, runKey)
	}
	if err := tx.countGone([]int64{runKey}); err != nil {
		return err
	}
	if err := tx.exec(loosenOfRun, longAgo(), runKey); err != nil {
		return err
	}
	for _, remove := range runParts {
		if err := tx.exec(remove, runKey); err != nil {
			return err
		}
	}
	return nil
}

func (tx *tx) deleteSpan(span *model.Span) error {
	if err := tx.keepLastID(span.ThreadKey); err != nil {
		return err
	}
	end := span.Last
	if end == 0 {
		end = math.MaxInt64
	}
	if err := tx.exec(deleteEvents, span.ThreadKey, span.First, end, span.RunKey); err != nil {
		return err
	}
	return tx.deleteSealed(span)
}

// keepLastID keeps ids of the thread's events from being used again when the last of them are removed.
func (tx *tx) keepLastID(threadKey int64) error {
	last, err := tx.LastEventID(tx.ctx, threadKey)
	if err != nil {
		return err
	}
	return tx.exec(raiseLastSeq, last, threadKey, last)
}

// deleteThread removes about limit rows of a thread, fewer when they are large, and with the last of them its own.
func (tx *tx) deleteThread(key int64, limit int) error {
	if err := tx.keepLastID(key); err != nil {
		return err
	}
	for bytes, i := deletedBytes, 0; i < len(threadParts); i++ {
		part := threadParts[i]
		sizes, err := all(tx.ctx, tx, scalar[int], part.sizes, key, limit)
		if err != nil {
			return err
		}
		n, left := within(sizes, bytes)
		if n == 0 {
			continue
		}
		bytes = left
		if part.sizes == sizeThreadUses {
			if err := tx.exec(loosenOfThread, longAgo(), key, n); err != nil {
				return err
			}
		}
		if part.sizes == sizeThreadRuns {
			keys, err := all(tx.ctx, tx, scalar[int64], selectThreadRuns, key, n)
			if err != nil {
				return err
			}
			if err := tx.countGone(keys); err != nil {
				return err
			}
		}
		for _, remove := range part.remove {
			if err := tx.exec(remove, key, n); err != nil {
				return err
			}
		}
		if limit -= n; limit <= 0 || bytes <= 0 {
			return nil
		}
	}
	return cmp.Or(tx.exec(deleteThreadState, key), tx.exec(deleteThread, key))
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
