package storage

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/batonrun/baton/runtime/model"
)

const (
	selectBuckets = `
SELECT at, data FROM stats_buckets WHERE project_id = ? AND step = ? AND at >= ? AND at <= ? ORDER BY at LIMIT ?`

	// selectTail reads what is behind the mark, of all projects: it is little.
	selectTail = `
SELECT ` + countedColumns + `
FROM (SELECT key FROM runs WHERE key > ? ORDER BY key LIMIT ?) AS page
JOIN runs r ON r.key = page.key
LEFT JOIN stats_open opened ON opened.run_key = r.key
WHERE r.project_id = ?
ORDER BY r.key`

	countTail = `
SELECT count(*) FROM (SELECT 1 FROM runs WHERE key > ? LIMIT ?) AS counted`

	selectStillOpen = `
SELECT ` + countedColumns + `
FROM (SELECT run_key, usage FROM stats_open WHERE project_id = ? AND run_key <= ? ORDER BY run_key LIMIT ?) AS opened
JOIN runs r ON r.key = opened.run_key
ORDER BY opened.run_key`

	selectStatus = `
SELECT count(*), min(queued_at)
FROM (SELECT queued_at FROM runs WHERE project_id = ? AND status = ? ORDER BY created_at, key LIMIT ?) AS counted`

	selectOldestQuestion = `
SELECT q.created_at FROM interrupts q` + ofProject + whereOpen + ` ORDER BY q.key LIMIT 1`

	selectInstances = `
SELECT id, addr, fenced, ended, started_at, leased_until FROM instances ORDER BY started_at DESC, id LIMIT 20`
)

const (
	maxTail    = 50_000 // runs behind the mark
	maxBuckets = 2_000
)

// Stats returns what the runs of a project came to: see [model.Counter].
func (db *DB) Stats(ctx context.Context, project string, step time.Duration, from, now time.Time) (s model.Stats, err error) {
	err = db.snapshot(ctx, func(q querier) (err error) {
		s, err = stats(ctx, q, project, step, from, now)
		return err
	})
	for i := range s.Instances {
		in := &s.Instances[i]
		in.SeenAt = in.SeenAt.Add(-db.cfg.Lease)
		if in.SeenAt.Before(in.StartedAt) {
			in.SeenAt = in.StartedAt
		}
	}
	return s, err
}

func stats(ctx context.Context, q querier, project string, step time.Duration, from, now time.Time) (s model.Stats, err error) {
	s.Tallies = make(map[time.Time]*model.Tally)
	type counted struct {
		at   time.Time
		data string
	}
	buckets, err := all(ctx, q, func(rows *sql.Rows) (c counted, err error) {
		err = rows.Scan(timeInto{&c.at}, &c.data)
		return c, err
	}, selectBuckets, project, int(step.Seconds()), ms(from.Truncate(step)), ms(now), maxBuckets)
	if err != nil {
		return s, err
	}
	for _, b := range buckets {
		t := new(model.Tally)
		if err := json.Unmarshal([]byte(b.data), t); err != nil {
			return s, err
		}
		s.Tallies[b.at] = t
	}
	if err := countTheRest(ctx, q, project, step, from, now, &s); err != nil {
		return s, err
	}
	return s, standing(ctx, q, project, &s)
}

// countTheRest adds what is not counted yet.
func countTheRest(ctx context.Context, q querier, project string, step time.Duration, from, now time.Time, s *model.Stats) error {
	mark, err := one(ctx, q, scalar[int64], selectStatsMark)
	if err != nil {
		return err
	}
	n, err := one(ctx, q, scalar[int], countTail, mark, maxTail+1)
	if err != nil {
		return err
	}
	s.Counting = n > maxTail
	tail, err := all(ctx, q, scanCounted, selectTail, mark, maxTail, project)
	if err != nil {
		return err
	}
	open, err := all(ctx, q, scanCounted, selectStillOpen, project, mark, maxTail+1)
	if err != nil {
		return err
	}
	if len(open) > maxTail {
		s.Counting = true
	}
	var elsewhere model.Tally // before the time that is asked for, or after now
	for _, list := range [][]model.Counted{tail, open} {
		for i := range list {
			model.Count(&list[i], func(at time.Time) *model.Tally {
				if at = at.Truncate(step); at.Before(from.Truncate(step)) || at.After(now) {
					return &elsewhere
				}
				if s.Tallies[at] == nil {
					s.Tallies[at] = new(model.Tally)
				}
				return s.Tallies[at]
			}, &s.Open)
		}
	}
	return nil
}

// standing tells what goes on.
func standing(ctx context.Context, q querier, project string, s *model.Stats) (err error) {
	for status, of := range map[model.Status]*model.StatusCount{model.Running: &s.Running, model.Queued: &s.Queued, model.Waiting: &s.Waiting} {
		*of, err = one(ctx, q, func(rows *sql.Rows) (c model.StatusCount, err error) {
			var since *time.Time
			err = rows.Scan(&c.Runs, timePtrInto{&since})
			if since != nil {
				c.Since = *since
			}
			return c, err
		}, selectStatus, project, string(status), maxCount)
		if err != nil {
			return err
		}
	}
	s.Waiting.Since, err = one(ctx, q, scanTime, selectOldestQuestion, project)
	if err != nil && !errors.Is(err, model.ErrNotFound) {
		return err
	}
	s.Instances, err = all(ctx, q, func(rows *sql.Rows) (in model.InstanceState, err error) {
		var fenced bool
		err = rows.Scan(&in.ID, &in.Addr, &fenced, &in.End, timeInto{&in.StartedAt}, timeInto{&in.SeenAt})
		in.Serving = !fenced
		return in, err
	}, selectInstances)
	return err
}

// snapshot calls fn with what reads the database as it is at one moment.
func (db *DB) snapshot(ctx context.Context, fn func(querier) error) error {
	conn, err := db.read.Connx(ctx)
	if err != nil {
		return db.d.explained(ctx, err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, db.d.beginRead); err != nil {
		return db.d.explained(ctx, err)
	}
	defer func() {
		if _, err := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK"); err != nil {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // nobody is to meet the transaction again
		}
	}()
	return fn(moment{conn, db.d})
}

// moment is the querier of a snapshot.
type moment struct {
	conn *sqlx.Conn
	d    *dialect
}

func (m moment) query(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	return m.conn.QueryContext(ctx, m.d.statement(query, plain), args...)
}

func (m moment) failed(ctx context.Context, err error) error { return m.d.explained(ctx, err) }
