package stream

import (
	"context"
	"time"
)

// Pace waits until it is time for the stream's next write, or until ctx is done: at once unless many streams are
// open and the last write was a moment ago. A source calls it before it looks what there is to write, so that what
// comes meanwhile goes out together.
func (w *Writer) Pace(ctx context.Context) {
	wait := w.set.Interval() - time.Since(w.Wrote())
	if wait <= 0 {
		return
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// Interval is how long must be between two writes to a reader now.
func (s *Set) Interval() time.Duration {
	if s.Open() <= s.cfg.PaceAbove {
		return 0
	}
	return s.cfg.Pace
}

// Wrote is when something was last written to the stream. It may be called from any goroutine.
func (w *Writer) Wrote() time.Time {
	w.turn.Lock()
	defer w.turn.Unlock()
	return w.wrote
}
