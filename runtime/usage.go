package runtime

import (
	"context"
	"slices"

	"github.com/batonrun/baton/runtime/data"
)

// Usage of model calls and budgets, as package data defines them.
//
//nolint:revive // each is documented there
type (
	Prices      = data.Prices
	Price       = data.Price
	Budget      = data.Budget
	BudgetState = data.BudgetState
	UsageFilter = data.UsageFilter
	UsageSum    = data.UsageSum
)

// MaxUsage is the most sums that Usage returns.
const MaxUsage = 10_000

// Usage returns the usage of model calls in the caller's project, of users their own. A call counts once it has used tokens, also if
// it failed. It refuses a filter that selects more than MaxUsage sums.
func (rt *Runtime) Usage(ctx context.Context, c Caller, f UsageFilter) ([]UsageSum, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if rt.cfg.Ledger == nil {
		return nil, refuse(KindNotFound, "not_found", "Nothing is counted here")
	}
	f.Project, f.User, f.Limit = c.project, c.only(), MaxUsage+1
	list, err := rt.cfg.Ledger.Usage(ctx, f)
	if err != nil {
		return nil, unavailable(err)
	}
	if len(list) > MaxUsage {
		return nil, refuse(KindInvalid, "invalid_request", "There are more than %d rows: sum up by less, or ask for fewer days", MaxUsage)
	}
	return list, nil
}

// Budgets returns the budgets of the caller's project with their use. Users see those of the project and its agents, and their own.
func (rt *Runtime) Budgets(c Caller) ([]BudgetState, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	offered := rt.Offered(c)
	return slices.DeleteFunc(rt.work.BudgetsOf(c.project, c.only()), func(s BudgetState) bool {
		_, agent := offered.Agent(s.Of)
		_, workflow := offered.Workflow(s.Of)
		return s.EachRun() && s.Of != "" && !agent && !workflow
	}), nil
}
