package sim

import (
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/retention"
	"github.com/batonrun/baton/storage"
)

// retirement is one removal of runs that ended before a time.
type retirement struct {
	before time.Time
	events bool // only their events
	done   bool // no fault interfered
}

// expire removes runs that have ended for as long as the step says.
func (c *callers) expire(p *process, s *Step) {
	keep := time.Duration(s.By)
	r := retirement{before: c.dbNow().Add(-keep).Truncate(time.Millisecond), events: s.Choice%2 == 1}
	policy := retention.Policy{Retention: retention.Retention{Runs: keep}}
	if r.events {
		policy.Retention = retention.Retention{Events: keep}
	}
	c.mu.Lock()
	at := len(c.retired)
	c.retired = append(c.retired, r)
	c.mu.Unlock()
	unseen := c.anyStands() // an end that a server has decided and not committed
	old, ok := p.store.(retention.Retainer)
	if !ok {
		old = p.store.(*storage.DB).Retention
	}
	list, err := p.rt.Retire(c.ctx, old, policy, r.before.Add(keep))
	c.mu.Lock()
	c.retired[at].done = err == nil && !p.dead.Load() && !unseen
	c.mu.Unlock()
	c.note("%d retire %v, events alone %v: %+v%s", s.N, keep, r.events, list, because(err))
}

// seal compresses all ended runs as if they were days old.
func (c *callers) seal(p *process, s *Step) {
	db, ok := p.store.(*storage.DB)
	if !ok {
		return // memory does not compress
	}
	n, err := db.Retention.Seal(c.ctx, c.dbNow().Add(48*time.Hour))
	c.note("%d seal: %d events%s", s.N, n, because(err))
}

// removals returns the removals of runs, or of events only.
func (c *callers) removals(events bool) (list []retirement) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.retired {
		if r.events == events {
			list = append(list, r)
		}
	}
	return list
}

// mayBeRetired reports whether a run of that name may have been removed.
func (c *callers) mayBeRetired(run string) bool {
	for _, ret := range c.removals(false) {
		for _, r := range c.replies {
			if (r.step.Do == doStart || r.step.Do == doReply) && (r.run == run || r.as == run) && r.from.Truncate(time.Millisecond).Before(ret.before) {
				return true
			}
		}
	}
	return false
}

// mayBeStripped reports whether the events of a run may have been removed, in part if it has restarted since.
func (c *callers) mayBeStripped(run *runtime.Run) bool {
	for _, ret := range c.removals(true) {
		if run.CreatedAt.Before(ret.before) {
			return true
		}
	}
	return false
}

// checkRetired checks that old runs are removed.
func (c *checker) checkRetired(v *view) {
	logged := make(map[string]bool)
	for i := range v.log {
		if e := &v.log[i]; e.id != 0 && !isReset(e.ev) {
			logged[e.run] = true
		}
	}
	for i := range v.runs {
		r := &v.runs[i]
		for _, events := range []bool{false, true} {
			for _, ret := range c.removals(events) {
				over := ret.done && r.Status.Final() && r.FinishedAt != nil && r.FinishedAt.Before(ret.before) && r.CreatedAt.Before(ret.before)
				if over && !events {
					c.find(RuleGone, "run %s was over at %v, and is there behind a removal of what was over before %v", short(r.ID), r.FinishedAt, ret.before)
				} else if over && logged[r.ID] {
					c.find(RuleGone, "run %s was over at %v, and has events behind a removal of those of before %v", short(r.ID), r.FinishedAt, ret.before)
				}
			}
		}
	}
}

// checkLimit checks the number of events in the spans of a log.
func (c *checker) checkLimit(v *view) {
	const closing = 60 // a span's closing events, and events emitted at the same moment
	n := 0
	for i := range v.log {
		e := &v.log[i]
		if e.ev.Type() == agui.TypeRunStarted || isReset(e.ev) {
			n = 0
		}
		if n++; c.h.Events > 0 && n == c.h.Events+closing {
			c.find(RuleLimit, "thread %s: the span of %s has more than %d events, and may have %d", v.name, short(e.run), n, c.h.Events)
		}
	}
}
