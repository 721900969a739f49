// Package fanout shows a thread's log to any number of viewers. Each reads with its own cursor and waits for no other. For
// viewers that see the same events in the same form, one goroutine writes to all while they keep up.
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

// Viewers follow logs on the streams of a set.
type Viewers struct {
	streams *stream.Set
	crowds  crowds
}

// New returns Viewers for the streams of a set.
func New(streams *stream.Set) *Viewers {
	return &Viewers{streams: streams, crowds: crowds{streams: streams, open: make(map[form]*crowd)}}
}

// Cursor reads a log: a *runtime.Cursor or *runtime.RunCursor.
type Cursor interface {
	Next(ctx context.Context) ([]*runtime.Record, error)
	Waits() bool
	After() int64
	Skip(after int64)
	Source() runtime.Source
	Fork() *runtime.Cursor
	Close()
}

// Feed is a cursor and the form in which its events are shown.
type Feed struct {
	Cursor     Cursor
	Projection agui.Projection
	Gather     time.Duration // between two writes at least, 0 for as soon as can be
	Framing    Framing       // nil for that of server-sent events
}

// A batch of this many events, or bytes, is written at once: its reader is behind.
const (
	many  = 128
	large = 256 << 10
)

// Follow writes the feed's events to w until the log ends, and then returns nil. It fails with the cause of ctx, with
// stream.ErrGone, or with the cursor's error. While many streams are open, or if the feed gathers, only the first event and
// terminal ones are written at once; others wait for the pace of the stream, and go out together. Several goroutines may
// each follow a feed on one stream.
func (v *Viewers) Follow(ctx context.Context, w *stream.Writer, t *Feed) error {
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
			return cmp.Or(context.Cause(ctx), err) // the store does not return the cause of a cancelled read
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

// gather appends to recs the records that the cursor returns until then. It does not wait when recs are many, large or the
// last of a span.
func gather(ctx context.Context, cur Cursor, recs []*runtime.Record, until time.Time) []*runtime.Record {
	if urgent(recs) || time.Until(until) <= 0 {
		return recs
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for recs = slices.Clone(recs); !urgent(recs); {
		more, err := cur.Next(ctx)
		if err != nil {
			break // a lasting error returns with the next read
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
func write(w *stream.Writer, t *Feed, recs []*runtime.Record) error {
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
