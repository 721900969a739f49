package storage

import (
	"context"
	"database/sql"
	"regexp"
	"slices"
	"strings"
	"time"
)

// tx is a transaction.
type tx struct {
	ctx     context.Context
	begun   time.Time
	w       *writer
	d       *dialect
	session *session
	batch   writeBatch
	err     error // the first failure
}

// begin begins a transaction that writes.
func (tx *tx) begin() error { return tx.exec(tx.d.begin) }

// renew renews the lease again if the transaction has used up much of it. Otherwise an instance that waits for the
// row's lock could find the lease expired.
func (tx *tx) renew() error {
	if tx.d.single || time.Since(tx.begun) < tx.w.cfg.Lease/3 {
		return nil
	}
	return tx.exec(keepLease, tx.w.lease(), tx.w.instance)
}

// query implements querier.
func (tx *tx) query(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	return tx.queryIn(ctx, plain, query, args)
}

func (tx *tx) queryIn(ctx context.Context, f form, query string, args []any) (*sql.Rows, error) {
	if err := tx.send(); err != nil {
		return nil, err
	}
	stmt, err := tx.session.stmt(ctx, query, f)
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

// exec runs a statement.
func (tx *tx) exec(query string, args ...any) error {
	_, err := tx.count(query, args...)
	return err
}

// count is exec, and returns how many rows the statement has changed.
func (tx *tx) count(query string, args ...any) (int, error) {
	if err := checkText(args); err != nil {
		return 0, tx.fail(err)
	}
	if err := tx.send(); err != nil {
		return 0, err
	}
	return tx.run(query, args)
}

func (tx *tx) run(query string, args []any) (int, error) {
	changed, err := tx.session.run(tx.ctx, query, args)
	if err != nil {
		return 0, tx.failed(tx.ctx, err)
	}
	return changed, nil
}

// define runs a statement without preparing it, because it changes the schema or runs once.
func (tx *tx) define(statement string) error {
	if tx.err != nil {
		return tx.err
	}
	if err := tx.session.exec(tx.ctx, statement); err != nil {
		return tx.failed(tx.ctx, err)
	}
	return nil
}

// writeBatch collects statements that write, and sends them to PostgreSQL as one statement, a WITH with each of them as a part:
// that costs one round trip. The parts do not see each other's writes and run in no order, so a batch has at most one part for
// each table.
type writeBatch struct {
	queries []string
	numbers []byte // of the queries
	tables  []string
	args    [][]any
	size    int
}

// written finds the table that a statement writes.
var written = regexp.MustCompile(`(?:INSERT INTO|UPDATE|DELETE FROM) (\w+)`)

// maxBatches is how many different batches a session prepares. Few are usual; the statements of a rare one are sent one by one.
const maxBatches = 100

// addToBatch adds a statement for many rows to the batch. It sends the batch first if that has a statement for the table, or is large.
func (tx *tx) addToBatch(query string, args []any, size int) error {
	g := tx.session.part(query)
	if slices.Contains(tx.batch.tables, g.table) || tx.batch.size+size > tx.d.message {
		if err := tx.send(); err != nil {
			return err
		}
	}
	s := &tx.batch
	s.queries, s.numbers = append(s.queries, g.query), append(s.numbers, g.number)
	s.tables, s.args = append(s.tables, g.table), append(s.args, args)
	s.size += size
	return nil
}

// send sends the batch. The transaction calls it before any other statement.
func (tx *tx) send() error {
	s := tx.batch
	tx.batch = writeBatch{}
	if tx.err != nil || len(s.queries) == 0 {
		return tx.err
	}
	if query, ok := tx.session.together(&s); ok {
		_, err := tx.run(query, slices.Concat(s.args...))
		return err
	}
	for i, query := range s.queries {
		if _, err := tx.run(query, s.args[i]); err != nil {
			return err
		}
	}
	return nil
}

// query returns the batch as one statement.
func (s *writeBatch) query() string {
	var b strings.Builder
	for i, query := range s.queries {
		switch {
		case i == len(s.queries)-1:
			b.WriteString(")")
		case i == 0:
			b.WriteString("WITH ")
		default:
			b.WriteString("), ")
		}
		if i < len(s.queries)-1 {
			b.WriteString(s.tables[i] + "_part AS (")
		}
		b.WriteString(query)
	}
	return b.String()
}

// batchPart is a statement as a part of a batch.
type batchPart struct {
	query, table string
	number       byte // in the order in which the session first used them
}

func (s *session) part(query string) batchPart {
	g, ok := s.parts[query]
	if !ok {
		g = batchPart{manyRows(query), written.FindStringSubmatch(query)[1], byte(len(s.parts))} // there are some thirty
		s.parts[query] = g
	}
	return g
}

// together returns the batch as one statement, if it has several and the session prepares it.
func (s *session) together(of *writeBatch) (query string, ok bool) {
	if len(of.queries) < 2 {
		return "", false
	}
	if query, ok = s.batches[string(of.numbers)]; !ok && len(s.batches) < maxBatches {
		query, ok = of.query(), true
		s.batches[string(of.numbers)] = query
	}
	return query, ok
}
