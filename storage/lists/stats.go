package lists

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/members"
	"github.com/batonrun/baton/storage/rows"
	"github.com/batonrun/baton/storage/sqldb"
)

// The commit that ends a run inserts a row into ended_runs, and the commit of a model call inserts one into model_calls. RollUp
// adds the rows to the buckets and deletes them, in one transaction: so each row counts once, whenever a server dies. With it the runs
// that have ended get their terms: see terms.go.

const (
	endedColumns = `
SELECT key, run_key, project_id, agent, status, code, first_generation, created_at, begun_at, finished_at FROM ended_runs`

	callColumns = `
SELECT key, project_id, user_id, agent, at, calls, cost, usage FROM model_calls`

	lockEnded = endedColumns + ` WHERE key > ? ORDER BY key LIMIT ? FOR UPDATE`
	lockCalls = callColumns + ` WHERE key > ? ORDER BY key LIMIT ? FOR UPDATE`

	deleteEnded = `
DELETE FROM ended_runs WHERE key = ANY (?)`

	deleteCalls = `
DELETE FROM model_calls WHERE key = ANY (?)`

	selectBucket = `
SELECT data FROM stats_buckets WHERE project_id = ? AND step = ? AND at = ?`

	upsertBucket = `
INSERT INTO stats_buckets (project_id, step, at, data)
VALUES (?::text, ?::bigint, ?::timestamptz, ?::text)
ON CONFLICT (project_id, step, at) DO UPDATE SET data = excluded.data`

	forgetBuckets = `
DELETE FROM stats_buckets WHERE (project_id, step, at) IN (
	SELECT project_id, step, at FROM stats_buckets WHERE step = ? AND at < ? ORDER BY at LIMIT ?)`
)

// rolledUpAtOnce is how many rows of each table one transaction adds to the buckets at most: commits wait for it.
const rolledUpAtOnce = 100

// ended is a row of ended_runs.
type ended struct {
	key int64
	data.RunEnded
}

func scanEnded(rows *sql.Rows) (e ended, err error) {
	return sqldb.Scan(rows, &e, &e.key, &e.RunKey, &e.Project, &e.Agent, &e.Status, &e.Code, &e.First, sqldb.Into(&e.CreatedAt),
		sqldb.Into(&e.BegunAt), sqldb.Into(&e.FinishedAt))
}

// call is a row of model_calls.
type call struct {
	key int64
	data.CallUsage
}

func scanCall(rows *sql.Rows) (c call, err error) {
	return sqldb.Scan(rows, &c, &c.key, &c.Project, &c.User, &c.Agent, sqldb.Into(&c.At), &c.Calls, &c.Cost, sqldb.Into(&c.Usage))
}

// Counter has the statistics of runs, the usage of model calls, and the use of budgets.
type Counter struct {
	w    *members.Writer
	read *sqldb.Pool
}

var (
	_ data.Counter = Counter{}
	_ data.Ledger  = Counter{}
)

// NewCounter returns the Counter of a database. It writes beside the commits.
func NewCounter(w *members.Writer, read *sqldb.Pool) Counter { return Counter{w, read} }

// RollUp adds the rows that were inserted since its last call to the buckets: see [data.Counter].
func (c Counter) RollUp(ctx context.Context, now time.Time) (n int, err error) {
	err = members.InTurns(ctx, func() (more bool, err error) {
		some := 0
		err = c.w.Aside(ctx, func(tx *sqldb.Tx) error {
			over, err := sqldb.All(ctx, tx, scanEnded, lockEnded, 0, rolledUpAtOnce)
			if err != nil {
				return err
			}
			calls, err := sqldb.All(ctx, tx, scanCall, lockCalls, 0, rolledUpAtOnce)
			if err != nil {
				return err
			}
			runs := make([]int64, len(over))
			for i := range over {
				runs[i] = over[i].RunKey
			}
			indexed, err := rows.IndexTerms(tx, runs)
			if err != nil {
				return err
			}
			more, some = max(len(over), len(calls)) == rolledUpAtOnce || indexed < len(over), indexed+len(calls)
			sums, overKeys, callKeys := make(tallies), []int64(nil), []int64(nil)
			for i := range over[:indexed] {
				sums.add(over[i].Project, over[i].Count)
				overKeys = append(overKeys, over[i].key)
			}
			for i := range calls {
				sums.add(calls[i].Project, calls[i].Count)
				callKeys = append(callKeys, calls[i].key)
			}
			return cmp.Or(sums.write(tx), addUsage(tx, calls), deleteRows(tx, deleteEnded, overKeys), deleteRows(tx, deleteCalls, callKeys))
		})
		if err == nil {
			n += some
		}
		return more, err
	})
	if err != nil || n == 0 { // old sums are removed once there are new ones
		return n, err
	}
	_, err = c.w.Tidy(ctx, forgetBuckets, int(data.MinuteStep.Seconds()), sqldb.Time(now.Add(-data.MinutesKept)))
	_, hours := c.w.Tidy(ctx, forgetBuckets, int(data.HourStep.Seconds()), sqldb.Time(now.Add(-data.HoursKept)))
	_, days := c.w.Tidy(ctx, forgetUsage, sqldb.Time(now.Add(-data.UsageKept)))
	_, raises := c.w.Tidy(ctx, forgetRaises, sqldb.Time(now.Add(-data.UsageKept)))
	return n, errors.Join(err, hours, days, raises)
}

func deleteRows(tx *sqldb.Tx, query string, keys []int64) error {
	if len(keys) == 0 {
		return nil
	}
	return tx.Exec(query, tx.DB.List(keys))
}

// bucket is the key of a row of stats_buckets.
type bucket struct {
	project string
	step    time.Duration
	at      time.Time
}

// tallies are sums to be added to buckets.
type tallies map[bucket]*data.Tally

// add has count add a row of a project to its buckets.
func (ts tallies) add(project string, count func(at func(time.Time) *data.Tally)) {
	for _, step := range []time.Duration{data.MinuteStep, data.HourStep} {
		count(func(at time.Time) *data.Tally {
			b := bucket{project, step, at.Truncate(step)}
			if ts[b] == nil {
				ts[b] = new(data.Tally)
			}
			return ts[b]
		})
	}
}

func (ts tallies) write(tx *sqldb.Tx) error {
	for b, t := range ts {
		if err := addTo(tx, b, t); err != nil {
			return err
		}
	}
	return nil
}

func addTo(tx *sqldb.Tx, b bucket, t *data.Tally) error {
	step := int(b.step.Seconds())
	was, err := sqldb.One(tx.Context(), tx, sqldb.Scalar[string], selectBucket, b.project, step, sqldb.Time(b.at))
	if err != nil && !errors.Is(err, data.ErrNotFound) {
		return err
	}
	if err == nil {
		var sum data.Tally
		if err := json.Unmarshal([]byte(was), &sum); err != nil {
			return tx.Fail(err)
		}
		sum.Add(t)
		t = &sum
	}
	return tx.Exec(upsertBucket, b.project, step, sqldb.Time(b.at), sqldb.JSON(t))
}

const (
	selectBuckets = `
SELECT at, data FROM stats_buckets WHERE project_id = ? AND step = ? AND at >= ? AND at <= ? ORDER BY at LIMIT ?`

	selectEndedOfProject = endedColumns + ` WHERE project_id = ? ORDER BY key LIMIT ?`
	selectCallsOfProject = callColumns + ` WHERE project_id = ? ORDER BY key LIMIT ?`

	selectOpenOfStatus = `
SELECT ` + rows.HeadColumns + ` FROM runs
WHERE project_id = ? AND status = ? AND (status = 'WAITING' AND owner_instance <> '') = ? ORDER BY created_at, key LIMIT ?`

	selectOldestQuestion = `
SELECT q.created_at FROM interrupts q WHERE q.project_id = ? AND q.status = 'open' ORDER BY q.key LIMIT 1`

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
	for of, status := range map[*data.StatusCount]data.Status{&s.Running: data.Running, &s.Queued: data.Queued, &s.Waiting: data.Waiting, &s.Parked: data.Waiting} {
		heads, err := sqldb.All(ctx, q, rows.ScanHead, selectOpenOfStatus, project, string(status), of == &s.Parked, sqldb.MaxCount)
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
