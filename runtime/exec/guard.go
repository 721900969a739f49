package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/calls"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/observe"
)

// GuardAgent executes an agent as a guard. Only the calls of its model are shown.
func (s *step) GuardAgent(ctx context.Context, u plugins.Use, query string) (agui.WorkerOutput, error) {
	agent, ok := s.l.plugins.Agent(u.Name)
	if !ok {
		return agui.WorkerOutput{}, &plugins.Error{Code: "unknown_agent", Message: fmt.Sprintf("There is no agent %q", u.Name)}
	}
	if s.w.Depth() >= calls.MaxDepth {
		return agui.WorkerOutput{}, errTooDeep
	}
	id := data.NewID()
	for {
		sub := newStep(ctx, s.l, s.w.Step, s.em.node, u.Name)
		sub.w.Subagent, sub.w.Parent, sub.w.Within, sub.messages = s.w.Subagent, s.w, u.Inside(""), asked(id, query)
		out, err := s.guardAgent(ctx, sub, u, agent, query)
		if why, ok := errors.AsType[*plugins.Interrupted](err); ok {
			if err = sub.interrupt(why); err == nil {
				continue
			}
		}
		sub.em.end()
		return out, err
	}
}

func (s *step) guardAgent(ctx context.Context, sub *step, u plugins.Use, agent plugins.Agent, query string) (agui.WorkerOutput, error) {
	return calls.Do(ctx, s.w.Ctx, &s.l.calls, calls.Agent, u.Name, func() (agui.WorkerOutput, error) {
		ctx, end := observe.Begin(ctx, s.l.cfg.Tracer, s.l.op(observe.OpAgent, u.Name, ""))
		out, err := plugins.ExecuteGuard(ctx, agent, sub, s.input(query, u.Name))
		end(endOf(err))
		if _, shown := errors.AsType[*plugins.Error](err); err != nil && !shown && ctx.Err() == nil {
			s.l.logFailure("guard failed", calls.Agent, u.Name, err)
		}
		return out, err
	})
}

// GuardTool calls a tool as a guard.
func (s *step) GuardTool(ctx context.Context, u plugins.Use) (agui.ToolOutput, error) {
	s.AwaitTools(u.Name)
	tool, ok := s.l.plugins.Tool(u.Name)
	if !ok {
		return agui.ToolOutput{}, &plugins.Error{Code: "unknown_tool", Message: fmt.Sprintf("There is no tool %q", u.Name)}
	}
	args, err := s.l.offer.Graphs.FitArgs(tool, u.Request)
	if err != nil {
		return agui.ToolOutput{}, &plugins.Error{Code: "invalid_arguments", Message: err.Error()}
	}
	c := &toolCall{s: s, m: &data.Memo{}, u: u, guard: true}
	return c.invoke(ctx, tool, &plugins.Call{ID: data.NewID(), Args: args})
}

// ClientResult finds the result of a client's call: see [host.GuardCaller].
func (s *step) ClientResult(tool, call string) (found agui.Message, ok bool) {
	if _, ok := s.l.clientTools.byName[tool]; !ok {
		return found, false
	}
	s.l.out.mu.Lock()
	defer s.l.out.mu.Unlock()
	all := s.l.out.span.Fold.Messages()
	i := slices.IndexFunc(all, func(m agui.Message) bool { return m.Role == agui.RoleTool && m.ToolCallID == call })
	if i >= 0 {
		found = all[i]
	}
	return found, true
}

// FitArgs returns the arguments as the tool gets them: see [host.GuardCaller].
func (s *step) FitArgs(name string, args json.RawMessage) json.RawMessage {
	s.AwaitTools(name)
	fitted, offered, err := s.l.clientTools.fit(plugins.Use{Name: name, Request: args})
	if tool, ok := s.l.plugins.Tool(name); ok && !offered {
		fitted, err = s.l.offer.Graphs.FitArgs(tool, args)
	} else if !offered {
		return args
	}
	if err != nil {
		return args
	}
	return fitted
}
