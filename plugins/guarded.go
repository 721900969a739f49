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

// fresh is the part of a thread that is new to the agent.
type fresh struct {
	Text         string       `json:"text,omitempty"`
	IDs          []string     `json:"ids,omitempty"`          // of the messages with the text and the files
	Files        []Attachment `json:"files,omitempty"`        // of these messages
	Instructions string       `json:"instructions,omitempty"` // of clients, which are not rewritten or retracted
	Query        string       `json:"query,omitempty"`        // another text, of a workflow's node
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
		f, query := freshOf(msgs[answered+1:]), c.run.Input.Query
		isLast := func(m agui.Message) bool { return m.Role == agui.RoleUser && m.Text() == query }
		if query != "" && !slices.ContainsFunc(msgs[answered+1:], isLast) {
			f.Query = query
		}
		return f, nil
	}
}

// freshOf returns what messages have from people, clients and tools: all but the messages of agents.
func freshOf(msgs []agui.Message) (f fresh) {
	var all, instructions []string
	for i := range msgs {
		m := &msgs[i]
		switch {
		case author(m.Metadata) != "", slices.ContainsFunc(m.ToolCalls, func(c agui.ToolCall) bool { return author(c.Metadata) != "" }):
		case m.Role == agui.RoleSystem, m.Role == agui.RoleDeveloper:
			instructions = append(instructions, messageTexts(m)...)
		default:
			f.IDs = append(f.IDs, m.ID)
			if m.Role == agui.RoleUser {
				f.Files = append(f.Files, Attachments(m)...)
			}
			all = append(all, strings.Join(messageTexts(m), "\n"))
		}
	}
	f.Text, f.Instructions = strings.Join(all, "\n\n"), strings.Join(instructions, "\n")
	return f
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
	if err := c.beside(ctx, f.Instructions); err != nil || f.Query == "" {
		return err
	}
	p, err := c.pass(ctx, c.run.guards.Input, Subject{On: GuardInput, Input: f.Query}, nil)
	if c.run.Input.Query = f.Query; p.rewritten {
		c.run.Input.Query = p.text
	}
	return err
}

// beside checks what clients give the agent beside their messages.
func (c checker) beside(ctx context.Context, instructions string) error {
	in := &c.run.Input
	list := append([]string{instructions}, textsOf(in.Context, in.Tools, in.ContextItemIDs, in.ForwardedProps, in.State)...)
	return c.passFixed(ctx, GuardInput, list, nil, "what the client has sent beside its messages")
}

// appended checks messages that were appended, and returns those that the guards leave.
func (c checker) appended(ctx context.Context, u Use, msgs []agui.Message) ([]agui.Message, error) {
	if len(c.run.guards.Input) == 0 {
		return msgs, nil
	}
	ctx, f := c.scope(ctx, u.path(), GuardInput), freshOf(msgs)
	m, err := c.passMessages(ctx, f)
	if err == nil {
		err = c.passFixed(ctx, GuardInput, []string{f.Instructions}, nil, "instructions")
	}
	if err != nil || m == nil {
		return msgs, err
	}
	left := slices.DeleteFunc(slices.Clone(msgs), func(m agui.Message) bool { return slices.Contains(f.IDs, m.ID) })
	return append(left, *m), nil
}

// given checks the texts of a person's answer, or of the result of a call that the client has made.
func (c checker) given(ctx context.Context, u Use, list []string, ids []string, what string) error {
	if len(c.run.guards.Input) == 0 {
		return nil
	}
	return c.passFixed(c.scope(ctx, u.path(), GuardInput), GuardInput, list, ids, what)
}

// result checks the result of a call that the client has made.
func (c checker) result(ctx context.Context, u Use, out *agui.ToolOutput) error {
	h, ok := c.run.host.(guardCaller)
	if !ok || len(c.run.guards.Input) == 0 || u.Output != nil {
		return nil
	}
	message, clients := h.ClientResult(u.Name, out.ToolCallID)
	if !clients {
		return nil
	}
	var ids []string
	if message != "" {
		ids = append(ids, message)
	}
	return c.given(ctx, u, resultTexts(out), ids, "the result of a client's tool")
}

// passMessages asks the guards about messages. It returns the message that replaces them if they are rewritten, or nil.
func (c checker) passMessages(ctx context.Context, f fresh) (*agui.Message, error) {
	if len(f.IDs) == 0 {
		return nil, nil
	}
	texts := []string{f.Text}
	for _, file := range f.Files {
		list, err := c.fileTexts(ctx, file)
		if err != nil {
			return nil, err
		}
		texts = append(texts, join(list, "\n"))
	}
	p, err := c.pass(ctx, c.run.guards.Input, Subject{On: GuardInput, Input: join(texts, "\n\n")}, f.IDs)
	if err != nil || !p.rewritten {
		return nil, err
	}
	m := &agui.Message{Role: agui.RoleUser, Content: p.text}
	return m, c.replace(ctx, m)
}

// fileTexts returns the name and the media type of an attachment, and its content if that is a text.
func (c checker) fileTexts(ctx context.Context, a Attachment) ([]string, error) {
	a, data, err := c.run.Attachment(ctx, a, MaxTextAttachment)
	if errors.Is(err, ErrNoAttachment) || errors.Is(err, ErrAttachmentTooLarge) {
		err = nil
	}
	return []string{a.Filename, a.MimeType, agui.TextOf(a.MimeType, data)}, err
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
			u.Output = refusedCall(why)
			return nil
		case Rewrite:
			u.Edited, s.Args = v.Args, c.fitted(u.Name, v.Args)
		case AskPerson:
			u.Approval = cmp.Or(v.Reason, fmt.Sprintf("Allow %s?", u.Name))
		}
	}
	return nil
}

// refusedCall returns the result of a call that guards have refused.
func refusedCall(why string) *agui.ToolOutput {
	return &agui.ToolOutput{Status: agui.StatusFailure, ResultSummary: why, Error: &agui.OutputError{Code: codeRefused, Message: why}}
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
	if len(c.run.guards.Tool)+len(c.run.guards.Input) == 0 || u.Output != nil {
		return nil
	}
	return func(args json.RawMessage) (*agui.ToolOutput, error) {
		err := c.given(ctx, u, textsIn(args), nil, "the edited arguments")
		if e, ok := errors.AsType[*Error](err); ok && e.Code == codeRefused {
			return refusedCall(e.Message), nil
		}
		if err != nil {
			return nil, c.run.noteWaiting(err)
		}
		edited := Use{Place: u.Inside("edited"), Name: u.Name, Request: args}
		if err := c.call(ctx, &edited); err != nil {
			return nil, c.run.noteWaiting(err)
		}
		if edited.Output == nil && edited.Edited != nil {
			edited.Output = refusedCall("A guard would rewrite the edited arguments")
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
	return c.passFixed(c.scope(ctx, u.path(), GuardOutput), GuardOutput, textsIn(u.Request), nil, "a question")
}
