package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/data"
)

// Trouble is a fault of one commit or read.
type Trouble string

// Troubles of a commit. A read can have Away, GivenUp, Slow and Silent. A killed process does nothing more; its
// unanswered commits may be stored.
const (
	Away       Trouble = "away"        // the database is unavailable and nothing was written
	Lost       Trouble = "lost"        // it was written, and the answer was lost
	Full       Trouble = "full"        // the disk is full
	Refused    Trouble = "refused"     // the database refuses the data
	Slow       Trouble = "slow"        // it takes a long time
	Silent     Trouble = "silent"      // it takes longer than any request waits
	GivenUp    Trouble = "given-up"    // it took too long, and nothing was written
	Conflict   Trouble = "conflict"    // another instance changed the data of a decision
	Locked     Trouble = "locked"      // another instance has locked the thread of a decision, and keeps it for a while
	KillBefore Trouble = "kill-before" // the process dies, and nothing was written
	KillAfter  Trouble = "kill-after"  // the process dies, and all was written
	Stopped    Trouble = "stopped"     // the process stops in the middle of it for longer than a lease, or before it takes a run over or claims rows that it has taken, beside others
	Stuck      Trouble = "stuck"       // the process cannot write for longer than a lease, but its lease can be renewed, beside others
)

// faulty is the Store of one process. It delays commits and applies the history's faults. Only this file knows the
// Store.
type faulty struct {
	runtime.Store
	s *servers
	p *process

	// Used by Commit only.
	written int64     // the batch with a lost answer, which a repeated Commit finds written
	locked  data.Ask  // about the thread that another instance has locked
	until   time.Time // when that ends
	stuck   time.Time // until when nothing can be written
}

// The parts of a faulty store.
type (
	member struct {
		data.Members
		f *faulty
	}
	queue struct {
		data.Queue
		f *faulty
	}
	byProject struct {
		data.ByProject
		f *faulty
	}
	budgets struct {
		data.Budgets
		f *faulty
	}
)

func (f *faulty) Members() data.Members     { return member{f.Store.Members(), f} }
func (f *faulty) Queue() data.Queue         { return queue{f.Store.Queue(), f} }
func (f *faulty) ByProject() data.ByProject { return byProject{f.Store.ByProject(), f} }
func (f *faulty) Budgets() data.Budgets     { return budgets{f.Store.Budgets(), f} }

func (m member) Join(ctx context.Context, instance, addr string) error {
	m.f.p.instance = instance
	_, err := read(m.f, func() (any, error) { return nil, m.Members.Join(ctx, instance, addr) }, "join")
	return err
}

// Of several processes, one that is dead or stopped shows no sign of life, and a stopped one reads nothing.

// living calls f unless the process is dead, once it is awake.
func living[T any](f *faulty, call func() (T, error)) (none T, err error) {
	if f.p.awake(); f.p.dead.Load() && f.s.several() {
		return none, errDead
	}
	return call()
}

func (f *faulty) alive(call func() error) error {
	_, err := living(f, func() (any, error) { return nil, call() })
	return err
}

func (m member) Renew(ctx context.Context, n int64) error {
	return m.f.alive(func() error { return m.Members.Renew(ctx, n) })
}

func (m member) KeepLease(ctx context.Context) error {
	return m.f.alive(func() error { return m.Members.KeepLease(ctx) })
}

func (m member) Leave(ctx context.Context) error {
	return m.f.alive(func() error { return m.Members.Leave(ctx) })
}

func (m member) Watch(ctx context.Context) (data.Watched, error) {
	return read(m.f, func() (data.Watched, error) { return m.Members.Watch(ctx) })
}

func (m member) Tell(ctx context.Context, s *data.Server) error {
	return m.f.alive(func() error { return m.Members.Tell(ctx, s) })
}

func (m member) Servers(ctx context.Context, known []string) ([]data.Server, error) {
	return read(m.f, func() ([]data.Server, error) { return m.Members.Servers(ctx, known) })
}

func (m member) Drain(ctx context.Context) (bool, error) {
	return living(m.f, func() (bool, error) { return m.Members.Drain(ctx) })
}

func (q queue) Take(ctx context.Context, threads []int64, hold time.Duration) ([]int64, error) {
	if q.f.s.several() {
		q.f.s.nap("take", q.f.p.n) // others may take the rows that the look has read
	}
	taken, err := living(q.f, func() ([]int64, error) { return q.Queue.Take(ctx, threads, hold) })
	if len(taken) == 0 || !q.f.s.several() {
		return taken, err
	}
	switch n, trouble := q.f.s.fault(&q.f.s.rows, func(f *Fault) int { return f.Row }); trouble {
	case Stopped:
		q.f.s.pause(q.f.p, time.Duration(1+n%6)*lease/2, nil) // for less than a lease, or longer than rows are taken for
	case KillAfter:
		q.f.s.kill(q.f.p)
	}
	return living(q.f, func() ([]int64, error) { return taken, nil })
}

func (m member) TakeDuty(ctx context.Context, name string) (bool, error) {
	return living(m.f, func() (bool, error) { return m.Members.TakeDuty(ctx, name) })
}

func (b budgets) ReserveBudgets(ctx context.Context, instance, project string, decide func([]data.Reserved) ([]data.Reserved, error)) error {
	return b.f.alive(func() error { return b.Budgets.ReserveBudgets(ctx, instance, project, decide) })
}

func (m member) LeaveDuties(ctx context.Context) error {
	return m.f.alive(func() error { return m.Members.LeaveDuties(ctx) })
}

func (f *faulty) LogHeads(ctx context.Context, of []data.LogPlace) ([]data.LogHead, error) {
	return read(f, func() ([]data.LogHead, error) { return f.Store.LogHeads(ctx, of) }, "heads")
}

func (f *faulty) Heads(ctx context.Context, runs []int64) ([]data.RunHead, error) {
	return living(f, func() ([]data.RunHead, error) { return f.Store.Heads(ctx, runs) })
}

func (f *faulty) CancelAsks(ctx context.Context, instance string) ([]data.CancelAsk, error) {
	return living(f, func() ([]data.CancelAsk, error) { return f.Store.CancelAsks(ctx, instance) })
}

func (q queue) Appended(ctx context.Context, runs []int64) (map[int64]int, error) {
	return living(q.f, func() (map[int64]int, error) { return q.Queue.Appended(ctx, runs) })
}

// Commit passes the batch on unless the process dies first.
func (f *faulty) Commit(ctx context.Context, n int64, b *data.Batch) error {
	f.p.awake()
	number, trouble := f.s.fault(&f.s.commits, func(f *Fault) int { return f.Commit })
	if trouble != "" {
		f.s.note("commit %d of %s: %s", number, f.p, trouble)
	}
	f.s.nap("commit", number)
	f.linger(trouble)
	if i := slices.IndexFunc(b.Asks, func(a data.Ask) bool { return a.Owner != "" }); i >= 0 && f.s.several() {
		if take, stopped := f.s.fault(&f.s.takes, func(f *Fault) int { return f.Take }); stopped != "" {
			f.s.pause(f.p, time.Duration(2+take%4)*time.Second, f.s.released(b.Asks[i].Runs[0]))
		}
	}
	f.p.awake()
	if trouble == Stuck {
		f.stuck = time.Now().Add(2 * lease)
	}
	switch {
	case time.Now().Before(f.stuck) && !f.p.dead.Load() && n != f.written:
		f.p.unsure.Store(true)
		return data.ErrDiskFull
	case trouble == KillBefore:
		f.s.kill(f.p)
	case trouble == Stopped && f.s.several():
		f.s.pause(f.p, time.Duration(1+number%4)*lease, nil)
	case trouble == Away:
		return fmt.Errorf("nothing written: %w", data.ErrUnavailable)
	case trouble == GivenUp:
		return data.ErrTooSlow
	case trouble == Conflict && n != f.written:
		return data.ErrConflict
	case trouble == Full && n != f.written:
		return data.ErrDiskFull
	case trouble == Refused && n != f.written:
		f.s.badData.Store(true)
		return errors.New("invalid byte sequence")
	}
	if f.p.dead.Load() {
		return errDead
	}
	if trouble == Locked && len(b.Asks) > 0 {
		f.locked, f.until = b.Asks[number%len(b.Asks)], time.Now().Add(time.Millisecond<<(number%12)) // up to 2 s
	}
	timed, free := *b, []int(nil)
	timed.Asks = nil
	deferred := []int(nil)
	for i := range b.Asks {
		if a := &b.Asks[i]; time.Now().Before(f.until) && a.Thread == f.locked.Thread && (a.Thread != 0 || a.Name == f.locked.Name) {
			deferred = append(deferred, i)
		} else {
			timed.Asks, free = append(timed.Asks, *a), append(free, i)
		}
	}
	var left []int64 // runs that are released
	timed.Decide = func(i int, v *data.View) data.Changes {
		v.Now = f.s.dbNow()
		follows := b.Decide(free[i], v)
		for _, row := range follows.Rows {
			if run, ok := row.(*data.RunHead); ok && run.Released() {
				left = append(left, run.Key)
			}
		}
		return follows
	}
	err := f.Store.Commit(ctx, n, &timed) // of several processes, a stopped one waits in it
	if err == nil && n != f.written {
		for _, i := range timed.Deferred {
			deferred = append(deferred, free[i])
		}
		slices.Sort(deferred)
		b.Deferred = deferred
	}
	f.p.unsure.Store(false)
	if err == nil {
		f.s.noteReleased(left)
	}
	if err == nil && trouble == Lost {
		f.written = n
		f.p.unsure.Store(true)
		err = fmt.Errorf("answer lost: %w", data.ErrUnavailable)
	}
	if trouble == KillAfter {
		f.s.kill(f.p)
	}
	f.s.nap("committed", number)
	f.p.awake()
	if f.p.dead.Load() {
		return errDead
	}
	return err
}

// linger waits for the duration of a fault.
func (f *faulty) linger(t Trouble) {
	switch t {
	case Slow:
		f.s.sleep(700 * time.Millisecond)
	case Silent:
		f.p.stood.Store(true)
		f.s.sleep(15 * time.Second)
	}
}

// errDead ends a killed process.
var errDead = fmt.Errorf("the process is dead: %w", data.ErrFenced)

// Reads for which the engine waits take a while, so that something can happen meanwhile. All of them may fail.

// read makes a read with its fault, after a pause if it is named.
func read[T any](f *faulty, find func() (T, error), pause ...any) (none T, err error) {
	f.p.awake()
	number, trouble := f.s.fault(&f.s.reads, func(f *Fault) int { return f.Read })
	if trouble != "" {
		f.s.note("read %d of %s: %s", number, f.p, trouble)
	}
	if len(pause) > 0 || f.s.several() && f.s.choose(8, []any{"read", f.p.n}) == 0 { // others may write between any two reads
		f.s.nap(pause...)
	}
	switch {
	case f.p.dead.Load():
		return none, errDead
	case trouble == Away:
		return none, fmt.Errorf("nothing read: %w", data.ErrUnavailable)
	case trouble == GivenUp:
		return none, data.ErrTooSlow
	}
	f.linger(trouble)
	f.p.awake()
	row, err := find()
	if f.s.several() && len(pause) > 0 && f.s.choose(8, pause) == 0 { // the answer is outdated when it arrives
		f.s.sleep(30 * time.Millisecond)
		f.p.awake()
	}
	return row, err
}

func (f *faulty) NewThreadKey(ctx context.Context) (int64, error) {
	return read(f, func() (int64, error) { return f.Store.NewThreadKey(ctx) })
}

func (f *faulty) NewRunKey(ctx context.Context) (int64, error) {
	return read(f, func() (int64, error) { return f.Store.NewRunKey(ctx) })
}

func (m member) Now(ctx context.Context) (time.Time, error) {
	return read(m.f, func() (time.Time, error) { return m.Members.Now(ctx) })
}

func (m member) Instance(ctx context.Context, id string) (data.Instance, error) {
	return read(m.f, func() (data.Instance, error) { return m.Members.Instance(ctx, id) })
}

func (f *faulty) Thread(ctx context.Context, key int64) (data.Thread, error) {
	return read(f, func() (data.Thread, error) { return f.Store.Thread(ctx, key) })
}

func (r byProject) ThreadByID(ctx context.Context, project, user, id string) (data.Thread, error) {
	return read(r.f, func() (data.Thread, error) { return r.ByProject.ThreadByID(ctx, project, user, id) }, "thread", id)
}

func (f *faulty) Run(ctx context.Context, key int64) (data.Run, error) {
	return read(f, func() (data.Run, error) { return f.Store.Run(ctx, key) }, "run", key)
}

func (r byProject) RunsByName(ctx context.Context, project, user, name string) ([]data.Run, error) {
	return read(r.f, func() ([]data.Run, error) { return r.ByProject.RunsByName(ctx, project, user, name) }, "named", len(name))
}

func (f *faulty) OpenRuns(ctx context.Context, threadKey int64) ([]runtime.RunHead, error) {
	return read(f, func() ([]runtime.RunHead, error) { return f.Store.OpenRuns(ctx, threadKey) })
}

func (q queue) Orphans(ctx context.Context, thread int64, limit int) ([]runtime.RunHead, error) {
	return read(q.f, func() ([]runtime.RunHead, error) { return q.Queue.Orphans(ctx, thread, limit) })
}

func (q queue) Line(ctx context.Context, after data.Place, each data.Each, limit int) ([]data.Place, error) {
	return read(q.f, func() ([]data.Place, error) { return q.Queue.Line(ctx, after, each, limit) }, "line")
}

func (q queue) Position(ctx context.Context, thread int64) (data.Place, int, error) {
	at := 0
	p, err := read(q.f, func() (p data.Place, err error) {
		p, at, err = q.Queue.Position(ctx, thread)
		return p, err
	})
	return p, at, err
}

func (q queue) Backlog(ctx context.Context) (data.Backlog, error) {
	return read(q.f, func() (data.Backlog, error) { return q.Queue.Backlog(ctx) })
}

func (q queue) Deletions(ctx context.Context, thread, run int64, limit int) ([]runtime.Deletion, error) {
	return read(q.f, func() ([]runtime.Deletion, error) { return q.Queue.Deletions(ctx, thread, run, limit) })
}

func (q queue) Expired(ctx context.Context, now time.Time, limit int) ([]runtime.Interrupt, error) {
	return read(q.f, func() ([]runtime.Interrupt, error) { return q.Queue.Expired(ctx, now, limit) }, "expired")
}

func (f *faulty) Nodes(ctx context.Context, runKey int64) ([]runtime.Node, error) {
	return read(f, func() ([]runtime.Node, error) { return f.Store.Nodes(ctx, runKey) })
}

func (r byProject) RunMessages(ctx context.Context, project string, runKey, after int64, limit int) (runtime.Page[runtime.Message], error) {
	return read(r.f, func() (runtime.Page[runtime.Message], error) {
		return r.ByProject.RunMessages(ctx, project, runKey, after, limit)
	})
}

func (r byProject) Steps(ctx context.Context, project string, runKey int64, node string, after, limit int) (runtime.Page[runtime.Step], error) {
	return read(r.f, func() (runtime.Page[runtime.Step], error) {
		return r.ByProject.Steps(ctx, project, runKey, node, after, limit)
	})
}

func (f *faulty) Queued(ctx context.Context, runKey int64) ([]runtime.Message, error) {
	return read(f, func() ([]runtime.Message, error) { return f.Store.Queued(ctx, runKey) }, "queued", runKey)
}

func (f *faulty) Messages(ctx context.Context, threadKey, upTo int64, limit int) ([]runtime.Message, error) {
	return read(f, func() ([]runtime.Message, error) { return f.Store.Messages(ctx, threadKey, upTo, limit) }, "messages", threadKey)
}

func (f *faulty) Instructions(ctx context.Context, threadKey, upTo int64) ([]runtime.Message, error) {
	return read(f, func() ([]runtime.Message, error) { return f.Store.Instructions(ctx, threadKey, upTo) }, "messages", threadKey)
}

func (f *faulty) MessagesByID(ctx context.Context, threadKey int64, ids []string) ([]runtime.Message, error) {
	return read(f, func() ([]runtime.Message, error) { return f.Store.MessagesByID(ctx, threadKey, ids) })
}

func (f *faulty) MessageHeads(ctx context.Context, threadKey int64, ids []string) ([]data.MessageHead, error) {
	return read(f, func() ([]data.MessageHead, error) { return f.Store.MessageHeads(ctx, threadKey, ids) })
}

func (f *faulty) ShownHeads(ctx context.Context, threadKey int64, limit int) ([]data.MessageHead, error) {
	return read(f, func() ([]data.MessageHead, error) { return f.Store.ShownHeads(ctx, threadKey, limit) })
}

func (f *faulty) LastSeq(ctx context.Context, threadKey int64) (int64, error) {
	return read(f, func() (int64, error) { return f.Store.LastSeq(ctx, threadKey) })
}

func (f *faulty) Weight(ctx context.Context, threadKey, runKey int64) (data.Weight, error) {
	return read(f, func() (data.Weight, error) { return f.Store.Weight(ctx, threadKey, runKey) })
}

func (f *faulty) Events(ctx context.Context, threadKey, after int64, limit int) ([]runtime.StoredEvent, error) {
	return read(f, func() ([]runtime.StoredEvent, error) { return f.Store.Events(ctx, threadKey, after, limit) }, "events", threadKey, after)
}

func (f *faulty) LastEventID(ctx context.Context, threadKey int64) (int64, error) {
	return read(f, func() (int64, error) { return f.Store.LastEventID(ctx, threadKey) })
}

func (f *faulty) Spans(ctx context.Context, runKey int64) ([]runtime.Span, error) {
	return read(f, func() ([]runtime.Span, error) { return f.Store.Spans(ctx, runKey) }, "spans", runKey)
}

func (f *faulty) Memos(ctx context.Context, runKey int64, generation int) ([]runtime.Memo, error) {
	return read(f, func() ([]runtime.Memo, error) { return f.Store.Memos(ctx, runKey, generation) })
}

func (q queue) Signal(ctx context.Context, runKey int64, name string, after int64) (data.Signal, error) {
	return read(q.f, func() (data.Signal, error) { return q.Queue.Signal(ctx, runKey, name, after) })
}

func (f *faulty) Interrupts(ctx context.Context, runKey int64) ([]runtime.Interrupt, error) {
	return read(f, func() ([]runtime.Interrupt, error) { return f.Store.Interrupts(ctx, runKey) })
}
