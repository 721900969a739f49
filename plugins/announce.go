package plugins

import (
	"context"
	"strings"

	"github.com/batonrun/baton/runtime/agui"
)

// Announced is a tool call that viewers see before its arguments are complete. Write the JSON of the arguments to it as it arrives.
type Announced struct {
	ID string // for ToolCall.ID

	// Guarded by run.mu.
	run    *Run
	name   string
	parent *message // the message that the call belongs to
	tail   string   // an incomplete character at the end of the last write
	closed bool
	held   *strings.Builder // the arguments, if viewers see the call once its Do has a record: see Run.holds
}

// errOutside is returned outside of a Do, where no record could store announced calls.
var errOutside = &Error{Code: "not_in_do", Message: "This is possible only inside a Do, which records it"}

// Announce shows that a tool is going to be called before its arguments are known. Several calls can be announced at once
// with interleaved pieces. Announce ends the open message first; the call belongs to the assistant message that the Do
// has started, or to a new one without text.
//
// ctx is the context of a Do's function. The Do returns the call's ID in its result, and CallTools makes the call after
// the Do. If the Do fails, or the process dies before its record is stored, the call gets the result interrupted.
func (r *Run) Announce(ctx context.Context, tool string) (*Announced, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.scopeOf(ctx).do
	if d == nil {
		return nil, errOutside
	}
	if err := r.end(nil); err != nil {
		return nil, err
	}
	if r.last == d.before {
		r.last = &message{id: r.host.NewID(), role: agui.RoleAssistant, depth: len(r.dos)}
		d.shown = append(d.shown, r.last)
	}
	a := &Announced{ID: r.host.NewID(), run: r, name: tool, parent: r.last}
	if r.holds {
		a.held = new(strings.Builder)
	}
	if err := r.show(a.start()); err != nil {
		return nil, err
	}
	d.calls = append(d.calls, a)
	return a, nil
}

func (a *Announced) start() agui.ToolCallStart {
	return agui.ToolCallStart{ToolCallID: a.ID, ToolCallName: a.name, ParentMessageID: a.parent.id}
}

// WriteString shows the next piece of the arguments.
func (a *Announced) WriteString(s string) (int, error) {
	a.run.mu.Lock()
	defer a.run.mu.Unlock()
	if err := a.run.alive(); err != nil {
		return 0, err
	}
	if a.closed {
		return 0, errClosed
	}
	text, tail := splitTail(a.tail + s)
	if err := a.write(text); err != nil {
		return 0, err
	}
	a.tail = tail
	return len(s), nil
}

// Close completes the arguments, which are {} if nothing was written. The Do's record closes calls that are still open.
func (a *Announced) Close() error {
	a.run.mu.Lock()
	defer a.run.mu.Unlock()
	return a.close()
}

// The methods below are called with run.mu locked.

func (a *Announced) close() error {
	if a.closed {
		return a.run.alive()
	}
	if err := a.write(strings.ToValidUTF8(a.tail, "\uFFFD")); err != nil {
		return err
	}
	a.closed = true
	return a.run.show(agui.ToolCallEnd{ToolCallID: a.ID})
}

func (a *Announced) write(delta string) error {
	if delta == "" {
		return a.run.alive()
	}
	if a.held != nil {
		a.held.WriteString(delta)
	}
	return a.run.show(agui.ToolCallArgs{ToolCallID: a.ID, Delta: delta})
}

// withdraw gives a call that will not be made its result, and returns the result's message id, "" if viewers have not seen the call.
func (a *Announced) withdraw() (result string, err error) {
	if a.held != nil {
		return "", a.run.alive()
	}
	if !a.closed {
		a.closed = true
		if err := a.run.host.Emit(agui.ToolCallEnd{ToolCallID: a.ID}); err != nil {
			return "", err
		}
	}
	const why = "The call was interrupted before it was made"
	out := &agui.ToolOutput{
		ToolName: a.name, ToolCallID: a.ID, Status: agui.StatusFailure, ResultSummary: why,
		Error: &agui.OutputError{Code: "interrupted", Message: why},
	}
	result = a.run.host.NewID()
	return result, a.run.host.Emit(agui.ToolCallResult{MessageID: result, ToolCallID: a.ID, Content: why, Output: out})
}

// Leave lets a call that the worker has emitted stay open after the Do of ctx, also while the run waits. The worker emits the
// result later. If the Do fails, or the process dies before its record is stored, the call gets the result interrupted.
func (r *Run) Leave(ctx context.Context, toolCallID, tool string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.scopeOf(ctx).do
	switch {
	case d == nil:
		return errOutside
	case r.holds: // the call was not shown
		return r.alive()
	}
	d.calls = append(d.calls, &Announced{ID: toolCallID, run: r, name: tool, parent: &message{called: true}, closed: true})
	return r.alive()
}

// announced closes the calls of a finished Do and returns them for its record.
func (r *Run) announced(d *doing) ([]Use, error) {
	var uses []Use
	for _, a := range d.calls {
		if err := a.close(); err != nil {
			return nil, err
		}
		if a.held != nil {
			evs := []agui.Event{a.start()}
			for delta := range deltas(a.held.String(), maxWrite) {
				evs = append(evs, agui.ToolCallArgs{ToolCallID: a.ID, Delta: delta})
			}
			for _, ev := range append(evs, agui.ToolCallEnd{ToolCallID: a.ID}) {
				if err := r.host.Emit(ev); err != nil {
					return nil, err
				}
			}
		}
		uses = append(uses, r.announcedUse(a.ID, a.name))
	}
	return uses, nil
}
