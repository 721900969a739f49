package transports

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// crowds are the streams that show the same thing in the same form. When many of them wait at the end of a log,
// one goroutine writes to all: to wake a goroutine for each would cost as much as the write itself. A stream that
// cannot be written to at once, or is not where the others are, goes on by itself until it waits again.
type crowds struct {
	mu   sync.Mutex // guards the field below and every crowd's size
	open map[form]*crowd
}

// form says what a stream shows and how: streams of one form get the same bytes for the same events.
type form struct {
	source     runtime.Source
	projection agui.Projection
	framing    Framing
	chunked    bool
}

// crowd is the streams of one form.
type crowd struct {
	form
	size int // streams that belong to it

	mu    sync.Mutex         // guards the fields below
	seats []*seat            // of those that wait
	after int64              // they have got everything up to here
	stop  context.CancelFunc // ends the goroutine that writes; nil when there is none
}

// seat is a stream that waits for others to write to it.
type seat struct {
	w     *Stream
	i     int           // in crowd.seats, -1 when it has left
	after int64         // the event it has got last
	freed chan struct{} // closed when the stream must go on by itself
	left  []byte        // what its client did not take at once; the stream is locked while there is any
}

// crowded is how many streams of a form make a crowd.
const crowded = 8

// join makes the stream that follows t one of its crowd. It returns nil for a stream that others cannot write to.
func (s *crowds) join(w *Stream, t *Tail) *crowd {
	source := t.Cursor.Source()
	if w.raw == nil || source.Run != 0 {
		return nil
	}
	key := form{source, t.Projection, w.framingOf(t), w.chunked}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.open[key]
	if c == nil {
		c = &crowd{form: key}
		s.open[key] = c
	}
	c.size++
	return c
}

// leave is called by a stream that does not follow any more.
func (s *crowds) leave(c *crowd) {
	if c == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.size--; c.size == 0 {
		delete(s.open, c.form)
	}
}

// large reports whether the crowd is worth a goroutine of its own.
func (s *crowds) large(c *crowd) bool {
	if c == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.size >= crowded
}

// wait has others write to the stream until it must go on by itself, and reports false when they cannot. It blocks
// and fails like Flush.
func (c *crowd) wait(ctx context.Context, w *Stream, t *Tail) (sat bool, err error) {
	st := c.sit(w, t.Cursor)
	if st == nil {
		return false, nil
	}
	select {
	case <-st.freed:
	case <-ctx.Done():
		c.rise(st)
	}
	t.Cursor.Skip(st.after)
	return true, w.finish(st.left)
}

// sit takes a seat, nil when the crowd has got further than the stream.
func (c *crowd) sit(w *Stream, cur Cursor) *seat {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop == nil {
		c.begin(w, cur)
	}
	if cur.After() < c.after {
		return nil
	}
	st := &seat{w: w, i: len(c.seats), after: cur.After(), freed: make(chan struct{})}
	c.seats = append(c.seats, st)
	return st
}

// begin starts the goroutine that writes, at the place of cur. c.mu is held.
func (c *crowd) begin(w *Stream, cur Cursor) {
	ctx, cancel := context.WithCancel(context.Background())
	c.stop, c.after = cancel, cur.After()
	own := cur.Fork()
	go func() { // ends when nobody is seated
		defer own.Close()
		w.streams.Guard(func() { c.serve(ctx, w.streams, own) })
	}()
}

// rise gives up a seat unless it was freed.
func (c *crowd) rise(st *seat) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free(st)
	if len(c.seats) == 0 && c.stop != nil {
		c.stop()
	}
}

// free has a stream go on by itself. c.mu is held.
func (c *crowd) free(st *seat) {
	if st.i < 0 {
		return
	}
	last := c.seats[len(c.seats)-1]
	c.seats[st.i], last.i = last, st.i
	c.seats[len(c.seats)-1] = nil
	c.seats = c.seats[:len(c.seats)-1]
	st.i = -1
	close(st.freed)
}

// serve writes what comes to all who are seated, until nobody is, or none of them is to be written to by others.
func (c *crowd) serve(ctx context.Context, s *Streams, cur *runtime.Cursor) {
	defer c.end()
	p := probes.Get().(*probe)
	defer probes.Put(p)
	var wrote time.Time
	for {
		recs, err := cur.Next(ctx)
		if err != nil {
			return
		}
		recs = gather(ctx, cur, recs, wrote.Add(s.pace()))
		wrote = time.Now()
		if !c.give(p, recs, cur.After(), wrote) {
			return
		}
	}
}

// end frees all seats.
func (c *crowd) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.seats) > 0 {
		c.free(c.seats[len(c.seats)-1])
	}
	c.stop()
	c.stop = nil
}

// give writes recs, which end at the event after, to all who are seated. It reports false when they must write
// themselves, as what may be the last of a log they all see alone, and when nobody is seated any more.
func (c *crowd) give(p *probe, recs []*runtime.Record, after int64, now time.Time) bool {
	if slices.ContainsFunc(recs, func(r *runtime.Record) bool { return r.Terminal() || r.ID == 0 }) {
		return false
	}
	out := c.frames(recs)
	c.mu.Lock()
	defer c.mu.Unlock()
	from := c.after
	c.after = after
	for _, st := range slices.Backward(c.seats) { // free moves those that were served already
		switch {
		case st.after >= after: // it has read this itself
		case st.after > from || !st.take(p, out, after, now):
			c.free(st)
		}
	}
	return len(c.seats) > 0
}

// take writes out to the seated stream, and reports whether it took all of it.
func (st *seat) take(p *probe, out []byte, after int64, now time.Time) bool {
	w := st.w
	if len(out) == 0 {
		st.after = after
		return true
	}
	if !w.turn.TryLock() {
		return false
	}
	if !w.mu.TryLock() {
		w.turn.Unlock()
		return false
	}
	st.left, st.after = out, after
	if !w.broken {
		st.left = out[p.start(w.raw, out):]
	}
	w.wrote = now
	w.pingAfter(now)
	if len(st.left) > 0 {
		return false // the stream unlocks itself when it has written the rest: nothing may come between
	}
	w.mu.Unlock()
	w.turn.Unlock()
	return true
}

// finish writes what others have left of a write to the stream, and unlocks it.
func (w *Stream) finish(left []byte) error {
	if len(left) == 0 {
		return nil
	}
	defer w.turn.Unlock()
	defer w.mu.Unlock()
	w.write(left)
	return w.err
}

// frames are recs as the crowd's streams write them.
func (c *crowd) frames(recs []*runtime.Record) []byte {
	const head = "00000000\r\n"
	size := len(head) + chunkTail
	for _, rec := range recs {
		size += len(rec.SSE(c.projection)) + 64
	}
	out := make([]byte, 0, size)
	if c.chunked {
		out = append(out, head...)
	}
	from := len(out)
	for _, rec := range recs {
		out = appendFrame(out, rec, c.projection, c.framing)
	}
	n := len(out) - from
	if n == 0 || !c.chunked {
		return out[from:]
	}
	for i := 7; i >= 0; i-- {
		out[i] = "0123456789abcdef"[n&15]
		n >>= 4
	}
	return append(out, "\r\n"...)
}
