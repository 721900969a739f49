package storage

import (
	"errors"
	"math"

	"github.com/batonrun/baton/runtime/model"
)

// What belongs to a thread is deleted in the order of these statements. Each takes the thread's key and how
// many rows it may delete; what hangs on a run goes with it.
const (
	deleteThreadEvents = `
DELETE FROM events WHERE thread_key = ? AND last_event_id <= (
	SELECT max(last_event_id) FROM (
		SELECT last_event_id FROM events WHERE thread_key = ? ORDER BY last_event_id LIMIT ?) AS oldest)`

	deleteThreadSegments = `
DELETE FROM event_segments WHERE thread_key = ? AND last_event_id <= (
	SELECT max(last_event_id) FROM (
		SELECT last_event_id FROM event_segments WHERE thread_key = ? ORDER BY last_event_id LIMIT ?) AS oldest)`

	deleteThreadMessages = `
DELETE FROM messages WHERE thread_key = ? AND seq <= (
	SELECT max(seq) FROM (SELECT seq FROM messages WHERE thread_key = ? ORDER BY seq LIMIT ?) AS oldest)`

	deleteThreadMemos = `
DELETE FROM memos WHERE (run_key, generation, step, place) IN (
	SELECT m.run_key, m.generation, m.step, m.place FROM runs r JOIN memos m ON m.run_key = r.key
	WHERE r.thread_key = ? AND r.thread_key = ? LIMIT ?)`

	deleteThreadKeys = `
DELETE FROM idempotency_keys WHERE scope IN (
	SELECT k.scope FROM runs r JOIN idempotency_keys k ON k.run_key = r.key
	WHERE r.thread_key = ? AND r.thread_key = ? LIMIT ?)`

	deleteThreadRuns = `
DELETE FROM runs WHERE thread_key = ? AND key <= (
	SELECT max(key) FROM (SELECT key FROM runs WHERE thread_key = ? ORDER BY key LIMIT ?) AS oldest)`

	lockThread = `
SELECT key FROM threads WHERE key = ? FOR UPDATE`

	deleteThread = `
DELETE FROM threads WHERE key = ?`
)

var threadParts = []string{
	deleteThreadEvents, deleteThreadSegments, deleteThreadMessages, deleteThreadMemos, deleteThreadKeys,
	deleteThreadRuns,
}

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
		return tx.deleteRun(d.RunKey)
	}
	return tx.deleteThread(d.ThreadKey, d.Limit)
}

// deleteRun removes a run with its names, spans, events, steps, nodes, messages, memos and interrupts.
func (tx *tx) deleteRun(runKey int64) error {
	spans, err := tx.Spans(tx.ctx, runKey)
	if err != nil {
		return err
	}
	for _, span := range spans {
		if err := tx.deleteSpan(&span); err != nil {
			return err
		}
	}
	return tx.exec(deleteRun, runKey)
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

// deleteThread removes about limit rows of a thread, and with the last of them its own.
func (tx *tx) deleteThread(key int64, limit int) error {
	if err := tx.keepLastID(key); err != nil {
		return err
	}
	for _, part := range threadParts {
		n, err := tx.count(part, key, key, limit)
		if limit -= n; err != nil || limit <= 0 {
			return err
		}
	}
	return tx.exec(deleteThread, key)
}
