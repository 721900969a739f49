// Package commit writes all that this process writes, in one order: a queue takes what runs say and the commands about
// them, and commits what waits in one transaction, so that all share its cost. What commands come to is decided inside, by
// package decide. Whose events they are and who is shown them is not its business; that nothing is shown before it is
// stored, nothing is written twice, and one run's faulty data is no other's trouble, is.
package commit

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batonrun/baton/runtime/model"
	"github.com/batonrun/baton/runtime/quota"
)

// ErrStopping is what is told whoever asks for a write that comes too late: the process stops.
var ErrStopping = model.Refuse(model.KindUnavailable, "stopping", "The server is stopping; try again shortly")

// Store is what a queue writes to: see [model.Store].
type Store interface {
	Commit(ctx context.Context, n int64, b *model.Batch) error
	Renew(ctx context.Context, n int64) error
}

// Config holds what a Queue needs. All of it must be set.
type Config struct {
	Store Store
	Log   *slog.Logger

	Interval    time.Duration // between the starts of two commits above 8 live runs
	Heartbeat   time.Duration // between two renewals of the lease
	Patience    time.Duration // that writes take, with those that are tried again, until Stuck tells of it, a Heartbeat late at most; they go on all the same
	RunBytes    int           // events of one run that wait for a commit
	Bytes       int           // of all runs
	BatchEvents int           // events of one commit
	BatchBytes  int

	Live func() int // how many runs are at work
	// Queued is how many runs are QUEUED, as it was when the last batch was shown.
	Queued func(project, user string) model.InQueue
	Show   func(batch []*Item) // is given what was committed, before those are told who wait for it
	Lost   func(err error)     // is called once when nothing can be written any more

	Committed func(events int, took time.Duration) // is told of each transaction; nil for nobody
}

// Queue is the one writer of this process: it takes what waits, commits it in one transaction, then has it shown. Batches
// form by themselves while a commit runs.
type Queue struct {
	cfg Config

	mu       sync.Mutex // guards the fields below
	nonEmpty sync.Cond  // there are items, or due or stop is set
	space    sync.Cond  // there are fewer items, or a source was shut
	waiting  turns
	since    time.Time // when the first of the waiting items came, at the earliest
	asked    time.Time // since when the database owes an answer; zero while it does not
	due      bool      // the lease is to be renewed
	stop     bool
	failed   error         // why nothing is written any more
	troubled chan struct{} // closed while the database does not commit
	stuck    chan struct{} // closed while the database does nothing for longer than Patience

	full     atomic.Bool           // bytes has reached its bound
	draining atomic.Bool           // no item takes a run any more
	trouble  atomic.Pointer[error] // what the database answers while it does not commit; nil when all is well

	// Used by Run only.
	n     int64 // the number of the next batch
	start time.Time
	taken batch
}

// New returns a queue that is empty. Run commits what it is given.
func New(cfg Config) *Queue {
	q := &Queue{cfg: cfg, n: 1, waiting: newTurns(), troubled: make(chan struct{}), stuck: make(chan struct{})}
	q.nonEmpty.L, q.space.L = &q.mu, &q.mu
	return q
}

// Add queues an item without waiting. Item.Done is called with why it was not written once nothing is any more.
// It reports whether what the item holds was added to one that waits: then the item itself is free.
func (q *Queue) Add(it *Item) bool {
	it.size = it.Bytes
	for i := range it.Events {
		it.size += len(it.Events[i].Payload)
	}
	q.mu.Lock()
	if q.failed != nil {
		err := q.failed
		q.mu.Unlock()
		for _, done := range it.Done {
			done(err)
		}
		return false
	}
	defer q.mu.Unlock()
	if s := it.Source; s != nil {
		it.Owner = s.owner
		s.queued.Add(int64(it.size))
		if tail := s.tail; tail != nil && tail.Command == nil && it.Command == nil {
			tail.append(it)
			q.waiting.grew(tail, it.size)
			q.grew()
			return true
		}
		s.tail = it
	}
	if q.waiting.items == 0 {
		q.since = time.Now()
	}
	q.waiting.add(it)
	q.grew()
	q.nonEmpty.Signal()
	return false
}

// grew notes whether the queue is full. mu is held.
func (q *Queue) grew() { q.full.Store(q.waiting.bytes >= q.cfg.Bytes) }

// Decide queues a command and waits for its outcome, which is in it.Out. An item that was queued is decided, whoever
// waits for it.
func (q *Queue) Decide(it *Item) error {
	done := make(chan error, 1)
	it.Done = append(it.Done, func(err error) { done <- err })
	q.Add(it)
	return <-done
}

// Flush waits until what has been queued is stored.
func (q *Queue) Flush() error {
	q.mu.Lock()
	owners := maps.Clone(q.waiting.lanes)
	q.mu.Unlock()
	owners[quota.Owner{}] = nil // also behind the batch that is being committed
	stored := make(chan error, len(owners))
	for owner := range owners {
		q.Add(&Item{Owner: owner, Done: []func(error){func(err error) { stored <- err }}})
	}
	var err error
	for range cap(stored) {
		err = cmp.Or(err, <-stored)
	}
	return err
}

// take moves the next batch from the queue to taken, nothing when the lease is to be renewed. It waits for work, and so
// long that commits of many live runs do not start more often than every CommitInterval.
func (q *Queue) take() bool {
	q.mu.Lock()
	for q.waiting.items == 0 && !q.stop && !q.due {
		q.nonEmpty.Wait()
	}
	due := q.due
	q.due = false
	clear(q.taken.items)
	q.taken = batch{items: q.taken.items[:0]}
	if q.waiting.items == 0 && due {
		q.ask(time.Now())
		q.mu.Unlock()
		return true
	}
	if q.waiting.items == 0 {
		q.failed = ErrStopping
		q.mu.Unlock()
		return false
	}
	if wait := q.cfg.Interval - time.Since(q.start); wait > 0 && q.cfg.Live() > pacedAbove {
		q.mu.Unlock()
		time.Sleep(wait) //nolint:forbidigo // the pace of commits is time itself
		q.mu.Lock()
	}
	q.waiting.pick(&q.taken, &q.cfg)
	q.grew()
	q.space.Broadcast()
	q.start = time.Now()
	q.since = q.start
	q.ask(q.start)
	q.mu.Unlock()
	return true
}

// Stats is what waits for a commit.
type Stats struct {
	Items, Bytes int
	Age          time.Duration // of the oldest item, at least
}

// Stats returns what waits for a commit.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := Stats{Items: q.waiting.items, Bytes: q.waiting.bytes}
	if s.Items > 0 {
		s.Age = time.Since(q.since)
	}
	return s
}

// batchDecisions is how many decisions one commit takes. Runs that stream wait for one such commit, about 40 ms for so many
// starts; with fewer decisions a crowd that comes at once waits for more commits, each of which waits for the disk.
const batchDecisions = 256

// pacedAbove is how many live runs it takes until commits are paced: below it a linger only adds itself.
const pacedAbove = 8

// Drain has no item take a run any more, as the process stops: a run that was to begin here stays as it is.
func (q *Queue) Drain() { q.draining.Store(true) }

// GiveUp fails all that waits and will ever wait.
func (q *Queue) GiveUp(err error) {
	q.mu.Lock()
	q.failed = err
	rest := slices.Concat(q.taken.items, q.waiting.all())
	q.space.Broadcast()
	q.mu.Unlock()
	for _, it := range rest {
		for _, done := range it.Done {
			done(err)
		}
	}
	q.cfg.Lost(err)
}

// Alive reports whether anything is still written.
func (q *Queue) Alive() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failed == nil
}

// Finish lets Run end once the queue is empty.
func (q *Queue) Finish() {
	q.mu.Lock()
	q.stop = true
	q.nonEmpty.Broadcast()
	q.mu.Unlock()
}

// errSilent is the trouble with a database that neither does what it is asked nor says why.
var errSilent = fmt.Errorf("%w: it does not answer a commit", model.ErrUnavailable)

// ask notes that the database is asked for something from now on, or still is. mu is held.
func (q *Queue) ask(now time.Time) {
	if q.asked.IsZero() {
		q.asked = now
	}
}

// answered notes that the database has done what it was asked for.
func (q *Queue) answered() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asked = time.Time{}
	select {
	case <-q.stuck:
		q.stuck = make(chan struct{})
	default:
	}
	q.note(nil)
}

// look notes when the database has been asked for something longer than Patience. mu is held.
func (q *Queue) look() {
	if q.asked.IsZero() || time.Since(q.asked) < q.cfg.Patience || q.failed != nil {
		return
	}
	if q.trouble.Load() == nil {
		q.note(errSilent)
	}
	select {
	case <-q.stuck:
	default:
		close(q.stuck)
	}
}

// Stuck returns a channel that is closed once the database has done nothing for so long that who waits for the outcome of a
// decision is better told that it is not known.
func (q *Queue) Stuck() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stuck
}

// Note notes what the database answers, for readiness.
func (q *Queue) Note(err error) {
	if err == nil && q.trouble.Load() == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.note(err)
}

// note is Note. mu is held.
func (q *Queue) note(err error) {
	if err == nil {
		if q.trouble.Swap(nil) != nil {
			q.troubled = make(chan struct{})
			q.cfg.Log.Info("database commits again")
		}
		return
	}
	if q.trouble.Swap(&err) == nil {
		close(q.troubled)
		q.cfg.Log.Error("database does not commit; runs wait", "error", err)
	}
}

// Troubled returns a channel that is closed once the database does not commit: see Trouble.
func (q *Queue) Troubled() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.troubled
}

// Trouble is what the database answers while it does not commit, nil when all is well.
func (q *Queue) Trouble() error {
	if err := q.trouble.Load(); err != nil {
		return *err
	}
	return nil
}
