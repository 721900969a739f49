package log

import (
	"bytes"
	"sync"
	"sync/atomic"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/model"
)

// Record is one event of a thread's log as readers get it. Records are shared and never change.
type Record struct {
	ID       int64 // the event's position in the thread's log; 0 for a frame that has none
	RunKey   int64 // of the run whose event it is; 0 for a frame of none
	Event    agui.Event
	size     int
	forms    [projections]atomic.Pointer[form]
	sheaf    *sheaf // nil for a record that is kept longer than others
	terminal bool
}

const projections = int(agui.Public) + 1

// form is an event as a projection shows it.
type form struct {
	name agui.Type
	json []byte // nil when the projection leaves the event out
}

// JSON returns the event as projection p shows it, nil when p leaves it out. It is encoded once and shared by all
// readers: do not change it.
func (r *Record) JSON(p agui.Projection) []byte { return r.form(p).json }

// Type returns the event's type in projection p, "" when p leaves it out.
func (r *Record) Type(p agui.Projection) agui.Type { return r.form(p).name }

func (r *Record) form(p agui.Projection) *form {
	if f := r.forms[p].Load(); f != nil {
		return f
	}
	ev := agui.Project(r.Event, p)
	var f *form
	switch {
	case r.sheaf != nil:
		f = r.sheaf.form(ev, p, r.size)
	case ev != nil:
		f = &form{ev.Type(), encoded(ev, p, r.size)}
	default:
		f = new(form)
	}
	r.forms[p].Store(f)
	return f
}

// encoded returns ev, stored in size bytes, in a slice with little room to spare: it is kept.
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
	names      = 192 // about how much longer an event is than in its stored form
)

// scratch is where events are encoded that are not large.
var scratch = sync.Pool{New: func() any { return new(make([]byte, 0, maxScratch)) }}

// Size is how large the event is, in bytes of its stored form.
func (r *Record) Size() int { return r.size }

// Terminal reports whether the event ends a span of a run.
func (r *Record) Terminal() bool { return r.terminal }

// NewRecord returns the record of an event, whose stored form has size bytes.
func NewRecord(id, runKey int64, ev agui.Event, size int) *Record {
	return &Record{ID: id, RunKey: runKey, Event: ev, size: size, terminal: terminal(ev.Type())}
}

func terminal(t agui.Type) bool { return t == agui.TypeRunFinished || t == agui.TypeRunError }

// decode returns the record of a stored event of the thread that its user calls threadID.
func decode(ev *model.StoredEvent, threadID string) (*Record, error) {
	e, err := agui.DecodeStored(ev.Payload, threadID, ev.RunID)
	if err != nil {
		return nil, err
	}
	return NewRecord(ev.ID, ev.RunKey, e, len(ev.Payload)), nil
}

// decodeAll appends the records of stored events to recs. Those of a sheaf have one life: as long as one is held all are.
func decodeAll(recs []*Record, evs []model.StoredEvent, threadID string) ([]*Record, error) {
	var some []Record
	var of *sheaf
	for i := range evs {
		ev := &evs[i]
		e, err := agui.DecodeStored(ev.Payload, threadID, ev.RunID)
		if err != nil {
			return recs, err
		}
		if len(some) == 0 {
			n := min(len(evs)-i, perSheaf)
			some, of = make([]Record, n), &sheaf{room: n}
		}
		rec := &some[0]
		some = some[1:]
		rec.ID, rec.RunKey, rec.Event, rec.size, rec.terminal, rec.sheaf = ev.ID, ev.RunKey, e, len(ev.Payload), terminal(e.Type()), of
		recs = append(recs, rec)
	}
	return recs, nil
}

// perSheaf is how many records share their memory at most: larger pieces cost more than they save.
const perSheaf = 128

// sheaf is the memory of the forms of records that are read together, of which each by itself would be three pieces.
type sheaf struct {
	mu    sync.Mutex // guards the fields below
	room  int        // for how many forms there will be room
	forms []form
	text  []byte
}

// form makes the form of ev, stored in size bytes, in projection p; of nil that of an event that is left out.
func (s *sheaf) form(ev agui.Event, p agui.Projection, size int) *form {
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

// MaxEvent is how much an event may hold where nobody wants less: SSE frames stay below the 10 MB that clients die of. LeastEvent
// holds whatever the engine says of itself.
const (
	MaxEvent   = 8_000_000
	LeastEvent = 64 << 10
)

// MaxMessages is how much the messages of a RUN_STARTED or MESSAGES_SNAPSHOT may hold where an event may hold so much.
func MaxMessages(event int) int { return event - min(64<<10, event/8) }
