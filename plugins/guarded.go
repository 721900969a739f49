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
type checker struct {
	run   *Run
	fixed bool // the subject cannot be rewritten
}

// fresh is the part of a thread that is new to the guards of the agent.
type fresh struct {
	Text  string       `json:"text,omitempty"`
	IDs   []string     `json:"ids,omitempty"`   // of the messages with the text and the files
	Files []Attachment `json:"files,omitempty"` // of these messages
	Fixed []string     `json:"fixed,omitempty"` // texts that cannot be rewritten: the rest of these messages, and instructions of clients
	Query string       `json:"query,omitempty"` // another text, of a workflow's node
	Notes []passing    `json:"notes,omitempty"` // of the messages, once the guards have passed them
}

// passing is an agent's record of a message that its guards have passed. It goes with the message.
type passing struct {
	ID   string `json:"id"`
	Key  string `json:"key"`
	Text string `json:"text"`
}

// The texts of a passing.
const (
	passedIt  = "passed"
	passedAll = "passed all" // and everything before it
)

// freshIn returns the part of the thread that the agent's guards have not passed. It reads back to the last message before which they have
// passed everything.
func (c checker) freshIn(ctx context.Context) (fresh, error) {
	for limit := 10; ; limit *= 10 {
		msgs, more, err := c.run.Messages(ctx, limit)
		if err != nil {
			return fresh{}, err
		}
		msgs = slices.DeleteFunc(msgs, func(m agui.Message) bool { return byAgent(&m) })
		keys := make([]string, len(msgs))
		for i := range msgs {
			keys[i] = c.noteKey(&msgs[i])
		}
		notes, err := c.run.Recall(ctx, keys)
		if err != nil {
			return fresh{}, err
		}
		query, all := c.run.Input.Query, false
		var list []agui.Message
		var passed []passing
		for i := len(msgs) - 1; i >= 0 && !all; i-- {
			m, note := &msgs[i], notes[keys[i]]
			if note == "" {
				list, passed = append(list, *m), append(passed, passing{m.ID, keys[i], passedIt})
			}
			if m.Role == agui.RoleUser && m.Text() == query {
				query = "" // it is judged with the message
			}
			all = note == passedAll
		}
		if more && !all && limit < MaxMessages {
			continue
		}
		if whole := all || !more; whole && len(passed) > 0 { // older messages that come into sight later are new
			passed = []passing{{passed[0].ID, passed[0].Key, passedAll}}
		}
		slices.Reverse(list)
		f := freshOf(list)
		f.Query, f.Notes = query, passed
		return f, nil
	}
}

// noteKey returns the key of a passed message: its id, all that can be changed in it, and the guards.
func (c checker) noteKey(m *agui.Message) string {
	texts, fixed := messageTexts(m)
	guards, _ := json.Marshal(c.run.guards.Input) // they have texts and a duration
	return "passed " + m.ID + " " + digest(fmt.Sprintf("%s %q %q", guards, texts, fixed))
}

// freshOf returns what messages have from people, clients and tools: all but the messages of agents.
func freshOf(msgs []agui.Message) (f fresh) {
	var all []string
	for i := range msgs {
		m := &msgs[i]
		if byAgent(m) {
			continue
		}
		texts, fixed := messageTexts(m)
		f.Fixed = append(f.Fixed, fixed...)
		if m.Role == agui.RoleSystem || m.Role == agui.RoleDeveloper {
			f.Fixed = append(f.Fixed, texts...)
			continue
		}
		f.IDs = append(f.IDs, m.ID)
		if m.Role == agui.RoleUser {
			f.Files = append(f.Files, Attachments(m)...)
		}
		all = append(all, join(texts, "\n"))
	}
	f.Text = join(all, "\n\n")
	return f
}

// byAgent reports whether an agent has written a message, or made a call in it. A user's message is the user's, even if an agent's guard has
// rewritten it.
func byAgent(m *agui.Message) bool {
	return m.Role != agui.RoleUser && (author(m.Metadata) != "" || slices.ContainsFunc(m.ToolCalls, func(c agui.ToolCall) bool { return author(c.Metadata) != "" }))
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
	in := &c.run.Input
	m, err := c.passMessages(ctx, &f, textsOf(in.Context, in.Tools, in.ContextItemIDs, in.ForwardedProps, in.State)...)
	if err != nil {
		return err
	}
	if m != nil {
		c.run.rewrote, c.run.rewritten = f.IDs, m
		in.Query = m.Content
	}
	if f.Query != "" {
		p, err := c.pass(ctx, c.run.guards.Input, Subject{On: GuardInput, Input: f.Query}, nil)
		if err != nil {
			return err
		}
		if in.Query = f.Query; p.rewritten {
			in.Query = p.text
		}
	}
	return c.passed(m, f.Notes)
}

// passed remembers that the guards have passed messages, or m, which has replaced them. Messages that were rewritten for a workflow's node
// alone are judged again: the thread still has them.
func (c checker) passed(m *agui.Message, list []passing) error {
	if m != nil && c.run.Input.Workflow != "" || len(list) == 0 {
		return nil
	}
	if m != nil {
		list = []passing{{m.ID, c.noteKey(m), list[0].Text}}
	}
	for _, p := range list {
		if err := c.run.Remember(p.ID, p.Key, p.Text); err != nil {
			return err
		}
	}
	return nil
}

// appended checks messages that were appended, and returns those that the guards leave.
func (c checker) appended(ctx context.Context, u Use, msgs []agui.Message) ([]agui.Message, error) {
	if len(c.run.guards.Input) == 0 {
		return msgs, nil
	}
	f := freshOf(msgs)
	m, err := c.passMessages(c.scope(ctx, u.path(), GuardInput), &f)
	if err != nil {
		return msgs, err
	}
	for i := range msgs {
		f.Notes = append(f.Notes, passing{msgs[i].ID, c.noteKey(&msgs[i]), passedIt})
	}
	if err := c.passed(m, f.Notes); err != nil {
		return msgs, err
	}
	if m != nil {
		msgs = slices.DeleteFunc(slices.Clone(msgs), func(m agui.Message) bool { return slices.Contains(f.IDs, m.ID) })
		msgs = append(msgs, *m)
	}
	return msgs, nil
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
	m, clients := h.ClientResult(u.Name, out.ToolCallID)
	if !clients {
		return nil
	}
	const what = "the result of a client's tool"
	if m.ID == "" {
		return c.given(ctx, u, resultTexts(out), nil, what)
	}
	if err := c.given(ctx, u, resultTexts(out), []string{m.ID}, what); err != nil {
		return err
	}
	return c.passed(nil, []passing{{m.ID, c.noteKey(&m), passedIt}})
}

// passMessages asks the guards about messages, and about the texts that a client sends beside them. It returns the message that replaces them if they
// are rewritten, or nil.
func (c checker) passMessages(ctx context.Context, f *fresh, beside ...string) (*agui.Message, error) {
	texts, fixed, ids := []string{f.Text}, f.Fixed, f.IDs
	for _, file := range f.Files {
		file, text, err := c.file(ctx, file)
		if err != nil {
			return nil, err
		}
		texts, fixed = append(texts, text), append(fixed, file.Filename, file.MimeType)
	}
	var m *agui.Message
	if text := join(texts, "\n\n"); text != "" {
		p, err := c.pass(ctx, c.run.guards.Input, Subject{On: GuardInput, Input: text}, ids)
		if err != nil {
			return nil, err
		}
		if p.rewritten {
			m = &agui.Message{Role: agui.RoleUser, Content: p.text}
			if err := c.replace(ctx, m); err != nil {
				return nil, err
			}
			if c.run.Input.Workflow == "" {
				ids = []string{m.ID}
			}
		}
	}
	return m, c.passFixed(ctx, GuardInput, slices.Concat(fixed, beside), ids, "what the client has sent beside its messages")
}

// file returns the description of an attachment, and its content if that is a text.
func (c checker) file(ctx context.Context, a Attachment) (Attachment, string, error) {
	a, data, err := c.run.Attachment(ctx, a, MaxTextAttachment)
	if errors.Is(err, ErrNoAttachment) || errors.Is(err, ErrAttachmentTooLarge) {
		err = nil
	}
	return a, agui.TextOf(a.MimeType, data), err
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
