package plugins

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/batonrun/baton/runtime/agui"
)

var errClosed = errors.New("write to a closed message")

// Text returns a writer of one assistant message. The message starts with the first byte written, so an unused writer
// has no effect. Each Write is one delta; a character split over two writes stays whole. The writer is also an
// io.StringWriter.
//
// Close completes the message; it is optional before the worker returns. The END is written before the worker's next
// event or when the worker returns, so that the last assistant message can carry the returned output. Earlier messages
// carry their own text as answer.
//
// A worker has one message open at a time: CallAgent, Ask, Next, and a write to another Text or Reason end it first.
// Later writes continue in a new message, and so do writes inside a Do to a message from outside of it.
func (r *Run) Text() io.WriteCloser { return r.Message(agui.RoleAssistant, "") }

// Message returns a writer like Text's. stage names the message's stage of the work, such as "draft", and can be empty.
// The role is assistant, except that a worker that is not External can write a system notice: viewers see it, and
// prompts omit it.
func (r *Run) Message(role agui.Role, stage string) io.WriteCloser {
	return &writer{run: r, role: cmp.Or(r.storedRole(role), agui.RoleAssistant), stage: stage}
}

// Reason returns a writer of one reasoning message. It works like Text's, but Close ends the message at once.
func (r *Run) Reason() io.WriteCloser {
	return &writer{run: r, role: agui.RoleReasoning}
}

// AttachValue attaches an opaque value, such as a provider's encrypted reasoning, to the first assistant message that the
// running Do has started and not retracted. Later runs find it as the message's EncryptedValue; clients see it. It does nothing
// without such a message. ctx is the context of the Do's function.
func (r *Run) AttachValue(ctx context.Context, value string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.scopeOf(ctx).do
	if d == nil {
		return errOutside
	}
	i := slices.IndexFunc(d.shown, func(m *message) bool { return m.role == agui.RoleAssistant && !m.nested })
	if i < 0 {
		return r.alive()
	}
	return r.emit(agui.ReasoningEncryptedValue{Subtype: "message", EntityID: d.shown[i].id, EncryptedValue: value})
}

// Conclude ends the open text message with out instead of its text as output. An empty Answer becomes that text.
func (r *Run) Conclude(out agui.WorkerOutput) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil || r.open.role == agui.RoleReasoning {
		return r.alive()
	}
	if out.Answer == "" {
		out.Answer = r.open.text.String()
	}
	return r.end(&out)
}

// message is a text or reasoning message that has been started.
type message struct {
	id       string
	role     agui.Role
	text     strings.Builder
	depth    int       // number of Dos running when it started
	nested   bool      // belongs to a sub-agent that the worker relays
	called   bool      // a tool or agent call belongs to it
	complete bool      // only its END is missing
	base     agui.Base // of its END
}

// writer implements Text and Reason. Its fields are guarded by run.mu.
type writer struct {
	run   *Run
	role  agui.Role
	stage string

	msg    *message // the message last written to
	tail   string   // an incomplete character at the end of the last write
	closed bool
}

func (w *writer) Write(p []byte) (int, error) { return w.WriteString(string(p)) }

func (w *writer) WriteString(s string) (int, error) {
	w.run.mu.Lock()
	defer w.run.mu.Unlock()
	if err := w.run.alive(); err != nil {
		return 0, err
	}
	if w.closed {
		return 0, errClosed
	}
	text, tail := splitTail(w.tail + s)
	if err := w.write(text); err != nil {
		return 0, err
	}
	w.tail = tail
	return len(s), nil
}

func (w *writer) Close() error {
	w.run.mu.Lock()
	defer w.run.mu.Unlock()
	if err := w.run.alive(); err != nil {
		return err
	}
	if w.closed {
		return nil
	}
	w.closed = true
	if err := w.write(strings.ToValidUTF8(w.tail, "\uFFFD")); err != nil {
		return err
	}
	switch {
	case w.msg == nil || w.msg != w.run.open:
		return nil
	case w.role == agui.RoleReasoning:
		return w.run.end(nil)
	}
	w.msg.complete = true
	return nil
}

func (w *writer) write(text string) error {
	for delta := range deltas(text, maxWrite) {
		if err := w.writeDelta(delta); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) writeDelta(delta string) error {
	if w.msg == nil || w.msg != w.run.open || w.msg.depth != len(w.run.dos) {
		m := &message{id: w.run.host.NewID(), role: w.role, depth: len(w.run.dos)}
		if err := w.start(m); err != nil {
			return err
		}
		w.msg = m
	}
	if w.role == agui.RoleReasoning {
		return w.run.show(agui.ReasoningMessageContent{MessageID: w.msg.id, Delta: delta})
	}
	return w.run.write(agui.TextMessageContent{MessageID: w.msg.id, Delta: delta})
}

func (w *writer) start(m *message) error {
	if w.role == agui.RoleReasoning {
		return w.run.start(m, agui.ReasoningStart{MessageID: m.id}, agui.ReasoningMessageStart{MessageID: m.id})
	}
	return w.run.start(m, agui.TextMessageStart{MessageID: m.id, Role: m.role, Stage: w.stage})
}

// The methods of Run below are called with r.mu locked.

// alive returns ErrEnded once the step is over.
func (r *Run) alive() error {
	if r.ended {
		return ErrEnded
	}
	return nil
}

// ready writes the END of a complete message before another event.
func (r *Run) ready() error {
	if r.open != nil && r.open.complete {
		return r.end(nil)
	}
	return r.alive()
}

// start ends the open message and begins m with evs.
func (r *Run) start(m *message, evs ...agui.Event) error {
	if err := r.end(nil); err != nil {
		return err
	}
	for _, ev := range evs {
		if err := r.show(ev); err != nil {
			return err
		}
	}
	r.open = m
	if m.role == agui.RoleAssistant && !m.nested {
		r.last = m
	}
	if d := r.doing(); d != nil {
		d.shown = append(d.shown, m)
	}
	return nil
}

// write appends a delta to the text message it names.
func (r *Run) write(ev agui.TextMessageContent) error {
	if err := r.ready(); err != nil {
		return err
	}
	if err := r.show(ev); err != nil {
		return err
	}
	if r.open != nil && r.open.id == ev.MessageID {
		r.open.text.WriteString(ev.Delta)
	}
	return nil
}

// say writes a whole assistant message and leaves it open.
func (r *Run) say(text string) error {
	m := &message{id: r.host.NewID(), role: agui.RoleAssistant}
	if err := r.start(m, agui.TextMessageStart{MessageID: m.id, Role: m.role}); err != nil || text == "" {
		return err
	}
	m.text.WriteString(text)
	return r.emitText(m.id, text)
}

// Limits of a delta, in bytes: of a text that replaces what a worker wrote, and of a worker's own Write, which is one delta up to it.
const (
	maxDelta = 64 << 10
	maxWrite = 1 << 20
)

// emitText writes the content of a message.
func (r *Run) emitText(id, text string) error {
	for delta := range deltas(text, maxDelta) {
		if err := r.host.Emit(agui.TextMessageContent{MessageID: id, Delta: delta}); err != nil {
			return err
		}
	}
	return nil
}

// deltas splits a text into deltas of at most that many bytes, of whole characters.
func deltas(text string, most int) iter.Seq[string] {
	return func(yield func(string) bool) {
		for text != "" {
			delta := text
			if len(text) > most {
				delta, _ = splitTail(text[:most])
			}
			if !yield(delta) {
				return
			}
			text = text[len(delta):]
		}
	}
}

// end ends the open message, if any, with out, or with its own text as answer if out is nil.
func (r *Run) end(out *agui.WorkerOutput) error {
	m := r.open
	if m == nil || r.ended {
		return r.alive()
	}
	if m.role == agui.RoleReasoning {
		if err := r.show(agui.ReasoningMessageEnd{MessageID: m.id}); err != nil {
			return err
		}
		r.open = nil
		return r.show(agui.ReasoningEnd{MessageID: m.id})
	}
	if out == nil {
		out = &agui.WorkerOutput{Status: agui.StatusSuccess, Answer: m.text.String()}
	}
	if err := r.show(agui.TextMessageEnd{Base: m.base, MessageID: m.id, Output: out}); err != nil {
		return err
	}
	r.open = nil
	return nil
}

// show emits an event of the worker. Guards of the output judge the answer alone, so until they have allowed it, other events are dropped.
func (r *Run) show(ev agui.Event) error {
	if r.holds {
		return r.alive()
	}
	return r.host.Emit(ev)
}

// emit writes an event after the END of a complete message. The caller holds r.mu.
func (r *Run) emit(ev agui.Event) error {
	if err := r.ready(); err != nil {
		return err
	}
	return r.show(ev)
}

// doing returns the innermost running Do. It is nil if there is none, or if several run concurrently, because a message
// could then belong to any. The caller holds r.mu.
func (r *Run) doing() *doing {
	var inner *doing
	for _, d := range r.dos {
		if d.outer != inner {
			return nil
		}
		inner = d
	}
	return inner
}

// splitTail splits off an incomplete character at the end of s.
func splitTail(s string) (text, tail string) {
	for i := len(s) - 1; i >= max(0, len(s)-utf8.UTFMax); i-- {
		if !utf8.RuneStart(s[i]) {
			continue
		}
		if !utf8.FullRuneInString(s[i:]) {
			return s[:i], s[i:]
		}
		break
	}
	return s, ""
}
