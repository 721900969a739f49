package work

import (
	"sync"

	"github.com/batonrun/baton/runtime/data"
)

// roomless is a run of an ended instance that this instance cannot take over yet: it has no room.
type roomless struct {
	run    data.RunHead
	weight data.Weight // as far as it is known
	lacks  shortage
}

// shelter holds such runs by their keys. They get room before those in line.
type shelter struct {
	mu   sync.Mutex
	runs map[int64]roomless
}

// keep gives the next room to these runs. They replace those of before, and it reports whether there were any.
func (s *shelter) keep(runs []roomless) (had bool) {
	kept := make(map[int64]roomless, len(runs))
	for i := range runs {
		kept[runs[i].run.Key] = runs[i]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	had = len(s.runs) > 0
	s.runs = kept
	return had
}

// weighed adds to a run the weight that keep has got.
func (s *shelter) weighed(run *data.RunHead) roomless {
	s.mu.Lock()
	defer s.mu.Unlock()
	return roomless{run: *run, weight: s.runs[run.Key].weight}
}

// note adds the shortages of these runs, which block the runs in line.
func (s *shelter) note(short *shortages) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.runs {
		r := s.runs[key]
		short.note(&r.run, r.lacks)
	}
}

// fits reports whether a run lacks nothing now. Otherwise it updates their shortages.
func (s *shelter) fits(lacks func(*data.RunHead, data.Weight) shortage) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, r := range s.runs {
		if r.lacks = lacks(&r.run, r.weight); r.lacks == (shortage{}) {
			return true
		}
		s.runs[key] = r
	}
	return false
}

// any reports whether such a run waits.
func (s *shelter) any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.runs) > 0
}
