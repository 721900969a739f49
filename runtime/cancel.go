package runtime

import (
	"context"

	"github.com/batonrun/baton/runtime/decide"
)

// Cancel ends a run for good. When it returns, the terminal event is stored and no event of the run will follow it,
// even if its workers continue. Cancelling a cancelled run is no error. It returns the run without its input and definition.
func (rt *Runtime) Cancel(ctx context.Context, c Caller, name string) (Run, error) {
	if err := rt.Member.writes(); err != nil {
		return Run{}, err
	}
	run, err := rt.Runs.owned(ctx, c, name)
	if err != nil {
		return Run{}, err
	}
	switch { // cancels are not rate limited, so those without effect must cost no more than this read
	case run.Status == Cancelled:
		return run, nil
	case run.Status.Final():
		return Run{}, decide.NotCancellable(run.Status)
	}
	if err := rt.carryThrough(func() error { return rt.work.Cancel(&run.RunHead, 0, rt.by(c, "cancel")) }); err != nil {
		return Run{}, unavailable(err)
	}
	return rt.Runs.owned(context.WithoutCancel(ctx), c, name)
}

// CancelTurn is Cancel for a run that is still in the turn that s began, or with waiting for one that waits for an answer to that turn. It
// refuses if the run has since been answered or ended, or begun to wait.
func (rt *Runtime) CancelTurn(ctx context.Context, c Caller, s Started, waiting bool) error {
	if err := rt.Member.writes(); err != nil {
		return err
	}
	cancel := rt.work.CancelTurn
	if waiting {
		cancel = rt.work.CancelUnanswered
	}
	run, err := rt.Runs.owned(ctx, c, s.RunID)
	if err != nil {
		return err
	}
	return unavailable(rt.carryThrough(func() error { return cancel(&run.RunHead, s.After, rt.by(c, "cancel")) }))
}
