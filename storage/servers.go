package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
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
	if c.d.Single {
		return nil
	}
	w := c.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pool == nil || w.joined == "" {
		return nil // it has not joined: nobody needs to know
	}
	if len(s.About) > 0 {
		if _, err := w.pool.Exec(ctx, tellAbout, string(s.About), s.Hash, w.joined); err != nil {
			return fmt.Errorf("tell about: %w", err)
		}
	}
	if len(s.Load) > 0 {
		if _, err := w.pool.Exec(ctx, tellLoad, string(s.Load), w.joined); err != nil {
			return fmt.Errorf("tell load: %w", err)
		}
	}
	return nil
}

// Servers returns the instances that may write: see [data.Store].
func (r keyed) Servers(ctx context.Context, known []string) ([]data.Server, error) {
	if r.d.Single {
		return nil, nil
	}
	return servers(ctx, r.d, r.q, known)
}

func servers(ctx context.Context, d *sqldb.DB, q sqldb.Querier, known []string) ([]data.Server, error) {
	return sqldb.All(ctx, q, func(rows *sql.Rows) (s data.Server, err error) {
		err = rows.Scan(&s.Instance, &s.Addr, sqldb.Into(&s.StartedAt), sqldb.Into(&s.SeenAt), &s.Draining, &s.About, &s.Hash, &s.Load)
		return s, err
	}, selectServers, d.List(known))
}

// Schema returns the version of the schema of this program.
func (db *DB) Schema() int64 { return db.cfg.schemaVersion() }

// Cluster returns the servers of a PostgreSQL database, for programs that are none of them.
func Cluster(ctx context.Context, cfg Config) (list []data.Server, err error) {
	_, d, err := cfg.database()
	if err != nil || d.Single {
		return nil, err
	}
	reads, err := d.Open(sqldb.Reading)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, reads.Close()) }()
	return servers(ctx, d, reads, nil)
}
