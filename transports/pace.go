package transports

import (
	"context"
	"time"
)

// Pace waits until it is time for the stream's next write, or until ctx is done: at once unless many streams are
// open and the last write was a moment ago. A source that does not Follow a thread calls it before it looks what
// there is to write, so that what comes meanwhile goes out together.
func (w *Stream) Pace(ctx context.Context) {
	wait := w.streams.pace() - time.Since(w.wroteLast())
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
