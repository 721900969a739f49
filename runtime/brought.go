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

// What a request lists as messages is its client's view of the thread, under ids that are the client's own for what the server
// has said, or without any. The thread keeps to what it has: of a list it takes what is new and the user's own.

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

// known is what a thread knows of a request's messages.
type known struct {
	ids  map[string]bool     // of messages and tool calls
	rows map[string]*Message // its own messages of those ids
	said map[int]*Message    // its own of the messages, by index, that have no id and repeat what it shows
}

func (s *starting) readKnown(ctx context.Context) (known, error) {
	k := known{ids: make(map[string]bool), rows: make(map[string]*Message)}
	if s.first || len(s.req.Messages) == 0 {
		return k, nil
	}
	ids := make([]string, 0, len(s.req.Messages))
	for i := range s.req.Messages {
		for _, id := range []string{s.req.Messages[i].ID, s.req.Messages[i].ToolCallID} { // a client has its own id for the result of its own tool
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

// repeated finds the user's messages without an id that the thread shows, in the order in which it does. The last of all
// messages is not among them: it is what the request is made for.
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
	cut := len(rows) == log.LatestMessages // what stands before them may be repeated too
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

// same reports whether two messages say the same: their text, but for space around it, and what is attached to it.
func same(a, b *agui.Message) bool {
	return strings.TrimSpace(a.Text()) == strings.TrimSpace(b.Text()) && slices.Equal(attached(a), attached(b))
}

// attached says where the parts of a message are that are no text.
func attached(m *agui.Message) (list []agui.Source) {
	for _, p := range m.ContentParts() {
		if p.Source != nil {
			list = append(list, *p.Source)
		}
	}
	return list
}

// newMessages are those of the request's messages that the thread takes, as rows that wait for the claim: all of them
// if they begin it, else what its user says that it does not know. One that is edited is the thread's until the claim. What
// they refer to is checked here: a client sends earlier ones as it was given them.
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
		if m.ID == "" || named[m.ID] || again { // some clients name a result as its call, and its call's message so too
			m.ID = work.NewID()
			s.minted = append(s.minted, m.ID)
		}
		named[m.ID] = true
		fresh = append(fresh, Message{State: MessageQueued, ContextItemIDs: s.req.ContextItemIDs, Message: m})
	}
	return fresh, nil
}

// readUnsaid finds out whether the message that the request is made for, its last, has an id that the thread knows, and would
// not be heard: because it says something else than the thread's, or that is hidden, or is about to be. It is taken under an
// id of its own then, unless it is an edit.
func (s *starting) readUnsaid(ctx context.Context) error {
	s.unsaid = -1
	last := len(s.req.Messages) - 1
	if s.first || last < 0 || s.req.Messages[last].Role != agui.RoleUser || len(s.req.Resume) > 0 { // that is made for its answers
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

// recall finds what the request has answered when it was made first, and the ids that its messages without one were given.
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

// brought tells what the client of the request has in messages of its own.
func (s *starting) brought(out *decide.Started) {
	for i := range s.req.Messages {
		switch m := &s.req.Messages[i]; m.Role {
		case agui.RoleUser:
			out.Messages = append(out.Messages, m.ID)
		case agui.RoleTool: // clients write one of a call that they have approved, too
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
