// Package retention removes the data whose time is over, of databases in use and of others. It knows no requests.
package retention

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/janitor"
	"github.com/batonrun/baton/runtime/work"
)

// Retention is how long data is kept after its end. Zero means for good.
type Retention struct {
	Runs        time.Duration // an ended run, with all its data
	Events      time.Duration // the events of a run that has ended; its row, result and messages stay
	Attachments time.Duration // an uploaded file, even if messages refer to it
	Audit       time.Duration // audit entries
}

// Policy is a Retention for all projects, except those with a Retention of their own.
type Policy struct {
	Retention
	Projects map[string]Retention
}

// Of returns the retention of a project.
func (p *Policy) Of(project string) Retention {
	if own, ok := p.Projects[project]; ok {
		return own
	}
	return p.Retention
}

// Retainer finds expired data: see [data.Retainer].
type Retainer = data.Retainer

// Retired counts the expired data of a project.
type Retired struct {
	Project     string `json:"project"`
	Runs        int    `json:"runs"`        // removed runs
	Stripped    int    `json:"stripped"`    // runs that lose only their events
	Events      int    `json:"events"`      // events of both
	Bytes       int64  `json:"bytes"`       // approximate stored size of the events
	Attachments int    `json:"attachments"` // files
	Audit       int    `json:"audit"`       // entries
}

// Due counts for each project the data whose retention is over, and changes nothing. It only reads the
// database, so a server may be using it.
func Due(ctx context.Context, db Retainer, p Policy, now time.Time) ([]Retired, error) {
	return (&sweep{db: db, policy: p, now: now}).all(ctx)
}

// DueIn is Due for one project. It reads at most most runs and stops when ctx ends; whole reports whether
// it reached the end.
func DueIn(ctx context.Context, db Retainer, p Policy, project string, now time.Time, most int) (r Retired, whole bool, err error) {
	s := sweep{db: db, policy: p, now: now, most: most}
	r.Project = project
	switch err = s.project(ctx, &r); {
	case errors.Is(err, errEnough) || ctx.Err() != nil:
		return r, false, nil
	case err != nil:
		return r, false, data.Unavailable(err)
	}
	return r, true, nil
}

// errEnough means that a sweep has read as many runs as it may.
var errEnough = errors.New("enough")

// Remover removes the next part of each of some deletions: left says of which parts are left, errs which were not carried out. Its error
// ends the sweep.
type Remover func(list []*decide.Delete) (left []bool, errs []error, err error)

// Retire removes the data that a policy has kept long enough, and returns counts, also when it fails or ctx ends. Some runs go at
// once, long ones in parts, beside the commits of running runs, which have at least half of the time. As a duty of a
// janitor it yields. lag is for how many nanoseconds the data at work should have been gone, 0 in the end.
func Retire(ctx context.Context, db Retainer, p Policy, now time.Time, lag *atomic.Int64, remove Remover) ([]Retired, error) {
	defer lag.Store(0)
	return (&sweep{db: db, policy: p, now: now, lag: lag, remove: func(list []*decide.Delete) (left []bool, errs []error, err error) {
		begun := time.Now()
		if left, errs, err = remove(list); err != nil {
			return nil, nil, err
		}
		pause(ctx, time.Since(begun))
		return left, errs, janitor.Yield(ctx)
	}}).all(ctx)
}

// Alone is Retire on a database that no server uses. It fails with a *data.HeldError of unused if one does. It waits for a lease to find out
// whether a silent server has died.
func Alone(ctx context.Context, db data.Store, unused func(context.Context) error, found Retainer, p Policy, now time.Time) (list []Retired, err error) {
	for {
		err := unused(ctx)
		if err == nil {
			break
		}
		if held, others := errors.AsType[*data.HeldError](err); !others || !held.Silent || ctx.Err() != nil {
			return nil, err
		}
		pause(ctx, 500*time.Millisecond)
	}
	if err := db.Members().Join(ctx, data.NewID(), ""); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Members().Leave(context.WithoutCancel(ctx))) }()
	n := int64(0)
	return (&sweep{db: found, policy: p, now: now, remove: func(list []*decide.Delete) (left []bool, errs []error, err error) {
		n++
		outs, asks := make([]*decide.Decided, len(list)), make([]data.Ask, len(list))
		for i, cmd := range list {
			cmd.Limit = work.DeletedAtOnce
			asks[i] = cmd.Ask()
		}
		err = db.Commit(ctx, n, &data.Batch{Asks: asks, Decide: func(i int, v *data.View) data.Changes {
			outs[i] = decide.Decide(v, list[i])
			return outs[i].Changes
		}})
		if err != nil {
			return nil, nil, err
		}
		for _, out := range outs {
			if out == nil { // a server that has started meanwhile has locked the thread
				left, errs = append(left, true), append(errs, nil)
				continue
			}
			left, errs = append(left, out.Refused == nil && out.Removed.Left), append(errs, out.Refused)
		}
		return left, errs, nil
	}}).all(ctx)
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// sweep goes through all projects once.
type sweep struct {
	db     Retainer
	policy Policy
	now    time.Time
	remove Remover       // nil removes nothing
	lag    *atomic.Int64 // for how long the runs at work should have been gone, if not nil
	most   int           // runs that are looked at, 0 for all
	looked int
}

func (s *sweep) all(ctx context.Context) (list []Retired, err error) {
	projects, err := s.db.Projects(ctx)
	if err != nil {
		return nil, err
	}
	for _, project := range projects {
		r := Retired{Project: project}
		err := s.project(ctx, &r)
		if r != (Retired{Project: project}) {
			list = append(list, r)
		}
		if err != nil {
			return list, err
		}
	}
	return list, nil
}

func (s *sweep) project(ctx context.Context, r *Retired) (err error) {
	keep, dry := s.policy.Of(r.Project), s.remove == nil
	var runs, events time.Time // runs and events that ended before these times go
	if keep.Runs > 0 {
		runs = s.now.Add(-keep.Runs)
		err = s.runs(ctx, r, runs, func(run *data.EndedRun) *decide.Delete {
			return &decide.Delete{Thread: run.Thread, Run: run.Key, Project: r.Project, Before: runs}
		})
	}
	if events = s.now.Add(-keep.Events); err == nil && keep.Events > 0 && events.After(runs) {
		err = s.runs(ctx, r, events, func(run *data.EndedRun) *decide.Delete {
			if !run.Events || run.FinishedAt.Before(runs) {
				return nil
			}
			return &decide.Delete{Thread: run.Thread, Run: run.Key, Project: r.Project, Before: events, Events: true}
		})
	}
	enough := errors.Is(err, errEnough)
	if err != nil && !enough {
		return err
	}
	if keep.Attachments > 0 {
		if r.Attachments, err = s.db.ExpireAttachments(ctx, r.Project, "", s.now.Add(-keep.Attachments), dry); err != nil {
			return err
		}
	}
	if keep.Audit > 0 {
		if r.Audit, err = s.db.ForgetAudit(ctx, r.Project, s.now.Add(-keep.Audit), dry); err != nil {
			return err
		}
	}
	if enough {
		return errEnough
	}
	return nil
}

const (
	retirePage    = 256 // runs that are looked at at once
	retiredAtOnce = 32  // runs that go at once
)

// runs visits a project's runs that ended before a time; if what returns nil, the run stays.
func (s *sweep) runs(ctx context.Context, r *Retired, before time.Time, what func(*data.EndedRun) *decide.Delete) error {
	for after := (data.EndedRun{}); ; {
		list, err := s.db.EndedRuns(ctx, r.Project, before, after, retirePage)
		if err != nil || len(list) == 0 {
			return err
		}
		after = list[len(list)-1]
		enough := s.most > 0 && s.looked+len(list) > s.most
		if enough {
			list = list[:s.most-s.looked]
		}
		s.looked += len(list)
		list = slices.DeleteFunc(list, func(run data.EndedRun) bool { return run.FinishedAt == nil }) // it goes on
		for some := range slices.Chunk(list, retiredAtOnce) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if s.lag != nil {
				s.lag.Store(int64(max(0, before.Sub(*some[0].FinishedAt)+time.Since(s.now))))
			}
			var due []*decide.Delete
			for i := range some {
				if cmd := what(&some[i]); cmd != nil {
					due = append(due, cmd)
				}
			}
			if err := s.retire(ctx, r, due); err != nil {
				return err
			}
		}
		if enough {
			return errEnough
		}
	}
}

// retire removes runs, or their events. A run that went on meanwhile or is gone is not counted.
func (s *sweep) retire(ctx context.Context, r *Retired, list []*decide.Delete) error {
	if len(list) == 0 {
		return janitor.Yield(ctx)
	}
	keys := make([]int64, len(list))
	for i, cmd := range list {
		keys[i] = cmd.Run
	}
	sizes, err := s.db.EventsOf(ctx, keys)
	if err != nil {
		return err
	}
	for s.remove != nil && len(list) > 0 {
		left, errs, err := s.remove(list)
		var unfinished []*decide.Delete
		for i := range left {
			var refused *data.Error
			switch failed := errs[i]; {
			case errors.As(failed, &refused) && refused.Kind != data.KindUnavailable && refused.Kind != data.KindOverloaded:
			case failed != nil && err == nil:
				err = failed
			case failed == nil && left[i]:
				unfinished = append(unfinished, list[i])
			case failed == nil:
				r.count(list[i], sizes[list[i].Run])
			}
		}
		if list = unfinished; err != nil {
			return err
		}
	}
	for _, cmd := range list { // nothing is removed
		r.count(cmd, sizes[cmd.Run])
	}
	return nil
}

func (r *Retired) count(cmd *decide.Delete, size data.EventsSize) {
	r.Events += size.Events
	r.Bytes += size.Bytes
	if cmd.Events {
		r.Stripped++
	} else {
		r.Runs++
	}
}
