package plugins

import (
	"context"
	"errors"

	"github.com/batonrun/baton/runtime/agui"
)

// AgentFunc returns an Agent that runs fn. The text that fn writes to run.Text is its answer. Define a type for an agent
// with a description or with more output than an answer.
func AgentFunc(name string, fn func(ctx context.Context, run *Run) error) Agent {
	return agentFunc{name, fn}
}

type agentFunc struct {
	name string
	fn   func(context.Context, *Run) error
}

// Validate fails without a function.
func (a agentFunc) Validate() error {
	if a.fn == nil {
		return errors.New("has no function")
	}
	return nil
}

func (a agentFunc) Info() Info { return Info{Name: a.name} }

func (a agentFunc) Run(ctx context.Context, run *Run) (agui.WorkerOutput, error) {
	return agui.WorkerOutput{}, a.fn(ctx, run)
}
