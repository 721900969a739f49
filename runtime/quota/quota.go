// Package quota shares units such as runs, streams or bytes between users and projects. It does not know the kind of
// unit, and its callers word the refusals.
package quota

import (
	"container/list"
	"context"
	"sync"
)

// Owner holds units. Use OwnerOf, so that users of one name in two projects have separate shares. Only the total limits
// the zero Owner.
type Owner struct{ Project, User string }

// OwnerOf returns the Owner of a user of a project.
func OwnerOf(project, user string) Owner { return Owner{project, project + "\x00" + user} }

// Limits bound the held units: of the pool, of a project and of a user. 0 is no limit. A single reservation may exceed
// a limit if its user, project or pool has no other one.
type Limits struct {
	Total, PerProject, PerUser int64

	// Small is the size up to which reservations may use the last eighth of Total; 0 gives it to all.
	Small int64
}

// Scope names a limit of a pool.
type Scope uint8

// The limits of a pool. None is the zero Scope.
const (
	None Scope = iota
	User
	Project
	Total
)

// Pool is a number of units to reserve. It is safe for concurrent use.
type Pool struct {
	mu        sync.Mutex // guards the fields below
	limits    Limits
	used      int64
	byProject map[string]int64
	byUser    map[string]int64
	turns     *list.List // of *line: users with waiters, in turn
	lines     map[string]*list.Element
}

// line is the FIFO queue of one user's waiters.
type line struct {
	user    string
	waiters []*waiter
}

// waiter is a reservation that waits to grow by n units.
type waiter struct {
	r       *Reservation
	n       int64
	granted chan struct{} // closed once the units are reserved
}

// New returns a pool without reservations.
func New(limits Limits) *Pool {
	return &Pool{
		limits: limits, byProject: make(map[string]int64), byUser: make(map[string]int64),
		turns: list.New(), lines: make(map[string]*list.Element),
	}
}

// Limits returns the pool's limits.
func (p *Pool) Limits() Limits {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limits
}

// SetLimits changes the limits. Reservations stay as they are.
func (p *Pool) SetLimits(limits Limits) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits = limits
	p.serve()
}

// Used is the number of units held by a user, its project and the pool.
type Used struct{ User, Project, Total int64 }

// Used returns the held units. A nil pool has none.
func (p *Pool) Used(o Owner) Used {
	if p == nil {
		return Used{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return Used{p.byUser[o.User], p.byProject[o.Project], p.used}
}

// Reservation is units held by an owner. Release it.
type Reservation struct {
	pool  *Pool
	owner Owner
	held  int64 // guarded by pool.mu
}

// Reserve returns an empty reservation. A nil pool has no limits.
func (p *Pool) Reserve(o Owner) *Reservation { return &Reservation{pool: p, owner: o} }

// Try reserves n units, or returns the first limit that is full. It does not overtake waiters in Take.
func (p *Pool) Try(o Owner, n int64) (*Reservation, Scope) {
	r := p.Reserve(o)
	if p == nil {
		return r, None
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if full := r.full(n); full != None {
		return r, full
	}
	if p.turns.Len() == 0 {
		r.add(n)
		return r, None
	}
	w := &waiter{r: r, n: n, granted: make(chan struct{})}
	p.enqueue(w)
	p.serve()
	select {
	case <-w.granted:
		return r, None
	default:
		p.dequeue(w)
		return r, Total
	}
}

// Full returns the first limit without room for n more units of an owner, or None. It reserves nothing, and ignores waiters.
func (p *Pool) Full(o Owner, n int64) Scope {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Reserve(o).full(n)
}

// Take waits until it can reserve n units, or fails with ctx's cause. Each user's waiters are served in order, and
// users in turn. A waiter whose turn it is blocks the others only if the whole pool is full, and those of its project
// if the project's share is full. Small reservations therefore cannot overtake a large one for ever.
func (p *Pool) Take(ctx context.Context, o Owner, n int64) (*Reservation, error) {
	r := p.Reserve(o)
	if p == nil {
		return r, nil
	}
	w := &waiter{r: r, n: n, granted: make(chan struct{})}
	p.mu.Lock()
	p.enqueue(w)
	p.serve()
	p.mu.Unlock()
	select {
	case <-w.granted:
		return r, nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-w.granted:
		return r, nil
	default:
	}
	p.dequeue(w)
	p.serve()
	return r, context.Cause(ctx)
}

// Grow adds n units, or returns the first limit that is full. It overtakes waiters in Take, because they may wait for
// r's own units.
func (r *Reservation) Grow(n int64) Scope {
	if r.pool == nil {
		return None
	}
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	full := r.full(n)
	if full == None {
		r.add(n)
	}
	return full
}

// Force adds n units, which may be negative, regardless of limits. It accounts for units that are already in use or
// given back.
func (r *Reservation) Force(n int64) {
	if r == nil || r.pool == nil {
		return
	}
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	r.add(n)
	r.pool.serve()
}

// Held returns how many units the reservation holds. A nil reservation holds none.
func (r *Reservation) Held() int64 {
	if r == nil || r.pool == nil {
		return 0
	}
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	return r.held
}

// Release gives back all units. It may be called more than once and on a nil reservation.
func (r *Reservation) Release() {
	if r == nil || r.pool == nil {
		return
	}
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	r.add(-r.held)
	r.pool.serve()
}

// full returns the first limit without room for n more units. The caller holds the pool's mu.
func (r *Reservation) full(n int64) Scope {
	p := r.pool
	over := func(used, limit int64) bool { return limit > 0 && used > r.held && used+n > limit }
	total := p.limits.Total
	if p.limits.Small > 0 && r.held+n > p.limits.Small {
		total -= total / 8
	}
	switch {
	case over(p.byUser[r.owner.User], p.limits.PerUser):
		return User
	case over(p.byProject[r.owner.Project], p.limits.PerProject):
		return Project
	case over(p.used, total):
		return Total
	}
	return None
}

// add adds n units, which may be negative. The caller holds the pool's mu.
func (r *Reservation) add(n int64) {
	p := r.pool
	r.held += n
	p.used += n
	count(p.byProject, r.owner.Project, n)
	count(p.byUser, r.owner.User, n)
}

func count(by map[string]int64, key string, n int64) {
	if key == "" {
		return
	}
	if by[key] += n; by[key] == 0 {
		delete(by, key)
	}
}

// enqueue adds a waiter to its user's line. The caller holds mu.
func (p *Pool) enqueue(w *waiter) {
	user := w.r.owner.User
	e := p.lines[user]
	if e == nil {
		e = p.turns.PushBack(&line{user: user})
		p.lines[user] = e
	}
	l := e.Value.(*line)
	l.waiters = append(l.waiters, w)
}

// dequeue removes a waiter. The caller holds mu.
func (p *Pool) dequeue(w *waiter) {
	e := p.lines[w.r.owner.User]
	l := e.Value.(*line)
	for i := range l.waiters {
		if l.waiters[i] == w {
			l.waiters = append(l.waiters[:i:i], l.waiters[i+1:]...)
			break
		}
	}
	p.endIfEmpty(e)
}

func (p *Pool) endIfEmpty(e *list.Element) {
	if l := e.Value.(*line); len(l.waiters) == 0 {
		p.turns.Remove(e)
		delete(p.lines, l.user)
	}
}

// serve grants all waiters with room, one of each user in turn. The caller holds mu.
func (p *Pool) serve() {
	for p.serveOne() {
	}
}

// serveOne grants the first waiter in turn that has room.
func (p *Pool) serveOne() bool {
	var fullProjects map[string]bool
	for e := p.turns.Front(); e != nil; e = e.Next() {
		l := e.Value.(*line)
		w := l.waiters[0]
		project := w.r.owner.Project
		if fullProjects[project] {
			continue
		}
		switch w.r.full(w.n) {
		case None:
			w.r.add(w.n)
			close(w.granted)
			l.waiters = l.waiters[1:]
			p.turns.MoveToBack(e)
			p.endIfEmpty(e)
			return true
		case Project:
			if fullProjects == nil {
				fullProjects = make(map[string]bool)
			}
			fullProjects[project] = true
		case Total:
			return false
		}
	}
	return false
}
