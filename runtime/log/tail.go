package log

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/batonrun/baton/runtime/model"
)

// Tail is the live end of one thread's log: the latest records, and who waits for more. It exists while a run or a reader
// holds it.
type Tail struct {
	key  int64
	id   string // the user's own name for the thread
	logs *Logs

	mu        sync.Mutex     // guards the fields below
	holders   int            // guarded by Logs.mu
	committed int64          // the last event that is stored
	busy      bool           // a run is QUEUED or RUNNING
	known     bool           // committed and busy hold
	changes   int            // counts what busy was told, so that a slow read does not overwrite newer facts
	ring      []*Record      // the latest records, oldest first, without gaps
	bytes     int            // their size
	reads     map[int64]int  // runs that cursors wait for, by key: how many of each
	void      map[int64]bool // of those, the ones that were cancelled before they wrote an event
	gone      bool           // the thread was deleted
	wake      chan struct{}

	grown atomic.Int64 // when the ring has grown last, in the order of all rings
}

// Key is the thread's.
func (t *Tail) Key() int64 { return t.key }

// Release lets go of the thread. It is called once for each Hold.
func (t *Tail) Release() {
	t.logs.mu.Lock()
	t.holders--
	gone := t.holders == 0
	if gone {
		delete(t.logs.tails, t.key)
	}
	t.logs.mu.Unlock()
	if gone {
		t.mu.Lock()
		t.drop(len(t.ring))
		t.mu.Unlock()
	}
}

// await notes that one more cursor reads a run, or with -1 one less.
func (t *Tail) await(run int64, n int) {
	if run == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reads[run] += n; t.reads[run] == 0 {
		delete(t.reads, run)
		delete(t.void, run)
	}
}

// Learn reads where the thread's log ends and whether it is busy, unless a commit has told already. It fails with
// model.ErrNotFound when there is no such thread any more.
func (t *Tail) Learn(ctx context.Context) error {
	store := t.logs.cfg.Store
	for {
		t.mu.Lock()
		known, gone, changes := t.known, t.gone, t.changes
		t.mu.Unlock()
		if gone {
			return model.ErrNotFound
		}
		if known {
			return nil
		}
		last, err := store.LastEventID(ctx, t.key)
		if err != nil {
			return err
		}
		open, err := store.OpenRuns(ctx, t.key)
		if err != nil {
			return err
		}
		t.mu.Lock()
		if t.changes == changes { // else what was read may be older than what was shown
			t.known, t.committed = true, max(t.committed, last)
			t.busy = false
			for i := range open {
				t.busy = t.busy || open[i].Status != model.Waiting
			}
		}
		t.mu.Unlock()
	}
}

// Begin notes that this process executes a run of the thread, whose log is stored up to the event last.
func (t *Tail) Begin(last int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known, t.busy = true, true
	t.changes++
	t.committed = max(t.committed, last)
}

// Committed is the id of the last event that is stored.
func (t *Tail) Committed() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.committed
}

// Changed returns a channel that is closed with the next commit of the thread.
func (t *Tail) Changed() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wake == nil {
		t.wake = make(chan struct{})
	}
	return t.wake
}

// Change is what a decision changes of a thread beside what it writes to the log.
type Change struct {
	Busy    bool    // a run is QUEUED or RUNNING
	Void    []int64 // runs that were cancelled before they wrote an event
	Removed bool    // events were removed
	Gone    bool    // the thread was deleted
}

// deliver shows what Logs.Deliver is given.
func (t *Tail) deliver(recs []*Record, ch *Change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ch != nil {
		t.busy = ch.Busy
		t.changes++
		for _, run := range ch.Void {
			if t.reads[run] > 0 {
				t.void[run] = true
			}
		}
		if ch.Removed {
			t.drop(len(t.ring))
		}
		t.gone = t.gone || ch.Gone
	}
	t.push(recs)
	if t.wake != nil {
		close(t.wake)
		t.wake = nil
	}
}

// push appends committed records to the ring and forgets the oldest beyond its bounds.
func (t *Tail) push(recs []*Record) {
	if len(recs) == 0 {
		return
	}
	t.committed = recs[len(recs)-1].ID
	if n := len(t.ring); n > 0 && t.ring[n-1].ID+1 != recs[0].ID {
		t.drop(n)
	}
	t.ring = append(t.ring, recs...)
	added := 0
	for _, r := range recs {
		added += r.size
	}
	t.bytes += added
	t.logs.bytes.Add(int64(added))
	t.grown.Store(t.logs.grown.Add(1))

	cfg := &t.logs.cfg
	n, bytes := 0, t.bytes
	for n < len(t.ring)-1 && (len(t.ring)-n > cfg.RingEvents || bytes > cfg.RingBytes) {
		bytes -= t.ring[n].size
		n++
	}
	t.drop(n)
}

// drop forgets the oldest n records of the ring.
func (t *Tail) drop(n int) {
	if n == 0 {
		return
	}
	freed := 0
	for _, r := range t.ring[:n] {
		freed += r.size
	}
	if 2*n < len(t.ring) {
		clear(t.ring[:n])
		t.ring = t.ring[n:] // append moves the rest when the array is used up
	} else {
		t.ring = slices.Clone(t.ring[n:])
	}
	t.bytes -= freed
	t.logs.bytes.Add(-int64(freed))
}
