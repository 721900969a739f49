package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/bus"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/exec"
	"github.com/batonrun/baton/runtime/queue"
)

// The instances of a cluster execute the runs of one database. A RUNNING run belongs to one of them; a QUEUED run is claimed by
// whichever comes first. Nothing that an instance reads here decides: the commands that follow see the rows as they are.

const (
	watchEach = time.Second
	// sweepEach is how often an instance looks for work of instances that have ended, besides when one ends.
	sweepEach = 5 * time.Second
	// hurried is how often orphans are looked for during watchEach, shortly after an instance has ended or while one drains.
	hurried = 4
	// takenAtOnce is how many runs are taken over at the same time.
	takenAtOnce = 16
)

// successor takes over the runs and the deletions of instances that have ended.
type successor struct {
	en       *Engine
	suspects suspects
}

// watch watches the other instances of a cluster, and wakes share when one has ended. It does nothing else: an instance that does not
// look for a while fences no other, and counts as no successor. It ends when the engine stops.
func (en *Engine) watch() {
	tick := time.NewTicker(watchEach)
	defer tick.Stop()
	for {
		gone, alone, err := en.Fleet.Watch(en.abandoned)
		en.logUnshared(err)
		if alone {
			en.cfg.Feeds.Changes.RingAll()
		}
		if gone {
			en.link.HintAll(bus.Orphans)
			en.searchUntil.Store(time.Now().Add(sweepEach).UnixNano())
		}
		select {
		case <-en.quit:
			return
		case <-en.abandoned.Done(): // it was fenced
			return
		case <-tick.C:
		}
	}
}

// share takes over the runs of instances that have ended, and fails those that no instance can execute. It ends when the engine stops.
func (su *successor) share() {
	en := su.en
	tick := time.NewTicker(watchEach / hurried)
	defer tick.Stop()
	next := time.Now()
	for n := -1; ; { // ticks
		select {
		case <-en.quit:
			return
		case <-en.abandoned.Done(): // it was fenced
			return
		case <-en.Queue.Orphaned():
			en.logUnshared(su.takeOrphans(en.abandoned))
			if en.Queue.OrphansWait() {
				en.sleep(100 * time.Millisecond) // each run that ends has them looked for again
			}
			continue
		case <-tick.C:
			n++
		}
		now := time.Now()
		often := now.UnixNano() < en.searchUntil.Load()
		if n%hurried > 0 {
			if often {
				en.logUnshared(su.takeOrphans(en.abandoned))
			}
			continue
		}
		if en.Fleet.OthersLive() || !now.Before(next) {
			en.logUnshared(en.Queue.Count(en.abandoned))
		}
		if now.Before(next) && !often {
			if su.suspects.left > 0 {
				en.logUnshared(su.takeOrphans(en.abandoned))
			}
			continue
		}
		next = now.Add(commit.Spread(sweepEach))
		orphans := su.takeOrphans(en.abandoned)
		en.Queue.Wake(true)
		en.logUnshared(errors.Join(orphans, en.Fleet.NoteQueued(en.abandoned), en.Budget.Load(en.abandoned, "", now)))
		en.logUnshared(su.failGone(en.abandoned))
	}
}

// takeOrphans takes over the RUNNING runs whose owner may not write any more, and at most one suspect among them. In a cluster it leaves
// those that this instance has no agent or no room for to the others. It fails when nothing can be written now.
func (su *successor) takeOrphans(ctx context.Context) (err error) {
	en := su.en
	const limit = 500
	t := taking{en: en, search: en.Queue.Search()}
	defer func() { t.search.End(err == nil) }()
	found := lineup{en: en, owners: make(map[string]data.Instance)}
	for after, full := int64(0), true; full; {
		left, err := commit.RetryUnavailable(ctx, func() ([]data.RunHead, error) { return en.store.Queue().Orphans(ctx, after, limit) })
		if err != nil {
			return err
		}
		if full = len(left) == limit; full {
			after = left[limit-1].ThreadKey
		}
		if left, err = su.cancelLeft(ctx, left); err == nil {
			left, err = found.add(ctx, left)
		}
		if err == nil {
			err = t.all(ctx, left)
		}
		if err != nil {
			return err
		}
	}
	return t.all(ctx, found.next())
}

// cancelLeft ends those of the runs that their owners were asked to cancel, which needs no agent and no room, and returns the others.
func (su *successor) cancelLeft(ctx context.Context, runs []data.RunHead) (rest []data.RunHead, err error) {
	asks := make(map[string][]data.CancelAsk) // by owner
	for i := range runs {
		run := &runs[i]
		of, ok := asks[run.Owner]
		if !ok {
			if of, err = su.en.store.CancelAsks(ctx, run.Owner); err != nil {
				return nil, err
			}
			asks[run.Owner] = of
		}
		at := slices.IndexFunc(of, func(c data.CancelAsk) bool { return c.RunKey == run.Key })
		if at < 0 {
			rest = append(rest, *run)
			continue
		}
		err := su.endOrphan(ctx, run, exec.CancelledBy(decide.By{Request: of[at].By}))
		if err != nil && !overtaken(err) && !errors.Is(err, decide.ErrStale) {
			su.en.about(run).Error("run could not be cancelled", "error", err)
		}
	}
	return rest, nil
}

// endOrphan ends a RUNNING run whose owner may not write any more.
func (su *successor) endOrphan(ctx context.Context, head *data.RunHead, e exec.Ending) error {
	run, err := commit.RetryUnavailable(ctx, func() (data.Run, error) { return su.en.store.Run(ctx, head.Key) })
	if err != nil || run.Status != data.Running || run.Owner != head.Owner {
		return err
	}
	return exec.EndOrphan(ctx, su.en.exec, &run, e)
}

// taking takes over runs.
type taking struct {
	en     *Engine
	search *queue.Search

	mu     sync.Mutex // guards failed
	failed error
}

// all takes over runs: one after the other at the start of a single instance, as its readers wait for all, and several at once in a cluster.
func (t *taking) all(ctx context.Context, runs []data.RunHead) error {
	en, width := t.en, 1
	if en.shared {
		width = takenAtOnce
	}
	var at sync.WaitGroup
	places := make(chan struct{}, width)
	for i := range runs {
		run := &runs[i]
		if t.fails() || en.Stopping() {
			break
		}
		if en.shared && !en.Fleet.MayTake(ctx, run) {
			continue
		}
		places <- struct{}{}
		at.Go(func() {
			defer func() { <-places }()
			t.one(ctx, run)
		})
	}
	at.Wait()
	return t.failed
}

func (t *taking) fails() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed != nil
}

// one takes over a run, or notes its shortage. It fails only if the database cannot be written now: a run with an error does not keep a
// server down.
func (t *taking) one(ctx context.Context, run *data.RunHead) {
	en := t.en
	if en.shared && t.search.Lacks(run) { // nothing is read then
		return
	}
	err := en.successor.takeOverNow(ctx, run.Key)
	for !en.shared && errors.Is(err, commit.ErrContended) { // nobody else would take it over later
		err = en.successor.takeOverNow(ctx, run.Key)
	}
	noRoom, ok := errors.AsType[queue.NoRoom](err)
	switch {
	case ok:
		t.search.Note(run, noRoom)
	case err == nil, overtaken(err), errors.Is(err, queue.ErrElsewhere):
	case commit.Unwritten(err):
		t.mu.Lock()
		defer t.mu.Unlock()
		t.failed = cmp.Or(t.failed, fmt.Errorf("run %s: %w", run.ID, err))
	default:
		en.about(run).Error("run can be neither taken over nor failed", "error", err)
	}
}

// failGone ends a sweep: it fails the runs that no instance could execute for too long.
func (su *successor) failGone(ctx context.Context) error {
	var errs []error
	for _, run := range su.en.Fleet.EndSweep() {
		errs = append(errs, su.failAbsent(ctx, &run))
	}
	return errors.Join(errs...)
}

var agentGone = &agui.OutputError{Code: "agent_gone", Message: "No server has offered what the run needs for too long"}

func (su *successor) failAbsent(ctx context.Context, head *data.RunHead) error {
	var err error
	if head.Status == data.Queued {
		err = su.en.closeRun(head.ThreadKey, head.Key, exec.FailedWith(agentGone), func(run *data.Run, _ []data.Span) bool {
			return run.Status == data.Queued
		})
	} else {
		err = su.endOrphan(ctx, head, exec.FailedWith(agentGone))
	}
	if overtaken(err) || errors.Is(err, errGoesOn) || errors.Is(err, decide.ErrNotClaimed) { // a later sweep tries again
		return nil
	}
	return err
}

// recover completes the deletions that earlier instances began, and takes over the runs that they left RUNNING. In a cluster it leaves both
// to deleteRest and share, so that they do not keep a server from serving.
func (su *successor) recover(ctx context.Context) error {
	if su.en.shared {
		return nil
	}
	if err := su.finishDeletions(ctx); err != nil {
		return err
	}
	return su.takeOrphans(ctx)
}

// takeOverNow takes over a run as it is now, and again if it has changed meanwhile.
func (su *successor) takeOverNow(ctx context.Context, key int64) error {
	for {
		run, err := commit.RetryUnavailable(ctx, func() (data.Run, error) { return su.en.store.Run(ctx, key) })
		if err != nil {
			return err
		}
		if run.Status != data.Running {
			return nil
		}
		if err := su.takeOver(ctx, &run); !errors.Is(err, decide.ErrStale) {
			return err
		}
	}
}

// takeOver takes over a run for which there is room. In a cluster it fails with a queue.NoRoom or with queue.ErrElsewhere.
func (su *successor) takeOver(ctx context.Context, run *data.Run) error {
	en := su.en
	if !run.Released() {
		crashed, err := commit.RetryUnavailable(ctx, func() (bool, error) { return crashed(ctx, en.store, run.Owner) })
		if err != nil {
			return err
		}
		if crashed {
			run.Attempt++
		}
	}
	reserved, err := en.Queue.Reserve(en.abandoned, &run.RunHead)
	if err != nil {
		return err
	}
	begins, err := exec.TakeOver(ctx, en.exec, run, reserved)
	if !begins {
		en.Queue.GiveBack(reserved)
	}
	return err
}

// crashed reports whether an instance that has left runs RUNNING did not end in good order. An unknown instance counts as
// crashed.
func crashed(ctx context.Context, store data.Store, instance string) (bool, error) {
	in, err := store.Members().Instance(ctx, instance)
	if errors.Is(err, data.ErrNotFound) {
		return true, nil
	}
	return in.End != data.EndLeft && in.End != data.EndFenced, err
}

// logUnshared logs an error of the work for other instances, which is tried again soon, once a minute. The commit queue logs that the
// database is away.
func (en *Engine) logUnshared(err error) {
	if err == nil || errors.Is(err, data.ErrFenced) || en.abandoned.Err() != nil || en.Stopping() || en.Commits.Trouble() != nil {
		return
	}
	if now, last := time.Now().Unix(), en.unsharedAt.Load(); now-last >= 60 && en.unsharedAt.CompareAndSwap(last, now) {
		en.log.Warn("work that all servers share could not be read or taken over", "error", err)
	}
}
