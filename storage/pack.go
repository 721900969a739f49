package storage

import (
	"bytes"
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/model"
)

// The bounds of a row, beyond which no more events are added. The size keeps a row within a page of
// PostgreSQL's, and both keep small what a reader reads beyond its page of events.
const (
	maxRowSize   = 7 << 10
	maxRowEvents = 64
)

// packed is a row of events: consecutive events of one run, a line each.
//
// A line is the event's payload. Its kind is read off the payload, which begins with {"type":"KIND"; when it
// does not, the kind and a space precede it.
type packed struct {
	thread, run int64
	first, last int64
	payload     []byte
}

// packer packs events into rows. It keeps its memory from batch to batch.
type packer struct {
	rows []packed
	open map[int64]int // by thread, the index in rows of the row that can still grow
}

// pack returns the events in rows, ordered as the table's key is. They are valid until the next call.
func (p *packer) pack(events []model.StoredEvent) ([]packed, error) {
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
		if !ok || !p.rows[n].takes(ev) {
			n = p.add(packed{thread: ev.ThreadKey, run: ev.RunKey, first: ev.ID})
			p.open[ev.ThreadKey] = n
		}
		row := &p.rows[n]
		row.last = ev.ID
		row.payload = appendLine(row.payload, ev)
	}
	slices.SortFunc(p.rows, func(a, b packed) int {
		return cmp.Or(cmp.Compare(a.thread, b.thread), cmp.Compare(a.last, b.last))
	})
	return p.rows, nil
}

// done lets go of what is large in the memory of a batch that is written.
func (p *packer) done() {
	for i := range p.rows {
		if cap(p.rows[i].payload) > 64<<10 {
			p.rows[i].payload = nil
		}
	}
}

// add appends a row that uses the memory of one of an earlier batch.
func (p *packer) add(row packed) int {
	n := len(p.rows)
	if n < cap(p.rows) {
		row.payload = p.rows[:n+1][n].payload[:0]
	}
	p.rows = append(p.rows, row)
	return n
}

func (r *packed) takes(ev *model.StoredEvent) bool {
	return ev.RunKey == r.run && ev.ID == r.last+1 && ev.ID-r.first < maxRowEvents &&
		len(r.payload)+len(ev.Payload) < maxRowSize
}

// checkEvent refuses what could not be told apart from its neighbours.
func checkEvent(ev *model.StoredEvent) error {
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

func appendLine(dst []byte, ev *model.StoredEvent) []byte {
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

func scanPacked(rows *sql.Rows) (r packed, err error) {
	err = rows.Scan(&r.first, &r.last, &r.run, &r.payload)
	return r, err
}

// add adds the row's events to the page, as far as they belong there. Their payloads share the row's memory.
func (p *page) add(r *packed) error {
	if r.last <= p.end() || len(p.events) == p.limit {
		return nil
	}
	rest := r.payload
	for id := r.first; id <= r.last; id++ {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			return fmt.Errorf("row of events %d to %d of thread %d ends at %d", r.first, r.last, p.thread, id)
		}
		line := rest[:end:end]
		rest = rest[end+1:]
		if id <= p.end() { // or of a segment that begins before what was read from rows
			continue
		}
		if len(p.events) == p.limit {
			break
		}
		kind, ok := leadingType(line)
		if !ok {
			kind, line, _ = bytes.Cut(line, []byte{' '})
			line = slices.Clip(line)
		}
		p.size += len(line)
		p.events = append(p.events, model.StoredEvent{
			ThreadKey: p.thread, ID: id, RunKey: r.run, Kind: intern(p.kinds, kind), Payload: line,
		})
	}
	return nil
}

// intern returns the kind as a string, of which it makes one per page.
func intern(kinds map[string]agui.Type, kind []byte) agui.Type {
	k, ok := kinds[string(kind)]
	if !ok {
		k = agui.Type(kind)
		kinds[string(k)] = k
	}
	return k
}
