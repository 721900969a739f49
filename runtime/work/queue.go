package work

import (
	"container/list"
	"sync"
	"time"

	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/model"
)

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

	weighing int // runs that are weighed now
}

// need is what a thread needs. A run that is to be claimed is weighed before.
type need struct {
	decide.Next
	weighing, weighed bool
	weight            model.Weight
	passed            int64 // the weight of others that have been claimed since this run was the first without room
}

// line is what the threads of one user need, a *need each, in the order they came. However many there are, the users
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
		before := p.at.Value.(*need)
		now := &need{Next: out.Next} // which may weigh something else
		if before.Run.Key == now.Run.Key {
			now.passed = before.passed
		}
		p.at.Value = now
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

// of returns how many runs are QUEUED: of all, of a project, and of a user in it.
func (q *runQueue) of(project, user string) model.InQueue {
	q.mu.Lock()
	defer q.mu.Unlock()
	return model.InQueue{All: q.queued, OfProject: q.theirs[model.Name{Project: project}], OfUser: q.theirs[model.Name{Project: project, User: user}]}
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
		if n := p.at.Value.(*need); n.Do == decide.ToClaim {
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
	q.needs[thread] = place{l, l.needs.PushBack(&need{Next: n})}
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

// standing tells which of runs, given with their threads, are still to be claimed.
func (q *runQueue) standing(runs map[int64]int64) map[int64]bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	still := make(map[int64]bool, len(runs))
	for run, thread := range runs {
		if p, ok := q.needs[thread]; ok {
			n := p.at.Value.(*need)
			still[run] = n.Do == decide.ToClaim && n.Run.Key == run
		}
	}
	return still
}

// nudge makes the dispatcher look.
func (q *runQueue) nudge() {
	select {
	case q.signal <- struct{}{}:
	default:
	}
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
// Of the runs that it cannot tell of it returns up to ahead that are to be weighed.
func (q *runQueue) ready(admit func(*model.RunHead, model.Weight) fit, room int64, ahead int) (done, weigh []*need) {
	q.mu.Lock()
	defer q.mu.Unlock()
	look := look{admit: admit, room: room, ahead: ahead - q.weighing}
	var tries []*try
	for e := q.turns.Front(); e != nil; e = e.Next() {
		l := e.Value.(*line)
		tries = append(tries, &try{line: l, at: l.needs.Front()})
	}
	for len(tries) > 0 {
		var again []*try
		for _, t := range tries {
			n := t.next(&look)
			if n == nil {
				continue
			}
			done = append(done, n)
			q.turns.MoveToBack(t.line.turn) // before its line may end
			q.leave(n.Run.ThreadKey, q.needs[n.Run.ThreadKey])
			again = append(again, t)
		}
		tries = again
	}
	q.weighing += len(look.weigh)
	return done, look.weigh
}

// weighs notes what a run that ready gave to be weighed weighs.
func (q *runQueue) weighs(n *need, weight model.Weight) {
	q.mu.Lock()
	n.weight, n.weighing, n.weighed = weight, false, true
	q.weighing--
	q.mu.Unlock()
	q.nudge()
}

// look is one look at all that stands in the queue.
type look struct {
	admit func(*model.RunHead, model.Weight) fit
	room  int64 // that there is for all weights together
	first *need // the first run for which there is no room
	ahead int   // how many runs may still be weighed
	weigh []*need
}

// try is how far a line was looked at.
type try struct {
	line    *line
	at      *list.Element
	unknown bool // a run of the line is not weighed yet, and those behind it come behind it
	heavy   bool // a run of the line has no room, nor have those with a weight behind it
}

// next returns the first of what is left of the line that can be done now, nil when nothing can.
func (t *try) next(l *look) *need {
	for t.at != nil {
		n := t.at.Value.(*need)
		t.at = t.at.Next()
		if n.Do != decide.ToClaim || t.admits(l, n) {
			return n
		}
	}
	return nil
}

// admits reports whether a run can be claimed. Runs without a weight wait for nobody's. Those that have one pass the first that
// has no room until they weigh as much together as there is room for; then they wait for it. None waits for a run that has no
// room for what it has said.
func (t *try) admits(l *look, n *need) bool {
	switch {
	case !n.weighed:
		if !n.weighing && l.ahead > 0 {
			n.weighing = true
			l.ahead--
			l.weigh = append(l.weigh, n)
		}
		t.unknown = true
		return false
	case t.unknown:
		return false
	case n.weight.Asked > 0 && t.heavy:
		return false
	case n.weight.Asked > 0 && l.first != nil && l.first.passed+n.weight.Asked > l.room:
		t.heavy = true
		return false
	}
	switch l.admit(&n.Run, n.weight) {
	case fits:
		if l.first != nil {
			l.first.passed += n.weight.Asked
		}
		return true
	case sated:
		t.heavy = true
	case crowded:
		t.heavy = true
		if l.first == nil {
			l.first = n
		}
	}
	return false
}
