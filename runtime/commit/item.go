package commit

import (
	"sync/atomic"

	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/log"
	"github.com/batonrun/baton/runtime/model"
	"github.com/batonrun/baton/runtime/monitor"
	"github.com/batonrun/baton/runtime/quota"
)

// Item is one entry of the queue: what a run has said, or a command to be decided.
type Item struct {
	Source *Source      // whose failure a data error is; nil for requests about runs that nobody executes here
	Thread int64        // whose log a Source's item is for
	Run    *monitor.Run // whose records and ticks they are
	Owner  quota.Owner  // takes turns with others; zero for the server itself, and that of Source if there is one
	Bytes  int          // that the command or the rows write, about

	Records []*log.Record
	Events  []model.StoredEvent // of the records; a command has them in itself
	Ticks   []monitor.Tick
	Rows    []model.Row

	Command decide.Command            // nil for what a run has said
	Then    func(out *decide.Decided) // called once the command's changes are stored, and before readers see them
	Takes   bool                      // this instance executes the run once the command is decided, and
	Began   []monitor.Execution       // what of it goes on
	Done    []func(err error)         // called once, after the records were shown

	Out *decide.Decided // what the command has come to; nil before, and where there is none
	Err error           // why the item was not written

	size int
	no   int64 // in the order of all items
}

// deletes reports whether the item removes a thread or a run.
func (it *Item) deletes() bool {
	_, ok := it.Command.(*decide.Delete)
	return ok
}

// Empty makes an item that is free like a new one of its run's, with room for what it held.
func (it *Item) Empty() {
	clear(it.Records)
	clear(it.Events)
	clear(it.Rows)
	clear(it.Done)
	*it = Item{
		Source: it.Source, Thread: it.Thread, Run: it.Run,
		Records: it.Records[:0], Events: it.Events[:0], Ticks: it.Ticks[:0], Rows: it.Rows[:0], Done: it.Done[:0],
	}
}

// append adds what its run has said later.
func (it *Item) append(next *Item) {
	for _, t := range next.Ticks {
		t.At += len(it.Records)
		it.Ticks = append(it.Ticks, t)
	}
	it.Records = append(it.Records, next.Records...)
	it.Events = append(it.Events, next.Events...)
	it.Rows = append(it.Rows, next.Rows...)
	it.Done = append(it.Done, next.Done...)
	it.size += next.size
}

// stay keeps a run that the item would begin here as it is: the runtime stops.
func (it *Item) stay() {
	if !it.Takes {
		return
	}
	it.Takes, it.Records, it.Ticks = false, nil, nil
	if start, ok := it.Command.(*decide.Start); ok {
		start.Claim = nil
		return
	}
	it.Command, it.Then, it.Err = nil, nil, ErrStopping
}

// refused notes that the database does not take what the item holds. What the run has queued behind it is lost
// too: ids have no gaps.
func (it *Item) refused(err error) {
	it.Err, it.Out = err, nil
	if it.Source != nil {
		it.Source.Lose()
	}
}

// Source is a run's account with the queue: what of it waits for a commit, and whether more is taken.
type Source struct {
	q      *Queue
	owner  quota.Owner
	broken func(err error)
	queued atomic.Int64 // bytes of events that wait for a commit
	shut   atomic.Bool
	lost   atomic.Bool
	tail   *Item // the run's last item in the queue; guarded by Queue.mu
}

// Source returns the account of a run of an owner. broken is called, by Run, when the database has refused what the run has said.
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
		q.space.Wait()
	}
}

// Shut has nobody wait for room any more.
func (s *Source) Shut() {
	s.shut.Store(true)
	s.q.mu.Lock()
	s.q.space.Broadcast()
	s.q.mu.Unlock()
}

// Lose has nothing be written any more that the run has said: something before it could not be stored, and ids have no gaps.
func (s *Source) Lose() { s.lost.Store(true) }

// Lost reports whether the database has refused what the run has said: nothing behind it is written.
func (s *Source) Lost() bool { return s.lost.Load() }
