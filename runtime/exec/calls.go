package exec

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/calls"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/graph"
	"github.com/batonrun/baton/runtime/journal"
	"github.com/batonrun/baton/runtime/observe"
	"github.com/batonrun/baton/runtime/span"
	"github.com/batonrun/baton/runtime/tail"
)

// OpenCalls emits START, ARGS and END of calls, with the memos that hold their ids; an announced call has these already. It
// waits for their places, and until they are stored, so that the log has every call that a tool may have begun before a crash.
func (s *step) OpenCalls(ctx context.Context, parent string, calls []plugins.Use) (err error) {
	if err := s.l.callPlaces.Acquire(ctx, s.w.Depth(), len(calls)); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.l.callPlaces.Release(s.w.Depth(), len(calls))
		}
	}()
	for _, u := range calls {
		s.AwaitTools(u.Name)
	}
	var rows []data.Row
	var evs []agui.Event
	ours := false // some calls are not the client's to answer
	for _, u := range calls {
		m, err := s.em.memo(u)
		switch {
		case err != nil:
			return err
		case m.Done:
			continue
		case m.CallID != "" && (u.ID == "" || m.Hash != ""):
			if err := (&toolCall{s: s, m: m, u: u}).reopen(); err != nil {
				return err
			}
			continue
		case m.CallID != "":
			m.Hash = u.Hash()
			(&toolCall{s: s, m: m, u: u}).owe()
		case u.ID != "" && (s.l.Input.Resumed == nil || s.l.run.Generation > 1):
			return &plugins.Error{Code: "unknown_call", Message: fmt.Sprintf("No Do has kept the call %q", u.ID)}
		default:
			m.CallID, m.Tool = cmp.Or(u.ID, data.NewID()), u.Name // a rerun from a model call does not show calls that it makes again
			evs = append(evs,
				agui.ToolCallStart{ToolCallID: m.CallID, ToolCallName: u.Name, ParentMessageID: parent},
				agui.ToolCallArgs{ToolCallID: m.CallID, Delta: string(u.Request)},
				agui.ToolCallEnd{ToolCallID: m.CallID})
		}
		rows = append(rows, m)
		if u.Edited != nil {
			rows = append(rows, &data.Memo{
				RunKey: m.RunKey, Generation: m.Generation, Step: m.Step, Place: u.Inside(journal.EditedPlace), Done: true, Output: u.Edited,
			})
		}
		if args, ok := s.l.clientTools.mayAnswer(u); ok {
			rows = append(rows, &data.Interrupt{
				ID: m.CallID, RunKey: m.RunKey, Step: m.Step, Place: m.Place,
				Frontend: true, Tool: u.Name, Status: data.InterruptOpen, CreatedAt: time.Now(),
				Body: data.MustJSON(tail.PendingCall(m.CallID, u.Name, args)),
			})
		} else {
			m.Begun, ours = (&toolCall{s: s, m: m, u: u}).beginsAtOnce(), true
		}
	}
	if !ours { // the span's end stores them before the client is asked
		return s.em.put(rows, nil, evs...)
	}
	return s.em.write(rows, evs...)
}

// toolCall is a step's call of a tool, or of an agent as a tool.
type toolCall struct {
	s *step
	m *data.Memo // of the call
	u plugins.Use

	guard   bool // it is a guard's, and not shown
	refused bool // guards have refused the arguments that an approver has edited
}

// owe makes the step owe the result of a call that was opened before.
func (c *toolCall) owe() {
	c.s.l.out.mu.Lock()
	c.s.l.out.span.Own(c.s.w, agui.ToolCallStart{ToolCallID: c.m.CallID})
	c.s.l.out.mu.Unlock()
}

// reopen continues a call that was opened before a crash or a question: the step owes its result. A call that has begun and
// may not be repeated gets an interrupted result here; only its tool says whether it may.
func (c *toolCall) reopen() error {
	c.owe()
	if c.m.Begun {
		if err := c.s.l.plugins.Settle(c.s.w.Ctx, c.u.Name); err != nil {
			return err
		}
	}
	c.s.l.out.mu.Lock()
	repeatable := c.s.l.isRepeatable(c.m)
	c.s.l.out.mu.Unlock()
	if repeatable {
		return nil
	}
	return c.close(span.FailedCall(c.m.CallID, c.u.Name, span.CodeInterrupted).Output)
}

// asksClient reports whether the client has been asked for the call.
func (c *toolCall) asksClient() bool {
	c.s.l.out.mu.Lock()
	defer c.s.l.out.mu.Unlock()
	return c.s.l.out.journal.AsksClient(c.m.CallID)
}

// beginsAtOnce reports whether a call begins as soon as it is open. Other calls first wait for an approval, or run an agent.
func (c *toolCall) beginsAtOnce() bool {
	if c.u.Output != nil || c.u.Approval != "" {
		return false
	}
	if tool, ok := c.s.l.plugins.Tool(c.u.Name); ok {
		return !c.s.approves && !tool.Info().Approval
	}
	_, ok := c.s.l.plugins.Agent(c.u.Name)
	return !ok
}

// CallTool executes an open call and records its result. It fails with [plugins.ErrWaiting] if the client has to answer the call.
func (s *step) CallTool(ctx context.Context, u plugins.Use) (agui.ToolOutput, error) {
	defer s.l.callPlaces.Release(s.w.Depth(), 1)
	var out agui.ToolOutput
	m, err := s.em.memo(u)
	c := &toolCall{s: s, m: m, u: u}
	switch {
	case err != nil:
		return out, err
	case m.Done:
		err := json.Unmarshal(m.Output, &out)
		return out, err
	}
	if _, ok := s.l.clientTools.mayAnswer(u); ok || c.asksClient() {
		return out, plugins.ErrWaiting
	}
	if out, err = c.answer(ctx); err != nil {
		return out, err
	}
	if err := c.close(&out); err != nil {
		return out, err
	}
	return out, s.pass(ctx)
}

func (s *step) toolNode(ctx context.Context, tool string, args json.RawMessage) (agui.ToolOutput, error) {
	if len(args) == 0 || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	u := plugins.Use{Place: "tool:" + tool + "#1", Name: tool, Request: args}
	if err := s.OpenCalls(ctx, "", []plugins.Use{u}); err != nil {
		return agui.ToolOutput{}, err
	}
	return s.CallTool(ctx, u)
}

// answer executes the call of a server tool. A failure of the tool is an output. An error means that there is no output:
// the run was stopped, or waits for an approval or the answer to a question of the tool.
func (c *toolCall) answer(ctx context.Context) (out agui.ToolOutput, err error) {
	s, m := c.s, c.m
	if own := c.u.Output; own != nil {
		return *own, nil
	}
	if _, offered, mistake := s.l.clientTools.fit(c.u); offered { // also if the server has a tool of the name since the run began
		return failure("invalid_arguments", cmp.Or(mistake, errClientTool).Error()), nil
	}
	tool, ok := s.l.plugins.Tool(c.u.Name)
	if !ok {
		return c.answerAs(ctx)
	}
	info := tool.Info()
	if _, err := s.l.offer.Graphs.FitArgs(tool, c.u.Request); err != nil {
		return failure("invalid_arguments", err.Error()), nil
	}
	if ok, err := c.approved(&info); !ok {
		return denied(), err
	}
	if refused, err := c.recheck(); refused != nil || err != nil {
		return *cmp.Or(refused, new(agui.ToolOutput)), err
	}
	args, err := s.l.offer.Graphs.FitArgs(tool, c.executed())
	if err != nil {
		return failure("invalid_arguments", err.Error()), nil
	}
	if !m.Begun {
		m.Begun = true
		if err := s.em.write([]data.Row{new(*m)}); err != nil {
			return agui.ToolOutput{}, err
		}
	}
	return c.invoke(ctx, tool, &plugins.Call{
		ID: m.CallID, Args: args,
		Progress: func(fraction float64, message string) {
			_ = s.Emit(agui.Progress(s.em.node, fraction, data.Clip(message, maxText))) // a call outlives its step only if it was abandoned
		},
	})
}

// invoke calls the tool on its own goroutine, so that a tool that ignores its context blocks nothing else.
func (c *toolCall) invoke(ctx context.Context, tool plugins.Tool, call *plugins.Call) (agui.ToolOutput, error) {
	s := c.s
	info := tool.Info()
	ctx, cancel := context.WithTimeoutCause(ctx, orDefault(info.Timeout, s.l.cfg.ToolTimeout), calls.ErrTimeout)
	defer cancel()
	name, waits := info.Name, new(atomic.Bool)
	call.ThreadID, call.RunID, call.User, call.Project = s.l.out.span.Thread.ID, s.l.run.ID, s.l.run.User, s.l.run.Project
	if !c.guard {
		call.Asks, call.Keeps, call.Idles = c.asks(ctx, &info, waits), c.keep, c.idle
		call.Kept = s.l.out.kept(s.w.Step, c.u)
	}
	var out agui.ToolOutput
	var err error
	for {
		out, err = calls.Do(ctx, s.w.Ctx, &s.l.calls, calls.Tool, name, func() (agui.ToolOutput, error) {
			began := time.Now()
			ctx, end := observe.Begin(ctx, s.l.cfg.Tracer, s.l.op(observe.OpTool, name, call.ID))
			s.l.Rests.Use(s.w.Step, 1, 0)
			out, err := callTool(ctx, tool, call)
			s.l.Rests.Use(s.w.Step, -1, 0)
			how := endOf(c.shown(ctx, err))
			if out.Error != nil && !c.guard {
				how.Code = out.Error.Code
			}
			end(how)
			if measure := s.l.cfg.Measures.Tool; measure != nil {
				measure(err != nil && !waits.Load() || out.Status == agui.StatusFailure, time.Since(began))
			}
			return out, err
		})
		why, interrupted := errors.AsType[*plugins.Interrupted](err)
		if !interrupted || waits.Load() || ctx.Err() != nil {
			break
		}
		if !c.again(&info, why) {
			return *span.FailedCall(call.ID, name, span.CodeInterrupted).Output, nil
		}
		call.Kept = s.l.out.kept(s.w.Step, c.u)
	}
	if cause := context.Cause(s.w.Ctx); cause != nil {
		return agui.ToolOutput{}, cause // the step is over and needs no result
	}
	shown, ok := errors.AsType[*plugins.Error](err)
	switch {
	case waits.Load():
		return out, plugins.ErrWaiting
	case err == nil:
		return out, nil
	case ok:
		return failureOf(shown), nil
	case errors.Is(err, calls.ErrTimeout), errors.Is(context.Cause(ctx), calls.ErrTimeout):
		return failure("timeout", "The tool did not return in time"), nil
	}
	s.l.logFailure("tool failed", calls.Tool, name, c.shown(ctx, err))
	return failure("tool_failed", "The tool failed"), nil
}

// shown returns an error as the log and traces have it.
func (c *toolCall) shown(ctx context.Context, err error) error {
	if c.guard {
		return plugins.GuardFailure(ctx, err)
	}
	return err
}

var errClientTool = errors.New("the tool is the client's, and a guard has changed the call")

func callTool(ctx context.Context, tool plugins.Tool, call *plugins.Call) (out agui.ToolOutput, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &plugins.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return tool.Call(ctx, call)
}

func failure(code, message string) agui.ToolOutput {
	return agui.ToolOutput{Status: agui.StatusFailure, ResultSummary: message, Error: &agui.OutputError{Code: cmp.Or(code, "failed"), Message: message}}
}

func failureOf(e *plugins.Error) agui.ToolOutput {
	out := failure(e.Code, e.Message)
	out.Error.Retryable = e.Retryable
	return out
}

// close emits the result and records it.
func (c *toolCall) close(out *agui.ToolOutput) error {
	s, m := c.s, c.m
	fill := func() {
		if parts, err := agui.ParseParts(out.Parts); err == nil {
			out.Parts = parts
		} else {
			out.Parts = nil
		}
		out.ToolName, out.ToolCallID, out.ToolCallArgs = c.u.Name, m.CallID, span.Args(c.executed())
		out.Settle()
	}
	file, err := c.file(out)
	if err != nil {
		return err
	}
	fill()
	result := span.NewResult(m.CallID, out)
	if !result.IsValid() {
		s.l.logFailure("tool failed", calls.Tool, c.u.Name, errNotJSON)
		*out = failure("tool_failed", "The tool failed")
		fill()
		result = span.NewResult(m.CallID, out)
	}
	err = s.em.record(m, result.Memo(), file, result)
	refused, ok := errors.AsType[*plugins.Error](err)
	if !ok {
		return err
	}
	*out = failure(refused.Code, "The result cannot be shown: "+refused.Message)
	fill()
	result = span.NewResult(m.CallID, out)
	return s.em.record(m, result.Memo(), nil, result)
}

var errNotJSON = errors.New("its output holds what is not JSON")

// explain returns a worker's error as clients see it: all of a *plugins.Error, and no text of any other error.
func (l *Live) explain(agent string, err error) *agui.OutputError {
	if e, ok := errors.AsType[*plugins.Error](err); ok {
		return outputError(e)
	}
	if errors.Is(err, calls.ErrTimeout) || errors.Is(err, context.DeadlineExceeded) {
		return &agui.OutputError{Code: "timeout", Message: "The agent did not end in time", Retryable: true}
	}
	if errors.Is(err, plugins.ErrCancelled) || errors.Is(err, plugins.ErrStopping) || errors.Is(err, plugins.ErrEnded) {
		return &agui.OutputError{Code: span.CodeInterrupted, Message: "The agent was stopped"}
	}
	l.logFailure("agent failed", calls.Agent, agent, err)
	if _, ok := errors.AsType[*plugins.PanicError](err); ok {
		return &agui.OutputError{Code: "panic", Message: "The agent failed unexpectedly"}
	}
	return &agui.OutputError{Code: "agent_failed", Message: "The agent failed"}
}

func outputError(e *plugins.Error) *agui.OutputError {
	return &agui.OutputError{Code: data.Plain(data.Clip(cmp.Or(e.Code, "failed"), 200)), Message: data.Plain(data.Clip(e.Message, maxText)), Retryable: e.Retryable}
}

// maxText is the maximum length of an error's or a question's text.
const maxText = 64 << 10

// logFailure logs the cause of a plugin's failure, which clients do not see.
func (l *Live) logFailure(msg, kind, name string, err error) {
	if p, ok := errors.AsType[*plugins.PanicError](err); ok {
		l.log().Error(msg, kind, name, "error", err, "stack", string(p.Stack))
		return
	}
	l.log().Warn(msg, kind, name, "error", err)
}

// AwaitTools waits for toolboxes that have not settled since the server's start.
func (s *step) AwaitTools(patterns ...string) { s.l.plugins.Await(s.w.Ctx, patterns...) }

// Plugins describes the tools and agents that can be called.
func (s *step) Plugins() (tools, agents []plugins.Info) {
	for _, t := range s.l.plugins.Tools() {
		tools = append(tools, t.Info())
	}
	for _, a := range s.l.plugins.Agents() {
		agents = append(agents, a.Info())
	}
	return tools, agents
}

func (c *toolCall) idle(ctx context.Context, wait func() error) error {
	return c.s.l.Rests.Idle(ctx, c.s.w.Step, 0, wait)
}

// Idle implements host.Idler.
func (s *step) Idle(ctx context.Context, wait func() error) error {
	return s.l.Rests.Idle(ctx, s.w.Step, 1, wait)
}

// WaitForPace implements host.Idler.
func (s *step) WaitForPace(ctx context.Context, until time.Time, wait func() error) error {
	defer calls.StopClock(ctx)()
	defer s.l.Rests.Pace(&until)()
	return s.Idle(ctx, wait)
}

func (c *toolCall) keep(value json.RawMessage) error {
	m, err := c.s.em.memo(plugins.Use{Place: c.u.Inside(journal.KeptPlace)})
	if err != nil {
		return err
	}
	if value == nil {
		value = json.RawMessage("null")
	}
	return c.s.em.record(m, value, nil)
}

// clientTools are the tools that a run's client offers.
type clientTools struct {
	tools   []agui.Tool
	byName  map[string]int // indexes of tools
	schemas graph.ClientTools
}

func newClientTools(tools []agui.Tool) *clientTools {
	ct := &clientTools{tools: tools, byName: make(map[string]int, len(tools))}
	for i := range tools {
		if _, known := ct.byName[tools[i].Name]; !known {
			ct.byName[tools[i].Name] = i
		}
	}
	return ct
}

// mayAnswer reports whether the client has to answer a call, and the call's arguments as they fit the client's tool. A call with
// invalid arguments is its caller's mistake, and the client is not asked, nor for a call that its worker answers or a guard changes.
func (ct *clientTools) mayAnswer(u plugins.Use) (args json.RawMessage, ok bool) {
	args, offered, mistake := ct.fit(u)
	return args, offered && mistake == nil && u.Output == nil && u.Edited == nil && u.Approval == ""
}

// fit reports whether the client offers the tool of a call, and the arguments as they fit it, or the mistake in them.
func (ct *clientTools) fit(u plugins.Use) (args json.RawMessage, offered bool, mistake error) {
	i, ok := ct.byName[u.Name]
	if !ok {
		return nil, false, nil
	}
	args, mistake = ct.schemas.Fit(ct.tools[i].Parameters, u.Request)
	return args, true, mistake
}
