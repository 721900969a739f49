package work

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/quota"
)

func ownerOf(run *data.RunHead) quota.Owner { return quota.OwnerOf(run.Project, run.User) }

// Decide waits for the decision of a command in its owner's turn and returns the outcome, which must not be changed. The
// zero Owner is the server itself.
func (en *Engine) Decide(of quota.Owner, cmd decide.Command) (*decide.Decided, error) {
	it := &commit.Item{Owner: of, Command: cmd}
	err := en.decide(it)
	return outcome(it), err
}

// decide waits for the decision of a command, then logs and measures its effects on the thread's runs.
func (en *Engine) decide(it *commit.Item) error {
	err := en.Commits.Decide(it)
	if err == nil && it.Out != nil {
		en.logOutcome(it)
	}
	return err
}

// outcome returns the outcome of an item's command; it is empty when the command was not decided.
func outcome(it *commit.Item) *decide.Decided {
	if it.Out == nil {
		return new(decide.Decided)
	}
	return it.Out
}

// Ask is Decide for a request, which must not wait for a stuck database: Ask then fails with outcome_unknown, and calls late with the error
// of the decision. late may be nil.
func (en *Engine) Ask(of quota.Owner, cmd decide.Command, late func(error)) (*decide.Decided, error) {
	return ask(en, &commit.Item{Owner: of, Command: cmd}, func(_ *decide.Decided, err error, isLate bool) {
		if isLate && late != nil {
			late(err)
		}
	})
}

// ask is Ask for an item. It calls after, if not nil, with the outcome: before it returns, or late, if it has failed with outcome_unknown.
func ask(en *Engine, it *commit.Item, after func(out *decide.Decided, err error, late bool)) (*decide.Decided, error) {
	done, stuck := make(chan error, 1), en.Commits.Stuck()
	it.Done = append(it.Done, func(err error) { done <- err })
	en.Commits.Add(it)
	settle := func(err error, late bool) (*decide.Decided, error) {
		if err == nil && it.Out != nil {
			en.logOutcome(it)
		}
		if after != nil {
			after(outcome(it), err, late)
		}
		return outcome(it), err
	}
	select {
	case err := <-done:
		return settle(err, false)
	case <-stuck:
		go func() { // ends with the decision
			defer func() {
				if v := recover(); v != nil {
					en.log.Error("a request that nobody waits for has panicked", "panic", v, "stack", string(debug.Stack()))
				}
			}()
			if _, err := settle(<-done, true); err != nil && !commit.Unwritten(err) {
				en.log.Error("a request that nobody waits for has failed", "error", err)
			}
		}()
		return new(decide.Decided), en.Commits.Unknown()
	}
}

// DeleteAll has the next parts of several deletions decided, as many in one transaction as are queued together. It returns for each
// whether parts are left, and its error.
func (en *Engine) DeleteAll(list []*decide.Delete) (left []bool, errs []error) {
	left, errs = make([]bool, len(list)), make([]error, len(list))
	var decided sync.WaitGroup
	decided.Add(len(list))
	for i, cmd := range list {
		cmd.Limit = en.cfg.DeletedAtOnce
		it := &commit.Item{Command: cmd}
		it.Done = append(it.Done, func(err error) {
			defer decided.Done()
			if errs[i] = err; err == nil {
				left[i] = it.Out.Removed.Left
			}
		})
		en.Commits.Add(it)
	}
	decided.Wait()
	return left, errs
}

// overtaken reports whether a command about a run that was left has failed because of another instance: it has settled the run, owns it, or
// has locked its thread. In the latter case the next sweep tries again.
func overtaken(err error) bool {
	return errors.Is(err, data.ErrNotFound) || errors.Is(err, decide.ErrSettled) || errors.Is(err, decide.ErrRunning) || errors.Is(err, commit.ErrContended)
}

// repairedAtOnce is how many threads RepairQueue repairs.
const repairedAtOnce = 1000

// RepairQueue writes the rows of threads in the queue that do not agree with their runs. There are none unless a decision has a defect, or
// somebody has changed the database; without it their runs would wait for ever.
func (en *Engine) RepairQueue(ctx context.Context) error {
	threads, err := en.store.Queue().Misplaced(ctx, repairedAtOnce)
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
