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
	args []any       // of all rows, one after the other
	rows map[any]int // by key, which row it is
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
			return tx.insert(threads, &row.Key, insertThread, threadArgs(row))
		}
		return tx.buffer(threads, row.Key, append(threadArgs(row), row.Key))
	case *runtime.Run:
		if row.Key != 0 {
			return tx.buffer(runs, row.Key, append(runArgs(row), row.Key))
		}
		if err := tx.insert(runs, &row.Key, insertRun, runArgs(row)); err != nil {
			return err
		}
		return tx.name(owner{row.Project, row.User}, row.ID, row.Key)
	case *runtime.RunName:
		owner, err := one(tx.ctx, tx, scanOwner, selectRunOwner, row.RunKey)
		if err != nil {
			return err
		}
		return tx.name(owner, row.Name, row.RunKey)
	case *runtime.Span:
		return tx.buffer(spans, pair{row.RunKey, row.N}, spanArgs(row))
	case *runtime.Step:
		return tx.buffer(steps, pair{row.RunKey, row.Number}, stepArgs(row))
	case *runtime.Node:
		return tx.buffer(nodes, pair{row.RunKey, row.NodeID}, nodeArgs(row))
	case *runtime.Message:
		if row.CreatedAt.IsZero() {
			row.CreatedAt = tx.now
		}
		return tx.buffer(messages, pair{row.ThreadKey, row.ID}, messageArgs(row))
	case *runtime.Memo:
		return tx.buffer(memos, [4]any{row.RunKey, row.Generation, row.Step, pair{row.Name, row.N}}, memoArgs(row))
	case *runtime.Interrupt:
		return tx.buffer(interrupts, pair{row.RunKey, row.ID}, interruptArgs(row))
	case *runtime.IdempotencyKey:
		return tx.buffer(idempotencyKeys, row.Scope, keyArgs(row))
	}
	return tx.fail(errors.New("unknown kind of row"))
}

func (tx *tx) name(owner owner, name string, runKey int64) error {
	key := [4]any{owner.project, owner.user, name, runKey}
	return tx.buffer(runNames, key, key[:])
}

// insert writes a row at once, for its key. The key is taken back if the transaction fails: another row may
// get it then.
func (tx *tx) insert(k kind, key *int64, query string, args []any) error {
	if err := tx.write(k); err != nil {
		return err
	}
	if err := checkText(args); err != nil {
		return tx.fail(err)
	}
	stmt, err := tx.session.stmt(tx.ctx, query, 1)
	if err != nil {
		return tx.failed(tx.ctx, err)
	}
	if err := stmt.QueryRowContext(tx.ctx, args...).Scan(key); err != nil {
		return tx.failed(tx.ctx, err)
	}
	tx.keys = append(tx.keys, key)
	return nil
}

// buffer keeps a row to be written with others. No statement may meet a row twice, so a row that is put
// again takes its own place. Not so a run: one must have ended before another of its thread may begin, so the
// runs put before it are written first.
func (tx *tx) buffer(k kind, key any, args []any) error {
	if tx.err != nil {
		return tx.err
	}
	if err := checkText(args); err != nil {
		return tx.fail(err)
	}
	b := &tx.rows[k]
	if n, again := b.rows[key]; again && k != runs {
		copy(b.args[n*len(args):], args)
		return nil
	} else if again {
		if err := tx.write(k); err != nil {
			return err
		}
	}
	if b.rows == nil {
		b.rows = make(map[any]int)
	}
	b.rows[key] = b.n
	b.args = append(b.args, args...)
	b.n++
	return nil
}

// flush writes what is buffered.
func (tx *tx) flush() error {
	for k := range kinds {
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
	b.n, b.args = 0, b.args[:0]
	return nil
}
