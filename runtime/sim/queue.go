package sim

import (
	"slices"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/sim/memory"
)

// queueChecks are the rules of the queue, except that no run waits for ever (RuleStuck).
func (s *servers) queueChecks() memory.Checks {
	var caps data.Caps
	if s.several() { // a single server limits the runs that it has taken over, and lends the slots of those that rest
		caps = data.Caps{PerProject: s.h.PerProject, PerUser: s.h.PerUser}
	}
	return memory.Checks{
		Place: func(v *data.View, is data.Place) {
			want := decide.PlaceOf(v)
			if want.ThreadKey = is.ThreadKey; is != want { // a deleted thread has no key
				s.find(RulePlace, "thread %d has %+v, not %+v", is.ThreadKey, is, want)
			}
		},
		Begins: func(run *data.RunHead, open []data.RunHead) {
			if len(open) > 0 && open[0].Key != run.Key {
				s.find(RuleFirst, "run %s of thread %d begins, and %s is before it", short(run.ID), run.ThreadKey, short(open[0].ID))
			}
		},
		Running: func(sums map[data.Name]int) {
			for of, n := range sums {
				if of != (data.Name{}) && caps.Reached(of, n-1) {
					s.find(RuleCaps, "%d runs of %+v are RUNNING", n, of)
				}
			}
		},
		NotTaken: func(row data.Place, instance string) {
			s.find(RuleTaken, "%s claims %+v, which it has not taken", instance, row)
		},
		Overdue: func(row data.Place, instance string) {
			serves := slices.ContainsFunc(s.serving(), func(p *process) bool { return p.instance == instance })
			stood := slices.ContainsFunc(s.serving(), func(p *process) bool { return p.stood.Load() }) // another one may have had the thread locked
			if len(s.h.Faults) == 0 && !s.h.Does(doClock) && serves && !stood {
				s.find(RuleTaken, "%s has taken %+v, and neither claims it nor gives it back", instance, row)
			}
		},
	}
}
