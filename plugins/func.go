package plugins

import (
	"context"

	"github.com/batonrun/baton/runtime/agui"
)

// AgentFunc returns an Agent of the name that runs fn. What fn writes to run.Text is its answer. An agent that has
// a description, or that returns more than an answer, is a type of its own.
func AgentFunc(name string, fn func(ctx context.Context, run *Run) error) Agent {
	return agentFunc{name, fn}
}

type agentFunc struct {
	name string
	fn   func(context.Context, *Run) error
}

func (a agentFunc) Info() Info { return Info{Name: a.name} }

func (a agentFunc) Run(ctx context.Context, run *Run) (agui.WorkerOutput, error) {
	return agui.WorkerOutput{}, a.fn(ctx, run)
}
