package work

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/model"
)

// spent is the record of a model call.
type spent struct {
	agui.TokenUsage
	FinishReason string    `json:"finishReason,omitempty"`
	RequestID    string    `json:"requestId,omitempty"`
	At           time.Time `json:"at,omitzero"`
}

// Usage counts a model call, unless there is a record of u: the run's row is stored with the record that says so.
func (s *step) Usage(_ context.Context, u plugins.Use, c plugins.ModelCall) error {
	m, err := s.memo(u)
	if err != nil || m.Done {
		return err
	}
	call := spent{TokenUsage: c.Usage, FinishReason: c.FinishReason, RequestID: c.RequestID, At: time.Now()}
	m.Done, m.Output = true, mustJSON(call)
	l := s.l
	l.source.Room()
	l.mu.Lock()
	defer l.mu.Unlock()
	var tokens []model.Row
	if counted := (&model.CallUsage{Project: l.run.Project, Agent: l.run.WorkflowID, At: call.At, Usage: c.Usage}); counted.Used() {
		l.en.tokens.add(counted.Project, counted.Tokens(), counted.At)
		tokens = append(tokens, counted)
	}
	l.en.measures.Tokens(c.Usage)
	closed := l.gate
	if closed == nil && s.ended { // a step whose time is over may still count
		closed = plugins.ErrEnded
	}
	if closed != nil { // the run has ended, but its project has used the tokens
		if len(tokens) > 0 {
			l.en.commits.Add(&commit.Item{Owner: ownerOf(&l.run.RunHead), Rows: tokens})
		}
		return closed
	}
	l.spent(call)
	l.run.Usage = agui.AddUsage(slices.Clone(l.run.Usage), c.Usage) // rows that are queued keep theirs
	rows := []model.Row{l.know(m), &model.RunResult{Key: l.run.Key, OutputSummary: l.run.OutputSummary, Usage: l.run.Usage}}
	l.put(append(rows, tokens...)...)
	return nil
}

// Spent sums up the records of model calls inside of u.
func (s *step) Spent(u plugins.Use) (sum []agui.TokenUsage) {
	l := s.l
	l.mu.Lock()
	defer l.mu.Unlock()
	for at, m := range l.memos {
		var call spent
		if at.step == s.number && u.Counts(at.place) && json.Unmarshal(m.Output, &call) == nil {
			sum = agui.AddUsage(sum, call.TokenUsage)
		}
	}
	return sum
}

// spent keeps the latest model call of which it is known how it ended.
func (l *live) spent(call spent) {
	if call.FinishReason != "" && !call.At.Before(l.lastCall.At) {
		l.lastCall = call
	}
}

// remember is spent for what a memo says, if it is that of a model call.
func (l *live) remember(m *model.Memo) {
	var call spent
	if name := m.Place[strings.LastIndexByte(m.Place, '/')+1:]; strings.HasPrefix(name, "usage#") && json.Unmarshal(m.Output, &call) == nil {
		l.spent(call)
	}
}

// finishMetadata is what the end of the run says of its model calls, nil when no worker has told how one ended.
func (l *live) finishMetadata() json.RawMessage {
	last := &l.lastCall
	if last.FinishReason == "" {
		return nil
	}
	f := agui.FinishMetadata{Provider: last.Provider, Model: last.Model, FinishReason: last.FinishReason, ProviderRequestID: last.RequestID}
	for _, u := range l.run.Usage {
		f.InputTokens += u.InputTokens
		f.OutputTokens += u.OutputTokens
		f.CachedInputTokens += u.CachedInputTokens
		f.ReasoningTokens += u.ReasoningTokens
	}
	return f.JSON()
}
