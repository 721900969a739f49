package work

import (
	"errors"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/exec"
	"github.com/batonrun/baton/runtime/quota"
)

// Cancel cancels a run, whether or not it is executed here. Unless generation is 0, it cancels only that generation.
func (en *Engine) Cancel(run *data.RunHead, generation int, by decide.By) error {
	return en.cancel(ownerOf(run), &decide.Cancel{Thread: run.ThreadKey, Run: run.Key, Project: run.Project, Generation: generation, By: by})
}

// CancelTurn cancels a run, unless the run has closed a span behind the event after: then the turn is over.
func (en *Engine) CancelTurn(run *data.RunHead, after int64, by decide.By) error {
	return en.cancel(ownerOf(run), &decide.Cancel{Thread: run.ThreadKey, Run: run.Key, Project: run.Project, Until: after + 1, By: by})
}

func (en *Engine) cancel(owner quota.Owner, c *decide.Cancel) error {
	c.Instance = en.cfg.Instance
	patience := time.Now().Add(en.cfg.Commits.Patience)
	asked := false
	for tries := 0; tries < 3; {
		if l := en.runs.of(c.Run); l != nil && (c.Project == "" || c.Project == l.Head().Project) && !c.Moved(l.Head()) {
			err := l.End(exec.CancelledBy(c.By))
			if errors.Is(err, decide.ErrSettled) { // it is ending already, and its outcome follows
				err = l.AwaitEnd()
			} else if err == nil {
				return nil
			}
			if err != nil {
				return err
			}
		}
		it := &commit.Item{Owner: owner, Command: c}
		err := en.decide(it)
		if err == nil && it.Out.Run.Status == data.Running { // another instance executes it and was asked, or it is an orphan
			if err := en.awaitOther(&it.Out.Run, patience); err != nil {
				return err
			}
			asked = true
			continue
		}
		if asked && errors.Is(err, commit.ErrStopping) { // the other has ended the run, perhaps for this request
			return errUnconfirmed
		}
		if errors.Is(err, decide.ErrOwesSpan) {
			err = en.closeRun(c.Thread, c.Run, exec.CancelledBy(c.By), func(run *data.Run, spans []data.Span) bool {
				return unclaimed(run, spans) && !c.Moved(&run.RunHead)
			})
		}
		if !errors.Is(err, decide.ErrRunning) && !errors.Is(err, errGoesOn) {
			return err
		}
		tries++
	}
	return commit.ErrStopping // it is between two owners: released, or about to be claimed again
}

// CancelUnanswered cancels a run that has waited since the end of its first span behind the event after.
func (en *Engine) CancelUnanswered(of *data.RunHead, after int64, by decide.By) error {
	return en.closeRun(of.ThreadKey, of.Key, exec.CancelledBy(by), func(run *data.Run, spans []data.Span) bool {
		turn := slices.IndexFunc(spans, func(s data.Span) bool { return s.First > after })
		return run.Project == of.Project && run.Status == data.Waiting && !run.Parked() && turn >= 0 && turn == len(spans)-1
	})
}

// CancelAll cancels runs. Runs that are over by then stay as they are.
func (en *Engine) CancelAll(runs []data.RunHead, by decide.By) error {
	for i := range runs {
		err := en.Cancel(&runs[i], runs[i].Generation, by)
		if refusal, ok := errors.AsType[*data.Error](err); err != nil && (!ok || refusal.Kind == data.KindUnavailable) {
			return err
		}
	}
	return nil
}

// errGoesOn means that a run neither waits nor is queued any more.
var errGoesOn = data.Refuse(data.KindConflict, "goes_on", "The run goes on")

// unclaimed reports whether a run is not over and no instance executes it.
func unclaimed(run *data.Run, _ []data.Span) bool {
	return run.Status == data.Waiting || run.Status == data.Queued
}

// closeRun ends a run that is not executed: with its open span if it has waited in that, else with a span that says so: a run that waits for
// an answer, an answered one, or one that cannot be claimed. It fails with errGoesOn unless still accepts the run.
func (en *Engine) closeRun(threadKey, key int64, e exec.Ending, still func(*data.Run, []data.Span) bool) error {
	for {
		var parked *data.Run
		it, err := commit.RetryUnavailable(en.abandoned, func() (*commit.Item, error) {
			th, run, queued, err := unexecuted(en.abandoned, en.store, threadKey, key)
			if err != nil {
				return nil, err
			}
			if parked = nil; run.Unowned() && still(&run, nil) {
				parked = &run
				return nil, nil
			}
			spans, err := en.store.Spans(en.abandoned, key)
			if err != nil {
				return nil, err
			}
			if !still(&run, spans) {
				return nil, errGoesOn
			}
			return exec.Close(en.abandoned, en.exec, &th, &run, spans, queued, e)
		})
		switch {
		case err != nil:
			return err
		case parked == nil:
			err = en.decide(it)
		default:
			if err = exec.EndOrphan(en.abandoned, en.exec, parked, e); errors.Is(err, decide.ErrSettled) { // it was woken
				err = errGoesOn
			}
		}
		if !errors.Is(err, decide.ErrStale) {
			return err
		}
	}
}
