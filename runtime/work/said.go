package work

import (
	"maps"
	"sync"

	"github.com/batonrun/baton/runtime/model"
)

// sayings are what the messages of the runs at work have in memory together, those with little apart.
type sayings struct {
	cfg *Config

	mu    sync.Mutex // guards the fields below
	all   int64
	taken int64                // of all, no more of a project than its share: what one has beyond costs no other
	by    map[slotKey]int64    // of users, and of projects, no more of a user than its share
	waits map[slotKey]*waiting // by share, those that find no room in it to go on
}

// waiting are the runs that find no room in a share to go on.
type waiting struct {
	runs   map[int64]int64 // by key, their threads
	passed int64           // what others have taken of the share since one of them began to wait, or was let in beside others
}

func newSayings(cfg *Config) *sayings {
	return &sayings{cfg: cfg, by: make(map[slotKey]int64), waits: make(map[slotKey]*waiting)}
}

// share is what runs may have together.
type share struct {
	key        slotKey
	used, most int64
}

// shares are those that a run has a part in. mu is held.
func (s *sayings) shares(r *model.RunHead) [3]share {
	user, project := ofUser(r.Project, r.User), ofProject(r.Project)
	return [3]share{
		{user, s.by[user], s.cfg.SaidPerUser}, {project, s.by[project], s.cfg.SaidPerProject}, {slotKey{kind: "all"}, s.taken, s.cfg.Said},
	}
}

// copies is how often what a run says is in memory: with its worker, with the messages of the run, in its event, and in the row that
// waits to be written.
const copies = 4

// counted is how much counts of n bytes that a run has: parcels, so that few events change it, and none of a run that has little:
// it is not to blame when there is no room for more.
func (s *sayings) counted(n int) int64 { return copies * int64(n-n%s.cfg.Light) }

// take counts that a run has n bytes more than it had, or fewer, unless that is more than it may.
func (s *sayings) take(r *model.RunHead, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.shares(r) {
		if n > 0 && of.used+n > of.most {
			return false
		}
	}
	s.pass(r, n)
	s.add(r, n)
	return true
}

// keep takes room for n bytes that a run has said which goes on, if there is room. It has room, whatever it has said, in a share of
// which nobody has anything; and beside others once they have taken as much as all of it while runs waited for room there: the first
// that is looked for then, and finds it so in each share that has no room for it. One that does not is in nobody's way.
func (s *sayings) keep(r *model.RunHead, n int64) bool {
	if n == 0 {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	room, beside := true, make([]*waiting, 0, 3)
	for _, of := range s.shares(r) {
		if of.used == 0 || of.used+n <= of.most { // if it waits here it waits on, as it may find no room another time
			continue
		}
		w := s.waited(r, of)
		room = room && w.passed >= of.most && of.used <= of.most
		beside = append(beside, w)
	}
	if !room {
		return false
	}
	for _, w := range beside {
		w.passed = 0
	}
	for _, of := range s.shares(r) {
		s.leaves(of.key, r.Key)
	}
	s.pass(r, n)
	s.add(r, n)
	return true
}

// waited notes that a run finds no room in a share. mu is held.
func (s *sayings) waited(r *model.RunHead, of share) *waiting {
	w := s.waits[of.key]
	if w == nil {
		w = &waiting{runs: make(map[int64]int64)}
		s.waits[of.key] = w
	}
	w.runs[r.Key] = r.ThreadKey
	return w
}

// leaves notes that a run does not wait for room in a share any more: it goes on, or is gone. mu is held.
func (s *sayings) leaves(key slotKey, run int64) {
	if w := s.waits[key]; w != nil {
		if delete(w.runs, run); len(w.runs) == 0 {
			delete(s.waits, key)
		}
	}
}

// pass notes that a run takes n bytes where others wait. mu is held.
func (s *sayings) pass(r *model.RunHead, n int64) {
	for _, of := range s.shares(r) {
		if w := s.waits[of.key]; w != nil {
			w.passed += max(n, 0)
		}
	}
}

// looked ends a look at all runs that are to go on, of which stand tells those that still are: also one that was not looked for,
// as there was no slot for it, has waited on. stand is called without a lock.
func (s *sayings) looked(stand func(runs map[int64]int64) map[int64]bool) {
	all := make(map[int64]int64)
	s.mu.Lock()
	for _, w := range s.waits {
		maps.Copy(all, w.runs)
	}
	s.mu.Unlock()
	if len(all) == 0 {
		return
	}
	still := stand(all)
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, w := range s.waits {
		for run := range w.runs {
			if !still[run] {
				s.leaves(key, run)
			}
		}
	}
}

// force is take for what is there already.
func (s *sayings) force(r *model.RunHead, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(r, n)
}

func (s *sayings) add(r *model.RunHead, n int64) {
	s.all += n
	n = s.put(ofUser(r.Project, r.User), n, s.cfg.SaidPerUser)
	s.taken += s.put(ofProject(r.Project), n, s.cfg.SaidPerProject)
}

// put adds n to what is of key, and returns by how much its part of it that is within most has grown.
func (s *sayings) put(key slotKey, n, most int64) int64 {
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
