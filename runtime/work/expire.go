package work

import (
	"errors"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
)

// expire answers interrupts that have expired, as one instance of a cluster does. It ends when the runtime stops.
func (en *Engine) expire() {
	mine := false
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-en.quit:
			return
		case now := <-tick.C:
			en.cfg.Feeds.Sweep(now)
		}
		if !mine {
			mine, _ = en.store.TakeDuty(en.abandoned, dutyExpiry)
		}
		if !mine {
			continue
		}
		late, err := en.store.Expired(en.abandoned, time.Now(), 100)
		if err != nil {
			continue // readiness reports it; the next tick tries again
		}
		for i := range late {
			en.expireOne(&late[i])
		}
	}
}

// The duties of an engine, which one instance of a cluster does for all until it ends.
const (
	dutyExpiry    = "expiry of questions"
	dutyDeletions = "deletions of other servers"
)

func (en *Engine) expireOne(late *data.Interrupt) {
	run, err := en.store.Run(en.abandoned, late.RunKey)
	if err != nil {
		return // the run is gone, or readiness reports it; the next tick tries again
	}
	reply := replyTo(late, taken{Entry: agui.ResumeEntry{InterruptID: late.ID, Status: data.InterruptCancelled}})
	reply.Payload = nil
	err = en.decide(&commit.Item{Owner: ownerOf(&run.RunHead), Command: &decide.Expire{Thread: run.ThreadKey, Run: run.Key, Reply: reply}})
	if err != nil && !errors.Is(err, decide.ErrStale) && !errors.Is(err, commit.ErrContended) { // the next tick tries again
		en.about(&run.RunHead).Error("interrupt could not be expired", "interrupt", late.ID, "error", err)
	}
}
