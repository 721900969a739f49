package span

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/fold"
)

// An event of a worker is judged three times before it has a number. Foreign and Taken refuse ids of others, which may be in the database;
// Closed refuses all events of a worker that may not emit any more, once for those that are stored together; admit judges the event.

// Bounds are the limits on the events of workers. The run's end, and the engine's other events, have none.
type Bounds struct {
	Event    int                     // bytes of an event
	Events   int                     // of the span, 0 for no limit
	State    int                     // bytes of the thread's state
	Messages int64                   // bytes of the run's messages
	Grow     func(messages int) bool // reserves memory for so many bytes of messages, or reports false when there is no room
	Exceeded func(error)             // called with the first error about Events, Messages or Grow: the run fails, even if its workers ignore it
}

// Exceeded reports whether an event has exceeded a bound that refuses all later ones.
func (sp *Span) Exceeded() bool { return sp.exceeded != nil }

// Shut lets Closed refuse all events of workers. It reports false when it was called before.
func (sp *Span) Shut(cause error) bool {
	if sp.gate != nil {
		return false
	}
	sp.gate = cause
	return true
}

// Gate returns the cause of Shut, nil before.
func (sp *Span) Gate() error { return sp.gate }

// Closed returns the reason why a worker may not emit any more, or nil.
func (sp *Span) Closed(w *Worker) error {
	switch {
	case sp.gate != nil:
		return sp.gate
	case w.Ended:
		return plugins.ErrEnded
	case w.Ctx.Err() != nil:
		return context.Cause(w.Ctx)
	}
	return nil
}

// Emit is Stage for an event of a worker, if admit allows it. It returns the event as the log has it. answers says that the event is the
// result of a call which the worker has left open to answer itself.
func (sp *Span) Emit(it *commit.Item, w *Worker, ev agui.Event, answers bool) (agui.Event, error) {
	a, err := sp.admit(w, ev, answers)
	if err != nil {
		return nil, err
	}
	if err := sp.write(it, a.ev, a.payload); err != nil {
		return nil, err
	}
	sp.owners.note(w, a.about, a.does)
	switch a.ev.Type() {
	case agui.TypeTextMessageStart:
		sp.writing = w
	case agui.TypeTextMessageEnd:
		sp.writing = nil
	}
	return a.ev, nil
}

// MayOpenText reports whether no text message is open of another worker, except one that the worker works for (docs/protocol.md, 2.2).
func (sp *Span) MayOpenText(w *Worker) bool { return sp.writing == nil || sp.writing.isOrLeads(w) }

// admitted is an event of a worker that may be written.
type admitted struct {
	ev      agui.Event // as the log has it
	payload []byte     // its stored form
	about   entity
	does    int // to the entity
}

// admit judges an event of a worker. These refuse it, in this order:
func (sp *Span) admit(w *Worker, ev agui.Event, answers bool) (a admitted, err error) {
	if err := checkKind(ev); err != nil { // only the engine emits it
		return a, err
	}
	if err := sp.checkState(ev); err != nil { // the state is too large, or cannot be patched
		return a, err
	}
	if a.ev, a.payload, err = sp.stored(sp.Attribute(w, ev), sp.Bounds.Event); err != nil { // the event is too large
		return a, err
	}
	if err := sp.checkBounds(a.ev, len(a.payload)); err != nil { // the run has too many events, or bytes of messages
		return a, err
	}
	if err := sp.Fold.Check(a.ev); err != nil { // it would let a message grow without bound
		return a, illegal(err)
	}
	a.about, a.does = entityOf(a.ev)
	if err := sp.owners.check(w, a.ev, a.about, a.does); err != nil && !answers { // another worker has opened what it is about
		return a, err
	}
	if err := sp.Ver.AddStored(a.ev, a.payload); err != nil { // the protocol does not allow it here
		return a, illegal(err)
	}
	return a, nil
}

func illegal(err error) error { return &plugins.Error{Code: "illegal_event", Message: err.Error()} }

// checkKind refuses events that only the engine emits.
func checkKind(ev agui.Event) error {
	switch ev.Type() {
	case agui.TypeRunStarted, agui.TypeRunFinished, agui.TypeRunError, agui.TypeMessagesSnapshot:
		return &plugins.Error{Code: "illegal_event", Message: "A worker may not emit " + string(ev.Type())}
	}
	return nil
}

// checkBounds refuses ev, which adds size bytes, once the span has its maximum of events, or if the messages would exceed their limit in
// memory. It counts events by the ids of the log, so a takeover does not restart the count.
func (sp *Span) checkBounds(ev agui.Event, size int) error {
	if sp.exceeded == nil {
		if sp.exceeded = sp.excess(ev, retained(ev, size)); sp.exceeded == nil {
			return nil
		}
		sp.Bounds.Exceeded(sp.exceeded)
	}
	return sp.exceeded
}

// retained returns how many of an event's size bytes stay in memory. The thread's state has its own limit, and the answer at
// the end of a message repeats the message.
func retained(ev agui.Event, size int) int {
	switch e := ev.(type) {
	case agui.Custom, agui.Raw, agui.StateSnapshot, agui.StateDelta:
		return 0
	case agui.TextMessageEnd:
		if e.Output != nil {
			return max(size-len(e.Output.Answer), 0)
		}
	}
	return size
}

// excess returns the limit that ev exceeds if it adds more bytes, or nil. A retraction may use twice as many events: its
// rows are already hidden, and readers of the log must see it.
func (sp *Span) excess(ev agui.Event, more int) *plugins.Error {
	events := int64(sp.Bounds.Events)
	most := events
	if e, ok := ev.(agui.Custom); ok && agui.RetractedBy(e) != nil {
		most *= 2
	}
	if events > 0 && sp.last-sp.Row.First+1 >= most {
		return &plugins.Error{Code: "too_many_events", Message: fmt.Sprintf("The run has emitted %d events, which is all that it may", events)}
	}
	size := sp.Fold.Grown() + more
	if int64(size) > sp.Bounds.Messages {
		return &plugins.Error{Code: "messages_too_large", Message: fmt.Sprintf("The run's messages have %d bytes, which is all that they may", size)}
	}
	if !sp.Bounds.Grow(size) {
		return &plugins.Error{Code: "overloaded", Message: "The runs at work say more than the server has room for; try again soon", Retryable: true}
	}
	return nil
}

// checkState refuses ev if it would make the thread's state too large, or cannot be applied to it. An event that shrinks the
// state passes even if the state is still too large: the limit may have been higher when the state grew.
func (sp *Span) checkState(ev agui.Event) error {
	most, state, size := sp.Bounds.State, sp.State(), 0
	switch e := ev.(type) {
	case agui.StateDelta:
		if escaped*(len(state)+len(e.Delta)) <= most && !bytes.Contains(e.Delta, []byte(`copy`)) && !bytes.Contains(e.Delta, []byte(`\u`)) {
			return nil // nothing is duplicated: there is no copy, not even one spelled with escapes
		}
		next, err := fold.Patched(state, e.Delta)
		if err != nil {
			return illegal(err)
		}
		size = len(next)
	case agui.StateSnapshot:
		size = len(e.Snapshot)
	}
	if size > most && size >= len(state) {
		return &plugins.Error{Code: "state_too_large", Message: fmt.Sprintf("A thread's state may hold %d bytes", most)}
	}
	return nil
}

// escaped bounds the growth of a name in a state when a patch encodes its object again, which escapes some characters, such
// as \b.
const escaped = 3

// Foreign returns the ids in ev that the run does not know, of messages and calls which the event begins or continues. isNew reports that
// the server has minted an id, once. Foreign fails for an id that the run knows as a message of another owner or role: workers must not
// change the messages of people, other runs or earlier generations.
func (sp *Span) Foreign(ev agui.Event, isNew func(id string) bool) (unknown []string, err error) {
	ids, as := sp.named(ev)
	for _, id := range ids {
		role := sp.Fold.Role(id)
		switch {
		case id == "":
		case role != "" && (!sp.writes(id) || !slices.Contains(as, role)):
			return nil, inUse(id)
		case sp.writes(id) || isNew(id):
		default:
			unknown = append(unknown, id)
		}
	}
	return unknown, nil
}

// Taken refuses ids of which messages of the thread were found, unless another worker of the run has begun these meanwhile.
func (sp *Span) Taken(ids []string, found []data.MessageHead) error {
	i := slices.IndexFunc(found, func(m data.MessageHead) bool { return !sp.writes(m.ID) })
	switch {
	case i < 0:
		return nil
	case slices.Contains(ids, found[i].ID):
		return inUse(found[i].ID)
	}
	return inUse(found[i].ToolCallID)
}

func inUse(id string) error {
	return &plugins.Error{Code: "illegal_event", Message: fmt.Sprintf("The thread has used the id %q before", id)}
}

// writes reports whether a worker of the run's current generation began the message of that id. Messages from RUN_STARTED and
// appended messages belong to people.
func (sp *Span) writes(id string) bool {
	m := sp.Messages.rows[id]
	return m != nil && (m.EventID == 0 || m.EventID > sp.Began.UpTo) && sp.Fold.Role(id) != agui.RoleUser
}

// named returns the ids of the messages and calls that ev begins or continues, and the roles that an existing message may have.
func (sp *Span) named(ev agui.Event) (ids []string, as []agui.Role) {
	switch e := ev.(type) {
	case agui.TextMessageStart:
		return []string{e.MessageID}, []agui.Role{agui.RoleAssistant, agui.RoleSystem}
	case agui.ReasoningMessageStart:
		return []string{e.MessageID}, []agui.Role{agui.RoleReasoning}
	case agui.ActivitySnapshot:
		return []string{e.MessageID}, []agui.Role{agui.RoleActivity}
	case agui.ActivityDelta:
		return []string{e.MessageID}, []agui.Role{agui.RoleActivity}
	case agui.ToolCallResult:
		return []string{e.MessageID}, nil
	case agui.ToolCallStart:
		return []string{e.ToolCallID, e.ParentMessageID}, []agui.Role{agui.RoleAssistant}
	case agui.ReasoningEncryptedValue:
		id := e.EntityID
		if e.Subtype == "tool-call" {
			id = sp.Fold.Caller(id)
		}
		return []string{id}, []agui.Role{agui.RoleAssistant, agui.RoleReasoning}
	}
	return nil, nil
}
