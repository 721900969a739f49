package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/batonrun/baton/runtime/data"
)

const (
	tellAbout = `
UPDATE servers SET about = ?, told = ? WHERE instance = ?`

	// tellLoad writes a row of some hundred bytes: a long about is stored apart.
	tellLoad = `
UPDATE servers SET load = ? WHERE instance = ?`

	selectServers = `
SELECT s.instance, i.addr, i.started_at, s.seen_at, s.draining, CASE WHEN s.told = ANY (?) THEN '' ELSE s.about END, s.told, s.load
FROM servers s JOIN instances i ON i.id = s.instance WHERE NOT i.fenced ORDER BY s.instance LIMIT 1000`
)

// Tell stores the joined instance's description of itself, on the connection of the watcher: see [data.Store].
func (c *committer) Tell(ctx context.Context, s *data.Server) error {
	if c.d.single {
		return nil
	}
	w := c.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.db == nil || w.joined == "" {
		return nil // it has not joined: nobody needs to know
	}
	p := &pool{DB: w.db, d: w.d}
	if len(s.About) > 0 {
		if _, err := p.ExecContext(ctx, p.d.statement(tellAbout, plain), string(s.About), s.Hash, w.joined); err != nil {
			return fmt.Errorf("tell about: %w", p.failed(ctx, err))
		}
	}
	if len(s.Load) > 0 {
		if _, err := p.ExecContext(ctx, p.d.statement(tellLoad, plain), string(s.Load), w.joined); err != nil {
			return fmt.Errorf("tell load: %w", p.failed(ctx, err))
		}
	}
	return nil
}

// Servers returns the instances that may write: see [data.Store].
func (r keyed) Servers(ctx context.Context, known []string) ([]data.Server, error) {
	if r.d.single {
		return nil, nil
	}
	return servers(ctx, r.d, r.q, known)
}

func servers(ctx context.Context, d *dialect, q querier, known []string) ([]data.Server, error) {
	return all(ctx, q, func(rows *sql.Rows) (s data.Server, err error) {
		err = rows.Scan(&s.Instance, &s.Addr, timeInto{&s.StartedAt}, timeInto{&s.SeenAt}, &s.Draining, &s.About, &s.Hash, &s.Load)
		return s, err
	}, selectServers, d.list(known))
}

// Schema returns the version of the schema of this program.
func (db *DB) Schema() int64 { return schemaVersion(db.d) }

// Cluster returns the servers of a PostgreSQL database, for programs that are none of them.
func Cluster(ctx context.Context, cfg Config) (list []data.Server, err error) {
	cfg = cfg.withDefaults()
	d, err := dialectOf(cfg.URL)
	if err != nil || d.single {
		return nil, err
	}
	reads, err := d.open(cfg, reading)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, reads.Close()) }()
	return servers(ctx, d, &pool{DB: reads, d: d}, nil)
}
