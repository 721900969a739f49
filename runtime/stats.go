package runtime

import (
	"context"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/retention"
)

// Window is the time that statistics cover: the last hour by minutes, the last day by quarters of an hour, or the
// last week by hours.
type Window string

// The windows.
const (
	LastHour Window = "hour"
	LastDay  Window = "day"
	LastWeek Window = "week"
)

// Statistics are the results of a project's runs in a window of time, and its current runs.
type Statistics struct {
	Window   Window
	From, To time.Time
	Step     time.Duration
	Buckets  []Bucket // all of the window, in order
	Totals   Tally    // of all buckets
	Running  StatusCount
	Queued   StatusCount
	Waiting  StatusCount // without the parked ones
	Parked   StatusCount
	Counting bool // too many ends and calls are not rolled up yet, so some are missing

	Instances []InstanceState   // latest first; viewers do not get the addresses
	Self      string            // the id of this instance
	Versions  map[string]string // of the program, by the ids of living instances, as they were some seconds ago
}

// Bucket is the tally of one step of time.
type Bucket struct {
	At time.Time
	Tally
}

// Results of runs, as package data defines them.
//
//nolint:revive // each is documented there
type (
	Tally         = data.Tally
	Histogram     = data.Histogram
	StatusCount   = data.StatusCount
	InstanceState = data.InstanceState
)

// Statistics returns the recent results of the runs of the caller's project. With accounts it requires a role that
// sees all of them. Its cost does not grow with the number of stored runs, and its numbers are current.
func (rt *Runtime) Statistics(ctx context.Context, c Caller, w Window) (Statistics, error) {
	if err := c.check(); err != nil {
		return Statistics{}, err
	}
	if c.role < RoleViewer && rt.cfg.Accounts {
		return Statistics{}, errViewers
	}
	s := Statistics{Window: w, To: time.Now().UTC().Truncate(time.Millisecond), Self: rt.Member.Instance, Versions: make(map[string]string)}
	var counted, length time.Duration
	switch w {
	case LastHour:
		counted, s.Step, length = data.MinuteStep, time.Minute, time.Hour
	case LastDay:
		counted, s.Step, length = data.MinuteStep, 15*time.Minute, 24*time.Hour
	case LastWeek:
		counted, s.Step, length = data.HourStep, time.Hour, 7*24*time.Hour
	default:
		return Statistics{}, refuse(KindInvalid, "invalid_request", "window must be hour, day or week")
	}
	s.From = s.To.Add(-length).Truncate(s.Step)
	if rt.cfg.Counter == nil {
		return Statistics{}, refuse(KindNotFound, "not_found", "Nothing is counted here")
	}
	read, err := rt.cfg.Counter.Stats(ctx, c.project, counted, s.From, s.To)
	if err != nil {
		return Statistics{}, unavailable(err)
	}
	s.fill(&read)
	for _, server := range rt.work.Fleet.Servers() {
		s.Versions[server.ID] = server.Version
	}
	if c.role < RoleOperator && rt.cfg.Accounts {
		for i := range s.Instances {
			s.Instances[i].Addr = ""
		}
	}
	return s, nil
}

var errViewers = refuse(KindForbidden, "forbidden", "Your role may not do this: it is for those who see all runs of the project")

// fill sorts the read tallies into the buckets.
func (s *Statistics) fill(read *data.Stats) {
	for at := s.From; !at.After(s.To); at = at.Add(s.Step) {
		s.Buckets = append(s.Buckets, Bucket{At: at})
	}
	for at, t := range read.Tallies {
		if i := int(at.Sub(s.From) / s.Step); i >= 0 && i < len(s.Buckets) {
			s.Buckets[i].Add(t)
			s.Totals.Add(t)
		}
	}
	s.Counting = read.Counting
	s.Running, s.Queued, s.Waiting, s.Parked, s.Instances = read.Running, read.Queued, read.Waiting, read.Parked, read.Instances
}

// Retire removes the data that a policy has kept long enough: see [retention.Retire].
func (rt *Runtime) Retire(ctx context.Context, db data.Retainer, p retention.Policy, now time.Time) ([]retention.Retired, error) {
	return retention.Retire(ctx, db, p, now, &rt.retirementLag, func(list []*decide.Delete) (left []bool, errs []error, err error) {
		if err := rt.Member.writes(); err != nil {
			return nil, nil, err
		}
		left, errs = rt.work.DeleteAll(list)
		return left, errs, nil
	})
}

// RepairQueue repairs what a defect has left wrong in the queue: see [work.Engine.RepairQueue]. Call it every few minutes.
func (rt *Runtime) RepairQueue(ctx context.Context) error { return rt.work.RepairQueue(ctx) }

// RollUp adds the results of runs since its last call to the sums that Statistics reads. Call it every few seconds.
func (rt *Runtime) RollUp(ctx context.Context, now time.Time) error {
	if rt.cfg.Counter == nil {
		return nil
	}
	_, err := rt.cfg.Counter.RollUp(ctx, now)
	return err
}
