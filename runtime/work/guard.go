package work

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
)

// GuardAgent executes an agent as a guard. Only the calls of its model are shown.
func (s *step) GuardAgent(ctx context.Context, u plugins.Use, query string) (agui.WorkerOutput, error) {
	agent, ok := s.l.plugins.Agent(u.Name)
	if !ok {
		return agui.WorkerOutput{}, &plugins.Error{Code: "unknown_agent", Message: fmt.Sprintf("There is no agent %q", u.Name)}
	}
	if s.nested() >= maxDepth {
		return agui.WorkerOutput{}, errTooDeep
	}
	id := NewID()
	for {
		sub := newStep(ctx, s.l, s.number, s.node, u.Name)
		sub.subagent, sub.parent, sub.within, sub.messages = s.subagent, s, u.Inside(""), asked(id, query)
		out, err := s.guardAgent(ctx, sub, u, agent, query)
		if why, ok := errors.AsType[*plugins.Interrupted](err); ok {
			if err = sub.interrupt(why); err == nil {
				continue
			}
		}
		sub.end()
		return out, err
	}
}

// guardAgent is one call of a guard.
func (s *step) guardAgent(ctx context.Context, sub *step, u plugins.Use, agent plugins.Agent, query string) (agui.WorkerOutput, error) {
	return callPlugin(ctx, s.ctx, &s.l.calls, aWorker, u.Name, func() (agui.WorkerOutput, error) {
		ctx, end := s.l.en.trace(ctx, s.l.op(OpAgent, u.Name, ""))
		out, err := plugins.ExecuteGuard(ctx, agent, sub, plugins.Input{
			Query: query, State: s.l.currentState(), ThreadID: s.l.span.thread.ID, RunID: s.l.run.ID,
			User: s.l.run.User, Project: s.l.run.Project, Node: s.node, Subagent: u.Name, Execution: 1,
			Interruptions: s.l.interruptedBefore(),
		})
		end(endOf(err))
		if _, shown := errors.AsType[*plugins.Error](err); err != nil && !shown && ctx.Err() == nil {
			s.l.logFailure("guard failed", aWorker, u.Name, err)
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
	args, err := s.l.offer.graphs.FitArgs(tool, u.Request)
	if err != nil {
		return agui.ToolOutput{}, &plugins.Error{Code: "invalid_arguments", Message: err.Error()}
	}
	c := &toolCall{s: s, m: &data.Memo{}, u: u, guard: true}
	return c.invoke(ctx, tool, orDefault(tool.Info().Timeout, s.l.en.cfg.ToolTimeout), &plugins.Call{
		ID: NewID(), Args: args, ThreadID: s.l.span.thread.ID, RunID: s.l.run.ID, User: s.l.run.User, Project: s.l.run.Project,
	})
}

// FitArgs returns the arguments as the tool gets them: see [host.GuardCaller].
func (s *step) FitArgs(name string, args json.RawMessage) json.RawMessage {
	s.AwaitTools(name)
	fitted, offered, err := s.l.clientTools.fit(plugins.Use{Name: name, Request: args})
	if tool, ok := s.l.plugins.Tool(name); ok && !offered {
		fitted, err = s.l.offer.graphs.FitArgs(tool, args)
	} else if !offered {
		return args
	}
	if err != nil {
		return args
	}
	return fitted
}

// unjudgedPlace begins the last segment of the place of a memo that names a message which was shown before a guard's verdict. The memo
// is stored with the beginning of the message, and done once the message is allowed or retracted. Places of uses never begin with it.
const unjudgedPlace = "unjudged:"

// unjudged returns the memo of a message that ev begins, if the guards of the step's agent judge it later. l.mu is held.
func (s *step) unjudged(ev agui.Event) []data.Row {
	var id string
	switch e := ev.(type) {
	case agui.TextMessageStart:
		if e.Role == agui.RoleAssistant {
			id = e.MessageID
		}
	case agui.ReasoningMessageStart:
		id = e.MessageID
	}
	if !s.judges || id == "" {
		return nil
	}
	return []data.Row{unjudgedMemo(&s.l.run, s.number, s.within, id)}
}

func unjudgedMemo(run *data.Run, step int, within, id string) *data.Memo {
	return &data.Memo{
		RunKey: run.Key, Generation: run.Generation, Step: step,
		Place: fmt.Sprintf("%s%s%x", within, unjudgedPlace, sha256.Sum256([]byte(id))), Output: mustJSON(id),
	}
}

// judge completes the memos of unjudged messages for which of returns true. It returns these rows, and the ids of the messages that are
// shown and not allowed.
func (l *live) judge(allowed []string, of func(*data.Memo) bool) (rows []data.Row, ids []string) {
	for _, m := range l.journal.records {
		if m.Done || !strings.HasPrefix(m.Place[strings.LastIndexByte(m.Place, '/')+1:], unjudgedPlace) || !of(m) {
			continue
		}
		row := *m
		row.Done = true
		rows = append(rows, &row)
		var id string
		if err := json.Unmarshal(m.Output, &id); err == nil && (l.span.shows(id) || l.span.hiddenUntold(id)) && !slices.Contains(allowed, id) {
			ids = append(ids, id)
		}
	}
	return rows, ids
}

// retractUnjudged stages the retraction of the unjudged messages for which of returns true, and of those that their worker was about to
// retract. The caller holds l.mu if other goroutines have l.
func (l *live) retractUnjudged(it *commit.Item, of func(*data.Memo) bool) error {
	rows, ids := l.judge(nil, of)
	for _, row := range rows {
		it.Rows = append(it.Rows, l.journal.add(row))
	}
	return l.span.retract(it, append(ids, l.span.cut...))
}

// SettleOutput implements host.OutputSettler.
func (s *step) SettleOutput(allowed []string) error {
	l := s.l
	l.source.Room()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.queue(s, nil, nil); err != nil { // a held event may end one of the messages
		return err
	}
	s.judges = false
	rows, ids := l.judge(allowed, func(m *data.Memo) bool {
		return m.Step == s.number && strings.HasPrefix(m.Place, s.within+unjudgedPlace)
	})
	if ids = l.span.withResults(ids); len(ids) > 0 {
		return l.queue(s, rows, nil, agui.Retracted(ids))
	}
	return l.queue(s, rows, nil)
}
