// Package process runs agents and tools that are programs in any language. A program is started once and serves many runs
// concurrently. It speaks JSON-RPC 2.0 over its standard input and output, one message per line, with the methods in
// docs/process.md. Its workers can do all that Go workers can: stream, call tools and agents, ask people, and record work
// that must not repeat.
//
// If the program ends, its workers are Interrupted: it is started again after a pause that grows with repeated crashes, and its runs go on
// with their records. A run whose program has ended twice since its last record goes on in a process of its own, a few such runs at a time:
// if it ends its program again, it is given up, and no other run with it.
//
// The protocol is our own instead of gRPC as in hashicorp/go-plugin: authors need no code generator and no library, only a
// language with lines and JSON; a program can be tried by hand; and the payload is AG-UI's JSON anyway. Go's packages for
// JSON-RPC limit neither lines nor pending messages and do not preserve order; both matter more here than the 200 lines
// they would save.
package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/child"
	"github.com/batonrun/baton/runtime/agui"
)

// Config describes a program that is an agent or has tools.
type Config struct {
	Info plugins.Info // the plugin's name and timeout; the program can provide the description

	Command []string          // the program, looked up in our PATH, and its arguments
	Dir     string            // its working directory; default ours
	Env     map[string]string // its environment in addition to PATH, HOME and LANG; nothing else is inherited

	Start time.Duration // maximum time from its start to its response to initialize; default 30s
	Alive time.Duration // how often a program that can do so says that it lives; one that is silent for five times as long hangs; default 3s
	Stop  time.Duration // maximum time to end a cancelled run, and to end after its input is closed; default 5s
	Log   *slog.Logger  // receives its standard error; default slog.Default
}

// Agent is an agent that is a program.
type Agent struct {
	info    plugins.Info
	program *program
}

// Findable fails if the program does not exist.
func (a *Agent) Findable() error { return child.Find(a.program.cfg.Command, a.program.cfg.Dir) }

var (
	_ plugins.Agent   = (*Agent)(nil)
	_ plugins.Starter = (*Agent)(nil)
	_ plugins.Closer  = (*Agent)(nil)

	_ plugins.Reporter = (*Agent)(nil)
	_ plugins.Reporter = (*Toolbox)(nil)
)

// NewAgent returns the agent of a program, which is started by Start or by the first run.
func NewAgent(cfg Config) (*Agent, error) {
	p, err := newProgram(cfg, func(h *hello) error {
		if h.Agent == nil {
			return errors.New("the program's response to initialize has no agent")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &Agent{info: cfg.Info, program: p}, nil
}

// Info describes the agent. Without a configured description it has the program's own after its start.
func (a *Agent) Info() plugins.Info {
	info := a.info
	info.External = true
	if h := a.program.said.Load(); h != nil && info.Description == "" && h.Agent != nil {
		info.Description = h.Agent.Description
	}
	return info
}

// Start begins to start the program. It does not wait and does not fail: Health has the error of a program that
// does not exist or is not an agent, runs fail with agent_unavailable, and the next run tries again.
func (a *Agent) Start(context.Context) error {
	a.program.begin()
	return nil
}

// Settled returns a channel that is closed once the first start has succeeded or failed.
func (a *Agent) Settled() <-chan struct{} { return a.program.settled }

// Health returns whether the program runs.
func (a *Agent) Health() *plugins.Health { return a.program.health() }

// Close ends the program and waits for its end. It kills the program once ctx is done.
func (a *Agent) Close(ctx context.Context) error {
	a.program.close(ctx)
	return nil
}

// Run executes run in the program.
func (a *Agent) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	messages, _, err := run.Messages(ctx, 0)
	if err != nil {
		return agui.WorkerOutput{}, err
	}
	use := a.program.use
	if run.Input.Interruptions >= inCompany {
		use = a.program.useAlone
	}
	c, err := use(ctx, "agent_unavailable")
	if err != nil {
		return agui.WorkerOutput{}, err
	}
	defer c.leave()
	ctx, cancel := context.WithCancelCause(ctx)
	s := c.open(ctx, run)
	defer s.close()
	defer cancel(errReturned)
	about := []any{"run", run.Input.RunID, "thread", run.Input.ThreadID, "user", run.Input.User, "project", run.Input.Project}

	c.send(message{ID: number(s.id), Method: "run", Params: encode(struct {
		Input input `json:"input"`
	}{inputOf(run.Input, messages)})})
	select {
	case m := <-s.result:
		switch {
		case m.died:
			s.working.Wait() // what the server does for the program ends, and is recorded
			return agui.WorkerOutput{}, c.interrupted()
		case m.ID == nil: // the program made a mistake, which failed the run, and continues
			c.cancel(s.id, s.answered, errMistaken, about...)
		default:
			c.forget(s.id)
		}
		return outputOf(m)
	case <-ctx.Done():
		c.cancel(s.id, s.answered, context.Cause(ctx), about...)
		return agui.WorkerOutput{}, context.Cause(ctx)
	}
}

// inCompany is how often the program may end since a run's last record until the run gets a process of its own.
const inCompany = 2

// Renew starts the program anew, with its code as it is now. Runs that execute end in the old process. It fails, and the old process
// goes on, if the new one cannot be initialized. It does nothing if the program does not run.
func (a *Agent) Renew() error { return a.program.renew() }

// Begin starts the program before Start, unless it runs, and fails if it cannot be initialized. Close it then.
func (a *Agent) Begin(ctx context.Context) error { return a.program.started(ctx) }

// errMistaken is the reason for cancelling a run after an invalid message.
var errMistaken = errors.New("the program sent an invalid message")

// errReturned is the reason for ending the rest of a program's run.
var errReturned = errors.New("the agent has returned")

// outputOf decodes a program's response to run: a WorkerAgentOutput, a text, or nothing.
func outputOf(m message) (agui.WorkerOutput, error) {
	var out agui.WorkerOutput
	if err := m.failed(); err != nil {
		return out, err
	}
	if text := ""; json.Unmarshal(m.Result, &text) == nil {
		out.Answer = text
		return out, nil
	}
	if err := json.Unmarshal(m.Result, &out); err != nil {
		return out, fmt.Errorf("answer to run: %w", err)
	}
	return out, nil
}

// input is plugins.Input in the form for a program.
type input struct {
	Query          string          `json:"query"`
	Messages       []agui.Message  `json:"messages"`
	State          json.RawMessage `json:"state"`
	Tools          []agui.Tool     `json:"tools"`
	Context        []agui.Context  `json:"context"`
	ContextItemIDs []string        `json:"contextItemIds"`
	ForwardedProps json.RawMessage `json:"forwardedProps,omitempty"`
	ThreadID       string          `json:"threadId"`
	RunID          string          `json:"runId"`
	User           string          `json:"user"`
	Project        string          `json:"project"`
	Node           string          `json:"node"`
	Execution      int             `json:"execution"`
}

func inputOf(in plugins.Input, messages []agui.Message) input {
	return input{
		Query: in.Query, Messages: list(messages), State: object(in.State), Tools: list(in.Tools),
		Context: list(in.Context), ContextItemIDs: list(in.ContextItemIDs), ForwardedProps: in.ForwardedProps,
		ThreadID: in.ThreadID, RunID: in.RunID, User: in.User, Project: in.Project, Node: in.Node, Execution: in.Execution,
	}
}

// list returns s, or an empty list instead of null in JSON.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func object(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}

func (cfg *Config) child() child.Config {
	return child.Config{
		Name: cfg.Info.Name, Command: cfg.Command, Dir: cfg.Dir, Env: cfg.Env, Grace: cfg.Stop, Log: cfg.Log,
	}
}
