package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/batonrun/baton/runtime/agui"
)

// startCall starts a call. It delays the events of a call of a client's tool until the result arrives or CallTools makes the
// call.
func (r *relay) startCall(b agui.Base, e agui.ToolCallStart) error {
	return r.open(b, &call{theirs: e.ToolCallID, name: e.ToolCallName, parent: e.ParentMessageID}, e.Metadata)
}

func (r *relay) open(b agui.Base, c *call, metadata json.RawMessage) error {
	const what = string(agui.TypeToolCallStart)
	switch {
	case c.theirs == "" || c.name == "" || len(c.theirs) > longestID:
		r.drop(what, errors.New("a call needs a short id and a name"))
		return nil
	case r.calls[c.theirs] != nil:
		r.drop(what, errors.New("the call has already started"))
		return nil
	}
	c.id = newID()
	if c.held = r.tools[c.name]; c.held {
		if r.held == agui.MaxOpen/2 { // the span has all of them open in the end
			r.drop(what, errFull)
			return nil
		}
		r.held++
	} else if err := r.emit(r.opener(b, c, metadata)); err != nil || !r.passed {
		return err
	}
	r.calls[c.theirs] = c
	r.order = append(r.order, c)
	return nil
}

// opener returns a call's START.
func (r *relay) opener(b agui.Base, c *call, metadata json.RawMessage) agui.ToolCallStart {
	b.Metadata = marked(metadata, marks{ID: c.theirs, Parent: c.parent, Invented: c.invented})
	e := agui.ToolCallStart{Base: b, ToolCallID: c.id, ToolCallName: c.name}
	if c.parent != "" {
		e.ParentMessageID = r.id("text", c.parent)
	}
	return e
}

func (r *relay) arguments(theirs, delta string) error {
	c := r.calls[theirs]
	switch {
	case delta == "":
		return nil
	case c == nil || c.complete:
		r.drop(string(agui.TypeToolCallArgs), errUnknown)
		return nil
	}
	c.args.WriteString(delta)
	if c.held {
		return nil
	}
	return r.emit(agui.ToolCallArgs{ToolCallID: c.id, Delta: delta})
}

func (r *relay) endCall(theirs string) error {
	c := r.calls[theirs]
	if c == nil || c.complete {
		return nil
	}
	if c.complete = true; c.held {
		return nil
	}
	return r.emit(agui.ToolCallEnd{ToolCallID: c.id})
}

// whole starts and ends a call.
func (r *relay) whole(c *call, args string) error {
	err := r.open(agui.Base{}, c, nil)
	if err == nil {
		err = r.arguments(c.theirs, args)
	}
	if err == nil {
		err = r.endCall(c.theirs)
	}
	return err
}

// result shows the result of a call of this run, or of an earlier one that was left open. A call that the remote has not
// announced is shown before its result.
func (r *relay) result(b agui.Base, e agui.ToolCallResult) error {
	c := r.calls[e.ToolCallID]
	if before := r.before[e.ToolCallID]; c == nil && before != nil {
		c = before
		if !c.answered {
			c.id, r.calls[e.ToolCallID] = newID(), c
			r.held++
			c.parent = "" // that message is complete
		}
	}
	if c == nil {
		if err := r.open(b, &call{theirs: e.ToolCallID, name: toolOf(e), invented: true}, nil); err != nil {
			return err
		}
		c = r.calls[e.ToolCallID]
	}
	switch {
	case c == nil:
		return nil
	case c.answered:
		r.drop(string(e.Type()), errors.New("the call already has a result"))
		return nil
	}
	if err := r.show(b, c); err != nil {
		return err
	}
	c.answered = true
	return r.emitResult(b, c, e)
}

// toolOf returns the name of the tool in a result, "tool" if it has none.
func toolOf(e agui.ToolCallResult) string {
	more := object(e.Extra)
	name := cmp.Or(textOf(more["toolCallName"]), textOf(more["toolName"]), textOf(more["name"]))
	if e.Output != nil {
		name = cmp.Or(name, e.Output.ToolName)
	}
	return clip(cmp.Or(name, "tool"), 200)
}

// show shows a held call, or ends a call without END.
func (r *relay) show(b agui.Base, c *call) error {
	var evs []agui.Event
	if c.held {
		r.held--
		evs = append(evs, r.opener(b, c, nil))
		if c.args.Len() > 0 {
			evs = append(evs, agui.ToolCallArgs{ToolCallID: c.id, Delta: c.args.String()})
		}
	}
	if c.held || !c.complete {
		evs = append(evs, agui.ToolCallEnd{ToolCallID: c.id})
	}
	c.held, c.complete = false, true
	for _, ev := range evs {
		if err := r.emit(ev); err != nil {
			return err
		}
	}
	return nil
}

func (r *relay) emitResult(b agui.Base, c *call, e agui.ToolCallResult) error {
	var said struct {
		Output *agui.ToolOutput `json:"toolAgentOutput"`
	}
	_ = json.Unmarshal(e.Metadata, &said)
	out := agui.ToolOutput{}
	switch {
	case e.Output != nil:
		out = *e.Output
	case said.Output != nil: // from a Baton
		out = *said.Output
	}
	out.ToolName, out.ToolCallID, out.ToolCallArgs, out.ResultSummary = c.name, c.id, nil, e.Content
	var args map[string]json.RawMessage
	if json.Unmarshal(c.args.Bytes(), &args) == nil && args != nil {
		out.ToolCallArgs = slices.Clone(c.args.Bytes())
	}
	switch out.Status {
	case agui.StatusSuccess, agui.StatusPartial, agui.StatusFailure:
	default:
		out.Status = agui.StatusSuccess
	}
	b.Metadata = marked(e.Metadata, marks{ID: e.MessageID})
	return r.emit(agui.ToolCallResult{
		Base: b, MessageID: newID(), ToolCallID: c.id, Content: e.Content, Parts: e.Parts, Output: &out,
	})
}

// settleCalls adds the client's tool calls that the remote waits for to res. If the remote asks questions, its other calls stay
// open: the remote continues with them. Otherwise the answer to the question about a call is its result, and a call of the
// remote's own tools needs none.
func (r *relay) settleCalls(ctx context.Context, res *result) error {
	asked := map[string]bool{}
	for _, in := range r.end.outcome.Interrupts {
		asked[in.ToolCallID] = true
	}
	for _, c := range r.order {
		switch {
		case c.answered:
		case c.held && !asked[c.theirs]:
			if err := r.hold(c); err != nil {
				return err
			}
			res.Pending = append(res.Pending, agui.ToolCall{ID: c.id, Name: c.name, Arguments: c.args.String()})
		case len(res.Questions) > 0:
			if err := r.leave(ctx, c, res); err != nil {
				return err
			}
		default:
			out := cmp.Or(c.answer, &agui.ToolOutput{Status: agui.StatusPartial, ResultSummary: unshown})
			if err := r.emitResult(agui.Base{}, c, agui.ToolCallResult{Content: out.ResultSummary, Output: out}); err != nil {
				return err
			}
		}
	}
	return nil
}

// leave shows a call, and leaves it open until the remote has the answers to its questions.
func (r *relay) leave(ctx context.Context, c *call, res *result) error {
	if c.held {
		if err := r.show(agui.Base{}, c); err != nil {
			return err
		}
	}
	if r.view.Caller(c.id) == "" { // it could not be shown
		return nil
	}
	res.Left = append(res.Left, left{ID: c.id, Theirs: c.theirs, Answer: c.answer})
	return r.run.Leave(ctx, c.id, c.name)
}

const unshown = "The remote agent has not shown the result"

// hold makes a message of the remote for a call that our client executes, and adds the call to the conversation. CallTools
// emits the call itself.
func (r *relay) hold(c *call) error {
	if c.parent != "" {
		if _, known := r.view.Message(r.id("text", c.parent)); !known {
			b := agui.Base{Metadata: marked(nil, marks{ID: c.parent})}
			id := r.id("text", c.parent)
			if err := r.emit(agui.TextMessageStart{Base: b, MessageID: id, Role: agui.RoleAssistant}); err != nil {
				return err
			}
			if err := r.emit(agui.TextMessageEnd{MessageID: id}); err != nil {
				return err
			}
		}
	}
	for _, ev := range []agui.Event{
		r.opener(agui.Base{}, c, nil),
		agui.ToolCallArgs{ToolCallID: c.id, Delta: cmp.Or(c.args.String(), "{}")},
		agui.ToolCallEnd{ToolCallID: c.id},
	} {
		if _, err := r.view.Apply(ev); err != nil {
			return err
		}
	}
	return nil
}
