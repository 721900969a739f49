package runtime

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/batonrun/baton/runtime/agui"
)

// Record is one event of a thread's log as readers get it. Records are shared and never change.
type Record struct {
	ID       int64 // the event's position in the thread's log; 0 for a frame that has none
	Event    agui.Event
	size     int
	forms    [projections]atomic.Pointer[form]
	runKey   int64
	owner    *owner // whose the thread is; nil for a record that was read or made for a reader
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

func newRecord(id, runKey int64, ev agui.Event, size int) *Record {
	return &Record{ID: id, Event: ev, runKey: runKey, size: size, terminal: isTerminal(ev.Type())}
}

func isTerminal(t agui.Type) bool { return t == agui.TypeRunFinished || t == agui.TypeRunError }

// thread is the live end of one thread's log: the latest records, and who waits for more. It exists while
// a run or a reader holds it.
type thread struct {
	key int64
	id  string // the user's own name for it
	rt  *Runtime

	mu        sync.Mutex     // guards the fields below
	holders   int            // guarded by Runtime.mu
	committed int64          // the last event that is stored
	busy      bool           // a run is QUEUED or RUNNING
	known     bool           // committed and busy hold
	changes   int            // counts what busy was told, so that a slow read does not overwrite newer facts
	ring      []*Record      // the latest records, oldest first, without gaps
	bytes     int            // their size
	void      map[int64]bool // runs that were cancelled before they wrote an event
	gone      bool           // the thread was deleted
	wake      chan struct{}

	pushed atomic.Int64 // when the ring has grown last, in the order of all rings
}

// deliver shows what an item has written.
func (t *thread) deliver(it *item) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if out := &it.out; it.cmd != nil {
		t.busy = out.Busy()
		t.changes++
		for _, run := range out.Void {
			t.void[run] = true
		}
		if out.Removed {
			t.drop(len(t.ring))
		}
		t.gone = t.gone || out.Gone
	}
	t.push(it.recs)
	if t.wake != nil {
		close(t.wake)
		t.wake = nil
	}
}

// evictRings forgets the rings that have not grown for longest when all together are too large, and some more, so that
// there is nothing to do again soon.
func (rt *Runtime) evictRings() {
	limit := int64(rt.cfg.RingsBytes)
	if rt.ringBytes.Load() <= limit {
		return
	}
	type ring struct {
		t      *thread
		pushed int64
	}
	rt.mu.Lock()
	rings := make([]ring, 0, len(rt.threads))
	for _, t := range rt.threads {
		rings = append(rings, ring{t, t.pushed.Load()})
	}
	rt.mu.Unlock()
	slices.SortFunc(rings, func(a, b ring) int { return cmp.Compare(a.pushed, b.pushed) })
	for _, r := range rings {
		if rt.ringBytes.Load() <= limit-limit/8 {
			return
		}
		r.t.mu.Lock()
		r.t.drop(len(r.t.ring))
		r.t.mu.Unlock()
	}
}

// push appends committed records to the ring and forgets the oldest beyond its bounds.
func (t *thread) push(recs []*Record) {
	if len(recs) == 0 {
		return
	}
	t.committed = recs[len(recs)-1].ID
	if n := len(t.ring); n > 0 && t.ring[n-1].ID+1 != recs[0].ID {
		t.drop(n)
	}
	t.ring = append(t.ring, recs...)
	added := 0
	for _, r := range recs {
		added += r.size
	}
	t.bytes += added
	t.rt.ringBytes.Add(int64(added))
	t.pushed.Store(t.rt.pushes.Add(1))

	cfg := &t.rt.cfg
	n, bytes := 0, t.bytes
	for n < len(t.ring)-1 && (len(t.ring)-n > cfg.RingEvents || bytes > cfg.RingBytes) {
		bytes -= t.ring[n].size
		n++
	}
	t.drop(n)
}

// drop forgets the oldest n records of the ring.
func (t *thread) drop(n int) {
	if n == 0 {
		return
	}
	freed := 0
	for _, r := range t.ring[:n] {
		freed += r.size
	}
	if 2*n < len(t.ring) {
		clear(t.ring[:n])
		t.ring = t.ring[n:] // append moves the rest when the array is used up
	} else {
		t.ring = slices.Clone(t.ring[n:])
	}
	t.bytes -= freed
	t.rt.ringBytes.Add(-int64(freed))
}

// Cursor is a place in a thread's log. Replay and the live end are one code path: Next reads the ring
// when it holds what comes next and the store when it does not, so nothing is lost or shown twice.
// A Cursor is used by one goroutine; Close it when done.
type Cursor struct {
	rt     *Runtime
	t      *thread
	after  int64 // the last id returned
	follow bool
	run    int64 // end also when this run was cancelled before it wrote an event; 0 for none
	buf    []*Record
	fit    int // how many records of the size of those read last make a page, 0 before the first
}

// page is how many records one Next returns at most.
const page = 500

// pageBytes is about how large the records are that Next returns from the store: a reader that is stuck holds
// them, all to itself.
const pageBytes = 256 << 10

// After returns the id of the last event Next returned, or where the reader began.
func (r *Cursor) After() int64 { return r.after }

// Close lets go of the thread. It may be called once.
func (r *Cursor) Close() { r.rt.release(r.t) }

// Source is what a cursor reads: from the same place on, cursors of one source return the same records.
type Source struct {
	Thread int64 // its key
	Run    int64 // the key of the run of a RunCursor, 0 for a Cursor
	Follow bool
}

// Source returns what r reads.
func (r *Cursor) Source() Source { return Source{r.t.key, r.run, r.follow} }

// Fork returns another cursor of the same source at the same place. Both are to be closed.
func (r *Cursor) Fork() *Cursor {
	r.rt.mu.Lock()
	r.t.holders++
	r.rt.mu.Unlock()
	return &Cursor{rt: r.rt, t: r.t, after: r.after, follow: r.follow, run: r.run}
}

// Skip has r go on behind the event with the id after, which another cursor of its source has returned.
func (r *Cursor) Skip(after int64) { r.after = after }

// Waits reports whether Next would wait. What that has returned last is not valid then any more.
func (r *Cursor) Waits() bool {
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	waits := !r.t.gone && r.after >= r.t.committed && (r.t.busy || r.follow) && !r.t.void[r.run]
	if waits {
		r.buf = nil // as in Next
	}
	return waits
}

// Ended reports whether Next would return io.EOF at once.
func (r *Cursor) Ended() bool {
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	return r.t.gone || r.after >= r.t.committed && !r.t.busy && !r.follow
}

// Next returns the records after the last one it returned, at least one, waiting for it. The slice is
// valid until the next call. It fails with io.EOF at the end of the log when no run of the thread is queued
// or running (unless the reader follows) and when the thread was deleted, with ctx's cause, or with the
// store's error.
func (r *Cursor) Next(ctx context.Context) ([]*Record, error) {
	for {
		recs, wake, err := r.ready()
		switch {
		case err != nil:
			return nil, err
		case recs != nil:
			return recs, nil
		case wake == nil:
			recs, err := r.stored(ctx)
			if errors.Is(err, ErrNotFound) {
				err = io.EOF // the thread was deleted just now
			}
			return recs, err
		}
		r.buf = nil // an idle reader holds no records
		select {
		case <-wake:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// ready returns what the ring has, or a channel to wait on, or neither when the store must be read.
func (r *Cursor) ready() ([]*Record, <-chan struct{}, error) {
	t := r.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone {
		return nil, nil, io.EOF
	}
	if r.after < t.committed {
		if n := len(t.ring); n == 0 || r.after+1 < t.ring[0].ID || r.after >= t.ring[n-1].ID {
			return nil, nil, nil
		}
		from := int(r.after + 1 - t.ring[0].ID)
		recs := t.ring[from:min(len(t.ring), from+page)]
		clear(r.buf)
		r.buf = append(r.buf[:0], recs...)
		r.after = recs[len(recs)-1].ID
		return r.buf, nil, nil
	}
	if !t.busy && !r.follow || t.void[r.run] {
		return nil, nil, io.EOF
	}
	if t.wake == nil {
		t.wake = make(chan struct{})
	}
	return nil, t.wake, nil
}

// stored reads the next page from the store. A gap in the ids is a range that was removed: readers meet it
// as one CUSTOM log-reset with the range's last id and two snapshots without ids (docs/protocol.md, 2.7).
func (r *Cursor) stored(ctx context.Context) ([]*Record, error) {
	clear(r.buf)
	r.buf = r.buf[:0]
	evs, err := r.rt.store.Events(ctx, r.t.key, r.after, cmp.Or(r.fit, 64))
	if err != nil {
		return nil, err
	}
	if len(evs) == 0 {
		r.t.mu.Lock()
		end := r.t.committed
		r.t.mu.Unlock()
		return r.removed(ctx, end)
	}
	if evs[0].ID > r.after+1 {
		return r.removed(ctx, evs[0].ID-1)
	}
	size := 0
	for i := range evs {
		if evs[i].ID != r.after+1 || size >= pageBytes {
			break // the gap and what is too much are the next call's
		}
		size += len(evs[i].Payload)
		rec, err := r.t.decode(&evs[i])
		if err != nil {
			return nil, err
		}
		r.buf = append(r.buf, rec)
		r.after = rec.ID
	}
	r.fit = min(page, 1+len(r.buf)*pageBytes/max(size, 1))
	return r.buf, nil
}

func (r *Cursor) removed(ctx context.Context, to int64) ([]*Record, error) {
	state, msgs, err := r.rt.snapshotAt(ctx, r.t.key, to)
	if err != nil {
		return nil, err
	}
	value, err := json.Marshal(map[string]int64{"from": r.after + 1, "to": to})
	if err != nil {
		return nil, err
	}
	base := agui.Base{ThreadID: r.t.id}
	r.after = to
	r.buf = append(r.buf,
		newRecord(to, 0, agui.Custom{Base: base, Name: "log-reset", Value: value}, 64),
		newRecord(0, 0, agui.StateSnapshot{Base: base, Snapshot: state}, len(state)),
		newRecord(0, 0, agui.MessagesSnapshot{Base: base, Messages: msgs}, 0))
	return r.buf, nil
}

func (t *thread) decode(ev *StoredEvent) (*Record, error) {
	e, err := agui.Decode(ev.Payload)
	if err != nil {
		return nil, err
	}
	b := e.Common()
	b.ThreadID, b.RunID = t.id, ev.RunID
	return newRecord(ev.ID, ev.RunKey, e.WithCommon(b), len(ev.Payload)), nil
}

// RunCursor reads the events of one span of a run.
type RunCursor struct {
	*Cursor
	started Started
	began   bool // an event was returned
	ended   bool // the terminal one was
}

// ReadRun opens a cursor to the span that a request has started or will start, for the client that sent it.
func (rt *Runtime) ReadRun(ctx context.Context, s Started) (*RunCursor, error) {
	r, err := rt.Read(ctx, Thread{ThreadHead: ThreadHead{Key: s.ThreadKey, ID: s.ThreadID}}, s.After, false)
	if err != nil {
		return nil, err
	}
	r.run = s.RunKey
	return &RunCursor{Cursor: r, started: s}, nil
}

// ErrRemoved means that events were removed before their reader got them.
var ErrRemoved = errors.New("events were removed before they were shown")

// Next returns the run's next events like Cursor.Next, and io.EOF after the span's terminal event. A run
// that was cancelled before it wrote an event gets a span whose records have no id. It fails with ErrRemoved
// when the span's rest was deleted.
func (r *RunCursor) Next(ctx context.Context) ([]*Record, error) {
	for !r.ended {
		recs, err := r.Cursor.Next(ctx)
		if errors.Is(err, io.EOF) {
			if r.began {
				return nil, ErrRemoved
			}
			r.ended = true
			return r.neverRan(), nil
		}
		if err != nil {
			return nil, err
		}
		if own := r.own(recs); len(own) > 0 {
			return own, nil
		}
	}
	return nil, io.EOF
}

// Ended reports whether the span's terminal event was returned.
func (r *RunCursor) Ended() bool { return r.ended }

// own keeps the span's records of recs.
func (r *RunCursor) own(recs []*Record) []*Record {
	own := recs[:0]
	for _, rec := range recs {
		if rec.runKey != r.run || r.ended {
			continue
		}
		r.began = true
		if r.ended = rec.terminal; r.ended {
			r.after = rec.ID // what stands behind it is not the run's
		}
		if res, ok := rec.Event.(agui.ToolCallResult); ok && slices.Contains(r.started.Results, res.ToolCallID) {
			continue
		}
		own = append(own, rec)
	}
	return own
}

func (r *RunCursor) neverRan() []*Record {
	base := agui.Base{ThreadID: r.started.ThreadID, RunID: r.started.RunID}
	return []*Record{
		newRecord(0, r.run, agui.RunStarted{Base: base}, 64),
		newRecord(0, r.run, agui.RunFinished{Base: base, Outcome: agui.Outcome{Type: agui.OutcomeCancelled}}, 64),
	}
}
