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

// transactions returns how many transactions of the database have ended.
func (db *database) transactions(ctx context.Context) (n float64, err error) {
	err = db.QueryRowContext(ctx, `SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()`).Scan(&n)
	return n, err
}
