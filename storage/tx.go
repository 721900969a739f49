package storage

import (
	"context"
	"database/sql"
	"math"
	"time"

	"github.com/batonrun/baton/runtime"
)

// tx is a transaction. Its first failure sticks: nothing works after it, and
// finish returns it, whatever the transaction's user made of it.
type tx struct {
	reader
	ctx     context.Context
	db      *DB
	session *session
	now     time.Time
	err     error
	rows    [kinds]buffer
	ahead   ahead
	keys    []*int64 // given to inserted rows
	events  []runtime.StoredEvent
}

var _ runtime.Tx = (*tx)(nil)

func newTx(ctx context.Context, db *DB, s *session) *tx {
	tx := &tx{ctx: ctx, db: db, session: s}
	tx.reader = reader{tx, db.d, db.z}
	return tx
}

// Now is the database's time.
func (tx *tx) Now() time.Time { return tx.now }

// Append adds events to the transaction. They are written, and become readable, when it ends.
func (tx *tx) Append(events ...runtime.StoredEvent) { tx.events = append(tx.events, events...) }

// DeleteRun removes a run with its names, spans, events, steps, nodes, messages, memos and interrupts.
func (tx *tx) DeleteRun(runKey int64) error {
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

func (tx *tx) deleteSpan(span *runtime.Span) error {
	if _, err := tx.LockThread(span.ThreadKey); err != nil { // against Seal
		return err
	}
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

// HideMessages hides the thread's messages: those of the runs given, and when fromSeq is not 0 those with at
// least that seq.
func (tx *tx) HideMessages(threadKey int64, runKeys []int64, fromSeq int64) error {
	if len(runKeys) > 0 {
		if err := tx.exec(hideMessagesOfRuns, tx.d.list(runKeys), threadKey); err != nil {
			return err
		}
	}
	if fromSeq == 0 {
		return nil
	}
	return tx.exec(hideMessagesFrom, threadKey, fromSeq)
}

func (tx *tx) takeKeysBack() {
	for _, key := range tx.keys {
		*key = 0
	}
}

// finish writes what is buffered, the events last.
func (tx *tx) finish() error {
	if err := tx.flush(); err != nil {
		return err
	}
	if len(tx.events) == 0 {
		return nil
	}
	rows, err := tx.db.packer.pack(tx.events)
	if err != nil {
		return tx.fail(err)
	}
	if tx.d.unnest {
		threads, firsts, lasts, runs, payloads := columns(rows)
		return tx.exec(insertEventRows, tx.now, threads, firsts, lasts, runs, payloads)
	}
	for i := range rows {
		r := &rows[i]
		if err := tx.exec(insertEvents, r.thread, r.first, r.last, r.run, tx.now, string(r.payload)); err != nil {
			return err
		}
	}
	return nil
}

// query implements querier. It writes the buffered rows that the statement may read first.
func (tx *tx) query(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	if tx.err != nil {
		return nil, tx.err
	}
	stmt, err := tx.session.stmt(ctx, query, 1)
	if err != nil {
		return nil, err
	}
	for _, k := range stmt.reads {
		if !tx.apart(k, query, args) {
			if err := tx.writeTo(k); err != nil {
				return nil, err
			}
		}
	}
	return written{tx}.query(ctx, query, args)
}

// narrow are statements that read only what belongs to one thread or one run, whose key is the first parameter.
var narrow = map[string]kind{
	selectThread: threads, lockThread: threads, selectOpenRuns: threads, selectLastRun: threads,
	selectMessages: threads, selectMessagesByID: threads, selectLastMessage: threads, selectLastEvent: threads,
	selectLastSeq: threads,

	selectRunByKey: runs, selectQueuedMessages: runs, selectSpans: runs, selectOpenSteps: runs, selectNodes: runs,
	selectMemos: runs, selectInterrupts: runs,
}

// apart reports whether no buffered row of a kind belongs to what the statement reads. A commit makes decisions about
// many threads, and their rows are written together as long as nobody asks for them.
func (tx *tx) apart(k kind, query string, args []any) bool {
	of, ok := narrow[query]
	return ok && !tx.rows[k].of[ref{of, args[0].(int64)}]
}

// written reads what has been written, and leaves what is buffered where it is.
func (tx *tx) written() reader { return reader{written{tx}, tx.d, tx.z} }

// written is the querier of a transaction's rows but for those that are buffered.
type written struct{ *tx }

func (w written) query(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	if w.err != nil {
		return nil, w.err
	}
	stmt, err := w.session.stmt(ctx, query, 1)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(ctx, args...)
}

// failed implements querier.
func (tx *tx) failed(ctx context.Context, err error) error { return tx.fail(tx.d.explained(ctx, err)) }

// fail makes err, explained already, the end of the transaction.
func (tx *tx) fail(err error) error {
	if tx.err == nil {
		tx.err = err
	}
	return err
}

// exec runs a statement after all that was buffered.
func (tx *tx) exec(query string, args ...any) error {
	_, err := tx.count(query, args...)
	return err
}

// count is exec, and returns how many rows the statement has changed.
func (tx *tx) count(query string, args ...any) (int, error) {
	if err := tx.flush(); err != nil {
		return 0, err
	}
	tx.ahead = ahead{}
	return tx.run(query, 1, args)
}

// run runs a statement for n rows at once, and returns how many it has changed.
func (tx *tx) run(query string, n int, args []any) (int, error) {
	if tx.err != nil {
		return 0, tx.err
	}
	if err := checkText(args); err != nil {
		return 0, tx.fail(err)
	}
	stmt, err := tx.session.stmt(tx.ctx, query, n)
	if err != nil {
		return 0, tx.failed(tx.ctx, err)
	}
	res, err := stmt.ExecContext(tx.ctx, args...)
	if err != nil {
		return 0, tx.failed(tx.ctx, err)
	}
	changed, err := res.RowsAffected()
	return int(changed), err
}
