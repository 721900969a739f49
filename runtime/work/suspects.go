package work

import (
	"context"
	"errors"
	"time"

	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
)

// A run that ends the process which executes it ends the runs beside it, too, and so would each process that takes it over. A run whose
// process died within a second of the run's claim is therefore a suspect. An instance takes suspects over one after the other, the one
// first whose claim is the longest ago, once it has been ready for Limits.Calm and has found no new one for that time. Meanwhile the other
// runs advance.

// suspicion is how long a run is executed until it is not suspected of the end of its process, and so the time between two suspects.
const suspicion = time.Second

// suspects is what an instance remembers of suspects. Only the goroutine that takes orphans over uses it.
type suspects struct {
	since  time.Time // when this instance became ready, or has found a new suspect
	newest time.Time // the latest claim of one
	left   int       // that were found last
	tried  time.Time // when the last one was taken over
}

// takeSuspects takes over the suspects that a single instance has found at its start. It ends when there are none, or the engine stops.
func (su *successor) takeSuspects() {
	en := su.en
	tick := time.NewTicker(suspicion)
	defer tick.Stop()
	for su.suspects.left > 0 {
		select {
		case <-en.quit:
			return
		case <-en.abandoned.Done():
			return
		case <-tick.C:
			en.logUnshared(su.takeOrphans(en.abandoned))
		}
	}
}

// lineup finds the suspects among orphans.
type lineup struct {
	en     *Engine
	owners map[string]data.Instance

	count  int
	first  data.RunHead // by their claims
	newest time.Time
}

// add returns those of the orphans that are not suspects.
func (f *lineup) add(ctx context.Context, orphans []data.RunHead) (rest []data.RunHead, err error) {
	for i := range orphans {
		run := &orphans[i]
		owner, known := f.owners[run.Owner]
		if !known {
			owner, err = commit.RetryUnavailable(ctx, func() (data.Instance, error) { return f.en.store.Members().Instance(ctx, run.Owner) })
			if err != nil && !errors.Is(err, data.ErrNotFound) { // a released run has no owner
				return nil, err
			}
			f.owners[run.Owner] = owner
		}
		switch {
		case !f.en.successor.suspect(run, &owner):
			rest = append(rest, *run)
		case f.en.shared && !f.en.Fleet.MayTake(ctx, run):
		default:
			if f.count++; f.count == 1 || run.ClaimedAt.Before(*f.first.ClaimedAt) {
				f.first = *run
			}
			if run.ClaimedAt.After(f.newest) {
				f.newest = *run.ClaimedAt
			}
		}
	}
	return rest, nil
}

// suspect reports whether an orphan is a suspect. One that has crashed too often is none: it is not executed again.
func (su *successor) suspect(run *data.RunHead, owner *data.Instance) bool {
	return su.en.cfg.Calm > 0 && owner.End == data.EndCrashed && run.Attempt < su.en.cfg.MaxAttempts &&
		run.ClaimedAt != nil && owner.SeenAt.Sub(*run.ClaimedAt) < suspicion
}

// next returns the suspect that is to be taken over now, if there is one.
func (f *lineup) next() []data.RunHead {
	s, now := &f.en.successor.suspects, time.Now()
	if s.left = f.count; f.newest.After(s.newest) {
		s.newest, s.since = f.newest, now
		f.en.log.Warn("a server has died within a second of its last claims: what it had claimed is taken over later, one after the other",
			"count", f.count, "after", f.en.cfg.Calm.String())
	}
	if f.count == 0 || now.Sub(s.since) < f.en.cfg.Calm || now.Sub(s.tried) < suspicion {
		return nil
	}
	s.tried = now
	return []data.RunHead{f.first}
}
