package storage

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

const (
	// lockInstances lets one instance join at a time.
	lockInstances = `
SELECT pg_advisory_xact_lock(hashtext('baton instances'))`

	insertInstance = `
INSERT INTO instances (id, fenced, addr, commit_no, started_at, leased_until, process, ended)
VALUES (?, FALSE, ?, 0, clock_timestamp(), clock_timestamp() + ? * interval '1 millisecond', ?, '')
ON CONFLICT (id) DO UPDATE SET addr = excluded.addr`

	fenceOthers = `
UPDATE instances SET fenced = TRUE, ended = ? WHERE id <> ? AND NOT fenced`

	insertServer = `
INSERT INTO servers (instance, name, schema, seen_at) VALUES (?, ?, ?, clock_timestamp())
ON CONFLICT (instance) DO NOTHING`

	deleteServers = `
DELETE FROM servers WHERE instance NOT IN (SELECT id FROM instances WHERE NOT fenced)`

	// lockInstance finds the instance if it may write, and keeps others from fencing it.
	lockInstance = `
SELECT id FROM instances WHERE id = ? AND NOT fenced FOR UPDATE`

	fenceInstance = `
UPDATE instances SET fenced = TRUE, ended = ? WHERE id = ? AND NOT fenced`

	renewInstance = `
UPDATE instances SET leased_until = clock_timestamp() + ? * interval '1 millisecond'
WHERE id = ? AND NOT fenced AND commit_no = ?`

	// keepLease is renewInstance without a batch number.
	keepLease = `
UPDATE instances SET leased_until = clock_timestamp() + ? * interval '1 millisecond'
WHERE id = ? AND NOT fenced`

	selectInstance = `
SELECT id, addr, fenced, ended, commit_no, leased_until FROM instances WHERE id = ?`
)

// Join registers this process as a new instance, which Commit writes as from then on: see [data.Store].
func (c *committer) Join(ctx context.Context, instance, addr string) error {
	err := c.cfg.checkSchema(ctx, c.read) // another program may have migrated it since Open
	if err == nil && !c.d.Single {
		err = c.watcher.free(ctx, instance, func(*sighting) bool { return false })
	}
	if err != nil {
		return fmt.Errorf("join: %w", err)
	}
	if err = c.joins(ctx, instance, addr); err != nil {
		return fmt.Errorf("join: %w", err)
	}
	c.watcher.joins(instance)
	return c.SetAddr(addr)
}

func (c *committer) joins(ctx context.Context, instance, addr string) error {
	c.w.Lock()
	defer c.w.Unlock()
	if err := c.transact(ctx, func(tx *sqldb.Tx) error { return c.join(tx, instance, addr) }); err != nil {
		return err
	}
	c.instance, c.w.Name, c.at = instance, sessionName(instance), progress{}
	c.prepareDays(ctx)
	return nil
}

func (c *committer) join(tx *sqldb.Tx, instance, addr string) (err error) {
	if tx.DB.Single { // its server has locked the database: every other instance is dead
		err = tx.Exec(fenceOthers, string(data.EndCrashed), instance)
	} else {
		err = c.joinOthers(tx, instance)
	}
	if err != nil {
		return err
	}
	if err := tx.Exec(insertInstance, instance, addr, c.lease(), thisProcess()); err != nil {
		return err
	}
	return errors.Join(c.threadKeys.count(tx), c.runKeys.count(tx))
}

// joinOthers registers the server of an instance.
func (c *committer) joinOthers(tx *sqldb.Tx, instance string) error {
	if err := tx.Exec(lockInstances); err != nil {
		return err
	}
	if err := c.cfg.checkSchema(tx.Context(), tx); err != nil {
		return err
	}
	if err := cmp.Or(tx.Exec(deleteServers), tx.Exec(deleteReservedOfEnded)); err != nil {
		return err
	}
	return tx.Exec(insertServer, instance, c.cfg.Name, c.watcher.schema)
}

// Fence ends an instance that may write: see [data.Store]. It waits for its running commit.
func (c *committer) Fence(ctx context.Context, instance string) error {
	if err := c.end(ctx, &instance, data.EndFenced); err != nil {
		return fmt.Errorf("fence %s: %w", instance, err)
	}
	return nil
}

// Leave ends the joined instance: see [data.Store].
func (c *committer) Leave(ctx context.Context) error {
	if err := c.end(ctx, &c.instance, data.EndLeft); err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	return nil
}

func (c *committer) end(ctx context.Context, instance *string, how data.End) error {
	c.w.Lock()
	defer c.w.Unlock()
	return c.transact(ctx, func(tx *sqldb.Tx) error { return tx.Exec(fenceInstance, string(how), *instance) })
}

// Renew renews the joined instance's lease: see [data.Store]. SQLite has no leases, so it checks the fence, and seldom writes: see
// outlives.
func (c *committer) Renew(ctx context.Context, n int64) error {
	c.w.Lock()
	defer c.w.Unlock()
	if c.d.Single {
		if err := c.lock.Check(); err != nil {
			return err
		}
		if n != c.at.last {
			return outOfStep(c.at.last, n)
		}
		in, err := readInstance(ctx, c.read, c.instance)
		if err := in.mayFollow(c.at.row, err); err != nil || !c.outlives() {
			return err
		}
		return c.outlived(c.keepLease(ctx))
	}
	return c.transact(ctx, func(tx *sqldb.Tx) error {
		renewed, err := tx.Count(renewInstance, c.lease(), c.instance, n)
		if err != nil || renewed > 0 {
			return err
		}
		in, err := readInstance(ctx, tx, c.instance)
		return in.mayFollow(n, err)
	})
}

// Now returns the database's time.
func (r keyed) Now(ctx context.Context) (time.Time, error) {
	return sqldb.One(ctx, r.q, sqldb.Scalar[time.Time], selectTime)
}

// KeepLease renews the joined instance's lease between two attempts of a batch: see [data.Store].
func (c *committer) KeepLease(ctx context.Context) error {
	if c.d.Single {
		return nil
	}
	c.w.Lock()
	defer c.w.Unlock()
	return c.keepLease(ctx)
}

func (c *committer) keepLease(ctx context.Context) error {
	return c.transact(ctx, func(tx *sqldb.Tx) error { return tx.Exec(keepLease, c.lease(), c.instance) })
}

// Instance returns an instance that has joined at some time.
func (r keyed) Instance(ctx context.Context, id string) (data.Instance, error) {
	in, err := readInstance(ctx, r.q, id)
	in.SeenAt = in.SeenAt.Add(-r.lease)
	return in.Instance, err
}

// instance is an instance's row. Its SeenAt is the end of its lease.
type instance struct {
	data.Instance
	fenced bool
	commit int64
}

func readInstance(ctx context.Context, q sqldb.Querier, id string) (instance, error) {
	return sqldb.One(ctx, q, func(rows *sql.Rows) (in instance, err error) {
		err = rows.Scan(&in.ID, &in.Addr, &in.fenced, &in.End, &in.commit, sqldb.Into(&in.SeenAt))
		return in, err
	}, selectInstance, id)
}

// whyNot says why the instance could not advance to n.
func (c *committer) whyNot(tx *sqldb.Tx, n int64) error {
	in, err := readInstance(tx.Context(), tx, c.instance)
	if err == nil && in.commit == n {
		return errCommitted
	}
	return in.mayFollow(c.before(n), err)
}

// mayFollow returns an error if batch n cannot follow the instance's last one. Err is the error of reading the
// instance.
func (in *instance) mayFollow(n int64, err error) error {
	switch {
	case errors.Is(err, data.ErrNotFound):
		return fmt.Errorf("%w: it is unknown to the database", data.ErrFenced)
	case err != nil:
		return err
	case in.End == data.EndCrashed:
		return fmt.Errorf("%w: it was taken for dead, or silent for longer than its lease lasts", data.ErrFenced)
	case in.fenced:
		return data.ErrFenced
	case in.commit != n:
		return outOfStep(in.commit, n)
	}
	return nil
}

func outOfStep(got, want int64) error {
	return fmt.Errorf("%w: the last commit that the database has is %d and not %d: it has gone back in time, or is another",
		data.ErrFenced, got, want)
}
