// Package plugins is what authors of agents and tools import. A worker is an Agent, a function it may
// call is a Tool, and a Workflow joins both into a graph; a Registry holds those a server offers.
//
// A worker is called again, not parked: after a person's answer or a crash the runtime calls Run from
// its start with the same Input. What need not be done again stands in Run.Do, which returns its
// recorded result the second time; CallTool, CallAgent, Ask, Next and Usage are recorded likewise. What is
// emitted outside of Do is emitted anew, so what a worker shows before an Ask stands in a Do.
//
// A record belongs to a place in the worker's code: the Dos and sub-agents around the call, what is called, and
// the how-manieth call of that it is there. So a worker must come to the same calls in the same order each time,
// with the same requests; anything else is refused with the code replay_mismatch. What the clock, chance or the
// outside says is asked in a Do.
//
// What a model makes piece by piece is shown while it is made: Text and Reason write messages, and Announce calls of
// tools, which CallTools makes under their ids behind the Do that has announced them. Retract takes back what a Do has
// shown when it tries again.
//
// A process that dies inside of a Do, before its record is stored, does its work again. What must never be done
// twice is a Tool that is not Idempotent.
//
// The package imports the standard library and runtime/agui, so a plugin inherits nothing else.
package plugins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/batonrun/baton/runtime/agui"
)

// Plugin is an Agent, a Tool, a Toolbox or a Workflow.
type Plugin interface {
	Info() Info
}

// Info describes a plugin to the server and its clients.
type Info struct {
	Name        string // unique in a Registry, [A-Za-z0-9][A-Za-z0-9_.-]{0,63}
	Description string

	// Timeout ends a call that takes longer, 0 means the server's default.
	Timeout time.Duration

	// Parameters is the JSON Schema of a Tool's arguments; nil admits any object.
	Parameters json.RawMessage
	// Idempotent says that a Tool's call which a crash cut short may be made again. Any other is made at most
	// once: its result after a crash is a failure with the code interrupted.
	Idempotent bool
	// Approval makes the run wait for a person before each call of the Tool, or of the Agent as a tool.
	Approval bool

	// External marks an Agent whose events come from outside of this process, such as from another server. It may write
	// assistant messages only.
	External bool

	// Concurrency is how many runs of an Agent execute at once, 0 means no limit of its own. Those over it are queued.
	Concurrency int

	// Projects are those in which the plugin is offered, nil means all. In another there is no plugin of its name: it is
	// neither listed nor found there. What a Toolbox says of itself holds for its tools.
	Projects []string
}

// Agent is a worker. Run streams through run and returns what the step is worth: nil ends it well, an
// error ends it as failed. Only an *Error's text reaches clients; of any other they learn that the
// agent failed. Run must return soon after ctx is done; one that does not is abandoned.
type Agent interface {
	Plugin
	Run(ctx context.Context, run *Run) (agui.WorkerOutput, error)
}

// Tool is a function a worker may call. An error becomes a result of status failure.
type Tool interface {
	Plugin
	Call(ctx context.Context, call *Call) (agui.ToolOutput, error)
}

// Toolbox has tools that may come and go while it is served, such as those of another server. Its own name holds no
// dot, and the name of each of its tools begins with it and one: files.read_file. A tool of another name is left out.
type Toolbox interface {
	Plugin
	// Tools returns the tools there are now. It is called often, from several goroutines, and waits for nothing.
	Tools() []Tool
}

// Starter is implemented by a plugin that must be set up before the server takes runs. A Start that fails leaves nothing
// behind: Close is not called after it.
type Starter interface {
	Start(ctx context.Context) error
}

// Closer is implemented by a plugin that holds something; it is called after the last run ended. Workers and tools that
// were abandoned may still be running. One that a server does not offer any more is closed when the last run that began
// with it has ended or waits.
type Closer interface {
	Close() error
}

// Checker is implemented by a plugin whose health the server's readiness depends on.
type Checker interface {
	Check(ctx context.Context) error
}

// Call is one call of a Tool.
type Call struct {
	ID       string          // the toolCallId; the same when an idempotent call is made again after a crash
	Args     json.RawMessage // an object that satisfies Info.Parameters
	ThreadID string
	RunID    string
	User     string
	Project  string

	// Progress is what Report calls; nil where nobody is to be told.
	Progress func(fraction float64, message string)
}

// Report says how far the call is, from 0 to 1, and what it is doing, as Run.Progress does for a worker.
func (c *Call) Report(fraction float64, message string) {
	if c.Progress != nil {
		c.Progress(fraction, message)
	}
}

// Input is what a worker is asked. It is the same each time one step is called again, and not to be changed.
type Input struct {
	Query          string // the last user message's text, or what a workflow's input mapping gave the node
	Messages       []agui.Message
	State          json.RawMessage // the thread's state when the run started, an object
	Tools          []agui.Tool     // tools the client offers and answers
	Context        []agui.Context
	ContextItemIDs []string
	ForwardedProps json.RawMessage

	ThreadID  string
	RunID     string
	User      string
	Project   string
	Node      string // the workflow's node; the agent's name when it runs alone
	Subagent  string // the subagentRunId of a worker that another one has called; empty for a node's own
	Execution int    // 1 for the node's first execution in this generation, 2 for its first retry
}

// Answer is a person's answer to an Ask.
type Answer struct {
	Cancelled bool            `json:"cancelled,omitempty"` // they declined, or the question expired
	Payload   json.RawMessage `json:"payload,omitempty"`   // nil when there is none
}

// Error is an error a worker or tool shows to clients in full.
type Error struct {
	Code      string // lower_case; "failed" when empty
	Message   string // a sentence a person can act on
	Retryable bool   // the node's retry policy may try again
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Errors that the methods of Run return.
var (
	// ErrWaiting is returned by Ask, and by CallTool for a tool that a client or a person answers, while
	// there is no answer. The worker returns it and is called again when the answer is there.
	ErrWaiting = errors.New("waiting for an answer")
	// ErrCancelled is the context's cause when a person cancelled the run.
	ErrCancelled = errors.New("run cancelled")
	// ErrStopping is the context's cause when the server stops; the run goes on at its next start.
	ErrStopping = errors.New("server stopping")
	// ErrEnded is returned to a worker that emits after its step ended.
	ErrEnded = errors.New("the step has ended")
)

// PanicError is what a worker or tool that panicked is taken to have returned.
type PanicError struct {
	Value any
	Stack []byte
}

// Error says what was thrown, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }
