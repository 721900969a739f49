package storage

import (
	"context"
	"fmt"
	"time"

	"github.com/batonrun/baton/runtime/janitor"
	"github.com/batonrun/baton/storage/sqldb"
)

// PostgreSQL has a partition of events for each day (by the time of commit), which is dropped once its events are
// sealed. Partitions are created ahead of time. Without one, events go to events_default.

const (
	// Instances that create partitions at once wait for each other.
	lockPartitions = `
SELECT pg_advisory_xact_lock(hashtext('baton event partitions'))`

	partitionExists = `
SELECT to_regclass(?) IS NOT NULL`

	// A partition cannot be created once events of its day are stored in events_default.
	hasStray = `
SELECT EXISTS (SELECT 1 FROM events_default WHERE committed_at >= ? AND committed_at < ?)`

	createPartition = `
CREATE TABLE %[1]s (LIKE events INCLUDING ALL) WITH (toast_tuple_target = 8160)`

	// Unlike CREATE TABLE … PARTITION OF, attaching a partition does not block readers and writers.
	attachPartition = `
ALTER TABLE events ATTACH PARTITION %[1]s FOR VALUES FROM ('%[2]s') TO ('%[3]s')`
)

const (
	selectPartitions = `
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'events'::regclass AND c.relname <> 'events_default'
ORDER BY c.relname`

	partitionHasUnsealed = `
SELECT EXISTS (
	SELECT 1 FROM %[1]s e JOIN threads t ON t.key = e.thread_key WHERE e.last_event_id > t.sealed_to)`

	dropPartition = `
DROP TABLE %[1]s`

	// Dropping a partition blocks all access to events for a moment, and also while it waits for its lock.
	waitShortly = `
SET LOCAL lock_timeout = '1s'`

	// deleteStray deletes events without a partition that are older than all partitions.
	deleteStray = `
DELETE FROM events_default WHERE (thread_key, last_event_id, committed_at) IN (
	SELECT e.thread_key, e.last_event_id, e.committed_at FROM events_default e JOIN threads t ON t.key = e.thread_key
	WHERE e.last_event_id <= t.sealed_to AND e.committed_at < ?
	LIMIT ?)`
)

const (
	partitionFormat = "events_20060102"
	boundFormat     = "2006-01-02 15:04:05Z07:00"
)

// prepareDays creates the partitions of today and tomorrow unless this process has done so. Events must be written even
// if it fails, so it only logs the failure and tries again a minute later. The caller holds the lock.
func (c *committer) prepareDays(ctx context.Context) {
	if c.d.Single || time.Now().Before(c.prepared) {
		return
	}
	var today time.Time
	err := c.w.Transact(ctx, func(tx *sqldb.Tx) (err error) {
		if today, err = sqldb.Now(ctx, tx); err != nil {
			return err
		}
		today = today.Truncate(24 * time.Hour)
		if err := tx.Exec(lockPartitions); err != nil {
			return err
		}
		for n := range 2 {
			if err := createDay(tx, today.AddDate(0, 0, n)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		c.cfg.Log.Warn("cannot create the partitions of events", "error", err)
		c.prepared = time.Now().Add(time.Minute)
		return
	}
	// It creates the next partition an hour after the latest one has begun, by either clock.
	c.prepared = today.Add(25 * time.Hour)
}

// createDay creates a day's partition, unless it exists or events of the day are stored without one: then the next day has one again.
func createDay(tx *sqldb.Tx, day time.Time) error {
	name, next := day.Format(partitionFormat), day.AddDate(0, 0, 1)
	exists, err := sqldb.One(tx.Context(), tx, sqldb.Scalar[bool], partitionExists, name)
	if err != nil || exists {
		return err
	}
	stray, err := sqldb.One(tx.Context(), tx, sqldb.Scalar[bool], hasStray, day, next)
	if err != nil || stray {
		return err
	}
	if err := tx.Define(fmt.Sprintf(createPartition, name)); err != nil {
		return err
	}
	return tx.Define(fmt.Sprintf(attachPartition, name, day.Format(boundFormat), next.Format(boundFormat)))
}

// dropDays drops partitions of past days whose events are all sealed, oldest first, so that the unsealed events of a
// thread are always its last ones.
func (r Retention) dropDays(ctx context.Context) error {
	names, err := sqldb.All(ctx, r.read, sqldb.Scalar[string], selectPartitions)
	if err != nil {
		return err
	}
	for _, name := range names {
		day, err := time.Parse(partitionFormat, name)
		if err != nil {
			return fmt.Errorf("partition %s of events: %w", name, err)
		}
		dropped, err := r.dropDay(ctx, name, day)
		if err != nil {
			return fmt.Errorf("drop %s: %w", name, err)
		}
		if !dropped {
			_, err := r.w.Tidy(ctx, deleteStray, day)
			return err
		}
		if err := janitor.Yield(ctx); err != nil {
			return err
		}
	}
	return nil
}

// dropDay drops a past day's partition if all its events are sealed. That check is slow, so it runs before commits are
// blocked. It stays valid: a past day gets no new events by the clock that assigns days, and sealed events stay sealed.
// The check of the day is repeated, as the clock may have been set back.
func (r Retention) dropDay(ctx context.Context, name string, day time.Time) (dropped bool, err error) {
	if over, err := isOver(ctx, r.read, day); err != nil || !over {
		return false, err
	}
	var unsealed bool
	switch err := r.read.SQL.QueryRowContext(ctx, fmt.Sprintf(partitionHasUnsealed, name)).Scan(&unsealed); {
	case sqldb.IsUndefinedTable(err): // another instance has dropped it
		return true, nil
	case err != nil:
		return false, r.read.Failed(ctx, err)
	case unsealed:
		return false, nil
	}
	err = r.w.Aside(ctx, func(tx *sqldb.Tx) error {
		if err := tx.Define(waitShortly); err != nil {
			return err
		}
		if err := tx.Exec(lockPartitions); err != nil {
			return err
		}
		exists, err := sqldb.One(ctx, tx, sqldb.Scalar[bool], partitionExists, name)
		if err != nil || !exists { // another instance has dropped it
			dropped = !exists
			return err
		}
		if dropped, err = isOver(ctx, tx, day); err != nil || !dropped {
			return err
		}
		return tx.Define(fmt.Sprintf(dropPartition, name))
	})
	return dropped && err == nil, err
}

// isOver reports whether a day ended an hour ago by the database's clock.
func isOver(ctx context.Context, q sqldb.Querier, day time.Time) (bool, error) {
	now, err := sqldb.Now(ctx, q)
	return err == nil && now.After(day.AddDate(0, 0, 1).Add(sealAge)), err
}
