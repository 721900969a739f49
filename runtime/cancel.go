package runtime

import (
	"context"

	"github.com/batonrun/baton/runtime/model"
)

// Cancel ends a run for good. When it returns, the terminal event is stored and nothing of the run will
// follow it, whatever its workers do. Cancelling a cancelled run is no error.
func (rt *Runtime) Cancel(ctx context.Context, c Caller, name string) (Run, error) {
	if err := rt.writes(); err != nil {
		return Run{}, err
	}
	run, err := rt.owned(ctx, c, name)
	if err != nil {
		return Run{}, err
	}
	if err := rt.work.Cancel(run.ThreadKey, run.Key, 0); err != nil {
		return Run{}, unavailable(err)
	}
	run, err = rt.store.Run(context.WithoutCancel(ctx), run.Key)
	return run, unavailable(model.Gone(err, ErrRunNotFound))
}

// CancelUnanswered is Cancel for a run that has waited since the event closed, its span's last. One that was answered since is
// not cancelled, with a refusal.
func (rt *Runtime) CancelUnanswered(ctx context.Context, c Caller, name string, closed int64) error {
	if err := rt.writes(); err != nil {
		return err
	}
	run, err := rt.owned(ctx, c, name)
	if err != nil {
		return err
	}
	return unavailable(rt.work.CancelUnanswered(run.ThreadKey, run.Key, closed))
}
