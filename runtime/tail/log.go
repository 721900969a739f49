// Package tail holds the live ends of threads' logs in memory: the latest records of each thread and the cursors that
// read them. A reader moves from the database to memory and on to new events without losing or repeating one. Only
// readPage events are delivered here. The package stores nothing itself and does not know how runs execute.
package tail

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/quota"
)

// Config says where to read older events and how much to hold in memory.
type Config struct {
	Store data.Reader

	RingEvents int          // records in a thread's ring
	RingBytes  int          // bytes in a thread's ring
	RingsBytes int          // bytes in all rings, and in cached messages, which have a quarter of it at most
	LargePages quota.Limits // bytes of large pages that cursors have read from Store
	EventBytes int          // largest event, default MaxEvent

	Shared bool               // other instances may write the database: see Look
	Wants  func(thread int64) // called when a log of which another instance may have news gets its first reader; may be nil

	Replayed func(events int) // called when a reader reaches the live end or closes, with the number of events it got from Store; may be nil
}

// Logs are the live ends of the threads' logs that have a holder.
type Logs struct {
	cfg   Config
	large *quota.Pool  // of Config.LargePages
	bytes atomic.Int64 // of all rings
	grown atomic.Int64 // counts additions to any ring
	looks atomic.Int64 // numbers the looks at heads of logs, from their begin

	lookouts lookouts
	messages messageCache

	mu    sync.Mutex // guards the field below, and Tail.holders
	tails map[int64]*Tail
}

// New returns empty logs.
func New(cfg Config) *Logs {
	cfg.EventBytes = cmp.Or(cfg.EventBytes, MaxEvent)
	return &Logs{cfg: cfg, large: quota.New(cfg.LargePages), tails: make(map[int64]*Tail)}
}

// Hold returns the live end of a thread's log. Release it. id is the user's name for the thread.
func (l *Logs) Hold(key int64, id string) *Tail {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tails[key]
	if t == nil {
		t = &Tail{key: key, id: id, logs: l, reads: make(map[int64]int), cancelled: make(map[int64]bool), removals: -1}
		t.looking = make(chan struct{}, 1)
		t.restated.turn = make(chan struct{}, 1)
		l.tails[key] = t
	}
	t.holders++
	return t
}

// Deliver passes on a commit's records and thread changes to the holders of the thread, and its rows to the cached messages. ch is nil if
// the thread did not change.
func (l *Logs) Deliver(key int64, recs []*Record, rows []data.Row, ch *Change) {
	l.messages.apply(key, recs, rows, ch != nil && (ch.Removed || ch.Gone))
	l.mu.Lock()
	t := l.tails[key]
	if t != nil {
		t.holders++
	}
	l.mu.Unlock()
	if t != nil {
		t.deliver(recs, ch)
		t.Release()
	}
	l.evict()
}

// Read opens a cursor for owner behind the event after. A following reader does not end while the thread is idle. Read
// refuses a cursor beyond the log's end.
func (l *Logs) Read(ctx context.Context, owner quota.Owner, key int64, id string, after int64, follow bool) (*Cursor, error) {
	t := l.Hold(key, id)
	since := l.looks.Load()
	if err := t.Learn(ctx); err != nil {
		t.Release()
		return nil, err
	}
	if after == Latest && l.cfg.Shared {
		after = t.Committed()
	}
	if after < 0 || after > t.Committed() { // Tail may be behind the store
		var err error
		if after, err = l.checkCursor(ctx, key, after); err != nil {
			t.Release()
			return nil, err
		}
	}
	t.countReaders(1)
	return &Cursor{t: t, after: after, follow: follow, owner: owner, caughtUp: after, since: since}, nil
}

// Latest is the cursor at the end of the log.
const Latest = -1

// checkCursor returns after, or for Latest the last stored event. It refuses a cursor beyond that.
func (l *Logs) checkCursor(ctx context.Context, key, after int64) (int64, error) {
	end, err := l.cfg.Store.LastEventID(ctx, key)
	switch {
	case err != nil:
		return 0, err
	case after == Latest:
		return end, nil
	case after < 0 || after > end:
		return 0, data.Refuse(data.KindInvalid, "invalid_cursor", "The cursor %d is beyond the log's end, %d", after, end)
	}
	return after, nil
}

// Bytes returns the size of all rings.
func (l *Logs) Bytes() int64 { return l.bytes.Load() }

// evict drops cached messages, and then the rings that have been idle longest, if together they exceed their limit. It frees an eighth
// more than necessary, to run rarely.
func (l *Logs) evict() {
	limit := int64(l.cfg.RingsBytes)
	l.messages.evict(max(min(limit/4, limit-l.bytes.Load()), 0))
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
