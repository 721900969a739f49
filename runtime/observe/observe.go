// Package observe shows runs to operators while they execute: by measures, and by the operations of traces.
package observe

import (
	"context"
	"strings"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// Measures receives sizes and times as they occur; a nil function is not called. The functions are called from several
// goroutines, in the middle of the work, and must return at once. Values that can be read at any time are in Stats instead.
type Measures struct {
	Committed  func(events int, took time.Duration)         // a transaction
	Replayed   func(events int)                             // a reader has read so many from the database, and is at the live end or has left
	Claimed    func(queued time.Duration)                   // a run has begun after so long in the queue
	FirstEvent func(after time.Duration)                    // a run's worker has emitted its first text, reasoning or tool call, so long after the run was queued
	Ended      func(status data.Status, took time.Duration) // a run is over, so long after it was accepted
	Tool       func(failed bool, took time.Duration)        // a call of a server's tool
	ModelCall  func(c ModelEnd, took time.Duration)         // a model call that a worker has reported while making it
	Tokens     func(u agui.TokenUsage)                      // the usage of a model call
}

// Tracer follows runs from the request to the calls of models and tools. It is an interface so that no trace library is
// needed here; transports/telemetry/traces implements it. Its methods are called from several goroutines.
type Tracer interface {
	// Begin begins an operation inside the operation of ctx. It returns the context of the new operation, and a function
	// that is called once when it has ended.
	Begin(ctx context.Context, op Op) (context.Context, func(End))
	// Parent returns the operation of ctx as a W3C traceparent, "" when it is not traced. A run keeps it for its whole life.
	Parent(ctx context.Context) string
	// Within returns ctx inside the operation that Parent has named, maybe in an earlier process.
	Within(ctx context.Context, parent string) context.Context
}

// OpKind is the kind of an operation.
type OpKind uint8

// The operations, each inside of one before it.
const (
	OpStart OpKind = iota // a request for a run is taken
	OpRun                 // a run from its claim until it waits, ends or gets another owner
	OpAgent               // a worker executes: a node's, or a sub-agent
	OpTool                // a server's tool is called
	OpModel               // a model is called
)

// Op is an operation that begins.
type Op struct {
	Kind    OpKind
	Name    string // of the agent, workflow or tool; empty for a model
	Run     string
	Thread  string
	Project string
	ID      string // of the sub-agent's invocation or of the tool call, empty for others
}

// End describes the end of an operation.
type End struct {
	Status data.Status // of a run: its status now
	Run    string      // of an accepted request for a run
	Thread string      // likewise
	Err    error       // nil on success
	Code   string      // the error code that clients see, empty on success
	Model  ModelEnd    // of a model
}

// ModelEnd describes the end of a model call. Provider and model are in its usage.
type ModelEnd struct {
	plugins.ModelCall
	Err error
}

// Untraced returns a Tracer that traces nothing.
func Untraced() Tracer { return untraced{} }

type untraced struct{}

func (untraced) Begin(ctx context.Context, _ Op) (context.Context, func(End)) {
	return ctx, func(End) {}
}
func (untraced) Parent(context.Context) string                        { return "" }
func (untraced) Within(ctx context.Context, _ string) context.Context { return ctx }

// TraceOf returns the trace_id of a traceparent as lines of the log have it, nothing for none.
func TraceOf(parent string) []any {
	if id := TraceID(parent); id != "" {
		return []any{"trace_id", id}
	}
	return nil
}

// TraceID returns the id of the trace in a traceparent, "" for none.
func TraceID(parent string) string {
	if parts := strings.Split(parent, "-"); len(parts) == 4 && len(parts[1]) == 32 {
		return parts[1]
	}
	return ""
}

// Begin begins the operation of a worker or a tool. The returned context has the trace parent for requests to other servers.
func Begin(ctx context.Context, by Tracer, op Op) (context.Context, func(End)) {
	ctx, end := by.Begin(ctx, op)
	if parent := by.Parent(ctx); parent != "" {
		ctx = plugins.WithTraceParent(ctx, parent)
	}
	return ctx, end
}
