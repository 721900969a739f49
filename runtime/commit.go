package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/log"
	"github.com/batonrun/baton/runtime/model"
	"github.com/batonrun/baton/runtime/monitor"
)

// item is one entry of the commit queue: what a run has said, or a command to be decided.
type item struct {
	t     *log.Tail
	l     *live        // whose failure a data error is; nil for requests about runs that nobody executes here
	run   *monitor.Run // whose recs and ticks they are
	recs  []*log.Record
	evs   []StoredEvent // of recs; a command has them in itself
	ticks []monitor.Tick
	rows  []Row

	cmd   decide.Command            // nil for what a run has said
	then  func(out *decide.Decided) // called once the command's changes are stored, and before readers see them
	takes *live                     // what this instance executes once the command is decided, and
	began []monitor.Execution       // what of it goes on
	done  []func(err error)         // called once, after the records were shown

	size int
	out  decide.Decided
	err  error
}

// empty makes an item that is free like a new one, with room for what it held.
func (it *item) empty() {
	clear(it.recs)
	clear(it.evs)
	clear(it.rows)
	clear(it.done)
	*it = item{
		t: it.t, l: it.l, run: it.run, recs: it.recs[:0], evs: it.evs[:0], ticks: it.ticks[:0], rows: it.rows[:0], done: it.done[:0],
	}
}

// committer is the one writer of this process: it takes what waits in the queue, commits it in one
// transaction, then shows it. Batches form by themselves while a commit runs.
type committer struct {
	rt  *Runtime
	log *slog.Logger

	mu       sync.Mutex // guards the fields below
	nonEmpty sync.Cond  // the queue has items, or due or stop is set
	space    sync.Cond  // the queue has shrunk, or a run was shut
	queue    []*item
	bytes    int  // of the queue
	due      bool // the lease is to be renewed
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

// add queues an item without waiting. done is called with why it was not written once nothing is any more. It reports
// whether what the item holds was added to one that waits: then the item itself is free.
func (c *committer) add(it *item) bool {
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
		return false
	}
	if l := it.l; l != nil {
		l.queued.Add(int64(it.size))
		if tail := l.tail; tail != nil && tail.cmd == nil && it.cmd == nil {
			for _, t := range it.ticks {
				t.At += len(tail.recs)
				tail.ticks = append(tail.ticks, t)
			}
			tail.recs = append(tail.recs, it.recs...)
			tail.evs = append(tail.evs, it.evs...)
			tail.rows = append(tail.rows, it.rows...)
			tail.done = append(tail.done, it.done...)
			tail.size += it.size
			c.grew(it.size)
			c.mu.Unlock()
			return true
		}
		l.tail = it
	}
	c.queue = append(c.queue, it)
	c.grew(it.size)
	c.nonEmpty.Signal()
	c.mu.Unlock()
	return false
}

func (c *committer) grew(n int) {
	c.bytes += n
	c.full.Store(c.bytes >= c.rt.cfg.QueueBytes)
}

// decide queues a command and waits for its outcome, which is in it.out. An item that was queued is decided, whoever
// waits for it.
func (c *committer) decide(it *item) error {
	done := make(chan error, 1)
	it.done = append(it.done, func(err error) { done <- err })
	c.add(it)
	return <-done
}

// flush waits until what has been queued is stored.
func (c *committer) flush() error { return c.decide(&item{}) }

// loop commits until stop is set and the queue is empty, or nothing can be written any more.
func (c *committer) loop() {
	over := make(chan struct{})
	defer close(over)
	c.rt.tasks.Go(func() { c.beat(over) })
	for c.take() {
		if len(c.taken) == 0 {
			if err := c.renew(); err != nil {
				c.giveUp(err)
				return
			}
			continue
		}
		if c.rt.Stopping() {
			for _, it := range c.taken {
				it.stay()
			}
		}
		if err := c.commit(c.taken); err != nil {
			c.giveUp(err)
			return
		}
		c.show(c.taken)
	}
}

// beat has the lease renewed every Heartbeat. It ends when over is closed.
func (c *committer) beat(over <-chan struct{}) {
	tick := time.NewTicker(c.rt.cfg.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-tick.C:
		}
		c.mu.Lock()
		c.due = true
		c.nonEmpty.Signal()
		c.mu.Unlock()
	}
}

// renew renews the lease, which commits do too. It fails only when this instance may not write any more: that the database
// is away is for those to say who need it.
func (c *committer) renew() error {
	err := c.rt.store.Renew(context.WithoutCancel(c.rt.abandoned), c.n-1)
	if errors.Is(err, ErrFenced) {
		return err
	}
	return nil
}

// take moves the next batch from the queue to taken, nothing when the lease is to be renewed. It waits for work, and so
// long that commits of many live runs do not start more often than every CommitInterval.
func (c *committer) take() bool {
	c.mu.Lock()
	for len(c.queue) == 0 && !c.stop && !c.due {
		c.nonEmpty.Wait()
	}
	due := c.due
	c.due = false
	clear(c.taken)
	c.taken = c.taken[:0]
	if len(c.queue) == 0 && due {
		c.mu.Unlock()
		return true
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
	events, bytes, decisions := 0, 0, 0
	for _, it := range c.queue {
		_, alone := it.cmd.(*decide.Delete)
		if len(c.taken) > 0 && (alone || events+len(it.recs) > c.rt.cfg.BatchEvents || bytes+it.size > c.rt.cfg.BatchBytes) {
			break
		}
		if it.cmd != nil {
			if decisions++; decisions > batchDecisions {
				break
			}
		}
		c.taken = append(c.taken, it)
		events += len(it.recs)
		bytes += it.size
		if it.l != nil {
			it.l.queued.Add(-int64(it.size))
			if it.l.tail == it {
				it.l.tail = nil
			}
		}
		if alone {
			break
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

// stay keeps a run that the item would begin here as it is: the runtime stops.
func (it *item) stay() {
	if it.takes == nil {
		return
	}
	it.takes, it.recs = nil, nil
	if start, ok := it.cmd.(*decide.Start); ok {
		start.Claim = nil
		return
	}
	it.cmd, it.then, it.err = nil, nil, ErrStopping
}

// batchDecisions is how many decisions one commit takes. Runs that stream wait for them, about 40 ms for so many starts;
// with fewer of them a crowd that comes at once waits for more commits, each of which waits for the disk.
const batchDecisions = 256

// pacedAbove is how many live runs it takes until commits are paced: below it a linger only adds itself.
const pacedAbove = 8

// commit writes a batch, retrying the identical one while the database is away. It fails only when this
// instance may not write any more. Items whose fault it is that the batch cannot be written have that in err. Once nobody
// knows whether a batch was stored, the identical one alone can tell: it is neither given up nor split for being slow.
func (c *committer) commit(batch []*item) error {
	unknown, slow, conflicts := false, 0, 0
	for attempt := 0; ; attempt++ {
		err := c.write(batch)
		switch {
		case err == nil:
			c.settle(nil)
			return nil
		case errors.Is(err, ErrFenced):
			return err
		case errors.Is(err, ErrUnavailable):
			unknown = true
			c.settle(err)
		case errors.Is(err, ErrDiskFull):
			c.settle(err)
		case errors.Is(err, model.ErrTooSlow) && (unknown || slow < slowAttempts): // it may have been told before it was known
			slow++
			c.settle(err)
		case errors.Is(err, model.ErrConflict) && conflicts < conflictAttempts: // the earlier attempt was not stored
			conflicts++
			unknown = false
		case len(batch) == 1:
			batch[0].refused(err)
			return nil
		default:
			return c.split(batch)
		}
		if c.rt.abandoned.Err() != nil {
			return err
		}
		c.pause(attempt)
	}
}

// How often a batch is written again that the database gave up, or that another instance was ahead of, until its items go
// one by one.
const (
	slowAttempts     = 2
	conflictAttempts = 10
)

// refused notes that the database does not take what the item holds. What the run has queued behind it is lost
// too: ids have no gaps.
func (it *item) refused(err error) {
	it.err, it.out = err, decide.Decided{}
	if it.l != nil {
		it.l.lost.Store(true)
	}
}

// split commits the parts of a batch that the database refused: each run's items and each request
// alone, so that only the guilty one fails.
func (c *committer) split(batch []*item) error {
	for _, it := range batch {
		if err := c.commit([]*item{it}); err != nil {
			return err
		}
	}
	return nil
}

// write is one transaction. What runs have said comes first and decisions after it: no run has anything to say behind
// a decision about it.
func (c *committer) write(batch []*item) error {
	var b model.Batch
	var decisions []*item
	for _, it := range batch {
		switch {
		case it.l != nil && it.l.lost.Load():
			it.err = cmp.Or(it.err, errLost)
		case it.cmd != nil:
			decisions = append(decisions, it)
			b.Asks = append(b.Asks, it.cmd.Ask())
		default:
			b.Events = append(b.Events, it.evs...)
			b.Rows = append(b.Rows, it.rows...)
		}
	}
	b.Decide = func(i int, v *model.View) model.Changes {
		it := decisions[i]
		it.out = decide.Decide(v, it.cmd)
		it.err = it.out.Refused
		return it.out.Changes
	}
	err := c.rt.store.Commit(context.WithoutCancel(c.rt.abandoned), c.n, &b)
	if err == nil {
		c.n++
	}
	return err
}

// errLost is the fate of what a run has queued behind events that the database has refused.
var errLost = errors.New("an earlier event of the run could not be stored")

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

// pause waits before the next attempt, in the end about half a second, so that the database is not hammered.
func (c *committer) pause(attempt int) {
	d := min(time.Millisecond<<min(attempt, 9), 500*time.Millisecond)
	t := time.NewTimer(spread(d))
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.rt.abandoned.Done():
	}
}

// show delivers a committed batch to readers and tells who waits.
func (c *committer) show(batch []*item) {
	for _, it := range batch {
		if it.err == nil && it.then != nil {
			it.then(&it.out)
		}
		if it.cmd != nil && it.out.Thread != 0 {
			c.rt.queue.set(&it.out)
		}
	}
	for _, it := range batch {
		if it.err != nil && !it.out.Gone {
			continue
		}
		if _, ok := it.cmd.(*decide.Start); ok && !it.out.Claimed {
			it.recs, it.takes = nil, nil // the run has not begun
		}
		c.rt.logs.Deliver(it.thread(), it.recs, it.change())
		c.rt.feeds.Observe(&monitor.Item{
			Run: it.run, Records: it.recs, Ticks: it.ticks, Takes: it.takes != nil, Began: it.began, Leaves: it.cmd != nil,
		})
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

// thread is the key of the thread that an item writes to, 0 when there is none.
func (it *item) thread() int64 {
	if it.t != nil {
		return it.t.Key()
	}
	return it.out.Thread
}

// change is what the item's decision has changed of its thread, nil when there is none.
func (it *item) change() *log.Change {
	if it.cmd == nil {
		return nil
	}
	out := &it.out
	return &log.Change{Busy: out.Busy(), Void: out.Void, Removed: out.Removed, Gone: out.Gone}
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

// alive reports whether anything is still written.
func (c *committer) alive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed == nil
}

// finish lets loop end once the queue is empty.
func (c *committer) finish() {
	c.mu.Lock()
	c.stop = true
	c.nonEmpty.Broadcast()
	c.mu.Unlock()
}
