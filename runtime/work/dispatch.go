package work

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/model"
	"github.com/batonrun/baton/runtime/quota"
)

// dispatch serves the threads of the queue: it claims queued runs as slots become free, and cancels runs that have to make
// room. It ends when the runtime stops.
func (en *Engine) dispatch() {
	for {
		select {
		case <-en.quit:
			return
		case <-en.queue.signal:
		}
		ready, unknown := en.queue.ready(en.admission.try, max(en.admission.free(), 0)+weighedAhead)
		for _, n := range ready {
			en.tasks.Go(func() { en.attend(n) }) // as many as there are free slots, and runs that make room
		}
		for _, n := range unknown {
			en.tasks.Go(func() { en.queue.weighs(n, en.weigh(&n.Run)) }) // as many as there are free slots, and some
		}
	}
}

// weighedAhead is how many runs are weighed beyond the free slots.
const weighedAhead = 8

// attend claims or cancels the run of a thread. A claim has its own reservation: another scan may admit the run again before
// the claim is decided.
func (en *Engine) attend(n *need) {
	var err error
	if n.Do == decide.ToCancel {
		err = en.Cancel(&n.Run, n.Run.Generation, decide.By{})
	} else if err = en.claim(&n.Run, n.reserved); err != nil {
		n.reserved.release()
		en.queue.nudge()
		if e := unstarted(err); e != nil {
			en.about(&n.Run).Error("run cannot be claimed", "error", err)
			err = en.closeRun(n.Run.ThreadKey, n.Run.Key, ending{status: model.Failed, err: e}, unclaimed)
		}
	}
	switch {
	case errors.Is(err, model.ErrTooSlow), errors.Is(err, model.ErrConflict), errors.Is(err, model.ErrDiskFull): // the database may recover
		commit.Pause(en.abandoned, slowly)
		en.commits.Add(&commit.Item{Owner: ownerOf(&n.Run), Command: &decide.Look{Thread: n.Run.ThreadKey}})
	case err != nil && !unwritten(err):
		en.about(&n.Run).Error("run holds up its thread", "error", err)
		if en.rest() {
			en.commits.Add(&commit.Item{Owner: ownerOf(&n.Run), Command: &decide.Look{Thread: n.Run.ThreadKey}})
		}
	}
}

// unstarted returns the error of a run that cannot be claimed, or nil if a later claim may succeed.
func unstarted(err error) *agui.OutputError {
	switch {
	case errors.Is(err, decide.ErrUnknownMessage):
		return &agui.OutputError{Code: "unknown_message", Message: "The thread does not show the message of rewindTo any more"}
	case errors.Is(err, errUnfit):
		return illegible()
	case unwritten(err):
		return nil
	}
	return &agui.OutputError{Code: "internal", Message: "The run could not be started"}
}

// Start decides a request for a run. It claims the run at once if a slot is free and, as far as this instance knows, no
// other run of the thread comes first.
func (en *Engine) Start(ctx context.Context, c *decide.Start) (*decide.Decided, error) {
	queue := func() (*decide.Decided, error) {
		it := &commit.Item{Owner: quota.OwnerOf(c.Thread.Project, c.Thread.User), Command: c, Bytes: c.Size + len(c.Run.Input)}
		err := en.decide(it)
		return outcome(it), err
	}
	if !en.idle(c) || en.queue.users() >= en.admission.free() { // waiting users go first
		return queue()
	}
	weight, err := en.weighStart(ctx, c)
	if err != nil || weight > 0 && en.queue.users() > 0 {
		return queue()
	}
	reserved, _ := en.admission.try(&c.Run.RunHead, model.Weight{Asked: weight})
	if reserved == nil {
		return queue()
	}
	it, err := en.starting(ctx, c, reserved)
	if err == nil {
		it.Bytes += c.Size + len(c.Run.Input)
		err = en.decide(it)
	}
	if err != nil || it.Out == nil || !it.Out.Claimed {
		reserved.release()
		en.queue.nudge()
	}
	if errors.Is(err, decide.ErrUnknownMessage) { // the decision without a claim returns this error, unless the request is a repeat
		return queue()
	}
	return outcome(it), err
}

// idle reports whether, as far as this instance knows, no run of the thread comes before the new one.
func (en *Engine) idle(c *decide.Start) bool {
	return c.Run.WorkflowID != "" && !en.Stopping() && (c.New || en.liveOn(c.Thread.Key) == nil && !en.queue.waits(c.Thread.Key))
}

// starting prepares the start of a run that has a reservation, together with its claim.
func (en *Engine) starting(ctx context.Context, c *decide.Start, reserved *reservation) (*commit.Item, error) {
	th, run := c.Thread, c.Run // copies: the live run must not retain the whole request
	run.Status, run.Generation = model.Queued, 1
	l := en.newLive(&run)
	if l.unfit != nil {
		return nil, l.unfit
	}
	l.bounds.reserved = reserved
	queued := slices.Clone(c.Messages)
	for i := range queued {
		queued[i].ThreadKey, queued[i].RunKey = th.Key, run.Key
	}
	it, err := l.claiming(ctx, &th, &run, queued)
	if err != nil {
		return nil, err
	}
	if c.New {
		l.first = queued
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

// rest waits before a command that the database has refused is tried again. It reports false when the runtime stops.
func (en *Engine) rest() bool {
	t := time.NewTimer(refusedPause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-en.quit:
	case <-en.abandoned.Done():
	}
	return false
}

const refusedPause = 5 * time.Second

// errUnfit means that the stored input of a run cannot be read any more.
var errUnfit = errors.New("the run cannot be executed")

// slowly is the first attempt with a pause of the maximum length.
const slowly = 9

// unwritten reports whether a command was refused, or could not be written by this instance: its data is not at fault.
func unwritten(err error) bool {
	_, refused := errors.AsType[*model.Error](err)
	return refused || errors.Is(err, model.ErrFenced) || errors.Is(err, model.ErrUnavailable) || errors.Is(err, model.ErrDiskFull) ||
		errors.Is(err, model.ErrTooSlow) || errors.Is(err, model.ErrConflict) || errors.Is(err, context.Canceled)
}

// claim begins or continues the first run of a thread. The run has a reservation.
func (en *Engine) claim(head *model.RunHead, reserved *reservation) error {
	for {
		if en.Stopping() {
			return commit.ErrStopping
		}
		it, err := commit.Patiently(en.abandoned, func() (*commit.Item, error) { return en.claiming(en.abandoned, head, reserved) })
		if err != nil {
			return err
		}
		if err := en.decide(it); !errors.Is(err, decide.ErrStale) {
			return err
		}
	}
}
