package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// item is one entry of the commit queue: records and rows that are written together, and what decides
// whether they are.
type item struct {
	t     *thread
	l     *live // whose failure a data error is; nil for requests about runs that nobody executes here
	recs  []*Record
	evs   []StoredEvent // of recs
	ticks []tick
	rows  []Row
	// op runs inside the transaction before recs and rows are written, and refuses them with an error.
	// It may run again when the transaction is retried, so it leaves nothing behind but in out.
	op    func(ctx context.Context, tx Tx, out *outcome) error
	wants Wanted            // what op asks for whatever it finds
	done  []func(err error) // called once, after the records were shown

	size int
	out  outcome
	err  error
}

// outcome is what an op decided. What it adds is written after the item's own records and rows.
type outcome struct {
	thread int64 // the key of the thread, when the item has none
	recs   []*Record
	evs    []StoredEvent
	busy   *bool       // whether the thread has a run that is queued or running now
	then   func()      // called after the commit and before readers see it
	void   int64       // the key of a run that was cancelled before it wrote an event
	live   *live       // what this instance executes from now on
	began  []execution // of live: what goes on
	cut    bool        // events were removed: what the ring holds may be gone
	gone   bool        // the thread was deleted
}

// committer is the one writer of this process: it takes what waits in the queue, commits it in one
// transaction, then shows it. Batches form by themselves while a commit runs.
type committer struct {
	rt  *Runtime
	log *slog.Logger

	mu       sync.Mutex // guards the fields below
	nonEmpty sync.Cond  // the queue has items, or stop is set
	space    sync.Cond  // the queue has shrunk, or a run was shut
	queue    []*item
	bytes    int // of the queue
	stop     bool
	failed   error // why nothing is written any more

	full    atomic.Bool           // bytes has reached its bound
	trouble atomic.Pointer[error] // what the database answers while it does not commit; nil when all is well

	// Used by loop only.
	n     int64 // the number of the next batch
	start time.Time
	taken []*item
}

func newCommitter(rt *Runtime) *committer {
	c := &committer{rt: rt, log: rt.cfg.Log, n: 1}
	c.nonEmpty.L, c.space.L = &c.mu, &c.mu
	return c
}

// room waits until the queue has room for one more of l's events, or l is shut. An event that is larger
// than the bound passes when none of l's is waiting.
func (c *committer) room(l *live) {
	run := int64(c.rt.cfg.QueueRunBytes)
	if q := l.queued.Load(); q == 0 || q < run && !c.full.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for !l.shut.Load() && c.failed == nil {
		if q := l.queued.Load(); q == 0 || q < run && c.bytes < c.rt.cfg.QueueBytes {
			return
		}
		c.space.Wait()
	}
}

// wakeWaiters makes those in room look again.
func (c *committer) wakeWaiters() {
	c.mu.Lock()
	c.space.Broadcast()
	c.mu.Unlock()
}

// add queues an item without waiting. done is called with why it was not written once nothing is any more.
func (c *committer) add(it *item) {
	for i := range it.evs {
		it.size += len(it.evs[i].Payload)
	}
	c.mu.Lock()
	if c.failed != nil {
		err := c.failed
		c.mu.Unlock()
		for _, done := range it.done {
			done(err)
		}
		return
	}
	if l := it.l; l != nil {
		l.queued.Add(int64(it.size))
		if tail := l.tail; tail != nil && tail.op == nil && it.op == nil {
			for _, t := range it.ticks {
				t.at += len(tail.recs)
				tail.ticks = append(tail.ticks, t)
			}
			tail.recs = append(tail.recs, it.recs...)
			tail.evs = append(tail.evs, it.evs...)
			tail.rows = append(tail.rows, it.rows...)
			tail.done = append(tail.done, it.done...)
			tail.size += it.size
			c.grew(it.size)
			c.mu.Unlock()
			return
		}
		l.tail = it
	}
	c.queue = append(c.queue, it)
	c.grew(it.size)
	c.nonEmpty.Signal()
	c.mu.Unlock()
}

func (c *committer) grew(n int) {
	c.bytes += n
	c.full.Store(c.bytes >= c.rt.cfg.QueueBytes)
}

// do queues an op and waits for its outcome. The wait outlives ctx: an op that was queued is decided.
func (c *committer) do(op func(ctx context.Context, tx Tx, out *outcome) error) error {
	return c.decide(&item{op: op})
}

// decide is do for an item.
func (c *committer) decide(it *item) error {
	done := make(chan error, 1)
	it.done = append(it.done, func(err error) { done <- err })
	c.add(it)
	return <-done
}

// loop commits until stop is set and the queue is empty, or nothing can be written any more.
func (c *committer) loop() {
	for c.take() {
		if err := c.commit(c.taken); err != nil {
			c.giveUp(err)
			return
		}
		c.show(c.taken)
	}
}

// take moves the next batch from the queue to taken. It waits for work, and so long that commits of many
// live runs do not start more often than every CommitInterval.
func (c *committer) take() bool {
	c.mu.Lock()
	for len(c.queue) == 0 && !c.stop {
		c.nonEmpty.Wait()
	}
	if len(c.queue) == 0 {
		c.failed = ErrStopping
		c.mu.Unlock()
		return false
	}
	if wait := c.rt.cfg.CommitInterval - time.Since(c.start); wait > 0 && c.rt.liveRuns.Load() > pacedAbove {
		c.mu.Unlock()
		time.Sleep(wait) //nolint:forbidigo // the pace of commits is time itself
		c.mu.Lock()
	}
	clear(c.taken)
	c.taken = c.taken[:0]
	events, bytes := 0, 0
	for _, it := range c.queue {
		if len(c.taken) > 0 && (events+len(it.evs) > c.rt.cfg.BatchEvents || bytes+it.size > c.rt.cfg.BatchBytes) {
			break
		}
		c.taken = append(c.taken, it)
		events += len(it.evs)
		bytes += it.size
		if it.l != nil {
			it.l.queued.Add(-int64(it.size))
			if it.l.tail == it {
				it.l.tail = nil
			}
		}
	}
	n := copy(c.queue, c.queue[len(c.taken):])
	clear(c.queue[n:])
	c.queue = c.queue[:n]
	c.grew(-bytes)
	c.space.Broadcast()
	c.mu.Unlock()
	c.start = time.Now()
	return true
}

// pacedAbove is how many live runs it takes until commits are paced: below it a linger only adds itself.
const pacedAbove = 8

// commit writes a batch, retrying the identical one while the database is away. It fails only when this
// instance may not write any more. Items that a data error is the fault of have it in err.
func (c *committer) commit(batch []*item) error {
	for attempt := 0; ; attempt++ {
		err := c.write(batch)
		switch {
		case err == nil:
			c.settle(nil)
			return nil
		case errors.Is(err, ErrFenced):
			return err
		case errors.Is(err, ErrUnavailable), errors.Is(err, ErrDiskFull):
			c.settle(err)
			if c.rt.abandoned.Err() != nil {
				return err
			}
			c.pause(attempt)
		case len(batch) == 1:
			batch[0].refused(err)
			return nil
		default:
			return c.split(batch)
		}
	}
}

// refused notes that the database does not take the item's data. What the run has queued behind it is lost
// too: ids have no gaps.
func (it *item) refused(err error) {
	it.err, it.out = err, outcome{}
	if it.l != nil {
		it.l.lost.Store(true)
	}
}

// split commits the parts of a batch whose data the database refused: each run's items and each request
// alone, so that only the guilty one fails.
func (c *committer) split(batch []*item) error {
	for _, it := range batch {
		if err := c.commit([]*item{it}); err != nil {
			return err
		}
	}
	return nil
}

// write is one transaction. What runs have emitted comes first and decisions after it: no run has anything to
// say behind a decision about it, and a store writes rows faster while nothing reads between them.
func (c *committer) write(batch []*item) error {
	var evs []StoredEvent
	var said, decisions []*item
	rows := 0
	for _, it := range batch {
		switch {
		case it.l != nil && it.l.lost.Load():
			it.err = cmp.Or(it.err, errLost)
		case it.op != nil:
			decisions = append(decisions, it)
		default:
			said = append(said, it)
			evs = append(evs, it.evs...)
			rows += len(it.rows)
		}
	}
	ctx := context.WithoutCancel(c.rt.abandoned)
	var apply func(Tx) error
	if rows > 0 || len(decisions) > 0 {
		apply = func(tx Tx) error {
			for _, it := range said {
				if err := tx.Put(it.rows...); err != nil {
					return err
				}
			}
			if err := readAhead(tx, decisions); err != nil {
				return err
			}
			for _, it := range decisions {
				if err := it.decide(ctx, tx); err != nil {
					return err
				}
			}
			return nil
		}
	}
	err := c.rt.store.Commit(ctx, c.n, evs, apply)
	if err == nil {
		c.n++
	}
	return err
}

// readAhead has the store read together what the decisions of a batch ask for one after the other.
func readAhead(tx Tx, decisions []*item) error {
	if len(decisions) < 2 {
		return nil
	}
	var w Wanted
	for _, it := range decisions {
		w.ThreadNames = append(w.ThreadNames, it.wants.ThreadNames...)
		w.RunNames = append(w.RunNames, it.wants.RunNames...)
		w.Scopes = append(w.Scopes, it.wants.Scopes...)
		w.Threads = append(w.Threads, it.wants.Threads...)
		w.Runs = append(w.Runs, it.wants.Runs...)
	}
	return tx.Ahead(w)
}

// errLost is the fate of what a run has queued behind events that the database has refused.
var errLost = errors.New("an earlier event of the run could not be stored")

// decide runs the item's op inside the transaction, and writes what belongs to its decision. A refusal is the
// item's own affair.
func (it *item) decide(ctx context.Context, tx Tx) error {
	it.err, it.out = nil, outcome{}
	if it.err = it.op(ctx, tx, &it.out); it.err != nil {
		it.out = outcome{}
		if _, refused := errors.AsType[*Error](it.err); refused {
			return nil
		}
		return it.err
	}
	tx.Append(it.evs...)
	tx.Append(it.out.evs...)
	return tx.Put(it.rows...)
}

// settle notes what the database answers, for readiness.
func (c *committer) settle(err error) {
	if err == nil {
		if c.trouble.Swap(nil) != nil {
			c.log.Info("database commits again")
		}
		return
	}
	if c.trouble.Swap(&err) == nil {
		c.log.Error("database does not commit; runs wait", "error", err)
	}
}

// pause waits before the next attempt, up to half a second, so that the database is not hammered.
func (c *committer) pause(attempt int) {
	d := min(time.Millisecond<<min(attempt, 9), 500*time.Millisecond)
	t := time.NewTimer(d/2 + rand.N(d/2+1))
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.rt.abandoned.Done():
	}
}

// show delivers a committed batch to readers and tells who waits.
func (c *committer) show(batch []*item) {
	for _, it := range batch {
		if it.err == nil && it.out.then != nil {
			it.out.then()
		}
	}
	for _, it := range batch {
		if it.err != nil {
			continue
		}
		if t := c.rt.watched(it); t != nil {
			t.deliver(it)
			c.rt.release(t)
		}
		c.rt.monitors.observe(it)
	}
	for _, it := range batch {
		for _, done := range it.done {
			done(it.err)
		}
		if it.l != nil && it.l.lost.Load() {
			it.l.broken(fmt.Errorf("store events: %w", it.err))
		}
	}
}

// giveUp fails all that waits and will ever wait.
func (c *committer) giveUp(err error) {
	c.mu.Lock()
	c.failed = err
	rest := slices.Concat(c.taken, c.queue)
	c.queue = nil
	c.space.Broadcast()
	c.mu.Unlock()
	for _, it := range rest {
		for _, done := range it.done {
			done(err)
		}
	}
	c.rt.lost(err)
}

// finish lets loop end once the queue is empty.
func (c *committer) finish() {
	c.mu.Lock()
	c.stop = true
	c.nonEmpty.Broadcast()
	c.mu.Unlock()
}
