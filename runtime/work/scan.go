package work

import (
	"container/list"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/quota"
)

// scan is one pass over all lines. A run that finds no room in a pool blocks the later runs that need the same pool, so that
// a large run is not overtaken for ever.
type scan struct {
	queue              *runQueue
	admit              admitter
	has                map[offered]bool // whether this instance offers an agent in a project
	slots, asked, said blocked
	agents             map[string]bool // workflows without a free slot for a run that comes first
	ahead              int             // how many more runs may be weighed
	weigh              []*need
	full               []int64 // threads, see runQueue.noRoom
}

// offered is an agent in a project.
type offered struct{ project, agent string }

// offers reports whether this instance has a run's agent, or what its workflow needs.
func (s *scan) offers(run *data.RunHead) bool {
	if s.queue.offers == nil {
		return true
	}
	if run.Agent == "" {
		return s.queue.offers(run)
	}
	of := offered{run.Project, run.Agent}
	has, asked := s.has[of]
	if !asked { // thousands of runs may wait for one agent
		if s.has == nil {
			s.has = make(map[offered]bool)
		}
		has = s.queue.offers(run)
		s.has[of] = has
	}
	return has
}

// note blocks the later runs that need what a run lacks.
func (s *scan) note(run *data.RunHead, lacks shortage) {
	user := data.Name{Project: run.Project, User: run.User}
	s.slots.note(lacks.slot, user)
	s.asked.note(lacks.asked, user)
	s.said.note(lacks.said, user)
	if lacks.agent {
		if s.agents == nil {
			s.agents = make(map[string]bool)
		}
		s.agents[run.WorkflowID] = true
	}
}

// blocked is the set of users that get nothing from a pool: all, the users of a project (a name without User), or single
// users.
type blocked struct {
	all   bool
	names map[data.Name]bool
}

// full returns the limit that is full for a user, or None.
func (b *blocked) full(user data.Name) quota.Scope {
	switch {
	case b.names[user]:
		return quota.User
	case b.names[data.Name{Project: user.Project}]:
		return quota.Project
	case b.all:
		return quota.Total
	}
	return quota.None
}

// note blocks the users that share the limit that is full for a run of a user.
func (b *blocked) note(full quota.Scope, user data.Name) {
	if b.names == nil && full != quota.None {
		b.names = make(map[data.Name]bool)
	}
	switch full {
	case quota.User:
		b.names[user] = true
	case quota.Project:
		b.names[data.Name{Project: user.Project}] = true
	case quota.Total:
		b.all = true
	}
}

// lineCursor is the position of a scan in a line.
type lineCursor struct {
	line      *line
	at        *list.Element
	unweighed bool // a run is not weighed yet, and the later ones wait for it
}

// next returns the next need of the line that can be served now, or nil.
func (c *lineCursor) next(s *scan) *need {
	for c.at != nil {
		n := c.at.Value.(*need)
		c.at = c.at.Next()
		if n.Do != data.ToClaim || c.admits(s, n) {
			return n
		}
		if n.lacks != (shortage{}) && !n.hinted {
			n.hinted, s.full = true, append(s.full, n.Run.ThreadKey)
		}
	}
	return nil
}

// admits reports whether a run can be claimed, and reserves for it. Otherwise it notes what the run lacks.
func (c *lineCursor) admits(s *scan, n *need) bool {
	user, w := c.line.user, n.weight
	n.lacks = shortage{agent: s.agents[n.Run.WorkflowID], slot: s.slots.full(user)}
	if w.Asked > 0 {
		n.lacks.asked = s.asked.full(user)
	}
	if w.Said > 0 {
		n.lacks.said = s.said.full(user)
	}
	n.foreign = !s.offers(&n.Run)
	if !n.weighed && !n.foreign { // whoever has the agent weighs it
		if !n.weighing && s.ahead > 0 {
			n.weighing = true
			s.ahead--
			s.weigh = append(s.weigh, n)
		}
		c.unweighed = true
		return false
	}
	if c.unweighed || n.lacks != (shortage{}) {
		return false
	}
	if n.foreign {
		n.lacks.slot = s.queue.capped(user)
		n.lacks.absent = n.lacks.slot == quota.None
		return false
	}
	n.reserved, n.lacks = s.admit(&n.Run, w)
	if lacks := n.lacks; n.reserved == nil {
		lacks.agent = false // other runs do not wait for its agent's slots
		s.note(&n.Run, lacks)
	}
	return n.reserved != nil
}
