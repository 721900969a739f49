package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/data"
)

// Beside is how a process writes a database beside others, as several servers write one PostgreSQL database.
type Beside struct {
	Lease time.Duration // how long a process must stand still until the others fence it
	Slots int           // how many runs it may execute, 0 for any number
	// Pause is called in the middle of a commit, which has locked its threads.
	Pause func(at string)
	// Broken is told of a write that only a run's owner may make, or that gives the process a run too many. The database is locked meanwhile.
	Broken func(what string)
}

// longestLook is how long after the last look at the instances another one may follow it, and how old the last look of a successor may be.
const longestLook = 3 * time.Second

// OpenBeside returns a connection for another process that writes beside others.
func (db *Database) OpenBeside(b Beside) *Store {
	return &Store{Database: db, beside: &b, alone: true, took: make(map[int64]bool)}
}

// Ended reports whether an instance may not write any more.
func (db *Database) Ended(id string) bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	in := db.instances[id]
	return in == nil || in.End != ""
}

// Rested reports whether the log of a conversation has ended with that event, and no run of it was queued or running, at some moment
// since a time.
func (db *Database) Rested(conversation string, last int64, since time.Time) bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	until, ok := db.rested[rest{conversation, last}]
	return ok && (until.IsZero() || !until.Before(since))
}

// rest is the state of a log that has ended.
type rest struct {
	conversation string
	last         int64
}

// still is the row of another instance since it last changed.
type still struct {
	commit      int64
	leasedUntil time.Time
	since       time.Time
}

// watch looks once at the other instances, and fences those that have stood still for a lease, or whose process has ended: see
// storage. It reports whether one has ended since the last look. mu is held.
func (s *Store) watch() (gone bool, err error) {
	if in := s.instances[s.instance]; s.instance != "" && in.End != "" {
		return false, fmt.Errorf("%w: %s", data.ErrFenced, in.End)
	}
	now, last := time.Now(), s.seen
	if now.Sub(s.looked) > longestLook {
		last = nil
	}
	seen := make(map[string]still)
	for id, in := range s.instances {
		if in.End != "" {
			continue
		}
		was, ok := last[id]
		if !ok || was.commit != in.commit || !was.leasedUntil.Equal(in.leasedUntil) {
			was = still{in.commit, in.leasedUntil, now}
		}
		seen[id] = was
		gone = gone || in.about.Draining && id != s.instance
		stood := now.Sub(was.since)
		dead := stood >= s.beside.Lease && !in.leasedUntil.After(s.clock()) || stood >= 3*s.beside.Lease
		if id == s.instance || !dead && !in.died {
			continue
		}
		if in.commits && !in.died && stood < 2*s.beside.Lease { // its transaction has locked its row
			continue
		}
		in.End, gone = data.EndCrashed, true
	}
	for id := range s.seen {
		in := s.instances[id]
		gone = gone || in.End != "" && seen[id] == still{}
	}
	s.looked, s.seen = now, seen
	if me := s.instances[s.instance]; me != nil {
		me.about.SeenAt = s.clock()
	}
	return gone, nil
}

// Tell stores what the process tells the others: see [data.Members].
func (s *Store) Tell(ctx context.Context, told *data.Server) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in := s.instances[s.instance]; s.beside != nil && in != nil {
		if len(told.About) > 0 {
			in.about.About, in.about.Hash = told.About, told.Hash
		}
		if len(told.Load) > 0 {
			in.about.Load = told.Load
		}
	}
	return ctx.Err()
}

// Servers returns the processes beside this one, and itself: see [data.Members].
func (s *Store) Servers(ctx context.Context, known []string) (list []data.Server, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range s.instances {
		row := in.about
		if s.beside == nil || in.End != "" {
			continue
		}
		if slices.Contains(known, row.Hash) {
			row.About = nil
		}
		list = append(list, row)
	}
	slices.SortFunc(list, func(a, b data.Server) int { return cmp.Compare(a.Instance, b.Instance) })
	return list, ctx.Err()
}

// Drain records that the process hands its runs over: see [data.Members].
func (s *Store) Drain(ctx context.Context) (successor bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, in := range s.instances {
		switch {
		case s.beside == nil || in.End != "":
		case id == s.instance:
			in.about.Draining, in.about.SeenAt = true, s.clock()
		default:
			successor = successor || !in.about.Draining && s.clock().Sub(in.about.SeenAt) < longestLook
		}
	}
	return successor, ctx.Err()
}

// TakeDuty gives the process a duty that no other has: see [data.Members].
func (s *Store) TakeDuty(ctx context.Context, name string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.beside == nil {
		return true, ctx.Err()
	}
	if in := s.instances[s.duties[name]]; in == nil || in.End != "" {
		s.duties[name] = s.instance
	}
	return s.duties[name] == s.instance, ctx.Err()
}

// LeaveDuties leaves the process's duties to others: see [data.Members].
func (s *Store) LeaveDuties(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.duties, func(_, holder string) bool { return holder == s.instance })
	return ctx.Err()
}

// Watch looks at the other instances: see [data.Members].
func (s *Store) Watch(ctx context.Context) (data.Watched, error) {
	if s.beside == nil {
		return data.Watched{}, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	gone, err := s.watch()
	seen := data.Watched{Others: -1, Gone: gone} // without itself
	for _, in := range s.instances {
		if in.End == "" {
			seen.Others++
		}
	}
	if seen.Others > 0 && s.alone {
		s.alongside = time.Now()
	}
	s.alone = seen.Others == 0
	return seen, cmp.Or(ctx.Err(), err)
}

// pause lets others use the database in the middle of a commit. mu is held.
func (s *Store) pause(at string) {
	s.mu.Unlock()
	defer s.mu.Lock()
	s.beside.Pause(at)
}

// errAborted is the error of a transaction whose session another process has ended.
var errAborted = fmt.Errorf("%w: the session has ended", data.ErrUnavailable)

// commitBeside is Commit beside others. Like a transaction it locks, pauses, reads and decides, pauses, and then writes all at once.
// mu is held.
func (s *Store) commitBeside(in *instance, n int64, b *data.Batch) error {
	in.commits = true
	locks := make(map[any]bool)
	defer func() {
		in.commits = false
		for what := range locks {
			delete(s.locks, what)
		}
	}()
	s.await(b.Asks)
	elsewhere := s.lock(b.Asks, locks)
	if s.pause("locked"); in.End != "" {
		return errAborted
	}
	follows, deferred, err := s.decide(b, elsewhere)
	if err != nil {
		return conflict(err)
	}
	if s.pause("decided"); in.End != "" {
		return errAborted
	}
	return conflict(s.write(func(tx *tx) error {
		if err := tx.put(b.Rows); err != nil {
			return err
		}
		s.checkOwner(b.Events)
		events := b.Events
		for i := range follows {
			events = append(slices.Clip(events), follows[i].Events...)
			if err := tx.put(follows[i].Rows); err != nil {
				return err
			}
		}
		if err := tx.finish(events); err != nil {
			return err
		}
		s.checkSlots()
		b.Deferred, in.commit = deferred, n
		in.renew(tx.at, s.beside.Lease)
		return nil
	}))
}

// conflict returns the error of a row that another process has written first.
func conflict(err error) error {
	if errors.Is(err, errTaken) {
		return fmt.Errorf("%w: %w", data.ErrConflict, err)
	}
	return err
}

// decide makes the decisions of a batch, except those about what others have locked, and writes nothing.
func (s *Store) decide(b *data.Batch, elsewhere map[any]bool) (all []data.Changes, deferred []int, err error) {
	tx := s.begin()
	defer tx.rollBack()
	tx.counted = elsewhere
	if err := tx.put(b.Rows); err != nil {
		return nil, nil, err
	}
	vs := tx.views(b.Asks)
	for i := range b.Asks {
		a := &b.Asks[i]
		if vs.defers(a, elsewhere) {
			deferred = append(deferred, i)
			continue
		}
		v := vs.of(a)
		follows := b.Decide(i, v)
		if err := follows.Refused; err != nil {
			if _, refused := errors.AsType[*data.Error](err); refused {
				continue
			}
			return nil, nil, err
		}
		vs.keep(v)
		all = append(all, follows)
	}
	return all, deferred, nil
}

// Names in locks, besides keys and names of threads.
type (
	runName data.Name
	scope   string
	runsOf  data.Name // a project or a user whose RUNNING runs are counted
)

// wanted returns what the decision for an ask locks.
func (db *Database) wanted(a *data.Ask) (list []any) {
	switch thread := db.threadOf(a); {
	case thread != nil:
		list = append(list, thread.Key)
	case a.Thread == 0 && a.Name != (data.Name{}):
		list = append(list, a.Name)
	}
	if a.RunName != (data.Name{}) {
		list = append(list, runName(a.RunName))
	}
	if a.Scope != "" {
		list = append(list, scope(a.Scope))
	}
	return list
}

func (db *Database) threadOf(a *data.Ask) *data.Thread {
	if a.Thread != 0 {
		return db.threads[a.Thread]
	}
	for _, t := range db.threads {
		if nameOf(t) == a.Name {
			return t
		}
	}
	return nil
}

// lock locks what the decisions are about and adds it to mine. It returns what others have locked.
func (s *Store) lock(asks []data.Ask, mine map[any]bool) (elsewhere map[any]bool) {
	elsewhere = make(map[any]bool)
	for i := range asks {
		wanted := s.wanted(&asks[i])
		if n := asks[i].Counts; n != (data.Name{}) {
			wanted = append(wanted, runsOf(n))
		}
		for _, what := range wanted {
			switch {
			case mine[what]:
			case s.locks[what]:
				elsewhere[what] = true
			default:
				mine[what] = true
			}
		}
	}
	maps.Copy(s.locks, mine)
	return elsewhere
}

// await waits up to 50 ms for the thread of the first ask that has been deferred too often.
func (s *Store) await(asks []data.Ask) {
	i := slices.IndexFunc(asks, func(a data.Ask) bool { return a.Await })
	for tries := 0; i >= 0 && tries < 50; tries++ {
		thread := s.threadOf(&asks[i])
		if thread == nil || !s.locks[thread.Key] {
			return
		}
		s.mu.Unlock()
		<-time.After(time.Millisecond)
		s.mu.Lock()
	}
}

// defers reports whether a decision is about what others have locked. Then later ones about the same thread are deferred too.
func (vs *views) defers(a *data.Ask, elsewhere map[any]bool) bool {
	list := vs.tx.wanted(a)
	if !slices.ContainsFunc(list, func(what any) bool { return elsewhere[what] }) {
		return false
	}
	for _, what := range list {
		switch what.(type) {
		case int64, data.Name:
			elsewhere[what] = true
		}
	}
	return true
}

// checkOwner checks that the runs which have emitted events belong to this process.
func (s *Store) checkOwner(events []data.StoredEvent) {
	for i := range events {
		ev := &events[i]
		if run := s.runs[ev.RunKey]; run != nil && (run.Status != data.Running || run.Owner != s.instance) {
			s.beside.Broken(fmt.Sprintf("%s writes event %d of run %s, which is %s of %q", s.instance, ev.ID, run.ID, run.Status, run.Owner))
		}
	}
}

// checkSlots checks that this process executes no more runs than it may.
func (s *Store) checkSlots() {
	n := 0
	for _, run := range s.runs {
		if run.Status == data.Running && run.Owner == s.instance {
			n++
		}
	}
	if n > s.beside.Slots && s.beside.Slots > 0 {
		s.beside.Broken(fmt.Sprintf("%s executes %d runs, and may execute %d", s.instance, n, s.beside.Slots))
	}
}

// checkHead checks that a RUNNING run is changed by its owner, unless that may not write any more.
func (tx *tx) checkHead(old, head *data.RunHead) {
	owner := tx.instances[old.Owner]
	if tx.by == nil || old.Status != data.Running || owner == nil || owner.End != "" || old.Owner == tx.by.instance {
		return
	}
	if head.Status != old.Status || head.Owner != old.Owner {
		tx.by.beside.Broken(fmt.Sprintf("%s makes run %s %s of %q, which is RUNNING of the living %s",
			tx.by.instance, old.ID, head.Status, head.Owner, old.Owner))
	}
}

// noteRest records which logs have ended, and since when those do not that had.
func (tx *tx) noteRest() {
	if tx.by == nil {
		return
	}
	now := time.Now()
	for at, until := range tx.rested {
		if until.IsZero() {
			tx.rested[at] = now
		}
	}
	for _, t := range tx.threads {
		if h := tx.logHead(t); !h.Busy {
			tx.rested[rest{t.ConversationID, h.Last}] = time.Time{}
		}
	}
}

// ReserveBudgets replaces the process's reservations, of which the others see nothing: see [data.Budgets].
func (s *Store) ReserveBudgets(_ context.Context, _, _ string, decide func([]data.Reserved) ([]data.Reserved, error)) error {
	_, err := decide(nil)
	return err
}
