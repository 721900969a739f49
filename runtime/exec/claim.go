package exec

import (
	"context"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/observe"
	"github.com/batonrun/baton/runtime/queue"
	"github.com/batonrun/baton/runtime/span"
)

// Plan returns the nodes of the run's graph.
func (l *Live) Plan() []plugins.Node {
	nodes := make([]plugins.Node, len(l.out.nodes.Graph.Nodes))
	for i, n := range l.out.nodes.Graph.Nodes {
		nodes[i] = n.Node
	}
	return nodes
}

// Claim prepares the claim of a run that has a reservation: the events that open the span, numbered after the thread's last event.
func (l *Live) Claim(ctx context.Context, th *data.Thread, run *data.Run, queued []data.Message, reserved *queue.Reservation) (*commit.Item, error) {
	l.Rests.Reserved = reserved
	l.out.span = span.Next(l.cfg.FrameBytes, th, run, th.LastEventID, th.LastSeq)
	c := &decide.Claim{
		Thread: th.Key, Run: run.Key, Instance: l.cfg.Instance, Project: run.Project, User: run.User, Caps: l.cfg.Caps, Span: l.out.span.Row,
	}
	it := &commit.Item{}
	o := &opening{l: l, it: it, th: th, row: run}
	if err := o.open(ctx, queued); err != nil {
		return nil, err
	}
	c.Basis = decide.BasisOf(&th.ThreadHead, &run.RunHead, lastKey(queued), o.answers)
	c.Shows, c.Rows, c.Events = l.out.span.Began.Shows, it.Rows, it.Events
	return &commit.Item{Owner: l.out.owner(), Records: it.Records, Command: c, Then: l.begins, Bytes: sizeOf(it.Events)}, nil
}

// begins makes the run live and executes it, as decided.
func (l *Live) begins(out *decide.Decided) {
	l.run.RunHead = out.Run
	l.offer = l.cfg.Offers.Hold()
	ctx, traced := l.cfg.Tracer.Begin(l.cfg.Tracer.Within(l.cfg.Abandoned, l.Input.Trace), l.op(observe.OpRun, l.run.WorkflowID, ""))
	l.traced = traced
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	l.plugins = l.offer.Plugins.For(l.run.Project)
	l.t = l.cfg.Logs.Hold(l.out.span.Thread.Key, l.out.span.Thread.ID)
	l.t.Begin(l.out.span.Last()) // the events of the claim and of the last owner are stored
	l.cfg.Queue.Settle(l.Rests.Reserved, l.out.span.Fold.Grown())
	l.cfg.Engine.Begin(l)
}

// Close prepares the end of a run that is not executed, with a span that says so.
func Close(ctx context.Context, cfg *Config, th *data.Thread, run *data.Run, spans []data.Span, queued []data.Message, e Ending) (*commit.Item, error) {
	l := New(cfg, run)
	l.out.span = span.Next(cfg.FrameBytes, th, run, th.LastEventID, th.LastSeq)
	it := &commit.Item{Owner: l.out.owner()}
	o := &opening{l: l, it: it, th: th, row: run}
	if err := o.lastWords(ctx, spans, queued, e); err != nil {
		return nil, err
	}
	basis := decide.BasisOf(&th.ThreadHead, &run.RunHead, lastKey(queued), o.answers)
	row := l.out.span.Row
	row.Last = l.out.span.Last()
	it.Command = &decide.Finish{
		Thread: th.Key, Run: run.Key, Basis: &basis, To: e.status, Span: row, Seq: l.out.span.Seq(), Error: e.err, By: e.by, Trace: l.Input.Trace,
		Rows: append(it.Rows, &data.Withdraw{RunKey: run.Key}), Events: it.Events,
	}
	it.Rows, it.Events = nil, nil
	return it, nil
}

func sizeOf(events []data.StoredEvent) (n int) {
	for i := range events {
		n += len(events[i].Payload)
	}
	return n
}
