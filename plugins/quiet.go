package plugins

import (
	"context"
	"encoding/json"
	"time"

	"github.com/batonrun/baton/runtime/agui"
)

// ExecuteGuard executes an agent as a guard on a host: it shows nothing but the calls of its model, calls no tools and agents,
// and asks no person. Its errors have no text, which can repeat what it judges.
func ExecuteGuard(ctx context.Context, a Agent, host Host, in Input) (agui.WorkerOutput, error) {
	out, err := Execute(ctx, a, quiet{host, &Run{host: host}}, in)
	return out, concealed(ctx, err, a.Info().External)
}

// GuardFailure returns the failure of a tool that is a guard as others see it: without its text, which can repeat what it judges.
func GuardFailure(ctx context.Context, err error) error { return concealed(ctx, err, true) }

// quiet is the host of an agent that is a guard.
type quiet struct {
	Host
	run *Run // finds the optional abilities of the host that concern the calls of models
}

func (quiet) Emit(agui.Event) error            { return nil }
func (quiet) PatchState(json.RawMessage) error { return errQuiet }
func (quiet) Plugins() (tools, agents []Info)  { return nil, nil }

func (quiet) OpenCalls(context.Context, string, []Use) error { return errQuiet }

func (quiet) CallTool(context.Context, Use) (agui.ToolOutput, error) {
	return agui.ToolOutput{}, errQuiet
}

func (quiet) CallAgent(context.Context, string, Use, string) (agui.WorkerOutput, error) {
	return agui.WorkerOutput{}, errQuiet
}

func (quiet) Ask(context.Context, Use, agui.Interrupt) (Answer, error) { return Answer{}, errQuiet }
func (quiet) Wait(context.Context, Use, Wait) (Received, error)        { return Received{}, errQuiet }
func (quiet) Next(context.Context, Use) ([]agui.Message, error)        { return nil, nil }

var errQuiet = &Error{Code: "guard", Message: "a guard calls no tools, asks nobody and changes no state"}

func (q quiet) MayCallModel() error { return q.run.checkBudgets() }

func (q quiet) ReserveModelCall(ctx context.Context, estimate agui.TokenUsage) (settle func(used *agui.TokenUsage), err error) {
	if l, ok := q.Host.(interface {
		ReserveModelCall(ctx context.Context, estimate agui.TokenUsage) (settle func(used *agui.TokenUsage), err error)
	}); ok {
		return l.ReserveModelCall(ctx, estimate)
	}
	return func(*agui.TokenUsage) {}, nil
}

func (q quiet) Idle(ctx context.Context, wait func() error) error { return q.run.Idle(ctx, wait) }

func (q quiet) WaitForPace(ctx context.Context, until time.Time, wait func() error) error {
	return q.run.WaitForPace(ctx, until, wait)
}

// BeginModelCall drops the prompt and the answer: they contain the guard's instructions and the text that it may hold back.
func (q quiet) BeginModelCall(ctx context.Context, _ *Prompt) (context.Context, func(c ModelCall, a *ModelAnswer, err error)) {
	ctx, end := q.run.SendPrompt(ctx, nil)
	return ctx, func(c ModelCall, _ *ModelAnswer, err error) { end(plainCall(c), nil, concealed(ctx, err, false)) }
}
