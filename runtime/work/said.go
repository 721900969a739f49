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
}

func newSayings(cfg *Config) *sayings { return &sayings{cfg: cfg, by: make(map[slotKey]int64)} }

// counted is how much counts of n bytes that a run has: parcels, so that few events change it, and none of a run that has little.
func counted(n int) int64 { return int64(n) &^ (littleSaid - 1) }

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
