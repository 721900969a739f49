// Package budget counts the use of the configured budgets by model calls, and reserves for the calls that are under way. It knows no runs:
// a run hands in its own use, and asks its operators.
package budget

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// Ledger counts the use of budgets with a period by model calls. An instance first reads the earlier use. In a cluster
// it keeps reading the use by the others.
type Ledger struct {
	store    data.Budgets // of all instances
	instance string
	shared   bool
	prices   data.Prices

	mu      sync.Mutex // guards the fields below
	list    []*counted
	holders map[string]*holders // by project
}

// counted is a budget with the use of its latest periods.
type counted struct {
	data.Budget
	limit   int64
	periods []*period // two at most, so that a clock that is set forward and back loses nothing; the latest last
}

// period is the use of a budget in a day or a month.
type period struct {
	from, until  time.Time
	used, raised map[owner]int64
	reserved     map[owner]int64 // by the calls under way
	others       map[owner]int64 // by those of other servers, as last read
}

func newPeriod(from, until time.Time) *period {
	return &period{from, until, make(map[owner]int64), make(map[owner]int64), make(map[owner]int64), make(map[owner]int64)}
}

// owner is the owner of a budget: see [data.Budget.Subject].
type owner struct{ project, subject string }

// New returns the ledger of an instance, which others are beside if the store is shared. It fails if the budgets or their prices are wrong.
func New(store data.Budgets, shared bool, instance string, list []data.Budget, prices data.Prices) (*Ledger, error) {
	if err := data.CheckBudgets(list, &prices); err != nil {
		return nil, err
	}
	b := &Ledger{store: store, instance: instance, shared: shared, prices: prices, holders: make(map[string]*holders)}
	for _, budget := range list {
		b.list = append(b.list, &counted{Budget: budget, limit: budget.Amount(budget.Limit)})
	}
	return b, nil
}

// Load reads the spending of a project, or with "" of all, and the raised limits, under all instances. A call that this instance has
// counted and not yet stored keeps counting, as a sum never falls.
func (b *Ledger) Load(ctx context.Context, project string, now time.Time) error {
	since, spent := now, make(map[time.Time][]data.Spending) // since the beginning of a period
	for _, c := range b.list {
		from, until := c.Period(now)
		if _, read := spent[from]; c.EachRun() || read {
			continue
		}
		list, err := b.store.Spent(ctx, project, from, until)
		if err != nil {
			return err
		}
		if spent[from] = list; from.Before(since) {
			since = from
		}
	}
	if len(spent) == 0 {
		return nil
	}
	raises, err := b.store.Raises(ctx, since)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.list {
		if !c.EachRun() {
			c.apply(spent[c.at(now).from], c.at(now))
		}
	}
	for i := range raises {
		b.apply(&raises[i], now)
	}
	return nil
}

// apply raises the use of a period to the spending that was read. The caller holds mu.
func (c *counted) apply(spent []data.Spending, p *period) {
	sums := make(map[owner]int64)
	for i := range spent {
		if subject, has := c.Subject(spent[i].Spender); has {
			o := owner{spent[i].Project, subject}
			sums[o] = data.Plus(sums[o], c.Counts(spent[i].Tokens, spent[i].Cost))
		}
	}
	for o, n := range sums {
		p.used[o] = max(p.used[o], n)
	}
}

// Refresh is Load in a cluster, if budgets of a spender are nearly exhausted.
func (b *Ledger) Refresh(ctx context.Context, who data.Spender, now time.Time) error {
	near := func(s data.BudgetState) bool { return !s.EachRun() && s.Used >= s.Amount/100*warnAt }
	if b.shared && slices.ContainsFunc(b.Of(who, nil, now), near) {
		return b.Load(ctx, who.Project, now)
	}
	return nil
}

// at returns the period of a time. The caller holds mu.
func (c *counted) at(now time.Time) *period {
	from, until := c.Period(now)
	for _, p := range c.periods {
		if p.from.Equal(from) && p.until.Equal(until) {
			return p
		}
	}
	p := newPeriod(from, until)
	c.periods = append(c.periods[max(0, len(c.periods)-1):], p)
	return p
}

// state returns a subject's budget. The caller holds mu.
func (c *counted) state(p *period, o owner) data.BudgetState {
	return data.BudgetState{
		Budget: c.Budget, Subject: o.subject, Used: p.used[o], Amount: max(c.limit, p.raised[o]), From: p.from, ResetsAt: p.until,
	}
}

// warnAt is the use, in percent, at which a budget is reported, as it is when it is used up.
const warnAt = 80

// crossed reports whether a budget's use has reached one of the marks with the amount that was added last.
func crossed(s *data.BudgetState, added int64) bool {
	for _, mark := range []int64{s.Amount, int64(float64(s.Amount) * warnAt / 100)} {
		if s.Used >= mark && s.Used-added < mark {
			return true
		}
	}
	return false
}

// Count counts a call. It returns the budgets whose use has reached a mark, those of the run last, which has used so much before.
func (b *Ledger) Count(c *data.CallUsage, run []agui.TokenUsage) (reached []data.BudgetState) {
	b.mu.Lock()
	for _, budget := range b.list {
		subject, has := budget.Subject(c.Spender())
		if !has || budget.EachRun() {
			continue
		}
		p, o, added := budget.at(c.At), owner{c.Project, subject}, budget.Counts(c.Tokens(), c.Cost)
		p.used[o] = data.Plus(p.used[o], added)
		if s := budget.state(p, o); crossed(&s, added) {
			reached = append(reached, s)
		}
	}
	b.mu.Unlock()
	for _, s := range b.Of(c.Spender(), run, c.At) {
		added := s.Counts(c.Tokens(), c.Cost)
		if s.Used += added; s.EachRun() && crossed(&s, added) {
			reached = append(reached, s)
		}
	}
	return reached
}

// Raise applies a raise that was committed.
func (b *Ledger) Raise(r *data.Raise) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.apply(r, time.Now())
}

func (b *Ledger) apply(r *data.Raise, now time.Time) {
	for _, c := range b.list {
		if p := c.at(now); c.Name == r.Budget && p.from.Equal(r.From) {
			o := owner{r.Project, r.Subject}
			p.raised[o] = max(p.raised[o], r.Amount)
		}
	}
}

// Of returns the budgets that apply to a spender. run is the usage of its run so far. Budgets that ask an operator come last, after those that
// forbid the call.
func (b *Ledger) Of(who data.Spender, run []agui.TokenUsage, now time.Time) (list []data.BudgetState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.list {
		subject, has := c.Subject(who)
		switch {
		case !has:
		case c.EachRun():
			list = append(list, data.BudgetState{Budget: c.Budget, Amount: c.limit, Used: b.usedBy(run, c)})
		default:
			list = append(list, c.state(c.at(now), owner{who.Project, subject}))
		}
	}
	slices.SortStableFunc(list, func(a, b data.BudgetState) int {
		switch {
		case a.Asks() == b.Asks():
			return 0
		case a.Asks():
			return 1
		}
		return -1
	})
	return list
}

// usedBy returns the use of a run's own budget.
func (b *Ledger) usedBy(run []agui.TokenUsage, c *counted) (used int64) {
	for _, u := range run {
		cost, _ := b.prices.Cost(u)
		used = data.Plus(used, c.Counts(data.Plus(u.InputTokens, u.OutputTokens), cost))
	}
	return used
}

// Spent returns the refusal to begin or continue a run of a spender while a budget that stops it is used up, or nil.
func (b *Ledger) Spent(who data.Spender, now time.Time) (refusal *data.Error) {
	for _, s := range b.Of(who, nil, now) {
		if s.EachRun() || s.Asks() || !s.Spent() {
			continue
		}
		wait := max(s.ResetsAt.Sub(now), time.Second)
		if refusal == nil || wait > refusal.RetryAfter {
			refusal = data.Refuse(data.KindOverloaded, Exceeded, "%s; it resets at %s", s.String(), s.ResetsAt.Format(time.RFC3339))
			refusal.RetryAfter = wait
		}
	}
	return refusal
}

// Exceeded is the code of the refusals.
const Exceeded = "budget_exceeded"

// maxStates limits the budgets that InProject returns of one configured one.
const maxStates = 100

// InProject returns the budgets of a project: of each the hundred subjects that have used most of it, or only those of one user.
func (b *Ledger) InProject(project, user string, now time.Time) (list []data.BudgetState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.list {
		p := c.at(now)
		var some []data.BudgetState
		switch {
		case c.EachRun():
			list = append(list, data.BudgetState{Budget: c.Budget, Subject: c.Of, Amount: c.limit})
			continue
		case c.Scope == data.OfProject:
			if c.Of == "" || c.Of == project {
				some = append(some, c.state(p, owner{project, project}))
			}
		case c.Scope == data.OfUser && user != "":
			if c.Of == "" || c.Of == user {
				some = append(some, c.state(p, owner{project, user}))
			}
		default:
			for o := range p.used {
				if o.project == project {
					some = append(some, c.state(p, o))
				}
			}
		}
		slices.SortFunc(some, func(a, b data.BudgetState) int {
			return cmp.Or(cmp.Compare(b.Used, a.Used), cmp.Compare(a.Subject, b.Subject))
		})
		list = append(list, some[:min(len(some), maxStates)]...)
	}
	return list
}
