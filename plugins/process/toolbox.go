package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// Toolbox provides the tools of a program. The program's tool add is offered as name.add.
type Toolbox struct {
	info    plugins.Info
	program *program

	mu    sync.Mutex // guards the fields below
	of    *hello     // the response that tools was made from
	tools []plugins.Tool
}

var (
	_ plugins.Toolbox = (*Toolbox)(nil)
	_ plugins.Starter = (*Toolbox)(nil)
	_ plugins.Closer  = (*Toolbox)(nil)
	_ plugins.Settler = (*Toolbox)(nil)
)

// NewToolbox returns the tools of a program, which is started by Start, and after its end by the next call of a tool.
func NewToolbox(cfg Config) (*Toolbox, error) {
	p, err := newProgram(cfg, func(h *hello) error {
		if len(h.Tools) == 0 {
			return errors.New("the program's response to initialize has no tools")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &Toolbox{info: cfg.Info, program: p}, nil
}

// Info describes the toolbox.
func (b *Toolbox) Info() plugins.Info { return b.info }

// Start begins to start the program. It does not wait and does not fail: Check and Health have the error of a program that
// does not exist or has no tools.
func (b *Toolbox) Start(context.Context) error {
	b.program.begin()
	return nil
}

// Settled returns a channel that is closed once the tools are known or the first start has failed.
func (b *Toolbox) Settled() <-chan struct{} { return b.program.settled }

// Health returns whether the program runs.
func (b *Toolbox) Health() *plugins.Health { return b.program.health() }

// Close ends the program as [Agent.Close] does.
func (b *Toolbox) Close(ctx context.Context) error {
	b.program.close(ctx)
	return nil
}

// Renew starts the program anew, as [Agent.Renew] does.
func (b *Toolbox) Renew() error { return b.program.renew() }

// Begin starts the program as [Agent.Begin] does.
func (b *Toolbox) Begin(ctx context.Context) error { return b.program.started(ctx) }

// Tools returns the tools of the program's latest start.
func (b *Toolbox) Tools() []plugins.Tool {
	said := b.program.said.Load()
	b.mu.Lock()
	defer b.mu.Unlock()
	if said == b.of || said == nil {
		return b.tools
	}
	b.of, b.tools = said, nil
	for _, t := range said.Tools {
		b.tools = append(b.tools, &tool{b.program, t.Name, plugins.Info{
			Name: b.info.Name + "." + t.Name, Description: t.Description, Parameters: parameters(t.Parameters),
			Idempotent: t.Idempotent, Approval: t.Approval.needed || b.info.Approval, Approver: t.Approval.by.And(b.info.Approver), Timeout: b.info.Timeout,
		}})
	}
	return b.tools
}

// parameters returns nil for an absent schema.
func parameters(schema json.RawMessage) json.RawMessage {
	if string(schema) == "null" {
		return nil
	}
	return schema
}

// tool is a function of a program.
type tool struct {
	program *program
	name    string // in the program
	info    plugins.Info
}

// Info describes the tool.
func (t *tool) Info() plugins.Info { return t.info }

// Call makes the call in the program.
func (t *tool) Call(ctx context.Context, call *plugins.Call) (agui.ToolOutput, error) {
	c, err := t.program.use(ctx, "tool_unavailable")
	if err != nil {
		return agui.ToolOutput{}, err
	}
	defer c.leave()
	raw, err := c.ask(ctx, "call", struct {
		Tool     string          `json:"tool"`
		Args     json.RawMessage `json:"args"`
		ID       string          `json:"id"`
		ThreadID string          `json:"threadId"`
		RunID    string          `json:"runId"`
		User     string          `json:"user"`
		Project  string          `json:"project"`
	}{t.name, object(call.Args), call.ID, call.ThreadID, call.RunID, call.User, call.Project})
	if errors.Is(err, errCrashed) {
		why := c.interrupted()
		why.Counts = true // a call has no process of its own
		return agui.ToolOutput{}, why
	}
	if err != nil {
		return agui.ToolOutput{}, err
	}
	return resultOf(raw)
}

// resultOf decodes a program's response to call: a ToolAgentOutput, which has a result_summary, a text, or any JSON.
func resultOf(raw json.RawMessage) (agui.ToolOutput, error) {
	var out agui.ToolOutput
	if text := ""; json.Unmarshal(raw, &text) == nil {
		out.ResultSummary = text
		return out, nil
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members["result_summary"] == nil {
		out.ResultSummary = string(raw)
		return out, nil
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, fmt.Errorf("answer to call: %w", err)
	}
	return out, nil
}
