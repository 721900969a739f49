package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/batonrun/baton/storage/sqldb"
	"github.com/batonrun/baton/storage/sqlite"
)

const (
	selectSQLiteVersion = `
SELECT sqlite_version()`

	selectServerVersion = `
SELECT current_setting('server_version')`

	selectClock = `
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint`

	selectQueueUsage = `
SELECT pg_notification_queue_usage()`

	// selectSnapshots reads the old transactions that keep PostgreSQL from removing rows. One that has neither read nor written does not.
	selectSnapshots = `
SELECT pid, COALESCE(usename, ''), COALESCE(application_name, ''), COALESCE(host(client_addr), ''), xact_start
FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
	AND xact_start < clock_timestamp() - interval '5 minutes'
ORDER BY xact_start LIMIT 10`
)

// Report is the result of Inspect. Fields that do not apply are zero.
type Report struct {
	Software string // the database's, with its version
	Exists   bool   // there is a SQLite file, or a PostgreSQL database answers
	Schema   int64  // the version of its schema, 0 for none
	Wanted   int64  // that of this program
	Keys     bool   // it has the schema that is wanted, and an API key that is good
	Unread   bool   // the search of a SQLite file for damage took too long

	Dir       string // of the SQLite file
	Size, WAL int64  // of the SQLite file and of its WAL, in bytes
	Held      bool   // a server has the SQLite database
	Holder    string // where it listens, if it says so

	Skew      time.Duration // how far PostgreSQL's clock is ahead of this machine's
	Queue     float64       // how full PostgreSQL's queue of notifications is, up to 1
	Snapshots []Snapshot    // the oldest in the PostgreSQL database
}

// Snapshot is a transaction that has had a snapshot of a PostgreSQL database for more than five minutes.
type Snapshot struct {
	PID                     int
	User, Application, Addr string // Addr is empty for a local client
	Since                   time.Time
}

// Inspect examines a database without changing it, also while a server has it. An error says why a server could not
// use it; the report then has the results so far. An older schema is no error. This process must not have a SQLite file open, except as its server.
func Inspect(ctx context.Context, cfg Config) (r Report, err error) {
	cfg, d, err := cfg.database()
	if err != nil {
		return r, err
	}
	r.Wanted = cfg.schemaVersion()
	if !d.Single {
		if err := checkDatabase(ctx, d); err != nil {
			return r, err
		}
		reads, err := d.Open(sqldb.Reading)
		if err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, reads.Close()) }()
		err = r.examine(ctx, cfg, reads)
		return r, err
	}
	path, err := sqlite.Path(cfg.URL)
	if err != nil {
		return r, err
	}
	for {
		if err := r.file(path); err != nil || !r.Exists {
			return r, err
		}
		err := r.examineFile(ctx, path, cfg, d)
		if _, held, _ := sqlite.Holder(path); err == nil || held == r.Held {
			return r, err
		} // else a server has come or gone meanwhile, and with it what was read
	}
}

// examineFile is examine for a SQLite file, in whose pages it looks for damage. It reads the file beside a server as SQLite does, otherwise as
// it lies there.
func (r *Report) examineFile(ctx context.Context, path string, cfg Config, d *sqldb.DB) (err error) {
	var done func() error
	p := &sqldb.Pool{DB: d}
	if r.Held {
		if p, err = d.Open(sqldb.Reading); err == nil {
			done = p.Close
		}
	} else {
		p.SQL, done, err = sqlite.View(path)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	if err := checkSQLite(ctx, p); err != nil {
		return err
	}
	if err := r.examine(ctx, cfg, p); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, pagesTime)
	defer cancel()
	err = sqlite.CheckPages(limited, p.SQL)
	if limited.Err() != nil && ctx.Err() == nil {
		r.Unread, err = true, nil
	}
	return err
}

// pagesTime bounds the search for damage, during which the WAL of a server grows.
const pagesTime = 10 * time.Second

// examine reads the state of the database.
func (r *Report) examine(ctx context.Context, cfg Config, p *sqldb.Pool) error {
	if err := errors.Join(r.software(ctx, p), r.activity(ctx, p)); err != nil {
		return err
	}
	r.Exists = true
	err := cfg.checkSchema(ctx, p)
	if errors.Is(err, ErrSchema) && !errors.Is(err, errOtherSchema) {
		err = nil
	}
	if v, readErr := sqldb.One(ctx, p, sqldb.Scalar[int64], selectVersion); readErr == nil {
		r.Schema = v
	}
	if err == nil && r.Schema >= r.Wanted {
		r.Keys, err = hasKeys(ctx, p)
	}
	return err
}

// hasKeys looks for an API key that is good.
func hasKeys(ctx context.Context, q sqldb.Querier) (bool, error) {
	const page = 100
	now := time.Now()
	for after := ""; ; {
		list, err := sqldb.All(ctx, q, scanAPIKey, listAPIKeys, after, page)
		if err != nil {
			return false, err
		}
		for i := range list {
			if list[i].Good(now) {
				return true, nil
			}
		}
		if len(list) < page {
			return false, nil
		}
		after = list[len(list)-1].ID
	}
}

// file examines a SQLite file and its companions.
func (r *Report) file(path string) (err error) {
	if r.Dir, err = filepath.Abs(filepath.Dir(path)); err != nil {
		return err
	}
	if r.Holder, r.Held, err = sqlite.Holder(path); err != nil {
		return fmt.Errorf("look at the lock: %w", err)
	}
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	r.Exists, r.Size = true, info.Size()
	if wal, err := os.Stat(path + "-wal"); err == nil {
		r.WAL = wal.Size()
	}
	return errors.Join(sqlite.CheckAccess(path), sqlite.CheckWAL(path, false))
}

// software reads the database's version, and PostgreSQL's time.
func (r *Report) software(ctx context.Context, q *sqldb.Pool) (err error) {
	if q.DB.Single {
		if r.Software, err = sqldb.One(ctx, q, sqldb.Scalar[string], selectSQLiteVersion); err != nil {
			return err
		}
		r.Software = "SQLite " + r.Software
		return nil
	}
	if r.Software, err = sqldb.One(ctx, q, sqldb.Scalar[string], selectServerVersion); err != nil {
		return err
	}
	r.Software = "PostgreSQL " + r.Software
	before := time.Now()
	at, err := sqldb.One(ctx, q, sqldb.Scalar[int64], selectClock)
	if err != nil {
		return err
	}
	took := time.Since(before)
	r.Skew = time.UnixMilli(at).Sub(before.Add(took / 2)).Round(time.Millisecond)
	return nil
}

// activity reads how other sessions of PostgreSQL affect all.
func (r *Report) activity(ctx context.Context, q *sqldb.Pool) (err error) {
	if q.DB.Single {
		return nil
	}
	if r.Queue, err = sqldb.One(ctx, q, sqldb.Scalar[float64], selectQueueUsage); err != nil {
		return err
	}
	r.Snapshots, err = sqldb.All(ctx, q, func(rows *sql.Rows) (s Snapshot, err error) {
		return sqldb.Scan(rows, &s, &s.PID, &s.User, &s.Application, &s.Addr, sqldb.Into(&s.Since))
	}, selectSnapshots)
	return err
}
