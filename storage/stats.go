package storage

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/model"
)

// What the runs of a project came to is counted beside them, exactly once, and what begins and ends writes nothing for it:
//
//   - Runs get keys that rise. Those up to the mark are counted when they are over; RollUp moves the mark on, and keeps
//     those that are not over yet in stats_open. A run that is in there is counted, and leaves it, when it is over.
//   - A run may be inserted under a key that the mark has passed, because its key was taken earlier. RollUp says how
//     far it will go before it looks (DB.counting), and who inserts a run below that puts it into stats_open.
//   - A run that is over is counted before a restart makes it another generation, which is put into stats_open with the
//     tokens that were counted, and before it is deleted, in the transaction of that.
//
// So clocks, and the order in which runs end, do not matter, and a RollUp that fails or is killed has counted nothing.

const (
	countedColumns = `r.key, r.project_id, r.workflow_id, r.status, r.generation, r.answered, r.error, r.usage, opened.usage,
	r.created_at, r.queued_at, r.started_at, r.finished_at`

	thatAreOver = `r.status IN ('COMPLETED', 'FAILED', 'CANCELLED')`

	selectStatsMark = `
SELECT run_key FROM stats_mark WHERE id = 1`

	lockStatsMark = selectStatsMark + ` FOR UPDATE`

	moveStatsMark = `
UPDATE stats_mark SET run_key = ? WHERE id = 1`

	selectNextKeys = `
SELECT key FROM runs WHERE key > ? ORDER BY key LIMIT ?`

	selectUncounted = `
SELECT ` + countedColumns + `
FROM (SELECT key FROM runs WHERE key > ? AND key <= ? ORDER BY key LIMIT ?) AS page
JOIN runs r ON r.key = page.key
LEFT JOIN stats_open opened ON opened.run_key = r.key
ORDER BY r.key`

	// Those that are over by now, of those that were not when the mark passed them.
	selectEndedSince = `
SELECT ` + countedColumns + `
FROM (SELECT run_key, usage FROM stats_open WHERE run_key > ? AND run_key <= ? ORDER BY run_key LIMIT ?) AS opened
JOIN runs r ON r.key = opened.run_key
ORDER BY opened.run_key`

	// Those that are over and not counted yet, of some.
	selectOverOfSome = `
SELECT ` + countedColumns + `
FROM runs r LEFT JOIN stats_open opened ON opened.run_key = r.key
WHERE r.key = ANY (?) AND ` + thatAreOver + ` AND (opened.run_key IS NOT NULL OR r.key > ?)
ORDER BY r.key`

	selectOverAgain = `
SELECT r.key, r.project_id, r.usage FROM runs r WHERE r.key = ANY (?) AND ` + thatAreOver + ` ORDER BY r.key`

	insertOpen = `
INSERT INTO stats_open (run_key, project_id, usage)
VALUES (?::bigint, ?::text, ?::text)
ON CONFLICT (run_key) DO NOTHING`

	putOpenAgain = `
INSERT INTO stats_open (run_key, project_id, usage)
VALUES (?::bigint, ?::text, ?::text)
ON CONFLICT (run_key) DO UPDATE SET usage = excluded.usage`

	deleteOpen = `
DELETE FROM stats_open WHERE run_key = ANY (?)`

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

// countedAtOnce is how many runs one transaction counts: commits wait for it.
const countedAtOnce = 1000

var _ model.Counter = (*DB)(nil)

func scanCounted(rows *sql.Rows) (c model.Counted, err error) {
	err = rows.Scan(&c.Key, &c.Project, &c.Agent, &c.Status, &c.Generation, &c.Answered, jsonInto{&c.Error}, jsonInto{&c.Usage},
		jsonInto{&c.Before}, timeInto{&c.CreatedAt}, timeInto{&c.QueuedAt}, timePtrInto{&c.StartedAt}, timePtrInto{&c.FinishedAt})
	return c, err
}

// RollUp counts what is over and not counted yet: see [model.Counter].
func (db *DB) RollUp(ctx context.Context, now time.Time) (n int, err error) {
	if db.joined() == "" {
		return 0, nil // it cannot know what the one that writes is about to
	}
	for {
		counted, more, err := db.rollUpSome(ctx)
		if n += counted; err != nil {
			return n, err
		}
		if !more {
			break
		}
	}
	if err := db.endedSince(ctx, &n); err != nil {
		return n, err
	}
	return n, errors.Join(
		db.tidy(ctx, forgetBuckets, int(model.MinuteStep.Seconds()), ms(now.Add(-model.MinutesKept))),
		db.tidy(ctx, forgetBuckets, int(model.HourStep.Seconds()), ms(now.Add(-model.HoursKept))))
}

// rollUpSome moves the mark over some runs, and reports whether there may be more.
func (db *DB) rollUpSome(ctx context.Context) (n int, more bool, err error) {
	mark, err := one(ctx, db.read, scalar[int64], selectStatsMark)
	if err != nil {
		return 0, false, err
	}
	next, err := all(ctx, db.read, scalar[int64], selectNextKeys, mark, countedAtOnce)
	if err != nil || len(next) == 0 {
		return 0, false, err
	}
	to := next[len(next)-1]
	changes := db.announce(to)
	list, err := all(ctx, db.read, scanCounted, selectUncounted, mark, to, 2*countedAtOnce)
	if err != nil {
		return 0, false, err
	}
	if len(list) == 2*countedAtOnce { // those that came meanwhile are many
		to = list[len(list)-1].Key
	}
	done, err := db.count(ctx, list, changes, func(tx *tx) (bool, error) {
		if at, err := one(tx.ctx, tx, scalar[int64], lockStatsMark); err != nil || at != mark {
			return false, err
		}
		for i := range list {
			if c := &list[i]; !c.Status.Final() {
				if err := tx.exec(insertOpen, c.Key, c.Project, nil); err != nil {
					return false, err
				}
			}
		}
		return true, tx.exec(moveStatsMark, to)
	})
	if err == nil && done {
		n = len(list)
	}
	return n, len(next) == countedAtOnce || !done, err
}

// announce says how far the mark is about to go, and returns how often something was counted.
func (db *DB) announce(to int64) int64 {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.counting = max(db.counting, to)
	return db.counts
}

// endedSince counts those that are over by now, of those that were not when the mark passed them.
func (db *DB) endedSince(ctx context.Context, n *int) error {
	mark, err := one(ctx, db.read, scalar[int64], selectStatsMark)
	if err != nil {
		return err
	}
	for after := int64(0); ; {
		changes := db.announce(0)
		list, err := all(ctx, db.read, scanCounted, selectEndedSince, after, mark, countedAtOnce)
		if err != nil || len(list) == 0 {
			return err
		}
		last := list[len(list)-1].Key
		list = slices.DeleteFunc(list, func(c model.Counted) bool { return !c.Status.Final() })
		if len(list) > 0 {
			done, err := db.count(ctx, list, changes, func(*tx) (bool, error) { return true, nil })
			if err != nil {
				return err
			}
			if !done {
				continue
			}
			*n += len(list)
		}
		after = last
	}
}

// count counts those of the runs that are over, in one transaction with what more does, unless more reports false or something
// was counted since that was asked for: what was read may be no longer so. It reports whether it has.
func (db *DB) count(ctx context.Context, list []model.Counted, changes int64, more func(*tx) (bool, error)) (done bool, err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.counts != changes {
		return false, nil
	}
	db.counts++ // whoever has read the same must not count it, too
	err = db.tidyUp(ctx, func(tx *tx) error {
		done, err = more(tx)
		if err != nil || !done {
			return err
		}
		return tx.tally(list)
	})
	return done && err == nil, err
}

// bucket is where something is counted.
type bucket struct {
	project string
	step    time.Duration
	at      time.Time
}

// tally adds those of the runs that are over to their buckets.
func (tx *tx) tally(list []model.Counted) error {
	buckets := make(map[bucket]*model.Tally)
	var over []int64
	for i := range list {
		c := &list[i]
		if !c.Status.Final() {
			continue
		}
		over = append(over, c.Key)
		for _, step := range []time.Duration{model.MinuteStep, model.HourStep} {
			model.Count(c, func(at time.Time) *model.Tally {
				b := bucket{c.Project, step, at.Truncate(step)}
				if buckets[b] == nil {
					buckets[b] = new(model.Tally)
				}
				return buckets[b]
			}, nil)
		}
	}
	if len(over) == 0 {
		return nil
	}
	order := make([]bucket, 0, len(buckets))
	for b := range buckets {
		order = append(order, b)
	}
	slices.SortFunc(order, func(a, b bucket) int {
		return cmp.Or(cmp.Compare(a.project, b.project), cmp.Compare(a.step, b.step), a.at.Compare(b.at))
	})
	for _, b := range order {
		if err := tx.addTo(b, buckets[b]); err != nil {
			return err
		}
	}
	return tx.exec(deleteOpen, tx.d.list(over))
}

func (tx *tx) addTo(b bucket, t *model.Tally) error {
	step := int(b.step.Seconds())
	was, err := one(tx.ctx, tx, scalar[string], selectBucket, b.project, step, ms(b.at))
	if err != nil && !errors.Is(err, model.ErrNotFound) {
		return err
	}
	if err == nil {
		var sum model.Tally
		if err := json.Unmarshal([]byte(was), &sum); err != nil {
			return tx.fail(err)
		}
		sum.Add(t)
		t = &sum
	}
	return tx.exec(upsertBucket, b.project, step, ms(b.at), jsonOf(t))
}

// countLate sees to it that runs are counted whose keys the mark has passed, or is about to.
func (tx *tx) countLate(runs []model.Run) {
	for i := range runs {
		if r := &runs[i]; r.Key <= tx.db.counting && tx.err == nil {
			_ = tx.exec(insertOpen, r.Key, r.Project, nil)
		}
	}
}

// countRestarted counts the generations of runs that are over and about to begin another.
func (tx *tx) countRestarted(heads []model.RunHead) error {
	var keys []int64
	for i := range heads {
		if h := &heads[i]; h.Status == model.Queued && h.Generation > 1 && !h.Answered {
			keys = append(keys, h.Key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	type again struct {
		key     int64
		project string
		usage   sql.NullString
	}
	list, err := all(tx.ctx, tx, func(rows *sql.Rows) (a again, err error) {
		err = rows.Scan(&a.key, &a.project, &a.usage)
		return a, err
	}, selectOverAgain, tx.d.list(keys))
	if err != nil || len(list) == 0 {
		return err
	}
	keys = keys[:0]
	for _, a := range list {
		keys = append(keys, a.key)
	}
	if err := tx.countGone(keys); err != nil {
		return err
	}
	for _, a := range list {
		var usage any
		if a.usage.Valid {
			usage = a.usage.String
		}
		if err := tx.exec(putOpenAgain, a.key, a.project, usage); err != nil {
			return err
		}
	}
	return nil
}

// countGone counts those of some runs that are over, before they are gone.
func (tx *tx) countGone(keys []int64) error {
	tx.db.counts++
	mark, err := one(tx.ctx, tx, scalar[int64], lockStatsMark)
	if err != nil {
		return err
	}
	list, err := all(tx.ctx, tx, scanCounted, selectOverOfSome, tx.d.list(keys), mark)
	if err != nil {
		return err
	}
	if err := tx.tally(list); err != nil {
		return err
	}
	return tx.exec(deleteOpen, tx.d.list(keys))
}
