package transports

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

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
	Framing    Framing       // nil for the stream's own
}

// A batch of so many events, or of so many bytes, is not held back: the reader is behind, and what it has is worth
// a write.
const (
	many  = 128
	large = 256 << 10
)

// Follow writes the tail's events until the log ends, and then returns nil. It fails with the cause of ctx, with
// ErrGone, or with what the cursor says. While many streams are open, or when the tail gathers, only the first
// event and terminal ones are written at once; others wait until something was last written a while ago, and go
// out together. Several goroutines may each follow a tail on one stream.
func (w *Stream) Follow(ctx context.Context, t *Tail) error {
	crowds := &w.streams.crowds
	c := crowds.join(w, t)
	defer crowds.leave(c)
	for began := false; ctx.Err() == nil; began = true {
		if t.Gather == 0 && crowds.large(c) && t.Cursor.Waits() {
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
		if pace := max(t.Gather, w.streams.pace()); began && pace > 0 {
			recs = gather(ctx, t.Cursor, recs, w.wroteLast().Add(pace))
		}
		if err := w.batch(t, recs); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// pace is how long must be between two writes to a reader now.
func (s *Streams) pace() time.Duration {
	if s.Open() <= s.cfg.PaceAbove {
		return 0
	}
	return s.cfg.Pace
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

// batch writes recs.
func (w *Stream) batch(t *Tail, recs []*runtime.Record) error {
	w.turn.Lock()
	defer w.endTurn()
	framing := w.framingOf(t)
	var buf []byte
	for _, rec := range recs {
		frame := rec.SSE(t.Projection)
		if framing != nil {
			buf = appendFrame(buf[:0], rec, t.Projection, framing)
			frame = buf
			w.fit(len(frame))
		}
		if _, err := w.Write(frame); err != nil {
			break
		}
	}
	return w.Flush()
}

func (w *Stream) framingOf(t *Tail) Framing {
	if t.Framing != nil {
		return t.Framing
	}
	return w.framing
}

// appendFrame appends what projection p shows of rec, as an event of SSE when framing is nil.
func appendFrame(dst []byte, rec *runtime.Record, p agui.Projection, framing Framing) []byte {
	if framing == nil {
		return append(dst, rec.SSE(p)...)
	}
	if event := rec.JSON(p); event != nil {
		dst = framing.Append(dst, rec.ID, event)
	}
	return dst
}

func (w *Stream) wroteLast() time.Time {
	w.turn.Lock()
	defer w.turn.Unlock()
	return w.wrote
}
