package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// CallTool emits the call, makes it or has the client make it, and records its result.
func (s *step) CallTool(ctx context.Context, parent, name string, args json.RawMessage) (agui.ToolOutput, error) {
	m, release, err := s.use("tool:" + name)
	if err != nil {
		return agui.ToolOutput{}, err
	}
	defer release()
	if m.Done {
		var out agui.ToolOutput
		err := json.Unmarshal(m.Output, &out)
		return out, err
	}
	if len(args) == 0 || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	frontend := slices.ContainsFunc(s.l.input.Tools, func(t agui.Tool) bool { return t.Name == name })
	if m.CallID != "" {
		s.owe(m.CallID)
	} else {
		if err := s.openCall(m, parent, name, args, frontend); err != nil {
			return agui.ToolOutput{}, err
		}
	}
	if frontend {
		return agui.ToolOutput{}, plugins.ErrWaiting
	}
	out, err := s.answerCall(ctx, m, name, args)
	if err != nil {
		return out, err
	}
	return out, s.closeCall(m, name, args, &out)
}

// owe tells the step that it will answer a call which it opened before a crash or a question.
func (s *step) owe(call string) {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	for p := s; p != nil; p = p.parent {
		p.own.Owe(call)
	}
}

// openCall emits START, ARGS and END with the memo that keeps the call's id. It waits until they are stored, so
// that a tool is not called before a crash would know of it.
func (s *step) openCall(m *Memo, parent, name string, args json.RawMessage, frontend bool) error {
	m.CallID = newID()
	rows := []Row{s.keep(m)}
	if frontend {
		s.l.asked.Store(true)
		rows = append(rows, &Interrupt{
			ID: m.CallID, RunKey: m.RunKey, Step: m.Step, Name: m.Name, N: m.N,
			Frontend: true, Status: interruptOpen, CreatedAt: time.Now(),
		})
	}
	evs := append(s.takeHeld(),
		agui.ToolCallStart{ToolCallID: m.CallID, ToolCallName: name, ParentMessageID: parent},
		agui.ToolCallArgs{ToolCallID: m.CallID, Delta: string(args)},
		agui.ToolCallEnd{ToolCallID: m.CallID})
	if frontend { // the span's end stores it before anybody is asked
		return s.l.emit(s, rows, nil, evs...)
	}
	return s.l.wait(func(done func(error)) error { return s.l.emit(s, rows, done, evs...) })
}

// answerCall makes the call of a server tool. Whatever goes wrong with the tool is its output; an error
// means that there is none: the run was stopped, or waits for an approval.
func (s *step) answerCall(ctx context.Context, m *Memo, name string, args json.RawMessage) (agui.ToolOutput, error) {
	tool, ok := s.l.rt.reg.Tool(name)
	if !ok {
		return failure("unknown_tool", fmt.Sprintf("There is no tool %q", name)), nil
	}
	info := tool.Info()
	if err := s.l.rt.graphs.checkArgs(name, args); err != nil {
		return failure("invalid_arguments", err.Error()), nil
	}
	if info.Approval {
		approved, edited, err := s.approve(m, name, args)
		if err != nil {
			return agui.ToolOutput{}, err
		}
		if !approved {
			return failure("denied", "The call was not approved"), nil
		}
		if edited != nil {
			args = edited
		}
		if err := s.l.rt.graphs.checkArgs(name, args); err != nil {
			return failure("invalid_arguments", err.Error()), nil
		}
	}
	limit := info.Timeout
	if limit == 0 {
		limit = s.l.rt.cfg.ToolTimeout
	}
	return s.invoke(ctx, tool, limit, &plugins.Call{
		ID: m.CallID, Args: args, ThreadID: s.l.w.thread.ID, RunID: s.l.run.ID, User: s.l.run.User, Project: s.l.run.Project,
	})
}

// approve asks a person whether the call may be made; an answer may edit its arguments.
func (s *step) approve(call *Memo, name string, args json.RawMessage) (ok bool, edited json.RawMessage, err error) {
	m, release, err := s.use("approve:" + name)
	if err != nil {
		return false, nil, err
	}
	defer release()
	a, err := s.question(m, agui.Interrupt{
		Reason: "tool_call", ToolCallID: call.CallID, Message: fmt.Sprintf("Allow %s?", name),
		Metadata: mustJSON(map[string]any{"toolName": name, "args": args}),
	})
	if err != nil || a.Cancelled {
		return false, nil, err
	}
	var reply struct {
		Approved   bool            `json:"approved"`
		EditedArgs json.RawMessage `json:"editedArgs"`
	}
	if len(a.Payload) > 0 && json.Unmarshal(a.Payload, &reply) != nil {
		return false, nil, nil // anything but a clear yes is a no
	}
	return reply.Approved, reply.EditedArgs, nil
}

type toolResult struct {
	out agui.ToolOutput
	err error
}

// invoke calls the tool on a goroutine of its own, so that one which ignores its context holds up nobody.
func (s *step) invoke(ctx context.Context, tool plugins.Tool, limit time.Duration, call *plugins.Call) (agui.ToolOutput, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTimeout)
	defer cancel()
	result := make(chan toolResult, 1)
	s.l.spawn(func() {
		out, err := callTool(ctx, tool, call)
		result <- toolResult{out, err}
	})
	select {
	case r := <-result:
		return s.settleTool(ctx, tool, r)
	case <-ctx.Done():
	}
	if cause := context.Cause(s.ctx); cause != nil {
		return agui.ToolOutput{}, cause // the step is over: nobody waits for this result
	}
	grace := time.NewTimer(s.l.rt.cfg.Grace)
	defer grace.Stop()
	select {
	case r := <-result:
		return s.settleTool(ctx, tool, r)
	case <-grace.C:
		return failure("timeout", "The tool did not return in time"), nil
	}
}

var errTimeout = errors.New("timed out")

// settleTool turns what a tool returned into its output.
func (s *step) settleTool(ctx context.Context, tool plugins.Tool, r toolResult) (agui.ToolOutput, error) {
	if cause := context.Cause(s.ctx); cause != nil {
		return agui.ToolOutput{}, cause
	}
	if r.err == nil {
		_, r.err = json.Marshal(r.out) // its members may hold anything
	}
	shown, ok := errors.AsType[*plugins.Error](r.err)
	switch {
	case r.err == nil:
		return r.out, nil
	case ok:
		out := failure(shown.Code, shown.Message)
		out.Error.Retryable = shown.Retryable
		return out, nil
	case errors.Is(context.Cause(ctx), errTimeout):
		return failure("timeout", "The tool did not return in time"), nil
	}
	s.l.rt.logFailure("tool failed", tool.Info().Name, r.err)
	return failure("tool_failed", "The tool failed"), nil
}

func callTool(ctx context.Context, tool plugins.Tool, call *plugins.Call) (out agui.ToolOutput, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &plugins.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return tool.Call(ctx, call)
}

func failure(code, message string) agui.ToolOutput {
	if code == "" {
		code = "failed"
	}
	return agui.ToolOutput{
		Status: agui.StatusFailure, ResultSummary: message,
		Error: &agui.OutputError{Code: code, Message: message},
	}
}

// closeCall emits the result and records it.
func (s *step) closeCall(m *Memo, name string, args json.RawMessage, out *agui.ToolOutput) error {
	fill := func() {
		out.ToolName, out.ToolCallID, out.ToolCallArgs = name, m.CallID, nil
		if json.Valid(args) {
			out.ToolCallArgs = args
		}
		if out.Status == "" {
			out.Status = agui.StatusSuccess
		}
	}
	fill()
	err := s.record(m, mustJSON(out), s.result(m, out))
	refused, ok := errors.AsType[*plugins.Error](err)
	if !ok {
		return err
	}
	*out = failure(refused.Code, "The result cannot be shown: "+refused.Message)
	fill()
	return s.record(m, mustJSON(out), s.result(m, out))
}

func (s *step) result(m *Memo, out *agui.ToolOutput) agui.Event {
	shown := *out
	return agui.ToolCallResult{MessageID: newID(), ToolCallID: m.CallID, Content: out.ResultSummary, Output: &shown}
}

// CallAgent runs another agent inside the step, under an id of its own.
func (s *step) CallAgent(ctx context.Context, parent, name, query string) (agui.WorkerOutput, error) {
	m, release, err := s.use("agent:" + name)
	if err != nil {
		return agui.WorkerOutput{}, err
	}
	defer release()
	var out agui.WorkerOutput
	if m.Done {
		err := json.Unmarshal(m.Output, &out)
		return out, err
	}
	agent, ok := s.l.rt.reg.Agent(name)
	if !ok {
		return out, &plugins.Error{Code: "unknown_agent", Message: fmt.Sprintf("There is no agent %q", name)}
	}
	if s.nested() >= maxNested {
		return out, &plugins.Error{Code: "too_deep", Message: fmt.Sprintf("Agents may call each other %d deep", maxNested)}
	}
	sub, err := s.openAgent(ctx, m, agent.Info(), parent)
	if err != nil {
		return out, err
	}
	out, err = plugins.Execute(sub.ctx, agent, plugins.NewRun(sub, plugins.Input{
		Query:    query,
		Messages: []agui.Message{{ID: newID(), Role: agui.RoleUser, Content: query}},
		State:    s.l.currentState(), ThreadID: s.l.w.thread.ID, RunID: s.l.run.ID,
		User: s.l.run.User, Project: s.l.run.Project, Node: s.node, Execution: 1,
	}))
	return out, s.closeAgent(sub, m, name, out, err)
}

// maxNested is how deep sub-agents may be: agents that call each other for ever would fill the log.
const maxNested = 16

// nested is how deep the step is: 0 for a node's own worker.
func (s *step) nested() int {
	n := 0
	for p := s.parent; p != nil; p = p.parent {
		n++
	}
	return n
}

// openAgent announces a sub-agent, unless it is open already because its worker is called again.
func (s *step) openAgent(ctx context.Context, m *Memo, info plugins.Info, parent string) (*step, error) {
	again := m.CallID != ""
	if !again {
		m.CallID = newID()
	}
	sub := newStep(ctx, s.l, s.number, s.node, info.Name)
	sub.subagent, sub.parent = m.CallID, s
	sub.scope = fmt.Sprintf("%s%s#%d/", s.scope, m.Name, m.N)
	opened := agui.SubagentStarted{
		Base: agui.Base{SubagentRunID: m.CallID, Agent: info.Name},
		Name: info.Name, Description: info.Description, ParentSubagentRunID: s.subagent, ParentMessageID: parent,
	}
	l := s.l
	l.mu.Lock()
	isOpen := again && l.w.ver.SubagentOpen(m.CallID)
	if isOpen {
		s.note(opened)
	}
	l.mu.Unlock()
	own := opened
	own.ParentSubagentRunID = "" // that one is the parent's account
	_ = sub.own.Add(own)
	if isOpen {
		return sub, nil
	}
	return sub, l.emit(s, []Row{s.keep(m)}, nil, append(s.takeHeld(), opened)...)
}

// closeAgent ends a sub-agent: with its output, or as failed. One that waits stays open until its step does.
func (s *step) closeAgent(sub *step, m *Memo, name string, out agui.WorkerOutput, err error) error {
	sub.end()
	switch {
	case err == nil:
		m.Done, m.Output = true, mustJSON(out)
		row := s.keep(m)
		return s.l.wait(func(done func(error)) error {
			return sub.leave(row, done, agui.WorkerOutput{Status: agui.StatusSuccess})
		})
	case errors.Is(err, plugins.ErrWaiting):
		s.hold(sub.takeHeld()...)
		return err
	}
	if cause := context.Cause(s.ctx); cause != nil {
		return cause
	}
	shown := s.l.rt.shown(name, err)
	m.CallID = "" // called again after a crash, it is another one
	if err := sub.leave(s.keep(m), nil, agui.WorkerOutput{Status: agui.StatusFailed, Error: shown}); err != nil {
		return err
	}
	return &plugins.Error{Code: shown.Code, Message: shown.Message, Retryable: shown.Retryable}
}

// leave stages what a sub-agent that is over holds and has left open, its own end the last, and queues it
// together with row. done may be nil.
func (s *step) leave(row Row, done func(error), left agui.WorkerOutput) error {
	l := s.l
	held := s.takeHeld()
	l.rt.com.room(l)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := s.parent.closedBy(l); err != nil {
		return err
	}
	it := &item{t: l.t, l: l}
	defer l.rt.com.add(it) // what was numbered is written
	for _, ev := range held {
		if err := l.stage(it, s, ev); err != nil {
			return err
		}
	}
	if err := s.closeOpen(it, left, codeInterrupted, true); err != nil {
		return err
	}
	it.rows = append(it.rows, row)
	if done != nil {
		it.done = append(it.done, done)
	}
	return nil
}

func (l *live) currentState() json.RawMessage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state()
}

// shown is what clients learn of a worker's error: all of a *plugins.Error, and of any other that it failed.
func (rt *Runtime) shown(agent string, err error) *agui.OutputError {
	if e, ok := errors.AsType[*plugins.Error](err); ok {
		code := e.Code
		if code == "" {
			code = "failed"
		}
		return &agui.OutputError{Code: plain(clip(code, 200)), Message: plain(clip(e.Message, maxText)), Retryable: e.Retryable}
	}
	if errors.Is(err, errTimeout) || errors.Is(err, context.DeadlineExceeded) {
		return &agui.OutputError{Code: "timeout", Message: "The agent did not end in time", Retryable: true}
	}
	if errors.Is(err, plugins.ErrCancelled) || errors.Is(err, plugins.ErrStopping) || errors.Is(err, plugins.ErrEnded) {
		return &agui.OutputError{Code: codeInterrupted, Message: "The agent was stopped"}
	}
	rt.logFailure("agent failed", agent, err)
	if _, ok := errors.AsType[*plugins.PanicError](err); ok {
		return &agui.OutputError{Code: "panic", Message: "The agent failed unexpectedly"}
	}
	return &agui.OutputError{Code: "agent_failed", Message: "The agent failed"}
}

// maxText is how long an error's or a question's text may be.
const maxText = 64 << 10

func (rt *Runtime) logFailure(msg, name string, err error) {
	if p, ok := errors.AsType[*plugins.PanicError](err); ok {
		rt.log.Error(msg, "name", name, "error", err, "stack", string(p.Stack))
		return
	}
	rt.log.Warn(msg, "name", name, "error", err)
}
