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
		{ofProject(r.Project), s.cfg.RunsPerProject},
		{ofUser(r.Project, r.User), s.cfg.RunsPerUser},
	}
}

func ofProject(project string) slotKey    { return slotKey{"project", project} }
func ofUser(project, user string) slotKey { return slotKey{"user", project + "\x00" + user} }

// of returns how many slots a user and its project have taken.
func (s *slots) of(project, user string) (users, projects int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.by[ofUser(project, user)], s.by[ofProject(project)]
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

// left is how many slots the process has left.
func (s *slots) left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg.Runs - s.total
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
	turns  *list.List // of *line: whose turn it is to have a run claimed comes first
	lines  map[model.Name]*line
	needs  map[int64]place
	counts map[int64]inQueue  // QUEUED runs by thread
	queued int                // their sum
	theirs map[model.Name]int // their sums by user, and by project: a name without a user
	asking map[int64]struct{} // threads with a run that is WAITING
}

// line is what the threads of one user need, a decide.Next each, in the order they came. However many there are, the users
// have their turns one after the other.
type line struct {
	user  model.Name
	turn  *list.Element // of turns
	needs *list.List
}

// inQueue is how many QUEUED runs a thread has, and whose they are.
type inQueue struct {
	n    int
	user model.Name
}

// place is where in a line a thread stands.
type place struct {
	line *line
	at   *list.Element
}

func newRunQueue() *runQueue {
	return &runQueue{
		signal: make(chan struct{}, 1), turns: list.New(), lines: make(map[model.Name]*line),
		needs: make(map[int64]place), counts: make(map[int64]inQueue), theirs: make(map[model.Name]int), asking: make(map[int64]struct{}),
	}
}

// set notes what a decision has left of its thread.
func (q *runQueue) set(out *decide.Decided) {
	queued, asks := inQueue{}, false
	for i := range out.Open {
		switch out.Open[i].Status {
		case model.Queued:
			queued.n++
			queued.user = model.Name{Project: out.Open[i].Project, User: out.Open[i].User}
		case model.Waiting:
			asks = true
		}
	}
	key := out.Thread
	q.mu.Lock()
	q.count(q.counts[key], -1)
	q.count(queued, 1)
	if queued.n == 0 {
		delete(q.counts, key)
	} else {
		q.counts[key] = queued
	}
	q.asks(key, asks)
	p, stands := q.needs[key]
	switch {
	case out.Next.Do == decide.Rest && stands:
		q.leave(key, p)
	case out.Next.Do != decide.Rest && stands:
		p.at.Value = out.Next
	case out.Next.Do != decide.Rest:
		q.stand(key, out.Next)
	}
	q.mu.Unlock()
	q.nudge()
}

// count adds a thread's QUEUED runs to the sums, or takes them out. The caller holds mu.
func (q *runQueue) count(in inQueue, sign int) {
	if in.n == 0 {
		return
	}
	q.queued += sign * in.n
	for _, of := range [2]model.Name{in.user, {Project: in.user.Project}} {
		if q.theirs[of] += sign * in.n; q.theirs[of] == 0 {
			delete(q.theirs, of)
		}
	}
}

// of returns how many runs of a user, and of its project, are QUEUED.
func (q *runQueue) of(project, user string) (users, projects int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.theirs[model.Name{Project: project, User: user}], q.theirs[model.Name{Project: project}]
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
	for _, p := range q.needs {
		if n := p.at.Value.(decide.Next); n.Do == decide.ToClaim {
			oldest = max(oldest, now.Sub(n.Run.QueuedAt))
		}
	}
	return q.queued, len(q.asking), oldest
}

// stand has a thread stand in its user's line. The caller holds mu.
func (q *runQueue) stand(thread int64, n decide.Next) {
	user := model.Name{Project: n.Run.Project, User: n.Run.User}
	l := q.lines[user]
	if l == nil {
		l = &line{user: user, needs: list.New()}
		l.turn = q.turns.PushBack(l)
		q.lines[user] = l
	}
	q.needs[thread] = place{l, l.needs.PushBack(n)}
}

// leave has a thread leave its line, which ends with it when it was the last. The caller holds mu.
func (q *runQueue) leave(thread int64, p place) {
	p.line.needs.Remove(p.at)
	delete(q.needs, thread)
	if p.line.needs.Len() == 0 {
		q.turns.Remove(p.line.turn)
		delete(q.lines, p.line.user)
	}
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

// users returns how many users have threads in their lines.
func (q *runQueue) users() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.turns.Len()
}

// waits reports whether a run of the thread is QUEUED.
func (q *runQueue) waits(threadKey int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.counts[threadKey].n > 0
}

// ready removes and returns what can be done now: claims for which admit has a slot, one of each user in turn, and all else.
func (q *runQueue) ready(admit func(*model.RunHead) bool) (done []decide.Next) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var tries []*try
	for e := q.turns.Front(); e != nil; e = e.Next() {
		l := e.Value.(*line)
		tries = append(tries, &try{l, l.needs.Front()})
	}
	for len(tries) > 0 {
		var again []*try
		for _, t := range tries {
			n, more := t.next(admit)
			if !more {
				continue
			}
			done = append(done, n)
			q.turns.MoveToBack(t.line.turn) // before its line may end
			q.leave(n.Run.ThreadKey, q.needs[n.Run.ThreadKey])
			again = append(again, t)
		}
		tries = again
	}
	return done
}

// try is how far a line was looked at.
type try struct {
	line *line
	at   *list.Element
}

// next returns the first of what is left of the line that can be done now.
func (t *try) next(admit func(*model.RunHead) bool) (decide.Next, bool) {
	for t.at != nil {
		n := t.at.Value.(decide.Next)
		t.at = t.at.Next()
		if n.Do != decide.ToClaim || admit(&n.Run) {
			return n, true
		}
	}
	return decide.Next{}, false
}
