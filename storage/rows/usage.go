package rows

import (
	"context"
	"database/sql"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

const (
	insertRunEnded = `
INSERT INTO ended_runs (run_key, project_id, agent, status, code, first_generation, created_at, begun_at, finished_at)
VALUES (?::bigint, ?::text, ?::text, ?::text, ?::text, ?::boolean, ?::timestamptz, ?::timestamptz, ?::timestamptz)`

	insertModelCall = `
INSERT INTO model_calls (project_id, user_id, agent, at, calls, cost, usage)
VALUES (?::text, ?::text, ?::text, ?::timestamptz, ?::bigint, ?::bigint, ?::text)`

	upsertRaise = `
INSERT INTO budget_raises (since, project_id, budget, subject, amount)
VALUES (?::timestamptz, ?::text, ?::text, ?::text, ?::bigint)
ON CONFLICT (since, project_id, budget, subject) DO UPDATE SET
	amount = CASE WHEN excluded.amount > budget_raises.amount THEN excluded.amount ELSE budget_raises.amount END`

	selectRaises = `
SELECT since, project_id, budget, subject, amount FROM budget_raises
WHERE (since, project_id, budget, subject) > (?, ?, ?, ?) ORDER BY since, project_id, budget, subject LIMIT ?`
)

func runEndedCells(e *data.RunEnded) []any {
	return []any{e.RunKey, e.Project, e.Agent, string(e.Status), e.Code, e.First, sqldb.Time(e.CreatedAt), sqldb.Time(e.BegunAt), sqldb.Time(e.FinishedAt)}
}

func modelCallCells(c *data.CallUsage) []any {
	return []any{c.Project, c.User, c.Agent, sqldb.Time(c.At), c.Calls, c.Cost, sqldb.JSON(&c.Usage)}
}

func raiseCells(r *data.Raise) []any {
	return []any{sqldb.Time(r.From), r.Project, r.Budget, r.Subject, r.Amount}
}

func scanRaise(rows *sql.Rows) (r data.Raise, err error) {
	return sqldb.Scan(rows, &r, sqldb.Into(&r.From), &r.Project, &r.Budget, &r.Subject, &r.Amount)
}

// Raises returns the raises of budgets: see [data.Reader].
func (r *Reader) Raises(ctx context.Context, since time.Time) (list []data.Raise, err error) {
	const limit = 1000
	for after := (data.Raise{From: since.Add(-time.Millisecond)}); ; {
		some, err := sqldb.All(ctx, r.q, scanRaise, selectRaises, sqldb.Time(after.From), after.Project, after.Budget, after.Subject, limit)
		if err != nil {
			return nil, err
		}
		if list = append(list, some...); len(some) < limit {
			return list, nil
		}
		after = some[limit-1]
	}
}
