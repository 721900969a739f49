package storage

import (
	"context"
	"database/sql"

	"github.com/jmoiron/sqlx"

	"github.com/batonrun/baton/runtime/data"
)

// What the model calls under way have reserved of budgets is in the database where several servers share it. A server that has ended has
// reserved nothing.

const (
	// lockReserved lets one instance decide about a project at a time.
	lockReserved = `
SELECT pg_advisory_xact_lock(hashtext('baton budgets'), hashtext(?))`

	selectReserved = `
SELECT budget, subject, since, amount FROM budget_reserved
WHERE project_id = ? AND instance <> ? AND instance IN (SELECT id FROM instances WHERE NOT fenced)`

	deleteReserved = `
DELETE FROM budget_reserved WHERE project_id = ? AND instance = ?`

	insertReserved = `
INSERT INTO budget_reserved (project_id, instance, budget, subject, since, amount) VALUES (?, ?, ?, ?, ?, ?)`

	deleteReservedOfEnded = `
DELETE FROM budget_reserved WHERE instance NOT IN (SELECT id FROM instances WHERE NOT fenced)`
)

func scanReserved(rows *sql.Rows) (r data.Reserved, err error) {
	err = rows.Scan(&r.Budget, &r.Subject, timeInto{&r.From}, &r.Amount)
	return r, err
}

// ReserveBudgets replaces an instance's reservations: see [data.Store]. It uses a connection of its own, because batches wait for nobody's
// budget.
func (c *committer) ReserveBudgets(ctx context.Context, instance, project string, decide func(others []data.Reserved) ([]data.Reserved, error)) error {
	begun, err := c.write.BeginTxx(ctx, nil)
	if err != nil {
		return c.d.explained(ctx, err)
	}
	defer func() { _ = begun.Rollback() }() // does nothing after a commit
	tx := besideTx{begun, c.d}
	if err := tx.exec(ctx, lockReserved, project); err != nil {
		return err
	}
	others, err := all(ctx, tx, scanReserved, selectReserved, project, instance)
	if err != nil {
		return err
	}
	ours, err := decide(others)
	if err != nil {
		return err
	}
	if err := tx.exec(ctx, deleteReserved, project, instance); err != nil {
		return err
	}
	for _, r := range ours {
		if err := tx.exec(ctx, insertReserved, project, instance, r.Budget, r.Subject, ms(r.From), r.Amount); err != nil {
			return err
		}
	}
	return c.d.explained(ctx, begun.Commit())
}

// besideTx is a transaction beside the session of the batches.
type besideTx struct {
	tx *sqlx.Tx
	d  *dialect
}

func (t besideTx) exec(ctx context.Context, query string, args ...any) error {
	_, err := t.tx.ExecContext(ctx, t.d.statement(query, plain), args...)
	return t.d.explained(ctx, err)
}

func (t besideTx) query(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	return t.tx.QueryContext(ctx, t.d.statement(query, plain), args...)
}

func (t besideTx) failed(ctx context.Context, err error) error { return t.d.explained(ctx, err) }
