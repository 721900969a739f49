package runtime

import (
	"context"
	"slices"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/log"
)

// edit is what somebody does who edits a message in a chat, or asks for another answer: the front end sends the conversation
// up to there.
type edit struct {
	from    int64         // the seq of the first message that is hidden; 0 when there is no edit
	message *agui.Message // the request's that stands there and says something else; nil when there is none
}

// place is how far a request's list repeats what the thread shows.
type place struct {
	users    map[int64]bool // the seqs of the user's messages that it repeats
	last     *Message       // the last of these; nil when there is none
	edited   *agui.Message  // that message in the list, when it says something else; else nil
	turn     bool           // the list has more of its turn than itself
	furthest int64          // the highest seq of any message that it lists
	ends     bool           // nothing new follows
}

// edits finds out whether the request is an edit. That it is takes a list that repeats the thread from its start: one that has
// only the newest messages, or none, goes on with what there is. So does one that lacks no more than the answer to its last message,
// as its client may have missed that.
func (s *starting) edits(ctx context.Context, k *known) (edit, error) {
	if !s.req.Edits || s.first || s.req.RewindTo != "" || len(s.req.Resume) > 0 {
		return edit{}, nil
	}
	p, ok := s.locate(k)
	if !ok || p.last == nil || p.furthest >= s.th.LastSeq && p.edited == nil {
		return edit{}, nil
	}
	open, err := s.rt.keyed.openRuns(ctx, s.at)
	if err != nil || len(open) > 0 {
		return edit{}, err
	}
	rows, err := s.rt.keyed.newest(ctx, s.at)
	if err != nil {
		return edit{}, err
	}
	if len(rows) == 0 || len(rows) == log.LatestMessages { // they were removed just now, or do not tell how the thread begins
		return edit{}, nil
	}
	next := int64(0) // the first message of the user that the list leaves out
	for i := range rows {
		switch seq := rows[i].Seq; {
		case rows[i].Role != agui.RoleUser || p.users[seq]:
		case seq < p.last.Seq:
			return edit{}, nil // it does not repeat the thread
		case next == 0:
			next = seq
		}
	}
	switch {
	case p.edited != nil:
		return edit{p.last.Seq, p.edited}, nil
	case p.ends && !p.turn && rows[len(rows)-1].Seq > p.last.Seq, next > 0 && !p.ends && !p.turn:
		return edit{from: p.last.Seq + 1}, nil
	case next > 0 && !p.ends:
		return edit{from: next}, nil
	}
	return edit{}, nil
}

// locate compares the request's list with what the thread knows of it, and reports whether they can be compared: what is new must
// follow what is known, and that must have ids. Of a message without one nobody has said that it is the thread's.
func (s *starting) locate(k *known) (p place, ok bool) {
	p = place{users: make(map[int64]bool), ends: true}
	for i := range s.req.Messages {
		m := &s.req.Messages[i]
		row := k.rows[m.ID]
		if row != nil && row.State == MessageConsumed {
			p.furthest = max(p.furthest, row.Seq)
		}
		switch {
		case m.Role != agui.RoleUser:
			p.turn = p.turn || p.ends
		case k.said[i] != nil:
			return p, false
		case row == nil:
			p.ends = false
		case !p.ends || row.State != MessageConsumed || row.Role != agui.RoleUser || p.last != nil && row.Seq < p.last.Seq:
			return p, false
		default:
			p.users[row.Seq], p.last = true, row
			p.edited, p.turn = nil, false
			if !same(m, &row.Message) {
				p.edited = m
			}
		}
	}
	if p.turn {
		p.edited = nil
	}
	return p, true
}

// lost reports whether the request rewinds to a message that the thread does not show.
func (s *starting) lost(ctx context.Context) (bool, error) {
	if s.req.RewindTo == "" || s.first {
		return s.req.RewindTo != "", nil
	}
	rows, err := s.rt.keyed.messagesByID(ctx, s.at, []string{s.req.RewindTo})
	i := slices.IndexFunc(rows, func(m Message) bool { return m.ID == s.req.RewindTo && m.State == MessageConsumed })
	if i >= 0 {
		s.rewind = rows[i].Seq
	}
	return i < 0, err
}
