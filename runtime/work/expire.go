package work

import (
	"errors"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/model"
)

// expire answers interrupts whose time has passed. It ends when the runtime stops.
func (en *Engine) expire() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-en.quit:
			return
		case now := <-tick.C:
			en.cfg.Feeds.Sweep(now)
		}
		late, err := en.store.Expired(en.abandoned, time.Now(), 100)
		if err != nil {
			continue // readiness tells; the next tick tries again
		}
		for i := range late {
			if err := en.expireOne(&late[i]); err != nil && !errors.Is(err, decide.ErrStale) {
				en.log.Error("interrupt could not be expired", "interrupt", late[i].ID, "runKey", late[i].RunKey, "error", err)
			}
		}
	}
}

func (en *Engine) expireOne(late *model.Interrupt) error {
	run, err := en.store.Run(en.abandoned, late.RunKey)
	if err != nil {
		return model.Gone(err, decide.ErrRunNotFound)
	}
	reply := replyTo(late, agui.ResumeEntry{Status: model.InterruptCancelled}, "")
	return en.decide(&commit.Item{Command: &decide.Expire{Thread: run.ThreadKey, Run: run.Key, Reply: reply}})
}
