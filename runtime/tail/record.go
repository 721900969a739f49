package tail

import (
	"bytes"
	"sync"
	"sync/atomic"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// Record is one event of a thread's log. Readers share records, which never change.
type Record struct {
	ID       int64 // position in the thread's log; 0 for a frame without one
	RunKey   int64 // the event's run; 0 for a frame of no run
	Event    agui.Event
	size     int
	forms    [projections]atomic.Pointer[form]
	arena    *formArena // nil if the record outlives the others of its page
	terminal bool
}

const projections = int(agui.Public) + 1

// form is an event in one projection.
type form struct {
	name agui.Type
	json []byte // nil if the projection omits the event
}

// JSON returns the event in projection p, nil if p omits it. All readers share the bytes: do not change them.
func (r *Record) JSON(p agui.Projection) []byte { return r.form(p).json }

// Type returns the event's type in projection p, "" if p omits it.
func (r *Record) Type(p agui.Projection) agui.Type { return r.form(p).name }

func (r *Record) form(p agui.Projection) *form {
	if f := r.forms[p].Load(); f != nil {
		return f
	}
	ev := agui.Project(r.Event, p)
	var f *form
	switch {
	case r.arena != nil:
		f = r.arena.form(ev, p, r.size)
	case ev != nil:
		f = &form{ev.Type(), encoded(ev, p, r.size)}
	default:
		f = new(form)
	}
	r.forms[p].Store(f)
	return f
}

// encoded encodes ev, whose stored form has size bytes, into a slice of about its length.
func encoded(ev agui.Event, p agui.Projection, size int) []byte {
	if size > maxScratch/2 {
		return ev.AppendJSON(make([]byte, 0, size+names), p)
	}
	buf := scratch.Get().(*[]byte)
	defer scratch.Put(buf)
	return bytes.Clone(ev.AppendJSON((*buf)[:0], p))
}

const (
	maxScratch = 16 << 10
	names      = 192 // about the difference between an encoded event and its stored form
)

// scratch has buffers for encoding small events.
var scratch = sync.Pool{New: func() any { return new(make([]byte, 0, maxScratch)) }}

// Size returns the bytes of the event's stored form.
func (r *Record) Size() int { return r.size }

// memory returns about how many bytes the record takes in memory, once it was shown in one projection.
func (r *Record) memory() int { return recordBytes + 2*r.size }

// recordBytes is the size of a record without its texts: a Record, an event and a form.
const recordBytes = 320

// Terminal reports whether the event ends a span of a run.
func (r *Record) Terminal() bool { return r.terminal }

// Parks reports whether the event parks its run, which belongs to no connection from then on.
func (r *Record) Parks() bool {
	c, ok := r.Event.(agui.Custom)
	return ok && c.Name == agui.ParkedEvent
}

// NewRecord returns the record of an event whose stored form has size bytes.
func NewRecord(id, runKey int64, ev agui.Event, size int) *Record {
	return &Record{ID: id, RunKey: runKey, Event: ev, size: size, terminal: terminal(ev.Type())}
}

func terminal(t agui.Type) bool { return t == agui.TypeRunFinished || t == agui.TypeRunError }

// decode returns the record of a stored event. threadID is the user's name for the thread.
func decode(ev *data.StoredEvent, threadID string) (*Record, error) {
	e, err := agui.DecodeStored(ev.Payload, threadID, ev.RunID)
	if err != nil {
		return nil, err
	}
	return NewRecord(ev.ID, ev.RunKey, e, len(ev.Payload)), nil
}

// decodeAll appends the records of stored events to recs. Records of one arena share their memory.
func decodeAll(recs []*Record, evs []data.StoredEvent, threadID string) ([]*Record, error) {
	var some []Record
	var of *formArena
	for i := range evs {
		ev := &evs[i]
		e, err := agui.DecodeStored(ev.Payload, threadID, ev.RunID)
		if err != nil {
			return recs, err
		}
		if len(some) == 0 {
			n := min(len(evs)-i, perArena)
			some, of = make([]Record, n), &formArena{room: n}
		}
		rec := &some[0]
		some = some[1:]
		rec.ID, rec.RunKey, rec.Event, rec.size, rec.terminal, rec.arena = ev.ID, ev.RunKey, e, len(ev.Payload), terminal(e.Type()), of
		recs = append(recs, rec)
	}
	return recs, nil
}

// perArena is the number of records that share memory at most.
const perArena = 128

// formArena allocates the forms of records that are read together.
type formArena struct {
	mu    sync.Mutex // guards the fields below
	room  int        // capacity of forms
	forms []form
	text  []byte
}

// form adds ev, whose stored form has size bytes, in projection p. A nil ev is an omitted event.
func (s *formArena) form(ev agui.Event, p agui.Projection, size int) *form {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.forms) == cap(s.forms) {
		s.forms = make([]form, 0, s.room)
	}
	s.forms = append(s.forms, form{})
	f := &s.forms[len(s.forms)-1]
	if ev == nil {
		return f
	}
	f.name = ev.Type()
	if need := size + names; need > maxScratch/2 {
		f.json = ev.AppendJSON(make([]byte, 0, need), p)
		return f
	} else if need > cap(s.text)-len(s.text) {
		s.text = make([]byte, 0, maxScratch)
	}
	start := len(s.text)
	s.text = ev.AppendJSON(s.text, p)
	f.json = s.text[start:len(s.text):len(s.text)]
	return f
}

// MaxEvent is the default size limit of an event: SSE frames stay below the 10 MB that some clients reject. LeastEvent
// is the smallest limit, which holds every event that the engine writes itself.
const (
	MaxEvent   = 8_000_000
	LeastEvent = 64 << 10
)

// MaxMessages is the size limit of the messages in a RUN_STARTED or MESSAGES_SNAPSHOT event of that size.
func MaxMessages(event int) int { return event - min(64<<10, event/8) }
