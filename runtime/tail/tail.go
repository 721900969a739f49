package tail

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batonrun/baton/runtime/data"
)

// Tail is the live end of one thread's log: the latest records and the readers that wait for more. It exists while it
// has a holder.
type Tail struct {
	key  int64
	id   string // the user's name for the thread
	logs *Logs

	mu        sync.Mutex     // guards the fields below
	holders   int            // guarded by Logs.mu
	committed int64          // id of the last stored event
	busy      bool           // a run is QUEUED or RUNNING
	known     bool           // committed and busy are valid
	changes   int            // counts updates of busy, so that a slow read does not overwrite a newer one
	ring      []*Record      // the latest records, oldest first, without gaps in their ids
	bytes     int            // size of the ring
	reads     map[int64]int  // number of cursors that wait for a run, by run
	cancelled map[int64]bool // runs of these that were cancelled before their first event
	deleted   bool           // the thread was deleted
	wake      chan struct{}

	here     bool          // this process executes a run of the thread
	readers  int           // number of cursors
	read     time.Time     // since when there are readers
	looked   int64         // the look that committed and busy are of, by Logs.looks; 0 after a decision made here
	removals int64         // data.LogHead.Removals at the last look, -1 before the first
	looking  chan struct{} // of one reader, which looks

	grown    atomic.Int64 // Logs.grown at the ring's last addition
	restated restated
}

// Key returns the thread's key.
func (t *Tail) Key() int64 { return t.key }

// Release gives up one Hold.
func (t *Tail) Release() {
	t.logs.mu.Lock()
	t.holders--
	unused := t.holders == 0
	if unused {
		delete(t.logs.tails, t.key)
	}
	t.logs.mu.Unlock()
	if unused {
		t.mu.Lock()
		t.drop(len(t.ring))
		t.mu.Unlock()
	}
}

// countReader adds n to the cursors that wait for a run.
func (t *Tail) countReader(run int64, n int) {
	if run == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reads[run] += n; t.reads[run] == 0 {
		delete(t.reads, run)
		delete(t.cancelled, run)
	}
}

// Learn reads the end of the thread's log and whether the thread is busy, unless a commit has delivered both. It fails
// with data.ErrNotFound if the thread was deleted.
func (t *Tail) Learn(ctx context.Context) error {
	if t.logs.cfg.Shared {
		return t.learnShared(ctx)
	}
	store := t.logs.cfg.Store
	for {
		t.mu.Lock()
		known, deleted, changes := t.known, t.deleted, t.changes
		t.mu.Unlock()
		if deleted {
			return data.ErrNotFound
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
		if t.changes == changes { // otherwise the read may be outdated
			t.known, t.committed = true, max(t.committed, last)
			t.busy = false
			for i := range open {
				t.busy = t.busy || open[i].Busies()
			}
		}
		t.mu.Unlock()
	}
}

// Begin records that this process executes a run of the thread, whose log is stored up to event last.
func (t *Tail) Begin(last int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known, t.busy, t.here = true, true, true
	t.changes++
	t.committed = max(t.committed, last)
}

// Committed returns the id of the last stored event.
func (t *Tail) Committed() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.committed
}

// Changed returns a channel that the thread's next commit closes.
func (t *Tail) Changed() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wake == nil {
		t.wake = make(chan struct{})
	}
	return t.wake
}

// Change is a decision's effect on a thread apart from its events.
type Change struct {
	Busy    bool    // a run is QUEUED or RUNNING
	Here    bool    // this process executes one
	Void    []int64 // runs that were cancelled before their first event
	Removed bool    // events were removed
	Gone    bool    // the thread was deleted
}

func (t *Tail) deliver(recs []*Record, ch *Change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ch != nil {
		t.busy, t.here, t.looked = ch.Busy, ch.Here, 0
		t.changes++
		for _, run := range ch.Void {
			if t.reads[run] > 0 {
				t.cancelled[run] = true
			}
		}
		if ch.Removed {
			t.drop(len(t.ring))
		}
		t.deleted = t.deleted || ch.Gone
	}
	t.push(recs)
	if t.wake != nil {
		close(t.wake)
		t.wake = nil
	}
}

// pushLatest adds the first events behind the last known one to the ring, up to a gap. Readers read the rest from the store.
func (t *Tail) pushLatest(recs []*Record) {
	n := 0
	for n < len(recs) && recs[n].ID == t.committed+1+int64(n) {
		n++
	}
	t.push(recs[:n])
}

// push appends committed records to the ring and drops the oldest beyond its limits.
func (t *Tail) push(recs []*Record) {
	if len(recs) == 0 {
		return
	}
	t.committed = max(t.committed, recs[len(recs)-1].ID)
	if n := len(t.ring); n > 0 && t.ring[n-1].ID+1 != recs[0].ID {
		t.drop(n)
	}
	t.ring = append(t.ring, recs...)
	added := 0
	for _, r := range recs {
		added += r.memory()
	}
	t.bytes += added
	t.logs.bytes.Add(int64(added))
	t.grown.Store(t.logs.grown.Add(1))

	cfg := &t.logs.cfg
	n, bytes := 0, t.bytes
	for n < len(t.ring)-1 && (len(t.ring)-n > cfg.RingEvents || bytes > cfg.RingBytes) {
		bytes -= t.ring[n].memory()
		n++
	}
	t.drop(n)
}

// drop removes the oldest n records of the ring.
func (t *Tail) drop(n int) {
	if n == 0 {
		return
	}
	freed := 0
	for _, r := range t.ring[:n] {
		freed += r.memory()
	}
	if 2*n < len(t.ring) {
		clear(t.ring[:n])
		t.ring = t.ring[n:] // append moves the rest when the array is full
	} else {
		t.ring = slices.Clone(t.ring[n:])
	}
	t.bytes -= freed
	t.logs.bytes.Add(-int64(freed))
}
