package fold

import (
	"encoding/json"
	"slices"

	"github.com/batonrun/baton/runtime/agui"
)

// list has a thread's messages in order.
type list struct {
	first *message // each has its next
	end   *message
	n     int
	byID  map[string]*message // the first message of each id
	calls map[string]*call    // the first call of each id
	grown int                 // bytes of messages and openers
	part  int                 // bytes of incomplete messages, part of grown
}

// add appends a message.
func (l *list) add(m agui.Message) *message { return l.addBehind(l.end, m) }

// addBehind inserts a message behind at, or at the front if at is nil.
func (l *list) addBehind(at *message, m agui.Message) *message {
	added := &message{Message: m}
	added.ToolCalls = slices.Clone(m.ToolCalls)
	if at == nil {
		l.first = added
	} else {
		added.next, at.next = at.next, added
	}
	if at == l.end {
		l.end = added
	}
	l.n++
	l.index(added)
	l.count(added, Size(&m))
	return added
}

// index registers the ids of m and its calls unless they are taken.
func (l *list) index(m *message) {
	if l.byID[m.ID] == nil {
		l.byID[m.ID] = m
	}
	for i := range m.ToolCalls {
		if id := m.ToolCalls[i].ID; l.calls[id] == nil {
			l.calls[id] = &call{owner: m, i: i}
		}
	}
}

// bring adds a message that no worker wrote. It does not count in grown.
func (l *list) bring(m agui.Message) {
	added := l.add(m)
	l.count(added, -added.counts)
}

// forget removes everything from m except its place.
func (l *list) forget(m *message) {
	for _, tc := range m.ToolCalls {
		if c := l.calls[tc.ID]; c != nil && c.owner == m {
			delete(l.calls, tc.ID)
		}
	}
	l.count(m, -m.counts)
	*m = message{next: m.next, results: m.results}
}

// count adds n bytes, which may be negative, to m.
func (l *list) count(m *message, n int) {
	l.changing(m, func() {
		l.grown += max(m.counts+n, 0) - max(m.counts, 0)
		m.counts += n
	})
}

// changing runs change, which may complete, reopen or enlarge m, and updates part.
func (l *list) changing(m *message, change func()) {
	l.part -= m.part()
	change()
	l.part += m.part()
}

// annotate merges more into metadata, which belongs to m or one of its calls.
func (l *list) annotate(m *message, metadata *json.RawMessage, more json.RawMessage) {
	merged := agui.MergeMetadata(*metadata, more)
	l.count(m, len(merged)-len(*metadata))
	*metadata = merged
}

// rewrite sets member, which belongs to m or one of its calls.
func (l *list) rewrite(m *message, member *string, text string) {
	l.count(m, len(text)-len(*member))
	*member = text
}
