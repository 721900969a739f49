package commit

import (
	"github.com/batonrun/baton/runtime/quota"
)

// turns holds the items that wait for a commit. Owners take turns by bytes, so that the large items of one do not delay the small ones
// of another. The items of one owner keep their order, except that events of runs may overtake commands.
type turns struct {
	lanes   map[quota.Owner]*lane
	ring    []*lane        // those with items
	at      int            // the index in ring of the lane whose turn it is
	users   map[string]int // lanes of a project
	items   int
	bytes   int
	count   int64 // of all items that came
	deletes *lane // its deletions come next
}

// lane is the items of one owner.
type lane struct {
	owner    quota.Owner
	events   []*Item
	commands []*Item
	bytes    int
	credit   int  // bytes that the owner may still write in its turn
	inTurn   bool // a full batch has interrupted its turn
}

// A batch has the bytes for this many turns of projects. The users of a project share its turn, and have a minimum of their own.
const (
	turnsPerBatch = 16
	usersPerTurn  = 16
)

func newTurns() turns {
	return turns{lanes: make(map[quota.Owner]*lane), users: make(map[string]int)}
}

// add queues an item.
func (t *turns) add(it *Item) {
	l := t.lanes[it.Owner]
	if l == nil {
		l = &lane{owner: it.Owner}
		t.lanes[it.Owner] = l
		t.ring = append(t.ring, l)
		t.users[it.Owner.Project]++
	}
	t.count++
	it.no = t.count
	if it.Command == nil {
		l.events = append(l.events, it)
	} else {
		l.commands = append(l.commands, it)
	}
	t.items++
	t.grew(it, it.size)
}

// grew counts n more bytes of an item that waits.
func (t *turns) grew(it *Item, n int) {
	t.bytes += n
	t.lanes[it.Owner].bytes += n
}

// full reports whether an owner has its share of most bytes while all owners have most.
func (t *turns) full(of quota.Owner, most int) bool {
	if t.bytes < most {
		return false
	}
	l := t.lanes[of]
	return l != nil && l.bytes*len(t.ring) >= most
}

// next returns the next item of the lane, or nil. Without commands it skips a command, which only events of runs may
// overtake.
func (l *lane) next(commands bool) *Item {
	var ev, cmd *Item
	if len(l.events) > 0 {
		ev = l.events[0]
	}
	if len(l.commands) > 0 {
		cmd = l.commands[0]
	}
	switch {
	case cmd == nil, ev != nil && ev.no < cmd.no:
		return ev
	case commands:
		return cmd
	case ev != nil && ev.Source != nil:
		return ev
	}
	return nil
}

// batch is the content of one commit.
type batch struct {
	items                    []*Item
	events, bytes, decisions int
}

// room reports whether the batch takes another item. Its limits may be exceeded by one item.
func (b *batch) room(cfg *Config) bool {
	return len(b.items) == 0 || b.events < cfg.BatchEvents && b.bytes < cfg.BatchBytes
}

// pick moves the items of one commit to b. Once b has its decisions it goes on with the events of runs, which would otherwise wait while a
// crowd starts. Deletions share a commit only with each other.
func (t *turns) pick(b *batch, cfg *Config) {
	if l := t.deletes; l != nil {
		t.deletes = nil
		for it := l.next(true); it != nil && it.deletes() && b.room(cfg) && b.decisions < batchDecisions; it = l.next(true) {
			t.take(l, it, b)
		}
	}
	for progress := len(b.items) == 0; progress && b.room(cfg); {
		progress = false
		for n := len(t.ring); n > 0 && b.room(cfg); n-- {
			l := t.ring[t.at]
			more := t.turn(l, b, cfg)
			progress = progress || more
			if l.inTurn { // the batch is full
				break
			}
			t.at = (t.at + 1) % len(t.ring)
		}
	}
	t.leave()
}

// turn gives a lane its turn, and reports whether it has more for this batch.
func (t *turns) turn(l *lane, b *batch, cfg *Config) bool {
	if !l.inTurn {
		l.credit += max(1, cfg.BatchBytes/turnsPerBatch/min(t.users[l.owner.Project], usersPerTurn))
	}
	for l.inTurn = true; b.room(cfg); {
		it := l.next(b.decisions < batchDecisions)
		switch {
		case it == nil:
			l.inTurn, l.credit = false, 0
			return false
		case len(b.items) > 0 && it.deletes() != b.items[0].deletes():
			if l.inTurn = false; it.deletes() {
				t.deletes = l
			}
			return false
		case it.size > l.credit:
			l.inTurn = false
			return true
		}
		l.credit -= it.size
		t.take(l, it, b)
	}
	return false
}

// take moves the next item of a lane to b.
func (t *turns) take(l *lane, it *Item, b *batch) {
	if it.Command == nil {
		l.events[0], l.events = nil, l.events[1:]
	} else {
		l.commands[0], l.commands = nil, l.commands[1:]
		b.decisions++
	}
	b.items = append(b.items, it)
	b.events, b.bytes = b.events+len(it.Records), b.bytes+it.size
	t.items--
	t.grew(it, -it.size)
	if s := it.Source; s != nil {
		s.queued.Add(-int64(it.size))
		if s.tail == it {
			s.tail = nil
		}
	}
}

// leave removes the lanes that are empty.
func (t *turns) leave() {
	ring, at := t.ring[:0], t.at
	for i, l := range t.ring {
		if i == t.at {
			at = len(ring)
		}
		if len(l.events)+len(l.commands) > 0 {
			ring = append(ring, l)
			continue
		}
		delete(t.lanes, l.owner)
		if t.users[l.owner.Project]--; t.users[l.owner.Project] == 0 {
			delete(t.users, l.owner.Project)
		}
	}
	clear(t.ring[len(ring):])
	t.ring, t.at = ring, at
	if t.at == len(ring) {
		t.at = 0
	}
}

// all removes and returns all items.
func (t *turns) all() (items []*Item) {
	for _, l := range t.ring {
		items = append(append(items, l.events...), l.commands...)
	}
	*t = newTurns()
	return items
}
