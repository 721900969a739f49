package exec

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	"github.com/batonrun/baton/runtime/observe"
	"github.com/batonrun/baton/runtime/prompts"
)

// KeepsPrompts implements host.ModelWatcher.
func (s *step) KeepsPrompts() bool { return s.l.out.prompts != nil }

// BeginModelCall reports a worker's model call to the tracer, the measures and the log, and stores its prompt. If the run accepts no
// more events, its closers report the end of the call.
func (s *step) BeginModelCall(ctx context.Context, p *plugins.Prompt) (context.Context, func(plugins.ModelCall, *plugins.ModelAnswer, error)) {
	began := time.Now()
	ctx, end := s.l.cfg.Tracer.Begin(ctx, s.l.op(observe.OpModel, "", ""))
	state := agui.ModelCall{ID: data.NewID(), Status: agui.ModelStarted}
	c := &prompts.Call{Prompt: data.Prompt{
		PromptResult: data.PromptResult{Status: state.Status}, RunKey: s.l.run.Key, ID: state.ID, Step: s.w.Step, StartedAt: began,
	}}
	em := &s.em
	over := func() { em.asking = slices.DeleteFunc(em.asking, func(other *prompts.Call) bool { return other == c }) }
	open := em.emitOwn(state.Event(), func() []data.Row {
		em.asking = append(em.asking, c)
		return em.out.prompts.Begin(c, p)
	})
	if !open {
		em.out.mu.Lock()
		over()
		em.out.mu.Unlock()
	}
	return plugins.WithModelCall(ctx, state.ID), func(mc plugins.ModelCall, answer *plugins.ModelAnswer, err error) {
		call := observe.ModelEnd{ModelCall: mc, Err: err}
		end(observe.End{Err: err, Model: call})
		if measure := s.l.cfg.Measures.ModelCall; measure != nil {
			measure(call, time.Since(began))
		}
		if !open {
			return
		}
		state.Status, state.Error, state.FinishReason = agui.ModelFinished, refusal(err), data.Plain(data.Clip(mc.FinishReason, 200))
		if state.Error != nil {
			state.Status = agui.ModelFailed
		}
		if mc.Usage != (agui.TokenUsage{Provider: mc.Usage.Provider, Model: mc.Usage.Model}) {
			state.Usage = &agui.AddUsage(nil, mc.Usage)[0] // within bounds
		}
		row := &data.PromptEnd{RunKey: c.RunKey, ID: state.ID, PromptResult: data.PromptResult{
			Status: state.Status, Provider: data.Plain(data.Clip(mc.Usage.Provider, 200)), Model: data.Plain(data.Clip(mc.Usage.Model, 200)),
			FinishReason: state.FinishReason, Error: state.Error, Took: max(time.Since(began), 1),
		}}
		if state.Usage != nil {
			row.Usage = *state.Usage
		}
		em.emitOwn(state.Event(), func() []data.Row {
			over()
			return em.out.prompts.End(c, row, answer, em.out.message)
		})
	}
}

// refusal returns a model's error as clients see it: all of a *plugins.Error, and no text of any other error.
func refusal(err error) *agui.OutputError {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*plugins.Error](err); ok && e.Code != "" {
		return outputError(e)
	}
	return &agui.OutputError{Code: "failed", Message: "The model's answer did not come"}
}

func errUsedUp(s *data.BudgetState) error {
	return &plugins.Error{Code: budget.Exceeded, Message: s.String()}
}

// spending is a run's use of its budgets.
type spending struct {
	out *writer
	use budget.RunUse // guarded by out.mu
}

func (sp *spending) spender() data.Spender {
	run := sp.out.run
	return data.Spender{Project: run.Project, User: run.User, Agent: run.WorkflowID}
}

// MayCallModel refuses a call of a model while a budget is used up. If the budget asks, the run waits for an operator.
func (s *step) MayCallModel() error {
	l := s.l
	l.out.source.Room()
	l.cfg.Unshared(l.cfg.Budget.Refresh(l.cfg.Abandoned, l.spending.spender(), time.Now()))
	_, err := l.spending.newHold(&s.em, agui.TokenUsage{})
	return err
}

// ReserveModelCall reserves the estimate of a model call in the run's budgets, and waits while calls that are under way leave no room
// for it. It fails like MayCallModel. settle lowers the reservation by what the run has counted, or ends it without a usage.
func (s *step) ReserveModelCall(ctx context.Context, estimate agui.TokenUsage) (settle func(used *agui.TokenUsage), err error) {
	l := s.l
	l.out.source.Room()
	h, err := l.spending.newHold(&s.em, estimate)
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
			l.out.mu.Lock()
			err = l.out.span.Gate()
			l.out.mu.Unlock()
		}
		if err == nil && !held {
			if _, err = l.spending.newHold(&s.em, estimate); err == nil {
				err = s.WaitForPace(ctx, time.Time{}, func() error { return l.cfg.Budget.Await(ctx, changed) })
			}
		}
		if err != nil {
			if l.cfg.Budget.Withdraw(h) {
				l.spending.settleHold(h, nil)
			}
			return nil, err
		}
		if held {
			break
		}
	}
	var over sync.Once
	end := func() { over.Do(func() { l.spending.settleStored(h, nil) }) }
	forget := context.AfterFunc(s.w.Ctx, end) // of a worker that does not return
	return func(used *agui.TokenUsage) {
		if used != nil {
			l.spending.settleStored(h, used)
			return
		}
		forget()
		end()
	}, nil
}

// settleStored settles a reservation; where other servers read it, once the usage that the run has counted is stored.
func (sp *spending) settleStored(h *budget.Hold, used *agui.TokenUsage) {
	if !sp.out.cfg.Shared {
		sp.settleHold(h, used)
		return
	}
	sp.out.cfg.Commits.Add(&commit.Item{Owner: sp.out.owner(), Done: []func(error){func(error) { sp.settleHold(h, used) }}})
}

// settleHold settles a reservation and has the other servers see that.
func (sp *spending) settleHold(h *budget.Hold, used *agui.TokenUsage) {
	if sp.out.cfg.Budget.Settle(h, used) {
		sp.out.cfg.Engine.Go(func() { // ends once the others can see it, or with the engine
			for sp.out.cfg.Budget.Agree(sp.out.cfg.Abandoned, h) != nil && sp.out.cfg.Engine.Rest() {
			}
		})
	}
}

// newHold returns a hold in the budgets that the run uses, nil if there are none. It fails if one of them is used up.
func (sp *spending) newHold(em *emitter, estimate agui.TokenUsage) (h *budget.Hold, err error) {
	sp.out.mu.Lock()
	defer sp.out.mu.Unlock()
	now := time.Now()
	for _, b := range sp.out.cfg.Budget.Of(sp.spender(), sp.out.run.Usage, now) {
		free, err := sp.mayUse(em, &b)
		if err != nil {
			return nil, err
		}
		if h == nil {
			h = &budget.Hold{Project: sp.out.run.Project}
		}
		sp.out.cfg.Budget.Add(h, &b, estimate, now, free, &sp.use)
	}
	return h, nil
}

// mayUse refuses a call that uses a budget, and reports whether the budget does not limit the run. The questions of a budget are records of the run, not of a step, because several steps can
// wait for one answer. out.mu is held.
func (sp *spending) mayUse(em *emitter, b *data.BudgetState) (free bool, err error) {
	if !b.Asks() {
		if b.Spent() {
			return false, errUsedUp(b)
		}
		return false, nil
	}
	for n := 1; ; n++ {
		place := fmt.Sprintf("budget:%s#%d", b.Name, n)
		m := sp.out.journal.Find(0, place)
		switch {
		case m == nil && b.Spent():
			return false, sp.askOperator(em, b, place)
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

// askOperator asks whether the run may go on. out.mu is held.
func (sp *spending) askOperator(em *emitter, b *data.BudgetState, place string) error {
	ends := time.Now().Add(sp.out.cfg.ApprovalTimeout).UTC()
	q := answer.BudgetQuestion(b, ends)
	m := &data.Memo{RunKey: sp.out.run.Key, Generation: sp.out.run.Generation, Place: place, CallID: q.ID}
	in := &data.Interrupt{
		ID: q.ID, RunKey: m.RunKey, Place: m.Place, Body: data.MustJSON(q), Status: data.InterruptOpen, ExpiresAt: &ends, CreatedAt: time.Now(),
	}
	if err := sp.out.queue(em, []data.Row{m, in}, nil); err != nil {
		return err
	}
	return plugins.ErrWaiting
}

// Usage counts a model call, unless u has a record. The run's row is stored together with the new record.
func (s *step) Usage(_ context.Context, u plugins.Use, c plugins.ModelCall) error {
	m, err := s.em.memo(u)
	if err != nil || m.Done {
		return err
	}
	if bound(&c) {
		s.l.log().Warn("a model call reports a usage that cannot be, and is counted within bounds", "agent", s.w.Agent, "provider", c.Usage.Provider, "model", c.Usage.Model)
	}
	call := journal.Spent{TokenUsage: c.Usage, FinishReason: c.FinishReason, RequestID: c.RequestID, At: time.Now()}
	m.Done, m.Output = true, data.MustJSON(call)
	reached, err := s.l.spending.count(&s.em, m, &call, !c.More)
	for i := range reached {
		logBudget(s.l.log(), &reached[i])
		if err == nil {
			s.em.emitOwn(reached[i].Event(), nil)
		}
	}
	return err
}

// logBudget writes a line about a budget that is nearly or completely used up.
func logBudget(log *slog.Logger, s *data.BudgetState) {
	what := "a budget is nearly used up"
	if s.Spent() {
		what = "a budget is used up"
	}
	log.Warn(what, "budget", s.Name, "scope", s.Scope, "subject", s.Subject, "used", s.Use(), "help", "budgets in the settings set its limit")
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

// count writes a call's usage with its record m, and returns the budgets whose use has reached a mark. first is false for a further part of a call.
func (sp *spending) count(em *emitter, m *data.Memo, call *journal.Spent, first bool) (reached []data.BudgetState, err error) {
	w, run := sp.out, sp.out.run
	w.source.Room()
	w.mu.Lock()
	defer w.mu.Unlock()
	used := &data.CallUsage{Project: run.Project, User: run.User, Agent: run.WorkflowID, At: call.At, Usage: call.TokenUsage}
	used.Cost, _ = w.cfg.Prices.Cost(used.Usage)
	if first {
		used.Calls = 1
	}
	var counted []data.Row
	if used.Used() {
		reached = w.cfg.Budget.Count(used, run.Usage)
		counted = append(counted, used)
	}
	if measure := w.cfg.Measures.Tokens; measure != nil {
		measure(used.Usage)
	}
	closed := w.span.Gate()
	if closed == nil && em.w.Ended { // a step that has run out of time may still count
		closed = plugins.ErrEnded
	}
	if closed != nil { // the run has ended, but the tokens are used
		if len(counted) > 0 {
			w.cfg.Commits.Add(&commit.Item{Owner: w.owner(), Rows: counted})
		}
		return reached, closed
	}
	m.Event = w.span.Last()
	w.journal.ModelEnded(*call)
	run.Usage = agui.AddUsage(slices.Clone(run.Usage), used.Usage) // queued rows keep their slices
	w.cfg.Budget.CountRun(&sp.use, run.Usage)                      // before the call's reservation is lowered by it
	rows := []data.Row{w.journal.Add(m), &data.RunResult{Key: run.Key, OutputSummary: run.OutputSummary, Usage: run.Usage}}
	w.put(append(rows, counted...)...)
	return reached, nil
}

// Spent returns the total of the records of model calls inside of u.
func (s *step) Spent(u plugins.Use) []agui.TokenUsage {
	l := s.l
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	return l.out.journal.Spent(s.w.Step, u)
}
