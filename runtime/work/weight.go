package work

import (
	"context"

	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/model"
)

// weightOf is what a run weighs that is asked so many bytes, nothing if they are few: its slot is for them, too.
func (en *Engine) weightOf(asked int64) int64 {
	if asked <= int64(en.cfg.Light) {
		return 0
	}
	return asked
}

// weigh returns what a run weighs, which has said nothing unless it goes on. One of which the database does not tell weighs
// nothing: its claim learns why.
func (en *Engine) weigh(r *model.RunHead) model.Weight {
	w, err := commit.Patiently(en.abandoned, func() (model.Weight, error) { return en.store.Weight(en.abandoned, r.ThreadKey, r.Key) })
	if err != nil {
		return model.Weight{}
	}
	w.Asked = en.weightOf(w.Asked)
	w.Said *= 2 // a worker's answer is there once more in its output
	if !r.Answered || w.Said < int64(en.cfg.Light) {
		w.Said = 0
	}
	return w
}

// weighStart returns what the run of a request weighs.
func (en *Engine) weighStart(ctx context.Context, c *decide.Start) (int64, error) {
	asked := int64(len(c.Run.Input)+len(c.Run.Definition)) + int64(c.Size) + int64(len(c.Messages)*model.MessageBytes)
	if c.New {
		return en.weightOf(asked), nil
	}
	of, err := en.store.Weight(ctx, c.Thread.Key, c.Run.Key)
	return en.weightOf(asked + of.Asked), err
}
