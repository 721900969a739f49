package lists

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

const usageColumns = `day, project_id, user_id, agent, provider, model, calls, input, cached, output, reasoning, cost`

const (
	addUsageOfDay = `
INSERT INTO usage_days (` + usageColumns + `)
VALUES (?::timestamptz, ?::text, ?::text, ?::text, ?::text, ?::text, ?::bigint, ?::bigint, ?::bigint, ?::bigint, ?::bigint, ?::bigint)
ON CONFLICT (project_id, day, user_id, agent, provider, model) DO UPDATE SET
	calls = usage_days.calls + excluded.calls, input = usage_days.input + excluded.input, cached = usage_days.cached + excluded.cached,
	output = usage_days.output + excluded.output, reasoning = usage_days.reasoning + excluded.reasoning,
	cost = usage_days.cost + excluded.cost`

	// A column that is not asked for is replaced by a constant.
	sumUsage = `
SELECT CASE WHEN ? THEN day END, '', CASE WHEN ? THEN user_id ELSE '' END, CASE WHEN ? THEN agent ELSE '' END,
	CASE WHEN ? THEN provider ELSE '' END, CASE WHEN ? THEN model ELSE '' END,
	CAST(SUM(calls) AS bigint), CAST(SUM(input) AS bigint), CAST(SUM(cached) AS bigint), CAST(SUM(output) AS bigint),
	CAST(SUM(reasoning) AS bigint), CAST(SUM(cost) AS bigint)
FROM usage_days WHERE project_id = ? AND day >= ? AND day <= ? AND (user_id = ? OR ?)
GROUP BY 1, 3, 4, 5, 6 ORDER BY 1, 3, 4, 5, 6 LIMIT ?`

	selectUsageDays = `
SELECT ` + usageColumns + ` FROM usage_days
WHERE (day, project_id, user_id, agent, provider, model) > (?, ?, ?, ?, ?, ?) AND day < ?
ORDER BY day, project_id, user_id, agent, provider, model LIMIT ?`

	selectCalls = callColumns + ` WHERE key > ? ORDER BY key LIMIT ?`

	forgetUsage = `
DELETE FROM usage_days WHERE (project_id, day, user_id, agent, provider, model) IN (
	SELECT project_id, day, user_id, agent, provider, model FROM usage_days WHERE day < ? ORDER BY day LIMIT ?)`

	forgetRaises = `
DELETE FROM budget_raises WHERE (since, project_id, budget, subject) IN (
	SELECT since, project_id, budget, subject FROM budget_raises WHERE since < ? ORDER BY since LIMIT ?)`
)

// usageRow is a row of usage_days.
type usageRow struct {
	project string
	data.UsageSum
}

func usageCells(u *usageRow) []any {
	return []any{sqldb.Time(u.Day), u.project, u.User, u.Agent, u.Provider, u.Model, u.Calls, u.Input, u.Cached, u.Output, u.Reasoning, u.Cost}
}

func scanUsage(rows *sql.Rows) (u usageRow, err error) {
	var day *time.Time
	err = rows.Scan(sqldb.Into(&day), &u.project, &u.User, &u.Agent, &u.Provider, &u.Model, &u.Calls, &u.Input, &u.Cached, &u.Output,
		&u.Reasoning, &u.Cost)
	if day != nil {
		u.Day = day.UTC()
	}
	return u, err
}

// addUsage adds calls to the usage of their days.
func addUsage(tx *sqldb.Tx, list []call) error {
	type key struct {
		project string
		data.UsageKey
	}
	sums := make(map[key]*usageRow)
	for i := range list {
		sum := list[i].Sum()
		k := key{list[i].Project, sum.UsageKey}
		if sums[k] == nil {
			sums[k] = &usageRow{list[i].Project, data.UsageSum{UsageKey: sum.UsageKey}}
		}
		sums[k].Add(&sum)
	}
	for _, row := range sums {
		if err := tx.Exec(addUsageOfDay, usageCells(row)...); err != nil {
			return err
		}
	}
	return nil
}

// Usage returns the usage of a project's model calls: see [data.Ledger].
func (c Counter) Usage(ctx context.Context, f data.UsageFilter) (list []data.UsageSum, err error) {
	f.Since, f.Until = data.Day(f.Since), data.Day(f.Until)
	sums := make(map[data.UsageKey]*data.UsageSum)
	add := func(sum *data.UsageSum) {
		k := f.Key(sum.UsageKey)
		if sums[k] == nil {
			sums[k] = &data.UsageSum{UsageKey: k}
		}
		sums[k].Add(sum)
	}
	err = c.read.Snapshot(ctx, func(q sqldb.Querier) error {
		days, err := sqldb.All(ctx, q, scanUsage, sumUsage, f.ByDay, f.ByUser, f.ByAgent, f.ByModel, f.ByModel, f.Project, sqldb.Time(f.Since), sqldb.Time(f.Until), f.User, f.User == "", f.Limit)
		if err != nil {
			return err
		}
		for i := range days {
			add(&days[i].UsageSum)
		}
		calls, err := sqldb.All(ctx, q, scanCall, selectCallsOfProject, f.Project, maxWaiting)
		for i := range calls {
			sum := calls[i].Sum()
			if !sum.Day.Before(f.Since) && !sum.Day.After(f.Until) && (f.User == "" || f.User == sum.User) {
				add(&sum)
			}
		}
		return err
	})
	for _, sum := range sums {
		list = append(list, *sum)
	}
	slices.SortFunc(list, func(a, b data.UsageSum) int {
		return cmp.Or(a.Day.Compare(b.Day), cmp.Compare(a.User, b.User), cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model))
	})
	return list[:min(len(list), f.Limit)], err
}

// Spent returns the spending of spenders: see [data.Budgets].
func (c Counter) Spent(ctx context.Context, project string, from, until time.Time) (list []data.Spending, err error) {
	sums := make(map[data.Spender]*data.Spending)
	add := func(project string, u *data.UsageSum) {
		who := data.Spender{Project: project, User: u.User, Agent: u.Agent}
		if sums[who] == nil {
			sums[who] = &data.Spending{Spender: who}
		}
		sums[who].Tokens += u.Tokens()
		sums[who].Cost += u.Cost
	}
	if project != "" {
		f := data.UsageFilter{Project: project, Since: from, Until: until.Add(-time.Millisecond), ByUser: true, ByAgent: true, Limit: maxWaiting}
		days, err := c.Usage(ctx, f)
		if err != nil {
			return nil, err
		}
		for i := range days {
			add(project, &days[i])
		}
	} else if err := c.read.Snapshot(ctx, func(q sqldb.Querier) error { return spentOfAll(ctx, q, from, until, add) }); err != nil {
		return nil, err
	}
	for _, sum := range sums {
		list = append(list, *sum)
	}
	slices.SortFunc(list, func(a, b data.Spending) int {
		return cmp.Or(cmp.Compare(a.Project, b.Project), cmp.Compare(a.User, b.User), cmp.Compare(a.Agent, b.Agent))
	})
	return list, nil
}

// spentOfAll adds up the spending of all projects.
func spentOfAll(ctx context.Context, q sqldb.Querier, from, until time.Time, add func(string, *data.UsageSum)) error {
	const limit = 1000
	for after := (usageRow{UsageSum: data.UsageSum{UsageKey: data.UsageKey{Day: from.Add(-time.Millisecond)}}}); ; {
		days, err := sqldb.All(ctx, q, scanUsage, selectUsageDays, sqldb.Time(after.Day), after.project, after.User, after.Agent, after.Provider, after.Model, sqldb.Time(until), limit)
		if err != nil {
			return err
		}
		for i := range days {
			add(days[i].project, &days[i].UsageSum)
		}
		if len(days) < limit {
			break
		}
		after = days[limit-1]
	}
	for after := int64(0); ; {
		calls, err := sqldb.All(ctx, q, scanCall, selectCalls, after, limit)
		for i := range calls {
			if sum := calls[i].Sum(); !sum.Day.Before(from) && sum.Day.Before(until) {
				add(calls[i].Project, &sum)
			}
		}
		if err != nil || len(calls) < limit {
			return err
		}
		after = calls[limit-1].key
	}
}

const selectRaises = `
SELECT since, project_id, budget, subject, amount FROM budget_raises
WHERE (since, project_id, budget, subject) > (?, ?, ?, ?) ORDER BY since, project_id, budget, subject LIMIT ?`

func scanRaise(rows *sql.Rows) (r data.Raise, err error) {
	return sqldb.Scan(rows, &r, sqldb.Into(&r.From), &r.Project, &r.Budget, &r.Subject, &r.Amount)
}

// Raises returns the raises of budgets: see [data.Budgets].
func (c Counter) Raises(ctx context.Context, since time.Time) (list []data.Raise, err error) {
	const limit = 1000
	for after := (data.Raise{From: since.Add(-time.Millisecond)}); ; {
		some, err := sqldb.All(ctx, c.read, scanRaise, selectRaises, sqldb.Time(after.From), after.Project, after.Budget, after.Subject, limit)
		if err != nil {
			return nil, err
		}
		if list = append(list, some...); len(some) < limit {
			return list, nil
		}
		after = some[limit-1]
	}
}
