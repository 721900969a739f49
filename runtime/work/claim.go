package work

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/exec"
	"github.com/batonrun/baton/runtime/queue"
	"github.com/batonrun/baton/runtime/quota"
)

// dispatcher is the engine for its queue and its runs.
type dispatcher struct{ en *Engine }

// Start decides a request for a run. It claims the run at once if a slot is free and, as far as this instance knows, no
// other run of the thread comes first. If it fails with outcome_unknown, it calls late with the outcome.
func (en *Engine) Start(ctx context.Context, c *decide.Start, late func(*decide.Decided, error)) (out *decide.Decided, err error) {
	var reserved *queue.Reservation
	if c.Run.WorkflowID != "" && !en.Stopping() && (c.New || en.runs.on(c.Thread.Key) == nil) {
		reserved = en.Queue.Admit(ctx, c)
	}
	after := func(out *decide.Decided, err error, isLate bool) {
		if reserved != nil && (err != nil || !out.Claimed) {
			en.Queue.Release(reserved)
		}
		if reserved = nil; isLate {
			late(out, err)
		}
	}
	if reserved != nil {
		it, err := en.starting(ctx, c, reserved)
		if err == nil {
			it.Bytes += c.Bytes()
			out, err = ask(en, it, after)
		} else {
			after(nil, err, false)
		}
		if !errors.Is(err, decide.ErrUnknownMessage) { // the decision without a claim returns this error, unless the request is a repeat
			return out, err
		}
	}
	it := &commit.Item{Owner: quota.OwnerOf(c.Thread.Project, c.Thread.User), Command: c, Bytes: c.Bytes()}
	return ask(en, it, after)
}

// starting prepares the start of a run that has a reservation, together with its claim.
func (en *Engine) starting(ctx context.Context, c *decide.Start, reserved *queue.Reservation) (*commit.Item, error) {
	th, run := c.Thread, c.Run // copies: the live run must not retain the whole request
	run.Status, run.Generation = data.Queued, 1
	l := exec.New(en.exec, &run)
	if err := l.Unfit; err != nil {
		return nil, err
	}
	queued := slices.Clone(c.Messages)
	for i := range queued {
		queued[i].ThreadKey, queued[i].RunKey = th.Key, run.Key
	}
	it, err := l.Claim(ctx, &th, &run, queued, reserved)
	if err != nil {
		return nil, err
	}
	if c.New {
		l.History.HasAll(queued)
	}
	c.Claim = it.Command.(*decide.Claim)
	it.Command = c
	begins := it.Then
	it.Then = func(out *decide.Decided) {
		if out.Claimed {
			begins(out)
		}
	}
	return it, nil
}

// errUnfit means that the stored input of a run cannot be read any more.
var errUnfit = errors.New("the run cannot be executed")

// slowly is the first attempt with a pause of the maximum length.
const slowly = 9

// Claim implements queue.Runs: it begins or continues the first run of a thread.
func (d dispatcher) Claim(head *data.RunHead, reserved *queue.Reservation) error {
	en := d.en
	for attempt := 0; ; attempt++ {
		if en.Stopping() {
			return commit.ErrStopping
		}
		err := d.claim(en.abandoned, head, reserved)
		switch {
		case errors.Is(err, decide.ErrUncounted) && attempt < countAttempts:
			commit.Pause(en.abandoned, attempt)
		case !errors.Is(err, decide.ErrStale):
			return err
		}
	}
}

// countAttempts is how often a claim is tried again at once while other instances count the RUNNING runs of the same user.
const countAttempts = 6

// Unclaimed implements queue.Runs.
func (d dispatcher) Unclaimed(run *data.RunHead, err error) {
	var e *agui.OutputError // of a run that no later claim can begin
	switch {
	case errors.Is(err, decide.ErrUnknownMessage):
		e = &agui.OutputError{Code: "unknown_message", Message: "The thread does not show the message of rewindTo any more"}
	case errors.Is(err, errUnfit):
		e = exec.Illegible
	case !commit.Unwritten(err):
		e = &agui.OutputError{Code: "internal", Message: "The run could not be started"}
	}
	if e != nil {
		d.en.about(run).Error("run cannot be claimed", "error", err)
		err = d.en.closeRun(run.ThreadKey, run.Key, exec.FailedWith(e), unclaimed)
	}
	d.pause(run, err)
}

// Cancel implements queue.Runs.
func (d dispatcher) Cancel(run *data.RunHead) {
	en := d.en
	heads, err := commit.RetryUnavailable(en.abandoned, func() ([]data.RunHead, error) {
		return en.store.Heads(en.abandoned, []int64{run.Key})
	})
	if err == nil && len(heads) == 0 {
		err = decide.ErrRunNotFound
	} else if err == nil {
		run = &heads[0]
		err = en.Cancel(run, run.Generation, decide.By{})
	}
	if err != nil && commit.Unwritten(err) { // its owner has not answered, or it is between two owners
		commit.Pause(en.abandoned, slowly)
	} else if err != nil {
		d.pause(run, err)
	}
}

// pause waits before a row is served again, after an error.
func (d dispatcher) pause(run *data.RunHead, err error) {
	switch {
	case errors.Is(err, data.ErrTooSlow), errors.Is(err, data.ErrConflict), errors.Is(err, data.ErrDiskFull), errors.Is(err, commit.ErrContended): // the database may recover
		commit.Pause(d.en.abandoned, slowly)
	case err != nil && !commit.Unwritten(err):
		d.en.about(run).Error("run holds up its thread", "error", err)
		d.en.rest()
	case err != nil: // another run comes first, another instance was faster, or a limit is full
		d.en.sleep(heedEvery)
	}
}

// claim begins or continues a queued run that has a reservation, or takes it over after a wait.
func (d dispatcher) claim(ctx context.Context, head *data.RunHead, reserved *queue.Reservation) error {
	en := d.en
	var woken *data.Run
	it, err := commit.RetryUnavailable(ctx, func() (it *commit.Item, err error) {
		it, woken, err = claiming(ctx, en, head, reserved)
		return it, err
	})
	switch {
	case err != nil:
		return err
	case woken == nil:
		return en.decide(it)
	}
	begins, err := exec.TakeOver(ctx, en.exec, woken, reserved)
	if err == nil && !begins { // it has failed
		err = decide.ErrNotClaimed
	}
	return err
}

// claiming prepares the claim of a queued run that has a reservation, or returns the run if it has waited in its span.
func claiming(ctx context.Context, en *Engine, head *data.RunHead, reserved *queue.Reservation) (*commit.Item, *data.Run, error) {
	th, run, queued, err := unexecuted(ctx, en.store, head.ThreadKey, head.Key)
	if err != nil {
		return nil, nil, err
	}
	if run.Status != data.Queued {
		return nil, nil, decide.ErrNotClaimed
	}
	if run.Unowned() {
		return nil, &run, nil
	}
	l := exec.New(en.exec, &run)
	if err := l.Unfit; err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errUnfit, err)
	}
	if en.exec.Engine.Declines(l) {
		return nil, nil, queue.ErrElsewhere
	}
	it, err := l.Claim(ctx, &th, &run, queued, reserved)
	return it, nil, err
}

// Declines implements engine: a run is left to others if some agents or tools of its workflow are lacking here.
func (d dispatcher) Declines(l *exec.Live) bool {
	return d.en.shared && !d.en.Fleet.Executes(l.Head(), l.Plan())
}

// HandsOver implements engine. A run that no other server can execute stays until the end of the drain.
func (d dispatcher) HandsOver(l *exec.Live) bool {
	if !d.en.handing.Load() {
		return false
	}
	elsewhere, _ := d.en.Fleet.Others(l.Head(), l.Plan())
	return elsewhere
}

// The other methods of engine.

func (d dispatcher) Begin(l *exec.Live)           { d.en.runs.begin(l) }
func (d dispatcher) Forget(l *exec.Live)          { d.en.runs.forget(l) }
func (d dispatcher) Decide(it *commit.Item) error { return d.en.decide(it) }
func (d dispatcher) Go(f func())                  { d.en.tasks.Go(f) }
func (d dispatcher) Rest() bool                   { return d.en.rest() }

// unexecuted reads a run that is not executed, its thread, and its queued messages.
func unexecuted(ctx context.Context, store data.Store, threadKey, key int64) (th data.Thread, run data.Run, queued []data.Message, err error) {
	if run, err = store.Run(ctx, key); err != nil {
		return th, run, nil, data.Gone(err, decide.ErrRunNotFound)
	}
	if th, err = store.Thread(ctx, threadKey); err != nil {
		return th, run, nil, data.Gone(err, decide.ErrThreadNotFound)
	}
	queued, err = store.Queued(ctx, key)
	return th, run, queued, err
}
