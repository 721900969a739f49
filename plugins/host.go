package plugins

import (
	"context"
	"encoding/json"

	"github.com/batonrun/baton/runtime/agui"
)

// Host executes workers: the runtime, or plugintest. Authors use Run instead. Its methods must be safe for concurrent use
// and fail with the context's cause once the step's context is done. Package host defines the optional interfaces of a
// Host, and package hosttest tests the contract.
//
// A record is identified by its Use's Place within the worker's step; Use.Check compares it with the current request.
type Host interface {
	// Emit queues ev for the log. It blocks while the queue is full, or if ev opens a text message while another step
	// has one open. It fails for an event that is illegal now and does not write it.
	Emit(ev agui.Event) error
	// PatchState merges an RFC 7396 patch into the thread's state and emits the difference.
	PatchState(patch json.RawMessage) error
	// Do returns the output of u's record, or calls fn and commits its result together with fn's last event.
	Do(ctx context.Context, u Use, fn func(ctx context.Context) (Record, error)) (json.RawMessage, error)
	// OpenCalls emits tool calls in order, except those announced or emitted before. parent is the id of the worker's
	// latest assistant message, or empty. CallTool follows for each call.
	OpenCalls(ctx context.Context, parent string, calls []Use) error
	// CallTool returns the record of an open call, or makes the call, then emits and commits the result. A failure of
	// the tool is a result too, and so is the interruption by a crash of a Tool that is not Idempotent.
	CallTool(ctx context.Context, call Use) (agui.ToolOutput, error)
	// CallAgent returns the record of u, or runs another agent inside this step and returns its output. It passes a
	// context derived from ctx to Execute.
	CallAgent(ctx context.Context, parent string, u Use, query string) (agui.WorkerOutput, error)
	// Ask returns the answer, or records the question and returns ErrWaiting.
	Ask(ctx context.Context, u Use, q agui.Interrupt) (Answer, error)
	// Wait returns once the event or the time of w has come, or records the wait and returns ErrWaiting.
	Wait(ctx context.Context, u Use, w Wait) (Received, error)
	// Messages is Run.Messages.
	Messages(ctx context.Context, limit int) (list []agui.Message, more bool, err error)
	// Next returns and emits the messages appended to the run since its start or the last Next.
	Next(ctx context.Context, u Use) ([]agui.Message, error)
	// Usage adds the tokens of a model call to the run unless u has a record. It works after the step's context is done
	// until the run is over.
	Usage(ctx context.Context, u Use, c ModelCall) error
	// Spent sums the usage counted inside u by provider and model.
	Spent(u Use) []agui.TokenUsage
	// Plugins describes the callable tools and agents, each sorted by name.
	Plugins() (tools, agents []Info)
	// NewID returns a new message id.
	NewID() string
}

// Record is the result of a Do's function.
type Record struct {
	Output json.RawMessage
	// Calls are the announced calls, with Place, Name and ID. Their records begin with this one and accept the first
	// request that CallTool gets for them, or a result that the worker emits itself, in a later span too. Calls announced without a record get the result interrupted if the process dies.
	Calls []Use
}
