package queue

import (
	"slices"

	"github.com/batonrun/baton/runtime/data"
)

// A look at the queue reads the heads of its lanes, and chooses rows for the free slots: of one project after the other, and in each of
// one user after the other, that user's first row that can begin. A lane in which nothing can begin costs one row, however long it is.

const (
	// rowsAtOnce is how many rows are read with one statement, at most.
	rowsAtOnce = 32
	// readAtOnce is how many rows a look reads that it does not take. The next look goes on behind them.
	readAtOnce = 256
	// passedAtOnce is how many rows of a lane a look passes. Those behind them wait.
	passedAtOnce = 32
	// lastName is behind the names of all workflows.
	lastName = "\U0010FFFF"
	// mostTurns is how many projects are remembered. Another project begins with its first user.
	mostTurns = 10_000
)

// verdict is the answer about a row that a look has come to.
type verdict int

const (
	takes         verdict = iota // it is served, and its user's turn is over
	passed                       // it cannot begin; the next row of its lane may
	closesLane                   // no row of its lane can begin,
	closesUser                   // nor any other of its user,
	closesProject                // nor of its project,
	closesAll                    // nor any at all
)

// turns has the project that was served last, and in each project the user. The next in the order of the names comes first.
type turns struct {
	project string
	users   map[string]string // by project
}

func newTurns() turns { return turns{users: make(map[string]string)} }

func (t *turns) serve(project, user string) {
	if len(t.users) >= mostTurns {
		clear(t.users)
	}
	t.project, t.users[project] = project, user
}

// choice is one look's choice of rows.
type choice struct {
	turns *turns
	line  func(after data.Place, each data.Each, limit int) ([]data.Place, error)
	admit func(*data.Place) verdict
	most  int // rows that may still be taken
	reads int // rows that may still be read

	closed bool
	cut    bool // rows behind passed ones were not read
	err    error
}

// run takes rows. It reports whether there may be more that can begin: it has taken, or read, as many as it may.
func (c *choice) run() (more bool, err error) {
	var round []*projectLine
	last, seen := c.turns.project, ""
	projects := c.ring(data.EachProject, data.Place{Project: last}, data.Place{}, func(p *data.Place) bool { return p.Project > last })
	for head := projects.next(); head != nil && !c.over(); head = projects.next() {
		p := c.project(head.Project)
		if p.serve() {
			round = append(round, p)
		}
		if c.reads > 0 {
			seen = head.Project
		}
	}
	if c.reads <= 0 && seen != "" {
		c.turns.project = seen // the next look goes on behind it
	}
	for len(round) > 0 && !c.over() {
		round = slices.DeleteFunc(round, func(p *projectLine) bool { return !p.serve() })
	}
	return !c.closed && (c.most <= 0 || c.reads <= 0), c.err
}

// ended reports whether the look takes no other row, and over whether it reads none either.
func (c *choice) ended() bool { return c.err != nil || c.closed || c.most <= 0 }

func (c *choice) over() bool { return c.ended() || c.reads <= 0 }

// pages reads rows behind a place, more at once from time to time.
type pages struct {
	c     *choice
	each  data.Each
	after data.Place
	rows  []data.Place
	size  int
	past  int // rows that were passed
	ended bool
}

// peek returns the next row, which stays, or nil.
func (p *pages) peek() *data.Place {
	if c := p.c; len(p.rows) == 0 && !p.ended && !c.over() {
		p.size = min(2*p.size+2, rowsAtOnce)
		p.rows, c.err = c.line(p.after, p.each, p.size)
		c.reads -= len(p.rows)
		p.ended = len(p.rows) < p.size
	}
	if len(p.rows) == 0 {
		return nil
	}
	return &p.rows[0]
}

func (p *pages) pop() { p.after, p.rows = p.rows[0], p.rows[1:] }

// ring has the heads of all projects, or of a project's lanes: those behind a place, then those up to it.
type ring struct {
	now, then *pages
	ends      func(*data.Place) bool
}

func (c *choice) ring(each data.Each, from, start data.Place, ends func(*data.Place) bool) *ring {
	r := &ring{&pages{c: c, each: each, after: from}, &pages{c: c, each: each, after: start}, ends}
	if from == start {
		r.then, r.ends = nil, func(*data.Place) bool { return false }
	}
	return r
}

// peek returns the next head, which stays, or nil.
func (r *ring) peek() *data.Place {
	head := r.now.peek()
	if head == nil && r.then != nil {
		r.now, r.then = r.then, nil
		head = r.now.peek()
	}
	if head != nil && r.then == nil && r.ends(head) {
		return nil
	}
	return head
}

// next returns the next head, or nil.
func (r *ring) next() *data.Place {
	head := r.peek()
	if head != nil {
		r.now.pop()
	}
	return head
}

// projectLine is a project's users, in turn.
type projectLine struct {
	c      *choice
	name   string
	lanes  *ring       // of the users that have had no turn in this look
	served []*userLine // the others that may be served again
	closed bool
}

// project begins behind the user that was served last.
func (c *choice) project(name string) *projectLine {
	start := data.Place{Project: name}
	from, last := start, c.turns.users[name]
	if last != "" {
		from.User, from.Workflow = last, lastName
	}
	return &projectLine{c: c, name: name, lanes: c.ring(data.EachLane, from, start, func(p *data.Place) bool { return p.User > last })}
}

// serve takes a row of the user whose turn it is. It reports false if no row of the project can begin.
func (p *projectLine) serve() bool {
	for !p.closed && !p.c.over() {
		u := p.next()
		if u == nil {
			return false
		}
		served := u.serve(p)
		if served || p.c.reads <= 0 { // the next look goes on behind it
			p.c.turns.serve(p.name, u.name)
		}
		if served {
			p.served = append(p.served, u)
			return true
		}
	}
	return false
}

// next returns the user whose turn it is, or nil.
func (p *projectLine) next() *userLine {
	head := p.lanes.peek()
	if head == nil {
		if len(p.served) == 0 {
			return nil
		}
		u := p.served[0]
		p.served = p.served[1:]
		return u
	}
	u := &userLine{name: head.User}
	for ; head != nil && head.User == u.name; head = p.lanes.peek() {
		u.lanes = append(u.lanes, &pages{c: p.c, each: data.EachRow, rows: []data.Place{*head}})
		_ = p.lanes.next()
	}
	return u
}

// userLine is a user's lanes.
type userLine struct {
	name  string
	lanes []*pages
}

// serve takes the user's first row that can begin. It reports false if there is none.
func (u *userLine) serve(p *projectLine) bool {
	for c, n := p.c, 0; !c.ended() && (n == 0 || c.reads > 0); n++ { // one at least
		l := u.first()
		if l == nil {
			return false
		}
		switch c.admit(&l.rows[0]) {
		case takes:
			l.pop()
			c.most--
			return true
		case passed:
			l.pop()
			if l.past++; l.past == passedAtOnce {
				l.rows, l.ended, c.cut = nil, true, true
			}
		case closesLane:
			l.rows, l.ended = nil, true
		case closesUser:
			u.lanes = nil
		case closesProject:
			p.closed = true
		case closesAll:
			c.closed = true
		}
		if p.closed {
			return false
		}
	}
	return false
}

// first returns the lane whose head is first, or nil.
func (u *userLine) first() (first *pages) {
	for _, l := range u.lanes {
		if head := l.peek(); head != nil && (first == nil || head.Compare(&first.rows[0]) < 0) {
			first = l
		}
	}
	return first
}
