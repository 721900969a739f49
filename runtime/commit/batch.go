package commit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
)

// Run commits until Finish was called and the queue is empty, or until nothing can be written any more. It repeats nothing
// once ctx is done.
func (q *Queue) Run(ctx context.Context) {
	over := make(chan struct{})
	var beat sync.WaitGroup
	beat.Go(func() { q.beat(over) })
	defer beat.Wait()
	defer close(over)
	for q.take() {
		if len(q.taken.items) == 0 {
			if err := q.renew(ctx); err != nil {
				q.GiveUp(err)
				return
			}
			continue
		}
		if q.draining.Load() {
			for _, it := range q.taken.items {
				it.stay()
			}
		}
		if err := q.store(ctx, q.taken.items); err != nil {
			q.GiveUp(err)
			return
		}
		if ctx.Err() != nil && q.defers() {
			q.taken.items = nil
			q.GiveUp(errLocked)
			return
		}
	}
}

// beat requests a renewal of the lease every Heartbeat, and checks whether the database is stuck. It ends when over is
// closed.
func (q *Queue) beat(over <-chan struct{}) {
	tick := time.NewTicker(q.cfg.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-tick.C:
		}
		q.mu.Lock()
		q.due = true
		q.look()
		q.nonEmpty.Signal()
		q.mu.Unlock()
	}
}

// renew renews the lease, as commits do too. It fails only when this instance may not write any more. So an instance
// that writes nothing notices, too, that the database is away or is back.
func (q *Queue) renew(ctx context.Context) error {
	err := q.cfg.Lease.Renew(context.WithoutCancel(ctx), q.n-1)
	if errors.Is(err, data.ErrUnavailable) { // maybe its connection alone is broken
		err = q.cfg.Lease.Renew(context.WithoutCancel(ctx), q.n-1)
	}
	if errors.Is(err, data.ErrFenced) {
		return err
	}
	if err == nil {
		q.answered()
	} else if errors.Is(err, data.ErrUnavailable) || errors.Is(err, data.ErrDiskFull) {
		q.Note(err)
	}
	return nil
}

// store commits a batch and shows it. When the database refuses one of several items, store commits each item alone, so that
// only the faulty one fails. It fails only when this instance may not write any more; unstored items then stay in taken.
func (q *Queue) store(ctx context.Context, batch []*Item) error {
	err := q.commit(ctx, batch)
	if errors.Is(err, errRefused) {
		for i := range batch {
			q.mu.Lock()
			q.ask(time.Now())
			q.taken.items = batch[i:]
			q.mu.Unlock()
			if err := q.store(ctx, batch[i:i+1]); err != nil {
				return err
			}
		}
		q.taken.items = nil
		return nil
	}
	if err != nil {
		return err
	}
	q.answered() // it has answered, if only with refusals
	q.show(q.putBack(batch))
	return nil
}

// errRefused means that the database has refused an item of a batch.
var errRefused = errors.New("the batch was refused")

// commit writes a batch, and repeats the identical one while the database is unavailable. It fails with errRefused, or when
// this instance may not write any more. A single item that the database refuses has the reason in Err. Once the outcome of a
// batch is unknown, only the identical batch can settle it: the batch is neither given up nor split for being slow.
func (q *Queue) commit(ctx context.Context, batch []*Item) error {
	unknown, slow, conflicts := false, 0, 0
	b, decisions := q.prepare(batch)
	for attempt := 0; ; attempt++ {
		err := q.write(ctx, batch, b, decisions)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, data.ErrFenced):
			return err
		case errors.Is(err, data.ErrUnavailable):
			unknown = true
			q.Note(err)
		case errors.Is(err, data.ErrDiskFull):
			q.Note(err)
		case errors.Is(err, data.ErrTooSlow) && (unknown || slow < slowAttempts): // a batch with an unknown outcome may be stored
			slow++
			q.Note(err)
		case errors.Is(err, data.ErrConflict) && conflicts < conflictAttempts: // the earlier attempt was not stored
			conflicts++
			unknown = false
		case len(batch) == 1:
			batch[0].refused(err)
			return nil
		default:
			return errRefused
		}
		if ctx.Err() != nil {
			return err
		}
		_ = q.cfg.Lease.KeepLease(context.WithoutCancel(ctx)) // a batch that cannot be written is no sign of a dead instance
		Pause(ctx, attempt)
	}
}

// Limits of the repetitions of a batch that timed out, or that conflicted with another instance, before its items go one by
// one.
const (
	slowAttempts     = 2
	conflictAttempts = 10
)

// prepare makes the transaction of a batch, and returns the items of its decisions. The events of runs come first and
// decisions after them: no run has events behind a decision about it.
func (q *Queue) prepare(batch []*Item) (b *data.Batch, decisions []*Item) {
	b = new(data.Batch)
	said, rows, commands := 0, 0, 0
	for _, it := range batch {
		if it.Command != nil {
			commands++
		}
		said, rows = said+len(it.Events), rows+len(it.Rows)
	}
	b.Events, b.Rows = make([]data.StoredEvent, 0, said), make([]data.Row, 0, rows)
	b.Asks, decisions = make([]data.Ask, 0, commands), make([]*Item, 0, commands)
	for _, it := range batch {
		switch {
		case it.Source != nil && it.Source.lost.Load():
			it.Err = cmp.Or(it.Err, errLost)
		case it.Command != nil:
			decisions = append(decisions, it)
			b.Asks = append(b.Asks, it.Command.Ask())
		default:
			b.Events = append(b.Events, it.Events...)
			b.Rows = append(b.Rows, it.Rows...)
		}
	}
	awaitOne(decisions, b.Asks)
	return b, decisions
}

// write is one transaction.
func (q *Queue) write(ctx context.Context, batch []*Item, b *data.Batch, decisions []*Item) error {
	var moves moved
	b.Decide = func(i int, v *data.View) data.Changes {
		it := decisions[i]
		v.Queued = q.queued(&b.Asks[i], v, moves)
		it.Out = decide.Decide(v, it.Command)
		it.Err = it.Out.Refused
		moves.follow(it.Out)
		return it.Out.Changes
	}
	began := time.Now()
	err := q.cfg.Store.Commit(context.WithoutCancel(ctx), q.n, b)
	if err == nil {
		q.n++
		for _, i := range b.Deferred { // an earlier attempt may have decided them
			decisions[i].Out, decisions[i].Err, decisions[i].locked = nil, nil, true
		}
		if q.cfg.Committed != nil {
			q.cfg.Committed(events(batch), time.Since(began))
		}
	}
	return err
}

// moved holds the changes of the numbers of QUEUED runs: of all, of projects and of users, each by its name.
type moved map[data.Name]int

// follow adds the changes of a decision.
func (m *moved) follow(out *decide.Decided) {
	for i := range out.Moves {
		by, run := 0, &out.Moves[i].Run
		if out.Moves[i].To == data.Queued {
			by++
		}
		if out.Moves[i].From == data.Queued {
			by--
		}
		if by == 0 {
			continue
		}
		if *m == nil {
			*m = make(moved)
		}
		for _, of := range [3]data.Name{{}, {Project: run.Project}, {Project: run.Project, User: run.User}} {
			(*m)[of] += by
		}
	}
}

// queued returns how many runs are QUEUED at the time of a decision.
func (q *Queue) queued(ask *data.Ask, v *data.View, since moved) data.InQueue {
	project, user := v.Thread.Project, v.Thread.User
	if !v.Exists {
		project, user = ask.Name.Project, ask.Name.User
	}
	n := q.cfg.Queued(project, user)
	n.All += since[data.Name{}]
	n.OfProject += since[data.Name{Project: project}]
	n.OfUser += since[data.Name{Project: project, User: user}]
	return n
}

// events counts the events that a batch has written to logs.
func events(batch []*Item) int {
	n := 0
	for _, it := range batch {
		if n += len(it.Events); it.Out != nil && it.Err == nil {
			n += len(it.Out.Events)
		}
	}
	return n
}

// errLost is the error of items that a run has queued behind events that the database has refused.
var errLost = errors.New("an earlier event of the run could not be stored")

// show shows a committed batch, then calls Done of its items.
func (q *Queue) show(batch []*Item) {
	for _, it := range batch {
		if it.Err == nil && it.Then != nil {
			it.Then(it.Out)
		}
		if _, ok := it.Command.(*decide.Start); ok && (it.Out == nil || !it.Out.Claimed) {
			it.Records = nil // the run has not begun
		}
	}
	q.cfg.Show(batch)
	for _, it := range batch {
		for _, done := range it.Done {
			done(it.Err)
		}
		if s := it.Source; s != nil && s.lost.Load() {
			s.broken(fmt.Errorf("store events: %w", it.Err))
		}
	}
}
