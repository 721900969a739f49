package log

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/model"
	"github.com/batonrun/baton/runtime/quota"
)

// Cursor is a place in a thread's log. Replay and the live end are one code path: Next reads the ring
// when it holds what comes next and the store when it does not, so nothing is lost or shown twice.
// A Cursor is used by one goroutine; Close it when done.
type Cursor struct {
	t      *Tail
	after  int64 // the last id returned
	follow bool
	run    int64 // end also when this run was cancelled before it wrote an event; 0 for none
	buf    []*Record
	fit    int // how many records of the size of those read last make a page, 0 before the first
	behind int // how many records came from the store since the reader was at the live end

	owner quota.Owner
	large *quota.Reservation // of buf, nil while it is no large page
}

// page is how many records one Next returns at most.
const page = 500

// pageBytes is about how large the records are that Next returns from the store: a reader that is stuck holds
// them, all to itself. A page is large when one event is: of those there are only so many at a time.
const (
	pageBytes = 256 << 10
	largePage = 2 * pageBytes
)

// After returns the id of the last event Next returned, or where the reader began.
func (r *Cursor) After() int64 { return r.after }

// Close lets go of the thread. It may be called once.
func (r *Cursor) Close() {
	r.caughtUp()
	r.Forget()
	r.t.await(r.run, -1)
	r.t.Release()
}

// caughtUp tells how much the reader has got from the store.
func (r *Cursor) caughtUp() {
	if n := r.behind; n > 0 && r.t.logs.cfg.Replayed != nil {
		r.t.logs.cfg.Replayed(n)
	}
	r.behind = 0
}

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
	r.t.logs.Hold(r.t.key, r.t.id)
	r.t.await(r.run, 1)
	return &Cursor{t: r.t, after: r.after, follow: r.follow, run: r.run, owner: r.owner}
}

// Skip has r go on behind the event with the id after, which another cursor of its source has returned.
func (r *Cursor) Skip(after int64) { r.after = after }

// Waits reports whether Next would wait. What that has returned last is not valid then any more.
func (r *Cursor) Waits() bool {
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	waits := !r.t.gone && r.after >= r.t.committed && (r.t.busy || r.follow) && !r.t.void[r.run]
	if waits {
		r.Forget() // as in Next
	}
	return waits
}

// Forget lets go of what Next has returned last, which is not valid then any more: a reader that waits for something else
// than its log holds no records.
func (r *Cursor) Forget() {
	r.buf = nil
	r.releaseLarge()
}

// releaseLarge gives back what a large page has reserved.
func (r *Cursor) releaseLarge() {
	r.large.Release()
	r.large = nil
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
			r.caughtUp()
			return recs, nil
		case wake == nil:
			recs, err := r.stored(ctx)
			r.behind += len(recs)
			if errors.Is(err, model.ErrNotFound) {
				err = io.EOF // the thread was deleted just now
			}
			return recs, err
		}
		r.Forget() // an idle reader holds no records
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
		r.releaseLarge()
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
// as CUSTOM log-reset and two snapshots, the last of them with the range's last id (docs/protocol.md, 2.7).
func (r *Cursor) stored(ctx context.Context) ([]*Record, error) {
	clear(r.buf)
	r.buf = r.buf[:0]
	r.releaseLarge()
	end := r.t.Committed() // what is committed from here on is not removed
	evs, err := r.page(ctx)
	if err != nil {
		return nil, err
	}
	if len(evs) == 0 {
		return r.removed(ctx, end)
	}
	if evs[0].ID > r.after+1 {
		to, err := r.endOfGap(ctx, &evs[0])
		if err != nil {
			return nil, err
		}
		return r.removed(ctx, to)
	}
	n, size := 0, 0
	for ; n < len(evs) && evs[n].ID == r.after+1+int64(n) && size < pageBytes; n++ { // the gap and what is too much are the next call's
		size += len(evs[n].Payload)
	}
	if r.buf, err = decodeAll(r.buf, evs[:n], r.t.id); err != nil {
		return nil, err
	}
	r.after = evs[n-1].ID
	r.fit = min(page, 1+len(r.buf)*pageBytes/max(size, 1))
	return r.buf, nil
}

// endOfGap is the last event of the gap before ev. Long runs go in parts: what is left of a span, of which the beginning is gone, is
// about to go, and says nothing without it.
func (r *Cursor) endOfGap(ctx context.Context, ev *model.StoredEvent) (int64, error) {
	spans, err := r.t.logs.cfg.Store.Spans(ctx, ev.RunKey)
	for i := range spans {
		if spans[i].First < ev.ID && ev.ID <= spans[i].Last {
			return spans[i].Last, nil
		}
	}
	return ev.ID - 1, err
}

// page reads events for the next page.
func (r *Cursor) page(ctx context.Context) ([]model.StoredEvent, error) {
	return reserving(ctx, r, func() ([]model.StoredEvent, int, error) {
		evs, err := r.t.logs.cfg.Store.Events(ctx, r.t.key, r.after, cmp.Or(r.fit, 64))
		return evs, sizeOf(evs), err
	})
}

// reserving returns what read does, and reserves its size if that is large. While there is no room it lets go of what it has read
// and waits, then reads again.
func reserving[T any](ctx context.Context, r *Cursor, read func() (T, int, error)) (T, error) {
	for {
		got, size, err := read()
		n := int64(size)
		if err != nil || size <= largePage || n <= r.large.Held() {
			return got, err
		}
		r.releaseLarge()
		var full quota.Scope
		if r.large, full = r.t.logs.large.Try(r.owner, n); full == quota.None {
			return got, nil
		}
		if r.large, err = r.t.logs.large.Take(ctx, r.owner, n); err != nil {
			return *new(T), err
		}
	}
}

// sizeOf is how large a page is that begins with these events.
func sizeOf(evs []model.StoredEvent) int {
	size := 0
	for i := 0; i < len(evs) && size < pageBytes; i++ {
		size += len(evs[i].Payload)
	}
	return size
}

// left is what is left of the thread where events were removed.
type left struct {
	state    json.RawMessage
	messages []agui.Message
	size     int // of the messages
}

func (r *Cursor) removed(ctx context.Context, to int64) ([]*Record, error) {
	is, err := reserving(ctx, r, func() (is left, size int, err error) {
		is.state, is.messages, err = r.t.at(ctx, to)
		var buf []byte
		for i := range is.messages {
			buf = is.messages[i].AppendJSON(buf[:0], agui.Stored)
			is.size += len(buf)
		}
		return is, len(is.state) + is.size, err
	})
	if err != nil {
		return nil, err
	}
	base, err := r.t.behind(ctx, to)
	if err != nil {
		return nil, err
	}
	value, err := json.Marshal(map[string]int64{"from": r.after + 1, "to": to})
	if err != nil {
		return nil, err
	}
	now := time.Now()
	r.after = to
	r.buf = append(r.buf, // a viewer who is cut off within comes back for all of them
		NewRecord(0, 0, agui.Custom{Base: base, Name: "log-reset", Value: value}, 64),
		NewRecord(0, 0, agui.At(now, agui.StateSnapshot{Base: base, Snapshot: is.state}), len(is.state)),
		NewRecord(to, 0, agui.At(now, agui.MessagesSnapshot{Base: base, Messages: is.messages}), is.size))
	return r.buf, nil
}

// RunCursor reads the events of one span of a run, or of all of them.
type RunCursor struct {
	*Cursor
	id     string // the run's name in the span
	sender Sender // the reader
	// What the sender has said, of which there may be very much.
	messages, results map[string]bool
	began             bool  // an event was returned
	ended             bool  // the terminal one was
	owes              int64 // the first event of the span, for a reader who comes back behind it and may not have got the state that goes with it
	again             int64 // the terminal event, for a reader who comes back behind it and may not know that it was all; else 0

	more func(ctx context.Context, after int64) (bool, error) // reports whether the run has another span behind that event; nil for no other
}

// OfRun makes a cursor that stands before a span of a run, or where it will be, one of that span alone. id is the run's name
// in it.
func (r *Cursor) OfRun(key int64, id string, sender Sender) *RunCursor {
	r.run = key
	r.t.await(key, 1)
	return &RunCursor{Cursor: r, id: id, sender: sender, messages: setOf(sender.Messages), results: setOf(sender.Results)}
}

// Resume has r, which has returned nothing yet, go on behind the event after, which its reader has got. It stands in a span of the run,
// or behind it: then the span's terminal event is returned once more, without an id, unless another follows.
func (r *RunCursor) Resume(after int64, in model.Span) {
	r.after, r.began = after, true
	if r.ended = in.Last != 0 && in.Last <= after; r.ended {
		r.again = in.Last
	}
	if in.First == after {
		r.owes = after
	}
}

// Spans has r read the run's later spans too. It asks more at the end of each, and with begun before the first.
func (r *RunCursor) Spans(begun bool, more func(ctx context.Context, after int64) (bool, error)) {
	r.more, r.began, r.ended = more, begun, begun
}

// NeverRan tells the cursor that its run was cancelled before it wrote an event of the span.
func (r *RunCursor) NeverRan() {
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	r.t.void[r.run] = true
}

// ErrRemoved means that events were removed before their reader got them.
var ErrRemoved = errors.New("events were removed before they were shown")

// Next returns the run's next events like Cursor.Next, and io.EOF after the span's terminal event. A run
// that was cancelled before it wrote an event gets a span whose records have no id. It fails with ErrRemoved
// when the span's rest was deleted.
func (r *RunCursor) Next(ctx context.Context) ([]*Record, error) {
	if r.ended && r.more != nil {
		more, err := r.more(ctx, r.after)
		if err != nil {
			return nil, err
		}
		r.ended = !more
	}
	for !r.ended {
		after, began := r.after, r.began
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
		own := r.own(recs)
		if len(own) == 0 {
			continue
		}
		if recs, err = r.mended(ctx, own); err != nil {
			r.after, r.began, r.ended = after, began, false // nobody has seen them
			return nil, err
		}
		r.again = 0
		return recs, nil
	}
	if r.again == 0 {
		return nil, io.EOF
	}
	end, err := r.t.record(ctx, r.again)
	if err != nil {
		return nil, err
	}
	r.again = 0
	if end == nil { // it was removed
		return nil, io.EOF
	}
	end.ID = 0
	return []*Record{end}, nil
}

// Ended reports whether the span's terminal event was returned.
func (r *RunCursor) Ended() bool { return r.ended }

// own keeps the span's records of recs.
func (r *RunCursor) own(recs []*Record) []*Record {
	own := recs[:0]
	for _, rec := range recs {
		if rec.RunKey != r.run || r.ended {
			continue
		}
		r.began = true
		if r.ended = rec.terminal; r.ended {
			r.after = rec.ID // what stands behind it is not the run's
		}
		if !r.hasSaid(rec) {
			own = append(own, rec)
		}
	}
	return own
}

func (r *RunCursor) neverRan() []*Record {
	base := agui.Base{ThreadID: r.t.id, RunID: r.id}
	return []*Record{
		NewRecord(0, r.run, agui.RunStarted{Base: base}, 64),
		NewRecord(0, r.run, agui.RunFinished{Base: base, Outcome: agui.Outcome{Type: agui.OutcomeCancelled}}, 64),
	}
}
