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
	After() int64
	Close()
}

// Tail says which events a stream shows and how.
type Tail struct {
	Cursor     Cursor
	ThreadKey  int64
	Projection agui.Projection
	Gather     time.Duration // between two writes at least, 0 for as soon as can be
	Framing    Framing       // nil for the stream's own
}

// many is a batch that is not held back: the reader is behind, and what it has is worth a write.
const many = 128

// Follow writes the tail's events until the log ends, and then returns nil. It fails with the cause of ctx, with
// ErrGone, or with what the cursor says. While many streams are open, or when the tail gathers, only the first
// event and terminal ones are written at once; others wait until something was last written a while ago, and go
// out together. Several goroutines may each follow a tail on one stream.
func (w *Stream) Follow(ctx context.Context, t *Tail) error {
	for began := false; ctx.Err() == nil; began = true {
		recs, err := t.Cursor.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return cmp.Or(context.Cause(ctx), err) // of a read that was given up the store tells no cause
		}
		held := began && len(recs) < many && !hasTerminal(recs) && w.hold(ctx, t)
		if err := w.batch(t, recs, held); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// batch writes recs and, when they were held back, what has come meanwhile.
func (w *Stream) batch(t *Tail, recs []*runtime.Record, held bool) error {
	w.turn.Lock()
	defer w.endTurn()
	w.frames(recs, t)
	for more := 0; held && more < 4 && w.err == nil; more++ {
		recs, err := t.Cursor.Next(expired)
		if err != nil {
			break // nothing more is ready; the next round learns if it is something else
		}
		w.frames(recs, t)
	}
	return w.Flush()
}

// frames writes what the tail shows of recs.
func (w *Stream) frames(recs []*runtime.Record, t *Tail) {
	framing := t.Framing
	if framing == nil {
		framing = w.framing
	}
	for _, rec := range recs {
		if framing == nil {
			_, _ = w.Write(rec.SSE(t.Projection))
		} else if event := rec.JSON(t.Projection); event != nil {
			framing(w, rec.ID, event)
		}
		if w.err != nil {
			return
		}
	}
}

// hold waits until it is time for another write, and reports whether it had to.
func (w *Stream) hold(ctx context.Context, t *Tail) bool {
	length := t.Gather
	if cfg := &w.streams.cfg; w.streams.Open() > cfg.PaceAbove {
		length = max(length, cfg.Pace)
	}
	if length == 0 || time.Since(w.wroteLast()) >= length {
		return false
	}
	w.streams.windows.wait(ctx, windowKey{t.ThreadKey, length}, t.Cursor.After())
	return true
}

func (w *Stream) wroteLast() time.Time {
	w.turn.Lock()
	defer w.turn.Unlock()
	return w.wrote
}

func hasTerminal(recs []*runtime.Record) bool {
	return slices.ContainsFunc(recs, (*runtime.Record).Terminal)
}

// expired makes a cursor's Next return what is ready, or fail.
var expired = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()
