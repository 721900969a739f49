package lists

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
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

// countable is a row of ended_runs or model_calls.
type countable struct {
	key     int64
	run     int64 // that has ended
	project string
	count   func(at func(time.Time) *data.Tally)
}

func scanEnded(rows *sql.Rows) (c countable, err error) {
	var e data.RunEnded
	err = rows.Scan(&c.key, &c.run, &e.Project, &e.Agent, &e.Status, &e.Code, &e.First, sqldb.Into(&e.CreatedAt), sqldb.Into(&e.BegunAt),
		sqldb.Into(&e.FinishedAt))
	c.project, c.count = e.Project, e.Count
	return c, err
}

// call is a row of model_calls.
type call struct {
	key int64
	data.CallUsage
}

func scanCall(rows *sql.Rows) (c call, err error) {
	return sqldb.Scan(rows, &c, &c.key, &c.Project, &c.User, &c.Agent, sqldb.Into(&c.At), &c.Calls, &c.Cost, sqldb.Into(&c.Usage))
}

func (c *call) countable() countable {
	return countable{key: c.key, project: c.Project, count: c.Count}
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
			ended, err := sqldb.All(ctx, tx, scanEnded, lockEnded, 0, rolledUpAtOnce)
			if err != nil {
				return err
			}
			used, err := sqldb.All(ctx, tx, scanCall, lockCalls, 0, rolledUpAtOnce)
			if err != nil {
				return err
			}
			calls := make([]countable, len(used))
			for i := range used {
				calls[i] = used[i].countable()
			}
			runs := make([]int64, len(ended))
			for i := range ended {
				runs[i] = ended[i].run
			}
			indexed, err := rows.IndexTerms(tx, runs)
			if err != nil {
				return err
			}
			more = max(len(ended), len(calls)) == rolledUpAtOnce || indexed < len(ended)
			ended = ended[:indexed]
			some = len(ended) + len(calls)
			return cmp.Or(tally(tx, slices.Concat(ended, calls)), addUsage(tx, used), deleteRows(tx, deleteEnded, ended), deleteRows(tx, deleteCalls, calls))
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

func deleteRows(tx *sqldb.Tx, query string, list []countable) error {
	if len(list) == 0 {
		return nil
	}
	keys := make([]int64, len(list))
	for i := range list {
		keys[i] = list[i].key
	}
	return tx.Exec(query, tx.DB.List(keys))
}

// bucket is the key of a row of stats_buckets.
type bucket struct {
	project string
	step    time.Duration
	at      time.Time
}

// tally adds rows to their buckets.
func tally(tx *sqldb.Tx, list []countable) error {
	buckets := make(map[bucket]*data.Tally)
	for i := range list {
		for _, step := range []time.Duration{data.MinuteStep, data.HourStep} {
			list[i].count(func(at time.Time) *data.Tally {
				b := bucket{list[i].project, step, at.Truncate(step)}
				if buckets[b] == nil {
					buckets[b] = new(data.Tally)
				}
				return buckets[b]
			})
		}
	}
	for b, t := range buckets {
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
