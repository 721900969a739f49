package work

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/quota"
)

// restEach is the pause between two searches for deletions while no instance ends.
const restEach = 30 * time.Second

// deleteRest completes the deletions of servers that have ended, as one instance of a cluster does. A large one takes minutes, in which this
// instance takes runs over as always. deleteRest ends when the engine stops.
func (su *successor) deleteRest() {
	en := su.en
	mine := false
	tick := time.NewTicker(sweepEach)
	defer tick.Stop()
	for next := time.Now(); ; {
		if !mine {
			var err error
			mine, err = en.store.Members().TakeDuty(en.abandoned, dutyDeletions)
			en.logUnshared(err)
		}
		if now := time.Now(); mine && (now.After(next) || now.UnixNano() < en.searchUntil.Load()+int64(sweepEach)) { // an instance has ended
			next = now.Add(restEach)
			en.logUnshared(su.finishDeletions(en.abandoned))
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

// finishDeletions completes the deletions that an instance has begun which has ended, at the start of a single server before readers can
// see the remaining rows.
func (su *successor) finishDeletions(ctx context.Context) error {
	const limit = 100
	var errs []error
	for last := (data.Deletion{}); ; {
		list, err := commit.RetryUnavailable(ctx, func() ([]data.Deletion, error) {
			return su.en.store.Queue().Deletions(ctx, last.ThreadKey, last.RunKey, limit)
		})
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		for i := range list {
			last = list[i]
			if err := su.finishDeletion(&last); err != nil {
				errs = append(errs, fmt.Errorf("go on with a deletion: %w", err))
			}
		}
		if len(list) < limit {
			return errors.Join(errs...)
		}
	}
}

// finishDeletion removes the rest of a run or a thread. If that has changed since, the deletion had failed with an error for
// its caller, and the rest stays.
func (su *successor) finishDeletion(d *data.Deletion) error {
	for {
		out, err := su.en.Decide(quota.Owner{}, &decide.Delete{
			Thread: d.ThreadKey, Run: d.RunKey, Project: d.Project, Events: d.Events, Last: d.Last, Limit: su.en.cfg.DeletedAtOnce,
		})
		if refused, ok := errors.AsType[*data.Error](err); ok && refused.Kind != data.KindUnavailable && refused.Kind != data.KindOverloaded {
			return nil
		}
		if err != nil {
			return err
		}
		if !out.Removed.Left {
			su.en.log.Info("deletion is finished that an earlier instance has begun", "project", d.Project)
			return nil
		}
	}
}
