package runtime

import (
	"context"

	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/model"
)

// Cancel ends a run for good. When it returns, the terminal event is stored and nothing of the run will
// follow it, whatever its workers do. Cancelling a cancelled run is no error.
func (rt *Runtime) Cancel(ctx context.Context, c Caller, name string) (Run, error) {
	if err := rt.writes(); err != nil {
		return Run{}, err
	}
	return patiently(rt, func() (Run, error) { return rt.cancel(ctx, c, name) }, nil)
}

func (rt *Runtime) cancel(ctx context.Context, c Caller, name string) (Run, error) {
	run, err := rt.owned(ctx, c, name)
	if err != nil {
		return Run{}, err
	}
	if err := rt.work.Cancel(&run.RunHead, 0, rt.by(c, "cancel")); err != nil {
		return Run{}, unavailable(err)
	}
	ended, err := rt.keyed.run(context.WithoutCancel(ctx), run.granted)
	if err != nil {
		return Run{}, unavailable(model.Gone(err, ErrRunNotFound))
	}
	return grantedRun(ended), nil
}

// CancelTurn is Cancel for a run that still does what s began. One that has come to wait since, that was answered or is over is
// not cancelled, with a refusal.
func (rt *Runtime) CancelTurn(ctx context.Context, c Caller, s Started) error {
	return rt.cancelOf(ctx, c, s, rt.work.CancelTurn)
}

// CancelUnanswered is Cancel for a run that waits for an answer to what s began. One that was answered since is not cancelled,
// with a refusal.
func (rt *Runtime) CancelUnanswered(ctx context.Context, c Caller, s Started) error {
	return rt.cancelOf(ctx, c, s, rt.work.CancelUnanswered)
}

func (rt *Runtime) cancelOf(ctx context.Context, c Caller, s Started, cancel func(run *model.RunHead, after int64, by decide.By) error) error {
	if err := rt.writes(); err != nil {
		return err
	}
	return patientlyDone(rt, func() error {
		run, err := rt.owned(ctx, c, s.RunID)
		if err != nil {
			return err
		}
		return unavailable(cancel(&run.RunHead, s.After, rt.by(c, "cancel")))
	})
}
