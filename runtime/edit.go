package runtime

import (
	"context"
	"slices"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/log"
)

// edit is a change to an earlier message, or a request for another answer: the front end sends the conversation up to
// that point.
type edit struct {
	from    int64         // the seq of the first hidden message; 0 when there is no edit
	message *agui.Message // the request's message with the new content at that place; nil when there is none
}

// place is how far a request's list repeats the messages that the thread shows.
type place struct {
	users    map[int64]bool // the seqs of the user's messages that the list repeats
	last     *Message       // the last of them; nil when there is none
	edited   *agui.Message  // the list's version of last, when its content differs; else nil
	turn     bool           // the list has other messages of that turn
	furthest int64          // the highest seq of any message in the list
	ends     bool           // no new message follows
}

// edits decides whether the request is an edit. It is one only if the list repeats the thread from its first message:
// a list with only the newest messages, or with none, continues the thread. A list that lacks only the answer before
// its new message continues the thread too, because its client may have missed that answer.
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
	if len(rows) == 0 || len(rows) == log.LatestMessages { // the rows were removed just now, or do not reach the thread's beginning
		return edit{}, nil
	}
	next := int64(0) // the seq of the first user message that the list leaves out
	for i := range rows {
		switch seq := rows[i].Seq; {
		case rows[i].Role != agui.RoleUser || p.users[seq]:
		case seq < p.last.Seq:
			return edit{}, nil // the list does not repeat the thread
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

// locate compares the request's list with the known messages of the thread, and reports whether a comparison is
// possible: new messages must follow the known ones, and known messages must have ids. A message without an id is not
// certain to be the thread's.
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
