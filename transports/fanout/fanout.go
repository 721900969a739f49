// Package fanout shows a thread's log to any number of viewers, each of whom reads with a cursor of its own and
// waits for no other. Of viewers that see the same thing in the same form, one goroutine writes to all while they
// keep up.
package fanout

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports/stream"
)

// Viewers are those that watch threads on the streams of a set.
type Viewers struct {
	streams *stream.Set
	crowds  crowds
}

// New returns Viewers that are written to as streams says.
func New(streams *stream.Set) *Viewers {
	return &Viewers{streams: streams, crowds: crowds{streams: streams, open: make(map[form]*crowd)}}
}

// Cursor is what a stream follows: a *runtime.Cursor or *runtime.RunCursor.
type Cursor interface {
	Next(ctx context.Context) ([]*runtime.Record, error)
	Waits() bool
	After() int64
	Skip(after int64)
	Source() runtime.Source
	Fork() *runtime.Cursor
	Close()
}

// Tail says which events a stream shows and how.
type Tail struct {
	Cursor     Cursor
	Projection agui.Projection
	Gather     time.Duration // between two writes at least, 0 for as soon as can be
	Framing    Framing       // nil for that of server-sent events
}

// A batch of so many events, or of so many bytes, is not held back: the reader is behind, and what it has is worth
// a write.
const (
	many  = 128
	large = 256 << 10
)

// Follow writes the tail's events to w until the log ends, and then returns nil. It fails with the cause of ctx, with
// stream.ErrGone, or with what the cursor says. While many streams are open, or when the tail gathers, only the first
// event and terminal ones are written at once; others wait until something was last written a while ago, and go
// out together. Several goroutines may each follow a tail on one stream.
func (v *Viewers) Follow(ctx context.Context, w *stream.Writer, t *Tail) error {
	c := v.crowds.join(w, t)
	defer v.crowds.leave(c)
	for began := false; ctx.Err() == nil; began = true {
		if t.Gather == 0 && v.crowds.large(c) && t.Cursor.Waits() {
			sat, err := c.wait(ctx, w, t)
			if err != nil {
				return err
			}
			if sat {
				continue
			}
		}
		recs, err := t.Cursor.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return cmp.Or(context.Cause(ctx), err) // of a read that was given up the store tells no cause
		}
		if pace := max(t.Gather, v.streams.Interval()); began && pace > 0 {
			recs = gather(ctx, t.Cursor, recs, w.Wrote().Add(pace))
		}
		if err := write(w, t, recs); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// gather adds to recs, which a cursor has just returned, what it returns until then. It does not wait when they
// are many, large or the last of a span.
func gather(ctx context.Context, cur Cursor, recs []*runtime.Record, until time.Time) []*runtime.Record {
	if urgent(recs) || time.Until(until) <= 0 {
		return recs
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for recs = slices.Clone(recs); !urgent(recs); {
		more, err := cur.Next(ctx)
		if err != nil {
			break // if it is more than that time is up, the next read says so again
		}
		recs = append(recs, more...)
	}
	return recs
}

func urgent(recs []*runtime.Record) bool {
	size := 0
	for _, rec := range recs {
		size += rec.Size()
	}
	return len(recs) >= many || size >= large || slices.ContainsFunc(recs, (*runtime.Record).Terminal)
}

// write writes recs.
func write(w *stream.Writer, t *Tail, recs []*runtime.Record) error {
	return w.Batch(func() {
		var head []byte
		for _, rec := range recs {
			event := rec.JSON(t.Projection)
			if event == nil {
				continue
			}
			var tail string
			head, tail = around(t.Framing, head[:0], rec.ID, rec.Type(t.Projection), len(event))
			w.Fit(len(head) + len(event) + len(tail))
			_, _ = w.Write(head)
			_, _ = w.Write(event)
			if _, err := w.WriteString(tail); err != nil {
				break
			}
		}
	})
}
