// Package commit writes everything that this process writes, in one order: a queue takes the events of runs and the commands
// about them, and commits waiting items together in one transaction, so that they share its cost. Package decide decides the
// commands inside the transaction. Access to the events is not the concern of this package. It guarantees that nothing is
// shown before it is stored, nothing is written twice, and faulty data of one run affects no other.
package commit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/quota"
)

// ErrStopping is the error of a write that comes too late: the process stops.
var ErrStopping = data.Refuse(data.KindUnavailable, "stopping", "The server is stopping; try again shortly")

// Unwritten reports whether a command was refused, or could not be written by this instance: its data is not at fault.
func Unwritten(err error) bool {
	_, refused := errors.AsType[*data.Error](err)
	return refused || errors.Is(err, data.ErrFenced) || errors.Is(err, data.ErrUnavailable) || errors.Is(err, data.ErrDiskFull) ||
		errors.Is(err, data.ErrTooSlow) || errors.Is(err, data.ErrConflict) || errors.Is(err, context.Canceled)
}

// Store is the database of a queue: see [data.Store].
type Store interface {
	Commit(ctx context.Context, n int64, b *data.Batch) error
}

// Lease is the lease of the instance that commits: see [data.Members].
type Lease interface {
	Renew(ctx context.Context, n int64) error
	KeepLease(ctx context.Context) error
}

// Config configures a Queue. All fields must be set, except Committed.
type Config struct {
	Store Store
	Lease Lease
	Log   *slog.Logger

	Gather      time.Duration // between the start of a commit and the next one, if nobody waits for what that writes
	Interval    time.Duration // between the starts of two commits above 8 live runs
	Heartbeat   time.Duration // between two renewals of the lease
	Patience    time.Duration // duration of a write with its repetitions until Stuck reports it, a Heartbeat late at most; the write goes on
	RunBytes    int           // events of one run that wait for a commit
	Bytes       int           // of all runs
	BatchEvents int           // events of one commit
	BatchBytes  int

	Live func() int // how many runs are live
	// Queued returns how many runs are QUEUED, as of the last shown batch.
	Queued func(project, user string) data.InQueue
	Show   func(batch []*Item) // receives committed items, before their Done is called
	Lost   func(err error)     // is called once when nothing can be written any more

	Committed func(events int, took time.Duration) // called after each successful transaction; may be nil
}

// Queue is the only writer of this process: it commits waiting items in one transaction, then shows them. Batches form by
// themselves while a commit runs.
type Queue struct {
	cfg Config

	mu       sync.Mutex // guards the fields below
	nonEmpty sync.Cond  // there are items, or due, stop or urgent is set, or none is deferred any more
	space    sync.Cond  // there are fewer items, or a source was shut
	waiting  turns
	since    time.Time // when the first of the waiting items came, at the earliest
	asked    time.Time // since when the database owes an answer; zero while it owes none
	due      bool      // the lease is to be renewed
	urgent   bool      // somebody waits for an item, or for room
	stop     bool
	deferred map[*Item]*time.Timer // return to waiting when their timers end
	failed   error                 // the reason why nothing is written any more
	troubled chan struct{}         // closed while the database does not commit
	loggedAt time.Time             // when the trouble was last logged
	stuck    chan struct{}         // closed while the database has done nothing for longer than Patience

	full     atomic.Bool           // bytes has reached its bound
	draining atomic.Bool           // no item takes a run any more
	trouble  atomic.Pointer[error] // the database's error while it does not commit; nil when all is well

	// Used by Run only.
	n     int64 // the number of the next batch
	start time.Time
	taken batch
}

// New returns an empty queue. Run commits its items.
func New(cfg Config) *Queue {
	q := &Queue{
		cfg: cfg, n: 1, waiting: newTurns(), deferred: make(map[*Item]*time.Timer), troubled: make(chan struct{}), stuck: make(chan struct{}),
	}
	q.nonEmpty.L, q.space.L = &q.mu, &q.mu
	return q
}

// Add queues an item without waiting. It calls Item.Done with the error once nothing is written any more. It reports true
// when it has added the contents to a waiting item: the caller may then reuse the item.
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
	if it.Command != nil || len(it.Done) > 0 {
		q.hurry()
	}
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
		q.nonEmpty.Signal()
	}
	q.waiting.add(it)
	q.grew()
	return false
}

// hurry has the waiting items committed at once. mu is held.
func (q *Queue) hurry() {
	q.urgent = true
	q.nonEmpty.Signal()
}

// grew notes whether the queue is full, and whether a batch is. mu is held.
func (q *Queue) grew() {
	q.full.Store(q.waiting.bytes >= q.cfg.Bytes)
	if q.waiting.bytes >= q.cfg.BatchBytes {
		q.hurry()
	}
}

// Decide queues a command and waits for its outcome, which is in it.Out. A queued item is decided, whether or not its caller
// still waits.
func (q *Queue) Decide(it *Item) error {
	done := make(chan error, 1)
	it.Done = append(it.Done, func(err error) { done <- err })
	q.Add(it)
	return <-done
}

// Flush waits until everything queued so far is stored.
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

// take moves the next batch from the queue to taken, an empty one when the lease is to be renewed. It waits for work, and
// paces the commits.
func (q *Queue) take() bool {
	q.mu.Lock()
	for q.waiting.items == 0 && (!q.stop || len(q.deferred) > 0) && !q.due {
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
	q.gather()
	if wait := q.cfg.Interval - time.Since(q.start); wait > 0 && q.cfg.Live() > pacedAbove {
		q.mu.Unlock()
		time.Sleep(wait) //nolint:forbidigo // the pace of commits is time itself
		q.mu.Lock()
	}
	q.waiting.pick(&q.taken, &q.cfg)
	q.urgent = q.waiting.items > 0 // the rest
	q.grew()
	q.space.Broadcast()
	q.start = time.Now()
	q.since = q.start
	q.ask(q.start)
	q.mu.Unlock()
	return true
}

// gather waits for more items until somebody waits for one, so that the events of a burst, and the last ones of a run with
// its end, share a commit. mu is held.
func (q *Queue) gather() {
	wait := q.cfg.Gather - time.Since(q.start)
	if wait <= 0 || q.urgent || q.stop {
		return
	}
	over := false
	timer := time.AfterFunc(wait, func() {
		q.mu.Lock()
		over = true
		q.nonEmpty.Signal()
		q.mu.Unlock()
	})
	defer timer.Stop()
	for !over && !q.urgent && !q.stop {
		q.nonEmpty.Wait()
	}
}

// Stats describes the items that wait for a commit.
type Stats struct {
	Items, Bytes int
	Age          time.Duration // of the oldest item, at least
}

// Stats describes the items that wait for a commit now.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := Stats{Items: q.waiting.items, Bytes: q.waiting.bytes}
	if s.Items > 0 {
		s.Age = time.Since(q.since)
	}
	return s
}

// batchDecisions is the maximum number of decisions in one commit. Streaming runs wait for one such commit, about 40 ms for
// so many starts. With fewer decisions a crowd of requests waits for more commits, each of which waits for the disk.
const batchDecisions = 256

// pacedAbove is the number of live runs above which commits are paced: below it a pause only adds delay.
const pacedAbove = 8

// Drain lets no later item begin a run here, because the process stops: such a run stays as it is.
func (q *Queue) Drain() { q.draining.Store(true) }

// GiveUp fails all waiting and all later items.
func (q *Queue) GiveUp(err error) {
	q.mu.Lock()
	q.failed = err
	rest := slices.Concat(q.taken.items, q.waiting.all(), slices.Collect(maps.Keys(q.deferred)))
	for _, timer := range q.deferred {
		timer.Stop()
	}
	clear(q.deferred)
	q.space.Broadcast()
	q.mu.Unlock()
	for _, it := range rest {
		for _, done := range it.Done {
			done(err)
		}
	}
	q.cfg.Lost(err)
}

// Alive reports whether the queue still writes.
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

// errSilent is the error of a database that neither does its work nor returns an error.
var errSilent = fmt.Errorf("%w: it does not answer a commit", data.ErrUnavailable)

// ask records that the database owes an answer from now on, or still does. mu is held.
func (q *Queue) ask(now time.Time) {
	if q.asked.IsZero() {
		q.asked = now
	}
}

// answered records that the database has done its work.
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

// look records trouble when the database has owed an answer for longer than Patience. mu is held.
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

// errUnknown answers a request whose decision the database neither stores nor refuses. The decision still waits to be
// written, and takes effect if it is.
var errUnknown = &data.Error{
	Kind: data.KindUnavailable, Code: "outcome_unknown", RetryAfter: 5 * time.Second,
	Detail: "The database does not answer, so whether this was done is not known; ask again with the same Idempotency-Key or runId, or look",
}

// Unknown returns the error of a request that does not wait for a stuck database any longer.
func (q *Queue) Unknown() error {
	if trouble := q.Trouble(); errors.Is(trouble, data.ErrDamaged) {
		return data.Unavailable(trouble)
	}
	return errUnknown
}

// Stuck returns a channel that is closed once the database has done nothing for longer than Patience. Requests that wait for
// a decision then fail with Unknown.
func (q *Queue) Stuck() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stuck
}

// Note records the database's error, for readiness.
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
		q.loggedAt = time.Time{}
	}
	if now := time.Now(); now.Sub(q.loggedAt) >= time.Minute {
		q.loggedAt = now
		help := "baton doctor checks the database and its disk"
		switch {
		case errors.Is(err, data.ErrDamaged):
			help = "stop the server and restore a backup"
		case errors.Is(err, data.ErrMissing):
			help = "put the file back while the server runs, or stop the server and restore a backup"
		}
		q.cfg.Log.Error("database does not commit; runs wait", "error", err, "help", help)
	}
}

// Troubled returns a channel that is closed once the database does not commit: see Trouble.
func (q *Queue) Troubled() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.troubled
}

// Trouble returns the database's error while it does not commit, nil when all is well.
func (q *Queue) Trouble() error {
	if err := q.trouble.Load(); err != nil {
		return *err
	}
	return nil
}
