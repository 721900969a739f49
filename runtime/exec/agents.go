package exec

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/calls"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/graph"
	"github.com/batonrun/baton/runtime/observe"
)

// maxSubagents is how many agents are called at once at one depth; others wait for a place.
const maxSubagents = 32

var errTooDeep = &plugins.Error{Code: "too_deep", Message: fmt.Sprintf("Agents may call each other %d deep", calls.MaxDepth)}

// CallAgent runs another agent inside the step, under its own id.
func (s *step) CallAgent(ctx context.Context, parent string, u plugins.Use, query string) (agui.WorkerOutput, error) {
	return s.callAgent(ctx, agui.SubagentStarted{ParentMessageID: parent}, u, u.Inside(""), query)
}

// answerAs executes a tool call that names an agent. The agent's answer is the result.
func (c *toolCall) answerAs(ctx context.Context) (agui.ToolOutput, error) {
	s, u := c.s, c.u
	agent, ok := s.l.plugins.Agent(u.Name)
	if !ok {
		return failure("unknown_tool", fmt.Sprintf("There is no tool %q", u.Name)), nil
	}
	query, err := graph.AgentQuery(u.Request)
	if info := agent.Info(); err == nil {
		if ok, err := c.approved(&info); !ok {
			return denied(), err
		}
		if refused, err := c.recheck(); refused != nil || err != nil {
			return *cmp.Or(refused, new(agui.ToolOutput)), err
		}
		query, err = graph.AgentQuery(c.executed())
	}
	if err != nil {
		return failure("invalid_arguments", err.Error()), nil
	}
	request, _ := json.Marshal(query) // a string always encodes; stored records have the hash of this form
	use := plugins.Use{Place: u.Inside("agent"), Name: u.Name, Request: request}
	out, err := s.callAgent(ctx, agui.SubagentStarted{ParentToolCallID: c.m.CallID}, use, u.Inside(""), query)
	shown, failed := errors.AsType[*plugins.Error](err)
	switch {
	case failed && context.Cause(s.w.Ctx) == nil:
		return failureOf(shown), nil
	case err != nil:
		return agui.ToolOutput{}, err
	}
	result := agui.ToolOutput{Status: agui.StatusSuccess, ResultSummary: out.Answer, UIHints: out.UIHints}
	if out.Status == agui.StatusPartialSuccess {
		result.Status = agui.StatusPartial
	}
	return result, nil
}

// callAgent runs an agent. The places of its uses begin with within. opened names the message or the tool call that it belongs to.
func (s *step) callAgent(ctx context.Context, opened agui.SubagentStarted, u plugins.Use, within, query string) (agui.WorkerOutput, error) {
	var out agui.WorkerOutput
	m, err := s.em.memo(u)
	if err != nil {
		return out, err
	}
	if m.Done {
		err := json.Unmarshal(m.Output, &out)
		return out, err
	}
	agent, ok := s.l.plugins.Agent(u.Name)
	if !ok {
		return out, &plugins.Error{Code: "unknown_agent", Message: fmt.Sprintf("There is no agent %q", u.Name)}
	}
	if s.w.Depth() >= calls.MaxDepth {
		return out, errTooDeep
	}
	if err := s.l.agentPlaces.Acquire(ctx, s.w.Depth(), 1); err != nil {
		return out, err
	}
	defer s.l.agentPlaces.Release(s.w.Depth(), 1)
	opened.Name, opened.Description = u.Name, agent.Info().Description
	for {
		sub, err := s.openAgent(ctx, m, opened)
		if err != nil {
			return out, err
		}
		sub.w.Within, sub.messages = within, asked("query-"+sub.w.Subagent, query)
		ctx, end := observe.Begin(sub.w.Ctx, s.l.cfg.Tracer, s.l.op(observe.OpAgent, u.Name, sub.w.Subagent))
		out, err = plugins.Execute(ctx, agent, sub, s.input(query, sub.w.Subagent))
		end(endOf(err))
		if why, ok := errors.AsType[*plugins.Interrupted](err); ok {
			if err = sub.interrupt(why); err == nil {
				continue
			}
		}
		return out, s.closeAgent(sub, m, u.Name, out, err)
	}
}

// input returns the input of a worker that the step's worker calls.
func (s *step) input(query, subagent string) plugins.Input {
	l := s.l
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	return plugins.Input{
		Query: query, State: l.out.span.State(), ThreadID: l.out.span.Thread.ID, RunID: l.run.ID, User: l.run.User, Project: l.run.Project,
		Node: s.em.node, Subagent: subagent, Execution: 1, Interruptions: l.out.interruptions,
	}
}

// asked returns the messages of a worker that gets a query alone.
func asked(id, query string) []agui.Message {
	return []agui.Message{{ID: id, Role: agui.RoleUser, Content: query}}
}

// openAgent announces a sub-agent, unless it is already open because its worker is replayed.
func (s *step) openAgent(ctx context.Context, m *data.Memo, opened agui.SubagentStarted) (*step, error) {
	again := m.CallID != ""
	if !again {
		m.CallID, m.Agent = data.NewID(), opened.Name
	}
	sub := newStep(ctx, s.l, s.w.Step, s.em.node, opened.Name)
	sub.w.Subagent, sub.w.Parent = m.CallID, s.w
	opened.Base, opened.ParentSubagentRunID = agui.Base{SubagentRunID: m.CallID, Agent: opened.Name}, s.w.Subagent
	l := s.l
	l.out.mu.Lock()
	isOpen := again && l.out.span.Ver.SubagentOpen(m.CallID)
	l.out.span.Own(sub.w, opened)
	l.out.mu.Unlock()
	if isOpen {
		return sub, nil
	}
	return sub, s.em.put([]data.Row{new(*m)}, nil, opened)
}

// closeAgent ends a sub-agent with its output, or as failed. A waiting sub-agent stays open until its step ends.
func (s *step) closeAgent(sub *step, m *data.Memo, name string, out agui.WorkerOutput, err error) error {
	sub.em.end()
	switch {
	case err == nil:
		m.Done, m.Output = true, data.MustJSON(out)
		return wait(func(done func(error)) error {
			return sub.em.leave(m, done, agui.WorkerOutput{Status: agui.StatusSuccess})
		})
	case errors.Is(err, plugins.ErrWaiting):
		s.l.out.mu.Lock()
		s.em.held = append(s.em.held, sub.em.takeHeld()...)
		s.l.out.mu.Unlock()
		return err
	}
	if cause := context.Cause(s.w.Ctx); cause != nil {
		return cause
	}
	shown := s.l.explain(name, err)
	m.CallID = "" // if it is called again after a crash, it gets a new id
	if err := sub.em.leave(m, nil, agui.WorkerOutput{Status: agui.StatusFailed, Error: shown}); err != nil {
		return err
	}
	return &plugins.Error{Code: shown.Code, Message: shown.Message, Retryable: shown.Retryable}
}
