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
		s.l.cfg.Measures.ModelCall(call, time.Since(began))
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
