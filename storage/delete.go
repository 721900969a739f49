package storage

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/data"
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
	deletionOf(dependents{"attachment_uses", "run_key", "run_key, attachment_key", "attachment_key", "64"}).
		after(loosenAttachments, loosenAttachmentsOfRuns),
	deletionOf(dependents{"prompts", "run_key", "run_key, id", "id", "octet_length(sent)"}),
	piecesOfRun,
	deletionOf(dependents{"prompt_uses", "run_key", "run_key, piece", "piece", "64"}),
	{sizes: sizeAnswers, remove: forgetAnswers, sizesOfRuns: sizeAnswersOfRuns, removeOfRuns: forgetAnswersOfRuns},
	deletionOf(dependents{"run_names", "run_key", "project_id, name, user_id", "name", "octet_length(name)"}),
}

// keysOfRun are kept when a run is deleted alone, so that a request that is repeated learns that its run is gone.
var keysOfRun = deletionOf(dependents{"idempotency_keys", "run_key", "scope", "scope", "COALESCE(octet_length(answer), 0)"})

// deletion removes the next rows of a kind. Its statements take the thread's or the run's key and a number of rows.
type deletion struct {
	sizes  string // the sizes of the next rows
	before string // statement that updates references to the next rows; "" for none
	remove string

	// The statements for all rows of several runs take an array of keys.
	sizesOfRuns  string // the run and size of each row, up to a number of rows
	beforeOfRuns string
	removeOfRuns string
}

func deletionOf(d dependents) deletion {
	next := " FROM " + d.table + " WHERE " + d.of + " = ? ORDER BY " + d.order + " LIMIT ?"
	ofRuns := " FROM " + d.table + " WHERE " + d.of + " = ANY (?)"
	return deletion{
		sizes:        "SELECT " + d.size + next,
		remove:       "DELETE FROM " + d.table + " WHERE (" + d.key + ") IN (SELECT " + d.key + next + ")",
		sizesOfRuns:  "SELECT " + d.of + ", " + d.size + ofRuns + " LIMIT ?",
		removeOfRuns: "DELETE" + ofRuns,
	}
}

// after returns the deletion that runs another statement first.
func (d deletion) after(before, beforeOfRuns string) deletion {
	d.before, d.beforeOfRuns = before, beforeOfRuns
	return d
}

const (
	// An attachment that is no longer used becomes one that was last used at the given time.
	loosenAttachments = `
UPDATE attachments SET state = 'kept', used_at = ?
WHERE state = 'used' AND key IN (
	SELECT attachment_key FROM attachment_uses WHERE run_key = ? ORDER BY attachment_key LIMIT ?)`

	loosenAttachmentsOfRuns = `
UPDATE attachments SET state = 'kept', used_at = ?
WHERE state = 'used' AND key IN (SELECT attachment_key FROM attachment_uses WHERE run_key = ANY (?))`

	sizeAnswersOfRuns = `
SELECT run_key, octet_length(answer) FROM idempotency_keys WHERE run_key = ANY (?) AND answer IS NOT NULL LIMIT ?`

	forgetAnswersOfRuns = `
UPDATE idempotency_keys SET answer = NULL WHERE run_key = ANY (?) AND answer IS NOT NULL`

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

	sizeRuns = `
SELECT r.key, COALESCE(octet_length(r.output_summary), 0) + COALESCE(octet_length(i.input), 0) + COALESCE(octet_length(i.definition), 0)
FROM runs r LEFT JOIN run_inputs i ON i.run_key = r.key WHERE r.key = ANY (?) LIMIT ?`

	deleteEventsOfRuns = `
DELETE FROM events WHERE (thread_key, last_event_id) IN (
	SELECT e.thread_key, e.last_event_id FROM run_spans s
	JOIN events e ON e.thread_key = s.thread_key AND e.last_event_id >= s.first_event_id AND e.last_event_id <= s.last_event_id
		AND e.run_key = s.run_key
	WHERE s.run_key = ANY (?))`

	// No other run has events within a span.
	deleteSegmentsOfRuns = `
DELETE FROM event_segments WHERE (thread_key, last_event_id) IN (
	SELECT g.thread_key, g.last_event_id FROM run_spans s
	JOIN event_segments g ON g.thread_key = s.thread_key AND g.last_event_id >= s.first_event_id AND g.last_event_id <= s.last_event_id
		AND g.first_event_id >= s.first_event_id
	WHERE s.run_key = ANY (?))`

	deleteSpansOfRuns = `
DELETE FROM run_spans WHERE run_key = ANY (?)`

	deleteRunInputs = `
DELETE FROM run_inputs WHERE run_key = ANY (?)`

	deleteRuns = `
DELETE FROM runs WHERE key = ANY (?)`

	firstRunOfThread = `
SELECT key FROM runs WHERE thread_key = ? ORDER BY key LIMIT 1`

	// lockThreadsOfDeletions also informs other instances, which may have the rows in memory.
	lockThreadsOfDeletions = `
UPDATE threads SET removals = removals + 1 WHERE key = ANY (?) RETURNING key`

	deleteThreadState = `
DELETE FROM thread_states WHERE thread_key = ?`

	deleteThread = `
DELETE FROM threads WHERE key = ?`
)

// Deletions of which parts are left.
const (
	noteDeletion = `
INSERT INTO deletions (thread_key, run_key, events, last_event_id, instance) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (thread_key, run_key) DO UPDATE SET
	events = excluded.events, last_event_id = excluded.last_event_id`

	forgetDeletion = `
DELETE FROM deletions WHERE thread_key = ? AND run_key = ?`

	forgetDeletions = `
DELETE FROM deletions WHERE thread_key = ?`

	forgetDeletionsOfRuns = `
DELETE FROM deletions WHERE thread_key = ANY (?) AND run_key = ANY (?)`

	selectDeletions = `
SELECT d.thread_key, d.run_key, d.events, d.last_event_id, t.project_id FROM deletions d JOIN threads t ON t.key = d.thread_key
WHERE (d.thread_key, d.run_key) > (?, ?) AND NOT EXISTS (SELECT 1 FROM instances WHERE id = d.instance AND NOT fenced)
ORDER BY d.thread_key, d.run_key LIMIT ?`
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

// removal is a part of the deletions of a transaction.
type removal struct {
	*commitTx
	part
}

// Deletions returns up to limit deletions of which parts are left: see [data.ByKey].
func (r keyed) Deletions(ctx context.Context, afterThread, afterRun int64, limit int) ([]data.Deletion, error) {
	return all(ctx, r.q, func(rows *sql.Rows) (d data.Deletion, err error) {
		err = rows.Scan(&d.ThreadKey, &d.RunKey, &d.Events, &d.Last, &d.Project)
		return d, err
	}, selectDeletions, afterThread, afterRun, limit)
}

// applyDeletes carries out the next parts of the transaction's deletions, after all other rows were written: as many small runs as fit into
// one part, or a part of the first deletion. A deletion that does not get its turn has Left set.
func (tx *commitTx) applyDeletes() error {
	if len(tx.deletes) == 0 {
		return nil
	}
	if err := tx.finish(); err != nil {
		return err
	}
	list, err := tx.lockDeletions()
	if err != nil || len(list) == 0 {
		return err
	}
	first := removal{tx, part{list[0].Limit, deletedBytes}}
	n := 0
	if len(list) > 1 {
		if n, err = first.deleteSmallRuns(list); err != nil {
			return err
		}
	}
	if n == 0 {
		if err := first.delete(list[0]); err != nil {
			return err
		}
		n = 1
	}
	for _, d := range list[n:] { // a part of them would leave an incomplete run
		d.Left = true
	}
	return nil
}

// lockDeletions locks the threads of the deletions against Seal, and returns the deletions whose threads exist.
func (tx *commitTx) lockDeletions() ([]*data.Delete, error) {
	var threads []int64
	for _, d := range tx.deletes {
		d.Left = false
		threads = append(threads, d.ThreadKey)
	}
	slices.Sort(threads)
	locked, err := all(tx.ctx, tx, scalar[int64], lockThreadsOfDeletions, tx.d.list(slices.Compact(threads)))
	return slices.DeleteFunc(tx.deletes, func(d *data.Delete) bool { return !slices.Contains(locked, d.ThreadKey) }), err
}

// delete carries out the next part of a deletion, and notes whether parts are left.
func (r *removal) delete(d *data.Delete) error {
	if err := r.deletePart(d); err != nil {
		return err
	}
	switch {
	case d.Left:
		events := 0
		if d.Events {
			events = 1
		}
		return r.exec(noteDeletion, d.ThreadKey, d.RunKey, events, d.Last, r.w.instance)
	case d.RunKey == 0:
		return r.exec(forgetDeletions, d.ThreadKey)
	}
	return r.exec(forgetDeletion, d.ThreadKey, d.RunKey)
}

func (r *removal) deletePart(d *data.Delete) error {
	err := r.reserveEventIDs(d.ThreadKey)
	if err != nil {
		return err
	}
	if d.RunKey == 0 {
		d.Left, err = r.deleteThread(d.ThreadKey)
		return err
	}
	if d.Left, err = r.deleteSpans(d.RunKey); d.Left || d.Events || err != nil {
		return err
	}
	d.Left, err = r.deleteRun(d.RunKey)
	return err
}

// unpacked is about how much larger sealed events are in memory.
const unpacked = 8

// deleteSmallRuns removes as many runs from the front of a list as the part may remove as a whole, and returns how many these are.
// The number of statements hardly depends on the number of runs: those that share segments with other runs need some of their own.
func (r *removal) deleteSmallRuns(list []*data.Delete) (n int, err error) {
	events := list[0].Events
	if n = slices.IndexFunc(list, func(d *data.Delete) bool { return d.RunKey == 0 || d.Events != events }); n >= 0 {
		list = list[:n]
	}
	var threads, runs []int64
	for _, d := range list {
		threads, runs = append(threads, d.ThreadKey), append(runs, d.RunKey)
	}
	spans, err := all(r.ctx, r, scanSizedSpan, selectSizedSpans, r.d.list(runs), r.rows+1)
	if err != nil || len(spans) > r.rows {
		return 0, err
	}
	sizes, err := r.sizesOfRuns(runs, events)
	if err != nil {
		return 0, err
	}
	for _, s := range spans {
		sizes[s.RunKey] = append(sizes[s.RunKey], s.cost(r.rows)...)
	}
	for n = 0; n < len(list); n++ {
		of := sizes[list[n].RunKey]
		if fit, _ := within(of, r.bytes); fit < len(of) || len(of) > r.rows {
			break
		}
		r.admit(of)
	}
	if n == 0 {
		return 0, nil
	}
	threadList, runList := r.d.list(threads[:n]), r.d.list(runs[:n])
	if err := cmp.Or(r.exec(deleteEventsOfRuns, runList), r.exec(deleteSegmentsOfRuns, runList)); err != nil {
		return 0, err
	}
	unlimited := removal{r.commitTx, part{math.MaxInt, math.MaxInt}}
	for i := range spans {
		if s := &spans[i]; s.segments > 0 && slices.Contains(runs[:n], s.RunKey) {
			if _, err := unlimited.deleteSealed(&s.Span); err != nil {
				return 0, err
			}
		}
	}
	if err := r.exec(deleteSpansOfRuns, runList); err != nil {
		return 0, err
	}
	if !events {
		for i := range runRows {
			if before := runRows[i].beforeOfRuns; before != "" {
				if err := r.exec(before, longAgo(), runList); err != nil {
					return 0, err
				}
			}
			if err := r.exec(runRows[i].removeOfRuns, runList); err != nil {
				return 0, err
			}
		}
		if err := cmp.Or(r.exec(deleteTerms, runList), r.exec(deleteRunInputs, runList), r.exec(deleteRuns, runList)); err != nil {
			return 0, err
		}
	}
	return n, r.exec(forgetDeletionsOfRuns, threadList, runList)
}

// sizesOfRuns returns the sizes of the rows of runs, without their spans and events. Of a kind it reads at most one row more than
// the part may remove, which is enough to know that the runs have too many.
func (r *removal) sizesOfRuns(runs []int64, events bool) (map[int64][]int, error) {
	of := make(map[int64][]int)
	if events {
		return of, nil
	}
	queries := []string{sizeRuns}
	for i := range runRows {
		queries = append(queries, runRows[i].sizesOfRuns)
	}
	for _, query := range queries {
		list, err := all(r.ctx, r, scanRunSize, query, r.d.list(runs), r.rows+1)
		if err != nil {
			return nil, err
		}
		if len(list) > r.rows { // the sizes of some are missing
			for _, run := range runs {
				of[run] = make([]int, r.rows+1)
			}
			return of, nil
		}
		for _, s := range list {
			of[s.run] = append(of[s.run], s.bytes)
		}
	}
	return of, nil
}

// runSize is the size of a row of a run.
type runSize struct {
	run   int64
	bytes int
}

func scanRunSize(rows *sql.Rows) (s runSize, err error) {
	err = rows.Scan(&s.run, &s.bytes)
	return s, err
}

// sizedSpan is a span with the number and size of its rows of events.
type sizedSpan struct {
	data.Span
	lastSeq  int64 // the thread's
	rows     int
	plain    int64 // bytes of rows
	segments int   // which hold other events, too
	sealed   int64 // bytes of the span's share of segments
}

func scanSizedSpan(rows *sql.Rows) (s sizedSpan, err error) {
	err = rows.Scan(&s.RunKey, &s.N, &s.ThreadKey, &s.First, &s.Last, &s.lastSeq, &s.rows, &s.plain, &s.segments, &s.sealed)
	return s, err
}

// cost returns the sizes of a span's rows, or too many for a part if its thread may lose the id of its last event.
func (s *sizedSpan) cost(limit int) []int {
	if s.Last == 0 || s.Last > s.lastSeq || s.rows > limit {
		return make([]int, limit+1)
	}
	sizes := make([]int, 1+s.rows+s.segments)
	sizes[0] = int(s.plain + s.sealed*unpacked)
	return sizes
}

// reserveEventIDs reserves the ids of the thread's events, so that no new event gets one of them when the last events are removed.
func (r *removal) reserveEventIDs(threadKey int64) error {
	last, err := logReader{q: r}.LastEventID(r.ctx, threadKey)
	if err != nil {
		return err
	}
	return r.exec(raiseLastSeq, last, threadKey, last)
}

// deleteSpans removes the next events of a run, and each span that becomes empty.
func (r *removal) deleteSpans(runKey int64) (left bool, err error) {
	for {
		spans, err := all(r.ctx, r, scanSpan, selectSpans, runKey, 1)
		if err != nil || len(spans) == 0 {
			return false, err
		}
		if r.over() {
			return true, nil
		}
		if left, err := r.deleteSpan(&spans[0]); left || err != nil {
			return left, err
		}
	}
}

func (r *removal) deleteSpan(span *data.Span) (left bool, err error) {
	if span.Last == 0 {
		span.Last = math.MaxInt64 - 1
	}
	some := r.rows
	sizes, err := all(r.ctx, r, scalar[int], sizeRunEvents, span.ThreadKey, span.First, span.Last, span.RunKey, some)
	if err != nil {
		return false, err
	}
	n := r.admit(sizes)
	if n > 0 {
		if err := r.exec(deleteRunEvents, span.ThreadKey, span.First, span.Last, span.RunKey, n); err != nil {
			return false, err
		}
	}
	if n == some || n < len(sizes) {
		return true, nil
	}
	if left, err := r.deleteSealed(span); left || err != nil {
		return left, err
	}
	r.rows--
	return false, r.exec(deleteSpan, span.RunKey, span.N)
}

// deleteRun removes the next rows of a run without spans, and with the last of them the run.
func (r *removal) deleteRun(key int64) (left bool, err error) {
	for i := range runRows {
		if left, err := r.deleteSome(&runRows[i], key); left || err != nil {
			return left, err
		}
	}
	if r.over() {
		return true, nil
	}
	keys := r.d.list([]int64{key})
	sizes, err := all(r.ctx, r, scanRunSize, sizeRuns, keys, 1)
	if err != nil {
		return false, err
	}
	for _, s := range sizes {
		r.admit([]int{s.bytes})
	}
	return false, cmp.Or(r.exec(deleteTerms, keys), r.exec(deleteRunInputs, keys), r.exec(deleteRuns, keys))
}

// deleteThread removes the next rows of a thread, then its runs one by one, and at last the thread.
func (r *removal) deleteThread(key int64) (left bool, err error) {
	for i := range threadRows {
		if left, err := r.deleteSome(&threadRows[i], key); left || err != nil {
			return left, err
		}
	}
	for {
		run, err := one(r.ctx, r, scalar[int64], firstRunOfThread, key)
		if errors.Is(err, data.ErrNotFound) {
			return false, cmp.Or(r.exec(deleteThreadState, key), r.exec(deleteThread, key))
		}
		if err != nil {
			return false, err
		}
		if left, err := r.deleteSome(&keysOfRun, run); left || err != nil {
			return left, err
		}
		if left, err := r.deleteRun(run); left || err != nil {
			return left, err
		}
		r.rows -= runCost
	}
}

// deleteSome removes the next rows of a kind that belong to a thread or a run.
func (r *removal) deleteSome(d *deletion, key int64) (left bool, err error) {
	if r.over() {
		return true, nil
	}
	some := r.rows
	sizes, err := all(r.ctx, r, scalar[int], d.sizes, key, some)
	if err != nil || len(sizes) == 0 {
		return false, err
	}
	n := r.admit(sizes)
	if d.before != "" {
		if err := r.exec(d.before, longAgo(), key, n); err != nil {
			return false, err
		}
	}
	return n == some || n < len(sizes), r.exec(d.remove, key, n)
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
