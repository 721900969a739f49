package commit

import (
	"sync/atomic"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/quota"
	"github.com/batonrun/baton/runtime/tail"
)

// Item is one entry of the queue: events of a run, or a command to decide.
type Item struct {
	Source *Source     // the run that a data error breaks; nil for requests about runs that are not executed here
	Thread int64       // the log of a Source's item
	Owner  quota.Owner // takes turns with other owners; zero for the server itself; set by Add if there is a Source
	Bytes  int         // about how many the command or the rows write

	Records []*tail.Record
	Events  []data.StoredEvent // of the records; a command has its own
	Rows    []data.Row

	Command decide.Command            // nil for events of a run
	Then    func(out *decide.Decided) // called once the command's changes are stored, and before readers see them
	Done    []func(err error)         // called once, after the records were shown

	Out *decide.Decided // the outcome of the command; nil before, and without one
	Err error           // why the item was not written

	size int
	no   int64 // in the order of all items

	locked   bool      // the last commit has deferred the command
	deferred int       // how often commits have deferred it
	since    time.Time // the first time
}

// deletes reports whether the item removes a thread or a run.
func (it *Item) deletes() bool {
	_, ok := it.Command.(*decide.Delete)
	return ok
}

// Empty makes an item that is free like a new one of its run's, with the capacity of its buffers.
func (it *Item) Empty() {
	clear(it.Records)
	clear(it.Events)
	clear(it.Rows)
	clear(it.Done)
	*it = Item{
		Source: it.Source, Thread: it.Thread,
		Records: it.Records[:0], Events: it.Events[:0], Rows: it.Rows[:0], Done: it.Done[:0],
	}
}

// append adds later events of its run.
func (it *Item) append(next *Item) {
	it.Records = append(it.Records, next.Records...)
	it.Events = append(it.Events, next.Events...)
	it.Rows = append(it.Rows, next.Rows...)
	it.Done = append(it.Done, next.Done...)
	it.size += next.size
}

// stay keeps the item from beginning a run here, because the runtime stops: the run stays as it is.
func (it *Item) stay() {
	switch c := it.Command.(type) {
	case *decide.Start:
		c.Claim, it.Records = nil, nil
	case *decide.Claim, *decide.TakeOver:
		it.Command, it.Then, it.Records, it.Err = nil, nil, nil, ErrStopping
	}
}

// refused records that the database refuses the item. The run's later items are lost too: ids have no gaps.
func (it *Item) refused(err error) {
	it.Err, it.Out = err, nil
	if it.Source != nil {
		it.Source.Lose()
	}
}

// Source is a run's account with the queue: how many bytes wait for a commit, and whether more are accepted.
type Source struct {
	q      *Queue
	owner  quota.Owner
	broken func(err error)
	queued atomic.Int64 // bytes of events that wait for a commit
	shut   atomic.Bool
	lost   atomic.Bool
	tail   *Item // the run's last item in the queue; guarded by Queue.mu
}

// Source returns the account of a run of an owner. Run calls broken when the database has refused events of the run.
func (q *Queue) Source(of quota.Owner, broken func(err error)) *Source {
	return &Source{q: q, owner: of, broken: broken}
}

// Room waits until the queue has room for one more of the run's events, or the source is shut. An event that is larger
// than the bound passes when none of the run's is waiting.
func (s *Source) Room() {
	q := s.q
	limit := int64(q.cfg.RunBytes)
	if n := s.queued.Load(); n == 0 || n < limit && !q.full.Load() {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for !s.shut.Load() && q.failed == nil {
		if n := s.queued.Load(); n == 0 || n < limit && !q.waiting.full(s.owner, q.cfg.Bytes) {
			return
		}
		q.hurry()
		q.space.Wait()
	}
}

// Shut ends all waiting for room, now and later.
func (s *Source) Shut() {
	s.shut.Store(true)
	s.q.mu.Lock()
	s.q.space.Broadcast()
	s.q.mu.Unlock()
}

// Lose stops the writing of the run's events: an earlier one could not be stored, and ids have no gaps.
func (s *Source) Lose() { s.lost.Store(true) }

// Lost reports whether the database has refused an event of the run: nothing behind it is written.
func (s *Source) Lost() bool { return s.lost.Load() }
