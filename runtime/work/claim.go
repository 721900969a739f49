package work

import (
	"context"
	"fmt"

	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/queue"
)

// claiming prepares the claim of a queued run that has a reservation.
func (en *Engine) claiming(ctx context.Context, head *data.RunHead, reserved *queue.Reservation) (*commit.Item, error) {
	th, run, queued, err := unexecuted(ctx, en.store, head.ThreadKey, head.Key)
	if err != nil {
		return nil, err
	}
	if run.Status != data.Queued {
		return nil, decide.ErrNotClaimed
	}
	l := en.newLive(&run)
	if l.unfit != nil {
		return nil, fmt.Errorf("%w: %w", errUnfit, l.unfit)
	}
	if en.declines(l) {
		return nil, queue.ErrElsewhere
	}
	l.bounds.reserved = reserved
	return l.claiming(ctx, &th, &run, queued)
}

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

// claiming prepares the claim: the events that open the span, numbered after the thread's last event.
func (l *live) claiming(ctx context.Context, th *data.Thread, run *data.Run, queued []data.Message) (*commit.Item, error) {
	en := l.en
	l.span = nextSpan(en.cfg.FrameBytes, th, run, th.LastEventID, th.LastSeq)
	c := &decide.Claim{
		Thread: th.Key, Run: run.Key, Instance: en.cfg.Instance, Project: run.Project, User: run.User, Caps: en.cfg.Caps, Span: l.span.row,
	}
	it := &commit.Item{}
	o := &opening{l: l, it: it, th: th, row: run}
	if err := o.open(ctx, queued); err != nil {
		return nil, err
	}
	c.Basis = decide.BasisOf(&th.ThreadHead, &run.RunHead, lastKey(queued), o.answers)
	c.Shows, c.Rows, c.Events = l.span.began.shows, it.Rows, it.Events
	claim := &commit.Item{Owner: ownerOf(&l.run.RunHead), Records: it.Records, Command: c, Then: l.begins}
	for i := range it.Events {
		claim.Bytes += len(it.Events[i].Payload)
	}
	return claim, nil
}

// begins makes the run live and executes it, as decided.
func (l *live) begins(out *decide.Decided) {
	en := l.en
	l.run.RunHead = out.Run
	l.offer = en.holdOffer()
	ctx, traced := en.tracer.Begin(en.tracer.Within(en.abandoned, l.input.Trace), l.op(OpRun, l.run.WorkflowID, ""))
	l.traced = traced
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	l.plugins = l.offer.plugins.For(l.run.Project)
	l.t = en.cfg.Logs.Hold(l.span.thread.Key, l.span.thread.ID)
	l.t.Begin(l.span.last) // the events of the claim and of the last owner are stored
	en.queue.Settle(l.bounds.reserved, l.span.fold.Grown())
	en.addRun(l)
	go l.loop() // Shutdown waits for en.executing
}
