package members

import (
	"context"
	"database/sql"
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

// Tell stores the joined instance's description of itself, on the connection of the watcher: see [data.Members].
func (r *Registry) Tell(ctx context.Context, s *data.Server) error {
	if r.w.cfg.DB.Single {
		return nil
	}
	w := r.watcher
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

// Servers returns the instances that may write: see [data.Members].
func (r *Registry) Servers(ctx context.Context, known []string) ([]data.Server, error) {
	return Servers(ctx, r.read, known)
}

// Servers returns the servers of a PostgreSQL database that may write.
func Servers(ctx context.Context, read *sqldb.Pool, known []string) ([]data.Server, error) {
	if read.DB.Single {
		return nil, nil
	}
	return sqldb.All(ctx, read, func(rows *sql.Rows) (s data.Server, err error) {
		return sqldb.Scan(rows, &s, &s.Instance, &s.Addr, sqldb.Into(&s.StartedAt), sqldb.Into(&s.SeenAt), &s.Draining, &s.About, &s.Hash, &s.Load)
	}, selectServers, read.DB.List(known))
}
