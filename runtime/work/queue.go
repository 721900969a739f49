package work

import (
	"container/list"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/quota"
)

// runQueue holds the threads that need a claim or a cancellation. The database decides; the queue only remembers the last
// decision about each thread.
type runQueue struct {
	signal chan struct{}               // has a value when the dispatcher should scan
	offers func(*data.RunHead) bool    // in a cluster: whether this instance has the run's agent; else nil
	capped func(data.Name) quota.Scope // in a cluster: see [admission.cappedScope]

	mu     sync.Mutex // guards the fields below
	turns  *list.List // of *line: the first line is the next to have a run claimed
	lines  map[data.Name]*line
	needs  map[int64]place
	counts map[int64]inQueue  // threads with QUEUED runs
	queued int                // their sum
	theirs map[data.Name]int  // sums by user, and by project: a name without a user
	asking map[int64]struct{} // threads with a run that is WAITING

	all   map[data.Name]int // in a cluster: how many runs are QUEUED, as counted last, by user, by project and in all
	since map[data.Name]int // what this instance has added since that count began

	elsewhere []elsewhere        // for slots that become free here
	roomless  map[int64]roomless // runs by key, which get room before those in line

	cancelling map[int64]bool // threads of which a run is being cancelled, and whether a decision meanwhile has asked for that, too

	weighing int     // runs being weighed
	full     []int64 // see noRoom
}

// need is the next action for a thread. A run is weighed before it is claimed.
type need struct {
	decide.Next
	weighing, weighed bool
	weight            data.Weight
	reserved          *reservation // set once the run is to be claimed
	lacks             shortage     // why it was not at the last scan
	foreign           bool         // this instance does not have its agent, as of the last scan
	hinted            bool         // other servers got the hint that this one has no room for it
	left              time.Time    // when a place was left last to the servers that can execute it
}

// line holds the needs of one user's threads, a *need each, in the order of their arrival. Users have their turns one after
// the other, whatever the length of their lines.
type line struct {
	user  data.Name
	turn  *list.Element // of turns
	needs *list.List
}

// inQueue is a thread with n QUEUED runs of a user.
type inQueue struct {
	n    int
	user data.Name
	open []openRun // in the order in which they execute
}

// openRun is a run that has not ended.
type openRun struct {
	key  int64
	name string
}

// place is the position of a thread in a line.
type place struct {
	line *line
	at   *list.Element
}

func newRunQueue() *runQueue {
	return &runQueue{
		signal: make(chan struct{}, 1), turns: list.New(), lines: make(map[data.Name]*line),
		needs: make(map[int64]place), counts: make(map[int64]inQueue), theirs: make(map[data.Name]int), asking: make(map[int64]struct{}),
		cancelling: make(map[int64]bool),
	}
}

// set records the result of a decision about a thread.
func (q *runQueue) set(out *decide.Decided) {
	queued, asks := inQueue{}, false
	for i := range out.Open {
		queued.open = append(queued.open, openRun{out.Open[i].Key, out.Open[i].ID})
		switch out.Open[i].Status {
		case data.Queued:
			queued.n++
			queued.user = data.Name{Project: out.Open[i].Project, User: out.Open[i].User}
		case data.Waiting:
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
	if q.all != nil {
		q.follow(out.Moves)
	}
	q.asks(key, asks)
	next := out.Next
	if _, is := q.cancelling[key]; is && next.Do == data.ToCancel { // the owner of a run elsewhere may take a while
		q.cancelling[key], next.Do = true, data.NoTodo
	}
	p, stands := q.needs[key]
	switch {
	case next.Do == data.NoTodo && stands:
		q.leave(key, p)
	case next.Do != data.NoTodo && stands:
		was := p.at.Value.(*need)
		now := &need{Next: next, hinted: out.Hinted} // the next run may have another weight
		if was.Run.Key == next.Run.Key {
			now.hinted, now.left = was.hinted, was.left
		}
		p.at.Value = now
	case next.Do != data.NoTodo:
		q.stand(key, &need{Next: next, hinted: out.Hinted})
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
	for _, of := range [2]data.Name{in.user, {Project: in.user.Project}} {
		if q.theirs[of] += sign * in.n; q.theirs[of] == 0 {
			delete(q.theirs, of)
		}
	}
}

// follow adds the moves of a decision to the changes since the last count. The caller holds mu.
func (q *runQueue) follow(moves []decide.Move) {
	for i := range moves {
		by, run := 0, &moves[i].Run
		if moves[i].To == data.Queued {
			by++
		}
		if moves[i].From == data.Queued {
			by--
		}
		for _, of := range [3]data.Name{{}, {Project: run.Project}, {Project: run.Project, User: run.User}} {
			q.since[of] += by
		}
	}
}

// recount sets the numbers of QUEUED runs of all instances, which count reads. What this instance decides meanwhile may count twice
// until the next recount.
func (q *runQueue) recount(count func() (map[data.Name]int, error)) error {
	q.mu.Lock()
	before := maps.Clone(q.since)
	q.mu.Unlock()
	all, err := count()
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	since := make(map[data.Name]int)
	for of, n := range q.since {
		if n -= before[of]; n != 0 {
			since[of] = n
		}
	}
	q.all, q.since = all, since
	return nil
}

// of returns how many runs are QUEUED: of all, of a project, and of a user in it.
func (q *runQueue) of(project, user string) data.InQueue {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.all != nil {
		n := func(of data.Name) int { return max(0, q.all[of]+q.since[of]) }
		return data.InQueue{All: n(data.Name{}), OfProject: n(data.Name{Project: project}), OfUser: n(data.Name{Project: project, User: user})}
	}
	return data.InQueue{All: q.queued, OfProject: q.theirs[data.Name{Project: project}], OfUser: q.theirs[data.Name{Project: project, User: user}]}
}

// asks records whether a thread has a WAITING run. q.mu is held.
func (q *runQueue) asks(threadKey int64, yes bool) {
	if yes {
		q.asking[threadKey] = struct{}{}
	} else {
		delete(q.asking, threadKey)
	}
}

// found records that a thread has a WAITING run.
func (q *runQueue) found(threadKey int64) {
	q.mu.Lock()
	q.asks(threadKey, true)
	q.mu.Unlock()
}

// stats returns how many runs are QUEUED and WAITING, and how long the first run that may begin here has been queued.
func (q *runQueue) stats(now time.Time) (queued, waiting int, oldest time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range q.needs {
		if n := p.at.Value.(*need); n.Do == data.ToClaim && !n.foreign {
			oldest = max(oldest, now.Sub(n.Run.QueuedAt))
		}
	}
	return q.queued, len(q.asking), oldest
}

// stand adds a thread to its user's line. The caller holds mu.
func (q *runQueue) stand(thread int64, n *need) {
	user := data.Name{Project: n.Run.Project, User: n.Run.User}
	l := q.lines[user]
	if l == nil {
		l = &line{user: user, needs: list.New()}
		l.turn = q.turns.PushBack(l)
		q.lines[user] = l
	}
	q.needs[thread] = place{l, l.needs.PushBack(n)}
}

// leave removes a thread from its line, and an empty line from the queue. The caller holds mu.
func (q *runQueue) leave(thread int64, p place) {
	p.line.needs.Remove(p.at)
	delete(q.needs, thread)
	if p.line.needs.Len() == 0 {
		q.turns.Remove(p.line.turn)
		delete(q.lines, p.line.user)
	}
}

// nudge makes the dispatcher scan.
func (q *runQueue) nudge() {
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

// users returns the number of users with threads in their lines.
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

// serves reports whether the queue is about to claim or cancel a run of the thread. It is not if the run lacks more than a slot: it may
// have begun or ended elsewhere since, and the thread's next run may be able to begin.
func (q *runQueue) serves(threadKey int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.servesNow(threadKey)
}

// servesNow is serves. The caller holds mu.
func (q *runQueue) servesNow(threadKey int64) bool {
	p, ok := q.needs[threadKey]
	if !ok {
		return false
	}
	lacks := p.at.Value.(*need).lacks
	return lacks == shortage{slot: lacks.slot}
}

// awaits reports whether the queue is about to cancel a run of the thread, or to claim one of these runs.
func (q *runQueue) awaits(threadKey int64, runs []data.RunHead) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	p, ok := q.needs[threadKey]
	if !ok {
		return false
	}
	n := p.at.Value.(*need)
	return n.Do == data.ToCancel || slices.ContainsFunc(runs, func(r data.RunHead) bool { return r.Key == n.Run.Key })
}

// leavesTo reports whether the first run of a user is one of these: of the user with this name, or of any of the project. It leaves out
// runs for which it has said so in the last seconds: others did not take them.
func (q *runQueue) leavesTo(of data.Name, these func(*data.RunHead) bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for user, l := range q.lines {
		if n := l.needs.Front().Value.(*need); (user == of || of.User == "" && user.Project == of.Project) && time.Since(n.left) > leftEach && these(&n.Run) {
			n.left = time.Now()
			return true
		}
	}
	return false
}

// leftEach is how often a place is left to other servers for one run, at most.
const leftEach = 5 * time.Second

// threads returns the threads with QUEUED runs.
func (q *runQueue) threads() map[int64]bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	keys := make(map[int64]bool, len(q.counts))
	for key := range q.counts {
		keys[key] = true
	}
	return keys
}

// admitter reserves a slot and bytes for the claim of a run, or returns the shortage.
type admitter func(*data.RunHead, data.Weight) (*reservation, shortage)

// ready removes and returns the needs that can be served now: claims that admit has reserved for, one of each user in turn,
// and all cancellations. It also returns up to ahead runs that must be weighed before they can be admitted.
func (q *runQueue) ready(admit admitter, ahead int) (done, weigh []*need) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := scan{queue: q, admit: admit, ahead: ahead - q.weighing}
	for _, r := range q.roomless {
		s.note(&r.run, r.lacks)
	}
	var cursors []*lineCursor
	for e := q.turns.Front(); e != nil; e = e.Next() {
		l := e.Value.(*line)
		cursors = append(cursors, &lineCursor{line: l, at: l.needs.Front()})
	}
	for len(cursors) > 0 {
		var again []*lineCursor
		for _, c := range cursors {
			n := c.next(&s)
			if n == nil {
				continue
			}
			done = append(done, n)
			if n.Do == data.ToCancel {
				q.cancelling[n.Run.ThreadKey] = false
			}
			q.turns.MoveToBack(c.line.turn) // before its line may end
			q.leave(n.Run.ThreadKey, q.needs[n.Run.ThreadKey])
			again = append(again, c)
		}
		cursors = again
	}
	q.weighing += len(s.weigh)
	q.full = s.full
	return done, s.weigh
}

// cancelled ends the cancellation of a thread's run that ready has returned. It reports whether the thread has asked for one meanwhile.
func (q *runQueue) cancelled(thread int64) (again bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	again = q.cancelling[thread]
	delete(q.cancelling, thread)
	return again
}

// noRoom returns the threads that the last scan, and none before, had no room for.
func (q *runQueue) noRoom() []int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.full
}

// roomless is a run of an ended instance that this instance cannot take over yet: it has no room.
type roomless struct {
	run    data.RunHead
	weight data.Weight // as far as it is known
	lacks  shortage    // what is missing
}

// keepRoom gives the next room to these runs before those in line. They replace those of before.
func (q *runQueue) keepRoom(runs []roomless) {
	kept := make(map[int64]roomless, len(runs))
	for i := range runs {
		kept[runs[i].run.Key] = runs[i]
	}
	q.mu.Lock()
	had := len(q.roomless) > 0
	q.roomless = kept
	q.mu.Unlock()
	if had {
		q.nudge()
	}
}

// weighed adds to a run of an ended instance the weight that keepRoom has.
func (q *runQueue) weighed(run *data.RunHead) roomless {
	q.mu.Lock()
	defer q.mu.Unlock()
	return roomless{run: *run, weight: q.roomless[run.Key].weight}
}

// hasRoom reports whether a run for which room is kept lacks nothing now. Otherwise it updates the shortages, which block the runs in line.
func (q *runQueue) hasRoom(lacks func(*data.RunHead, data.Weight) shortage) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for key, r := range q.roomless {
		if r.lacks = lacks(&r.run, r.weight); r.lacks == (shortage{}) {
			return true
		}
		q.roomless[key] = r
	}
	return false
}

// keepsRoom reports whether such a run waits.
func (q *runQueue) keepsRoom() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.roomless) > 0
}

// mostElsewhere is how many threads of runs that others have queued are remembered.
const mostElsewhere = 1000

// elsewhere is a thread with a run that another instance has queued.
type elsewhere struct {
	thread int64
	user   data.Name // empty if it is not known
}

// foundElsewhere remembers a thread until a slot becomes free here.
func (q *runQueue) foundElsewhere(f elsewhere) {
	q.mu.Lock()
	defer q.mu.Unlock()
	same := func(o elsewhere) bool { return o.thread == f.thread }
	if !q.servesNow(f.thread) && len(q.elsewhere) < mostElsewhere && !slices.ContainsFunc(q.elsewhere, same) {
		q.elsewhere = append(q.elsewhere, f)
	}
}

// takeElsewhere removes and returns up to so many of these threads, less as many as wait here to be weighed. It forgets those of capped
// users.
func (q *runQueue) takeElsewhere(free int, capped func(data.Name) bool) []elsewhere {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := max(free-q.weighing, 0)
	if n == 0 {
		return nil
	}
	q.elsewhere = slices.DeleteFunc(q.elsewhere, func(f elsewhere) bool { return capped(f.user) })
	n = min(n, len(q.elsewhere))
	taken := slices.Clone(q.elsewhere[:n])
	q.elsewhere = slices.Delete(q.elsewhere, 0, n)
	return taken
}

// weighs sets the weight of a run that ready has returned to be weighed.
func (q *runQueue) weighs(n *need, weight data.Weight) {
	q.mu.Lock()
	n.weight, n.weighing, n.weighed = weight, false, true
	q.weighing--
	q.mu.Unlock()
	q.nudge()
}

// QueuedOf returns how many runs are QUEUED: of all, of a project, and of a user in it.
func (d *dispatcher) QueuedOf(project, user string) data.InQueue { return d.queue.of(project, user) }
