package runtime

import (
	"context"
	"errors"
	"slices"

	"github.com/batonrun/baton/runtime/agui"
)

// Cancel ends a run for good. When it returns, the terminal event is stored and nothing of the run will
// follow it, whatever its workers do. Cancelling a cancelled run is no error.
func (rt *Runtime) Cancel(ctx context.Context, c Caller, name string) (Run, error) {
	run, err := rt.owned(ctx, c, name)
	if err != nil {
		return Run{}, err
	}
	return rt.cancelRun(ctx, run.Key)
}

func (rt *Runtime) cancelRun(ctx context.Context, key int64) (Run, error) {
	for range 3 {
		if l := rt.liveRun(key); l != nil {
			err := l.end(cancelled())
			if err == nil {
				run, err := rt.store.Run(context.WithoutCancel(ctx), key)
				return run, unavailable(gone(err))
			}
			if !errors.Is(err, errSettled) {
				return Run{}, unavailable(err)
			}
		}
		run, err := rt.cancelQueued(key)
		if !errors.Is(err, errOwned) {
			return run, unavailable(err)
		}
	}
	return Run{}, ErrStopping // it is between two owners: released, or about to be claimed again
}

// cancelAll cancels runs, the last in line first, so that none starts meanwhile. Those that are over by then
// stay as they are.
func (rt *Runtime) cancelAll(ctx context.Context, runs []Run) error {
	for _, run := range slices.Backward(runs) {
		_, err := rt.cancelRun(ctx, run.Key)
		if refusal, ok := errors.AsType[*Error](err); err != nil && (!ok || refusal.Kind == KindUnavailable) {
			return err
		}
	}
	return nil
}

// errOwned means that the run was claimed meanwhile.
var errOwned = refuse(KindConflict, "running", "The run is running")

// cancelQueued cancels a run that nobody executes.
func (rt *Runtime) cancelQueued(key int64) (Run, error) {
	var run Run
	err := rt.com.do(func(ctx context.Context, tx Tx, out *outcome) error {
		var err error
		if run, err = tx.Run(ctx, key); err != nil {
			return gone(err)
		}
		th, err := tx.LockThread(run.ThreadKey)
		if err != nil {
			return err
		}
		switch run.Status {
		case Cancelled:
			return nil
		case Running:
			return errOwned
		case Completed, Failed:
			return refuse(KindInvalid, "invalid_state", "Run cannot be cancelled. Current status: %s", run.Status)
		}
		if err := rt.cancelIdle(ctx, tx, &run, &th, out); err != nil {
			return err
		}
		out.thread = th.Key
		return rt.afterRun(ctx, tx, th.Key, out, nil)
	})
	return run, err
}

// cancelIdle cancels a QUEUED or WAITING run inside a transaction. One that has never started writes no
// event and its messages are hidden; any other gets a span that says so.
func (rt *Runtime) cancelIdle(ctx context.Context, tx Tx, run *Run, th *Thread, out *outcome) error {
	spans, err := tx.Spans(ctx, run.Key)
	if err != nil {
		return err
	}
	now := tx.Now()
	if len(spans) == 0 {
		finish(run, cancelled(), now, 0)
		out.void = run.Key
		if err := tx.HideMessages(th.Key, []int64{run.Key}, 0); err != nil {
			return err
		}
		return tx.Put(run)
	}
	last, seq, err := ends(ctx, tx, th)
	if err != nil {
		return err
	}
	l := rt.newLive(run)
	l.w = newWriter(th, run.Key, l.spanName(run), last, seq)
	if err := l.load(ctx, tx, run, spans); err != nil {
		return err
	}
	it := &item{}
	queued, err := tx.Queued(ctx, run.Key)
	if err != nil {
		return err
	}
	span := Span{
		RunKey: run.Key, N: len(spans) + 1, ThreadKey: th.Key, RunID: l.w.runID,
		Generation: run.Generation, First: l.w.last + 1, State: th.State,
	}
	first, rest := fitting(queued)
	if err := l.w.started(it, run, first); err != nil {
		return err
	}
	if err := l.w.take(it, rest); err != nil {
		return err
	}
	if err := l.failOwed(ctx, tx, it); err != nil {
		return err
	}
	l.settleSteps(it, Cancelled, nil)
	if err := l.w.stage(it, agui.RunFinished{
		Base: agui.Base{Agent: run.WorkflowID}, Outcome: agui.Outcome{Type: agui.OutcomeCancelled}, Usage: run.Usage,
	}); err != nil {
		return err
	}
	finish(run, cancelled(), now, l.w.last)
	span.Last = l.w.last
	th.LastEventID, th.UpdatedAt = l.w.last, now
	out.recs = append(out.recs, it.recs...)
	out.evs = append(out.evs, it.evs...)
	return tx.Put(append(it.rows, run, &span, th)...)
}

// failOwed gives the calls that a waiting run has left open their results, those that a client has answered
// theirs, and closes its questions.
func (l *live) failOwed(ctx context.Context, tx Tx, it *item) error {
	all, err := tx.Interrupts(ctx, l.run.Key)
	if err != nil {
		return err
	}
	code := codeCancelled
	for i := range all {
		switch in := &all[i]; in.Status {
		case interruptOpen:
			in.Status = interruptCancelled
			it.rows = append(it.rows, in)
			if in.Frontend {
				code = codeInterrupted
			}
		case interruptAnswered:
			l.w.ver.Owe(in.ID)
			if err := l.take(it, in); err != nil {
				return err
			}
		}
	}
	for _, m := range l.memos {
		tool, ok := callName(m.Name)
		if !ok || m.Done || m.CallID == "" {
			continue
		}
		l.w.ver.Owe(m.CallID)
		if err := l.w.stage(it, failedCall(m.CallID, tool, code)); err != nil {
			return err
		}
	}
	return nil
}
