package work

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/fold"
	"github.com/batonrun/baton/runtime/queue"
)

// bounds limits the events and bytes that the workers of a run may add to its span. The run's mutex guards exceeded.
type bounds struct {
	cfg      *Config
	reserved *queue.Reservation      // nil for a run that is not executed
	exceeded *plugins.Error          // the error of all later events
	end      context.CancelCauseFunc // called with exceeded: the run fails, even if its workers ignore the error
}

// check refuses ev, which adds size bytes, once the span has its maximum of worker events, or if the messages would exceed
// their limit in memory. It counts events by the ids of the log, so a takeover does not restart the count. Events that end
// the span have no limit.
func (b *bounds) check(sp *span, ev agui.Event, size int) error {
	if b.exceeded == nil {
		if b.exceeded = b.excess(sp, ev, retained(ev, size)); b.exceeded == nil {
			return nil
		}
		b.end(b.exceeded)
	}
	return b.exceeded
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
	if int64(size) > b.cfg.RunMessages {
		return &plugins.Error{Code: codeTooLarge, Message: fmt.Sprintf("The run's messages have %d bytes, which is all that they may", size)}
	}
	if !b.reserved.Grow(size) {
		return &plugins.Error{Code: "overloaded", Message: "The runs at work say more than the server has room for; try again soon", Retryable: true}
	}
	return nil
}

// checkState refuses ev if it would make the thread's state too large, or cannot be applied to it. An event that shrinks the
// state passes even if the state is still too large: the limit may have been higher when the state grew.
func (b *bounds) checkState(sp *span, ev agui.Event) error {
	most, state, size := b.cfg.StateBytes, sp.state(), 0
	switch e := ev.(type) {
	case agui.StateDelta:
		if escaped*(len(state)+len(e.Delta)) <= most && !bytes.Contains(e.Delta, []byte(`copy`)) && !bytes.Contains(e.Delta, []byte(`\u`)) {
			return nil // nothing is duplicated: there is no copy, not even one spelled with escapes
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

// escaped bounds the growth of a name in a state when a patch encodes its object again, which escapes some characters, such
// as \b.
const escaped = 3

// MaxState limits the STATE_SNAPSHOT of a thread to the size of an event.
const MaxState = 4 << 20

func orDefault(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}
