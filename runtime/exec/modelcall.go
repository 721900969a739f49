package exec

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/observe"
	"github.com/batonrun/baton/runtime/prompts"
)

// KeepsPrompts implements host.ModelWatcher.
func (s *step) KeepsPrompts() bool { return s.l.prompts != nil }

// BeginModelCall reports a worker's model call to the tracer, the measures and the log, and stores its prompt. If the run accepts no
// more events, its closers report the end of the call.
func (s *step) BeginModelCall(ctx context.Context, p *plugins.Prompt) (context.Context, func(plugins.ModelCall, *plugins.ModelAnswer, error)) {
	began := time.Now()
	ctx, end := s.l.cfg.Tracer.Begin(ctx, s.l.op(observe.OpModel, "", ""))
	state := agui.ModelCall{ID: data.NewID(), Status: agui.ModelStarted}
	a := &asking{step: s, prompt: data.Prompt{
		PromptResult: data.PromptResult{Status: state.Status}, RunKey: s.l.run.Key, ID: state.ID, Step: s.w.Step, StartedAt: began,
	}}
	open := s.emitOwn(state.Event(), func() []data.Row { return a.begin(p) })
	if !open {
		s.l.mu.Lock()
		a.over()
		s.l.mu.Unlock()
	}
	return plugins.WithModelCall(ctx, state.ID), func(c plugins.ModelCall, answer *plugins.ModelAnswer, err error) {
		call := observe.ModelEnd{ModelCall: c, Err: err}
		end(observe.End{Err: err, Model: call})
		s.l.cfg.Measures.ModelCall(call, time.Since(began))
		if !open {
			return
		}
		state.Status, state.Error, state.FinishReason = agui.ModelFinished, refusal(err), data.Plain(data.Clip(c.FinishReason, 200))
		if state.Error != nil {
			state.Status = agui.ModelFailed
		}
		if c.Usage != (agui.TokenUsage{Provider: c.Usage.Provider, Model: c.Usage.Model}) {
			state.Usage = &agui.AddUsage(nil, c.Usage)[0] // within bounds
		}
		s.emitOwn(state.Event(), func() []data.Row { return a.ended(&state, &c, answer) })
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

// asking is a call of a model that is under way.
type asking struct {
	step    *step
	prompt  data.Prompt
	changes []plugins.PromptChange
	shown   []string // messages that the step has begun since
}

// maxShown limits the messages of an answer.
const maxShown = 1000

// noteShown notes a message that a step begins.
func (l *Live) noteShown(s *step, ev agui.Event) {
	id := ""
	switch e := ev.(type) {
	case agui.TextMessageStart:
		id = e.MessageID
	case agui.ReasoningMessageStart:
		id = e.MessageID
	case agui.ToolCallStart:
		if id = e.ParentMessageID; id == "" {
			id = e.ToolCallID
		}
	default:
		return
	}
	for _, a := range l.asking {
		if n := len(a.shown); a.step == s && n < maxShown && (n == 0 || a.shown[n-1] != id) {
			a.shown = append(a.shown, id)
		}
	}
}

// begin returns the rows of a call of a model that begins. l.mu is held.
func (a *asking) begin(prompt *plugins.Prompt) []data.Row {
	l := a.step.l
	l.asking = append(l.asking, a)
	var pieces []data.Row
	if prompt != nil {
		a.prompt.Provider, a.prompt.Model = data.Plain(data.Clip(prompt.Provider, 200)), data.Plain(data.Clip(prompt.Model, 200))
		if l.prompts != nil {
			a.changes, a.prompt.Changes = prompt.Changes, prompts.Changes(prompt.Changes)
			a.prompt.Sent, pieces = l.prompts.Sent(prompt)
		}
	}
	row := a.prompt
	return append(pieces, &row)
}

// over forgets the call. l.mu is held.
func (a *asking) over() {
	l := a.step.l
	l.asking = slices.DeleteFunc(l.asking, func(other *asking) bool { return other == a })
}

// ended returns the rows of the call's end. l.mu is held.
func (a *asking) ended(state *agui.ModelCall, c *plugins.ModelCall, answer *plugins.ModelAnswer) []data.Row {
	end := &data.PromptEnd{RunKey: a.prompt.RunKey, ID: state.ID, PromptResult: data.PromptResult{
		Status: state.Status, Provider: data.Plain(data.Clip(c.Usage.Provider, 200)), Model: data.Plain(data.Clip(c.Usage.Model, 200)),
		FinishReason: state.FinishReason, Error: state.Error, Took: max(time.Since(a.prompt.StartedAt), 1),
	}}
	if state.Usage != nil {
		end.Usage = *state.Usage
	}
	if answer != nil {
		end.FirstToken = answer.FirstToken
	}
	l := a.step.l
	a.over()
	if l.prompts == nil {
		return []data.Row{end}
	}
	if answer != nil && len(answer.Changes) > 0 {
		end.Changes = prompts.Changes(append(slices.Clip(a.changes), answer.Changes...))
	}
	var pieces []data.Row
	end.Answer, pieces = a.answer(answer)
	return append(pieces, end)
}

// answer returns the references for an answer. l.mu is held.
func (a *asking) answer(answer *plugins.ModelAnswer) (string, []data.Row) {
	l := a.step.l
	var shown prompts.Answered
	var seqs []int64
	for _, id := range a.shown {
		m, ok := l.span.Fold.Message(id)
		seq := l.span.Messages.SeqOf(id)
		if !ok || seq == 0 {
			continue
		}
		for i := range m.ToolCalls {
			m.ToolCalls[i].Arguments = l.span.Fold.Arguments(m.ToolCalls[i].ID)
		}
		shown.Add(&m)
		seqs = append(seqs, seq)
	}
	return l.prompts.Answer(seqs, &shown, answer)
}
