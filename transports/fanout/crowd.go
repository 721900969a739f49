package fanout

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports/stream"
)

// crowds groups the streams that show the same log in the same form. When many of them wait at the end of the log, one
// goroutine writes to all, because waking a goroutine per stream would cost as much as the write itself. A stream that
// cannot be written to at once, or is at another position, writes for itself until it waits again.
type crowds struct {
	streams *stream.Set

	mu   sync.Mutex // guards the field below and every crowd's size
	open map[form]*crowd
}

// form identifies the bytes of a stream: streams of one form get the same bytes for the same events.
type form struct {
	source     runtime.Source
	projection agui.Projection
	framing    Framing
	bytes      stream.Form
}

// crowd is the streams of one form.
type crowd struct {
	form
	streams *stream.Set

	size int // streams that belong to it

	mu      sync.Mutex // guards the fields below
	waiting []*waiter
	after   int64              // they have got everything up to here
	stop    context.CancelFunc // ends the goroutine that writes; nil when there is none
}

// waiter is a stream that waits for others to write to it.
type waiter struct {
	w     *stream.Writer
	i     int           // in crowd.waiting, -1 when it does not wait any more
	after int64         // the event it has got last
	freed chan struct{} // closed when the stream must write for itself
	rest  []byte        // unsent bytes: see Writer.Offer
}

// crowded is how many streams of a form make a crowd.
const crowded = 8

// join makes the stream that follows t one of its crowd. It returns nil for a stream that others cannot write to.
func (s *crowds) join(w *stream.Writer, t *Feed) *crowd {
	source := t.Cursor.Source()
	bytes, shared := w.Form()
	if !shared || source.Run != 0 {
		return nil
	}
	key := form{source, t.Projection, t.Framing, bytes}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.open[key]
	if c == nil {
		c = &crowd{form: key, streams: s.streams}
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

// wait lets the crowd's goroutine write to the stream until the stream must write for itself. It reports false if it could not
// wait. It blocks and fails like Flush.
func (c *crowd) wait(ctx context.Context, w *stream.Writer, t *Feed) (waited bool, err error) {
	one := c.enter(w, t.Cursor)
	if one == nil {
		return false, nil
	}
	select {
	case <-one.freed:
	case <-ctx.Done():
		c.withdraw(one)
	}
	t.Cursor.Skip(one.after)
	return true, w.Finish(one.rest)
}

// enter has a stream wait, unless the crowd has got further than it: then it returns nil.
func (c *crowd) enter(w *stream.Writer, cur Cursor) *waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop == nil {
		c.begin(cur)
	}
	if cur.After() < c.after {
		return nil
	}
	one := &waiter{w: w, i: len(c.waiting), after: cur.After(), freed: make(chan struct{})}
	c.waiting = append(c.waiting, one)
	return one
}

// begin starts the goroutine that writes, at the place of cur. c.mu is held.
func (c *crowd) begin(cur Cursor) {
	ctx, cancel := context.WithCancel(context.Background())
	c.stop, c.after = cancel, cur.After()
	own := cur.Fork()
	go func() { // ends when no stream waits
		defer own.Close()
		c.streams.Guard(func() { c.serve(ctx, own) })
	}()
}

// withdraw frees a stream that stops waiting, unless it is free already.
func (c *crowd) withdraw(one *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free(one)
	if len(c.waiting) == 0 && c.stop != nil {
		c.stop()
	}
}

// free makes a stream write for itself. c.mu is held.
func (c *crowd) free(one *waiter) {
	if one.i < 0 {
		return
	}
	last := c.waiting[len(c.waiting)-1]
	c.waiting[one.i], last.i = last, one.i
	c.waiting[len(c.waiting)-1] = nil
	c.waiting = c.waiting[:len(c.waiting)-1]
	one.i = -1
	close(one.freed)
}

// serve writes new events to all waiting streams, until none is left or they must write for themselves.
func (c *crowd) serve(ctx context.Context, cur *runtime.Cursor) {
	defer c.end()
	var wrote time.Time
	for {
		recs, err := cur.Next(ctx)
		if err != nil {
			return
		}
		recs = gather(ctx, cur, recs, wrote.Add(c.streams.Interval()))
		wrote = time.Now()
		if !c.give(recs, cur.After(), wrote) {
			return
		}
	}
}

// end frees all waiting streams.
func (c *crowd) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.waiting) > 0 {
		c.free(c.waiting[len(c.waiting)-1])
	}
	c.stop()
	c.stop = nil
}

// give writes recs, which end at the event after, to all waiting streams. It reports false if no stream waits any more, or if
// recs may be the last of the log or retract messages: then each stream must read them itself.
func (c *crowd) give(recs []*runtime.Record, after int64, now time.Time) bool {
	if slices.ContainsFunc(recs, func(r *runtime.Record) bool { return r.Terminal() || r.ID == 0 || r.Retracts() }) {
		return false
	}
	out := c.frames(recs)
	c.mu.Lock()
	defer c.mu.Unlock()
	from := c.after
	c.after = after
	for _, one := range slices.Backward(c.waiting) { // free moves streams that were served already
		switch {
		case one.after >= after: // it has read this itself
		case one.after > from || !one.take(out, after, now):
			c.free(one)
		}
	}
	return len(c.waiting) > 0
}

// take writes out to the waiting stream, and reports whether it was written as a whole.
func (one *waiter) take(out []byte, after int64, now time.Time) bool {
	if len(out) == 0 {
		one.after = after
		return true
	}
	rest, ok := one.w.Offer(out, now)
	if !ok {
		return false
	}
	one.rest, one.after = rest, after
	return len(rest) == 0
}

// frames are recs as the crowd's streams write them.
func (c *crowd) frames(recs []*runtime.Record) []byte {
	size := 0
	for _, rec := range recs {
		size += len(rec.JSON(c.projection)) + 96
	}
	return c.bytes.Wrap(size, func(dst []byte) []byte {
		for _, rec := range recs {
			if event := rec.JSON(c.projection); event != nil {
				head, tail := around(c.framing, dst, rec.ID, rec.Type(c.projection), len(event))
				dst = append(append(head, event...), tail...)
			}
		}
		return dst
	})
}
