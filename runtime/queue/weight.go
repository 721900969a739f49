package queue

import (
	"context"

	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
)

// weightOf returns the weight of an input of so many bytes: nothing if they are few, because the slot covers them.
func (a *admission) weightOf(asked int64) int64 {
	if asked <= int64(a.cfg.LightBytes) {
		return 0
	}
	return asked
}

// weigh returns the weight of a run. Its messages count only if the run goes on. The weight is zero when the database does
// not return it: the claim then finds the error.
func (a *admission) weigh(ctx context.Context, r *data.RunHead) data.Weight {
	w, err := commit.RetryUnavailable(ctx, func() (data.Weight, error) { return a.cfg.Store.Weight(ctx, r.ThreadKey, r.Key) })
	if err != nil {
		return data.Weight{}
	}
	w.Asked = a.weightOf(w.Asked)
	w.Said *= 2 // a worker's answer is once more in its output
	if !r.Answered || w.Said < int64(a.cfg.LightBytes) {
		w.Said = 0
	}
	return w
}

// weighStart returns the weight of a requested run.
func (a *admission) weighStart(ctx context.Context, c *decide.Start) (int64, error) {
	asked := int64(len(c.Run.Input)+len(c.Run.Definition)) + int64(c.Size) + int64(len(c.Messages)*data.MessageBytes)
	if c.New {
		return a.weightOf(asked), nil
	}
	of, err := a.cfg.Store.Weight(ctx, c.Thread.Key, c.Run.Key)
	return a.weightOf(asked + of.Asked), err
}
