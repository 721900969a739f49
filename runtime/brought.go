package runtime

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/log"
	"github.com/batonrun/baton/runtime/model"
	"github.com/batonrun/baton/runtime/work"
)

// The messages of a request are its client's view of the thread. The client may use ids of its own for the server's
// messages, or no ids. The thread keeps its own messages; from the list it takes only the user's new ones.

func checkMessages(msgs []agui.Message) error {
	for i := range msgs {
		m := &msgs[i]
		switch {
		case m.ID != "" && !ValidName(m.ID):
			return refuseAt(fmt.Sprintf("/messages/%d/id", i), "invalid_name", "A message id must be 1 to 200 characters without control characters")
		case m.ToolCallID != "" && !ValidName(m.ToolCallID):
			return refuseAt(fmt.Sprintf("/messages/%d/toolCallId", i), "invalid_name", "A toolCallId must be 1 to 200 characters without control characters")
		}
		switch m.Role {
		case agui.RoleUser, agui.RoleAssistant, agui.RoleSystem, agui.RoleDeveloper, agui.RoleTool, agui.RoleReasoning, agui.RoleActivity:
		default:
			return refuseAt(fmt.Sprintf("/messages/%d/role", i), "invalid_message", "A message has the unknown role %q", m.Role)
		}
	}
	return nil
}

// known holds the parts of the thread that match a request's messages.
type known struct {
	ids  map[string]bool     // ids of messages and tool calls
	rows map[string]*Message // the thread's messages with those ids
	said map[int]*Message    // the thread's messages, by index in the request, that a request message without an id repeats
}

func (s *starting) readKnown(ctx context.Context) (known, error) {
	k := known{ids: make(map[string]bool), rows: make(map[string]*Message)}
	if s.first || len(s.req.Messages) == 0 {
		return k, nil
	}
	ids := make([]string, 0, len(s.req.Messages))
	for i := range s.req.Messages {
		for _, id := range []string{s.req.Messages[i].ID, s.req.Messages[i].ToolCallID} { // a client uses its own id for the result of its own tool
			if id != "" {
				ids = append(ids, id)
			}
		}
	}
	old, err := s.rt.keyed.messagesByID(ctx, s.at, ids)
	if err != nil {
		return k, err
	}
	for i := range old {
		k.ids[old[i].ID], k.rows[old[i].ID] = true, &old[i]
		if old[i].ToolCallID != "" {
			k.ids[old[i].ToolCallID] = true
		}
	}
	k.said, err = s.repeated(ctx)
	return k, err
}

// repeated matches the user's messages without an id with messages that the thread shows, in the thread's order. It
// skips the last message of the request, because the request is made for that message.
func (s *starting) repeated(ctx context.Context) (map[int]*Message, error) {
	last := len(s.req.Messages) - 1
	unnamed := func(i int) bool {
		return s.req.Messages[i].ID == "" && s.req.Messages[i].Role == agui.RoleUser && i < last
	}
	some := false
	for i := range s.req.Messages {
		some = some || unnamed(i)
	}
	if !some {
		return nil, nil
	}
	rows, err := s.rt.keyed.newest(ctx, s.at)
	if err != nil {
		return nil, err
	}
	said := make(map[int]*Message)
	cut := len(rows) == log.LatestMessages // older messages, which were not read, may be repeated too
	for i := range s.req.Messages {
		if !unnamed(i) {
			continue
		}
		if cut {
			said[i] = new(Message)
		}
		for at := range rows {
			if rows[at].Role == agui.RoleUser && same(&rows[at].Message, &s.req.Messages[i]) {
				said[i], rows = &rows[at], rows[at+1:]
				break
			}
		}
	}
	return said, nil
}

// same reports whether two messages have the same text, apart from surrounding space, and the same attached sources.
func same(a, b *agui.Message) bool {
	return strings.TrimSpace(a.Text()) == strings.TrimSpace(b.Text()) && slices.Equal(attached(a), attached(b))
}

// attached returns the sources of a message's parts that are not text.
func attached(m *agui.Message) (list []agui.Source) {
	for _, p := range m.ContentParts() {
		if p.Source != nil {
			list = append(list, *p.Source)
		}
	}
	return list
}

// newMessages returns the request's messages that the thread takes, as queued rows: all of them if they begin the
// thread, else the user's messages that are new to it. An edited message stays the thread's until the claim.
// Attachment references are checked here and only for messages that the thread takes, because a client repeats
// earlier messages as it received them.
func (s *starting) newMessages() ([]Message, error) {
	var fresh []Message
	s.minted = nil
	named := make(map[string]bool)
	for i, m := range s.req.Messages {
		again := i == s.unsaid
		edited := s.edit.message == &s.req.Messages[i]
		if !s.first && (m.Role != agui.RoleUser || s.known.ids[m.ID] && !again || s.known.said[i] != nil) && !edited {
			continue
		}
		if err := checkAttachments(i, &m); err != nil {
			return nil, err
		}
		if edited {
			continue
		}
		if m.ID == "" || named[m.ID] || again { // some clients give the result and the message of a call the id of that call
			m.ID = work.NewID()
			s.minted = append(s.minted, m.ID)
		}
		named[m.ID] = true
		fresh = append(fresh, Message{State: MessageQueued, ContextItemIDs: s.req.ContextItemIDs, Message: m})
	}
	return fresh, nil
}

// readUnsaid checks whether the last user message of the request reuses an id of the thread: with other content than
// the thread's message, for a hidden message, or for a message that a rewind or rollback is about to hide. Such a
// message is taken under a new id, unless it is an edit.
func (s *starting) readUnsaid(ctx context.Context) error {
	s.unsaid = -1
	last := len(s.req.Messages) - 1
	if s.first || last < 0 || s.req.Messages[last].Role != agui.RoleUser || len(s.req.Resume) > 0 { // a request with answers is made for its answers
		return nil
	}
	m := &s.req.Messages[last]
	row := s.known.rows[m.ID]
	if row == nil || s.edit.message != nil {
		return nil
	}
	switch {
	case row.State == model.MessageHidden, !same(m, &row.Message), s.req.RewindTo != "" && row.Seq > s.rewind:
		s.unsaid = last
	case s.req.Multitask == RollbackRuns:
		open, err := s.rt.keyed.openRuns(ctx, s.at)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(open, func(r RunHead) bool { return r.Key == row.RunKey }) {
			s.unsaid = last
		}
	}
	return nil
}

// recall finds the calls that the request answered when it was first made, and the ids that its messages without an
// id got.
func (s *starting) recall(ctx context.Context) error {
	s.minted, s.answers = nil, make(map[string]bool)
	if slices.ContainsFunc(s.req.Messages, func(m agui.Message) bool { return m.Role == agui.RoleTool }) {
		all, err := s.rt.keyed.interrupts(ctx, s.started().granted)
		if err != nil {
			return err
		}
		for i := range all {
			s.answers[all[i].ID] = all[i].Frontend
		}
	}
	unnamed := func(m *agui.Message) bool { return m.Role == agui.RoleUser && m.ID == "" }
	if !slices.ContainsFunc(s.req.Messages, func(m agui.Message) bool { return unnamed(&m) }) {
		return nil
	}
	byText := make(map[string][]*agui.Message)
	for i := range s.req.Messages {
		if m := &s.req.Messages[i]; unnamed(m) {
			text := strings.TrimSpace(m.Text())
			byText[text] = append(byText[text], m)
		}
	}
	for after := int64(0); ; {
		page, err := s.rt.store.RunMessages(ctx, s.c.project, s.out.Started.RunKey, after, log.LatestMessages)
		for i := range page.Rows {
			row := &page.Rows[i]
			taken := func(m *agui.Message) bool { return same(m, &row.Message) }
			if after = row.Key; row.Role == agui.RoleUser && slices.ContainsFunc(byText[strings.TrimSpace(row.Text())], taken) {
				s.minted = append(s.minted, row.ID)
			}
		}
		if err != nil || !page.More {
			return err
		}
	}
}

// brought sets the messages, tool results and state that the client has itself.
func (s *starting) brought(out *decide.Started) {
	for i := range s.req.Messages {
		switch m := &s.req.Messages[i]; m.Role {
		case agui.RoleUser:
			out.Messages = append(out.Messages, m.ID)
		case agui.RoleTool: // clients also write a result for a call that they have approved
			if s.answers[m.ToolCallID] {
				out.Results = append(out.Results, m.ToolCallID)
			}
		}
	}
	out.Messages = append(out.Messages, s.minted...)
	out.State = s.req.State
	if s.out.Claimed {
		out.Before = s.th.State
	}
}
