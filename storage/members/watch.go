package members

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

const (
	// lookAtInstances reads the instances that may write, in the transaction of a write: where writing fails, all
	// instances stand still and none is fenced for it.
	lookAtInstances = `
WITH looked AS (
	INSERT INTO servers (instance, name, schema, seen_at) VALUES (?, ?, ?, clock_timestamp())
	ON CONFLICT (instance) DO UPDATE SET seen_at = excluded.seen_at)
SELECT id, addr, process, commit_no, (extract(epoch FROM leased_until) * 1000000)::bigint, leased_until <= clock_timestamp(), started_at,
	COALESCE(schema, 0), COALESCE(draining, FALSE), COALESCE(name, '')
FROM instances LEFT JOIN servers ON instance = id WHERE NOT fenced LIMIT 1000`

	// drainServer finds a server that has looked at the others a moment ago, and does not drain.
	drainServer = `
WITH me AS (UPDATE servers SET draining = TRUE, seen_at = clock_timestamp() WHERE instance = ?)
SELECT EXISTS (
	SELECT 1 FROM instances JOIN servers ON instance = id
	WHERE NOT fenced AND id <> ? AND NOT draining AND seen_at > clock_timestamp() - interval '3 seconds')`

	// fenceSilent fences an instance whose row is as it was seen, unless a transaction has locked it.
	fenceSilent = `
WITH silent AS (
	SELECT id FROM instances
	WHERE id = ? AND NOT fenced AND commit_no = ? AND (extract(epoch FROM leased_until) * 1000000)::bigint = ?
	FOR UPDATE SKIP LOCKED)
UPDATE instances SET fenced = TRUE, ended = ? FROM silent WHERE instances.id = silent.id`

	// endSessions ends the transactions of an instance. The timeouts of PostgreSQL do not end a session that waits for its
	// client to read.
	endSessions = `
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = ? AND datname = current_database()`
)

// sessionName is the application_name of the sessions in which an instance writes.
func sessionName(instance string) string { return "baton " + instance }

// longestLook is how long a look may take, and how long after the last one it may end.
const longestLook = 3 * time.Second

// sighting is the row of an instance that may write.
type sighting struct {
	id, addr, process string
	commit, leased    int64 // these change with each sign of life
	expired           bool  // by the database's clock
	started           time.Time
	schema            int64 // the last migration that its program knows
	draining          bool
	name              string
}

// look has the instances as a watcher has seen them at one moment, in a transaction that writes.
type look struct {
	began, ended time.Time
	rows         []sighting
}

// watch judges by successive looks which instances have died. An instance that stands still for a whole lease has died, by the
// watcher's monotonic clock. A gap between looks says nothing about the instances: the database was away, or the watcher
// itself was stopped. An instance that another one of its name has succeeded dies sooner.
type watch struct {
	lease time.Duration
	ended time.Time // of the last look
	seen  map[string]still
}

// still is an instance's row since it last changed.
type still struct {
	commit, leased int64
	since          time.Time
}

// succeeded is how long an instance stands still until it has died, once another instance of its name has started.
const succeeded = 3 * time.Second

// silent is an instance that has died. Its sessions are ended if one has kept the row locked for another lease.
type silent struct {
	sighting
	locked bool
}

// add adds a look. It returns the instances that have died, and whether one of the last look is gone.
func (w *watch) add(l look) (dead []silent, gone bool) {
	if l.ended.Sub(l.began) > longestLook {
		return nil, false
	}
	last := w.seen
	if l.ended.Sub(w.ended) > longestLook {
		last = nil
	}
	seen, newest := make(map[string]still, len(l.rows)), make(map[string]time.Time)
	for _, row := range l.rows {
		s, ok := last[row.id]
		if !ok || s.commit != row.commit || s.leased != row.leased {
			s = still{row.commit, row.leased, l.ended}
		}
		seen[row.id] = s
		if row.started.After(newest[row.name]) {
			newest[row.name] = row.started
		}
	}
	for _, row := range l.rows {
		d := l.began.Sub(seen[row.id].since)
		if d >= w.lease && row.expired || d >= 3*w.lease || d >= succeeded && row.name != "" && row.started.Before(newest[row.name]) { // the database's clock may have been set back
			dead = append(dead, silent{row, d >= 2*w.lease})
		}
	}
	for id := range w.seen {
		if _, ok := seen[id]; !ok {
			gone = true
		}
	}
	w.ended, w.seen = l.ended, seen
	return dead, gone
}

// Watcher watches the instances of a PostgreSQL database on a connection of its own, and fences those that have died.
type Watcher struct {
	cfg Config

	mu     sync.Mutex  // guards the fields below
	pool   *sqldb.Pool // nil until the first look
	joined string      // the instance of this process, once it has joined
	watch  watch
}

// NewWatcher returns a Watcher, which connects when it looks first.
func NewWatcher(cfg Config) *Watcher {
	return &Watcher{cfg: cfg, watch: watch{lease: cfg.Lease}}
}

// Elapse has the instances stand still for d, as seen in an unbroken chain of looks, so that tests do not wait for leases. It returns whether
// the look after it counted: not if the machine stood still.
func (w *Watcher) Elapse(d time.Duration) (counted func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	chain := time.Now().Add(longestLook)
	w.watch.ended = chain
	for id, s := range w.watch.seen {
		s.since = s.since.Add(-d)
		w.watch.seen[id] = s
	}
	return func() bool { return w.watch.ended != chain }
}

// instance returns the instance of this process.
func (w *Watcher) instance() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.joined
}

// joins records that this process has joined as an instance.
func (w *Watcher) joins(instance string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.joined = instance
}

// look looks once at the instances and fences those that have died. It returns the others that may write, and whether one
// that could write at the last look cannot any more, or drains. It fails with ErrFenced when this process has joined and may not write
// any more: then it must not judge others. The caller holds mu.
func (w *Watcher) look(ctx context.Context, instance string) (others []sighting, gone bool, err error) {
	if w.pool == nil {
		if w.pool, err = w.cfg.DB.Open(sqldb.Writing); err != nil {
			return nil, false, err
		}
	}
	l := look{began: time.Now()}
	l.rows, err = sqldb.All(ctx, w.pool.Unprepared(), func(rows *sql.Rows) (s sighting, err error) {
		return sqldb.Scan(rows, &s, &s.id, &s.addr, &s.process, &s.commit, &s.leased, &s.expired, sqldb.Into(&s.started), &s.schema, &s.draining, &s.name)
	}, lookAtInstances, instance, w.cfg.Name, w.cfg.Schema)
	if err != nil {
		return nil, false, err
	}
	l.ended = time.Now()
	here := w.joined == ""
	for _, row := range l.rows {
		here = here || row.id == w.joined
	}
	if !here {
		return nil, false, data.ErrFenced
	}
	dead, gone := w.watch.add(l)
	verdicts := make(map[string]silent, len(dead))
	for _, d := range dead {
		verdicts[d.id] = d
	}
	for _, row := range l.rows {
		d, died := verdicts[row.id]
		if !died && ended(row.process) {
			d, died = silent{row, true}, true
		}
		switch {
		case row.id == instance:
			continue
		case died:
			fenced, err := w.fence(ctx, &d)
			if err != nil {
				return nil, false, err
			}
			if fenced {
				gone = true
				continue
			}
			row.expired = true
		}
		gone = gone || row.draining
		others = append(others, row)
	}
	return others, gone, nil
}

// fence fences an instance that has died and ends its sessions. It reports false for one whose row is locked, or has changed.
func (w *Watcher) fence(ctx context.Context, d *silent) (bool, error) {
	end := func() error {
		_, err := w.pool.Exec(ctx, endSessions, sessionName(d.id))
		return err
	}
	if d.locked {
		if err := end(); err != nil {
			return false, err
		}
	}
	if n, err := w.pool.Exec(ctx, fenceSilent, d.id, d.commit, d.leased, string(data.EndCrashed)); err != nil || n == 0 {
		return false, err
	}
	w.cfg.Log.Warn("a server has died: it has not renewed its lease, or its process has ended", "instance", d.id, "addr", d.addr)
	return true, end()
}

// Free looks once at the instances, before one joins or for a program that is none, and fences those that have died. It fails with a
// *data.HeldError for the first of the others that hinders, by the last migration that its program knows.
func (w *Watcher) Free(ctx context.Context, instance string, hinders func(schema int64) bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.joined = ""
	others, _, err := w.look(ctx, instance)
	if err != nil {
		return err
	}
	for i := range others {
		if o := &others[i]; hinders(o.schema) {
			return &data.HeldError{Instance: o.id, Addr: o.addr, Silent: o.expired}
		}
	}
	return nil
}

// Unused fails with a *data.HeldError while a server uses a PostgreSQL database. The lock of a SQLite database ensures that.
func (r *Registry) Unused(ctx context.Context) error {
	if r.w.cfg.DB.Single {
		return nil
	}
	return r.watcher.Free(ctx, "unused", func(int64) bool { return true })
}

// Close closes the connection.
func (w *Watcher) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pool == nil {
		return nil
	}
	return w.pool.Close()
}

// Watch looks at the other instances: see [data.Members].
func (r *Registry) Watch(ctx context.Context) (data.Watched, error) {
	if r.w.cfg.DB.Single {
		return data.Watched{}, nil
	}
	w := r.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	others, gone, err := w.look(ctx, w.joined)
	if err != nil {
		return data.Watched{}, fmt.Errorf("watch: %w", err)
	}
	return data.Watched{Others: len(others), Gone: gone}, nil
}

// Drain records that the joined instance hands its runs over: see [data.Members].
func (r *Registry) Drain(ctx context.Context) (successor bool, err error) {
	w := r.watcher
	if r.w.cfg.DB.Single {
		return false, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pool == nil || w.joined == "" {
		return false, nil
	}
	successor, err = sqldb.One(ctx, w.pool.Unprepared(), sqldb.Scalar[bool], drainServer, w.joined, w.joined)
	if err != nil {
		return false, fmt.Errorf("drain: %w", err)
	}
	return successor, nil
}
