package work

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/quota"
)

const (
	wakeEach    = 500 * time.Millisecond // between two looks for waits that are due
	wokenAtOnce = 256
)

// alarm queues the runs with due waits.
type alarm struct{ en *Engine }

// ring queues runs as their waits become due, as one instance of a cluster does. It ends when the engine stops.
func (a alarm) ring() {
	en, mine := a.en, false
	tick := time.NewTicker(wakeEach)
	defer tick.Stop()
	for {
		select {
		case <-en.quit:
			return
		case <-tick.C:
		}
		if en.Stopping() { // others have the duty
			return
		}
		if !mine {
			mine, _ = en.store.Members().TakeDuty(en.abandoned, dutyWakes)
		}
		if mine {
			en.logUnshared(a.wake(en.abandoned))
		}
	}
}

// wake queues the runs with waits that are due now, as many in one transaction as are queued together.
func (a alarm) wake(ctx context.Context) error {
	en := a.en
	for after, full := (data.Place{}), true; full; {
		due, err := en.store.Queue().Line(ctx, after, data.EachDue, wokenAtOnce)
		if err != nil {
			return err
		}
		var decided sync.WaitGroup
		errs := make([]error, len(due))
		for i := range due {
			p := &due[i]
			it := &commit.Item{Owner: quota.OwnerOf(p.Project, p.User), Command: &decide.Wake{Thread: p.ThreadKey, Run: p.RunKey}}
			decided.Add(1)
			it.Done = append(it.Done, func(err error) {
				defer decided.Done()
				if err == nil {
					en.logOutcome(it)
				} else if !errors.Is(err, decide.ErrMoved) && !errors.Is(err, commit.ErrContended) { // the next look finds it again
					errs[i] = err
				}
			})
			en.Commits.Add(it)
		}
		decided.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		if full = len(due) == wokenAtOnce; full {
			after = due[len(due)-1]
		}
	}
	return nil
}
