// Package reconcile decides what the messages of a request mean to its thread: pure functions.
package reconcile

import (
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// The messages of a request are its client's view of the thread. The client may use ids of its own for the server's
// messages, or no ids. The thread keeps its own messages; from the list it takes only the user's new ones.

// Request is the part of a request that says what its messages mean.
type Request struct {
	Messages       []agui.Message
	ContextItemIDs []string
	RewindTo       string
	Edits          bool // see runtime.StartRequest
	MaxBytes       int  // of the messages that the thread takes
	Resumes        bool // it answers interrupts
	RollsBack      bool // it rolls open runs back
}

// Thread is the part of the thread that a list is compared with.
type Thread struct {
	New     bool // the thread does not exist yet
	LastSeq int64
	ByID    []data.MessageHead // with an id or toolCallId of the list, or the id to rewind to

	// The rest is read if a plan needs it.
	Read  bool
	Shown []data.MessageHead // the newest that the thread shows, by seq
	Whole bool               // shown begins with the thread's first message
	Open  []data.RunHead     // the thread's runs that are not over
}

// Plan is the meaning of a list for the thread. Indexes are those of the request's messages.
type Plan struct {
	NeedsThread bool // stored has to be read completely, then the list must be reconciled again

	Known    map[string]bool // ids of the list's messages and tool calls that the thread has
	fresh    []int           // the messages that the thread takes
	renamed  int             // the one of fresh that gets a new id, because its id has another content or is hidden; -1 for none
	edit     int             // the message that replaces the thread's message with its id; -1 for none
	HideFrom int64           // the seq of the first message that an edit, or a request for another answer, hides; 0 for none
	Lost     bool            // the thread does not show the message to rewind to

	// The rest is set if the thread was read as far as needed.
	Size   int            // of Taken, in bytes
	Taken  []data.Message // the messages that the thread takes, as queued rows and without their claims
	Edited *agui.Message  // the new content of an earlier message, nil when there is none
	Minted []string       // new ids of messages that came without an id, or with one that the thread has
}

// comparison is a list and the thread while they are compared.
type comparison struct {
	*Request
	*Thread
	rows   map[string]*data.MessageHead // byID
	same   map[int]bool                 // messages without an id that repeat one of the thread
	rewind int64                        // the seq of the message to rewind to
	Plan
}

// Compare decides the meaning of a request's list of messages. It refuses messages that the thread cannot take.
func Compare(req *Request, have *Thread) (Plan, error) {
	c := comparison{Request: req, Thread: have, rows: make(map[string]*data.MessageHead)}
	c.Known, c.renamed, c.edit = make(map[string]bool), -1, -1
	for i := range have.ByID {
		row := &have.ByID[i]
		c.rows[row.ID], c.Known[row.ID] = row, true
		if row.ToolCallID != "" {
			c.Known[row.ToolCallID] = true
		}
	}
	c.matchUnnamed()
	c.findEdit()
	c.findRewind()
	c.findRenamed()
	c.takeFresh()
	if c.NeedsThread {
		return c.Plan, nil
	}
	err := c.take(req)
	return c.Plan, err
}

// thread reports whether the thread was read. Otherwise the plan needs that.
func (c *comparison) thread() bool {
	c.NeedsThread = c.NeedsThread || !c.Read
	return c.Read
}

// matchUnnamed matches the user's messages without an id with messages that the thread shows, in the thread's order. It
// skips the last message of the list, because the request is made for that message.
func (c *comparison) matchUnnamed() {
	if c.New {
		return
	}
	at := 0
	for i := range max(len(c.Messages)-1, 0) {
		m := &c.Messages[i]
		if m.ID != "" || m.Role != agui.RoleUser {
			continue
		}
		if !c.thread() {
			return
		}
		if c.same == nil {
			c.same = make(map[int]bool)
		}
		c.same[i] = !c.Whole // an older message, which was not read, may be repeated too
		hash := data.ContentHash(m)
		for next := at; next < len(c.Shown); next++ {
			if c.Shown[next].Hash == hash {
				c.same[i], at = true, next+1
				break
			}
		}
	}
}

// place is how far a list repeats the messages that the thread shows.
type place struct {
	users    map[int64]bool    // the seqs of the user's messages that the list repeats
	last     *data.MessageHead // the last of them; nil when there is none
	edited   int               // the index of the list's version of last, when its content differs; else -1
	turn     bool              // the list has other messages of that turn
	furthest int64             // the highest seq of any message in the list
	ends     bool              // no new message follows
}

// findEdit decides whether the list is an edit. It is one only if the list repeats the thread from its first message: a
// list with only the newest messages, or with none, continues the thread. A list that lacks only the answer before its
// new message continues the thread too, because its client may have missed that answer. A thread with an open run is
// not edited.
func (c *comparison) findEdit() {
	if !c.Edits || c.New || c.RewindTo != "" || c.Resumes {
		return
	}
	p, ok := c.locate()
	if !ok || p.last == nil || p.furthest >= c.LastSeq && p.edited < 0 {
		return
	}
	if !c.thread() || len(c.Open) > 0 || len(c.Shown) == 0 || !c.Whole {
		return
	}
	next := int64(0) // the seq of the first user message that the list leaves out
	for i := range c.Shown {
		switch seq := c.Shown[i].Seq; {
		case c.Shown[i].Hash == 0 || p.users[seq]:
		case seq < p.last.Seq:
			return // the list does not repeat the thread
		case next == 0:
			next = seq
		}
	}
	switch {
	case p.edited >= 0:
		c.edit, c.HideFrom = p.edited, p.last.Seq
	case p.ends && !p.turn && c.Shown[len(c.Shown)-1].Seq > p.last.Seq, next > 0 && !p.ends && !p.turn:
		c.HideFrom = p.last.Seq + 1
	case next > 0 && !p.ends:
		c.HideFrom = next
	}
}

// locate compares the list with the known messages of the thread, and reports whether a comparison is possible: new
// messages must follow the known ones, and known messages must have ids. A message without an id is not certain to be
// the thread's.
func (c *comparison) locate() (p place, ok bool) {
	p = place{users: make(map[int64]bool), ends: true, edited: -1}
	at := 0 // the index of the list's version of p.last
	for i := range c.Messages {
		m := &c.Messages[i]
		row := c.rows[m.ID]
		if row != nil && row.State == data.MessageConsumed {
			p.furthest = max(p.furthest, row.Seq)
		}
		switch {
		case m.Role != agui.RoleUser:
			p.turn = p.turn || p.ends
		case c.same[i]:
			return p, false
		case row == nil:
			p.ends = false
		case !p.ends || row.State != data.MessageConsumed || row.Hash == 0 || p.last != nil && row.Seq < p.last.Seq:
			return p, false
		default:
			p.users[row.Seq], p.last = true, row
			at, p.turn = i, false
		}
	}
	if p.last != nil && !p.turn && data.ContentHash(&c.Messages[at]) != p.last.Hash {
		p.edited = at
	}
	return p, true
}

// findRewind looks for the message to rewind to.
func (c *comparison) findRewind() {
	if c.RewindTo == "" {
		return
	}
	row := c.rows[c.RewindTo]
	if c.Lost = row == nil || row.State != data.MessageConsumed; !c.Lost {
		c.rewind = row.Seq
	}
}

// findRenamed checks whether the last user message of the list reuses an id of the thread: with other content than the
// thread's message, for a hidden message, or for a message that a rewind or rollback is about to hide. Such a message
// is taken under a new id, unless it is an edit.
func (c *comparison) findRenamed() {
	last := len(c.Messages) - 1
	if c.New || last < 0 || c.Messages[last].Role != agui.RoleUser || c.Resumes || c.edit >= 0 {
		return
	}
	m := &c.Messages[last]
	row := c.rows[m.ID]
	switch {
	case row == nil:
	case row.State == data.MessageHidden, row.Hash != data.ContentHash(m), c.RewindTo != "" && row.Seq > c.rewind:
		c.renamed = last
	case c.RollsBack && c.thread():
		for i := range c.Open {
			if c.Open[i].Key == row.RunKey {
				c.renamed = last
			}
		}
	}
}

// takeFresh lists the messages that the thread takes: all of them if they begin the thread, else the user's messages
// that are new to it. An edited message stays the thread's until the claim.
func (c *comparison) takeFresh() {
	for i := range c.Messages {
		m := &c.Messages[i]
		if i != c.edit && (c.New || m.Role == agui.RoleUser && !c.same[i] && (!c.Known[m.ID] || i == c.renamed)) {
			c.fresh = append(c.fresh, i)
		}
	}
}

// Named returns the ids of the request's messages and tool calls, and the id to rewind to. An id is false if it is only a call's. A
// client uses its own id for the result of its own tool.
func (req *Request) Named() map[string]bool {
	ids := make(map[string]bool, len(req.Messages))
	for i := range req.Messages {
		if id := req.Messages[i].ToolCallID; id != "" && !ids[id] {
			ids[id] = false
		}
		if id := req.Messages[i].ID; id != "" {
			ids[id] = true
		}
	}
	if req.RewindTo != "" {
		ids[req.RewindTo] = true
	}
	return ids
}
