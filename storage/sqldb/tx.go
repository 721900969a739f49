package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Tx is a transaction of a Writer.
type Tx struct {
	DB *DB

	ctx     context.Context //nolint:containedctx // of Transact: a transaction is bound to one call
	session *session
	batch   writeBatch
	err     error // the first failure
}

// Context returns the context of the transaction.
func (tx *Tx) Context() context.Context { return tx.ctx }

// Query implements Querier.
func (tx *Tx) Query(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	return tx.queryIn(ctx, plain, query, args)
}

func (tx *Tx) queryIn(ctx context.Context, f form, query string, args []any) (*sql.Rows, error) {
	if err := tx.Send(); err != nil {
		return nil, err
	}
	stmt, err := tx.session.stmt(ctx, query, f)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(ctx, args...)
}

func (tx *Tx) elements(list [][]any) ([]any, form) { return tx.DB.elements(list) }

// Failed implements Querier.
func (tx *Tx) Failed(ctx context.Context, err error) error { return tx.Fail(tx.DB.explained(ctx, err)) }

// Fail makes err the end of the transaction, and returns it.
func (tx *Tx) Fail(err error) error {
	if tx.err == nil {
		tx.err = err
	}
	return err
}

// Err returns the first failure.
func (tx *Tx) Err() error { return tx.err }

// Exec runs a statement.
func (tx *Tx) Exec(query string, args ...any) error {
	_, err := tx.Count(query, args...)
	return err
}

// Count is Exec, and returns how many rows the statement has changed.
func (tx *Tx) Count(query string, args ...any) (int, error) {
	if err := CheckText(args...); err != nil {
		return 0, tx.Fail(err)
	}
	if err := tx.Send(); err != nil {
		return 0, err
	}
	return tx.run(query, args)
}

func (tx *Tx) run(query string, args []any) (int, error) {
	changed, err := tx.session.run(tx.ctx, query, args)
	if err != nil {
		return 0, tx.Failed(tx.ctx, err)
	}
	return changed, nil
}

// Define runs a statement without preparing it, because it changes the schema or runs once.
func (tx *Tx) Define(statement string) error {
	if tx.err != nil {
		return tx.err
	}
	if err := tx.Try(statement); err != nil {
		return tx.Failed(tx.ctx, err)
	}
	return nil
}

// Try is Define, but its failure does not fail the transaction.
func (tx *Tx) Try(statement string) error { return tx.session.exec(tx.ctx, statement) }

// Opening returns the Querier of the first statement of a transaction, which it begins: on PostgreSQL in one message with the statement,
// which saves a round trip. Such a message cannot have parameters, but can name prepared statements, which are not planned again. All
// transactions that begin so have the same first statement.
func (tx *Tx) Opening() Querier { return opening{tx} }

type opening struct{ *Tx }

// Query implements Querier.
func (o opening) Query(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	if o.DB.quote == nil {
		if err := o.Exec(o.DB.begin); err != nil {
			return nil, err
		}
		return o.Tx.Query(ctx, query, args)
	}
	if !o.session.opens {
		if err := o.session.exec(ctx, "PREPARE opening AS "+o.DB.statement(query, plain)); err != nil {
			return nil, err
		}
		o.session.opens = true
	}
	values := make([]string, len(args))
	for i, arg := range args {
		values[i] = fmt.Sprint(arg)
		if text, ok := arg.(string); ok {
			values[i] = o.DB.quote(text)
		}
	}
	return o.session.conn.QueryContext(ctx, o.DB.begin+"; EXECUTE opening ("+strings.Join(values, ", ")+")")
}

// Write writes rows, with the parameters that cellsOf returns for each. On PostgreSQL one statement takes all rows, unless they are large, and
// shares a message with other tables (see writeBatch). On SQLite a statement takes some of them. A failure is the transaction's.
func Write[V any](tx *Tx, list []V, query string, cellsOf func(*V) []any) {
	if tx.err != nil || len(list) == 0 {
		return
	}
	var some [][]any
	size := 0
	for i := range list {
		args := cellsOf(&list[i])
		if err := CheckText(args...); err != nil {
			_ = tx.Fail(fmt.Errorf("%T: %w", list[i], err))
			return
		}
		some, size = append(some, args), size+sizeOf(args)
		if i < len(list)-1 && size <= tx.DB.message {
			continue
		}
		if tx.writeSome(query, some, size) != nil {
			return
		}
		some, size = some[:0], 0
	}
}

// writeSome writes rows that fit into one statement.
func (tx *Tx) writeSome(query string, some [][]any, size int) error {
	if tx.session.own == nil {
		return tx.addToBatch(query, tx.session.columns(query, slices.Clone(some)), size)
	}
	if err := tx.session.own.write(tx.ctx, tx.session, query, some); err != nil {
		return tx.Failed(tx.ctx, err)
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
func (tx *Tx) addToBatch(query string, args []any, size int) error {
	g := tx.session.part(query)
	if slices.Contains(tx.batch.tables, g.table) || tx.batch.size+size > tx.DB.message {
		if err := tx.Send(); err != nil {
			return err
		}
	}
	s := &tx.batch
	s.queries, s.numbers = append(s.queries, g.query), append(s.numbers, g.number)
	s.tables, s.args = append(s.tables, g.table), append(s.args, args)
	s.size += size
	return nil
}

// Send sends the rows of Write that wait for others. The transaction calls it before any other statement.
func (tx *Tx) Send() error {
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
