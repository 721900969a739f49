package work

import (
	"sync"

	"github.com/batonrun/baton/runtime/model"
)

// slots counts the runs that may execute at once: in the process, and of one agent, project and user. And it weighs them: what
// they were asked is in memory for as long as they execute.
type slots struct {
	cfg *Config
	own func(agent string) int // an agent's own cap, 0 for none

	mu     sync.Mutex // guards the fields below
	total  int
	by     map[slotKey]int
	weight int64             // of all runs that have a slot
	theirs map[slotKey]int64 // of those of a user
}

type slotKey struct{ kind, name string }

func newSlots(cfg *Config, own func(agent string) int) *slots {
	return &slots{cfg: cfg, own: own, by: make(map[slotKey]int), theirs: make(map[slotKey]int64)}
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

// weighs is what all runs that have a slot are asked together, those with little apart.
func (s *slots) weighs() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.weight
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

// fit says whether a run can begin.
type fit uint8

const (
	full    fit = iota // there is no slot
	sated              // its user has as much of the room as one may have
	crowded            // there is no room for what it weighs
	hushed             // there is no room for what it has said
	fits
)

// take takes a slot for r, and room for what it weighs, if there are both. A run has room, whatever it weighs, when no other
// that is at work weighs anything.
func (s *slots) take(r *model.RunHead, weight int64) fit {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total >= s.cfg.Runs {
		return full
	}
	for _, k := range s.keys(r) {
		if k.cap > 0 && s.by[k.key] >= k.cap {
			return full
		}
	}
	within := func(used, most int64) bool { return weight == 0 || used == 0 || most <= 0 || used+weight <= most }
	switch {
	case !within(s.theirs[ofUser(r.Project, r.User)], s.cfg.BytesPerUser):
		return sated
	case !within(s.weight, s.cfg.Bytes):
		return crowded
	}
	s.add(r, 1, weight)
	return fits
}

// left is how many slots the process has left.
func (s *slots) left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg.Runs - s.total
}

// force takes a slot even when there is none, for runs that were running before a restart.
func (s *slots) force(r *model.RunHead, weight int64) {
	s.mu.Lock()
	s.add(r, 1, weight)
	s.mu.Unlock()
}

// free gives back a slot and the weight that was taken with it. The run may have taken another meanwhile, as one does that goes on
// while a worker of it has not returned.
func (s *slots) free(r *model.RunHead, weight int64) {
	s.mu.Lock()
	s.add(r, -1, -weight)
	s.mu.Unlock()
}

// add counts n slots that weigh so much together. The caller holds mu.
func (s *slots) add(r *model.RunHead, n int, weight int64) {
	s.weight += weight
	user := ofUser(r.Project, r.User)
	if s.theirs[user] += weight; s.theirs[user] == 0 {
		delete(s.theirs, user)
	}
	s.total += n
	for _, k := range s.keys(r) {
		if s.by[k.key] += n; s.by[k.key] == 0 {
			delete(s.by, k.key)
		}
	}
}
