package queue

import (
	"maps"
	"sync"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
)

// counts counts QUEUED runs: as the database has counted them last, with the moves that this instance has decided since.
type counts struct {
	mu    sync.Mutex
	all   map[data.Name]int // of all, by project, and by user
	since map[data.Name]int // the moves of this instance since that count began
}

// follow adds the moves of a decision.
func (q *counts) follow(moves []decide.Move) {
	if len(moves) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.since == nil { // nothing was counted yet
		q.since = make(map[data.Name]int)
	}
	for i := range moves {
		by, run := 0, &moves[i].Run
		if moves[i].To == data.Queued {
			by++
		}
		if moves[i].From == data.Queued {
			by--
		}
		if by == 0 {
			continue
		}
		for _, of := range [3]data.Name{{}, {Project: run.Project}, {Project: run.Project, User: run.User}} {
			if q.since[of] += by; q.since[of] == 0 {
				delete(q.since, of)
			}
		}
	}
}

// recount replaces the numbers by those that count reads. A decision of this instance meanwhile may count twice until the next recount.
func (q *counts) recount(count func() (map[data.Name]int, error)) error {
	q.mu.Lock()
	before := maps.Clone(q.since)
	q.mu.Unlock()
	all, err := count()
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	since := make(map[data.Name]int)
	for of, n := range q.since {
		if n -= before[of]; n != 0 {
			since[of] = n
		}
	}
	for of, n := range before {
		if _, still := q.since[of]; !still {
			since[of] = -n
		}
	}
	q.all, q.since = all, since
	return nil
}

// of returns how many runs are QUEUED: of all, of a project, and of a user in it.
func (q *counts) of(project, user string) data.InQueue {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := func(of data.Name) int { return max(0, q.all[of]+q.since[of]) }
	return data.InQueue{All: n(data.Name{}), OfProject: n(data.Name{Project: project}), OfUser: n(data.Name{Project: project, User: user})}
}
