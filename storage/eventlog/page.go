package eventlog

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// Page is a page of a thread's events that is being read.
type Page struct {
	Events []data.StoredEvent // without their RunID
	Size   int                // of their payloads

	thread, after int64
	limit         int
	kinds         map[string]agui.Type
}

// NewPage returns an empty page of up to limit events of a thread, with ids above after.
func NewPage(thread, after int64, limit int) *Page {
	return &Page{thread: thread, after: after, limit: limit, kinds: make(map[string]agui.Type)}
}

// End is the id of the last event on the page.
func (p *Page) End() int64 {
	if len(p.Events) == 0 {
		return p.after
	}
	return p.Events[len(p.Events)-1].ID
}

// Full reports whether the page has reached its limit.
func (p *Page) Full() bool { return len(p.Events) == p.limit }

// Grow allocates memory for the rows' events.
func (p *Page) Grow(rows []Row) {
	n := 0
	for i := range rows {
		n += int(rows[i].Last - rows[i].First + 1)
	}
	p.Events = slices.Grow(p.Events, min(n, p.limit-len(p.Events)))
}

// Add adds the row's events that come after End, up to the limit. Their payloads share the row's memory.
func (p *Page) Add(r *Row) error {
	if r.Last <= p.End() || p.Full() {
		return nil
	}
	rest := r.Payload
	for id := r.First; id <= r.Last; id++ {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			return fmt.Errorf("row of events %d to %d of thread %d ends at %d", r.First, r.Last, p.thread, id)
		}
		line := rest[:end:end]
		rest = rest[end+1:]
		if id <= p.End() { // a segment may begin before the end of the rows that were read
			continue
		}
		if p.Full() {
			break
		}
		kind, ok := leadingType(line)
		if !ok {
			kind, line, _ = bytes.Cut(line, []byte{' '})
			line = slices.Clip(line)
		}
		p.Size += len(line)
		p.Events = append(p.Events, data.StoredEvent{
			ThreadKey: p.thread, ID: id, RunKey: r.Run, Kind: intern(p.kinds, kind), Payload: line,
		})
	}
	return nil
}

// intern returns the kind as a string, and allocates it once for a page.
func intern(kinds map[string]agui.Type, kind []byte) agui.Type {
	k, ok := kinds[string(kind)]
	if !ok {
		k = agui.Type(kind)
		kinds[string(k)] = k
	}
	return k
}
