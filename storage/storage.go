// Package storage stores Baton's threads, runs and events in SQLite or PostgreSQL: it implements data.Store over sqlx. Only
// this package and those below it have SQL. It knows neither agents nor transports, and does not parse events. Several instances may write a
// PostgreSQL database at the same time.
//
// # Exactly once
//
// The first statement of a commit moves the instance's commit number from n-1 to n, if the instance is not fenced. When the
// connection breaks before the answer to COMMIT arrives, the outcome is unknown and the caller commits the same batch again. The
// first statement then waits for the lock of the instance's row, and so until the earlier transaction has ended. Either it matches
// (that transaction was rolled back, and the batch is written now) or it does not (that transaction was committed). So no insert is
// tried twice. The same row is the fence: setting fenced takes the row's lock, and after that no commit of the instance succeeds.
//
// On SQLite, where one process writes, a commit of events alone only reads the fence and does not write the number: numbers in
// between are counted in memory. When its outcome is unknown, the database is searched for the first event of the commit.
//
// # Events
//
// One row has the events that one commit appends to one run: the range of their ids, and a line for each event. Under load a commit
// has several events of each run, and a row of twenty costs as much as a row of one. Rows older than an hour are sealed into
// compressed segments (see [DB.Seal]).
//
// # Runs
//
// An answer is stored in the log, in a message, a step and the run: each where it is read. A node has a row of its own only
// when its latest step does not imply its state.
package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"runtime"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/eventlog"
	"github.com/batonrun/baton/storage/lists"
	"github.com/batonrun/baton/storage/members"
	"github.com/batonrun/baton/storage/rows"
	"github.com/batonrun/baton/storage/sqldb"
	"github.com/batonrun/baton/storage/sqlite"
)

// Config says which database to open and how. Only URL is required.
type Config struct {
	// URL is sqlite:PATH or postgres://user:password@host/database?sslmode=…, with lib/pq's parameters.
	URL string
	// Serve acquires the lock of a SQLite database, which one server can hold.
	Serve bool
	// Addr is the address that the lock shows to others (see admin.LockHolder). Join replaces it.
	Addr string
	// Migrate creates the database or upgrades its schema first. On PostgreSQL it waits while an instance serves the database whose
	// program cannot go on after that.
	Migrate bool
	// Readers is the maximum number of connections for reading. Default 8.
	Readers int
	// Timeout limits each statement on PostgreSQL; a third of Lease limits those that write. A connection on a silent
	// network, or to a program that stands still, fails after twice that time, or five seconds later. Default 30 s.
	Timeout time.Duration
	// LockTimeout bounds each wait for another transaction, which then fails with ErrUnavailable. On PostgreSQL half the bound of
	// a statement that writes bounds it too. Default 10 s.
	LockTimeout time.Duration
	// Lease is how long an instance of a PostgreSQL database must be seen silent before another fences it. Default [DefaultLease].
	Lease time.Duration
	// ConnectTimeout bounds the opening of a PostgreSQL connection. Default 10 s.
	ConnectTimeout time.Duration
	// Name is the name of an instance which its successor has too, such as that of a pod; empty for none.
	Name string
	// Log receives failures that no caller can receive. Default: none.
	Log *slog.Logger

	migrations fs.FS // of the database that URL names
}

func (c Config) withDefaults() Config {
	c.Readers = cmp.Or(max(c.Readers, 0), 8)
	c.Timeout = cmp.Or(max(c.Timeout, 0), 30*time.Second)
	c.LockTimeout = cmp.Or(max(c.LockTimeout, 0), 10*time.Second)
	c.Lease = cmp.Or(max(c.Lease, 0), DefaultLease)
	c.ConnectTimeout = cmp.Or(max(c.ConnectTimeout, 0), 10*time.Second)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// DefaultLease is the default of Config.Lease.
const DefaultLease = 6 * time.Second

// DB is an open database. Reads may be called concurrently; writes run one at a time.
type DB struct {
	*rows.Reader // by keys
	*rows.Logs

	Registry    *members.Registry
	Counter     lists.Counter
	Accounts    Accounts
	Attachments Attachments
	Retention   Retention

	cfg     Config
	d       *sqldb.DB
	beside  beside
	commits *committer
	project *project
	w       sqldb.Writer
	read    *sqldb.Pool
	looks   *sqldb.Pool // at the queue; on SQLite it is read
	codec   *eventlog.Codec
	watcher *members.Watcher
	lock    *sqlite.Lock // nil unless cfg.Serve on SQLite
}

var _ data.Store = (*DB)(nil)

// Open connects to the database and checks its schema. It fails with ErrLocked when cfg.Serve is set and another server serves the
// database, and with ErrSchema when the database must be migrated first.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	cfg, d, err := cfg.database()
	if err != nil {
		return nil, err
	}
	db := &DB{cfg: cfg, d: d, watcher: members.NewWatcher(cfg.member(d))}
	if err := db.open(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func (db *DB) open(ctx context.Context) (err error) {
	if db.lock, err = lockFile(db.cfg, db.d); err != nil {
		return err
	}
	if err := checkDatabase(ctx, db.d); err != nil {
		return err
	}
	if db.lock != nil {
		warnOfNetwork(db.cfg)
	}
	if db.cfg.Migrate {
		if err := db.migrate(ctx); err != nil {
			return err
		}
	}
	if db.w.Pool, err = db.d.Open(sqldb.Writing); err != nil {
		return err
	}
	if db.read, err = db.d.Open(sqldb.Reading); err != nil {
		return err
	}
	if db.looks = db.read; !db.d.Single {
		if db.looks, err = db.d.Open(sqldb.Looking); err != nil {
			return err
		}
	}
	if db.codec, err = eventlog.NewCodec(); err != nil {
		return err
	}
	var pages sqldb.Turns
	if db.d.Single { // this process does the work, with each large event several times in memory
		pages = sqldb.TurnsOf(max(2, runtime.GOMAXPROCS(0)))
	}
	db.Reader = rows.NewReader(db.d, db.read, db.looks)
	db.Logs = rows.NewLogs(db.d, db.read, db.codec, pages)
	db.project = &project{
		&lookups{read: db.read}, (*rows.Project)(db.Reader), lists.NewPages(db.d, db.read, sqldb.TurnsOf(max(db.cfg.Readers/4, 1))),
	}
	db.commits = &committer{
		w: members.NewWriter(db.cfg.member(db.d), &db.w, db.lock), cfg: db.cfg, d: db.d, rows: rows.NewCommits(db.codec),
	}
	db.Registry = members.NewRegistry(db.commits.w, db.read, db.watcher, db.commits.joins, db.commits.prepareDays)
	b := beside{db.commits.w, db.read}
	db.beside, db.Accounts, db.Attachments, db.Counter = b, Accounts{b}, Attachments{b}, lists.NewCounter(b.w, b.read)
	db.Retention = Retention{b, db.cfg, db.codec}
	if err := checkSessions(ctx, db.w.Pool, db.read); err != nil {
		return err
	}
	if err := db.Ping(ctx); err != nil || db.lock == nil {
		return err
	}
	db.w.Lock()
	defer db.w.Unlock()
	if err := mark(ctx, &db.w, db.read); err != nil { // a safeguard, which a full disk does without
		db.cfg.Log.Warn("the database could not be marked as this server's", "error", err)
	}
	return nil
}

// checkDatabase fails if a database is not one for Baton's tables, or cannot be written. It writes nothing.
func checkDatabase(ctx context.Context, d *sqldb.DB) error {
	as, check := sqldb.Writing, checkPostgres
	if d.Single { // opening a file to write changes it
		as, check = sqldb.Reading, checkSQLite
	}
	p, err := d.Open(as)
	if errors.Is(err, ErrSchema) { // there is no file
		return nil
	}
	if err != nil {
		return err
	}
	defer p.Close()
	return check(ctx, p)
}

// migrate is Migrate for a database that Open opens.
func (db *DB) migrate(ctx context.Context) error {
	switch {
	case !db.d.Single:
		return migrateInTurn(ctx, db.cfg, db.d)
	case db.lock == nil:
		return lockAndMigrate(ctx, db.cfg, db.d)
	}
	return migrate(ctx, db.cfg, db.d, nil)
}

// ByProject returns the reads of a project.
func (db *DB) ByProject() data.ByProject { return db.project }

// Queue returns the queue.
func (db *DB) Queue() data.Queue { return (*rows.Queue)(db.Reader) }

// Budgets returns the use of budgets.
func (db *DB) Budgets() data.Budgets { return db.Counter }

// Members returns the instances.
func (db *DB) Members() data.Members { return db.Registry }

// Schema returns the version of the schema of this program.
func (db *DB) Schema() int64 { return db.cfg.schemaVersion() }

// Shared reports whether other instances may write the database at the same time.
func (db *DB) Shared() bool { return !db.d.Single }

// Close closes the connections and releases the lock. It waits for a running commit. It merges the WAL of a SQLite database into its
// file.
func (db *DB) Close() error {
	db.w.Lock()
	defer db.w.Unlock()
	if db.w.Closed() {
		return nil
	}
	var errs []error
	if db.read != nil {
		errs = append(errs, db.read.Close())
	}
	if db.looks != nil && db.looks != db.read {
		errs = append(errs, db.looks.Close())
	}
	db.leaveNoWAL()
	errs = append(errs, db.w.Close())
	errs = append(errs, db.watcher.Close())
	if db.codec != nil {
		db.codec.Close()
	}
	return errors.Join(append(errs, db.lock.Close())...)
}

// CheckURL fails if no database can have this URL. It connects to nothing.
func CheckURL(url string) error {
	_, d, err := Config{URL: url}.database()
	if err != nil || d.Single {
		return err
	}
	p, err := d.Open(sqldb.Reading)
	if err != nil {
		return err
	}
	return p.Close()
}

// database returns the database that the URL names, and the Config with defaults.
func (c Config) database() (Config, *sqldb.DB, error) {
	c = c.withDefaults()
	d, err := sqldb.New(sqldb.Config{
		URL: c.URL, Readers: c.Readers, Writers: 2 + chunksWritten, Timeout: c.Timeout, LockTimeout: c.LockTimeout, ConnectTimeout: c.ConnectTimeout,
		WriteTimeout: max(c.Lease/3, time.Second), // a slow commit does not renew the lease
		Words:        slices.Concat(lists.Words, rows.Words), Guards: rows.Guards,
	})
	if err == nil && c.migrations == nil {
		c.migrations = migrationsOf(d.Name)
	}
	return c, d, err
}

func (c Config) member(d *sqldb.DB) members.Config {
	return members.Config{
		DB: d, URL: c.URL, Name: c.Name, Lease: c.Lease, Schema: c.schemaVersion(), CheckSchema: c.checkSchema, Log: c.Log,
	}
}

// beside reads, and writes beside the commits.
type beside struct {
	w    *members.Writer
	read *sqldb.Pool
}

// change writes in a transaction of its own.
func (b beside) change(ctx context.Context, write func(*sqldb.Tx) error) error {
	b.w.Session.Lock()
	defer b.w.Session.Unlock()
	if b.w.Session.Closed() {
		return fmt.Errorf("%w: it is closed", data.ErrUnavailable)
	}
	return b.w.Transact(ctx, write)
}

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
	return members.Servers(ctx, reads, nil)
}

var (
	// ErrSchema means that the database has no schema, or not the one this program needs.
	ErrSchema = data.ErrSchema

	// ErrLocked means that another server has the SQLite database.
	ErrLocked = sqlite.ErrLocked

	// ErrDamaged means that the pages of the database do not fit together.
	ErrDamaged = data.ErrDamaged
)

// Passes reports whether opening a database may succeed later without a change of it: see [data.Passes].
func Passes(err error) bool { return data.Passes(err) }
