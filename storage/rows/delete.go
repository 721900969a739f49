package rows

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

// Rows are removed by statements that take the keys of threads or runs, and a number of rows.
var (
	// threadRows are deleted before the thread's runs.
	threadRows = []string{deleteThreadEvents, deleteThreadSegments, deleteThreadMessages, deleteThreadSpans}
	// runRows are deleted before the runs. Their names come last: they find a run of which rows are left.
	runRows = []string{
		deleteMessages, deleteMemos, deleteSignals, deleteInterrupts, deleteSteps, deleteNodes, deleteUsesOfRuns, deletePrompts, deletePieces, deletePieceUses,
		forgetAnswers, deleteNames,
	}
	// eventRows are the events of runs. They lie in the runs' spans.
	eventRows = []string{deleteRunEvents, deleteRunSegments}
)

const (
	deleteThreadEvents   = `DELETE FROM events WHERE (thread_key, last_event_id) IN (SELECT thread_key, last_event_id FROM events WHERE thread_key = ANY (?) LIMIT ?)`
	deleteThreadSegments = `DELETE FROM event_segments WHERE (thread_key, last_event_id) IN (SELECT thread_key, last_event_id FROM event_segments WHERE thread_key = ANY (?) LIMIT ?)`
	deleteThreadMessages = `DELETE FROM messages WHERE key IN (SELECT key FROM messages WHERE thread_key = ANY (?) LIMIT ?)`
	deleteThreadSpans    = `DELETE FROM run_spans WHERE (thread_key, first_event_id) IN (SELECT thread_key, first_event_id FROM run_spans WHERE thread_key = ANY (?) LIMIT ?)`
	deleteMessages       = `DELETE FROM messages WHERE key IN (SELECT key FROM messages WHERE run_key = ANY (?) LIMIT ?)`
	deleteMemos          = `DELETE FROM memos WHERE (run_key, generation, step, place) IN (SELECT run_key, generation, step, place FROM memos WHERE run_key = ANY (?) LIMIT ?)`
	deleteSignals        = `DELETE FROM signals WHERE (run_key, n) IN (SELECT run_key, n FROM signals WHERE run_key = ANY (?) LIMIT ?)`
	deleteInterrupts     = `DELETE FROM interrupts WHERE (run_key, interrupt_id) IN (SELECT run_key, interrupt_id FROM interrupts WHERE run_key = ANY (?) LIMIT ?)`
	deleteSteps          = `DELETE FROM steps WHERE (run_key, number) IN (SELECT run_key, number FROM steps WHERE run_key = ANY (?) LIMIT ?)`
	deleteNodes          = `DELETE FROM node_states WHERE (run_key, node_id) IN (SELECT run_key, node_id FROM node_states WHERE run_key = ANY (?) LIMIT ?)`
	deleteUsesOfRuns     = `DELETE FROM attachment_uses WHERE (run_key, attachment_key) IN (SELECT run_key, attachment_key FROM attachment_uses WHERE run_key = ANY (?) LIMIT ?)`
	deletePrompts        = `DELETE FROM prompts WHERE (run_key, id) IN (SELECT run_key, id FROM prompts WHERE run_key = ANY (?) LIMIT ?)`
	deletePieceUses      = `DELETE FROM prompt_uses WHERE (run_key, piece) IN (SELECT run_key, piece FROM prompt_uses WHERE run_key = ANY (?) LIMIT ?)`
	deleteNames          = `DELETE FROM run_names WHERE (project_id, name, user_id) IN (SELECT project_id, name, user_id FROM run_names WHERE run_key = ANY (?) LIMIT ?)`
	deleteSpans          = `DELETE FROM run_spans WHERE (run_key, n) IN (SELECT run_key, n FROM run_spans WHERE run_key = ANY (?) LIMIT ?)`
	// deleteKeysOfRuns is not for a run that is deleted alone, so that a request that is repeated learns that its run is gone.
	deleteKeysOfRuns = `DELETE FROM idempotency_keys WHERE scope IN (SELECT scope FROM idempotency_keys WHERE run_key = ANY (?) LIMIT ?)`

	// An attachment that is no longer used becomes one that was last used at the given time.
	loosenAttachments = `
UPDATE attachments SET state = 'kept', used_at = ?
WHERE state = 'used' AND key IN (SELECT attachment_key FROM attachment_uses WHERE run_key = ANY (?))`

	// The pieces that no other run uses.
	deletePieces = `
DELETE FROM prompt_pieces WHERE id IN (SELECT id FROM prompt_pieces WHERE id IN (
	SELECT piece FROM prompt_uses u WHERE run_key = ANY (?) GROUP BY piece
	HAVING count(*) = (SELECT count(*) FROM prompt_uses o WHERE o.piece = u.piece)) LIMIT ?)`

	forgetAnswers = `
UPDATE idempotency_keys SET answer = NULL WHERE scope IN (
	SELECT scope FROM idempotency_keys WHERE run_key = ANY (?) AND answer IS NOT NULL LIMIT ?)`

	// lastOfSpan is the last event of the span s, which may be open.
	lastOfSpan = `CASE s.last_event_id WHEN 0 THEN 9223372036854775807 ELSE s.last_event_id END`

	deleteRunEvents = `
DELETE FROM events WHERE (thread_key, last_event_id) IN (
	SELECT e.thread_key, e.last_event_id FROM run_spans s
	JOIN events e ON e.thread_key = s.thread_key AND e.last_event_id >= s.first_event_id AND e.last_event_id <= ` + lastOfSpan + `
		AND e.run_key = s.run_key
	WHERE s.run_key = ANY (?) LIMIT ?)`

	// No other run has events within a span.
	deleteRunSegments = `
DELETE FROM event_segments WHERE (thread_key, last_event_id) IN (
	SELECT g.thread_key, g.last_event_id FROM run_spans s
	JOIN event_segments g ON g.thread_key = s.thread_key AND g.last_event_id >= s.first_event_id AND g.last_event_id <= ` + lastOfSpan + `
		AND g.first_event_id >= s.first_event_id
	WHERE s.run_key = ANY (?) LIMIT ?)`

	// selectSharedSpan finds a span with a segment that begins before it or ends behind it.
	selectSharedSpan = `
SELECT ` + spanColumns + ` FROM run_spans s
WHERE run_key = ANY (?) AND (SELECT first_event_id FROM event_segments g
	WHERE g.thread_key = s.thread_key AND g.last_event_id >= s.first_event_id ORDER BY g.last_event_id LIMIT 1) <= ` + lastOfSpan + `
LIMIT 1`

	deleteSpan = `
DELETE FROM run_spans WHERE run_key = ? AND n = ?`

	deleteRunInputs = `
DELETE FROM run_inputs WHERE run_key = ANY (?)`

	deleteRuns = `
DELETE FROM runs WHERE key = ANY (?)`

	runsOfThread = `
SELECT key FROM runs WHERE thread_key = ? ORDER BY key LIMIT ?`

	// lockThreadsOfDeletions also informs other instances, which may have the rows in memory.
	lockThreadsOfDeletions = `
UPDATE threads SET removals = removals + 1 WHERE key = ANY (?) RETURNING key`

	// reserveEventIDs reserves the ids of threads' events, so that no new event gets one of them when the last events are removed.
	reserveEventIDs = `
UPDATE threads SET last_seq = latest.id
FROM (SELECT key AS thread, (SELECT last_event_id FROM events WHERE thread_key = t.key ORDER BY last_event_id DESC LIMIT 1) AS id
	FROM threads t WHERE key = ANY (?)) AS latest
WHERE key = latest.thread AND last_seq < latest.id`

	deleteThreadState = `
DELETE FROM thread_states WHERE thread_key = ?`

	deleteThread = `
DELETE FROM threads WHERE key = ?`
)

// Deletions of which parts are left.
const (
	noteDeletion = `
INSERT INTO deletions (thread_key, run_key, events, last_event_id, instance)
VALUES (?::bigint, ?::bigint, ?::bigint, ?::bigint, ?::text)
ON CONFLICT (thread_key, run_key) DO UPDATE SET
	events = excluded.events, last_event_id = excluded.last_event_id`

	forgetDeletionsOfRuns = `
DELETE FROM deletions WHERE thread_key = ANY (?) AND run_key = ANY (?)`

	forgetDeletionsOfThread = `
DELETE FROM deletions WHERE thread_key = ?`

	selectDeletions = `
SELECT d.thread_key, d.run_key, d.events, d.last_event_id, t.project_id FROM deletions d JOIN threads t ON t.key = d.thread_key
WHERE (d.thread_key, d.run_key) > (?, ?) AND NOT EXISTS (SELECT 1 FROM instances WHERE id = d.instance AND NOT fenced)
ORDER BY d.thread_key, d.run_key LIMIT ?`
)

// Deletions returns up to limit deletions of which parts are left: see [data.Queue].
func (r *Queue) Deletions(ctx context.Context, afterThread, afterRun int64, limit int) ([]data.Deletion, error) {
	return sqldb.All(ctx, r.q, func(rows *sql.Rows) (d data.Deletion, err error) {
		return sqldb.Scan(rows, &d, &d.ThreadKey, &d.RunKey, &d.Events, &d.Last, &d.Project)
	}, selectDeletions, afterThread, afterRun, limit)
}

// Delete carries out the next part of the transaction's deletions, after all other rows were written,
// and notes that instance has the rest of them to do.
func (tx *Tx) Delete(instance string) error {
	if len(tx.deletes) == 0 {
		return nil
	}
	if err := tx.Finish(); err != nil {
		return err
	}
	list, err := tx.lockDeletions()
	if err != nil || len(list) == 0 {
		return err
	}
	r := removal{tx, list[0].Limit}
	var whole, events []*data.Delete // of runs
	for _, d := range list {
		switch {
		case d.RunKey == 0:
			if d.Left, err = r.deleteThread(d.ThreadKey); err != nil {
				return err
			}
		case d.Events:
			events = append(events, d)
		default:
			whole = append(whole, d)
		}
	}
	if err := cmp.Or(r.deleteRuns(whole, false), r.deleteRuns(events, true)); err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(d *data.Delete) bool { return !d.Left })
	sqldb.Write(tx.Tx, list, noteDeletion, func(d **data.Delete) []any {
		events := 0
		if (*d).Events {
			events = 1
		}
		return []any{(*d).ThreadKey, (*d).RunKey, events, (*d).Last, instance}
	})
	return tx.Send()
}

// lockDeletions locks the threads of the deletions against Seal, and returns the deletions whose threads exist.
func (tx *Tx) lockDeletions() ([]*data.Delete, error) {
	var threads []int64
	for _, d := range tx.deletes {
		d.Left = false
		threads = append(threads, d.ThreadKey)
	}
	slices.Sort(threads)
	locked, err := sqldb.All(tx.Context(), tx, sqldb.Scalar[int64], lockThreadsOfDeletions, tx.DB.List(slices.Compact(threads)))
	if err != nil {
		return nil, err
	}
	list := slices.DeleteFunc(tx.deletes, func(d *data.Delete) bool { return !slices.Contains(locked, d.ThreadKey) })
	return list, tx.Exec(reserveEventIDs, tx.DB.List(locked))
}

// removal removes a part of the deletions of a transaction.
type removal struct {
	*Tx
	rows int // that it may still remove
}

// some removes the next rows of some kinds that belong to threads or runs, one kind after the other. It reports whether rows may be left.
func (r *removal) some(kinds []string, keys []int64) (left bool, err error) {
	list := r.DB.List(keys)
	for _, remove := range kinds {
		if r.rows <= 0 {
			return true, nil
		}
		if remove == deleteUsesOfRuns { // attachments that no other run uses are to be collected soon
			if err := r.Exec(loosenAttachments, sqldb.Time(time.Unix(0, 0)), list); err != nil {
				return false, err
			}
		}
		n, err := r.Count(remove, list, r.rows)
		if err != nil {
			return false, err
		}
		r.rows -= n
	}
	return r.rows <= 0, nil
}

// deleteRuns carries out the next part of deletions of runs, or of their events alone.
func (r *removal) deleteRuns(list []*data.Delete, events bool) error {
	if len(list) == 0 {
		return nil
	}
	var threads, runs []int64
	for _, d := range list {
		threads, runs = append(threads, d.ThreadKey), append(runs, d.RunKey)
	}
	left, err := r.deleteEvents(runs)
	if !left && !events && err == nil {
		left, err = r.deleteRows(runs)
	}
	if err != nil {
		return err
	}
	for _, d := range list {
		d.Left = left
	}
	if left {
		return nil
	}
	return r.Exec(forgetDeletionsOfRuns, r.DB.List(threads), r.DB.List(runs))
}

// deleteEvents removes the next events of runs, and the spans they lay in.
func (r *removal) deleteEvents(runs []int64) (left bool, err error) {
	if left, err := r.some(eventRows, runs); left || err != nil {
		return left, err
	}
	for r.rows > 0 {
		span, err := sqldb.One(r.Context(), r, scanSpan, selectSharedSpan, r.DB.List(runs))
		if errors.Is(err, data.ErrNotFound) {
			return r.some([]string{deleteSpans}, runs)
		}
		if err != nil {
			return false, err
		}
		if err := cmp.Or(r.deleteSealed(&span), r.Exec(deleteSpan, span.RunKey, span.N)); err != nil {
			return false, err
		}
		r.rows--
	}
	return true, nil
}

// deleteRows removes the next rows of runs without spans, and behind them the runs.
func (r *removal) deleteRows(runs []int64) (left bool, err error) {
	if left, err := r.some(runRows, runs); left || err != nil {
		return left, err
	}
	keys := r.DB.List(runs)
	r.rows -= len(runs)
	return false, cmp.Or(r.Exec(deleteTerms, keys), r.Exec(deleteRunInputs, keys), r.Exec(deleteRuns, keys))
}

// deleteThread removes the next rows of a thread, then its runs, and at last the thread.
func (r *removal) deleteThread(key int64) (left bool, err error) {
	if left, err := r.some(threadRows, []int64{key}); left || err != nil {
		return left, err
	}
	for r.rows > 0 {
		runs, err := sqldb.All(r.Context(), r, sqldb.Scalar[int64], runsOfThread, key, r.rows)
		if err != nil {
			return false, err
		}
		if len(runs) == 0 {
			return false, cmp.Or(r.Exec(deleteThreadState, key), r.Exec(deleteThread, key), r.Exec(forgetDeletionsOfThread, key))
		}
		if left, err := r.some([]string{deleteKeysOfRuns}, runs); left || err != nil {
			return left, err
		}
		if left, err := r.deleteRows(runs); left || err != nil {
			return left, err
		}
	}
	return true, nil
}
