package runtime

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// ending says how a span of a live run ends.
type ending struct {
	status Status // Completed, Failed, Cancelled or Waiting
	cause  error  // what later emits are told
	err    *agui.OutputError
	answer string
	result json.RawMessage
}

// completed is the ending of a run whose nodes have all come to rest: it waits when one of them does.
func (l *live) completed() ending {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.nodes {
		if n.Status == Waiting {
			return ending{status: Waiting, cause: plugins.ErrEnded}
		}
	}
	e := ending{status: Completed, cause: plugins.ErrEnded}
	for _, n := range l.graph.nodes { // the last node that nothing needs speaks for the run
		if out := l.nodes[n.ID].Output; out != nil && !l.graph.needed(n.ID) {
			e.answer, e.result = answerOf(out), out
		}
	}
	return e
}

func (l *live) failed(err *agui.OutputError) ending {
	return ending{status: Failed, cause: plugins.ErrEnded, err: err}
}

func cancelled() ending { return ending{status: Cancelled, cause: plugins.ErrCancelled} }

// end ends the span: it shuts the gate, so that no event follows, and queues what closes the span with
// the decision. It fails with errSettled when the run had been settled before, or was taken away.
func (l *live) end(e ending) error {
	stored := make(chan error, 1)
	it := &item{t: l.t, l: l, done: []func(error){func(err error) { stored <- err }}}

	l.mu.Lock()
	if !l.lock(e.cause) {
		l.mu.Unlock()
		return errSettled
	}
	if err := l.stageClosers(it, e.left(), e.code(), l.waitsFor(e)); err != nil {
		l.mu.Unlock()
		l.broken(fmt.Errorf("close the span: %w", err)) // the log alone can tell what is open
		return err
	}
	l.settleSteps(it, e.status, e.err)
	it.op, it.wants = l.ending(e), Wanted{Threads: []int64{l.w.thread.Key}, Runs: []int64{l.run.Key}}
	l.rt.com.add(it)
	l.mu.Unlock()
	l.rt.com.wakeWaiters()

	err := <-stored
	l.cancel(e.cause)
	return err
}

// left is the output of a message that the ending cuts short.
func (e ending) left() agui.WorkerOutput {
	switch e.status {
	case Cancelled:
		return agui.WorkerOutput{Status: agui.StatusPartialSuccess}
	case Failed:
		return agui.WorkerOutput{Status: agui.StatusFailed, Error: e.err}
	}
	return agui.WorkerOutput{Status: agui.StatusSuccess}
}

// code is why a call gets no result of its own.
func (e ending) code() string {
	if e.status == Cancelled {
		return codeCancelled
	}
	return codeInterrupted
}

// waitsFor returns the calls that an ending to wait leaves open: those of memos that are not done.
func (l *live) waitsFor(e ending) map[string]bool {
	if e.status != Waiting {
		return nil
	}
	keep := make(map[string]bool)
	for _, m := range l.memos {
		if !m.Done && m.CallID != "" {
			keep[m.CallID] = true
		}
	}
	return keep
}

// ending is the op that decides: it writes the terminal event and the rows that agree with it, unless the
// run has been settled before. Messages that came meanwhile restart a run that ends by itself.
func (l *live) ending(e ending) func(context.Context, Tx, *outcome) error {
	last, seq := l.w.last, l.w.seq
	state := l.state()
	return func(ctx context.Context, tx Tx, out *outcome) error {
		th, err := tx.LockThread(l.w.thread.Key)
		if err != nil {
			return err
		}
		open, err := tx.OpenRuns(ctx, th.Key)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(open, func(r Run) bool { return r.Key == l.run.Key })
		if i < 0 || open[i].Status != Running || open[i].Owner != l.rt.instance {
			return errSettled
		}
		run := open[i]
		w := l.w.after(last, seq)
		tail := &item{}
		queued, err := tx.Queued(ctx, run.Key)
		if err != nil {
			return err
		}
		if e.status == Cancelled {
			if err := w.take(tail, queued); err != nil {
				return err
			}
			queued = nil
		}
		if e.status.Final() && l.asked.Load() {
			if err := withdraw(ctx, tx, run.Key); err != nil {
				return err
			}
		}
		terminal, err := l.rt.terminal(ctx, tx, &run, e)
		if err != nil {
			return err
		}
		if err := w.stage(tail, terminal); err != nil {
			return err
		}
		now := tx.Now()
		finish(&run, e, now, w.last)
		if len(queued) > 0 && (e.status == Completed || e.status == Failed) {
			restart(&run, now)
		}
		span := l.span
		span.Last = w.last
		th.LastEventID, th.State, th.UpdatedAt = w.last, state, now
		if err := tx.Put(append(tail.rows, &run, &span, &th)...); err != nil {
			return err
		}
		out.recs, out.evs = tail.recs, tail.evs
		if len(open) == 1 && run.Status.Final() { // asking again would write what others have put
			l.rt.openAfter(th.Key, nil, out, func() { l.rt.forget(l) })
			return nil
		}
		return l.rt.afterRun(ctx, tx, th.Key, out, func() { l.rt.forget(l) })
	}
}

// withdraw closes the questions of a run that is over.
func withdraw(ctx context.Context, tx Tx, runKey int64) error {
	all, err := tx.Interrupts(ctx, runKey)
	if err != nil {
		return err
	}
	for i := range all {
		if all[i].Status != interruptOpen {
			continue
		}
		all[i].Status = interruptCancelled
		if err := tx.Put(&all[i]); err != nil {
			return err
		}
	}
	return nil
}

// after returns a writer that goes on behind last with nothing open, for what an op adds. Its own
// changes stay in it, so that the op can run again.
func (w *writer) after(last, seq int64) *writer {
	next := newWriter(w.thread, w.runKey, w.runID, last, seq)
	_ = next.ver.Add(agui.RunStarted{}) // the span is open
	return next
}

// terminal is the event that ends a span so.
func (rt *Runtime) terminal(ctx context.Context, tx Tx, run *Run, e ending) (agui.Event, error) {
	base := agui.Base{Agent: run.WorkflowID}
	switch e.status {
	case Failed:
		return agui.RunError{Base: base, Message: e.err.Message, Code: e.err.Code, Usage: run.Usage}, nil
	case Cancelled:
		return agui.RunFinished{Base: base, Outcome: agui.Outcome{Type: agui.OutcomeCancelled}, Usage: run.Usage}, nil
	case Completed:
		return agui.RunFinished{Base: base, Result: e.result, Outcome: agui.Outcome{Type: agui.OutcomeSuccess}, Usage: run.Usage}, nil
	}
	o, err := waitingOutcome(ctx, tx, run.Key)
	return agui.RunFinished{Base: base, Outcome: o, Usage: run.Usage}, err
}

// waitingOutcome is the outcome of a span that ends to wait.
func waitingOutcome(ctx context.Context, r Reader, runKey int64) (agui.Outcome, error) {
	o, err := openOutcome(ctx, r, runKey)
	o.Type = agui.OutcomeSuccess // a client's tools alone are no interrupt
	if len(o.Interrupts) > 0 {
		o = agui.Outcome{Type: agui.OutcomeInterrupt, Interrupts: o.Interrupts}
	}
	return o, err
}

// openOutcome is what a run waits for: its open questions and frontend calls.
func openOutcome(ctx context.Context, r Reader, runKey int64) (agui.Outcome, error) {
	all, err := r.Interrupts(ctx, runKey)
	if err != nil {
		return agui.Outcome{}, err
	}
	var o agui.Outcome
	for i := range all {
		switch in := &all[i]; {
		case in.Status != interruptOpen:
		case in.Frontend:
			o.PendingToolCallIDs = append(o.PendingToolCallIDs, in.ID)
		default:
			var body agui.Interrupt
			if err := json.Unmarshal(in.Body, &body); err != nil {
				return o, err
			}
			o.Interrupts = append(o.Interrupts, body)
		}
	}
	return o, nil
}

// finish brings a run's row to what its terminal event says.
func finish(run *Run, e ending, now time.Time, event int64) {
	run.Status, run.ClosedEvent, run.Owner = e.status, event, ""
	run.Error = e.err
	run.Attempt = 0
	if e.status == Completed {
		answer := plain(clip(e.answer, summaryBytes))
		run.OutputSummary = &answer
	}
	if e.status.Final() {
		run.FinishedAt = &now
	}
}

// summaryBytes is how much of a run's answer its row shows.
const summaryBytes = 4 << 10

// restart queues a run that is over for its next generation, behind the others of its thread.
func restart(run *Run, now time.Time) {
	run.Status, run.QueuedAt, run.FinishedAt, run.Error = Queued, now, nil, nil
	run.Generation++
	run.Attempt, run.Answered = 0, false
}

// afterRun fills in what a decision about a thread's runs means to its readers and to the queue.
func (rt *Runtime) afterRun(ctx context.Context, r Reader, threadKey int64, out *outcome, then func()) error {
	open, err := r.OpenRuns(ctx, threadKey)
	if err == nil {
		rt.openAfter(threadKey, open, out, then)
	}
	return err
}

// openAfter is afterRun for who knows which runs of the thread are open.
func (rt *Runtime) openAfter(threadKey int64, open []Run, out *outcome, then func()) {
	busy := false
	for i := range open {
		busy = busy || open[i].Status != Waiting
	}
	out.busy = &busy
	out.then = func() {
		if then != nil {
			then()
		}
		rt.queue.set(threadKey, open)
	}
}

// forget lets go of a run that has ended here.
func (rt *Runtime) forget(l *live) {
	rt.mu.Lock()
	delete(rt.live, l.run.Key)
	rt.mu.Unlock()
	rt.liveRuns.Add(-1)
}
