// Package log is what this process has in memory of the logs of its threads: the latest records of each, who waits for
// more, and the cursors that read them. A reader goes from the database to memory and on to the live end without a seam,
// so that nothing is lost to it or shown twice. What is delivered here has been stored; the package stores nothing, and
// knows neither runs at work nor how events come to be.
package log

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/batonrun/baton/runtime/model"
	"github.com/batonrun/baton/runtime/quota"
)

// Config says what is read where memory does not reach, and how much stays in memory.
type Config struct {
	Store model.Reader

	RingEvents int          // records a thread's ring keeps
	RingBytes  int          // bytes of them
	RingsBytes int          // of all threads
	LargePages quota.Limits // bytes of the large pages that cursors have from Store
	EventBytes int          // that an event may hold, default MaxEvent

	Replayed func(events int) // is told how many a reader has got from Store when it is at the live end or leaves; nil for nobody
}

// Logs are the live ends of the threads' logs that somebody holds.
type Logs struct {
	cfg   Config
	large *quota.Pool  // of Config.LargePages
	bytes atomic.Int64 // of all rings
	grown atomic.Int64 // how often any ring has grown

	mu    sync.Mutex // guards the field below, and Tail.holders
	tails map[int64]*Tail
}

// New returns logs of which nothing is in memory yet.
func New(cfg Config) *Logs {
	cfg.EventBytes = cmp.Or(cfg.EventBytes, MaxEvent)
	return &Logs{cfg: cfg, large: quota.New(cfg.LargePages), tails: make(map[int64]*Tail)}
}

// Hold returns the live end of a thread's log, which stays until it is released. id is the user's own name for the thread.
func (l *Logs) Hold(key int64, id string) *Tail {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tails[key]
	if t == nil {
		t = &Tail{key: key, id: id, logs: l, reads: make(map[int64]int), void: make(map[int64]bool)}
		l.tails[key] = t
	}
	t.holders++
	return t
}

// Deliver shows what a commit has written to a thread's log to those who hold its live end, and what a decision has changed
// of the thread; ch is nil when none has.
func (l *Logs) Deliver(key int64, recs []*Record, ch *Change) {
	l.mu.Lock()
	t := l.tails[key]
	if t != nil {
		t.holders++
	}
	l.mu.Unlock()
	if t == nil {
		return
	}
	t.deliver(recs, ch)
	t.Release()
	l.evict()
}

// Read opens a cursor of owner into the log of a thread, behind the event after. A reader that follows does not end when no run
// is queued or running. It refuses a cursor beyond the log's end.
func (l *Logs) Read(ctx context.Context, owner quota.Owner, key int64, id string, after int64, follow bool) (*Cursor, error) {
	t := l.Hold(key, id)
	if err := t.Learn(ctx); err != nil {
		t.Release()
		return nil, err
	}
	if after < 0 || after > t.Committed() { // what was stored just now may have been read from there already
		var err error
		if after, err = l.place(ctx, key, after); err != nil {
			t.Release()
			return nil, err
		}
	}
	return &Cursor{t: t, after: after, follow: follow, owner: owner}, nil
}

// Latest as a cursor's start means the end of the log.
const Latest = -1

// place returns after, or for Latest the end of what the store has of a log. It refuses a cursor beyond that.
func (l *Logs) place(ctx context.Context, key, after int64) (int64, error) {
	end, err := l.cfg.Store.LastEventID(ctx, key)
	switch {
	case err != nil:
		return 0, err
	case after == Latest:
		return end, nil
	case after < 0 || after > end:
		return 0, model.Refuse(model.KindInvalid, "invalid_cursor", "The cursor %d is beyond the log's end, %d", after, end)
	}
	return after, nil
}

// Bytes is how large all rings are together.
func (l *Logs) Bytes() int64 { return l.bytes.Load() }

// evict forgets the rings that have not grown for longest when all together are too large, and some more, so that there is
// nothing to do again soon.
func (l *Logs) evict() {
	limit := int64(l.cfg.RingsBytes)
	if l.bytes.Load() <= limit {
		return
	}
	type ring struct {
		t     *Tail
		grown int64
	}
	l.mu.Lock()
	rings := make([]ring, 0, len(l.tails))
	for _, t := range l.tails {
		rings = append(rings, ring{t, t.grown.Load()})
	}
	l.mu.Unlock()
	slices.SortFunc(rings, func(a, b ring) int { return cmp.Compare(a.grown, b.grown) })
	for _, r := range rings {
		if l.bytes.Load() <= limit-limit/8 {
			return
		}
		r.t.mu.Lock()
		r.t.drop(len(r.t.ring))
		r.t.mu.Unlock()
	}
}
