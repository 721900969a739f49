package work

import (
	"container/list"
	"sync"
	"time"

	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/model"
)

// slots counts the runs that may execute at once: in the process, and of one agent, project and user.
type slots struct {
	cfg *Config
	own func(agent string) int // an agent's own cap, 0 for none

	mu    sync.Mutex // guards the fields below
	total int
	by    map[slotKey]int
}

type slotKey struct{ kind, name string }

func newSlots(cfg *Config, own func(agent string) int) *slots {
	return &slots{cfg: cfg, own: own, by: make(map[slotKey]int)}
}

func (s *slots) keys(r *model.RunHead) [3]struct {
	key slotKey
	cap int
} {
	return [3]struct {
		key slotKey
		cap int
	}{
		{slotKey{"agent", r.WorkflowID}, lower(s.cfg.RunsPerAgent, s.own(r.Agent))},
		{slotKey{"project", r.Project}, s.cfg.RunsPerProject},
		{slotKey{"user", r.Project + "\x00" + r.User}, s.cfg.RunsPerUser},
	}
}

// lower returns the lower of two caps, of which 0 is none.
func lower(a, b int) int {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// concurrency is an agent's own cap.
func (en *Engine) concurrency(agent string) int {
	a, ok := en.Plugins().Agent(agent)
	if !ok {
		return 0
	}
	return a.Info().Concurrency
}

// take takes a slot for r, if there is one.
func (s *slots) take(r *model.RunHead) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total >= s.cfg.Runs {
		return false
	}
	keys := s.keys(r)
	for _, k := range keys {
		if k.cap > 0 && s.by[k.key] >= k.cap {
			return false
		}
	}
	s.add(r, 1)
	return true
}

// force takes a slot even when there is none, for runs that were running before a restart.
func (s *slots) force(r *model.RunHead) {
	s.mu.Lock()
	s.add(r, 1)
	s.mu.Unlock()
}

func (s *slots) free(r *model.RunHead) {
	s.mu.Lock()
	s.add(r, -1)
	s.mu.Unlock()
}

func (s *slots) add(r *model.RunHead, n int) {
	s.total += n
	for _, k := range s.keys(r) {
		if s.by[k.key] += n; s.by[k.key] == 0 {
			delete(s.by, k.key)
		}
	}
}

// runQueue knows which threads need something so that their runs go on. The database decides; the queue only
// remembers what the last decision about each thread has seen.
type runQueue struct {
	signal chan struct{} // has a value when the dispatcher should look

	mu     sync.Mutex // guards the fields below
	order  *list.List // of decide.Next, in the order they came
	needs  map[int64]*list.Element
	counts map[int64]int      // QUEUED runs by thread
	queued int                // their sum
	asking map[int64]struct{} // threads with a run that is WAITING
}

func newRunQueue() *runQueue {
	return &runQueue{
		signal: make(chan struct{}, 1), order: list.New(),
		needs: make(map[int64]*list.Element), counts: make(map[int64]int), asking: make(map[int64]struct{}),
	}
}

// set notes what a decision has left of its thread.
func (q *runQueue) set(out *decide.Decided) {
	queued, asks := 0, false
	for i := range out.Open {
		switch out.Open[i].Status {
		case model.Queued:
			queued++
		case model.Waiting:
			asks = true
		}
	}
	key := out.Thread
	q.mu.Lock()
	q.queued += queued - q.counts[key]
	if queued == 0 {
		delete(q.counts, key)
	} else {
		q.counts[key] = queued
	}
	q.asks(key, asks)
	e := q.needs[key]
	switch {
	case out.Next.Do == decide.Rest && e != nil:
		q.order.Remove(e)
		delete(q.needs, key)
	case out.Next.Do != decide.Rest && e != nil:
		e.Value = out.Next
	case out.Next.Do != decide.Rest:
		q.needs[key] = q.order.PushBack(out.Next)
	}
	q.mu.Unlock()
	q.nudge()
}

// asks notes whether a thread has a run that is WAITING. q.mu is held.
func (q *runQueue) asks(threadKey int64, yes bool) {
	if yes {
		q.asking[threadKey] = struct{}{}
	} else {
		delete(q.asking, threadKey)
	}
}

// found notes that a thread has a run that is WAITING.
func (q *runQueue) found(threadKey int64) {
	q.mu.Lock()
	q.asks(threadKey, true)
	q.mu.Unlock()
}

// stats returns how many runs are QUEUED and WAITING, and for how long the first of those that wait for a slot has.
func (q *runQueue) stats(now time.Time) (queued, waiting int, oldest time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for e := q.order.Front(); e != nil; e = e.Next() {
		if n := e.Value.(decide.Next); n.Do == decide.ToClaim {
			oldest = max(oldest, now.Sub(n.Run.QueuedAt))
		}
	}
	return q.queued, len(q.asking), oldest
}

// nudge makes the dispatcher look.
func (q *runQueue) nudge() {
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

// depth returns how many runs are QUEUED.
func (q *runQueue) depth() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.queued
}

// waits reports whether a run of the thread is QUEUED.
func (q *runQueue) waits(threadKey int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.counts[threadKey] > 0
}

// ready removes and returns what can be done now: claims for which admit has a slot, and all else.
func (q *runQueue) ready(admit func(*model.RunHead) bool) []decide.Next {
	q.mu.Lock()
	defer q.mu.Unlock()
	var list []decide.Next
	for e := q.order.Front(); e != nil; {
		next, n := e.Next(), e.Value.(decide.Next)
		if n.Do != decide.ToClaim || admit(&n.Run) {
			list = append(list, n)
			q.order.Remove(e)
			delete(q.needs, n.Run.ThreadKey)
		}
		e = next
	}
	return list
}
