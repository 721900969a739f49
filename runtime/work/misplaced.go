package work

import (
	"context"
	"fmt"

	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/quota"
)

// repairedAtOnce is how many threads RepairQueue repairs.
const repairedAtOnce = 1000

// RepairQueue writes the rows of threads in the queue that do not agree with their runs. There are none unless a decision has a defect, or
// somebody has changed the database; without it their runs would wait for ever.
func (en *Engine) RepairQueue(ctx context.Context) error {
	threads, err := en.store.Misplaced(ctx, repairedAtOnce)
	if err != nil {
		return err
	}
	for _, thread := range threads {
		if _, err := en.Decide(quota.Owner{}, &decide.Look{Thread: thread, Repair: true}); err != nil {
			return fmt.Errorf("queue row of thread %d: %w", thread, err)
		}
		en.repaired.Add(1)
		en.log.Error("a thread's row in the queue was wrong and has been repaired; this is a defect, please report it", "thread", thread)
	}
	return nil
}
