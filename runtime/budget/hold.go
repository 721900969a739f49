package budget

import (
	"context"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// Hold is the reservation of a model call in the budgets that the call uses.
type Hold struct {
	Project string
	parts   []part
	held    bool // every budget has room; guarded by Ledger.mu
}

// part is the reservation in one budget.
type part struct {
	of     *counted
	in     *period
	owner  owner
	amount int64 // as estimated; once the hold is held, the rest of the reservation
	free   bool  // an operator lets the run use the budget without a limit
}

// holders are the calls of a project that wait for a reservation. It is guarded by Ledger.mu.
type holders struct {
	waiting []*Hold       // in the order of their arrival
	rounds  int           // how often the waiting ones were decided
	turn    chan struct{} // held by the goroutine that agrees with the other servers
	dirty   bool          // a write of settled reservations is on its way
	changed chan struct{} // closed and replaced when a reservation ends
}

// defaultOutput is the estimate of the tokens of an answer that has no limit.
const defaultOutput = 4096

// pollHolds is how often a waiting call looks whether other servers have settled theirs.
const pollHolds = 250 * time.Millisecond

// holdersOf returns the waiting calls of a project. The caller holds mu.
func (b *Ledger) holdersOf(project string) *holders {
	if b.holders[project] == nil {
		b.holders[project] = &holders{turn: make(chan struct{}, 1), changed: make(chan struct{})}
	}
	return b.holders[project]
}

// estimated returns the expected use of a call: of a budget of money by the dearest model, if its own has no price.
func (b *Ledger) estimated(c *counted, u agui.TokenUsage) int64 {
	if u.OutputTokens == 0 {
		u.OutputTokens = defaultOutput
	}
	cost, known := b.prices.Cost(u)
	for model := range b.prices.Models {
		if known {
			break
		}
		u.Model = model
		most, _ := b.prices.Cost(u)
		cost = max(cost, most)
	}
	return c.Counts(data.Plus(u.InputTokens, u.OutputTokens), cost)
}

// fits reports whether a budget has room for the call. A call whose estimate exceeds the rest of the budget is made alone.
func (p *part) fits() bool {
	s := p.of.state(p.in, p.owner)
	left, taken := s.Amount-s.Used, data.Plus(p.in.reserved[p.owner], p.in.others[p.owner])
	return p.free || left > 0 && (taken == 0 || data.Plus(taken, min(p.amount, left)) <= left)
}

// serve reserves for the waiting calls of a project, in their order, and returns those that have room. The caller holds mu.
func (b *Ledger) serve(project string) (served []*Hold) {
	type budget struct {
		in    *period
		owner owner
	}
	ln, passed := b.holdersOf(project), make(map[budget]bool) // budgets in which an earlier call waits
	ln.rounds++
	ln.waiting = slices.DeleteFunc(ln.waiting, func(h *Hold) bool {
		fit := !slices.ContainsFunc(h.parts, func(p part) bool { return passed[budget{p.in, p.owner}] || !p.fits() })
		for i := range h.parts {
			p := &h.parts[i]
			if !fit {
				passed[budget{p.in, p.owner}] = true
				continue
			}
			s := p.of.state(p.in, p.owner)
			if left := s.Amount - s.Used; left > 0 {
				p.amount = min(p.amount, left)
			}
			p.in.reserved[p.owner] += p.amount
		}
		if h.held = fit; fit {
			served = append(served, h)
		}
		return fit
	})
	return served
}

// settle lowers a reservation by the tokens used, or ends it. The caller holds mu.
func (b *Ledger) settle(h *Hold, used *agui.TokenUsage) {
	for i := range h.parts {
		p := &h.parts[i]
		n := p.amount
		if used != nil {
			cost, _ := b.prices.Cost(*used)
			n = min(n, p.of.Counts(data.Plus(used.InputTokens, used.OutputTokens), cost))
		}
		p.amount -= n
		if p.in.reserved[p.owner] -= n; p.in.reserved[p.owner] == 0 {
			delete(p.in.reserved, p.owner)
		}
	}
}

// Settle lowers a reservation by the tokens used, or ends it, and lets waiting calls go on. It reports whether the caller has to Agree on it
// with the other servers.
func (b *Ledger) Settle(h *Hold, used *agui.TokenUsage) (shared bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settle(h, used)
	ln := b.holdersOf(h.Project)
	if !b.shared {
		b.serve(h.Project)
		ln.wake()
		return false
	}
	shared, ln.dirty = !ln.dirty, true
	return shared
}

// Withdraw removes a call that waits no longer. It reports whether the call has a reservation, which has to be settled.
func (b *Ledger) Withdraw(h *Hold) (held bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ln := b.holdersOf(h.Project)
	ln.waiting = slices.DeleteFunc(ln.waiting, func(other *Hold) bool { return other == h })
	return h.held
}

func (ln *holders) wake() {
	close(ln.changed)
	ln.changed = make(chan struct{})
}

// Reserve reserves for a call, or leaves it in line. It returns a channel that is closed when a reservation of the project ends.
func (b *Ledger) Reserve(ctx context.Context, h *Hold) (held bool, changed <-chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ln := b.holdersOf(h.Project)
	if !h.held && !slices.Contains(ln.waiting, h) {
		ln.waiting = append(ln.waiting, h)
	}
	switch {
	case !b.shared:
		b.serve(h.Project)
	case !h.held:
		b.mu.Unlock()
		err = b.agree(ctx, h.Project, h)
		b.mu.Lock()
	}
	return h.held, ln.changed, err // agree itself has closed the channel before
}

// Await waits until a call for which Reserve had no room may have some.
func (b *Ledger) Await(ctx context.Context, changed <-chan struct{}) error {
	var poll <-chan time.Time
	if b.shared {
		t := time.NewTimer(pollHolds)
		defer t.Stop()
		poll = t.C
	}
	select {
	case <-changed:
	case <-poll:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// Agree writes the settled reservations of the project of a hold.
func (b *Ledger) Agree(ctx context.Context, h *Hold) error { return b.agree(ctx, h.Project, nil) }

// agree decides about a project's waiting calls by the use and the reservations of the other servers, and writes those of this one. One
// transaction decides for all calls that wait. For a call it does nothing if another goroutine has just decided.
func (b *Ledger) agree(ctx context.Context, project string, h *Hold) error {
	b.mu.Lock()
	ln := b.holdersOf(project)
	seen := ln.rounds
	b.mu.Unlock()
	select {
	case ln.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-ln.turn }()
	b.mu.Lock()
	done := h != nil && ln.rounds > seen
	b.mu.Unlock()
	if done {
		return nil
	}
	var served []*Hold
	err := b.store.ReserveBudgets(ctx, b.instance, project, func(others []data.Reserved) ([]data.Reserved, error) {
		now := time.Now()
		b.mu.Lock()
		waiting := len(ln.waiting) > 0
		b.mu.Unlock()
		if waiting { // read after the reservations: a call that was settled meanwhile is in one of the two
			if err := b.Load(ctx, project, now); err != nil {
				return nil, err
			}
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		ln.dirty = false
		b.reservedElsewhere(project, others)
		served = b.serve(project)
		return b.reservedHere(project), nil
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		for _, h := range served {
			b.settle(h, nil)
			h.held = false
		}
		ln.dirty = h == nil // the caller tries again
	}
	ln.wake()
	return err
}

// reservedElsewhere sets the reservations of the other servers in a project's budgets. The caller holds mu.
func (b *Ledger) reservedElsewhere(project string, others []data.Reserved) {
	for _, c := range b.list {
		for _, p := range c.periods {
			for o := range p.others {
				if o.project == project {
					delete(p.others, o)
				}
			}
			for i := range others {
				if r := &others[i]; r.Budget == c.Name && r.From.Equal(p.from) && !c.EachRun() {
					p.others[owner{project, r.Subject}] += r.Amount
				}
			}
		}
	}
}

// reservedHere returns the reservations of this server in a project's budgets. The caller holds mu.
func (b *Ledger) reservedHere(project string) (list []data.Reserved) {
	for _, c := range b.list {
		for _, p := range c.periods {
			for o, n := range p.reserved {
				if o.project == project {
					list = append(list, data.Reserved{Budget: c.Name, Subject: o.subject, From: p.from, Amount: n})
				}
			}
		}
	}
	return list
}

// RunUse is a run's use of its own budgets, which have periods of their own for it. The zero RunUse has none.
type RunUse struct {
	periods map[*counted]*period // guarded by Ledger.mu
}

// Add has a hold reserve in a budget of the state s. With free the budget does not limit the call.
func (b *Ledger) Add(h *Hold, s *data.BudgetState, estimate agui.TokenUsage, now time.Time, free bool, run *RunUse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.list[slices.IndexFunc(b.list, func(c *counted) bool { return c.Name == s.Name })]
	p := part{of: c, owner: owner{h.Project, s.Subject}, amount: b.estimated(c, estimate), free: free}
	if !c.EachRun() {
		p.in = c.at(now)
	} else {
		if run.periods == nil {
			run.periods = make(map[*counted]*period)
		}
		if run.periods[c] == nil {
			run.periods[c] = newPeriod(time.Time{}, time.Time{})
		}
		p.in = run.periods[c]
		p.in.used[p.owner], p.in.raised[p.owner] = s.Used, s.Amount
	}
	h.parts = append(h.parts, p)
}

// CountRun sets the use of a run's own budgets.
func (b *Ledger) CountRun(run *RunUse, used []agui.TokenUsage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c, p := range run.periods {
		for o := range p.used {
			p.used[o] = b.usedBy(used, c)
		}
	}
}
