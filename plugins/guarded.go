package plugins

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/batonrun/baton/runtime/agui"
)

// checker asks the guards of a run's agent.
type checker struct{ run *Run }

// fresh is the part of an input that is new to the agent.
type fresh struct {
	Text  string   `json:"text,omitempty"`
	IDs   []string `json:"ids,omitempty"`   // of the messages with the text
	Query string   `json:"query,omitempty"` // another text, of a workflow's node
}

// freshIn returns the part of the thread that the agent has not answered yet. A message that an agent wrote has its name, which no client
// can write.
func (c checker) freshIn(ctx context.Context) (fresh, error) {
	for limit := 10; ; limit *= 10 {
		msgs, more, err := c.run.Messages(ctx, limit)
		if err != nil {
			return fresh{}, err
		}
		answered := -1
		for i := range msgs {
			if m := &msgs[i]; m.Role == agui.RoleAssistant && m.SubagentRunID == "" && author(m.Metadata) == c.run.name {
				answered = i
			}
		}
		if answered < 0 && more {
			continue
		}
		f, query := freshOf(msgs[answered+1:], agentCalls(msgs)), c.run.Input.Query
		isLast := func(m agui.Message) bool { return m.Role == agui.RoleUser && m.Text() == query }
		if query != "" && !slices.ContainsFunc(msgs[answered+1:], isLast) {
			f.Query = query
		}
		return f, nil
	}
}

// freshOf returns the texts of people and clients: of messages, and of instructions, which are not rewritten or retracted.
// A client can bring messages of an assistant and of tools too. Those of agents, with the results of their calls, are not judged.
func freshOf(msgs []agui.Message, calls map[string]bool) (f fresh) {
	var texts []string
	for i := range msgs {
		m := &msgs[i]
		switch m.Role {
		case agui.RoleAssistant, agui.RoleTool:
			if author(m.Metadata) != "" || calls[m.ToolCallID] {
				continue
			}
			f.IDs = append(f.IDs, m.ID)
		case agui.RoleUser:
			f.IDs = append(f.IDs, m.ID)
		case agui.RoleSystem, agui.RoleDeveloper:
		default:
			continue
		}
		if text := m.Text(); text != "" || m.Role != agui.RoleAssistant {
			texts = append(texts, text)
		}
		for _, call := range m.ToolCalls {
			texts = append(texts, call.Name+" "+call.Arguments)
		}
	}
	f.Text = strings.Join(texts, "\n\n")
	return f
}

// agentCalls returns the ids of the tool calls that agents have made.
func agentCalls(msgs []agui.Message) map[string]bool {
	ids := make(map[string]bool)
	for i := range msgs {
		for _, call := range msgs[i].ToolCalls {
			if author(msgs[i].Metadata) != "" || author(call.Metadata) != "" {
				ids[call.ID] = true
			}
		}
	}
	return ids
}

// author returns the agent that wrote a message or made a call, and "" for clients, which cannot write an agent's name.
func author(metadata json.RawMessage) string {
	var made struct {
		Agent string `json:"agent"`
	}
	_ = json.Unmarshal(metadata, &made)
	return made.Agent
}

// input checks the new part of the input, and applies the rewrites of the guards to it.
func (c checker) input(ctx context.Context) error {
	if len(c.run.guards.Input) == 0 {
		return nil
	}
	ctx = c.run.Branch(ctx, "guard input")
	var f fresh // recorded, because the messages are hidden once they are retracted
	if err := c.run.Do(ctx, "input", &f, func(ctx context.Context) (err error) {
		f, err = c.freshIn(ctx)
		return err
	}); err != nil {
		return err
	}
	m, err := c.passMessages(ctx, f)
	if err != nil {
		return err
	}
	if m != nil {
		c.run.rewrote, c.run.rewritten = f.IDs, m
		c.run.Input.Query = m.Content
	}
	if err := c.context(ctx); err != nil || f.Query == "" {
		return err
	}
	p, err := c.pass(ctx, c.run.guards.Input, Subject{On: GuardInput, Input: f.Query}, nil)
	if c.run.Input.Query = f.Query; p.rewritten {
		c.run.Input.Query = p.text
	}
	return err
}

// context checks the context of the request, of which the model's instructions have the text.
func (c checker) context(ctx context.Context) error {
	left := slices.Clone(c.run.Input.Context)
	for i, item := range left {
		p, err := c.pass(ctx, c.run.guards.Input, Subject{On: GuardInput, Input: item.Description + "\n" + item.Value}, nil)
		if err != nil {
			return err
		}
		if p.rewritten {
			left[i] = agui.Context{Value: p.text}
		}
	}
	c.run.Input.Context = left
	return nil
}

// appended checks messages that were appended, and returns those that the guards leave.
func (c checker) appended(ctx context.Context, u Use, msgs []agui.Message) ([]agui.Message, error) {
	if len(c.run.guards.Input) == 0 {
		return msgs, nil
	}
	m, err := c.passMessages(c.inside(ctx, u), freshOf(msgs, nil))
	if err != nil || m == nil {
		return msgs, err
	}
	return []agui.Message{*m}, nil
}

// passMessages asks the guards about messages. It returns the message that replaces them if they are rewritten, or nil.
func (c checker) passMessages(ctx context.Context, f fresh) (*agui.Message, error) {
	if len(f.IDs) == 0 && f.Text == "" {
		return nil, nil
	}
	p, err := c.pass(ctx, c.run.guards.Input, Subject{On: GuardInput, Input: f.Text}, f.IDs)
	if err != nil || !p.rewritten {
		return nil, err
	}
	m := &agui.Message{Role: agui.RoleUser, Content: p.text}
	return m, c.replace(ctx, m)
}

// replace sets m's id, and shows it in the place of messages that were rewritten, unless others need these.
func (c checker) replace(ctx context.Context, m *agui.Message) error {
	return c.run.Do(ctx, "replace", &m.ID, func(context.Context) error {
		c.run.mu.Lock()
		defer c.run.mu.Unlock()
		m.ID = c.run.host.NewID()
		if c.run.Input.Subagent != "" || c.run.Input.Workflow != "" {
			return nil
		}
		if err := c.run.host.Emit(agui.TextMessageStart{MessageID: m.ID, Role: agui.RoleUser}); err != nil {
			return err
		}
		if err := c.run.emitText(m.ID, m.Content); err != nil {
			return err
		}
		return c.run.host.Emit(agui.TextMessageEnd{MessageID: m.ID, Output: &agui.WorkerOutput{Status: agui.StatusSuccess, Answer: m.Content}})
	})
}

// call asks the guards about a tool call, and puts their verdict into u.
func (c checker) call(ctx context.Context, u *Use) error {
	if u.Output != nil {
		return nil
	}
	ctx = c.inside(ctx, *u)
	clients := slices.ContainsFunc(c.run.Input.Tools, func(t agui.Tool) bool { return t.Name == u.Name })
	s := Subject{On: GuardTool, Tool: u.Name, Args: c.fitted(u.Name, u.Request)}
	for i := range c.run.guards.Tool {
		g := &c.run.guards.Tool[i]
		v, err := c.judge(ctx, g, s, nil)
		if err != nil {
			return err
		}
		if clients && v.Verdict != Allow && v.Verdict != Refuse { // the client has the call as it was asked
			v = Verdict{Verdict: Refuse, Reason: fmt.Sprintf("The guard %s can only allow or refuse a call of a client's tool", g.name())}
		}
		switch v.Verdict {
		case Refuse:
			why := cmp.Or(v.Reason, fmt.Sprintf("The guard %s has refused the call", g.name()))
			u.Output = &agui.ToolOutput{Status: agui.StatusFailure, ResultSummary: why, Error: &agui.OutputError{Code: codeRefused, Message: why}}
			return nil
		case Rewrite:
			u.Edited, s.Args = v.Args, c.fitted(u.Name, v.Args)
		case AskPerson:
			u.Approval = cmp.Or(v.Reason, fmt.Sprintf("Allow %s?", u.Name))
		}
	}
	return nil
}

// fitted returns the arguments of a call as its tool gets them, because guards judge the call that is executed.
func (c checker) fitted(tool string, args json.RawMessage) json.RawMessage {
	if h, ok := c.run.host.(guardCaller); ok {
		return h.FitArgs(tool, args)
	}
	return args
}

// recheck returns a function that asks the guards about arguments that an approver has edited. Its output refuses them.
func (c checker) recheck(ctx context.Context, u Use) func(args json.RawMessage) (*agui.ToolOutput, error) {
	if len(c.run.guards.Tool) == 0 || u.Output != nil {
		return nil
	}
	return func(args json.RawMessage) (*agui.ToolOutput, error) {
		edited := Use{Place: u.Inside("edited"), Name: u.Name, Request: args}
		if err := c.call(ctx, &edited); err != nil {
			return nil, c.run.noteWaiting(err)
		}
		if edited.Output == nil && edited.Edited != nil {
			const why = "A guard would rewrite the edited arguments"
			edited.Output = &agui.ToolOutput{Status: agui.StatusFailure, ResultSummary: why, Error: &agui.OutputError{Code: codeRefused, Message: why}}
		}
		return edited.Output, nil
	}
}

// inside returns a context that places uses inside of u.
func (c checker) inside(ctx context.Context, u Use) context.Context {
	s := newScope(c.run, u.path())
	s.do = c.run.scopeOf(ctx).do
	return s.in(ctx)
}

// output checks the texts that a worker which has succeeded has shown, one after the other, and then its answer. A text that is not
// allowed as it is is retracted, and all of them unless the guards alone allow or rewrite them.
func (c checker) output(ctx context.Context, out *agui.WorkerOutput) error {
	if len(c.run.guards.Output) == 0 {
		return nil
	}
	c.run.mu.Lock()
	for c.run.working > 0 {
		c.run.idle.Wait()
	}
	if out.Answer == "" && c.run.last != nil {
		out.Answer = c.run.last.text.String()
	}
	texts, answer, ids := c.texts(out.Answer)
	unfinished := c.run.failed != nil || c.run.waiting
	c.run.mu.Unlock()
	if unfinished {
		return nil
	}
	ctx = c.run.Branch(ctx, "guard output")
	var allowed []string
	asked := false
	for _, m := range texts {
		p, err := c.pass(ctx, c.run.guards.Output, Subject{On: GuardOutput, Output: m.text.String()}, nil)
		if err != nil {
			return c.refuseOutput(p, err)
		}
		if asked = asked || p.asked; !p.rewritten {
			allowed = append(allowed, m.id)
		}
	}
	text := strings.Join(slices.Concat([]string{out.Answer}, out.KeyPoints, out.SuggestedActions), "\n")
	p, err := c.pass(ctx, c.run.guards.Output, Subject{On: GuardOutput, Output: text, Result: out.Result}, nil)
	if p.rewritten && out.Result != nil && err == nil {
		if out.Result = json.RawMessage(p.text); !json.Valid(out.Result) {
			err = &Error{Code: codeRefused, Message: "A guard has rewritten the output to a text that is not JSON"}
		}
	}
	if err != nil {
		return c.refuseOutput(p, err)
	}
	if p.rewritten {
		*out = agui.WorkerOutput{Status: out.Status, Answer: p.text, Result: out.Result}
	}
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	switch {
	case asked || p.asked:
		return c.retractAnswer(nil) // all were retracted while a person decided
	case p.rewritten || c.run.holds:
		return c.retractAnswer(allowed)
	case len(allowed) == len(texts):
		return c.settleShown(ids)
	case answer != nil:
		allowed = append(allowed, answer.id)
	}
	return c.settleShown(allowed)
}

// texts returns the messages with texts that the worker has shown, without the last if it has the answer, which is then the second
// result; and the ids of these and of the shown reasoning. The caller holds r.mu.
func (c checker) texts(answer string) (texts []*message, last *message, ids []string) {
	for _, m := range c.run.shown {
		if m.gone {
			continue
		}
		ids = append(ids, m.id)
		if m.text.Len() > 0 {
			texts = append(texts, m)
		}
	}
	if n := len(texts); n > 0 && !texts[n-1].differsFrom(answer) {
		texts, last = texts[:n-1], texts[n-1]
	}
	return texts, last, ids
}

// refuseOutput retracts all that the worker has shown, after a guard or a person has refused it, or while a person decides.
func (c checker) refuseOutput(p passed, err error) error {
	if errors.Is(err, ErrWaiting) && !p.asked { // for a budget of a guard's model: there is no verdict yet
		return err
	}
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	return cmp.Or(err, c.retractAnswer(nil))
}

// retractAnswer retracts all that the worker has shown except allowed. Its answer becomes another message. The caller holds r.mu.
func (c checker) retractAnswer(allowed []string) error {
	c.run.last = nil
	if m := c.run.open; m != nil && !slices.Contains(allowed, m.id) {
		if err := c.run.end(interrupted(m)); err != nil {
			return err
		}
	}
	c.run.holds = false
	return c.settleShown(allowed)
}

// settleShown retracts the shown messages except allowed. The host knows all of them, also those from before a crash. The
// caller holds r.mu.
func (c checker) settleShown(allowed []string) error {
	if !c.run.streams {
		return nil
	}
	c.run.streams = false
	if h, ok := c.run.host.(interface{ SettleOutput(allowed []string) error }); ok {
		return h.SettleOutput(allowed)
	}
	var ids []string
	for _, m := range c.run.shown {
		if !m.gone && !slices.Contains(allowed, m.id) {
			ids = append(ids, m.id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return c.run.host.Emit(agui.Retracted(ids))
}
