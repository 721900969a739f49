package runtime

import (
	"context"
	"time"

	"github.com/batonrun/baton/runtime/model"
)

// Window is the time that statistics are of: the last hour by minutes, the last day by quarters of an hour, or the last week by
// hours.
type Window string

// The windows.
const (
	LastHour Window = "hour"
	LastDay  Window = "day"
	LastWeek Window = "week"
)

// Statistics are what the runs of a project came to in a window of time, and what goes on.
type Statistics struct {
	Window   Window
	From, To time.Time
	Step     time.Duration
	Buckets  []Bucket // all of the window, in their order
	Totals   Tally    // of all buckets
	Running  StatusCount
	Queued   StatusCount
	Waiting  StatusCount
	Counting bool // so many ends and calls are not rolled up yet that some are left out

	Instances []InstanceState // those that came last first; without their addresses for those who may only look
	Self      string          // the id of this instance
}

// Bucket is what came about in a step of time.
type Bucket struct {
	At time.Time
	Tally
}

// What runs came to, as package model defines it.
//
//nolint:revive // each is documented there
type (
	Tally         = model.Tally
	Histogram     = model.Histogram
	StatusCount   = model.StatusCount
	InstanceState = model.InstanceState
)

// Statistics returns what the runs of the caller's project came to lately. With accounts it is for those who see
// all of them. What it costs does
// not grow with the runs that are kept, and it is true at the moment of asking.
func (rt *Runtime) Statistics(ctx context.Context, c Caller, w Window) (Statistics, error) {
	if err := c.check(); err != nil {
		return Statistics{}, err
	}
	if c.role < RoleViewer && rt.cfg.Accounts {
		return Statistics{}, errViewers
	}
	s := Statistics{Window: w, To: time.Now().UTC().Truncate(time.Millisecond), Self: rt.instance}
	var counted, length time.Duration
	switch w {
	case LastHour:
		counted, s.Step, length = model.MinuteStep, time.Minute, time.Hour
	case LastDay:
		counted, s.Step, length = model.MinuteStep, 15*time.Minute, 24*time.Hour
	case LastWeek:
		counted, s.Step, length = model.HourStep, time.Hour, 7*24*time.Hour
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
	if c.role < RoleOperator && rt.cfg.Accounts {
		for i := range s.Instances {
			s.Instances[i].Addr = ""
		}
	}
	return s, nil
}

var errViewers = refuse(KindForbidden, "forbidden", "Your role may not do this: it is for those who see all runs of the project")

// fill sorts what was read into the buckets.
func (s *Statistics) fill(read *model.Stats) {
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
	s.Running, s.Queued, s.Waiting, s.Instances = read.Running, read.Queued, read.Waiting, read.Instances
}

// RollUp adds what runs came to since its last call to the sums that Statistics reads. It should be called every few seconds.
func (rt *Runtime) RollUp(ctx context.Context, now time.Time) error {
	if rt.cfg.Counter == nil {
		return nil
	}
	_, err := rt.cfg.Counter.RollUp(ctx, now)
	return err
}
