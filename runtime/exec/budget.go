package exec

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/answer"
	"github.com/batonrun/baton/runtime/budget"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/journal"
)

func errUsedUp(s *data.BudgetState) error {
	return &plugins.Error{Code: budget.Exceeded, Message: s.String()}
}

func (l *Live) spender() data.Spender {
	return data.Spender{Project: l.run.Project, User: l.run.User, Agent: l.run.WorkflowID}
}

// MayCallModel refuses a call of a model while a budget is used up. If the budget asks, the run waits for an operator.
func (s *step) MayCallModel() error {
	l := s.l
	l.source.Room()
	l.cfg.Unshared(l.cfg.Budget.Refresh(l.cfg.Abandoned, l.spender(), time.Now()))
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := s.newHold(agui.TokenUsage{})
	return err
}

// ReserveModelCall reserves the estimate of a model call in the run's budgets, and waits while calls that are under way leave no room
// for it. It fails like MayCallModel. settle lowers the reservation by what the run has counted, or ends it without a usage.
func (s *step) ReserveModelCall(ctx context.Context, estimate agui.TokenUsage) (settle func(used *agui.TokenUsage), err error) {
	l := s.l
	l.source.Room()
	check := func() (*budget.Hold, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return s.newHold(estimate)
	}
	h, err := check()
	if h == nil || err != nil {
		return func(*agui.TokenUsage) {}, err
	}
	for {
		held, changed, err := l.cfg.Budget.Reserve(ctx, h)
		if err != nil && ctx.Err() == nil { // the database cannot be asked now
			l.cfg.Unshared(err)
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
			err = s.WaitForPace(ctx, time.Time{}, func() error { return l.cfg.Budget.Await(ctx, changed) })
		}
		if err != nil {
			if l.cfg.Budget.Withdraw(h) {
				l.settleHold(h, nil)
			}
			return nil, err
		}
		if held {
			break
		}
	}
	var over sync.Once
	end := func() { over.Do(func() { l.settleStored(h, nil) }) }
	forget := context.AfterFunc(s.w.Ctx, end) // of a worker that does not return
	return func(used *agui.TokenUsage) {
		if used != nil {
			l.settleStored(h, used)
			return
		}
		forget()
		end()
	}, nil
}

// settleStored settles a reservation; where other servers read it, once the usage that the run has counted is stored.
func (l *Live) settleStored(h *budget.Hold, used *agui.TokenUsage) {
	if !l.cfg.Shared {
		l.settleHold(h, used)
		return
	}
	l.cfg.Commits.Add(&commit.Item{Owner: l.owner(), Done: []func(error){func(error) { l.settleHold(h, used) }}})
}

// settleHold settles a reservation and has the other servers see that.
func (l *Live) settleHold(h *budget.Hold, used *agui.TokenUsage) {
	if l.cfg.Budget.Settle(h, used) {
		l.cfg.Engine.Go(func() { // ends once the others can see it, or with the engine
			for l.cfg.Budget.Agree(l.cfg.Abandoned, h) != nil && l.cfg.Engine.Rest() {
			}
		})
	}
}

// newHold returns a hold in the budgets that the run uses, nil if there are none. It fails if one of them is used up. l.mu is held.
func (s *step) newHold(estimate agui.TokenUsage) (h *budget.Hold, err error) {
	l, now := s.l, time.Now()
	for _, b := range l.cfg.Budget.Of(l.spender(), l.run.Usage, now) {
		free, err := s.mayUse(&b)
		if err != nil {
			return nil, err
		}
		if h == nil {
			h = &budget.Hold{Project: l.run.Project}
		}
		l.cfg.Budget.Add(h, &b, estimate, now, free, &l.spending)
	}
	return h, nil
}

// mayUse refuses a call that uses a budget, and reports whether the budget does not limit the run. The questions of a budget are records of the run, not of a step, because several steps can
// wait for one answer. l.mu is held.
func (s *step) mayUse(b *data.BudgetState) (free bool, err error) {
	if !b.Asks() {
		if b.Spent() {
			return false, errUsedUp(b)
		}
		return false, nil
	}
	for n := 1; ; n++ {
		place := fmt.Sprintf("budget:%s#%d", b.Name, n)
		m := s.l.journal.Find(0, place)
		switch {
		case m == nil && b.Spent():
			return false, s.askOperator(b, place)
		case m == nil:
			return false, nil
		case !m.Done:
			return false, plugins.ErrWaiting
		}
		switch d := answer.DecisionIn(m.Output); d.Action {
		case "raise":
			if b.EachRun() {
				b.Amount = max(b.Amount, b.Budget.Amount(d.Limit))
			}
		case "continue":
			return true, nil
		default:
			return false, errUsedUp(b)
		}
	}
}

// askOperator asks whether the run may go on. l.mu is held.
func (s *step) askOperator(b *data.BudgetState, place string) error {
	ends := time.Now().Add(s.l.cfg.ApprovalTimeout).UTC()
	q := answer.BudgetQuestion(b, ends)
	m := &data.Memo{RunKey: s.l.run.Key, Generation: s.l.run.Generation, Place: place, CallID: q.ID}
	in := &data.Interrupt{
		ID: q.ID, RunKey: m.RunKey, Place: m.Place, Body: data.MustJSON(q), Status: data.InterruptOpen, ExpiresAt: &ends, CreatedAt: time.Now(),
	}
	s.l.asked.Store(true)
	if err := s.l.queue(s, []data.Row{m, in}, nil); err != nil {
		return err
	}
	return plugins.ErrWaiting
}

// Usage counts a model call, unless u has a record. The run's row is stored together with the new record.
func (s *step) Usage(_ context.Context, u plugins.Use, c plugins.ModelCall) error {
	m, err := s.memo(u)
	if err != nil || m.Done {
		return err
	}
	if bound(&c) {
		s.l.log().Warn("a model call reports a usage that cannot be, and is counted within bounds", "agent", s.w.Agent, "provider", c.Usage.Provider, "model", c.Usage.Model)
	}
	call := journal.Spent{TokenUsage: c.Usage, FinishReason: c.FinishReason, RequestID: c.RequestID, At: time.Now()}
	m.Done, m.Output = true, data.MustJSON(call)
	reached, err := s.count(m, &call, !c.More)
	for i := range reached {
		s.l.logBudget(&reached[i])
		if err == nil {
			s.emitOwn(reached[i].Event(), nil)
		}
	}
	return err
}

// logBudget writes a line about a budget that is nearly or completely used up.
func (l *Live) logBudget(s *data.BudgetState) {
	what := "a budget is nearly used up"
	if s.Spent() {
		what = "a budget is used up"
	}
	l.log().Warn(what, "budget", s.Name, "scope", s.Scope, "subject", s.Subject, "used", s.Use(), "help", "budgets in the settings set its limit")
}

// mostTokens is the most that a count of one call can be: sums of such calls do not overflow.
const mostTokens = 1e15

// bound keeps a call's usage within what can be, and reports whether it was not.
func bound(c *plugins.ModelCall) (changed bool) {
	u := c.Usage
	for _, n := range []*int64{
		&u.InputTokens, &u.OutputTokens, &u.TotalTokens, &u.ReasoningTokens, &u.CachedInputTokens, &u.CacheWriteInputTokens,
	} {
		*n = min(*n, mostTokens)
	}
	if !c.More { // of a further part of a call, only the rest is reported
		u.CachedInputTokens = min(u.CachedInputTokens, u.InputTokens)
	}
	changed = u != c.Usage
	c.Usage = u
	return changed
}

// count writes a call's usage with its record m, and returns the budgets whose use has reached a mark. first is false for a further
// part of a call.
func (s *step) count(m *data.Memo, call *journal.Spent, first bool) (reached []data.BudgetState, err error) {
	l := s.l
	l.source.Room()
	l.mu.Lock()
	defer l.mu.Unlock()
	used := &data.CallUsage{Project: l.run.Project, User: l.run.User, Agent: l.run.WorkflowID, At: call.At, Usage: call.TokenUsage}
	used.Cost, _ = l.cfg.Prices.Cost(used.Usage)
	if first {
		used.Calls = 1
	}
	var counted []data.Row
	if used.Used() {
		reached = l.cfg.Budget.Count(used, l.run.Usage)
		counted = append(counted, used)
	}
	l.cfg.Measures.Tokens(used.Usage)
	closed := l.span.Gate()
	if closed == nil && s.w.Ended { // a step that has run out of time may still count
		closed = plugins.ErrEnded
	}
	if closed != nil { // the run has ended, but the tokens are used
		if len(counted) > 0 {
			l.cfg.Commits.Add(&commit.Item{Owner: l.owner(), Rows: counted})
		}
		return reached, closed
	}
	m.Event = l.span.Last()
	l.journal.ModelEnded(*call)
	l.run.Usage = agui.AddUsage(slices.Clone(l.run.Usage), used.Usage) // queued rows keep their slices
	l.cfg.Budget.CountRun(&l.spending, l.run.Usage)                    // before the call's reservation is lowered by it
	rows := []data.Row{l.journal.Add(m), &data.RunResult{Key: l.run.Key, OutputSummary: l.run.OutputSummary, Usage: l.run.Usage}}
	l.put(append(rows, counted...)...)
	return reached, nil
}

// Spent returns the total of the records of model calls inside of u.
func (s *step) Spent(u plugins.Use) []agui.TokenUsage {
	l := s.l
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.journal.Spent(s.w.Step, u)
}
