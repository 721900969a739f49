package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
)

// The instances of a cluster execute the runs of one database. A RUNNING run belongs to one of them; a QUEUED run is claimed by
// whichever comes first. Nothing that an instance reads here decides: the commands that follow see the rows as they are.

const (
	watchEach = time.Second
	// aloneEach is the number of looks of which one reads the descriptions of servers while there is no other.
	aloneEach = 10
	// sweepEach is how often an instance looks for work of instances that have ended, besides when one ends.
	sweepEach = 5 * time.Second
	// hurried is how often orphans are looked for during watchEach, shortly after an instance has ended or while one drains.
	hurried = 4
	// takenAtOnce is how many runs are taken over at the same time.
	takenAtOnce = 16
	// lookedAtOnce is how many threads a sweep looks at, at most.
	lookedAtOnce = 1000
	// knownEach is the number of sweeps of which one also looks at the threads that the queue knows: the server that was to cancel the
	// run before a QUEUED one may have died.
	knownEach = 3
)

// watch watches the other instances of a cluster, and wakes share when one has ended. It does nothing else: an instance that does not
// look for a while fences no other, and counts as no successor. It ends when the engine stops.
func (en *Engine) watch() {
	tick := time.NewTicker(watchEach)
	defer tick.Stop()
	for n := 0; ; n++ {
		gone, err := en.store.Watch(en.abandoned)
		en.logUnshared(err)
		if !en.store.Alone() || n%aloneEach == 0 {
			en.logUnshared(en.meet(en.abandoned))
		}
		en.logUnshared(en.introduce(en.abandoned))
		if gone {
			en.link.HintOrphans()
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

// share takes over the runs of instances that have ended, and claims QUEUED runs that no other claims. It ends when the engine stops.
func (en *Engine) share() {
	tick := time.NewTicker(watchEach / hurried)
	defer tick.Stop()
	next := time.Now()
	var others pull
	sweeps, swept := 0, int64(0) // up to which thread, 0 for all
	for n := -1; ; {             // ticks
		select {
		case <-en.quit:
			return
		case <-en.abandoned.Done(): // it was fenced
			return
		case <-en.orphaned:
			en.logUnshared(en.takeOrphans(en.abandoned))
			continue
		case <-tick.C:
			n++
		}
		now := time.Now()
		often := now.UnixNano() < en.searchUntil.Load()
		if n%hurried > 0 {
			if often {
				en.logUnshared(en.takeOrphans(en.abandoned))
			}
			continue
		}
		if !en.store.Alone() {
			en.logUnshared(en.queue.recount(func() (map[data.Name]int, error) { return en.store.CountQueued(en.abandoned) }))
			en.logUnshared(en.pull(en.abandoned, &others))
		}
		if now.Before(next) && !often {
			if en.suspects.left > 0 {
				en.logUnshared(en.takeOrphans(en.abandoned))
			}
			continue
		}
		sweeps++
		orphans := en.takeOrphans(en.abandoned)
		var looked error
		swept, looked = en.sweepQueue(en.abandoned, swept, swept > 0 || sweeps%knownEach == 0)
		if next = now; swept == 0 { // otherwise the sweep goes on a second later
			next = now.Add(commit.Spread(sweepEach))
		}
		en.logUnshared(errors.Join(orphans, looked, en.loadBudgets(en.abandoned, en.store, "", now)))
		en.logUnshared(en.endAbsent(en.abandoned))
	}
}

// logUnshared logs an error of the work for other instances, which is tried again soon, once a minute. The commit queue logs that the
// database is away.
func (en *Engine) logUnshared(err error) {
	if err == nil || errors.Is(err, data.ErrFenced) || en.abandoned.Err() != nil || en.Stopping() || en.commits.Trouble() != nil {
		return
	}
	if now, last := time.Now().Unix(), en.unsharedAt.Load(); now-last >= 60 && en.unsharedAt.CompareAndSwap(last, now) {
		en.log.Warn("work of other servers could not be taken over", "error", err)
	}
}

// takeOrphans takes over the RUNNING runs whose owner may not write any more. In a cluster it leaves those that this instance has
// no agent or no room for to the others. It fails when nothing can be written now.
func (en *Engine) takeOrphans(ctx context.Context) error {
	before := en.frees.Load()
	short, err := en.takeEach(ctx)
	if err == nil {
		short, err = en.takeAll(ctx, short) // some have given their room back meanwhile
	}
	en.queue.keepRoom(short)
	if en.frees.Load() != before && en.queue.hasRoom(en.admission.lacks) { // since it was missing
		en.lookForOrphans()
	}
	return err
}

// takeEach takes over each orphan, at most one suspect among them, and returns those for which this instance has no room now.
func (en *Engine) takeEach(ctx context.Context) (short []roomless, err error) {
	const limit = 500
	found := lineup{en: en, owners: make(map[string]data.Instance)}
	take := func(heads []data.RunHead) error {
		runs := make([]roomless, len(heads))
		for i := range heads {
			runs[i] = en.queue.weighed(&heads[i])
		}
		more, err := en.takeAll(ctx, runs)
		short = append(short, more...)
		return err
	}
	for after, full := int64(0), true; full; {
		left, err := commit.RetryUnavailable(ctx, func() ([]data.RunHead, error) { return en.store.Orphans(ctx, after, limit) })
		if err != nil {
			return short, err
		}
		if full = len(left) == limit; full {
			after = left[limit-1].ThreadKey
		}
		if left, err = en.cancelLeft(ctx, left); err == nil {
			left, err = found.add(ctx, left)
		}
		if err == nil {
			err = take(left)
		}
		if err != nil {
			return short, err
		}
	}
	return short, take(found.next())
}

// cancelLeft ends those of the runs that their owners were asked to cancel, which needs no agent and no room, and returns the others.
func (en *Engine) cancelLeft(ctx context.Context, runs []data.RunHead) (rest []data.RunHead, err error) {
	asks := make(map[string][]data.CancelAsk) // by owner
	for i := range runs {
		run := &runs[i]
		of, ok := asks[run.Owner]
		if !ok {
			if of, err = en.store.CancelAsks(ctx, run.Owner); err != nil {
				return nil, err
			}
			asks[run.Owner] = of
		}
		at := slices.IndexFunc(of, func(c data.CancelAsk) bool { return c.RunKey == run.Key })
		if at < 0 {
			rest = append(rest, *run)
			continue
		}
		err := en.cancelOrphan(ctx, run, cancelledBy(decide.By{Request: of[at].By}))
		if err != nil && !overtaken(err) && !errors.Is(err, decide.ErrStale) {
			en.about(run).Error("run could not be cancelled", "error", err)
		}
	}
	return rest, nil
}

// cancelOrphan ends a RUNNING run whose owner may not write any more.
func (en *Engine) cancelOrphan(ctx context.Context, head *data.RunHead, e ending) error {
	run, err := commit.RetryUnavailable(ctx, func() (data.Run, error) { return en.store.Run(ctx, head.Key) })
	if err != nil || run.Status != data.Running || run.Owner != head.Owner {
		return err
	}
	l, it, err := en.readBack(ctx, &run, fromLog)
	if err != nil {
		return err
	}
	return l.endReadBack(it, e, nil)
}

// takeAll takes over runs: one after the other at the start of a single instance, whose readers wait for all, and several at
// once in a cluster. It returns those for which this instance has no room now.
func (en *Engine) takeAll(ctx context.Context, runs []roomless) (short []roomless, err error) {
	width := 1
	if en.shared {
		width = takenAtOnce
	}
	var mu sync.Mutex // guards failed and short
	var failed error
	fails := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return failed != nil
	}
	var taking sync.WaitGroup
	places := make(chan struct{}, width)
	for i := range runs {
		run := &runs[i]
		if fails() || en.Stopping() {
			break
		}
		if en.shared && !en.offersOrNotes(ctx, &run.run) {
			continue
		}
		places <- struct{}{}
		taking.Go(func() {
			defer func() { <-places }()
			err := en.takeOne(ctx, run)
			mu.Lock()
			defer mu.Unlock()
			if failed = cmp.Or(failed, err); run.lacks != (shortage{}) && !run.lacks.absent {
				short = append(short, *run)
			}
		})
	}
	taking.Wait()
	return short, failed
}

// takeOne takes over a run. If the run has no room here, takeOne sets its shortage. It fails only if the database cannot be written now: a
// run with an error does not keep a server down.
func (en *Engine) takeOne(ctx context.Context, run *roomless) error {
	run.lacks = shortage{}
	if en.shared {
		run.lacks = en.admission.lacks(&run.run, run.weight)
	}
	if run.lacks != (shortage{}) { // nothing is read then
		return nil
	}
	err := en.takeOverNow(ctx, run.run.Key)
	for !en.shared && errors.Is(err, commit.ErrContended) { // nobody else would take it over later
		err = en.takeOverNow(ctx, run.run.Key)
	}
	left, ok := errors.AsType[noRoom](err)
	switch {
	case ok: // a later sweep tries again
		run.lacks, run.weight = left.lacks, left.weight
	case err == nil, overtaken(err):
	case unwritten(err):
		return fmt.Errorf("run %s: %w", run.run.ID, err)
	default:
		en.about(&run.run).Error("run can be neither taken over nor failed", "error", err)
	}
	return nil
}

// pull is how far an instance has looked for QUEUED runs that no other instance claims.
type pull struct {
	thread, key int64       // the last run of the last look; the next look begins behind it, and at the beginning once it was the last of all
	found       []elsewhere // by the last look: who queued their runs has had the time since to claim them
}

// pulledAtOnce is how many QUEUED runs a look reads: more of them, which may all be unable to begin, only delay the others by a look.
const pulledAtOnce = 2000

// pull puts threads with a run that can be claimed into the queue, as many as there are free slots. It remembers some for slots that
// become free.
func (en *Engine) pull(ctx context.Context, p *pull) error {
	if err := en.offerFound(ctx, p.found); err != nil {
		return err
	}
	const limit = 500
	p.found = p.found[:0]
	for read := 0; read < pulledAtOnce && !en.Stopping(); read += limit {
		list, err := en.store.Unfinished(ctx, data.Queued, p.thread, p.key, limit)
		if err != nil {
			return err
		}
		for runs := range byThread(list) {
			f := elsewhere{runs[0].ThreadKey, data.Name{Project: runs[0].Project, User: runs[0].User}}
			last := len(p.found) - 1
			if last >= 0 && p.found[last].thread == f.thread || en.queue.awaits(f.thread, runs) || en.admission.isCapped(f.user) {
				continue
			}
			if slices.ContainsFunc(runs, func(run data.RunHead) bool { offers, _ := en.offersFound(ctx, &run); return offers }) {
				p.found = append(p.found, f)
			}
		}
		if n := len(list); n > 0 {
			p.thread, p.key = list[n-1].ThreadKey, list[n-1].Key
		}
		if len(list) < limit {
			p.thread, p.key = 0, 0
			break
		}
	}
	return nil
}

// byThread yields the runs of each thread.
func byThread(list []data.RunHead) iter.Seq[[]data.RunHead] {
	return func(yield func([]data.RunHead) bool) {
		for len(list) > 0 {
			n := slices.IndexFunc(list, func(r data.RunHead) bool { return r.ThreadKey != list[0].ThreadKey })
			if n < 0 {
				n = len(list)
			}
			if !yield(list[:n]) {
				return
			}
			list = list[n:]
		}
	}
}

// offerFound puts those of the threads into the queue that may have a run to claim, or remembers them.
func (en *Engine) offerFound(ctx context.Context, found []elsewhere) error {
	if len(found) == 0 {
		return nil
	}
	threads := make([]int64, len(found))
	for i := range found {
		threads[i] = found[i].thread
	}
	busy, err := en.store.BusyThreads(ctx, threads)
	if err != nil {
		return err
	}
	slices.Sort(busy)
	free := en.admission.free()
	for _, f := range found {
		_, is := slices.BinarySearch(busy, f.thread)
		switch {
		case is, en.queue.serves(f.thread), en.admission.isCapped(f.user):
		case free > 0:
			en.lookAt(f.thread)
			free--
		default:
			en.queue.foundElsewhere(f)
		}
	}
	return nil
}

// sweepQueue looks at threads of which the queue does not know, or does not know that their QUEUED runs have begun or ended
// elsewhere; with all also at the others, unless it is about to serve them. It begins behind the thread after, and returns where the next
// sweep has to begin.
func (en *Engine) sweepQueue(ctx context.Context, after int64, all bool) (next int64, err error) {
	known := en.queue.threads()
	looks := 0
	look := func(thread int64) {
		if thread <= after || next != 0 || en.Stopping() {
			return
		}
		en.lookAt(thread)
		if looks++; looks == lookedAtOnce {
			next = thread
		}
	}
	last := int64(0)
	err = unfinished(ctx, en.store, data.Queued, func(page []data.RunHead) {
		for runs := range byThread(page) {
			for i := range runs {
				en.offersOrNotes(ctx, &runs[i])
			}
			if runs[0].ThreadKey == last { // its first runs are on the page before
				continue
			}
			if last = runs[0].ThreadKey; !known[last] || all && !en.queue.awaits(last, runs) {
				look(last)
			}
			delete(known, last)
		}
	})
	if err != nil {
		return after, err
	}
	for _, thread := range slices.Sorted(maps.Keys(known)) {
		look(thread)
	}
	return next, nil
}

// lookAt lets the queue look at a thread.
func (en *Engine) lookAt(thread int64) {
	en.commits.Add(&commit.Item{Command: &decide.Look{Thread: thread}})
}
