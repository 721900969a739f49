// Package members is about the processes that write a database: the row of each as an instance, with its lease and its fence, the watch for
// those that have died, their duties, and their notes to each other. It knows nothing of runs.
//
// An instance's row has its commit number, its lease by the database's clock, and the name of its process. The number and the fence decide
// whether it may write. The lease and the process prevent nothing: with them another instance finds out whether this one has died, and then
// fences it. SQLite does not need them, as the lock of the file admits one process.
package members

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

// Config is the database of the members, and how this process is one.
type Config struct {
	DB    *sqldb.DB
	URL   string        // of the database
	Name  string        // which its successor has too; empty for none
	Lease time.Duration // how long an instance must be seen silent before another fences it
	// Schema is the last migration that this program knows. CheckSchema fails unless the database has a schema that suits it.
	Schema      int64
	CheckSchema func(context.Context, sqldb.Querier) error
	Log         *slog.Logger
}

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

	fenceInstance = `
UPDATE instances SET fenced = TRUE, ended = ? WHERE id = ? AND NOT fenced`
)

// Registry has the instances of a database, one of which this process may join as.
type Registry struct {
	w       *Writer
	read    *sqldb.Pool
	watcher *Watcher
	joins   func(*sqldb.Tx) error // runs in the transaction of Join
	joined  func(context.Context) // runs after it, with the session's lock
}

// NewRegistry returns the instances of a database. Nothing of it needs to be closed.
func NewRegistry(w *Writer, read *sqldb.Pool, watcher *Watcher, joins func(*sqldb.Tx) error, joined func(context.Context)) *Registry {
	return &Registry{w, read, watcher, joins, joined}
}

// Join registers this process as a new instance: see [data.Members].
func (r *Registry) Join(ctx context.Context, instance, addr string) error {
	err := r.w.cfg.CheckSchema(ctx, r.read) // another program may have migrated it since Open
	if err == nil && !r.w.cfg.DB.Single {
		err = r.watcher.Free(ctx, instance, func(int64) bool { return false })
	}
	if err == nil {
		err = r.join(ctx, instance, addr)
	}
	if err != nil {
		return fmt.Errorf("join: %w", err)
	}
	r.watcher.joins(instance)
	if err := r.SetAddr(addr); err != nil {
		return err
	}
	r.w.Session.Lock()
	defer r.w.Session.Unlock()
	r.joined(ctx)
	return nil
}

func (r *Registry) join(ctx context.Context, instance, addr string) error {
	r.w.Session.Lock()
	defer r.w.Session.Unlock()
	err := r.w.Transact(ctx, func(tx *sqldb.Tx) (err error) {
		if tx.DB.Single { // its server has locked the database: every other instance is dead
			err = tx.Exec(fenceOthers, string(data.EndCrashed), instance)
		} else {
			err = r.joinOthers(tx, instance)
		}
		if err != nil {
			return err
		}
		return cmp.Or(tx.Exec(insertInstance, instance, addr, r.w.Lease(), thisProcess()), r.joins(tx))
	})
	if err == nil {
		r.w.instance, r.w.Session.Name, r.w.at = instance, sessionName(instance), progress{}
	}
	return err
}

// joinOthers registers the server of an instance.
func (r *Registry) joinOthers(tx *sqldb.Tx, instance string) error {
	if err := tx.Exec(lockInstances); err != nil {
		return err
	}
	if err := r.w.cfg.CheckSchema(tx.Context(), tx); err != nil {
		return err
	}
	return cmp.Or(tx.Exec(deleteServers), tx.Exec(insertServer, instance, r.w.cfg.Name, r.w.cfg.Schema))
}

// SetAddr writes the address of this server into the lock of a SQLite database.
func (r *Registry) SetAddr(addr string) error { return r.w.file.SetAddr(addr) }

// Fence ends an instance that may write: see [data.Members]. It waits for its running commit.
func (r *Registry) Fence(ctx context.Context, instance string) error {
	if err := r.end(ctx, &instance, data.EndFenced); err != nil {
		return fmt.Errorf("fence %s: %w", instance, err)
	}
	return nil
}

// Leave ends the joined instance: see [data.Members].
func (r *Registry) Leave(ctx context.Context) error {
	if err := r.end(ctx, &r.w.instance, data.EndLeft); err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	return nil
}

func (r *Registry) end(ctx context.Context, instance *string, how data.End) error {
	r.w.Session.Lock()
	defer r.w.Session.Unlock()
	return r.w.Transact(ctx, func(tx *sqldb.Tx) error { return tx.Exec(fenceInstance, string(how), *instance) })
}

// KeepLease renews the joined instance's lease between two attempts of a batch: see [data.Members].
func (r *Registry) KeepLease(ctx context.Context) error {
	if r.w.cfg.DB.Single {
		return nil
	}
	r.w.Session.Lock()
	defer r.w.Session.Unlock()
	return r.w.keepLease(ctx)
}

// Renew renews the joined instance's lease: see [data.Members]. SQLite has no leases, so it checks the fence, and seldom writes: see
// outlives.
func (r *Registry) Renew(ctx context.Context, n int64) error {
	w := r.w
	w.Session.Lock()
	defer w.Session.Unlock()
	if w.cfg.DB.Single {
		if err := w.file.Check(); err != nil {
			return err
		}
		if n != w.at.last {
			return outOfStep(w.at.last, n)
		}
		in, err := readInstance(ctx, r.read, w.instance)
		if err := in.mayFollow(w.at.row, err); err != nil || !w.outlives() {
			return err
		}
		return w.outlived(w.keepLease(ctx))
	}
	return w.Transact(ctx, func(tx *sqldb.Tx) error {
		renewed, err := tx.Count(renewInstance, w.Lease(), w.instance, n)
		if err != nil || renewed > 0 {
			return err
		}
		in, err := readInstance(ctx, tx, w.instance)
		return in.mayFollow(n, err)
	})
}

// Instance returns an instance that has joined at some time.
func (r *Registry) Instance(ctx context.Context, id string) (data.Instance, error) {
	in, err := readInstance(ctx, r.read, id)
	in.SeenAt = in.SeenAt.Add(-r.w.cfg.Lease)
	return in.Instance, err
}

// Now returns the database's time.
func (r *Registry) Now(ctx context.Context) (time.Time, error) { return sqldb.Now(ctx, r.read) }
