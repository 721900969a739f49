package transports

import (
	"context"
	"sync"
	"time"

	"github.com/batonrun/baton/runtime"
)

// windows hold back readers of a thread together. A reader that has just been written to waits in the
// thread's window instead of at the log, so that a busy log wakes one goroutine per event and not one per
// reader, and each of them once per window. A window ends early at a terminal event.
type windows struct {
	rt *runtime.Runtime

	mu   sync.Mutex // guards the field below
	open map[windowKey]*window
}

type windowKey struct {
	thread int64
	length time.Duration
}

type window struct {
	from int64 // it sees the events behind this one
	over chan struct{}
}

// wait returns when the window is over that a reader which has read up to after belongs to.
func (s *windows) wait(ctx context.Context, key windowKey, after int64) {
	s.mu.Lock()
	win := s.open[key]
	if win == nil || after < win.from {
		win = &window{from: after, over: make(chan struct{})}
		s.open[key] = win
		go s.watch(key, win) // ends with the window
	}
	s.mu.Unlock()
	select {
	case <-win.over:
	case <-ctx.Done():
	}
}

// watch keeps a window open for its length or until a terminal event.
func (s *windows) watch(key windowKey, win *window) {
	ctx, cancel := context.WithTimeout(context.Background(), key.length)
	defer cancel()
	if cur, err := s.rt.Read(ctx, runtime.Thread{Key: key.thread}, win.from, true); err == nil {
		for {
			recs, err := cur.Next(ctx)
			if err != nil || hasTerminal(recs) {
				break
			}
		}
		cur.Close()
	}
	s.mu.Lock()
	if s.open[key] == win {
		delete(s.open, key)
	}
	s.mu.Unlock()
	close(win.over)
}
