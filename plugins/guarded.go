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

// fresh is the part of an input that is new to the agent.
type fresh struct {
	Text  string   `json:"text,omitempty"`
	IDs   []string `json:"ids,omitempty"`   // of the messages with the text
	Query string   `json:"query,omitempty"` // another text, of a workflow's node
}

// freshIn returns what the agent has not answered yet in the thread. A message that an agent wrote has its name, which no client
// can write.
func (r *Run) freshIn(ctx context.Context) (fresh, error) {
	for limit := 10; ; limit *= 10 {
		msgs, more, err := r.Messages(ctx, limit)
		if err != nil {
			return fresh{}, err
		}
		answered := -1
		for i := range msgs {
			var made struct {
				Agent string `json:"agent"`
			}
			if m := &msgs[i]; m.Role == agui.RoleAssistant && m.SubagentRunID == "" && json.Unmarshal(m.Metadata, &made) == nil && made.Agent == r.name {
				answered = i
			}
		}
		if answered < 0 && more {
			continue
		}
		f, query := freshOf(msgs[answered+1:]), r.Input.Query
		isLast := func(m agui.Message) bool { return m.Role == agui.RoleUser && m.Text() == query }
		if query != "" && !slices.ContainsFunc(msgs[answered+1:], isLast) {
			f.Query = query
		}
		return f, nil
	}
}

// freshOf returns the messages of people, and the texts of a client's instructions, which are not rewritten or retracted.
func freshOf(msgs []agui.Message) (f fresh) {
	var texts []string
	for i := range msgs {
		switch m := &msgs[i]; m.Role {
		case agui.RoleUser:
			texts, f.IDs = append(texts, m.Text()), append(f.IDs, m.ID)
		case agui.RoleSystem, agui.RoleDeveloper:
			texts = append(texts, m.Text())
		}
	}
	f.Text = strings.Join(texts, "\n\n")
	return f
}

// guardInput checks the new part of the input, and applies the rewrites of the guards to it.
func (r *Run) guardInput(ctx context.Context) error {
	if len(r.guards.Input) == 0 {
		return nil
	}
	ctx = r.Branch(ctx, "guard input")
	var f fresh // recorded, because the messages are hidden once they are retracted
	if err := r.Do(ctx, "input", &f, func(ctx context.Context) (err error) {
		f, err = r.freshIn(ctx)
		return err
	}); err != nil {
		return err
	}
	m, err := r.passMessages(ctx, f)
	if err != nil {
		return err
	}
	if m != nil {
		r.rewrote, r.rewritten = f.IDs, m
		r.Input.Query = m.Content
	}
	if err := r.guardContext(ctx); err != nil || f.Query == "" {
		return err
	}
	p, err := r.pass(ctx, r.guards.Input, Subject{On: GuardInput, Input: f.Query}, nil)
	if r.Input.Query = f.Query; p.rewritten {
		r.Input.Query = p.text
	}
	return err
}

// guardContext checks the context of the request, of which the model's instructions have the text.
func (r *Run) guardContext(ctx context.Context) error {
	left := slices.Clone(r.Input.Context)
	for i, c := range left {
		p, err := r.pass(ctx, r.guards.Input, Subject{On: GuardInput, Input: c.Description + "\n" + c.Value}, nil)
		if err != nil {
			return err
		}
		if p.rewritten {
			left[i] = agui.Context{Value: p.text}
		}
	}
	r.Input.Context = left
	return nil
}

// guardAppended checks messages that were appended, and returns what the guards leave of them.
func (r *Run) guardAppended(ctx context.Context, u Use, msgs []agui.Message) ([]agui.Message, error) {
	if len(r.guards.Input) == 0 {
		return msgs, nil
	}
	m, err := r.passMessages(r.inside(ctx, u), freshOf(msgs))
	if err != nil || m == nil {
		return msgs, err
	}
	return []agui.Message{*m}, nil
}

// passMessages asks the guards about messages. It returns the message that replaces them if they are rewritten, or nil.
func (r *Run) passMessages(ctx context.Context, f fresh) (*agui.Message, error) {
	if len(f.IDs) == 0 {
		return nil, nil
	}
	p, err := r.pass(ctx, r.guards.Input, Subject{On: GuardInput, Input: f.Text}, f.IDs)
	if err != nil || !p.rewritten {
		return nil, err
	}
	m := &agui.Message{Role: agui.RoleUser, Content: p.text}
	return m, r.replace(ctx, m)
}

// replace sets m's id, and shows it in the place of messages that were rewritten, unless others need these.
func (r *Run) replace(ctx context.Context, m *agui.Message) error {
	return r.Do(ctx, "replace", &m.ID, func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		m.ID = r.host.NewID()
		if r.Input.Subagent != "" || r.Input.Workflow != "" {
			return nil
		}
		if err := r.host.Emit(agui.TextMessageStart{MessageID: m.ID, Role: agui.RoleUser}); err != nil {
			return err
		}
		if err := r.emitText(m.ID, m.Content); err != nil {
			return err
		}
		return r.host.Emit(agui.TextMessageEnd{MessageID: m.ID, Output: &agui.WorkerOutput{Status: agui.StatusSuccess, Answer: m.Content}})
	})
}

// guardCall asks the guards about a tool call, and puts their verdict into u.
func (r *Run) guardCall(ctx context.Context, u *Use) error {
	if u.Output != nil {
		return nil
	}
	ctx = r.inside(ctx, *u)
	clients := slices.ContainsFunc(r.Input.Tools, func(t agui.Tool) bool { return t.Name == u.Name })
	s := Subject{On: GuardTool, Tool: u.Name, Args: u.Request}
	for i := range r.guards.Tool {
		g := &r.guards.Tool[i]
		v, err := r.judge(ctx, g, s, nil)
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
			u.Edited, s.Args = v.Args, v.Args
		case AskPerson:
			u.Approval = cmp.Or(v.Reason, fmt.Sprintf("Allow %s?", u.Name))
		}
	}
	return nil
}

// recheck returns a function that asks the guards about arguments that an approver has edited. Its output refuses them.
func (r *Run) recheck(ctx context.Context, u Use) func(args json.RawMessage) (*agui.ToolOutput, error) {
	if len(r.guards.Tool) == 0 || u.Output != nil {
		return nil
	}
	return func(args json.RawMessage) (*agui.ToolOutput, error) {
		edited := Use{Place: u.Inside("edited"), Name: u.Name, Request: args}
		if err := r.guardCall(ctx, &edited); err != nil {
			return nil, r.noteWaiting(err)
		}
		if edited.Output == nil && edited.Edited != nil {
			const why = "A guard would rewrite the edited arguments"
			edited.Output = &agui.ToolOutput{Status: agui.StatusFailure, ResultSummary: why, Error: &agui.OutputError{Code: codeRefused, Message: why}}
		}
		return edited.Output, nil
	}
}

// inside returns a context that places uses inside of u.
func (r *Run) inside(ctx context.Context, u Use) context.Context {
	s := newScope(r, u.path())
	s.do = r.scopeOf(ctx).do
	return s.in(ctx)
}

// guardOutput checks the texts that a worker which has succeeded has shown, one after the other, and then its answer. A text that is not
// allowed as it is is retracted, and all of them unless the guards alone allow or rewrite them.
func (r *Run) guardOutput(ctx context.Context, out *agui.WorkerOutput) error {
	if len(r.guards.Output) == 0 {
		return nil
	}
	r.mu.Lock()
	for r.working > 0 {
		r.idle.Wait()
	}
	if out.Answer == "" && r.last != nil {
		out.Answer = r.last.text.String()
	}
	texts, answer, ids := r.texts(out.Answer)
	unfinished := r.failed != nil || r.waiting
	r.mu.Unlock()
	if unfinished {
		return nil
	}
	ctx = r.Branch(ctx, "guard output")
	var allowed []string
	asked := false
	for _, m := range texts {
		p, err := r.pass(ctx, r.guards.Output, Subject{On: GuardOutput, Output: m.text.String()}, nil)
		if err != nil {
			return r.refuseOutput(p, err)
		}
		if asked = asked || p.asked; !p.rewritten {
			allowed = append(allowed, m.id)
		}
	}
	text := strings.Join(slices.Concat([]string{out.Answer}, out.KeyPoints, out.SuggestedActions), "\n")
	p, err := r.pass(ctx, r.guards.Output, Subject{On: GuardOutput, Output: text, Result: out.Result}, nil)
	if p.rewritten && out.Result != nil && err == nil {
		if out.Result = json.RawMessage(p.text); !json.Valid(out.Result) {
			err = &Error{Code: codeRefused, Message: "A guard has rewritten the output to a text that is not JSON"}
		}
	}
	if err != nil {
		return r.refuseOutput(p, err)
	}
	if p.rewritten {
		*out = agui.WorkerOutput{Status: out.Status, Answer: p.text, Result: out.Result}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case asked || p.asked:
		return r.retractAnswer(nil) // all were retracted while a person decided
	case p.rewritten || r.holds:
		return r.retractAnswer(allowed)
	case len(allowed) == len(texts):
		return r.settleShown(ids)
	case answer != nil:
		allowed = append(allowed, answer.id)
	}
	return r.settleShown(allowed)
}

// texts returns the messages with texts that the worker has shown, without the last if it has the answer, which is then the second
// result; and the ids of these and of the shown reasoning. The caller holds r.mu.
func (r *Run) texts(answer string) (texts []*message, last *message, ids []string) {
	for _, m := range r.shown {
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

// refuseOutput retracts what the worker has shown after a guard or a person has refused it, or while a person decides.
func (r *Run) refuseOutput(p passed, err error) error {
	if errors.Is(err, ErrWaiting) && !p.asked { // for a budget of a guard's model: there is no verdict yet
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return cmp.Or(err, r.retractAnswer(nil))
}

// retractAnswer retracts what the worker has shown except allowed. Its answer becomes another message. The caller holds r.mu.
func (r *Run) retractAnswer(allowed []string) error {
	r.last = nil
	if m := r.open; m != nil && !slices.Contains(allowed, m.id) {
		if err := r.end(interrupted(m)); err != nil {
			return err
		}
	}
	r.holds = false
	return r.settleShown(allowed)
}

// settleShown retracts the shown messages except allowed. The host knows all of them, also those from before a crash. The
// caller holds r.mu.
func (r *Run) settleShown(allowed []string) error {
	if !r.streams {
		return nil
	}
	r.streams = false
	if h, ok := r.host.(interface{ SettleOutput(allowed []string) error }); ok {
		return h.SettleOutput(allowed)
	}
	var ids []string
	for _, m := range r.shown {
		if !m.gone && !slices.Contains(allowed, m.id) {
			ids = append(ids, m.id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return r.host.Emit(agui.Retracted(ids))
}
