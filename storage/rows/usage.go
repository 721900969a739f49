package rows

import (
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
