package plugintest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

func (h *host) CallTool(ctx context.Context, parent, name string, args json.RawMessage) (out agui.ToolOutput, err error) {
	raw, err := h.recorded(ctx, "CallTool "+name, func(u use) (json.RawMessage, error) {
		id, again, err := h.beginCall(u, parent, name, args)
		if err != nil {
			return nil, err
		}
		blank := agui.ToolOutput{ToolName: name, ToolCallID: id, ToolCallArgs: args}
		tool := h.tool(name)
		if tool == nil && slices.ContainsFunc(h.s.in.Tools, func(t agui.Tool) bool { return t.Name == name }) {
			return nil, h.awaitClient(question{use: u, call: blank})
		}
		out := h.result(ctx, tool, blank, again)
		h.s.mu.Lock()
		defer h.s.mu.Unlock()
		return encode(out), h.emit(agui.ToolCallResult{
			MessageID:  h.s.id("result"),
			ToolCallID: id,
			Content:    out.ResultSummary,
			Output:     &out,
		})
	})
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	return out, err
}

// beginCall writes the call, unless that was done before a crash, and returns its id.
func (h *host) beginCall(u use, parent, name string, args json.RawMessage) (id string, again bool, err error) {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	if id, again = h.s.begun[u]; again {
		return id, true, nil
	}
	id = h.s.id("call")
	h.s.begun[u] = id
	return id, false, h.emit(
		agui.ToolCallStart{ToolCallID: id, ToolCallName: name, ParentMessageID: parent},
		agui.ToolCallArgs{ToolCallID: id, Delta: string(args)},
		agui.ToolCallEnd{ToolCallID: id},
	)
}

func (h *host) tool(name string) plugins.Tool {
	i := slices.IndexFunc(h.s.cfg.Tools, func(t plugins.Tool) bool { return t.Info().Name == name })
	if i < 0 {
		return nil
	}
	return h.s.cfg.Tools[i]
}

func (h *host) awaitClient(q question) error {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	h.s.open = append(h.s.open, q)
	return plugins.ErrWaiting
}

// result makes the call. again says that a crash cut it short before.
func (h *host) result(ctx context.Context, tool plugins.Tool, blank agui.ToolOutput, again bool) agui.ToolOutput {
	switch {
	case tool == nil:
		return failed(blank, fmt.Errorf("there is no tool %q", blank.ToolName), "unknown_tool")
	case again && !tool.Info().Idempotent:
		return failed(blank, errInterrupted, "")
	}
	if limit := tool.Info().Timeout; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	out, err := callTool(ctx, tool, &plugins.Call{
		ID:       blank.ToolCallID,
		Args:     blank.ToolCallArgs,
		ThreadID: h.s.in.ThreadID,
		RunID:    h.s.in.RunID,
		User:     h.s.in.User,
		Project:  h.s.in.Project,
	})
	if err != nil {
		return failed(blank, err, "tool_failed")
	}
	out.ToolName, out.ToolCallID, out.ToolCallArgs = blank.ToolName, blank.ToolCallID, blank.ToolCallArgs
	if out.Status == "" {
		out.Status = agui.StatusSuccess
	}
	return out
}

func callTool(ctx context.Context, tool plugins.Tool, call *plugins.Call) (out agui.ToolOutput, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &plugins.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return tool.Call(ctx, call)
}

func (h *host) CallAgent(ctx context.Context, parent, name, query string) (out agui.WorkerOutput, err error) {
	raw, err := h.recorded(ctx, "CallAgent "+name, func(u use) (json.RawMessage, error) {
		i := slices.IndexFunc(h.s.cfg.Agents, func(a plugins.Agent) bool { return a.Info().Name == name })
		if i < 0 {
			return nil, &plugins.Error{Code: "unknown_agent", Message: fmt.Sprintf("there is no agent %q", name)}
		}
		ctx, cancel := h.bound(ctx)
		defer cancel()
		child, err := h.startAgent(ctx, u, parent, name)
		if err != nil {
			return nil, err
		}
		out, err := plugins.Execute(ctx, h.s.cfg.Agents[i], plugins.NewRun(child, child.input(query)))
		return encode(out), child.finishAgent(err)
	})
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	return out, err
}

// bound returns a context that ends with ctx, with the call, and with cancel.
func (h *host) bound(ctx context.Context) (_ context.Context, cancel func()) {
	ctx, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(h.ctx, func() { end(h.over()) })
	return ctx, func() {
		stop()
		end(plugins.ErrEnded)
	}
}

// startAgent starts a sub-agent, or goes on in the one of that use when it is open.
func (h *host) startAgent(ctx context.Context, u use, parent, name string) (*host, error) {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	child := newHost(ctx, h.s, name)
	child.parent = h
	child.scope = fmt.Sprintf("%s%s#%d/", h.scope, name, u.n)
	child.subagent = h.s.begun[u]
	if child.subagent == "" {
		child.subagent = h.s.id("subagent")
		h.s.begun[u] = child.subagent
	}
	if h.s.subagentOpen(child.subagent) {
		return child, nil
	}
	return child, child.emit(agui.SubagentStarted{
		Name:                name,
		ParentSubagentRunID: h.subagent,
		ParentMessageID:     parent,
	})
}

// input is what a sub-agent is asked.
func (h *host) input(query string) plugins.Input {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	in := h.s.in
	return plugins.Input{
		Query:     query,
		Messages:  []agui.Message{{ID: h.s.id("query"), Role: agui.RoleUser, Content: query}},
		State:     h.s.fold.State(),
		ThreadID:  in.ThreadID,
		RunID:     in.RunID,
		User:      in.User,
		Project:   in.Project,
		Node:      in.Node,
		Execution: 1,
	}
}

// finishAgent closes the sub-agent and what it left open, unless it waits or goes on later. It returns
// what its caller gets for err.
func (h *host) finishAgent(err error) error {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	base := agui.Base{Metadata: encode(map[string]string{"name": h.agent})}
	switch {
	case err == nil:
		h.s.closeMessages(h.subagent, agui.WorkerOutput{Status: agui.StatusSuccess})
		return h.emit(agui.SubagentFinished{Base: base})
	case errors.Is(err, plugins.ErrWaiting), h.over() != nil:
		return err
	}
	why := agentError(err)
	h.s.closeMessages(h.subagent, agui.WorkerOutput{Status: agui.StatusFailed, Error: why})
	if err := h.emit(agui.SubagentError{Base: base, Message: why.Message, Code: why.Code}); err != nil {
		return err
	}
	return &plugins.Error{Code: why.Code, Message: why.Message, Retryable: why.Retryable}
}

// subagentOpen reports whether a sub-agent of that id has been started and not closed in this span.
func (s *session) subagentOpen(id string) bool {
	return slices.ContainsFunc(s.verifier.Closers(), func(ev agui.Event) bool {
		return ev.Type() == agui.TypeSubagentFinished && ev.Common().SubagentRunID == id
	})
}
