package work

import (
	"context"
	"fmt"
	"slices"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/model"
)

// Clients keep messages and calls by their ids, over all runs of a thread, and so do rows: an id that an earlier run, or an
// earlier generation of this one, has used would change what that has written. Ids that the server mints for a worker are new; the others, which the
// worker makes up or takes from its input, are looked up once.

// mint returns a new id, which the worker's next use of it shows to be its own.
func (l *live) mint() string {
	id := NewID()
	l.mu.Lock()
	l.minted[id] = true
	l.mu.Unlock()
	return id
}

// own refuses an event of a worker that names a message or a call of another run.
func (l *live) own(ctx context.Context, ev agui.Event) error {
	ids := l.foreign(named(ev))
	if len(ids) == 0 {
		return nil
	}
	if id := l.shown(ids); id != "" {
		return inUse(id)
	}
	taken, err := commit.Patiently(ctx, func() ([]model.Message, error) {
		return l.en.store.MessagesByID(ctx, l.w.thread.Key, ids)
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	taken = slices.DeleteFunc(taken, func(m model.Message) bool { return l.writes(m.ID) }) // another node was quicker
	l.mu.Unlock()
	if len(taken) == 0 {
		return nil
	}
	id := taken[0].ID
	if !slices.Contains(ids, id) {
		id = taken[0].ToolCallID
	}
	return inUse(id)
}

func inUse(id string) error {
	return &plugins.Error{Code: "message_id_in_use", Message: fmt.Sprintf("The thread has used the id %q before", id)}
}

// shown returns the first of the foreign ids that clients know from a snapshot in the run's log, "" for none. Of these
// there may be no row any more.
func (l *live) shown(ids []string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if _, ok := l.w.fold.Message(id); ok {
			return id
		}
	}
	return ""
}

// writes reports whether the message of that id is one of the run's generation. After a crash those of earlier ones are known,
// too. The lock is held.
func (l *live) writes(id string) bool {
	m := l.w.messages[id]
	return m != nil && (m.EventID == 0 || m.EventID >= l.began.upTo)
}

// named are the ids of messages and calls that an event begins, or adds to.
func named(ev agui.Event) []string {
	switch e := ev.(type) {
	case agui.TextMessageStart:
		return []string{e.MessageID}
	case agui.ReasoningMessageStart:
		return []string{e.MessageID}
	case agui.ActivitySnapshot:
		return []string{e.MessageID}
	case agui.ToolCallResult:
		return []string{e.MessageID}
	case agui.ToolCallStart:
		return []string{e.ToolCallID, e.ParentMessageID}
	}
	return nil
}

// foreign returns those of ids of which the run does not know that they are its own.
func (l *live) foreign(ids []string) (unknown []string) {
	if ids == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		switch {
		case id == "", l.writes(id):
		case l.minted[id]:
			delete(l.minted, id)
		default:
			unknown = append(unknown, id)
		}
	}
	return unknown
}
