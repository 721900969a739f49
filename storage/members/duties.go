package members

import (
	"context"
	"errors"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

// One instance of a PostgreSQL database does each kind of background work for all. It has the duty until it leaves or is fenced: its lease as an
// instance is that of its duties, and as no id is given twice, the id is the term. Each transaction of a duty that is no decision checks
// that the duty is still the instance's.

const (
	selectDuty = `
SELECT d.instance FROM duties d JOIN instances i ON i.id = d.instance AND NOT i.fenced WHERE d.name = ?`

	takeDuty = `
INSERT INTO duties (name, instance) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET instance = excluded.instance
WHERE NOT EXISTS (SELECT 1 FROM instances WHERE id = duties.instance AND NOT fenced)`

	leaveDuties = `
DELETE FROM duties WHERE instance = ?`
)

// TakeDuty gives the joined instance a duty that no other has: see [data.Members].
func (r *Registry) TakeDuty(ctx context.Context, name string) (bool, error) {
	if r.w.cfg.DB.Single {
		return true, nil
	}
	r.w.Session.Lock()
	me := r.w.instance
	r.w.Session.Unlock()
	holder, err := sqldb.One(ctx, r.read, sqldb.Scalar[string], selectDuty, name)
	if err == nil || !errors.Is(err, data.ErrNotFound) {
		return err == nil && holder == me, err
	}
	taken := 0
	err = r.w.asInstance(ctx, func(tx *sqldb.Tx) (err error) {
		taken, err = tx.Count(takeDuty, name, r.w.instance)
		return err
	})
	return taken > 0, err
}

// LeaveDuties leaves the joined instance's duties to others: see [data.Members].
func (r *Registry) LeaveDuties(ctx context.Context) error {
	if r.w.cfg.DB.Single {
		return nil
	}
	return r.w.asInstance(ctx, func(tx *sqldb.Tx) error { return tx.Exec(leaveDuties, r.w.instance) })
}
