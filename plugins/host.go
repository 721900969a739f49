package plugins

import (
	"context"
	"encoding/json"

	"github.com/batonrun/baton/runtime/agui"
)

// Host is what a worker runs on: the runtime, or plugintest. Authors use Run instead. Its methods may be
// called from several goroutines; each fails with the context's cause once the step's context is done.
//
// A record is found by its Use's Place within the worker's step, and Use.Check says whether it is one of what is
// asked now. Package hosttest holds what a Host must do as tests.
type Host interface {
	// Emit gives ev to the log and returns once it is queued there, waiting while the queue is full or
	// while another step's text message is open and ev would open one. An event that is illegal now is
	// refused with an error and not written.
	Emit(ev agui.Event) error
	// PatchState merges an RFC 7396 patch into the thread's state and emits the difference.
	PatchState(patch json.RawMessage) error
	// Do returns the output of u's record, or calls fn and commits what it returned together with the last event of fn.
	Do(ctx context.Context, u Use, fn func(ctx context.Context) (Record, error)) (json.RawMessage, error)
	// OpenCalls emits calls of tools, in their order, but for those that were announced and those that it has emitted
	// before. parent is the id of the worker's latest assistant message, or empty. CallTool follows for each of them.
	OpenCalls(ctx context.Context, parent string, calls []Use) error
	// CallTool returns the record of an open call, or makes the call and emits and commits the result. That the
	// tool failed is a result too; so is, for a Tool that is not Idempotent, that its call began before a crash.
	CallTool(ctx context.Context, call Use) (agui.ToolOutput, error)
	// CallAgent returns the record of u, or runs another agent inside this step and returns its output. It gives
	// Execute a context that comes from ctx.
	CallAgent(ctx context.Context, parent string, u Use, query string) (agui.WorkerOutput, error)
	// Ask returns the answer, or ErrWaiting after it has recorded the question.
	Ask(ctx context.Context, u Use, q agui.Interrupt) (Answer, error)
	// Next takes the messages appended to the run since its start or the last Next, and emits them.
	Next(ctx context.Context, u Use) ([]agui.Message, error)
	// Usage counts the tokens of a model call in the run, unless there is a record of u; also when the step's context is
	// done, as long as the run is not over.
	Usage(ctx context.Context, u Use, c ModelCall) error
	// Spent sums up what Usage has counted inside of u, by provider and model.
	Spent(u Use) []agui.TokenUsage
	// Plugins describes the tools and the agents that can be called, each kind sorted by name.
	Plugins() (tools, agents []Info)
	// NewID mints a message id.
	NewID() string
}

// Record is what the function of a Do leaves.
type Record struct {
	Output json.RawMessage
	// Calls are those that it has announced, by Place, Name and ID: their records begin with this one, and fit the
	// first request that CallTool is given for them. Calls that are announced without a record get the result
	// interrupted when the process dies.
	Calls []Use
}
