// Package storage keeps Baton's threads, runs and events in SQLite or PostgreSQL: it is model.Store over
// sqlx, and the only package with SQL. It knows nothing of agents or transports and never looks into
// an event but to cut it out of its row.
//
// # Two databases, one text
//
// Every statement is written once, in PostgreSQL's words with ? for parameters; a dialect says the few
// words SQLite has another name for. What differs beyond words (how a connection is opened, how a batch of
// events is inserted, what an error means) is in sqlite.go and postgres.go.
//
// # Exactly once
//
// A commit's first statement moves the instance's commit number from n-1 to n, if the instance is not
// fenced. When the connection breaks before the answer to COMMIT arrives, nobody knows the transaction's
// fate; the caller then makes the same call again, and that statement decides: it needs the lock of the
// instance's row, so it waits until a half-dead earlier transaction has ended one way or the other, and
// then either matches (that one was rolled back: the batch is written now) or does not (it was committed:
// there is nothing to do). No insert is ever tried twice, so there are no duplicates to recognise by
// their key violations and compare. The same row is the fence: who sets fenced has the lock too, and after
// that no commit of the instance can succeed.
//
// On SQLite, where who writes is alone, a commit of events alone only looks at the fence, and leaves the number as it
// is: the numbers between two that are written are counted in memory. When its fate is unknown its own first event tells.
//
// # One instance at a time
//
// The instance's row also holds its lease, by the database's clock, and the name of its process. Neither keeps
// anybody from writing: they tell others when they may set fenced. On SQLite nobody asks for them, as whoever has the
// lock of the file is alone.
//
// # Events
//
// What one commit appends to one run is one row: the range of ids and the events, a line each. Under load
// a commit carries several events of each run, and a row costs the same whether it holds one event or
// twenty. Ranges that are older than an hour are sealed into compressed segments (see [DB.Seal]).
//
// # Runs
//
// An answer is stored in the log, in a message, a step and the run: each where it is read. A node has a row of its own only
// when its latest step does not imply its state.
package storage

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/klauspost/compress/zstd"

	"github.com/batonrun/baton/runtime/model"
)

// Config says which database to open and how. Only URL is required.
type Config struct {
	// URL is sqlite:PATH or postgres://user:password@host/database?sslmode=…, with lib/pq's parameters.
	URL string
	// Serve takes the lock of a SQLite database, which only one server may hold.
	Serve bool
	// Addr is the address that others find in the lock (see LockHolder). Join replaces it.
	Addr string
	// Migrate creates the database or brings it to this program's schema first. That waits while another instance has a
	// PostgreSQL database, or fences it when Takeover is set.
	Migrate  bool
	Takeover bool
	// Readers is how many connections there are for reading at most. Default 8.
	Readers int
	// Timeout bounds each statement on PostgreSQL, and a third of Lease those that write. A network that is silent is
	// given up after as long again, or five seconds more. Default 30 s.
	Timeout time.Duration
	// LockTimeout bounds each wait for another transaction, on PostgreSQL half of what bounds a statement that writes does
	// so, too: such a wait is ErrUnavailable. Default 10 s.
	LockTimeout time.Duration
	// Lease is how long an instance of a PostgreSQL database may write that is silent, until another takes its place.
	// Default 15 s.
	Lease time.Duration
	// ConnectTimeout bounds the opening of a PostgreSQL connection. Default 10 s.
	ConnectTimeout time.Duration
	// Log is told of what needs no answer. Default: nobody.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Readers <= 0 {
		c.Readers = 8
	}
	if c.Timeout <= 0 {
		c.Timeout = 30 * time.Second
	}
	if c.LockTimeout <= 0 {
		c.LockTimeout = 10 * time.Second
	}
	if c.Lease <= 0 {
		c.Lease = 15 * time.Second
	}
	if c.ConnectTimeout <= 0 {
		c.ConnectTimeout = 10 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// DB is an open database. Its reads may be called from many goroutines; writes go one by one.
type DB struct {
	reader
	cfg Config
	d   *dialect
	zip *zstd.Encoder

	lock *fileLock // nil unless cfg.Serve on SQLite
	read *pool

	threadKeys, runKeys keys
	named               byName

	mu       sync.Mutex // guards the fields below, and with them writing
	write    *sqlx.DB
	session  *session // nil until needed, and after it broke
	instance string   // "" until Join
	at       progress // of the instance
	packer   packer
	counting int64     // how far the mark of what is counted goes, or is about to: see stats.go
	counts   int64     // how often something was counted
	prepared time.Time // partitions exist up to here
	closed   bool
}

var _ model.Store = (*DB)(nil)

// Open connects to the database and checks its schema. It fails with ErrLocked when cfg.Serve is set and
// another server has the database, and with ErrSchema when the database must be migrated first.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	cfg = cfg.withDefaults()
	d, err := dialectOf(cfg.URL)
	if err != nil {
		return nil, err
	}
	return openAs(ctx, cfg, d)
}

func openAs(ctx context.Context, cfg Config, d *dialect) (*DB, error) {
	db := &DB{
		cfg: cfg, d: d,
		threadKeys: keys{table: "threads", reserve: reserveThreads}, runKeys: keys{table: "runs", reserve: reserveRuns},
	}
	if err := db.open(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func (db *DB) open(ctx context.Context) (err error) {
	if db.cfg.Serve {
		if db.lock, err = db.d.lock(db.cfg); err != nil {
			return err
		}
	}
	if err := db.d.check(db.cfg); err != nil {
		return err
	}
	if db.cfg.Migrate {
		if err := db.migrate(ctx); err != nil {
			return err
		}
	}
	if db.write, err = db.d.open(db.cfg, writing); err != nil {
		return err
	}
	reads, err := db.d.open(db.cfg, reading)
	if err != nil {
		return err
	}
	db.read = &pool{DB: reads, d: db.d}
	unzip, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0))
	if err != nil {
		return err
	}
	if db.zip, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1)); err != nil {
		return err
	}
	db.reader = reader{q: db.read, d: db.d, z: &opener{unzipper: unzip}, searches: turnsOf(max(db.cfg.Readers/4, 1))}
	if db.d.single { // its work is done by this process, where each large event is several times in memory while it is read
		db.logs = turnsOf(max(2, runtime.GOMAXPROCS(0)))
	}
	if err := db.Ping(ctx); err != nil || db.lock == nil {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := db.mark(ctx); err != nil { // a safeguard for later, which a full disk may do without
		db.cfg.Log.Warn("the database could not be marked as this server's", "error", err)
	}
	return nil
}

// migrate is Migrate for a database that is about to be opened.
func (db *DB) migrate(ctx context.Context) error {
	switch {
	case !db.d.single:
		return migrateInTurn(ctx, db.cfg, db.d)
	case db.lock == nil:
		return lockAndMigrate(ctx, db.cfg, db.d)
	}
	return migrate(ctx, db.cfg, db.d)
}

// closed is what closing connections has come to: one that the other side has closed before is closed.
func closed(err error) error {
	if isConnectionError(err) {
		return nil
	}
	return err
}

// Close closes the connections and releases the lock. It waits for a commit under way. Of a SQLite database it leaves
// one file, in which everything is.
func (db *DB) Close() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return nil
	}
	db.closed = true
	var errs []error
	if db.read != nil {
		errs = append(errs, closed(db.read.Close()))
	}
	db.leaveNoWAL()
	db.drop()
	if db.write != nil {
		errs = append(errs, closed(db.write.Close()))
	}
	if db.z != nil {
		db.z.Close()
	}
	return errors.Join(append(errs, db.lock.Close())...)
}

// SetAddr writes the address at which this server can be reached into the lock of a SQLite database.
func (db *DB) SetAddr(addr string) error {
	if db.lock == nil {
		return nil
	}
	return db.lock.setAddr(addr)
}

// dialectOf returns the dialect a database URL names.
func dialectOf(url string) (*dialect, error) {
	switch scheme, _, _ := strings.Cut(url, ":"); scheme {
	case "sqlite":
		return sqliteDialect(), nil
	case "postgres", "postgresql":
		return postgresDialect(), nil
	}
	return nil, errors.New("database URL: must begin with sqlite: or postgres://")
}
