// Package quota shares a number of units, such as runs, streams or bytes, between users and projects. It knows neither what
// a unit is nor what a refusal says: its callers do.
package quota

import (
	"container/list"
	"context"
	"sync"
)

// Owner is who holds units. A User that is the same in two projects has one share in both: see OwnerOf. The zero Owner is
// nobody, whom the total alone limits.
type Owner struct{ Project, User string }

// OwnerOf returns a user of a project as an Owner, another than the user of that name in another project.
func OwnerOf(project, user string) Owner { return Owner{project, project + "\x00" + user} }

// Limits bound how many units are held at a time: in all, of one project and of one user. A limit of 0 is no limit. A limit
// may be exceeded by one reservation that is alone below it: the only one of its user, its project or the pool.
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

// Pool is a number of units. Its methods may be called by any number of goroutines.
type Pool struct {
	limits Limits

	mu        sync.Mutex // guards the fields below
	used      int64
	byProject map[string]int64
	byUser    map[string]int64
	turns     *list.List // of *line: the users with waiters, in the order of their turns
	lines     map[string]*list.Element
}

// line is the waiters of one user, the first to be served first.
type line struct {
	user    string
	waiters []*waiter
}

// waiter is a reservation that waits to grow by n units.
type waiter struct {
	r       *Reservation
	n       int64
	granted chan struct{} // closed once it has them
}

// New returns a pool of which nothing is held.
func New(limits Limits) *Pool {
	return &Pool{
		limits: limits, byProject: make(map[string]int64), byUser: make(map[string]int64),
		turns: list.New(), lines: make(map[string]*list.Element),
	}
}

// Limits returns the pool's limits.
func (p *Pool) Limits() Limits { return p.limits }

// Used is how many units a user, its project and all together hold.
type Used struct{ User, Project, Total int64 }

// Used returns how many units are held. Nothing of a nil pool is.
func (p *Pool) Used(o Owner) Used {
	if p == nil {
		return Used{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return Used{p.byUser[o.User], p.byProject[o.Project], p.used}
}

// Reservation is a number of units that an owner holds. Release it.
type Reservation struct {
	pool  *Pool
	owner Owner
	held  int64 // guarded by pool.mu
}

// Reserve returns a reservation of no units yet. A nil pool's reservations have no limit.
func (p *Pool) Reserve(o Owner) *Reservation { return &Reservation{pool: p, owner: o} }

// Try reserves n units, or returns the first limit that has no room for them. It overtakes nobody who waits in Take.
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

// Take waits until n units can be reserved, or fails with the cause of ctx's end. Waiters of one user are served in order,
// users in turn. The waiter whose turn it is holds up the others only if the whole pool is full, and those of its project if
// the project's share is: a large reservation is not overtaken for ever by small ones.
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
	case <-w.granted: // meanwhile
		return r, nil
	default:
	}
	p.dequeue(w)
	p.serve()
	return r, context.Cause(ctx)
}

// Grow adds n units, or returns the first limit that has no room for them. It does not wait for those who wait in Take: they
// may wait for what r holds.
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

// Force adds n units, which may be negative, whatever the limits are: for what is held already, or not any more.
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

// Release gives back all that is held. It may be called more than once, and for a nil reservation.
func (r *Reservation) Release() {
	if r == nil || r.pool == nil {
		return
	}
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	r.add(-r.held)
	r.pool.serve()
}

// full returns the first limit that has no room for n units more. The caller holds the pool's mu.
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

// add counts n units, which may be negative. The caller holds the pool's mu.
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

// enqueue puts a waiter behind its user's others. The caller holds mu.
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

// dequeue removes a waiter that gives up. The caller holds mu.
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

// serve grants what waiters can have, one of each user in turn. The caller holds mu.
func (p *Pool) serve() {
	for p.serveOne() {
	}
}

// serveOne grants the first waiter in turn that there is room for.
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
