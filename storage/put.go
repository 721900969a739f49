package storage

import (
	"errors"
	"fmt"

	"github.com/batonrun/baton/runtime"
)

// kind is a kind of row that a transaction buffers. Rows are written in the order of the kinds, which is
// that of their references, and within a kind in the order they were put.
type kind int

const (
	threads kind = iota
	runs
	runNames
	spans
	steps
	nodes
	messages
	memos
	interrupts
	idempotencyKeys
	kinds // how many there are
)

var tables = [kinds]string{
	"threads", "runs", "run_names", "run_spans", "steps", "node_states", "messages", "memos", "interrupts",
	"idempotency_keys",
}

var upserts = [kinds]string{
	threads:         upsertThread,
	runs:            upsertRun,
	runNames:        insertName,
	spans:           upsertSpan,
	steps:           upsertStep,
	nodes:           upsertNode,
	messages:        upsertMessage,
	memos:           upsertMemo,
	interrupts:      upsertInterrupt,
	idempotencyKeys: upsertKey,
}

// buffer holds rows of one kind that have not been written yet. A commit carries rows of many runs, and one
// statement for all of a kind costs one round trip.
type buffer struct {
	n    int
	args []any        // of all rows, one after the other
	rows map[any]int  // by key, which row it is
	of   map[ref]bool // whose rows there are
	size int          // bytes of text that were put, more or less
}

// maxHeld is how many bytes of rows a transaction buffers of a kind, and reads ahead, before one more.
const maxHeld = 8 << 20

// owners are the keys of the run and of the thread that a row belongs to, 0 for none.
type owners struct{ run, thread int64 }

// ref names a thread or a run.
type ref struct {
	k   kind
	key int64
}

// named reports whether one of the rows, which are of threads or of names of runs, has the name.
func (b *buffer) named(name runtime.Name) bool {
	for i := range b.n {
		if nameIn(b.args[i*len(b.args)/b.n:]) == name {
			return true
		}
	}
	return false
}

// Put inserts rows, or replaces those with the same key: see [runtime.Tx].
func (tx *tx) Put(rows ...runtime.Row) error {
	for _, row := range rows {
		if err := tx.put(row); err != nil {
			return fmt.Errorf("put %T: %w", row, err)
		}
	}
	return nil
}

type pair struct{ a, b any }

func (tx *tx) put(row runtime.Row) error {
	switch row := row.(type) {
	case *runtime.Thread:
		if row.Key == 0 {
			if inserted, err := tx.keyed(threads, &row.Key, threadArgs(row)); inserted || err != nil {
				return err
			}
		}
		return tx.buffer(threads, row.Key, owners{thread: row.Key}, append(threadArgs(row), row.Key))
	case *runtime.Run:
		if row.Key == 0 {
			inserted, err := tx.keyed(runs, &row.Key, runArgs(row))
			if err != nil {
				return err
			}
			if err := tx.name(user{row.Project, row.User}, row.ID, row.Key); inserted || err != nil {
				return err
			}
		}
		return tx.buffer(runs, row.Key, owners{row.Key, row.ThreadKey}, append(runArgs(row), row.Key))
	case *runtime.RunName:
		user, err := one(tx.ctx, tx, scanUser, selectRunUser, row.RunKey)
		if err != nil {
			return err
		}
		return tx.name(user, row.Name, row.RunKey)
	case *runtime.Span:
		return tx.buffer(spans, pair{row.RunKey, row.N}, owners{row.RunKey, row.ThreadKey}, spanArgs(row))
	case *runtime.Step:
		return tx.buffer(steps, pair{row.RunKey, row.Number}, owners{run: row.RunKey}, stepArgs(row))
	case *runtime.Node:
		return tx.buffer(nodes, pair{row.RunKey, row.NodeID}, owners{run: row.RunKey}, nodeArgs(row))
	case *runtime.Message:
		if row.CreatedAt.IsZero() {
			row.CreatedAt = tx.now
		}
		return tx.buffer(messages, pair{row.ThreadKey, row.ID}, owners{row.RunKey, row.ThreadKey}, messageArgs(row))
	case *runtime.Memo:
		key := [4]any{row.RunKey, row.Generation, row.Step, pair{row.Name, row.N}}
		return tx.buffer(memos, key, owners{run: row.RunKey}, memoArgs(row))
	case *runtime.Interrupt:
		return tx.buffer(interrupts, pair{row.RunKey, row.ID}, owners{run: row.RunKey}, interruptArgs(row))
	case *runtime.IdempotencyKey:
		return tx.buffer(idempotencyKeys, row.Scope, owners{}, keyArgs(row))
	}
	return tx.fail(errors.New("unknown kind of row"))
}

func (tx *tx) name(u user, name string, runKey int64) error {
	key := [4]any{u.project, u.id, name, runKey}
	return tx.buffer(runNames, key, owners{run: runKey}, key[:])
}

// keyed gives a new row its key, and reports whether it was inserted for that: where the insertion makes the key. The
// key is taken back if the transaction fails: another row may get it then.
func (tx *tx) keyed(k kind, key *int64, args []any) (inserted bool, err error) {
	if inserted = !tx.d.remote; inserted {
		*key, err = tx.inserted(k, args)
	} else {
		*key, err = tx.reserved(k)
	}
	tx.keys = append(tx.keys, key)
	return inserted, err
}

// inserts are the statements that insert one row and return its key.
var inserts = [kinds]string{threads: insertThread, runs: insertRun}

func (tx *tx) inserted(k kind, args []any) (int64, error) {
	if err := tx.writeTo(k); err != nil {
		return 0, err
	}
	if err := checkText(args); err != nil {
		return 0, tx.fail(err)
	}
	return one(tx.ctx, written{tx}, scalar[int64], inserts[k], args...)
}

// reservations are the statements that take keys of rows that come later.
var reservations = [kinds]string{threads: reserveThreads, runs: reserveRuns}

// reserved returns the key of a row to come. Keys that are reserved stay so when the transaction fails, and are
// lost with the session.
func (tx *tx) reserved(k kind) (key int64, err error) {
	keys := &tx.session.keys[k]
	if len(*keys) == 0 {
		if *keys, err = all(tx.ctx, written{tx}, scalar[int64], reservations[k]); err != nil {
			return 0, err
		}
	}
	key, *keys = (*keys)[0], (*keys)[1:]
	return key, nil
}

// buffer keeps a row to be written with others. No statement may meet a row twice, so a row that is put
// again takes its own place. Not so a run: one must have ended before another of its thread may begin, so the
// runs put before it are written first. So are large rows.
func (tx *tx) buffer(k kind, key any, of owners, args []any) error {
	if tx.err != nil {
		return tx.err
	}
	if err := checkText(args); err != nil {
		return tx.fail(err)
	}
	tx.ahead.forget(k, of, key, args)
	b := &tx.rows[k]
	n, again := b.rows[key]
	if again && k == runs || !again && b.size > maxHeld {
		if err := tx.writeTo(k); err != nil {
			return err
		}
	}
	if b.rows == nil {
		b.rows, b.of = make(map[any]int), make(map[ref]bool)
	}
	b.of[ref{runs, of.run}], b.of[ref{threads, of.thread}] = true, true
	b.size += textSize(args)
	if again && k != runs {
		copy(b.args[n*len(args):], args)
		return nil
	}
	b.rows[key] = b.n
	b.args = append(b.args, args...)
	b.n++
	return nil
}

// flush writes what is buffered.
func (tx *tx) flush() error { return tx.writeTo(kinds - 1) }

// writeTo writes the buffered rows of a kind, after those they may refer to.
func (tx *tx) writeTo(last kind) error {
	for k := range last + 1 {
		if err := tx.write(k); err != nil {
			return err
		}
	}
	return tx.err
}

// write writes the buffered rows of a kind, in statements for a power of two rows each, so that there are
// few different ones to prepare.
func (tx *tx) write(k kind) error {
	if tx.err != nil {
		return tx.err
	}
	b := &tx.rows[k]
	if b.n == 0 {
		return nil
	}
	args, width := b.args, len(b.args)/b.n
	for len(args) > 0 {
		n := tx.d.batch
		for n*width > len(args) {
			n /= 2
		}
		if _, err := tx.run(upserts[k], n, args[:n*width]); err != nil {
			return err
		}
		args = args[n*width:]
	}
	clear(b.rows)
	clear(b.of)
	b.n, b.size, b.args = 0, 0, b.args[:0]
	return nil
}
