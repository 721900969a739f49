package stream

import (
	"context"
	"time"
)

// Pace waits for the stream's next write, or until ctx is done. It returns at once unless many streams are open and the last
// write was a moment ago. A source calls it before it reads events to write, so that everything that arrives meanwhile goes
// out together.
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

// Interval is the current minimum time between two writes to a reader.
func (s *Set) Interval() time.Duration {
	if s.Open() <= s.cfg.PaceAbove {
		return 0
	}
	return s.cfg.Pace
}

// Wrote returns when the stream's last write began. Any goroutine may call it.
func (w *Writer) Wrote() time.Time {
	w.batchMu.Lock()
	defer w.batchMu.Unlock()
	return w.wrote
}
