// Package eventlog is the stored form of a thread's log: events are packed into rows, a line each, and old rows are compressed into
// segments. It has no SQL: package storage reads and writes the rows and the segments.
package eventlog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/batonrun/baton/runtime/data"
)

// The bounds of a row: an event is added while the row is below them. A row of this size fits into a page of PostgreSQL's, and a
// reader of a page of events reads little more than the page.
const (
	maxRowSize   = 7 << 10
	maxRowEvents = 64
)

// Row is a row of events: consecutive events of one run, a line each.
//
// A line is the event's payload, which usually begins with {"type":"KIND". If it does not, the kind and a space precede it.
type Row struct {
	Thread, Run int64
	First, Last int64 // event ids
	Payload     []byte
}

// Packer packs events into rows. It reuses its memory.
type Packer struct {
	rows []Row
	open map[int64]int // by thread, the index in rows of the row that can still grow
}

// Pack returns the events in rows, ordered by thread and id. They are valid until the next call.
func (p *Packer) Pack(events []data.StoredEvent) ([]Row, error) {
	if p.open == nil {
		p.open = make(map[int64]int)
	}
	clear(p.open)
	p.rows = p.rows[:0]
	for i := range events {
		ev := &events[i]
		if err := checkEvent(ev); err != nil {
			return nil, fmt.Errorf("event %d of thread %d: %w", ev.ID, ev.ThreadKey, err)
		}
		n, ok := p.open[ev.ThreadKey]
		if !ok || !p.rows[n].admits(ev) {
			n = p.add(Row{Thread: ev.ThreadKey, Run: ev.RunKey, First: ev.ID})
			p.open[ev.ThreadKey] = n
		}
		row := &p.rows[n]
		row.Last = ev.ID
		row.Payload = appendLine(row.Payload, ev)
	}
	slices.SortFunc(p.rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Thread, b.Thread), cmp.Compare(a.Last, b.Last))
	})
	return p.rows, nil
}

// Done releases the memory of large rows. The rows are no longer valid.
func (p *Packer) Done() {
	for i := range p.rows {
		if cap(p.rows[i].Payload) > 64<<10 {
			p.rows[i].Payload = nil
		}
	}
}

// add appends a row, which reuses the memory of an earlier one.
func (p *Packer) add(row Row) int {
	n := len(p.rows)
	if n < cap(p.rows) {
		row.Payload = p.rows[:n+1][n].Payload[:0]
	}
	p.rows = append(p.rows, row)
	return n
}

// admits reports whether the event may be added to the row.
func (r *Row) admits(ev *data.StoredEvent) bool {
	return ev.RunKey == r.Run && ev.ID == r.Last+1 && ev.ID-r.First < maxRowEvents &&
		len(r.Payload)+len(ev.Payload) < maxRowSize
}

// checkEvent refuses an event that could not be separated from its neighbours.
func checkEvent(ev *data.StoredEvent) error {
	switch {
	case ev.ThreadKey <= 0 || ev.ID <= 0:
		return errors.New("without a thread or an id")
	case strings.ContainsAny(string(ev.Kind), " \n\"\\{\x00") || !utf8.ValidString(string(ev.Kind)):
		return fmt.Errorf("of the kind %q", ev.Kind)
	case bytes.IndexByte(ev.Payload, '\n') >= 0:
		return errors.New("has more than one line")
	case bytes.IndexByte(ev.Payload, 0) >= 0:
		return errors.New("contains a NUL")
	case !utf8.Valid(ev.Payload):
		return errors.New("is not UTF-8")
	}
	return nil
}

const (
	typePrefix = `{"type":"`
	typeSuffix = '"'
)

func appendLine(dst []byte, ev *data.StoredEvent) []byte {
	if kind, ok := leadingType(ev.Payload); !ok || string(kind) != string(ev.Kind) {
		dst = append(dst, ev.Kind...)
		dst = append(dst, ' ')
	}
	dst = append(dst, ev.Payload...)
	return append(dst, '\n')
}

// leadingType returns the type a payload begins with.
func leadingType(payload []byte) ([]byte, bool) {
	rest, ok := bytes.CutPrefix(payload, []byte(typePrefix))
	if !ok {
		return nil, false
	}
	end := bytes.IndexByte(rest, typeSuffix)
	return rest[:max(end, 0)], end >= 0
}
