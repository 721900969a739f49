package commit

import (
	"fmt"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
)

// Commits defer commands about threads that another instance has locked. Such a command returns to the queue after a pause.

// ErrContended answers a client whose thread other instances have had locked for too long.
var ErrContended = func() *data.Error {
	err := data.Refuse(data.KindUnavailable, "thread_contended", "Other servers are busy with the thread; try again shortly")
	err.RetryAfter = time.Second
	return err
}()

// errLocked ends a queue that must not wait for other instances any more.
var errLocked = fmt.Errorf("%w: another instance has locked a thread", data.ErrUnavailable)

const (
	// repeatedWaits is how long a command that is repeated is deferred, from the first time.
	repeatedWaits = 2 * time.Second
	// awaitedAfter is after how many times a commit waits a moment for the thread.
	awaitedAfter = 3
	longestPause = 256 * time.Millisecond
)

// awaitOne lets the commit wait for one thread: the one that has been deferred too often, but least often of these, because
// a thread that stays locked would delay each commit.
func awaitOne(decisions []*Item, asks []data.Ask) {
	best := -1
	for i, it := range decisions {
		if it.deferred >= awaitedAfter && (best < 0 || it.deferred < decisions[best].deferred) {
			best = i
		}
	}
	if best >= 0 {
		asks[best].Await = true
	}
}

// putBack returns the items of a committed batch without those that the commit has deferred. These are tried again after
// 2 ms, then after twice as long each time, unless one that is repeated has waited too long.
func (q *Queue) putBack(batch []*Item) []*Item {
	if !slices.ContainsFunc(batch, func(it *Item) bool { return it.locked }) {
		return batch
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	var decided []*Item
	now := time.Now()
	for _, it := range batch {
		if !it.locked {
			decided = append(decided, it)
			continue
		}
		it.locked = false
		if it.deferred++; it.deferred == 1 {
			it.since = now
		}
		if it.repeated() && now.Sub(it.since) >= repeatedWaits {
			it.Err = ErrContended
			decided = append(decided, it)
			continue
		}
		pause := min(time.Millisecond<<min(it.deferred, 10), longestPause)
		q.deferred[it] = time.AfterFunc(pause, func() { q.putBackNow(it) })
	}
	return decided
}

// putBackNow returns a deferred item to the queue.
func (q *Queue) putBackNow(it *Item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deferred[it] == nil { // the queue has given up
		return
	}
	delete(q.deferred, it)
	if s := it.Source; s != nil {
		s.queued.Add(int64(it.size))
	}
	q.waiting.add(it)
	q.grew()
	q.hurry()
}

// defers reports whether items are deferred.
func (q *Queue) defers() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.deferred) > 0
}

// repeated reports whether a client or a sweep for orphaned runs waits for the command, and repeats it if it fails.
// Other commands must be decided: nothing else would end or release a run of this instance, for example.
func (it *Item) repeated() bool {
	switch c := it.Command.(type) {
	case *decide.Start, *decide.Append, *decide.Resume, *decide.Patch, *decide.Delete, *decide.TakeOver, *decide.Expire, *decide.Wake, *decide.SendEvent:
		return true
	case *decide.Finish: // not of a run that this instance executes
		return c.Basis != nil || c.Last != 0
	}
	return false
}
