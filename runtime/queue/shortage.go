package queue

import (
	"cmp"
	"maps"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/quota"
)

// shortage is the reason why a run cannot begin here: its agent has no free slot, or a pool has reached a limit. The zero
// shortage is none.
type shortage struct {
	absent            bool // this instance does not offer the agent: another one begins the run
	agent             bool
	slot, asked, said quota.Scope
}

// reason returns the Reason of a Wait, empty for the zero shortage.
func (s shortage) reason() string {
	if s.agent {
		return "agent_limit"
	}
	switch cmp.Or(s.slot, s.asked, s.said) {
	case quota.User:
		return "user_limit"
	case quota.Project:
		return "project_limit"
	case quota.Total:
		return "server_limit"
	}
	return ""
}

// shortages are those of runs that come first. The later runs that need the same wait behind them, so that a large run is not overtaken
// for ever.
type shortages struct {
	slots, asked, said blocked
	agents             map[string]bool // workflows without a free slot
}

// note adds the shortage of a run.
func (s *shortages) note(run *data.RunHead, lacks shortage) {
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

// clone returns shortages to which more can be noted.
func (s *shortages) clone() shortages {
	return shortages{slots: s.slots.clone(), asked: s.asked.clone(), said: s.said.clone(), agents: maps.Clone(s.agents)}
}

// of returns the shortage of a run because others come first.
func (s *shortages) of(run *data.RunHead, w data.Weight) shortage {
	user := data.Name{Project: run.Project, User: run.User}
	lacks := shortage{agent: s.agents[run.WorkflowID], slot: s.slots.full(user)}
	if w.Asked > 0 {
		lacks.asked = s.asked.full(user)
	}
	if w.Said > 0 {
		lacks.said = s.said.full(user)
	}
	return lacks
}

// any reports whether a run lacks anything.
func (s *shortages) any() bool {
	return len(s.agents) > 0 || s.slots.any() || s.asked.any() || s.said.any()
}

// blocked is the set of users that get nothing from a pool: all, the users of a project (a name without User), or single
// users.
type blocked struct {
	all   bool
	names map[data.Name]bool
}

func (b *blocked) clone() blocked { return blocked{b.all, maps.Clone(b.names)} }

func (b *blocked) any() bool { return b.all || len(b.names) > 0 }

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
