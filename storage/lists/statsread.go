package lists

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/rows"
	"github.com/batonrun/baton/storage/sqldb"
)

const (
	selectBuckets = `
SELECT at, data FROM stats_buckets WHERE project_id = ? AND step = ? AND at >= ? AND at <= ? ORDER BY at LIMIT ?`

	selectEndedOfProject = endedColumns + ` WHERE project_id = ? ORDER BY key LIMIT ?`
	selectCallsOfProject = callColumns + ` WHERE project_id = ? ORDER BY key LIMIT ?`

	selectOpenOfStatus = `
SELECT ` + rows.HeadColumns + ` FROM runs WHERE project_id = ? AND status = ? ORDER BY created_at, key LIMIT ?`

	selectOldestQuestion = `
SELECT q.created_at FROM interrupts q` + ofProject + whereOpen + ` ORDER BY q.key LIMIT 1`

	selectInstances = `
SELECT id, addr, fenced, ended, started_at, leased_until FROM instances ORDER BY started_at DESC, id LIMIT 20`
)

const (
	maxWaiting = 50_000 // rows that wait for RollUp
	maxBuckets = 2_000
)

// Stats returns statistics of a project's runs: see [data.Counter].
func (c Counter) Stats(ctx context.Context, project string, step time.Duration, from, now time.Time) (s data.Stats, err error) {
	err = c.read.Snapshot(ctx, func(q sqldb.Querier) (err error) {
		s, err = stats(ctx, q, project, step, from, now)
		return err
	})
	for i := range s.Instances {
		in := &s.Instances[i]
		in.SeenAt = in.SeenAt.Add(-time.Duration(c.w.Lease()) * time.Millisecond)
		if in.SeenAt.Before(in.StartedAt) {
			in.SeenAt = in.StartedAt
		}
	}
	return s, err
}

func stats(ctx context.Context, q sqldb.Querier, project string, step time.Duration, from, now time.Time) (s data.Stats, err error) {
	s.Tallies = make(map[time.Time]*data.Tally)
	type counted struct {
		at   time.Time
		data string
	}
	buckets, err := sqldb.All(ctx, q, func(rows *sql.Rows) (c counted, err error) {
		return sqldb.Scan(rows, &c, sqldb.Into(&c.at), &c.data)
	}, selectBuckets, project, int(step.Seconds()), sqldb.Time(from.Truncate(step)), sqldb.Time(now), maxBuckets)
	if err != nil {
		return s, err
	}
	for _, b := range buckets {
		t := new(data.Tally)
		if err := json.Unmarshal([]byte(b.data), t); err != nil {
			return s, err
		}
		s.Tallies[b.at] = t
	}
	var elsewhere data.Tally // before from or after now
	at := func(at time.Time) *data.Tally {
		if at = at.Truncate(step); at.Before(from.Truncate(step)) || at.After(now) {
			return &elsewhere
		}
		if s.Tallies[at] == nil {
			s.Tallies[at] = new(data.Tally)
		}
		return s.Tallies[at]
	}
	if err := countWaiting(ctx, q, project, at, &s); err != nil {
		return s, err
	}
	return s, current(ctx, q, project, at, &s)
}

// countWaiting adds the rows that wait for RollUp.
func countWaiting(ctx context.Context, q sqldb.Querier, project string, at func(time.Time) *data.Tally, s *data.Stats) error {
	ended, err := sqldb.All(ctx, q, scanEnded, selectEndedOfProject, project, maxWaiting+1)
	if err != nil {
		return err
	}
	calls, err := sqldb.All(ctx, q, scanCall, selectCallsOfProject, project, maxWaiting+1)
	if err != nil {
		return err
	}
	s.Counting = max(len(ended), len(calls)) > maxWaiting
	for i := range ended {
		ended[i].Count(at)
	}
	for i := range calls {
		calls[i].Count(at)
	}
	return nil
}

// current adds the runs that have not ended, and the instances.
func current(ctx context.Context, q sqldb.Querier, project string, at func(time.Time) *data.Tally, s *data.Stats) (err error) {
	for status, of := range map[data.Status]*data.StatusCount{data.Running: &s.Running, data.Queued: &s.Queued, data.Waiting: &s.Waiting} {
		heads, err := sqldb.All(ctx, q, rows.ScanHead, selectOpenOfStatus, project, string(status), sqldb.MaxCount)
		if err != nil {
			return err
		}
		of.Runs = len(heads)
		for i := range heads {
			if h := &heads[i]; of.Since.IsZero() || h.QueuedAt.Before(of.Since) {
				of.Since = h.QueuedAt
			}
			data.CountOpen(&heads[i], at)
		}
	}
	s.Waiting.Since, err = sqldb.One(ctx, q, sqldb.Scalar[time.Time], selectOldestQuestion, project)
	if err != nil && !errors.Is(err, data.ErrNotFound) {
		return err
	}
	s.Instances, err = sqldb.All(ctx, q, func(rows *sql.Rows) (in data.InstanceState, err error) {
		var fenced bool
		err = rows.Scan(&in.ID, &in.Addr, &fenced, &in.End, sqldb.Into(&in.StartedAt), sqldb.Into(&in.SeenAt))
		in.Serving = !fenced
		return in, err
	}, selectInstances)
	return err
}
