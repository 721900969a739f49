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
	f := new(form)
	if ev := agui.Project(r.Event, p); ev != nil {
		f.name, f.json = ev.Type(), encoded(ev, p, r.size)
	}
	r.forms[p].Store(f)
	return f
}

// encoded returns ev, stored in size bytes, in a slice with little room to spare: it is kept.
func encoded(ev agui.Event, p agui.Projection, size int) []byte {
	if size > maxScratch/2 {
		return ev.AppendJSON(make([]byte, 0, size+192), p)
	}
	buf := scratch.Get().(*[]byte)
	defer scratch.Put(buf)
	return bytes.Clone(ev.AppendJSON((*buf)[:0], p))
}

const maxScratch = 16 << 10

// scratch is where events are encoded that are not large.
var scratch = sync.Pool{New: func() any { return new(make([]byte, 0, maxScratch)) }}

// Size is how large the event is, in bytes of its stored form.
func (r *Record) Size() int { return r.size }

// Terminal reports whether the event ends a span of a run.
func (r *Record) Terminal() bool { return r.terminal }

// NewRecord returns the record of an event, whose stored form has size bytes.
func NewRecord(id, runKey int64, ev agui.Event, size int) *Record {
	t := ev.Type()
	return &Record{ID: id, RunKey: runKey, Event: ev, size: size, terminal: t == agui.TypeRunFinished || t == agui.TypeRunError}
}

// decode returns the record of a stored event of the thread that its user calls threadID.
func decode(ev *model.StoredEvent, threadID string) (*Record, error) {
	e, err := agui.DecodeStored(ev.Payload, threadID, ev.RunID)
	if err != nil {
		return nil, err
	}
	return NewRecord(ev.ID, ev.RunKey, e, len(ev.Payload)), nil
}

// What an event and the messages of one may hold.
const (
	MaxEvent    = 8_000_000         // SSE frames stay below the 10 MB that clients die of
	MaxMessages = MaxEvent - 64<<10 // of a RUN_STARTED or MESSAGES_SNAPSHOT
)
