// Package process runs agents and tools that are programs in any language. A program is started once and serves many
// runs at a time; it speaks JSON-RPC 2.0 over its standard input and output, a message a line, with the methods that
// docs/process.md lists. A worker over there can do what one in Go can: stream, call tools and agents, ask people,
// keep records of what need not be done again.
//
// One that crashes fails the steps it was working at, with the retryable code program_crashed, and is started again by
// the next run, after a pause that grows while it goes on crashing.
//
// The protocol is our own and not gRPC, as hashicorp/go-plugin has it: an author needs no code generator and no
// library, only a language that reads lines and JSON; a program can be tried by hand; and what is passed is AG-UI's
// JSON anyway. The packages for JSON-RPC that Go has bound neither a line nor what waits to be handled, and hand
// messages on in no order; both matter here more than the 200 lines they would save.
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

// Config says which program is an agent, or has tools.
type Config struct {
	Info plugins.Info // what the plugin is called and how long it may take; the program may describe it

	Command []string          // the program, looked up in our PATH, and its arguments
	Dir     string            // where it runs; default where we do
	Env     map[string]string // its environment beside PATH, HOME and LANG: it sees nothing else of ours

	Start time.Duration // how long it may take from its start to its answer to initialize; default 10s
	Stop  time.Duration // how long it may take to end a cancelled run, and to end itself once its input is closed; default 5s
	Log   *slog.Logger  // takes what it writes to its standard error; default slog.Default
}

// Agent is an agent that is a program.
type Agent struct {
	info    plugins.Info
	program *program
}

// Findable fails when there is no such program.
func (a *Agent) Findable() error { return child.Find(a.program.cfg.Command, a.program.cfg.Dir) }

var (
	_ plugins.Agent   = (*Agent)(nil)
	_ plugins.Starter = (*Agent)(nil)
	_ plugins.Closer  = (*Agent)(nil)
	_ plugins.Checker = (*Agent)(nil)

	_ plugins.Reporter = (*Agent)(nil)
	_ plugins.Reporter = (*Toolbox)(nil)
)

// NewAgent returns the agent that a program is. It starts nothing: Start does, or the first run.
func NewAgent(cfg Config) (*Agent, error) {
	p, err := newProgram(cfg)
	if err != nil {
		return nil, err
	}
	return &Agent{info: cfg.Info, program: p}, nil
}

// Info describes the agent. A description that was not configured is the program's own, once it has been started.
func (a *Agent) Info() plugins.Info {
	info := a.info
	info.External = true
	if h := a.program.said.Load(); h != nil && info.Description == "" && h.Agent != nil {
		info.Description = h.Agent.Description
	}
	return info
}

// Start starts the program and waits until it is ready. It fails when there is no such program, and when it is no agent;
// then the program has ended.
func (a *Agent) Start(ctx context.Context) error {
	return a.program.open(ctx, func(h *hello) error {
		if h.Agent == nil {
			return errors.New("the program says in its answer to initialize that it is no agent")
		}
		return nil
	})
}

// Check fails while the program cannot be started.
func (a *Agent) Check(context.Context) error { return a.program.check() }

// Health tells whether the program runs.
func (a *Agent) Health() *plugins.Health { return a.program.health() }

// Close ends the program and waits for its end.
func (a *Agent) Close() error {
	a.program.close()
	return nil
}

// Run has the program work for run.
func (a *Agent) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	c, err := a.program.connect(ctx)
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
	}{inputOf(run.Input)})})
	select {
	case m := <-s.result:
		if m.ID == nil { // no answer of the program's: what it said has failed the run, and it works on
			c.cancel(s.id, s.answered, errMistaken, about...)
		} else {
			c.forget(s.id)
		}
		return outputOf(m)
	case <-ctx.Done():
		c.cancel(s.id, s.answered, context.Cause(ctx), about...)
		return agui.WorkerOutput{}, context.Cause(ctx)
	}
}

// errMistaken is why a program is told to stop whose messages could not be taken.
var errMistaken = errors.New("what the program said could not be taken")

// errReturned is why what a program has left undone is ended.
var errReturned = errors.New("the agent has returned")

// outputOf reads a program's answer to run: a WorkerAgentOutput, a text, or nothing.
func outputOf(m message) (agui.WorkerOutput, error) {
	var out agui.WorkerOutput
	if m.Error != nil {
		return out, m.Error.cause()
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

// input is plugins.Input as a program reads it.
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

func inputOf(in plugins.Input) input {
	return input{
		Query: in.Query, Messages: list(in.Messages), State: object(in.State), Tools: list(in.Tools),
		Context: list(in.Context), ContextItemIDs: list(in.ContextItemIDs), ForwardedProps: in.ForwardedProps,
		ThreadID: in.ThreadID, RunID: in.RunID, User: in.User, Project: in.Project, Node: in.Node, Execution: in.Execution,
	}
}

// list is never null in JSON.
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
