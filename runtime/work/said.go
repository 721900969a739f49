package work

import (
	"sync"

	"github.com/batonrun/baton/runtime/model"
)

// sayings are what the messages of the runs at work have in memory together, those with little apart.
type sayings struct {
	cfg *Config

	mu    sync.Mutex // guards the fields below
	all   int64
	taken int64             // of all, no more of a project than its share: what one has beyond costs no other
	by    map[slotKey]int64 // of users, and of projects, no more of a user than its share
	kept  map[int64]int64   // of it for runs that are about to go on, by key: what they had said is not read yet
}

func newSayings(cfg *Config) *sayings {
	return &sayings{cfg: cfg, by: make(map[slotKey]int64), kept: make(map[int64]int64)}
}

// copies is how often what a run says is in memory: with its worker, with the messages of the run, in its event, and in the row that
// waits to be written.
const copies = 4

// counted is how much counts of n bytes that a run has: parcels, so that few events change it, and none of a run that has little.
func counted(n int) int64 { return copies * (int64(n) &^ (littleSaid - 1)) }

// take counts that a run has n bytes more than it had, or fewer, unless that is more than it may.
func (s *sayings) take(r *model.RunHead, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > 0 && (s.taken+n > s.cfg.Said || s.by[ofProject(r.Project)]+n > s.cfg.SaidPerProject || s.by[ofUser(r.Project, r.User)]+n > s.cfg.SaidPerUser) {
		return false
	}
	s.add(r, n)
	return true
}

// keep takes room for what a run has said that goes on, of about n bytes, if there is room. It has room, whatever it has said,
// when no other run of those that share it has any.
func (s *sayings) keep(r *model.RunHead, n int64) fit {
	if n = counted(int(n)); n == 0 {
		return fits
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	within := func(used, most int64) bool { return used == 0 || used+n <= most }
	switch {
	case !within(s.by[ofUser(r.Project, r.User)], s.cfg.SaidPerUser), !within(s.by[ofProject(r.Project)], s.cfg.SaidPerProject):
		return sated
	case !within(s.taken, s.cfg.Said):
		return crowded
	}
	s.kept[r.Key] = n
	s.add(r, n)
	return fits
}

// let gives back what keep has taken for a run, and reports whether that is anything.
func (s *sayings) let(r *model.RunHead) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.kept[r.Key]
	if ok {
		delete(s.kept, r.Key)
		s.add(r, -n)
	}
	return ok
}

// force is take for what is there already.
func (s *sayings) force(r *model.RunHead, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(r, n)
}

func (s *sayings) add(r *model.RunHead, n int64) {
	s.all += n
	n = s.share(ofUser(r.Project, r.User), n, s.cfg.SaidPerUser)
	s.taken += s.share(ofProject(r.Project), n, s.cfg.SaidPerProject)
}

// share adds n to what is of key, and returns by how much its part of it that is within most has grown.
func (s *sayings) share(key slotKey, n, most int64) int64 {
	before := s.by[key]
	if s.by[key] = before + n; before+n == 0 {
		delete(s.by, key)
	}
	return min(before+n, most) - min(before, most)
}

// weighs is what they all have together.
func (s *sayings) weighs() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}
