// Package memory is data.Store in maps, ten times faster than a real database, for the simulator and synctest. It is
// not for servers: its data ends with the process. storagetest checks that it behaves like the real databases.
package memory

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batonrun/baton/runtime/data"
)

// Database is the data shared by several processes. Rows are immutable: a changed row replaces the old one, so a
// transaction can restore the rows that it has replaced.
type Database struct {
	now                 func() time.Time
	checks              Checks
	threadKeys, runKeys atomic.Int64 // the last keys given out

	mu         sync.Mutex // guards the fields below; held for a whole commit or read
	lastRow    int64      // last key of a message or interrupt
	instances  map[string]*instance
	threads    rows[int64, data.Thread]
	runs       rows[int64, data.Run]
	names      rows[data.Name, data.RunName]
	remembered rows[string, data.IdempotencyKey]
	audit      rows[int64, data.Audit]
	spent      rows[spending, data.Spending]
	raises     rows[data.Raise, data.Raise] // by all but the amount
	deletions  rows[part, deletion]
	asks       rows[int64, data.CancelAsk]    // by run
	locks      map[any]bool                   // by commits beside others
	duties     map[string]string              // instances by what they do for all, beside others
	rested     map[rest]time.Time             // until when logs had ended, zero for now
	removals   rows[int64, int64]             // by thread
	queue      rows[int64, placed]            // by thread
	secrets    map[string]string              // by purpose
	saved      map[[2]string][]data.SavedView // by project and user

	events     map[int64][]data.StoredEvent // by thread, by id
	spans      table[ordinal, data.Span]    // by thread
	messages   table[string, data.Message]  // by thread
	steps      table[int, data.Step]        // by run, like the following ones
	nodes      table[string, data.Node]
	memos      table[use, data.Memo]
	signals    table[int64, data.Signal]
	interrupts table[string, interrupt]
	prompts    table[string, data.Prompt]
	pieces     rows[string, data.PromptPiece]
	uses       table[string, string] // the pieces that a run uses
}

// Keys of rows with more than one column.
type (
	ordinal struct {
		run int64
		n   int
	}
	spending struct {
		day int64
		data.Spender
	}
	part struct{ thread, run int64 }
	use  struct {
		generation, step int
		place            string
	}
)

// interrupt is an interrupt with its position among those of the same time.
type interrupt struct {
	data.Interrupt
	Key int64
}

// instance is a joined process.
type instance struct {
	data.Instance
	commit      int64 // its last batch
	leasedUntil time.Time
	commits     bool // a commit is under way, beside others
	died        bool // its process is known to have ended, beside others
	about       data.Server
}

// lease is the longest time between two renewals.
const lease = 15 * time.Second

// New returns an empty database with that clock.
func New(now func() time.Time) *Database {
	return &Database{
		now: now, instances: make(map[string]*instance), threads: make(rows[int64, data.Thread]),
		runs: make(rows[int64, data.Run]), names: make(rows[data.Name, data.RunName]),
		audit: make(rows[int64, data.Audit]), spent: make(rows[spending, data.Spending]), raises: make(rows[data.Raise, data.Raise]), deletions: make(rows[part, deletion]), asks: make(rows[int64, data.CancelAsk]), removals: make(rows[int64, int64]), queue: make(rows[int64, placed]), remembered: make(rows[string, data.IdempotencyKey]), events: make(map[int64][]data.StoredEvent),
		spans: make(table[ordinal, data.Span]), messages: make(table[string, data.Message]),
		steps: make(table[int, data.Step]), nodes: make(table[string, data.Node]), memos: make(table[use, data.Memo]),
		signals: make(table[int64, data.Signal]), interrupts: make(table[string, interrupt]), prompts: make(table[string, data.Prompt]),
		pieces: make(rows[string, data.PromptPiece]), uses: make(table[string, string]), secrets: make(map[string]string),
		saved: make(map[[2]string][]data.SavedView), locks: make(map[any]bool), duties: make(map[string]string), rested: make(map[rest]time.Time),
	}
}

// Check has a database checked.
func (db *Database) Check(c Checks) { db.checks = c }

// clock returns the database's time, in milliseconds.
func (db *Database) clock() time.Time { return db.now().UTC().Truncate(time.Millisecond) }

// Store is one process's connection to a Database.
type Store struct {
	*Database
	instance string // "" until Join

	// Beside others.
	beside    *Beside
	looked    time.Time        // guarded by mu, like the following
	seen      map[string]still // what the last look has seen
	alone     bool             // the last Watch has found no other process
	alongside time.Time        // since when it has found others
	took      map[int64]bool   // threads of whose rows it has taken one, and neither claimed its run nor given it back
}

var _ data.Store = (*Store)(nil)

// Open returns a connection for another process.
func (db *Database) Open() *Store { return &Store{Database: db} }

// Close does nothing.
func (*Store) Close() error { return nil }

// Ping reports whether ctx is done.
func (*Store) Ping(ctx context.Context) error { return ctx.Err() }

// Shared reports whether other processes may write at the same time.
func (s *Store) Shared() bool { return s.beside != nil }

// NewThreadKey returns a new thread's key.
func (s *Store) NewThreadKey(ctx context.Context) (int64, error) {
	return s.threadKeys.Add(1), ctx.Err()
}

// NewRunKey returns a new run's key.
func (s *Store) NewRunKey(ctx context.Context) (int64, error) {
	return s.runKeys.Add(1), ctx.Err()
}

// Saved returns the store of secrets and of users' views.
func (s *Store) Saved() data.Saved { return s }

// Secret returns the secret of a purpose.
func (db *Database) Secret(ctx context.Context, purpose string) (string, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if value, ok := db.secrets[purpose]; ok {
		return value, ctx.Err()
	}
	return "", cmp.Or(ctx.Err(), data.ErrNotFound)
}

// PutSecret stores a secret: see [data.Saved].
func (db *Database) PutSecret(ctx context.Context, purpose, value string) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if _, ok := db.secrets[purpose]; !ok {
		db.secrets[purpose] = value
	}
	return ctx.Err()
}

// RemoveSecrets removes all secrets.
func (db *Database) RemoveSecrets(ctx context.Context) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	clear(db.secrets)
	return ctx.Err()
}

// Views returns a user's views.
func (db *Database) Views(ctx context.Context, project, user string) ([]data.SavedView, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.saved[[2]string{project, user}], ctx.Err()
}

// PutViews replaces a user's views.
func (db *Database) PutViews(ctx context.Context, project, user string, views []data.SavedView) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.saved[[2]string{project, user}] = views
	return ctx.Err()
}

// ByProject returns the reads of a project.
func (db *Database) ByProject() data.ByProject { return db }

// Queue returns the queue.
func (s *Store) Queue() data.Queue { return s }

// Budgets returns the use of budgets.
func (s *Store) Budgets() data.Budgets { return s }

// Members returns the instances.
func (s *Store) Members() data.Members { return s }

// Join registers this process as a new instance: see [data.Members].
func (s *Store) Join(ctx context.Context, id, addr string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.beside != nil {
		s.instance = ""
		if _, err := s.watch(); err != nil {
			return err
		}
	}
	for _, in := range s.instances {
		switch {
		case in.End != "" || in.ID == id:
		case s.beside != nil:
		case in.leasedUntil.After(s.clock()):
			in.End = data.EndFenced
		default:
			in.End = data.EndCrashed
		}
	}
	in := &instance{Instance: data.Instance{ID: id, Addr: addr}}
	in.renew(s.clock(), s.lease())
	in.about = data.Server{Instance: id, Addr: addr, StartedAt: s.clock(), SeenAt: s.clock()}
	s.instances[id], s.instance = in, id
	return ctx.Err()
}

// lease is how long a renewal holds.
func (s *Store) lease() time.Duration {
	if s.beside != nil {
		return s.beside.Lease
	}
	return lease
}

// Died marks the process as dead. Others that write beside it see that soon.
func (s *Store) Died() {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch in := s.instances[s.instance]; {
	case in == nil || in.End != "":
	case s.beside != nil:
		in.died = true
	default:
		in.End = data.EndCrashed
	}
}

// Leave ends the joined instance: see [data.Members].
func (s *Store) Leave(ctx context.Context) error {
	s.end(s.joined(), data.EndLeft)
	return ctx.Err()
}

// Fence ends an instance that may write: see [data.Members].
func (s *Store) Fence(ctx context.Context, id string) error {
	s.end(id, data.EndFenced)
	return ctx.Err()
}

func (s *Store) joined() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.instance
}

func (db *Database) end(id string, how data.End) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if in := db.instances[id]; in != nil && in.End == "" {
		in.End = how
	}
}

// Renew renews the joined instance's lease: see [data.Members].
func (s *Store) Renew(ctx context.Context, n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.instances[s.instance]
	if err := in.mayFollow(n); err != nil {
		return err
	}
	in.renew(s.clock(), s.lease())
	return ctx.Err()
}

// KeepLease renews the joined instance's lease without a batch number: see [data.Members].
func (s *Store) KeepLease(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in := s.instances[s.instance]; in != nil && in.End == "" {
		in.renew(s.clock(), s.lease())
	}
	return ctx.Err()
}

// renew renews the instance's lease.
func (in *instance) renew(now time.Time, lease time.Duration) {
	in.SeenAt, in.leasedUntil = now, now.Add(lease)
}

// mayFollow returns an error if the instance's next batch cannot be n+1.
func (in *instance) mayFollow(n int64) error {
	switch {
	case in == nil:
		return fmt.Errorf("%w: it is unknown to the database", data.ErrFenced)
	case in.End != "":
		return fmt.Errorf("%w: %s", data.ErrFenced, in.End)
	case in.commit != n:
		return fmt.Errorf("%w: its last commit is %d and not %d", data.ErrFenced, in.commit, n)
	}
	return nil
}

// Now returns the database's time.
func (db *Database) Now(ctx context.Context) (time.Time, error) { return db.clock(), ctx.Err() }

// Instance returns an instance that has joined.
func (db *Database) Instance(ctx context.Context, id string) (data.Instance, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if in := db.instances[id]; in != nil {
		return in.Instance, ctx.Err()
	}
	return data.Instance{}, cmp.Or(ctx.Err(), data.ErrNotFound)
}

// Commit writes batch n of the joined instance at once, or not at all: see [data.Store].
func (s *Store) Commit(ctx context.Context, n int64, b *data.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	in := s.instances[s.instance]
	if in != nil && in.commit == n {
		return nil
	}
	if err := in.mayFollow(n - 1); err != nil {
		return err
	}
	if s.beside != nil {
		return s.commitBeside(in, n, b)
	}
	return s.write(func(tx *tx) error {
		if err := tx.apply(b); err != nil {
			return err
		}
		in.commit = n
		in.renew(tx.at, lease)
		return nil
	})
}

func (s *Store) begin() *tx {
	return &tx{Database: s.Database, at: s.clock(), writer: s.instance, touched: make(map[int64]bool)}
}

// write writes at once, or not at all.
func (s *Store) write(apply func(*tx) error) error {
	tx := s.begin()
	if s.beside != nil {
		tx.by = s
	}
	done := false
	defer func() { // a decision may panic
		if !done {
			tx.rollBack()
		}
	}()
	err := apply(tx)
	done = err == nil
	return err
}

// tx is a batch in progress.
type tx struct {
	*Database
	at      time.Time
	undo    []func()
	touched map[int64]bool // threads with changed runs or spans
	by      *Store         // who writes beside others, or nil
	writer  string         // the instance
	began   bool           // a run has become RUNNING
	counted map[any]bool   // the runsOf that others count now
}

func (tx *tx) rollBack() {
	for i := range tx.undo {
		tx.undo[len(tx.undo)-1-i]()
	}
}

func (tx *tx) apply(b *data.Batch) error {
	b.Deferred = nil // this process is alone in writing
	if err := tx.put(b.Rows); err != nil {
		return err
	}
	events := b.Events
	vs := tx.views(b.Asks)
	for i := range b.Asks {
		v := vs.of(&b.Asks[i])
		follows := b.Decide(i, v)
		if err := follows.Refused; err != nil {
			if _, refused := errors.AsType[*data.Error](err); refused {
				continue
			}
			return err
		}
		vs.keep(v)
		events = append(slices.Clip(events), follows.Events...)
		if err := tx.put(follows.Rows); err != nil {
			return err
		}
	}
	return tx.finish(events)
}

// finish ends a batch with its events.
func (tx *tx) finish(events []data.StoredEvent) error {
	for thread := range tx.touched {
		if err := tx.check(thread); err != nil {
			return err
		}
	}
	tx.checkQueue()
	defer tx.noteRest()
	return tx.append(events)
}

// check checks a thread's invariants at the end of a batch: one run at most is RUNNING or WAITING, and only the last
// span may be open.
func (tx *tx) check(thread int64) error {
	active := 0
	for _, run := range tx.runs {
		if run.ThreadKey == thread && (run.Status == data.Running || run.Status == data.Waiting) {
			active++
		}
	}
	if active > 1 {
		return fmt.Errorf("thread %d: two runs are active", thread)
	}
	spans := tx.spans[thread].sorted(all, byFirst)
	for i := 1; i < len(spans); i++ {
		if spans[i-1].Last == 0 || spans[i-1].First == spans[i].First {
			return fmt.Errorf("thread %d: a span begins where one is open", thread)
		}
	}
	return nil
}

func byFirst(a, b *data.Span) int { return cmp.Compare(a.First, b.First) }

// append writes events behind their threads' last ones.
func (tx *tx) append(events []data.StoredEvent) error {
	for i := range events {
		ev := events[i]
		if err := checkEvent(&ev); err != nil {
			return fmt.Errorf("event %d of thread %d: %w", ev.ID, ev.ThreadKey, err)
		}
		log := tx.events[ev.ThreadKey]
		if n := len(log); n > 0 && ev.ID <= log[n-1].ID {
			if tx.by != nil {
				tx.by.beside.Broken(fmt.Sprintf("%s writes event %d of thread %d, which has %d already", tx.writer, ev.ID, ev.ThreadKey, log[n-1].ID))
			}
			return fmt.Errorf("event %d of thread %d follows %d", ev.ID, ev.ThreadKey, log[n-1].ID)
		}
		ev.Payload = slices.Clip(bytes.Clone(ev.Payload))
		tx.setLog(ev.ThreadKey, append(log, ev))
	}
	return nil
}

func (tx *tx) setLog(thread int64, log []data.StoredEvent) {
	old := tx.events[thread]
	tx.undo = append(tx.undo, func() { tx.events[thread] = old })
	tx.events[thread] = log
}
