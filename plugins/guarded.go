package plugins

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
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
	ctx = c.scope(ctx, c.run.root.path, GuardInput)
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
	m, err := c.passMessages(c.scope(ctx, u.path(), GuardInput), freshOf(msgs, nil))
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
	ctx = c.scope(ctx, u.path(), GuardTool)
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

// scope returns a context for verdicts, with places below path that [IsVerdict] knows.
func (c checker) scope(ctx context.Context, path, on string) context.Context {
	s := newScope(c.run, path+verdictPlace+on+"/")
	s.do = c.run.scopeOf(ctx).do
	return s.in(ctx)
}

// output checks the answer of a worker that has succeeded, with all members of its output. What the worker said before it stays hidden.
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
	unfinished := c.run.failed != nil || c.run.waiting
	c.run.mu.Unlock()
	if unfinished {
		return nil
	}
	p, err := c.pass(c.scope(ctx, c.run.root.path, GuardOutput), c.run.guards.Output, Subject{On: GuardOutput, Output: outputText(out), Result: out.Result}, nil)
	if p.rewritten && out.Result != nil && err == nil {
		if out.Result = json.RawMessage(p.text); !json.Valid(out.Result) {
			err = &Error{Code: codeRefused, Message: "A guard has rewritten the output to a text that is not JSON"}
		}
	}
	if err != nil {
		return err
	}
	if p.rewritten {
		*out = agui.WorkerOutput{Status: out.Status, Answer: p.text, Result: out.Result}
	}
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	err = c.run.end(nil)
	c.run.holds, c.run.last = false, nil // the answer becomes a message
	return err
}

// outputText returns all texts of an output but its Result, one per line.
func outputText(out *agui.WorkerOutput) string {
	more := []string{out.ResultType}
	switch out.Status {
	case agui.StatusSuccess, agui.StatusPartialSuccess, agui.StatusFailed:
	default:
		more = append(more, out.Status)
	}
	if out.Error != nil {
		more = append(more, out.Error.Code, out.Error.Message)
	}
	more = slices.DeleteFunc(append(more, textsIn(out.UIHints)...), func(s string) bool { return s == "" })
	return strings.Join(slices.Concat([]string{out.Answer}, out.KeyPoints, out.SuggestedActions, more), "\n")
}

// question checks a question of the worker, because it leaves the worker before its answer.
func (c checker) question(ctx context.Context, u Use) error {
	if len(c.run.guards.Output) == 0 {
		return nil
	}
	text := strings.Join(textsIn(u.Request), "\n")
	p, err := c.pass(c.scope(ctx, u.path(), GuardOutput), c.run.guards.Output, Subject{On: GuardOutput, Output: text}, nil)
	if err == nil && p.rewritten {
		err = &Error{Code: codeRefused, Message: "A guard would rewrite a question, which is not possible"}
	}
	return err
}

// textsIn returns all texts of a JSON value, the names of members among them.
func textsIn(raw json.RawMessage) (all []string) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	for {
		switch t, err := d.Token(); t := t.(type) {
		case string:
			all = append(all, t)
		case json.Number:
			all = append(all, t.String())
		default:
			if err != nil {
				return all
			}
		}
	}
}
