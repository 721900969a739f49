package queue

import (
	"context"
	"sync"

	"github.com/batonrun/baton/runtime/data"
)

// Runs that have lost their server come before those in the queue: room that becomes free is for them while some of them wait.

// NoRoom leaves a run that has lost its server to another one, or to a later Search.
type NoRoom struct {
	lacks  shortage
	weight data.Weight
}

func (NoRoom) Error() string { return "this server cannot execute the run now" }

// Orphaned has a value when runs may have lost their server, or room for one is free.
func (q *Queue) Orphaned() <-chan struct{} { return q.orphaned }

// FindOrphans has runs searched for that have lost their server.
func (q *Queue) FindOrphans() {
	select {
	case q.orphaned <- struct{}{}:
	default:
	}
}

// OrphansWait reports whether the last Search has found runs without room.
func (q *Queue) OrphansWait() bool { return q.looks.orphansWait() }

// Reserve reserves for a run that has lost its server. A single server takes over all runs, whatever its limits; in a cluster the survivors
// of a full server would die of its runs, so it fails with a NoRoom when there is no room, or with ErrElsewhere.
func (q *Queue) Reserve(ctx context.Context, run *data.RunHead) (*Reservation, error) {
	weight := q.admission.weigh(ctx, run)
	if q.cfg.Servers == nil {
		return q.admission.force(run, weight), nil
	}
	res, lacks := q.admission.try(run, weight)
	switch {
	case lacks.absent:
		return nil, ErrElsewhere
	case res == nil:
		return nil, NoRoom{lacks, weight}
	}
	return res, nil
}

// GiveBack ends the reservation of a run that is not taken over after all. The end of the Search heeds that.
func (q *Queue) GiveBack(res *Reservation) {
	res.release()
	q.frees.Add(1)
	q.looks.room()
}

// Search notes for which runs without a server there is no room.
type Search struct {
	q     *Queue
	frees int64 // at its beginning

	mu      sync.Mutex // guards the fields below
	short   shortages
	weights map[int64]data.Weight // of the runs that lack bytes
}

// Search begins a search for runs without a server, one at a time.
func (q *Queue) Search() *Search {
	return &Search{q: q, frees: q.frees.Load(), weights: make(map[int64]data.Weight)}
}

// Lacks reports whether there is no room for a run, as far as the last search has weighed it.
func (s *Search) Lacks(run *data.RunHead) bool {
	weight := s.q.orphanWeights[run.Key]
	lacks := s.q.admission.lacks(run, weight)
	s.Note(run, NoRoom{lacks, weight})
	return lacks != (shortage{})
}

// Note notes a run and its shortage.
func (s *Search) Note(run *data.RunHead, no NoRoom) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.short.note(run, no.lacks)
	if no.lacks != (shortage{}) && no.weight != (data.Weight{}) {
		s.weights[run.Key] = no.weight
	}
}

// End keeps the next room for the runs that were noted. If room has become free meanwhile, another search follows a complete one.
func (s *Search) End(complete bool) {
	q := s.q
	q.orphanWeights = s.weights
	q.looks.keepRoom(s.short)
	if complete && s.short.any() && q.frees.Load() != s.frees {
		q.FindOrphans()
	}
}
