package runtime

import (
	"container/list"
	"sync"
)

// slots counts the runs that may execute at once: in the process, and of one agent, project and user.
type slots struct {
	cfg *Config

	mu    sync.Mutex // guards the fields below
	total int
	by    map[slotKey]int
}

type slotKey struct{ kind, name string }

func newSlots(cfg *Config) *slots { return &slots{cfg: cfg, by: make(map[slotKey]int)} }

func (s *slots) keys(r *Run) [3]struct {
	key slotKey
	cap int
} {
	return [3]struct {
		key slotKey
		cap int
	}{
		{slotKey{"agent", r.WorkflowID}, s.cfg.RunsPerAgent},
		{slotKey{"project", r.Project}, s.cfg.RunsPerProject},
		{slotKey{"user", r.Project + "\x00" + r.User}, s.cfg.RunsPerUser},
	}
}

// take takes a slot for r, if there is one.
func (s *slots) take(r *Run) bool {
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
func (s *slots) force(r *Run) {
	s.mu.Lock()
	s.add(r, 1)
	s.mu.Unlock()
}

func (s *slots) free(r *Run) {
	s.mu.Lock()
	s.add(r, -1)
	s.mu.Unlock()
}

func (s *slots) add(r *Run, n int) {
	s.total += n
	for _, k := range s.keys(r) {
		if s.by[k.key] += n; s.by[k.key] == 0 {
			delete(s.by, k.key)
		}
	}
}

// runQueue knows which threads have a run that could be claimed. The database decides; the queue only
// remembers what the last decision about each thread has seen.
type runQueue struct {
	signal chan struct{} // has a value when the dispatcher should look

	mu     sync.Mutex // guards the fields below
	order  *list.List // of Run: the head of each thread that may be claimed, in the order they came
	heads  map[int64]*list.Element
	counts map[int64]int // QUEUED runs by thread
	queued int           // their sum
}

func newRunQueue() *runQueue {
	return &runQueue{
		signal: make(chan struct{}, 1), order: list.New(),
		heads: make(map[int64]*list.Element), counts: make(map[int64]int),
	}
}

// set notes the open runs of a thread, in the order they will be claimed.
func (q *runQueue) set(threadKey int64, open []Run) {
	var head *Run
	queued, running := 0, false
	for i := range open {
		switch open[i].Status {
		case Running:
			running = true
		case Queued:
			queued++
			if head == nil {
				head = &open[i]
			}
		}
	}
	q.mu.Lock()
	q.queued += queued - q.counts[threadKey]
	if queued == 0 {
		delete(q.counts, threadKey)
	} else {
		q.counts[threadKey] = queued
	}
	if running {
		head = nil
	}
	e := q.heads[threadKey]
	switch {
	case head == nil && e != nil:
		q.order.Remove(e)
		delete(q.heads, threadKey)
	case head != nil && e != nil:
		e.Value = *head
	case head != nil:
		q.heads[threadKey] = q.order.PushBack(*head)
	}
	q.mu.Unlock()
	q.nudge()
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

// claimable removes and returns the heads for which admit has a slot.
func (q *runQueue) claimable(admit func(*Run) bool) []Run {
	q.mu.Lock()
	defer q.mu.Unlock()
	var heads []Run
	for e := q.order.Front(); e != nil; {
		next := e.Next()
		run := e.Value.(Run)
		if admit(&run) {
			heads = append(heads, run)
			q.order.Remove(e)
			delete(q.heads, run.ThreadKey)
		}
		e = next
	}
	return heads
}
