package main

import (
	"context"
	"database/sql"
	"errors"
	"time"

	_ "github.com/lib/pq" // the driver
)

// database is the PostgreSQL database of the servers, to measure its work.
type database struct {
	*sql.DB

	server int // pid of PostgreSQL, if it runs on this machine
}

func openDatabase(ctx context.Context, url string) (*database, error) {
	pool, err := sql.Open("postgres", url)
	if err != nil {
		return nil, err
	}
	db := &database{DB: pool}
	var backend int
	if err := db.QueryRowContext(ctx, `SELECT pg_backend_pid()`).Scan(&backend); err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	db.server = parent(backend)
	return db, nil
}

// cpu returns the CPU time of PostgreSQL's processes, 0 if it runs elsewhere.
func (db *database) cpu() time.Duration { return familyCPU(db.server) }

// waits is how often a session of the database was found waiting for a lock, of all looks at the sessions.
type waits struct{ found, looks float64 }

// countWaits looks at the sessions a hundred times a second until ctx is done.
func (db *database) countWaits(ctx context.Context) (w waits, err error) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return w, nil
		case <-tick.C:
		}
		n := 0
		err := db.QueryRow(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n)
		if err != nil {
			return w, err
		}
		w.looks++
		if n > 0 {
			w.found++
		}
	}
}

// transactions returns how many transactions of the database have ended.
func (db *database) transactions(ctx context.Context) (n float64, err error) {
	err = db.QueryRowContext(ctx, `SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()`).Scan(&n)
	return n, err
}
