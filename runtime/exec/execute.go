package exec

import (
	"context"
	"errors"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/calls"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/graph"
	"github.com/batonrun/baton/runtime/observe"
	"github.com/batonrun/baton/runtime/span"
)

// Execute executes the run's graph until it ends, waits or is taken away. The run keeps its slot until its end is stored and each worker
// and tool that it started has returned, also one that ignores its context.
func (l *Live) Execute() {
	l.execute()
	l.cancel(plugins.ErrEnded)
	l.out.mu.Lock()
	end := observe.End{Status: l.out.became}
	l.out.mu.Unlock()
	if end.Status == data.Failed {
		end.Code = "failed"
	}
	l.traced(end)
	grace := time.AfterFunc(l.cfg.Grace, func() {
		l.calls.AbandonAll()
		l.writeRelease()
	})
	l.calls.Running.Wait()
	grace.Stop()
	l.writeRelease()
	_ = l.AwaitEnd() // somebody else may end it; an error says that nothing begins here any more
	l.cfg.Offers.Release(l.offer)
	l.t.Release()
	l.cfg.Queue.Leave(&l.run.RunHead, l.Rests.Reserved)
}

// nodeResult is the result of a node: completed, waiting, interrupted, or failed with the error that clients see.
type nodeResult struct {
	waiting     bool
	rests       *resting // its worker waits for a time
	interrupted bool     // its worker is called again in the same step
	failed      *agui.OutputError
	caught      bool // the failure does not fail the run
	node        string
}

func (l *Live) execute() {
	limit, end := context.WithCancelCause(l.ctx)
	most := l.cfg
	l.out.span.Bounds = span.Bounds{
		Event: most.EventBytes, Events: most.RunEvents, State: most.StateBytes, Messages: most.RunMessages, Grow: l.Rests.Reserved.Grow, Exceeded: end,
	}
	limit, stop := context.WithTimeoutCause(limit, l.cfg.RunTimeout-time.Duration(l.run.ActiveMs)*time.Millisecond, calls.ErrTimeout)
	defer stop()
	in, err := l.prompt(limit)
	if err != nil && limit.Err() == nil {
		l.log().Error("run fails", "error", err)
		l.Settle(FailedWith(&agui.OutputError{Code: "internal", Message: "The run could not be prepared"}))
		return
	}
	results := make(chan nodeResult, l.out.nodes.Graph.Width())
	var rests, asleep []resting // asleep: those that ask too, which go on in another span
	for running := 0; ; {
		if limit.Err() != nil { // before any error that its workers return because of it
			l.overrun(context.Cause(limit))
			return
		}
		ready, err := l.ready(limit, in.Query)
		if err != nil && limit.Err() != nil {
			continue
		}
		if err != nil {
			l.Settle(FailedWith(l.explain(l.run.WorkflowID, err)))
			return
		}
		var start []*execution
		rests, start = due(l, rests)
		for _, n := range ready {
			start = append(start, &execution{l: l, limit: limit, n: n, in: in})
		}
		for _, x := range start {
			running++
			if l.run.Agent != "" { // the run has no other node to look after
				results <- x.execute()
				continue
			}
			l.calls.Running.Go(func() {
				r := x.execute()
				r.node = x.n.ID
				select { // its node may have begun another execution meanwhile
				case results <- r:
				case <-l.ctx.Done():
				}
			})
		}
		lingers := l.calls.Linger()
		if running == 0 && (len(rests) == 0 || lingers == nil) { // an abandoned call keeps the run's slot
			l.pause(rests, asleep)
			return
		}
		select {
		case <-nextDue(rests, l.out.now()):
		case <-l.signalled:
		case <-lingers:
		case r := <-results:
			running--
			l.handOver()
			if r.rests != nil && r.waiting {
				asleep = append(asleep, *r.rests)
			} else if r.rests != nil {
				rests = append(rests, *r.rests)
			}
			if r.failed != nil && !r.caught && limit.Err() == nil {
				e := FailedWith(r.failed)
				e.node = r.node
				l.Settle(e)
				return
			}
		case <-limit.Done():
		}
	}
}

// overrun fails a run that has exceeded a limit or its time, unless the run has already ended.
func (l *Live) overrun(cause error) {
	e := &agui.OutputError{Code: "timeout", Message: "The run did not end in time", Retryable: true}
	if why, ok := errors.AsType[*plugins.Error](cause); ok {
		e = &agui.OutputError{Code: why.Code, Message: why.Message, Retryable: why.Retryable}
	}
	if l.ctx.Err() == nil {
		l.Settle(FailedWith(e))
	}
}

// Settle ends the run's span, unless it has already ended.
func (l *Live) Settle(e Ending) {
	if err := l.End(e); err != nil && !errors.Is(err, decide.ErrSettled) {
		l.log().Error("run could not be settled", "error", err)
	}
}

// prompt returns the input of the run's workers. It is the same each time the generation is continued.
func (l *Live) prompt(ctx context.Context) (plugins.Input, error) {
	in := plugins.Input{
		Query: l.run.InputQuery, State: l.out.span.Began.State, Tools: l.Input.Tools, Context: l.Input.Context,
		ContextItemIDs: l.run.ContextItemIDs, ForwardedProps: l.Input.ForwardedProps,
		ThreadID: l.out.span.Thread.ID, RunID: l.run.ID, User: l.run.User, Project: l.run.Project, Overrides: l.Input.Overrides,
	}
	l.out.mu.Lock()
	for m := range l.out.span.Messages.All() {
		l.out.prompts.Learn(m)
	}
	l.out.mu.Unlock()
	for limit := 10; ; limit *= 10 {
		msgs, more, err := l.History.Messages(ctx, l.out.span.Thread.Key, l.out.span.Began.UpTo, limit)
		if err != nil {
			return in, err
		}
		if q := data.Query(msgs); q != "" {
			in.Query = q
			return in, nil
		}
		if !more {
			return in, nil
		}
	}
}

// ready returns the nodes that can start now and marks them as started. Those that are skipped are written.
func (l *Live) ready(ctx context.Context, query string) (start []*graph.Node, err error) {
	for again := true; again; {
		l.out.mu.Lock()
		due, err := l.out.nodes.Due()
		now := l.out.nodes.Scene(query, l.out.span.State(), due...)
		l.out.mu.Unlock()
		if err != nil {
			return nil, err
		}
		again = false
		for _, n := range due {
			runs, err := now.Runs(ctx, n)
			if err != nil {
				return nil, err
			}
			l.out.mu.Lock()
			if runs {
				l.out.nodes.Start(n)
				start = append(start, n)
			} else {
				l.out.put(l.out.nodes.Skip(n))
				again = true
			}
			l.out.mu.Unlock()
		}
	}
	return start, nil
}
