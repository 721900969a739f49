package work

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/batonrun/baton/runtime/answer"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
)

const (
	expiryEach    = 5 * time.Second // between two searches for interrupts that expire until the next one
	expiredAtOnce = 100
)

// expiry ends the questions whose time is over.
type expiry struct {
	en   *Engine
	next atomic.Int64 // when expire searches next, in Unix milliseconds
}

// expire answers interrupts that have expired, as one instance of a cluster does. It ends when the runtime stops.
func (ex *expiry) expire() {
	en := ex.en
	mine := false
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-en.quit:
			return
		case at := <-tick.C:
			en.cfg.Feeds.Sweep(at)
		}
		if !mine {
			mine, _ = en.store.Members().TakeDuty(en.abandoned, dutyExpiry)
		}
		now := time.Now()
		if !mine || now.UnixMilli() < ex.next.Load() {
			continue
		}
		ex.next.Store(now.Add(expiryEach).UnixMilli())
		soon, err := en.store.Queue().Expired(en.abandoned, now.Add(expiryEach), expiredAtOnce)
		if err != nil || len(soon) == expiredAtOnce { // readiness reports the error
			ex.next.Store(0)
		}
		for i := range soon {
			if soon[i].ExpiresAt.After(now) {
				ex.expiresAt(*soon[i].ExpiresAt)
				break
			}
			ex.expireOne(&soon[i])
		}
	}
}

// expiresAt has expire search no later than at a time.
func (ex *expiry) expiresAt(at time.Time) {
	for ms := at.UnixMilli(); ; {
		next := ex.next.Load()
		if next <= ms || ex.next.CompareAndSwap(next, ms) {
			return
		}
	}
}

// The duties of an engine, which one instance of a cluster does for all until it ends.
const (
	dutyExpiry    = "expiry of questions"
	dutyWakes     = "ends of waits"
	dutyDeletions = "deletions of other servers"
)

func (ex *expiry) expireOne(late *data.Interrupt) {
	en := ex.en
	run, err := en.store.Run(en.abandoned, late.RunKey)
	if err != nil {
		return // the run is gone, or readiness reports it; the next tick tries again
	}
	err = en.decide(&commit.Item{Owner: ownerOf(&run.RunHead), Command: &decide.Expire{Thread: run.ThreadKey, Run: run.Key, Reply: answer.Expired(late)}})
	if err != nil && !errors.Is(err, decide.ErrStale) && !errors.Is(err, commit.ErrContended) { // the next tick tries again
		en.about(&run.RunHead).Error("interrupt could not be expired", "interrupt", late.ID, "error", err)
	}
}
