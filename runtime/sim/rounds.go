package sim

import (
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// round is one execution of a node, which may be called several times.
type round struct {
	run        string
	at         int64 // creation of the run
	generation int
	node       string
	execution  int
}

// called counts the calls of a worker. It reports whether the number can be right so far.
func (l *ledger) called(run *runtime.Run, node string, execution int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := round{run.ID, run.CreatedAt.UnixMilli(), run.Generation, node, execution}
	l.rounds[at]++
	most := 1
	for _, steps := range l.w.h.Callers {
		for i := range steps {
			if steps[i].Do == doAppend {
				most += max(steps[i].Times, 1)
			}
		}
	}
	if run.Generation <= most {
		return true
	}
	l.w.find(RuleRounds, "run %s is in its generation %d, and %d messages were ever appended", short(run.ID), run.Generation, most-1)
	return false
}

// checkRounds checks that workers were called once, plus once for each lost process or answer, and that runs restarted
// only for messages.
func (c *checker) checkRounds(v *view) {
	for i := range v.runs {
		r := &v.runs[i]
		waits := 0 // number of questions
		for j := range v.log {
			if e := &v.log[j]; e.id != 0 && e.run == r.ID && (isEnd(e.ev) && outcome(e.ev) == "waiting" || isCustom(e.ev, agui.ParkedEvent)) {
				waits++
			}
		}
		if r.WorkflowID == flow { // a node that sleeps may be called again while others are at work
			waits += c.h.sleeps() + c.h.events()
		}
		generations := 1
		for _, s := range c.replies {
			if s.step.Do == doAppend && s.fate != refused && s.run == r.ID {
				generations++
			}
		}
		if r.Generation > generations {
			c.find(RuleRounds, "run %s has begun %d times, and %d messages were appended", short(r.ID), r.Generation, generations-1)
		}
		for at, n := range c.ledger.rounds {
			if at.run != r.ID || at.at != r.CreatedAt.UnixMilli() {
				continue
			}
			if most := len(c.all) + waits; n > most && !v.cut {
				c.find(RuleRounds, "run %s: execution %d of %q in generation %d was called %d times by %d processes, with %d answers", short(r.ID), at.execution, at.node, at.generation, n, len(c.all), waits)
			}
			if at.execution > 1 && r.WorkflowID != flow || at.execution > 2 { // flow retries
				c.find(RuleRounds, "run %s: %q was executed %d times in generation %d", short(r.ID), at.node, at.execution, at.generation)
			}
		}
	}
}

func isEnd(ev agui.Event) bool {
	t := ev.Type()
	return t == agui.TypeRunFinished || t == agui.TypeRunError
}
