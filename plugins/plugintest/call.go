package plugintest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// Messages returns the newest messages, beginning with the instructions.
func (h *host) Messages(_ context.Context, limit int) (list []agui.Message, more bool, err error) {
	if h.parent != nil {
		return []agui.Message{{ID: "query-" + h.subagent, Role: agui.RoleUser, Content: h.query}}, false, nil
	}
	all := h.s.cfg.Messages
	first := 0
	if limit > 0 {
		first = max(len(all)-limit, 0)
	}
	for _, m := range all[:first] {
		if m.Role == agui.RoleSystem || m.Role == agui.RoleDeveloper {
			list = append(list, m)
		}
	}
	return append(list, all[first:]...), first > 0, nil
}

func (h *host) OpenCalls(ctx context.Context, parent string, calls []plugins.Use) error {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	for _, u := range calls {
		rec, err := h.recall(ctx, u)
		if err != nil {
			return err
		}
		switch {
		case rec.id != "":
			rec.hash = u.Hash() // of an announced call
			continue
		case u.ID != "":
			return &plugins.Error{Code: "unknown_call", Message: fmt.Sprintf("no Do has recorded the call %q", u.ID)}
		}
		rec.id = h.s.id("call")
		if err := h.emit(
			agui.ToolCallStart{ToolCallID: rec.id, ToolCallName: u.Name, ParentMessageID: parent},
			agui.ToolCallArgs{ToolCallID: rec.id, Delta: string(u.Request)},
			agui.ToolCallEnd{ToolCallID: rec.id},
		); err != nil {
			return err
		}
	}
	return nil
}

func (h *host) CallTool(ctx context.Context, u plugins.Use) (out agui.ToolOutput, err error) {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	rec, err := h.recall(ctx, u)
	if err != nil {
		return out, err
	}
	if rec.done {
		err := json.Unmarshal(rec.output, &out)
		return out, err
	}
	blank := agui.ToolOutput{ToolName: u.Name, ToolCallID: rec.id}
	if u.Edited != nil {
		u.Request = u.Edited
	}
	if isObject(u.Request) {
		blank.ToolCallArgs = u.Request
	}
	if u.Approval != "" {
		if ok, err := h.approved(ctx, u, rec); err != nil {
			return out, err
		} else if !ok {
			u.Output = &agui.ToolOutput{
				Status: agui.StatusFailure, ResultSummary: "the call was not approved", Error: &agui.OutputError{Code: "denied", Message: "the call was not approved"},
			}
		}
	}
	tool := h.tool(u.Name)
	if tool == nil && h.offers(u.Name) && blank.ToolCallArgs != nil && u.Output == nil {
		if !h.s.owed(rec.id) {
			asks := agui.Interrupt{ID: rec.id, Reason: "tool_call", ToolCallID: rec.id}
			h.s.open = append(h.s.open, question{rec: rec, place: u.Place, interrupt: asks, call: blank})
		}
		return out, plugins.ErrWaiting
	}
	switch agent := h.agentOf(u.Name); {
	case u.Output != nil:
		out = *u.Output
		out.ToolName, out.ToolCallID, out.ToolCallArgs = blank.ToolName, blank.ToolCallID, blank.ToolCallArgs
		out.Status = cmp.Or(out.Status, agui.StatusSuccess)
	case tool == nil && agent != nil:
		if out, err = h.answerAs(ctx, agent, blank, u); err != nil {
			return agui.ToolOutput{}, err
		}
	default:
		again := rec.begun && !h.s.cfg.again
		rec.begun = true
		asks := &asking{host: h, use: u}
		_ = h.unlocked(func() error {
			out = h.result(ctx, tool, blank, again, asks)
			return nil
		})
		if asks.waits.Load() {
			return agui.ToolOutput{}, plugins.ErrWaiting
		}
	}
	since := len(h.s.events)
	shown := out
	shown.Parts = nil // they are in the event
	if err := h.emit(agui.ToolCallResult{
		MessageID:  h.s.id("result"),
		ToolCallID: rec.id,
		Content:    out.ResultSummary,
		Parts:      out.Parts,
		Output:     &shown,
	}); err != nil {
		return agui.ToolOutput{}, err
	}
	return out, h.keep(rec, encode(out), since)
}

// approved asks a person whether a call may be made. The caller holds h.s.mu.
func (h *host) approved(ctx context.Context, u plugins.Use, call *record) (bool, error) {
	q := agui.Interrupt{Reason: "tool_call", ToolCallID: call.id, Message: u.Approval}
	var a plugins.Answer
	err := h.unlocked(func() (err error) {
		a, err = h.Ask(ctx, plugins.Use{Place: u.Inside("approval")}, q)
		return err
	})
	var given struct{ Approved bool }
	return err == nil && !a.Cancelled && json.Unmarshal(a.Payload, &given) == nil && given.Approved, err
}

// GuardAgent executes an agent of the test as a guard.
func (h *host) GuardAgent(ctx context.Context, u plugins.Use, query string) (agui.WorkerOutput, error) {
	agent := h.agentOf(u.Name)
	if agent == nil {
		return agui.WorkerOutput{}, &plugins.Error{Code: "unknown_agent", Message: fmt.Sprintf("there is no agent %q", u.Name)}
	}
	h.s.mu.Lock()
	in := h.input(query, u.Name)
	h.s.mu.Unlock()
	return plugins.ExecuteGuard(ctx, agent, &host{ctx: ctx, s: h.s, agent: u.Name, parent: h, subagent: h.subagent, query: query}, in)
}

// FitArgs returns the arguments unchanged, as the tools of a test get them.
func (h *host) FitArgs(_ string, args json.RawMessage) json.RawMessage { return args }

// ClientResult finds the result of a call that the client has made.
func (h *host) ClientResult(tool, call string) (found agui.Message, ok bool) {
	if h.tool(tool) != nil || !h.offers(tool) {
		return found, false
	}
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	for _, m := range h.s.fold.Messages() {
		if m.Role == agui.RoleTool && m.ToolCallID == call {
			found = m
		}
	}
	return found, true
}

// GuardTool calls a tool of the test as a guard.
func (h *host) GuardTool(ctx context.Context, u plugins.Use) (agui.ToolOutput, error) {
	tool := h.tool(u.Name)
	if tool == nil {
		return agui.ToolOutput{}, &plugins.Error{Code: "unknown_tool", Message: fmt.Sprintf("there is no tool %q", u.Name)}
	}
	return callTool(ctx, tool, &plugins.Call{
		ID: "guard", Args: u.Request, ThreadID: h.s.in.ThreadID, RunID: h.s.in.RunID, User: h.s.in.User, Project: h.s.in.Project,
	})
}

// offers reports whether the client offers a tool.
func (h *host) offers(name string) bool {
	return slices.ContainsFunc(h.s.in.Tools, func(t agui.Tool) bool { return t.Name == name })
}

func (h *host) tool(name string) plugins.Tool {
	i := slices.IndexFunc(h.s.cfg.Tools, func(t plugins.Tool) bool { return t.Info().Name == name })
	if i < 0 {
		return nil
	}
	return h.s.cfg.Tools[i]
}

// asking is how a tool asks a person and keeps a value during a call.
type asking struct {
	host  *host
	use   plugins.Use // the call
	waits atomic.Bool // an answer is missing
}

func (a *asking) ask(ctx context.Context, tool plugins.Tool, callID, key string, q agui.Interrupt) (plugins.Answer, error) {
	if !tool.Info().Idempotent {
		return plugins.Answer{}, &plugins.Error{Code: "input_declined", Message: "only an idempotent tool can ask a person"}
	}
	q.ToolCallID = callID
	answer, err := a.host.Ask(ctx, plugins.Use{Place: a.use.Question(key)}, q)
	if errors.Is(err, plugins.ErrWaiting) {
		a.waits.Store(true)
	}
	return answer, err
}

const keptPlace = "kept"

// kept returns the value that the call has kept, or nil.
func (a *asking) kept() json.RawMessage {
	a.host.s.mu.Lock()
	defer a.host.s.mu.Unlock()
	rec := a.host.s.records[a.use.Inside(keptPlace)]
	if rec == nil || string(rec.output) == "null" {
		return nil
	}
	return rec.output
}

func (a *asking) keep(ctx context.Context, value json.RawMessage) error {
	a.host.s.mu.Lock()
	defer a.host.s.mu.Unlock()
	rec, err := a.host.recall(ctx, plugins.Use{Place: a.use.Inside(keptPlace)})
	if err != nil {
		return err
	}
	return a.host.keep(rec, encode(value), len(a.host.s.events))
}

// result makes the call. again means that a crash interrupted it before.
func (h *host) result(ctx context.Context, tool plugins.Tool, blank agui.ToolOutput, again bool, asks *asking) agui.ToolOutput {
	switch {
	case blank.ToolCallArgs == nil && (tool != nil || h.offers(blank.ToolName)):
		return failed(blank, errors.New("the arguments are not an object"), "invalid_arguments")
	case tool == nil:
		return failed(blank, fmt.Errorf("there is no tool %q", blank.ToolName), "unknown_tool")
	case again && !tool.Info().Idempotent && asks.kept() == nil:
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
		Progress: func(fraction float64, message string) {
			_ = h.Emit(agui.Progress(h.s.in.Node, fraction, message)) // fails if the run is over
		},
		Asks: func(key string, q agui.Interrupt) (plugins.Answer, error) {
			return asks.ask(ctx, tool, blank.ToolCallID, key, q)
		},
		Kept:  asks.kept(),
		Keeps: func(value json.RawMessage) error { return asks.keep(ctx, value) },
	})
	if err != nil {
		return failed(blank, err, "tool_failed")
	}
	out.ToolName, out.ToolCallID, out.ToolCallArgs = blank.ToolName, blank.ToolCallID, blank.ToolCallArgs
	out.Settle()
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

// isObject reports whether raw, which is valid JSON, is an object.
func isObject(raw json.RawMessage) bool { return bytes.HasPrefix(bytes.TrimSpace(raw), []byte{'{'}) }

func (h *host) agentOf(name string) plugins.Agent {
	i := slices.IndexFunc(h.s.cfg.Agents, func(a plugins.Agent) bool { return a.Info().Name == name })
	if i < 0 {
		return nil
	}
	return h.s.cfg.Agents[i]
}

// answerAs answers a call with an agent's output. The caller holds h.s.mu.
func (h *host) answerAs(ctx context.Context, a plugins.Agent, blank agui.ToolOutput, u plugins.Use) (agui.ToolOutput, error) {
	var args struct {
		Query *string `json:"query"`
	}
	if blank.ToolCallArgs == nil || json.Unmarshal(u.Request, &args) != nil || args.Query == nil {
		return failed(blank, errors.New("the arguments must be an object with the string query"), "invalid_arguments"), nil
	}
	use := plugins.Use{Place: u.Inside("agent"), Name: u.Name, Request: encode(*args.Query)}
	out, err := h.callAgent(ctx, a, agui.SubagentStarted{ParentToolCallID: blank.ToolCallID}, use, u.Inside(""), *args.Query)
	if shown, ok := errors.AsType[*plugins.Error](err); ok && h.over() == nil && shown.Code != "replay_mismatch" {
		return failed(blank, shown, ""), nil
	}
	blank.Status, blank.ResultSummary, blank.UIHints = agui.StatusSuccess, out.Answer, out.UIHints
	if out.Status == agui.StatusPartialSuccess {
		blank.Status = agui.StatusPartial
	}
	return blank, err
}

func (h *host) CallAgent(ctx context.Context, parent string, u plugins.Use, query string) (agui.WorkerOutput, error) {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	agent := h.agentOf(u.Name)
	if agent == nil {
		return agui.WorkerOutput{}, &plugins.Error{Code: "unknown_agent", Message: fmt.Sprintf("there is no agent %q", u.Name)}
	}
	return h.callAgent(ctx, agent, agui.SubagentStarted{ParentMessageID: parent}, u, u.Inside(""), query)
}

// callAgent runs an agent whose places begin with within. The caller holds h.s.mu.
func (h *host) callAgent(
	ctx context.Context, agent plugins.Agent, opened agui.SubagentStarted, u plugins.Use, within, query string,
) (out agui.WorkerOutput, err error) {
	rec, err := h.recall(ctx, u)
	if err != nil {
		return out, err
	}
	if rec.done {
		err := json.Unmarshal(rec.output, &out)
		return out, err
	}
	ctx, cancel := h.bound(ctx)
	defer cancel()
	opened.Name = u.Name
	child, err := h.startAgent(ctx, rec, opened, query)
	if err != nil {
		return out, err
	}
	in := child.input(query, child.subagent)
	err = h.unlocked(func() (err error) {
		out, err = plugins.Execute(ctx, agent, child, in)
		return err
	})
	since := len(h.s.events)
	if n := since - 1; child.wrote == since && child.kept < since && h.s.events[n].Type() == agui.TypeTextMessageEnd {
		since = n // a server stores it together with the agent's end
	}
	if err := child.finishAgent(err, rec, within); err != nil {
		return out, err
	}
	return out, h.keep(rec, encode(out), since)
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

// startAgent starts a sub-agent, or resumes the record's open one. The caller holds h.s.mu, as for the two methods below.
func (h *host) startAgent(ctx context.Context, rec *record, opened agui.SubagentStarted, query string) (*host, error) {
	if rec.id == "" {
		rec.id = h.s.id("subagent")
	}
	child := &host{ctx: ctx, s: h.s, agent: opened.Name, parent: h, subagent: rec.id, query: query}
	if h.s.subagentOpen(child.subagent) {
		return child, nil
	}
	opened.ParentSubagentRunID = h.subagent
	return child, child.emit(opened)
}

// input returns a sub-agent's input.
func (h *host) input(query, subagent string) plugins.Input {
	in := h.s.in
	return plugins.Input{
		Query:     query,
		State:     h.s.fold.State(),
		ThreadID:  in.ThreadID,
		RunID:     in.RunID,
		User:      in.User,
		Project:   in.Project,
		Node:      in.Node,
		Subagent:  subagent,
		Execution: 1,
	}
}

// finishAgent closes the sub-agent and its open parts unless it waits or resumes later, and returns the caller's error for
// err. A failed sub-agent gets a new id when it is called again.
func (h *host) finishAgent(err error, rec *record, inside string) error {
	base := agui.Base{Metadata: encode(map[string]string{"name": h.agent})}
	switch {
	case err == nil:
		h.s.closeMessages(h.subagent, agui.WorkerOutput{Status: agui.StatusSuccess})
		return h.emit(agui.SubagentFinished{Base: base})
	case errors.Is(err, plugins.ErrWaiting), h.over() != nil:
		return err
	}
	why := agentError(err)
	rec.id = ""
	h.s.withdraw(inside)
	h.s.closeMessages(h.subagent, agui.WorkerOutput{Status: agui.StatusFailed, Error: why})
	if err := h.emit(agui.SubagentError{Base: base, Message: why.Message, Code: why.Code}); err != nil {
		return err
	}
	return &plugins.Error{Code: why.Code, Message: why.Message, Retryable: why.Retryable}
}

// subagentOpen reports whether the sub-agent has started in this span and is not closed.
func (s *session) subagentOpen(id string) bool {
	return slices.ContainsFunc(s.verifier.Closers(), func(ev agui.Event) bool {
		return ev.Type() == agui.TypeSubagentFinished && ev.Common().SubagentRunID == id
	})
}
