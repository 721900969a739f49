package work

import (
	"context"
	"fmt"
	"slices"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
)

// Clients and rows identify messages and calls by their ids, over all runs of a thread. An id that an earlier run, or an
// earlier generation of this run, has used would change the earlier message or call. The ids that the server mints for a
// worker are new. The other ids, which the worker makes up or takes from its input, are looked up once.

// own refuses an event that continues a message, call or activity which no worker of the run's current generation began.
// Workers must not change the messages of people, other runs or earlier generations.
func (l *live) own(ctx context.Context, ev agui.Event) error {
	ids, err := l.foreign(ev)
	if err != nil || len(ids) == 0 {
		return err
	}
	taken, err := commit.RetryUnavailable(ctx, func() ([]data.MessageHead, error) {
		return l.en.store.MessageHeads(ctx, l.span.thread.Key, ids)
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	taken = slices.DeleteFunc(taken, func(m data.MessageHead) bool { return l.span.writes(m.ID) }) // another node was quicker
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
	return &plugins.Error{Code: "illegal_event", Message: fmt.Sprintf("The thread has used the id %q before", id)}
}

// writes reports whether a worker of the run's current generation began the message of that id. Messages from RUN_STARTED and
// appended messages belong to people.
func (sp *span) writes(id string) bool {
	m := sp.messages[id]
	return m != nil && (m.EventID == 0 || m.EventID > sp.began.upTo) && sp.fold.Role(id) != agui.RoleUser
}

// named returns the ids of the messages and calls that ev begins or continues, and the roles that an existing message may have.
func (sp *span) named(ev agui.Event) (ids []string, as []agui.Role) {
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
			id = sp.fold.Caller(id)
		}
		return []string{id}, []agui.Role{agui.RoleAssistant, agui.RoleReasoning}
	}
	return nil, nil
}

// foreign returns the ids in ev that the run does not know. It fails for an id that the run knows as a message of another
// owner or role.
func (l *live) foreign(ev agui.Event) (unknown []string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids, as := l.span.named(ev)
	for _, id := range ids {
		role := l.span.fold.Role(id)
		switch {
		case id == "":
		case role != "" && (!l.span.writes(id) || !slices.Contains(as, role)):
			return nil, inUse(id)
		case l.span.writes(id):
		case l.journal.TakeMinted(id):
		default:
			unknown = append(unknown, id)
		}
	}
	return unknown, nil
}
