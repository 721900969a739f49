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

// Counter has the statistics of runs and the usage of model calls.
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

// tallies are what is to be added to buckets.
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
