package work

import (
	"bytes"
	"fmt"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/fold"
)

// bounds limits what the workers of a run may add to its span. The run's mutex guards exceeded.
type bounds struct {
	cfg      *Config
	reserved *reservation   // nil for a run that nobody executes
	exceeded *plugins.Error // why full is closed
	full     chan struct{}  // closed once a limit was exceeded: the run fails, whatever its workers make of that
}

// check refuses ev, which adds size bytes, once the span has all events that workers may add, or the messages would exceed their limit in
// memory. The log's ids count the events, so that a takeover begins no new count. Events that end the span have no limit.
func (b *bounds) check(sp *span, ev agui.Event, size int) error {
	if b.exceeded == nil {
		if b.exceeded = b.excess(sp, ev, retained(ev, size)); b.exceeded == nil {
			return nil
		}
		close(b.full)
	}
	return b.exceeded
}

// retained is how many of the size bytes of an event stay in memory. The thread's state has a limit of its own, and the answer at the end
// of a message repeats the message.
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

// excess returns which limit ev exceeds with so many bytes more, nil for none. A retraction has twice as many events: its rows are hidden
// already, and readers of the log must learn it.
func (b *bounds) excess(sp *span, ev agui.Event, more int) *plugins.Error {
	events := int64(b.cfg.RunEvents)
	most := events
	if e, ok := ev.(agui.Custom); ok && agui.RetractedBy(e) != nil {
		most *= 2
	}
	if events > 0 && sp.last-sp.row.First+1 >= most {
		return &plugins.Error{Code: codeTooMany, Message: fmt.Sprintf("The run has emitted %d events, which is all that it may", events)}
	}
	size := sp.fold.Grown() + more
	if int64(size) > b.cfg.SaidPerRun {
		return &plugins.Error{Code: codeTooLarge, Message: fmt.Sprintf("The run's messages have %d bytes, which is all that they may", size)}
	}
	if !b.reserved.grow(size) {
		return &plugins.Error{Code: "overloaded", Message: "The runs at work say more than the server has room for; try again soon", Retryable: true}
	}
	return nil
}

// isFull reports whether a limit was exceeded.
func (b *bounds) isFull() bool {
	select {
	case <-b.full:
		return true
	default:
		return false
	}
}

// checkState refuses ev if it would make the thread's state too large, or cannot be applied to it. An event that makes the state smaller
// passes, however large the state still is: the limit may have been another.
func (b *bounds) checkState(sp *span, ev agui.Event) error {
	most, state, size := b.cfg.StateBytes, sp.state(), 0
	switch e := ev.(type) {
	case agui.StateDelta:
		if escaped*(len(state)+len(e.Delta)) <= most && !bytes.Contains(e.Delta, []byte(`copy`)) && !bytes.Contains(e.Delta, []byte(`\u`)) {
			return nil // nothing in it is there twice, also not by a name that is written otherwise
		}
		next, err := fold.Patched(state, e.Delta)
		if err != nil {
			return &plugins.Error{Code: "illegal_event", Message: err.Error()}
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

// escaped is how many times as long a name in a state may be once a patch has gone through its object, which escapes some characters,
// such as \b.
const escaped = 3

// MaxState limits the STATE_SNAPSHOT of a thread to the size of an event.
const MaxState = 4 << 20
