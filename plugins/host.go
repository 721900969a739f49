package plugins

import (
	"context"
	"encoding/json"

	"github.com/batonrun/baton/runtime/agui"
)

// Host is what a worker runs on: the runtime, or plugintest. Authors use Run instead. Its methods may be
// called from several goroutines; each fails with the context's cause once the step's context is done.
type Host interface {
	// Emit gives ev to the log and returns once it is queued there, waiting while the queue is full or
	// while another step's text message is open and ev would open one. An event that is illegal now is
	// refused with an error and not written.
	Emit(ev agui.Event) error
	// PatchState merges an RFC 7396 patch into the thread's state and emits the difference.
	PatchState(patch json.RawMessage) error
	// Do returns the record of the n-th use of name, or calls fn and commits what it returned together
	// with the last event of fn.
	Do(ctx context.Context, name string, fn func(ctx context.Context) (json.RawMessage, error)) (json.RawMessage, error)
	// CallTool emits the call, makes it, and emits and commits the result; that the tool failed is a result
	// too. parent is the id of the worker's latest assistant message, or empty.
	CallTool(ctx context.Context, parent, name string, args json.RawMessage) (agui.ToolOutput, error)
	// CallAgent runs another agent inside this step and returns its output.
	CallAgent(ctx context.Context, parent, name, query string) (agui.WorkerOutput, error)
	// Ask returns the answer, or ErrWaiting after it has recorded the question.
	Ask(ctx context.Context, q agui.Interrupt) (Answer, error)
	// Next takes the messages appended to the run since its start or the last Next, and emits them.
	Next(ctx context.Context) ([]agui.Message, error)
	// Usage counts tokens in the run: those reported inside of a Do, whose context ctx is, with its record, others
	// as the n-th use of it.
	Usage(ctx context.Context, u agui.TokenUsage) error
	// NewID mints a message id.
	NewID() string
}
