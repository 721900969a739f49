package runtime

import (
	"context"
	"errors"
	"time"

	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/model"
	"github.com/batonrun/baton/runtime/quota"
	"github.com/batonrun/baton/runtime/work"
)

// Retention says how long what is over is kept. Zero is for good.
type Retention struct {
	Runs        time.Duration // a run that has ended, with all that is its own
	Events      time.Duration // the events of a run that has ended; its row, result and messages stay
	Attachments time.Duration // a file that a user has brought, whoever refers to it
	Audit       time.Duration // who has asked for what
}

// Policy is a Retention for all projects but those that have one of their own.
type Policy struct {
	Retention
	Projects map[string]Retention
}

// Of is the retention of a project.
func (p *Policy) Of(project string) Retention {
	if own, ok := p.Projects[project]; ok {
		return own
	}
	return p.Retention
}

// Retainer finds what has been kept long enough: see [model.Retainer].
type Retainer = model.Retainer

// Retired is what of a project has been kept long enough.
type Retired struct {
	Project     string `json:"project"`
	Runs        int    `json:"runs"`        // that go
	Stripped    int    `json:"stripped"`    // runs of which the events alone go
	Events      int    `json:"events"`      // of both
	Bytes       int64  `json:"bytes"`       // of the events, about, as they are kept
	Attachments int    `json:"attachments"` // files
	Audit       int    `json:"audit"`       // entries
}

// Retirable tells of each project what a policy has kept long enough, and changes nothing. It reads the database alone,
// which a server may have.
func Retirable(ctx context.Context, db Retainer, p Policy, now time.Time) ([]Retired, error) {
	s := sweep{db: db, policy: p, now: now}
	return s.all(ctx)
}

// RetirableIn is Retirable for one project. It looks at so many runs at most, and as long as ctx lasts: whole says whether that
// was all of it.
func RetirableIn(ctx context.Context, db Retainer, p Policy, project string, now time.Time, most int) (r Retired, whole bool, err error) {
	s := sweep{db: db, policy: p, now: now, most: most}
	r.Project = project
	switch err = s.project(ctx, &r); {
	case errors.Is(err, errEnough) || ctx.Err() != nil:
		return r, false, nil
	case err != nil:
		return r, false, unavailable(err)
	}
	return r, true, nil
}

// errEnough means that a sweep has looked at as many runs as it may.
var errEnough = errors.New("enough")

// Retire removes what a policy has kept long enough, and tells what that was, also when it fails or ctx ends. Runs go one by
// one, long ones in parts, beside the commits of those that are at work, which have at least half of the time.
func (rt *Runtime) Retire(ctx context.Context, db Retainer, p Policy, now time.Time) ([]Retired, error) {
	s := sweep{db: db, policy: p, now: now, remove: func(cmd *decide.Delete) (left bool, err error) {
		if err := rt.writes(); err != nil {
			return false, err
		}
		begun := time.Now()
		cmd.Limit = rt.cfg.DeletedAtOnce
		out, err := rt.work.Decide(quota.Owner{}, cmd)
		pause(ctx, time.Since(begun))
		return err == nil && out.Removed.Left, err
	}}
	return s.all(ctx)
}

// RetireAlone is Retire on a database that no server has. It fails with a *HeldError while one does.
func RetireAlone(ctx context.Context, db Store, found Retainer, p Policy, now time.Time) (list []Retired, err error) {
	if err := db.Join(ctx, work.NewID(), ""); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Leave(context.WithoutCancel(ctx))) }()
	n := int64(0)
	s := sweep{db: found, policy: p, now: now, remove: func(cmd *decide.Delete) (left bool, err error) {
		var out *decide.Decided
		n++
		cmd.Limit = deletedAtOnce
		err = db.Commit(ctx, n, &model.Batch{Asks: []model.Ask{cmd.Ask()}, Decide: func(_ int, v *model.View) model.Changes {
			out = decide.Decide(v, cmd)
			return out.Changes
		}})
		if err == nil {
			err = out.Refused
		}
		return err == nil && out.Removed.Left, err
	}}
	return s.all(ctx)
}

// pause waits for a while, less when ctx ends.
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
	remove func(*decide.Delete) (left bool, err error) // a part of it; nil removes nothing
	most   int                                         // runs that are looked at, 0 for all
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
	var runs, events time.Time // before which they go
	if keep.Runs > 0 {
		runs = s.now.Add(-keep.Runs)
		err = s.runs(ctx, r, runs, func(run *model.EndedRun) *decide.Delete {
			return &decide.Delete{Thread: run.Thread, Run: run.Key, Project: r.Project, Before: runs}
		})
	}
	if events = s.now.Add(-keep.Events); err == nil && keep.Events > 0 && events.After(runs) {
		err = s.runs(ctx, r, events, func(run *model.EndedRun) *decide.Delete {
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

// retirePage is how many runs are looked at at once.
const retirePage = 200

// runs goes through a project's runs that have ended before a time; of nil nothing goes.
func (s *sweep) runs(ctx context.Context, r *Retired, before time.Time, what func(*model.EndedRun) *decide.Delete) error {
	for after := (model.EndedRun{}); ; {
		list, err := s.db.EndedRuns(ctx, r.Project, before, after, retirePage)
		if err != nil || len(list) == 0 {
			return err
		}
		for i := range list {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if s.looked++; s.most > 0 && s.looked > s.most {
				return errEnough
			}
			if list[i].FinishedAt == nil {
				continue // it goes on
			}
			if cmd := what(&list[i]); cmd != nil {
				if err := s.one(ctx, r, cmd); err != nil {
					return err
				}
			}
		}
		after = list[len(list)-1]
	}
}

// one has a run go, or its events. One that went on meanwhile or is gone stays out of the count.
func (s *sweep) one(ctx context.Context, r *Retired, cmd *decide.Delete) error {
	n, size, err := s.db.EventsOf(ctx, cmd.Run)
	if err != nil {
		return err
	}
	for left := s.remove != nil; left; {
		var refused *Error
		left, err = s.remove(cmd)
		if errors.As(err, &refused) && refused.Kind != KindUnavailable && refused.Kind != KindOverloaded {
			return nil
		}
		if err != nil {
			return err
		}
	}
	r.Events += n
	r.Bytes += size
	if cmd.Events {
		r.Stripped++
	} else {
		r.Runs++
	}
	return nil
}
