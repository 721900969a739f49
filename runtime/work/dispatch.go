package work

import (
	"context"
	"errors"
	"slices"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/quota"
)

// dispatcher starts runs at once or, as slots become free, from the queue.
type dispatcher struct {
	en        *Engine
	admission *admission
	queued    queueCounts
	looker    *looker
}

func newDispatcher(en *Engine) *dispatcher {
	d := &dispatcher{en: en}
	d.looker = &looker{looks: newLooks(), d: d, en: en, turns: newTurns()}
	return d
}

// RunningOf returns how many runs of a user, and of its project, are executed now.
func (d *dispatcher) RunningOf(project, user string) (users, projects int) {
	return d.admission.running(project, user)
}

// dispatch looks at the queue when it may have changed: it claims queued runs as slots become free, and cancels runs that have to make
// room. It ends when the engine stops.
func (d *dispatcher) dispatch() {
	for {
		select {
		case <-d.en.quit:
			return
		case <-d.looker.signal:
			d.looker.look()
		}
	}
}

// noteCapped has the queue hold back the runs of a user that a limit over all instances has refused.
func (d *dispatcher) noteCapped(run *data.RunHead, err error) {
	switch {
	case errors.Is(err, decide.ErrUserFull):
		d.admission.cap(data.Name{Project: run.Project, User: run.User})
	case errors.Is(err, decide.ErrProjectFull):
		d.admission.cap(data.Name{Project: run.Project})
	case errors.Is(err, decide.ErrUncounted):
		d.admission.cap(d.en.cfg.Caps.Counts(run.Project, run.User))
	}
}

// unstarted returns the error of a run that cannot be claimed, or nil if a later claim may succeed.
func unstarted(err error) *agui.OutputError {
	switch {
	case errors.Is(err, decide.ErrUnknownMessage):
		return &agui.OutputError{Code: "unknown_message", Message: "The thread does not show the message of rewindTo any more"}
	case errors.Is(err, errUnfit):
		return illegible
	case unwritten(err):
		return nil
	}
	return &agui.OutputError{Code: "internal", Message: "The run could not be started"}
}

// Start decides a request for a run. It claims the run at once if a slot is free and, as far as this instance knows, no
// other run of the thread comes first.
func (d *dispatcher) Start(ctx context.Context, c *decide.Start) (*decide.Decided, error) {
	queue := func() (*decide.Decided, error) {
		it := &commit.Item{Owner: quota.OwnerOf(c.Thread.Project, c.Thread.User), Command: c, Bytes: c.Bytes()}
		err := d.en.decide(it)
		return outcome(it), err
	}
	if !d.idle(c) || d.looker.stops(&c.Run.RunHead, 0, d.admission.free()) {
		return queue()
	}
	weight, err := d.admission.weighStart(ctx, c)
	if err != nil || weight > 0 && d.looker.stops(&c.Run.RunHead, weight, d.admission.free()) {
		return queue()
	}
	reserved, _ := d.admission.admit(&c.Run.RunHead, data.Weight{Asked: weight})
	if reserved == nil {
		return queue()
	}
	it, err := d.starting(ctx, c, reserved)
	if err == nil {
		it.Bytes += c.Bytes()
		err = d.en.decide(it)
	}
	if err != nil || it.Out == nil || !it.Out.Claimed {
		reserved.release()
		d.en.freed()
	}
	if errors.Is(err, decide.ErrUnknownMessage) { // the decision without a claim returns this error, unless the request is a repeat
		return queue()
	}
	return outcome(it), err
}

// idle reports whether, as far as this instance knows, no run of the thread comes before the new one.
func (d *dispatcher) idle(c *decide.Start) bool {
	return c.Run.WorkflowID != "" && !d.en.Stopping() && (c.New || d.en.liveOn(c.Thread.Key) == nil)
}

// starting prepares the start of a run that has a reservation, together with its claim.
func (d *dispatcher) starting(ctx context.Context, c *decide.Start, reserved *reservation) (*commit.Item, error) {
	th, run := c.Thread, c.Run // copies: the live run must not retain the whole request
	run.Status, run.Generation = data.Queued, 1
	l := d.en.newLive(&run)
	if l.unfit != nil {
		return nil, l.unfit
	}
	l.reserved = reserved
	queued := slices.Clone(c.Messages)
	for i := range queued {
		queued[i].ThreadKey, queued[i].RunKey = th.Key, run.Key
	}
	it, err := l.claiming(ctx, &th, &run, queued)
	if err != nil {
		return nil, err
	}
	if c.New {
		l.history.first(slices.Clone(queued)) // guards hide those of the span
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

// errAbsent leaves a QUEUED run to another instance of the cluster.
var errAbsent = data.Refuse(data.KindConflict, "goes_on", "Another server begins the run")

// slowly is the first attempt with a pause of the maximum length.
const slowly = 9

// claim begins or continues the first run of a thread. The run has a reservation.
func (d *dispatcher) claim(head *data.RunHead, reserved *reservation) error {
	for attempt := 0; ; attempt++ {
		if d.en.Stopping() {
			return commit.ErrStopping
		}
		it, err := commit.RetryUnavailable(d.en.abandoned, func() (*commit.Item, error) { return d.claiming(d.en.abandoned, head, reserved) })
		if err != nil {
			return err
		}
		err = d.en.decide(it)
		switch {
		case errors.Is(err, decide.ErrUncounted) && attempt < countAttempts:
			commit.Pause(d.en.abandoned, attempt)
		case !errors.Is(err, decide.ErrStale):
			return err
		}
	}
}

// countAttempts is how often a claim is tried again at once while other instances count the RUNNING runs of the same user.
const countAttempts = 6
