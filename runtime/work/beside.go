package work

import (
	"context"
	"time"

	"github.com/batonrun/baton/runtime/bus"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/exec"
	"github.com/batonrun/baton/runtime/tail"
)

// An instance reads the work of the others from the database: their requests about the runs that it executes, and the events that
// they write to the logs that its viewers read.

const (
	// lookEvery is the pause between two looks.
	lookEvery = 250 * time.Millisecond
	// rarely is the number of looks of which one includes work that is not urgent.
	rarely = 4
	// listsEach counts the looks after which viewers of lists read them again, as a hint may be lost.
	listsEach = 60
)

// errUnconfirmed answers the request to cancel a run that another instance executes.
var errUnconfirmed = func() *data.Error {
	err := data.Refuse(data.KindUnavailable, "outcome_unknown",
		"The server that executes the run has not confirmed that it was cancelled; it ends as soon as that server, or its successor, answers")
	err.RetryAfter = 5 * time.Second
	return err
}()

// awaitOther waits until a run that another instance executes has left RUNNING, also if it is RUNNING again, or is deleted. It fails with
// errUnconfirmed at a time, or when this instance stops.
func (en *Engine) awaitOther(of *data.RunHead, until time.Time) error {
	for pause := lookEvery / 64; ; pause = min(2*pause, lookEvery) {
		en.link.Hint(bus.Cancel, of.Key) // an earlier one may be lost
		if !en.sleep(pause) {
			return errUnconfirmed
		}
		heads, err := commit.RetryUnavailable(en.abandoned, func() ([]data.RunHead, error) {
			return en.store.Heads(en.abandoned, []int64{of.Key})
		})
		if en.abandoned.Err() != nil {
			return errUnconfirmed
		}
		if err != nil || len(heads) == 0 || heads[0].Status != data.Running || heads[0].ClosedEvent != of.ClosedEvent {
			return err
		}
		if time.Now().After(until) {
			return errUnconfirmed
		}
	}
}

// sleep waits for d. It reports false if the engine is abandoned first.
func (en *Engine) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-en.abandoned.Done():
		return false
	}
}

// look reads the database at intervals, and the rows that hints name at once. It ends when the runtime has drained and the
// last run has ended.
func (en *Engine) look() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for n := 0; ; {
		select {
		case <-en.abandoned.Done():
			return
		case <-en.link.Arrived():
			en.heed(en.link.Take())
			en.sleep(heedEvery)
			continue
		case <-tick.C:
		}
		if en.drained.Load() && en.runs.count() == 0 {
			return
		}
		scope := tail.Foreign
		switch n++; {
		case n%rarely == 0:
			scope = tail.All
		case en.link.Hears(): // other servers tell when there are news
			scope = tail.Fresh
		}
		others := en.Fleet.OthersLive()
		ctx, cancel := context.WithTimeout(en.abandoned, lookTimeout)
		en.Queue.CountCapped(ctx)                                 // also without others: a run that nobody executed may have ended
		if en.runs.count() > 0 && (others || scope == tail.All) { // else nobody asks for anything
			en.cancelAsked(ctx)
		}
		if !others {
			cancel()
			continue
		}
		if scope != tail.Fresh {
			en.Queue.Wake(false) // hints about rows of the queue may be lost
		}
		en.cfg.Feeds.Changes.RingNew()
		began := time.Now()
		if err := en.cfg.Logs.Look(ctx, scope); err == nil && scope == tail.All { // readers get the error of a lasting failure
			en.Fleet.Looked(began)
		}
		if scope == tail.All {
			en.countAppended(ctx)
			if n%listsEach == 0 || en.link.Stats().Deaf {
				en.cfg.Feeds.Changes.RingAll()
			}
		}
		cancel()
	}
}

// lookTimeout ends a look that the database does not answer. Readiness reports that; the next look tries again.
const lookTimeout = 10 * time.Second

// cancelAsked cancels the runs for which another instance has asked that.
func (en *Engine) cancelAsked(ctx context.Context) {
	asks, err := en.store.CancelAsks(ctx, en.cfg.Instance)
	if err != nil {
		return
	}
	for i := range asks {
		l := en.runs.of(asks[i].RunKey)
		if l == nil { // it is about to begin
			continue
		}
		en.tasks.Go(func() { l.Settle(exec.CancelledBy(decide.By{Request: asks[i].By})) }) // ends with the commit
	}
}

// countAppended lets the runs of this instance find messages that were appended elsewhere.
func (en *Engine) countAppended(ctx context.Context) {
	var keys []int64
	for _, l := range en.runs.all() {
		if l.Inbox.Load() == 0 {
			keys = append(keys, l.Head().Key)
		}
	}
	if len(keys) == 0 {
		return
	}
	appended, err := en.store.Queue().Appended(ctx, keys)
	if err != nil {
		return
	}
	for key, n := range appended {
		if l := en.runs.of(key); l != nil {
			l.Inbox.CompareAndSwap(0, int64(n))
		}
	}
}

// heedEvery is the pause after hints were heeded. Those that arrive meanwhile are heeded together.
const heedEvery = 10 * time.Millisecond

// heed looks at the rows that hints of other servers are about.
func (en *Engine) heed(h bus.Hints) {
	ctx, cancel := context.WithTimeout(en.abandoned, lookTimeout)
	defer cancel()
	if h[bus.Cancel].All || en.executesAny(h[bus.Cancel].List()) {
		en.cancelAsked(ctx)
	}
	if h[bus.Look].All {
		_ = en.cfg.Logs.Look(ctx, tail.All) // as in look
	} else {
		_ = en.cfg.Logs.LookAt(ctx, h[bus.Look].List())
	}
	if h[bus.Changed].All {
		en.cfg.Feeds.Changes.RingAll()
	}
	for _, list := range h[bus.Changed].List() {
		en.cfg.Feeds.Changes.Ring(list)
	}
	if h[bus.Inbox].All || en.executesAny(h[bus.Inbox].List()) {
		en.countAppended(ctx)
	}
	if signals := h[bus.Signal]; !signals.Empty() {
		for _, l := range en.runs.all() {
			if signals.Has(l.Head().Key) {
				l.Signal()
			}
		}
	}
	if !h[bus.Queue].Empty() {
		en.Queue.Wake(false)
	}
	if h[bus.Orphans].All {
		en.Queue.FindOrphans()
	}
	if revoked := h[bus.Revoked]; !revoked.Empty() && en.cfg.Revoked != nil {
		en.cfg.Revoked(ctx, func(credential string) bool { return revoked.Has(bus.KeyOf(credential)) })
	}
}

// executesAny reports whether this instance executes one of the runs.
func (en *Engine) executesAny(runs []int64) bool {
	for _, key := range runs {
		if en.runs.of(key) != nil {
			return true
		}
	}
	return false
}

const refusedPause = 5 * time.Second

// rest waits before a command that the database has refused is tried again. It reports false when the runtime stops.
func (en *Engine) rest() bool {
	t := time.NewTimer(refusedPause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-en.quit:
	case <-en.abandoned.Done():
	}
	return false
}
