// Package plugins is the API for authors of agents and tools. A worker is an Agent, a function it can call is a
// Tool, and a Workflow joins both into a graph.
//
// Workers are replayed, not suspended: after a person's answer or a crash the runtime calls Run from its start with the
// same Input. Wrap work that must not repeat in Run.Do, which returns its recorded result on replay; CallTool,
// CallAgent, Ask, Next and Usage are recorded in the same way. Events emitted outside of a Do are emitted again on
// replay, so wrap output that precedes an Ask in a Do.
//
// Records are keyed by their place in the code: the enclosing Dos and sub-agents, the kind and name of the call, and its
// ordinal among equal calls there. So a worker must make the same calls in the same order with the same requests each
// time; any difference fails with the code replay_mismatch. Read clocks, random numbers and external data inside a Do.
//
// Model output can be streamed: Text and Reason write messages, and Announce shows tool calls while their arguments
// arrive; CallTools makes them under the announced ids after the Do. Retract withdraws the output of a Do that
// retries.
//
// If the process dies inside a Do before the record is stored, the work is done again. For work that must never run
// twice use a Tool that is not Idempotent.
//
// Host, Use, Record, Execute and PanicError are for runtimes; package host has the rest of their side.
//
// The package imports the standard library and runtime/agui, so a plugin inherits no other dependency.
package plugins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/agui"
)

// Plugin is an Agent, a Tool, a Toolbox or a Workflow. When a server replaces its plugins, equal values keep running; a value
// that is not comparable is restarted.
type Plugin interface {
	Info() Info
}

// Info describes a plugin to the server and its clients.
type Info struct {
	Name        string // unique on a server, [A-Za-z0-9][A-Za-z0-9_.-]{0,63}
	Description string

	// Timeout limits a call; 0 means the server's default.
	Timeout time.Duration

	// Parameters is the JSON Schema of a Tool's arguments; nil accepts any object.
	Parameters json.RawMessage
	// Output is the JSON Schema of a Tool's result, or of an Agent's WorkerOutput.Result; nil if they are only text. A workflow's
	// expressions are checked against it.
	Output json.RawMessage
	// Idempotent allows a Tool's call to be made again after a crash. Other calls are made at most once: their result
	// after a crash is a failure with the code interrupted.
	Idempotent bool
	// Approval makes the run wait for a person before each call of the Tool, or of the Agent as a tool.
	Approval bool
	// Approver says who may approve them, and what they see.
	Approver Approver

	// External marks an Agent with events from outside this process, such as from another server. It can write assistant
	// messages only.
	External bool

	// Guards check the input, the calls and the answers of an Agent.
	Guards Guards `json:"-"`

	// Concurrency limits the runs of an Agent that execute at once; further runs are queued. 0 means no own limit.
	Concurrency int

	// RunOn is a label that a server of a cluster needs to execute runs of the Agent; empty lets every server execute them.
	RunOn string

	// Projects limits the plugin to these projects; nil means all. Other projects neither list nor find it. The
	// setting of a Toolbox applies to its tools.
	Projects []string
}

// Agent is a worker. Run streams through run and returns the step's output; a nil error means success. Clients see
// the text of an *Error only; for any other error they see that the agent failed. Run must return soon after ctx is
// done; otherwise the runtime abandons it.
type Agent interface {
	Plugin
	Run(ctx context.Context, run *Run) (agui.WorkerOutput, error)
}

// Tool is a function a worker can call. An error becomes a result with the status failure.
type Tool interface {
	Plugin
	Call(ctx context.Context, call *Call) (agui.ToolOutput, error)
}

// Toolbox provides tools that can change while it is served, such as those of another server. Its name has no dot.
// Its tools' names start with its name and a dot, such as files.read_file; tools with other names are ignored.
type Toolbox interface {
	Plugin
	// Tools returns the current tools. It is called often, from several goroutines, and must not block.
	Tools() []Tool
}

// Starter is implemented by a plugin that needs setup before the server accepts runs. If Start fails it must have
// released its resources: Close is not called.
type Starter interface {
	Start(ctx context.Context) error
}

// Settler is implemented by a Toolbox whose Start does not wait for its tools.
type Settler interface {
	// Settled returns a channel that is closed once the tools are known or the first attempt has failed.
	Settled() <-chan struct{}
}

// Closer is implemented by a plugin that has resources to release. Close is called after the last run ended; abandoned
// workers and tools may still be running. When a server drops the plugin, Close is called once the last run that
// started with it has ended or waits. After ctx is done it must return at once, and end by force what has not ended.
type Closer interface {
	Close(ctx context.Context) error
}

// Checker is implemented by a plugin that takes part in the server's readiness.
type Checker interface {
	Check(ctx context.Context) error
}

// Reporter is implemented by a plugin that depends on an external service and observes its health.
type Reporter interface {
	// Health returns the last observation, nil if there is none. It is called often, from several goroutines, and must
	// not contact the service.
	Health() *Health
}

// Health is the state of a plugin's external dependency.
type Health struct {
	OK     bool
	Since  time.Time // of the change to this state, as observed
	Detail string    // the problem without secrets, for operators
}

// Call is one call of a Tool.
type Call struct {
	ID       string          // the toolCallId; unchanged when an idempotent call is repeated after a crash
	Args     json.RawMessage // an object that satisfies Info.Parameters
	ThreadID string
	RunID    string
	User     string
	Project  string

	// Progress receives the arguments of Report; nil discards them.
	Progress func(fraction float64, message string)
	// Asks answers Ask; nil if there is no one to ask.
	Asks func(key string, q agui.Interrupt) (Answer, error)

	// Kept is the value of the latest Keep in an earlier process that has died or stopped, nil for none.
	Kept json.RawMessage
	// Keeps stores the argument of Keep; nil stores nothing.
	Keeps func(value json.RawMessage) error
	// Idles calls the function of Idle; nil only calls it.
	Idles func(ctx context.Context, wait func() error) error
}

// Keep records a value with which the call can go on after a crash or a stop, such as the id of a job at another service. The
// call is then made again with it as Kept, even if the tool is not Idempotent. A nil value takes it back.
func (c *Call) Keep(value json.RawMessage) error {
	if c.Keeps == nil {
		return nil
	}
	return c.Keeps(value)
}

// Idle calls wait, which waits for another service and uses little of this server meanwhile. The run can lend its slot to
// another run until wait returns, and Idle returns once the run has one again. It returns wait's error.
func (c *Call) Idle(ctx context.Context, wait func() error) error {
	if c.Idles == nil {
		return wait()
	}
	return c.Idles(ctx, wait)
}

// Ask returns a person's answer to q, as Run.Ask does. Until the answer arrives it returns ErrWaiting, which Call must return;
// Call is called again then. key is the same each time, and differs for each question of the call. Ask fails with an *Error of
// the code input_declined if the tool is not Idempotent, because its call cannot be repeated.
func (c *Call) Ask(key string, q agui.Interrupt) (Answer, error) {
	if c.Asks == nil {
		return Answer{}, &Error{Code: "input_declined", Message: "Nobody can be asked here"}
	}
	return c.Asks(key, q)
}

// Report reports progress from 0 to 1 with a description, as Run.Progress does for a worker.
func (c *Call) Report(fraction float64, message string) {
	if c.Progress != nil {
		c.Progress(fraction, message)
	}
}

// Input is a worker's input. But for Interruptions it is the same each time a step is replayed. It must not be modified.
type Input struct {
	Query          string          // the last user message's text, or the result of the node's input expression
	State          json.RawMessage // the thread's state when the run started, an object
	Tools          []agui.Tool     // tools that the client offers and executes
	Context        []agui.Context
	ContextItemIDs []string
	ForwardedProps json.RawMessage

	// Overrides replace for this run the model, the instructions and the parameters of an agent that implements host.Overridable; nil
	// replaces nothing. Agents that it calls have none.
	Overrides *ModelOverrides

	ThreadID  string
	RunID     string
	User      string
	Project   string
	Workflow  string // the workflow's name; empty if the agent runs alone
	Node      string // the workflow's node; the agent's name if it runs alone
	Subagent  string // the subagentRunId if another worker called this one; empty otherwise
	Execution int    // 1 for the node's first execution in this generation or round, 2 for its first retry

	Interruptions int // how often workers of the run were Interrupted since its last record, in this process
}

// ModelOverrides replace an agent's model, instructions or parameters. Empty fields replace nothing.
type ModelOverrides struct {
	Model      string           `json:"model,omitempty"`      // another model of the agent's provider, which has no fallbacks
	System     *string          `json:"system,omitempty"`     // the instructions; "" for none
	Parameters *ModelParameters `json:"parameters,omitempty"` // all of them
}

// ModelParameters are the parameters of model calls, as of a call's prompt. Those that are absent are the provider's defaults.
type ModelParameters struct {
	Temperature *float64 `json:"temperature,omitempty"`
	TopP        *float64 `json:"topP,omitempty"`
	MaxTokens   int      `json:"maxTokens,omitempty"`
	Seed        int      `json:"seed,omitempty"`
	Stop        []string `json:"stop,omitempty"`
}

// ValidStop reports whether a model call may have these texts at which the answer ends: up to 16, of 1 to 200 bytes each.
func ValidStop(list []string) bool {
	return len(list) <= 16 && !slices.ContainsFunc(list, func(s string) bool { return s == "" || len(s) > 200 })
}

// Answer is a person's answer to an Ask.
type Answer struct {
	Cancelled bool            `json:"cancelled,omitempty"` // the person declined, or the question expired
	Payload   json.RawMessage `json:"payload,omitempty"`   // nil if there is none
}

// Error is an error whose text clients may see.
type Error struct {
	Code      string // lower_case; "failed" if empty
	Message   string // a sentence a person can act on
	Retryable bool   // the node's retry policy applies
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Interrupted is the error of a worker or a tool that has lost what it works with, such as the process of a program. The runtime does
// what it does after a crash of the server: it closes what the worker has left open, and calls Run again from its start, with the records.
// A Tool is called again if it is Idempotent or has kept a value; another one's result is a failure with the code interrupted.
type Interrupted struct {
	Reason string // for the log
	Counts bool   // the run may have caused it: at the fourth time without a record in between it fails with crash_loop
}

// Error returns the reason.
func (e *Interrupted) Error() string { return e.Reason }

// Errors that the methods of Run return.
var (
	// ErrWaiting is returned by Ask, and by CallTool for a tool that a client or a person answers or that asks a person,
	// until the answer is there. The worker returns it and is replayed when the answer arrives.
	ErrWaiting = errors.New("waiting for an answer")
	// ErrCancelled is the context's cause after a person cancelled the run.
	ErrCancelled = errors.New("run cancelled")
	// ErrStopping is the context's cause when the server stops; the run resumes at the next start.
	ErrStopping = errors.New("server stopping")
	// ErrEnded is returned to a worker that emits after its step ended.
	ErrEnded = errors.New("the step has ended")
)

// PanicError replaces the error of a worker or tool that panicked.
type PanicError struct {
	Value any
	Stack []byte
}

// Error returns the panic's value without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }
