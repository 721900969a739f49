package exec

import (
	"context"
	"slices"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/journal"
)

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
