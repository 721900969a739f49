package storage

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// An instance that has been the only one since it joined is alone. It is spared the work that only others need: keys one by one, locks of names,
// looks at the logs of others. The instance that joins next must not write before the first one knows of it. So the first one counts as
// alone only for aloneFor after the begin of a look that saw no other, and the next one, which sees that it does, waits for that time
// after it has joined, or until the first one has written that it is alone no more. Both measure with their monotonic clocks, and never
// compare them. If a look comes too late, another instance may have come and gone: the instance never counts as alone again.
//
// A machine that was suspended, and its monotonic clock with it, may take itself for alone that long after it has woken up. That breaks
// nothing that is stored: the fence and the locks of rows decide what is written. Keys may be out of order, and a stream may end early.

// aloneFor is how long a look proves that no other instance writes.
const aloneFor = 3 * time.Second

// solitude is whether an instance has been the only one since it joined.
type solitude struct {
	base  time.Time    // with a monotonic clock
	until atomic.Int64 // in nanoseconds since base; 0 is never
}

func (a *solitude) holds() bool { return int64(time.Since(a.base)) < a.until.Load() }

// joins records that the instance joined in a transaction that began then.
func (a *solitude) joins(began time.Time, first bool) {
	a.until.Store(0)
	if first {
		a.prove(began)
	}
}

func (a *solitude) prove(began time.Time) {
	a.until.Store(int64(began.Add(aloneFor).Sub(a.base)))
}

// looked records a look, and whether it has seen no other instance. It has just ended.
func (a *solitude) looked(began time.Time, none bool) {
	if none && a.holds() {
		a.prove(began)
	} else {
		a.until.Store(0)
	}
}

// joins records that this process has joined as an instance, in a transaction that began then, and whether no other could write.
func (w *watcher) joins(instance string, began time.Time, first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.joined = instance
	w.alone.joins(began, first)
}

// Settle waits until no other instance counts as alone: see [data.Store].
func (c *committer) Settle(ctx context.Context) error {
	for began := time.Now(); !c.Alone(); {
		over := time.Since(began) >= aloneFor
		others, err := c.watcher.others(ctx)
		if err != nil {
			return fmt.Errorf("settle: %w", err)
		}
		if over || !slices.ContainsFunc(others, func(o sighting) bool { return o.alone }) {
			break
		}
		if err := c.KeepLease(ctx); err != nil { // which may be shorter
			return fmt.Errorf("settle: %w", err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(aloneFor / 30):
		}
	}
	return nil
}

// others looks at the other instances.
func (w *watcher) others(ctx context.Context) ([]sighting, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	others, _, err := w.look(ctx, w.joined)
	return others, err
}

// Alone reports that no other instance may write now: see [data.Store].
func (c *committer) Alone() bool { return c.d.single || c.watcher.alone.holds() }
