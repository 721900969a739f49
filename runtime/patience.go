package runtime

import (
	"runtime/debug"
	"sync/atomic"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/commit"
)

// carryThrough runs a request's several decisions, such as a cancellation or a deletion in parts. If the database is stuck it fails with
// outcome_unknown, and do goes on.
func (rt *Runtime) carryThrough(do func() error) error {
	done, stuck := make(chan error, 1), rt.commits.Stuck()
	var left atomic.Bool
	go func() { // ends with the last decision
		var err error
		defer func() {
			if v := recover(); v != nil {
				err = &plugins.PanicError{Value: v, Stack: debug.Stack()}
			}
			if done <- err; err != nil && left.Load() && !commit.Unwritten(err) {
				rt.log.Error("a request that nobody waits for has failed", "error", err)
			}
		}()
		err = do()
	}()
	select {
	case err := <-done:
		return err
	case <-stuck:
		left.Store(true)
		return rt.commits.Unknown()
	}
}
