package work

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
)

// hold is the reservation of a model call in the budgets that the call uses.
type hold struct {
	project string
	parts   []part
	held    bool // set once every budget has room; guarded by budgets.mu
}

// part is the reservation in one budget.
type part struct {
	of     *counted
	in     *period
	owner  owner
	amount int64 // as estimated, and what is still reserved once the hold is held
	free   bool  // an operator lets the run use the budget without a limit
}

// holders are the calls of a project that wait for a reservation. It is guarded by budgets.mu.
type holders struct {
	waiting []*hold       // in the order of their arrival
	rounds  int           // how often the waiting ones were decided
	turn    chan struct{} // held by the goroutine that agrees with the other servers
	dirty   bool          // a write of what was settled is on its way
	changed chan struct{} // closed and replaced when a reservation ends
}

// defaultOutput is the estimate of the tokens of an answer that has no limit.
const defaultOutput = 4096

// pollHolds is how often a waiting call looks whether other servers have settled theirs.
const pollHolds = 250 * time.Millisecond

// holdersOf returns the waiting calls of a project. The caller holds mu.
func (b *budgets) holdersOf(project string) *holders {
	if b.holders[project] == nil {
		b.holders[project] = &holders{turn: make(chan struct{}, 1), changed: make(chan struct{})}
	}
	return b.holders[project]
}

// estimated returns what a call is expected to use: of a budget of money by the dearest model, if its own has no price.
func (b *budgets) estimated(c *counted, u agui.TokenUsage) int64 {
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
func (b *budgets) serve(project string) (served []*hold) {
	type budget struct {
		in    *period
		owner owner
	}
	ln, passed := b.holdersOf(project), make(map[budget]bool) // budgets in which an earlier call waits
	ln.rounds++
	ln.waiting = slices.DeleteFunc(ln.waiting, func(h *hold) bool {
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

// settle lowers a reservation by what was used, or ends it. The caller holds mu.
func (b *budgets) settle(h *hold, used *agui.TokenUsage) {
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

// withdraw removes a call that waits no longer.
func (en *Engine) withdraw(h *hold) {
	b := en.budgets
	b.mu.Lock()
	ln := b.holdersOf(h.project)
	ln.waiting = slices.DeleteFunc(ln.waiting, func(other *hold) bool { return other == h })
	held := h.held
	b.mu.Unlock()
	if held {
		en.settleHold(h, nil)
	}
}

// settleHold settles a reservation and lets waiting calls go on.
func (en *Engine) settleHold(h *hold, used *agui.TokenUsage) {
	b := en.budgets
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settle(h, used)
	ln := b.holdersOf(h.project)
	switch {
	case !en.shared:
		b.serve(h.project)
		ln.wake()
	case !ln.dirty:
		ln.dirty = true
		en.tasks.Go(func() { // ends once the others can see it, or with the engine
			for en.agree(en.abandoned, h.project, nil) != nil && en.rest() {
			}
		})
	}
}

func (ln *holders) wake() {
	close(ln.changed)
	ln.changed = make(chan struct{})
}

// hold reserves for a call, or leaves it in line.
func (en *Engine) hold(ctx context.Context, h *hold) (held bool, err error) {
	b := en.budgets
	b.mu.Lock()
	ln := b.holdersOf(h.project)
	if !h.held && !slices.Contains(ln.waiting, h) {
		ln.waiting = append(ln.waiting, h)
	}
	if !en.shared {
		b.serve(h.project)
	}
	held = h.held
	b.mu.Unlock()
	if held || !en.shared {
		return held, nil
	}
	err = en.agree(ctx, h.project, h)
	b.mu.Lock()
	defer b.mu.Unlock()
	return h.held, err
}

// agree decides about a project's waiting calls with what the other servers have used and reserved, and writes what this one has reserved. One
// transaction decides for all calls that wait. For a call it does nothing if another goroutine has just decided.
func (en *Engine) agree(ctx context.Context, project string, h *hold) error {
	b := en.budgets
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
	var served []*hold
	err := en.store.ReserveBudgets(ctx, en.cfg.Instance, project, func(others []data.Reserved) ([]data.Reserved, error) {
		now := time.Now()
		b.mu.Lock()
		waiting := len(ln.waiting) > 0
		b.mu.Unlock()
		if waiting { // read after the reservations: what was settled meanwhile is in one of the two
			if err := en.loadBudgets(ctx, en.store, project, now); err != nil {
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

// reservedElsewhere sets what the other servers have reserved of a project's budgets. The caller holds mu.
func (b *budgets) reservedElsewhere(project string, others []data.Reserved) {
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

// reservedHere returns what this server has reserved of a project's budgets. The caller holds mu.
func (b *budgets) reservedHere(project string) (list []data.Reserved) {
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

// newHold returns a hold in the budgets that the run uses, nil if there are none. It fails if one of them is used up. l.mu is held.
func (s *step) newHold(estimate agui.TokenUsage) (*hold, error) {
	l, now := s.l, time.Now()
	h := &hold{project: l.run.Project}
	for _, b := range l.en.budgetsOf(l.spender(), now) {
		if b.EachRun() {
			b.Used = l.usedOf(&b.Budget)
		}
		free, err := s.mayUse(&b)
		if err != nil {
			return nil, err
		}
		h.parts = append(h.parts, l.en.part(l, &b, estimate, now, free))
	}
	if len(h.parts) == 0 {
		return nil, nil
	}
	return h, nil
}

// part returns the part of a hold that is about one budget. Runs have periods of their own for their budgets.
func (b *budgets) part(l *live, s *data.BudgetState, estimate agui.TokenUsage, now time.Time, free bool) part {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.list[slices.IndexFunc(b.list, func(c *counted) bool { return c.Name == s.Name })]
	p := part{of: c, owner: owner{l.run.Project, s.Subject}, amount: b.estimated(c, estimate), free: free}
	if !c.EachRun() {
		p.in = c.at(now)
		return p
	}
	if l.spending == nil {
		l.spending = make(map[*counted]*period)
	}
	if l.spending[c] == nil {
		l.spending[c] = newPeriod(time.Time{}, time.Time{})
	}
	p.in = l.spending[c]
	p.in.used[p.owner], p.in.raised[p.owner] = s.Used, s.Amount
	return p
}

// countRun updates the use of a run's own budgets. l.mu is held.
func countRun(l *live) {
	l.en.budgets.mu.Lock()
	defer l.en.budgets.mu.Unlock()
	for c, p := range l.spending {
		for o := range p.used {
			p.used[o] = l.usedOf(&c.Budget)
		}
	}
}

// ReserveModelCall reserves the estimate of a model call in the run's budgets, and waits while calls that are under way have reserved what it
// needs. It fails like MayCallModel. settle lowers the reservation by what the run has counted, or ends it without a usage.
func (s *step) ReserveModelCall(ctx context.Context, estimate agui.TokenUsage) (settle func(used *agui.TokenUsage), err error) {
	l := s.l
	if len(l.en.list) == 0 {
		return func(*agui.TokenUsage) {}, nil
	}
	l.source.Room()
	check := func() (*hold, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return s.newHold(estimate)
	}
	h, err := check()
	if h == nil || err != nil {
		return func(*agui.TokenUsage) {}, err
	}
	for {
		changed := l.en.changes(h.project)
		held, err := l.en.hold(ctx, h)
		if err != nil && ctx.Err() == nil { // the database cannot be asked now
			l.en.logUnshared(err)
			err = nil
		}
		if err == nil && held { // room that the end of the run has left is for none of its calls
			l.mu.Lock()
			err = l.span.Gate()
			l.mu.Unlock()
		}
		if err == nil && !held {
			_, err = check()
		}
		if err == nil && !held {
			err = s.WaitForPace(ctx, time.Time{}, func() error { return l.en.awaitChange(ctx, changed) })
		}
		if err != nil {
			l.en.withdraw(h)
			return nil, err
		}
		if held {
			break
		}
	}
	var over sync.Once
	end := func() { over.Do(func() { l.settleHold(h, nil) }) }
	forget := context.AfterFunc(s.w.Ctx, end) // of a worker that does not return
	return func(used *agui.TokenUsage) {
		if used != nil {
			l.settleHold(h, used)
			return
		}
		forget()
		end()
	}, nil
}

// settleHold settles a reservation; where other servers read it, once the usage that the run has counted is stored.
func (l *live) settleHold(h *hold, used *agui.TokenUsage) {
	if !l.en.shared {
		l.en.settleHold(h, used)
		return
	}
	l.en.commits.Add(&commit.Item{Owner: ownerOf(&l.run.RunHead), Done: []func(error){func(error) { l.en.settleHold(h, used) }}})
}

// changes returns a channel that is closed when a reservation of a project ends.
func (b *budgets) changes(project string) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.holdersOf(project).changed
}

// awaitChange waits until a waiting call may have room.
func (en *Engine) awaitChange(ctx context.Context, changed <-chan struct{}) error {
	var poll <-chan time.Time
	if en.shared {
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
