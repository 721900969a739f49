package lists

import (
	"context"
	"database/sql"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

// The reservations of the model calls under way are in the database where several servers share it. A server that has ended has
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
	return sqldb.Scan(rows, &r, &r.Budget, &r.Subject, sqldb.Into(&r.From), &r.Amount)
}

// ForgetReserved deletes the reservations of instances that have ended.
func ForgetReserved(tx *sqldb.Tx) error { return tx.Exec(deleteReservedOfEnded) }

// ReserveBudgets replaces an instance's reservations: see [data.Budgets]. It uses a connection of its own, because batches do not wait for it.
func (c Counter) ReserveBudgets(ctx context.Context, instance, project string, decide func(others []data.Reserved) ([]data.Reserved, error)) error {
	return c.w.Session.Pool.Transact(ctx, func(q sqldb.Querier, exec func(string, ...any) error) error {
		if err := exec(lockReserved, project); err != nil {
			return err
		}
		others, err := sqldb.All(ctx, q, scanReserved, selectReserved, project, instance)
		if err != nil {
			return err
		}
		ours, err := decide(others)
		if err != nil {
			return err
		}
		if err := exec(deleteReserved, project, instance); err != nil {
			return err
		}
		for _, r := range ours {
			if err := exec(insertReserved, project, instance, r.Budget, r.Subject, sqldb.Time(r.From), r.Amount); err != nil {
				return err
			}
		}
		return nil
	})
}
