package tail

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/quota"
)

// Cursor is a position in a thread's log. Next reads the ring if it has the next record, and the store otherwise, so
// replay and live reading are one code path. A Cursor is for one goroutine. Close it.
type Cursor struct {
	t        *Tail
	after    int64 // the last id returned
	follow   bool
	run      int64 // a run whose cancellation before its first event ends the cursor; 0 for none
	buf      []*Record
	perPage  int // expected records in a page, from the sizes read last; 0 before the first page
	replayed int // records read from the store since the reader was last at the live end

	// When the reader has last got all events that were known, beside other instances.
	caughtUp int64 // the last id returned then
	since    int64 // Logs.looks then

	folded *folded // for the next snapshot behind a retraction, while the reader is behind

	owner quota.Owner
	large *quota.Reservation // for buf; nil unless it is a large page
}

// readEvents is the number of records that Next returns at most.
const page = 500

// pageBytes is the approximate size of a page from the store. A page that one huge event makes large takes a
// reservation in Config.LargePages, because a stuck reader keeps its page.
const (
	pageBytes = 256 << 10
	largePage = 2 * pageBytes
)

// After returns the id of the last event that Next returned, or the reader's start.
func (r *Cursor) After() int64 { return r.after }

// Close releases the thread. Call it once.
func (r *Cursor) Close() {
	r.reportReplayed()
	r.Forget()
	r.t.countReader(r.run, -1)
	r.t.countReaders(-1)
	r.t.Release()
}

// reportReplayed reports the records that the reader got from the store.
func (r *Cursor) reportReplayed() {
	if n := r.replayed; n > 0 && r.t.logs.cfg.Replayed != nil {
		r.t.logs.cfg.Replayed(n)
	}
	r.replayed = 0
}

// Source identifies the records that a cursor reads: cursors of one source and position return the same ones.
type Source struct {
	Thread int64 // its key
	Run    int64 // of a RunCursor, 0 for a Cursor
	Follow bool
}

// Source returns r's source.
func (r *Cursor) Source() Source { return Source{r.t.key, r.run, r.follow} }

// Fork returns another cursor with r's source and position. Close both.
func (r *Cursor) Fork() *Cursor {
	r.t.logs.Hold(r.t.key, r.t.id)
	r.t.countReader(r.run, 1)
	r.t.countReaders(1)
	return &Cursor{t: r.t, after: r.after, follow: r.follow, run: r.run, owner: r.owner, caughtUp: -1}
}

// Skip moves r behind the event after, which another cursor of the source has returned.
func (r *Cursor) Skip(after int64) { r.after = after }

// Waits reports whether Next would wait. It invalidates the records that Next returned last.
func (r *Cursor) Waits() bool {
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	waits := !r.t.deleted && r.after >= r.t.committed && (r.t.busy || r.follow || !r.knowsEnd()) && !r.t.cancelled[r.run]
	if waits {
		r.Forget() // as Next does
	}
	return waits
}

// Forget releases the records that Next returned last, so that a reader that waits elsewhere holds none.
func (r *Cursor) Forget() {
	r.buf = nil
	r.releaseLarge()
}

// releaseLarge gives back the reservation of a large page.
func (r *Cursor) releaseLarge() {
	r.large.Release()
	r.large = nil
}

// Ended reports whether Next would return io.EOF at once.
func (r *Cursor) Ended() bool {
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	return r.t.deleted || r.after >= r.t.committed && !r.t.busy && !r.follow && r.knowsEnd()
}

// Next returns the records behind the last one, waiting for at least one. The slice is valid until the next call. Next
// fails with io.EOF at the end of a log that has no queued or running run (unless the reader follows), with io.EOF if
// the thread is deleted, with ctx's cause, or with the store's error.
func (r *Cursor) Next(ctx context.Context) ([]*Record, error) {
	for {
		recs, wake, err := r.ready()
		switch {
		case errors.Is(err, errLook):
			if err := r.t.refresh(ctx, r.since); err != nil {
				return nil, err
			}
			continue
		case err != nil:
			return nil, err
		case recs != nil:
			r.reportReplayed()
			return recs, nil
		case wake == nil:
			recs, err := r.readPage(ctx)
			r.replayed += len(recs)
			if errors.Is(err, data.ErrNotFound) {
				err = io.EOF // the thread was deleted meanwhile
			}
			return recs, err
		}
		r.Forget() // an idle reader keeps no records
		select {
		case <-wake:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// ready returns the ring's next records, or a channel to wait on, or neither if the store must be read.
func (r *Cursor) ready() ([]*Record, <-chan struct{}, error) {
	t := r.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.deleted {
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
	switch {
	case t.cancelled[r.run]:
		return nil, nil, io.EOF
	case r.follow || t.busy:
	case !r.knowsEnd():
		return nil, nil, errLook
	default:
		return nil, nil, io.EOF
	}
	if t.wake == nil {
		t.wake = make(chan struct{})
	}
	return nil, t.wake, nil
}

// readPage reads the next page from the store. A gap in the ids means removed events: readers get CUSTOM log-reset and
// two snapshots, the last with the id of the gap's end (docs/protocol.md, 2.7).
func (r *Cursor) readPage(ctx context.Context) ([]*Record, error) {
	clear(r.buf)
	r.buf = r.buf[:0]
	r.releaseLarge()
	end := r.t.Committed() // later events are not removed
	evs, err := r.readEvents(ctx)
	if err != nil {
		return nil, err
	}
	if len(evs) == 0 {
		return r.resetRecords(ctx, end)
	}
	if evs[0].ID > r.after+1 {
		to, err := r.endOfGap(ctx, &evs[0])
		if err != nil {
			return nil, err
		}
		return r.resetRecords(ctx, to)
	}
	n, size := 0, 0
	for ; n < len(evs) && evs[n].ID == r.after+1+int64(n) && size < pageBytes; n++ { // stop before a gap and at the size of a page
		size += len(evs[n].Payload)
	}
	if r.buf, err = decodeAll(r.buf, evs[:n], r.t.id); err != nil {
		return nil, err
	}
	r.after = evs[n-1].ID
	r.perPage = min(page, 1+len(r.buf)*pageBytes/max(size, 1))
	return r.buf, nil
}

// endOfGap returns the last event of the gap before ev. A long run is removed in parts, so the rest of a span that has
// lost its beginning belongs to the gap.
func (r *Cursor) endOfGap(ctx context.Context, ev *data.StoredEvent) (int64, error) {
	spans, err := r.t.logs.cfg.Store.Spans(ctx, ev.RunKey)
	for i := range spans {
		if spans[i].First < ev.ID && ev.ID <= spans[i].Last {
			return spans[i].Last, nil
		}
	}
	return ev.ID - 1, err
}

// readEvents reads the next events from the store.
func (r *Cursor) readEvents(ctx context.Context) ([]data.StoredEvent, error) {
	return reserveLarge(ctx, r, func() ([]data.StoredEvent, int, error) {
		evs, err := r.t.logs.cfg.Store.Events(ctx, r.t.key, r.after, cmp.Or(r.perPage, 64))
		return evs, sizeOf(evs), err
	})
}

// reserveLarge returns the result of read after reserving its size if that is large. If the pool is full, it drops the
// result, waits, and reads again.
func reserveLarge[T any](ctx context.Context, r *Cursor, read func() (T, int, error)) (T, error) {
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

// sizeOf returns the size of the page that begins with evs.
func sizeOf(evs []data.StoredEvent) int {
	size := 0
	for i := 0; i < len(evs) && size < pageBytes; i++ {
		size += len(evs[i].Payload)
	}
	return size
}

// threadAt is a thread's state and messages at the end of a gap.
type threadAt struct {
	state    json.RawMessage
	messages []agui.Message
	size     int
}

// resetRecords returns the records that stand for the removed events up to id to.
func (r *Cursor) resetRecords(ctx context.Context, to int64) ([]*Record, error) {
	is, err := reserveLarge(ctx, r, func() (is threadAt, size int, err error) {
		is.state, is.messages, err = r.t.stateAt(ctx, to)
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
	base, err := r.t.baseAfter(ctx, to)
	if err != nil {
		return nil, err
	}
	value, err := json.Marshal(map[string]int64{"from": r.after + 1, "to": to})
	if err != nil {
		return nil, err
	}
	now := time.Now()
	r.after = to
	r.buf = append(r.buf, // the last record alone has an id, so a reader that is cut off gets all three again
		NewRecord(0, 0, agui.Custom{Base: base, Name: "log-reset", Value: value}, 64),
		NewRecord(0, 0, agui.At(now, agui.StateSnapshot{Base: base, Snapshot: is.state}), len(is.state)),
		NewRecord(to, 0, agui.At(now, agui.MessagesSnapshot{Base: base, Messages: is.messages}), is.size))
	return r.buf, nil
}

// RunCursor reads the events of one span of a run, or of all its spans.
type RunCursor struct {
	*Cursor
	id     string // the run's id in the span
	sender Sender
	// Members of sender's lists.
	messages, results map[string]bool
	began             bool  // an event of the span was returned
	ended             bool  // the terminal event was returned
	behind            bool  // the span follows one that is still open
	stateDue          int64 // the span's RUN_STARTED if the reader resumed behind it and may have missed the state that follows it; else 0
	resumed           int64 // the event that the reader resumed behind, and may have missed the messages that follow it; else 0
	repeatEnd         int64 // the terminal event if the reader resumed behind it and may not know that the run ended; else 0

	more func(ctx context.Context, after int64) (bool, error) // reports whether the run has a span behind after; nil to read one span
}

// OfRun returns a cursor for one span of a run. r stands before the span. id is the run's id in the span.
func (r *Cursor) OfRun(key int64, id string, sender Sender) *RunCursor {
	r.run = key
	r.t.countReader(key, 1)
	return &RunCursor{Cursor: r, id: id, sender: sender, messages: setOf(sender.Messages), results: setOf(sender.Results)}
}

// Resume continues r, before its first Next, behind the event after, which its reader has. That event is in the span or
// baseAfter it. In the latter case Next repeats the terminal event without an id, unless another span follows.
func (r *RunCursor) Resume(after int64, in data.Span) {
	r.after, r.began, r.resumed = after, true, after
	if r.ended = in.Last != 0 && in.Last <= after; r.ended {
		r.repeatEnd = in.Last
	}
	if in.First == after {
		r.stateDue = after
	}
}

// Behind makes r, before its first Next, omit the run's next span. If the run ends with that one, r returns its end.
func (r *RunCursor) Behind() { r.behind = true }

// Spans makes r read the run's later spans too. r calls more after each span, and with begun also before the first.
func (r *RunCursor) Spans(begun bool, more func(ctx context.Context, after int64) (bool, error)) {
	r.more, r.began, r.ended = more, begun, begun
}

// NeverRan marks r's run as cancelled before the span's first event.
func (r *RunCursor) NeverRan() {
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	r.t.cancelled[r.run] = true
}

// ErrRemoved means that events were removed before the reader got them.
var ErrRemoved = errors.New("events were removed before they were shown")

// Next returns the run's next events like Cursor.Next, and io.EOF after the span's terminal event. For a run that was
// cancelled before its first event it returns a span of records without ids. It fails with ErrRemoved if the rest of
// the span was deleted.
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
			return r.emptySpan(), nil
		}
		if err != nil {
			return nil, err
		}
		own := r.spanRecords(recs)
		if len(own) == 0 {
			continue
		}
		if recs, err = r.withState(ctx, own); err == nil {
			recs, err = r.withMessages(ctx, recs)
		}
		if err != nil {
			r.after, r.began, r.ended = after, began, false // the caller does not get them
			return nil, err
		}
		r.repeatEnd = 0
		return recs, nil
	}
	if r.repeatEnd == 0 {
		return nil, io.EOF
	}
	end, err := r.t.readRecord(ctx, r.repeatEnd)
	if err != nil {
		return nil, err
	}
	r.repeatEnd = 0
	if end == nil {
		return nil, io.EOF
	}
	end.ID = 0
	return []*Record{end}, nil
}

// Ended reports whether the span's terminal event was returned.
func (r *RunCursor) Ended() bool { return r.ended }

// spanRecords returns the span's records of recs.
func (r *RunCursor) spanRecords(recs []*Record) []*Record {
	own := recs[:0]
	for _, rec := range recs {
		if rec.RunKey != r.run || r.ended || r.behind && !rec.terminal {
			continue
		}
		if r.behind {
			if r.behind = false; waits(rec.Event) {
				continue
			}
			own = slices.Insert(own, 0, NewRecord(0, r.run, agui.RunStarted{Base: agui.Base{ThreadID: r.t.id, RunID: r.id}}, 64))
		}
		r.began = true
		if r.ended = rec.terminal; r.ended {
			r.after = rec.ID // later records belong to other runs
		}
		if !r.repeatsRequest(rec) {
			own = append(own, rec)
		}
	}
	return own
}

// waits reports whether ev ends a span of a run that goes on once it is answered.
func waits(ev agui.Event) bool {
	end, ok := ev.(agui.RunFinished)
	return ok && (end.Outcome.Type == agui.OutcomeInterrupt || len(end.Outcome.PendingToolCallIDs) > 0)
}

func (r *RunCursor) emptySpan() []*Record {
	base := agui.Base{ThreadID: r.t.id, RunID: r.id}
	return []*Record{
		NewRecord(0, r.run, agui.RunStarted{Base: base}, 64),
		NewRecord(0, r.run, agui.RunFinished{Base: base, Outcome: agui.Outcome{Type: agui.OutcomeCancelled}}, 64),
	}
}
