package exec

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/span"
	"github.com/batonrun/baton/runtime/tail"
)

// Ending describes how a span of a live run ends.
type Ending struct {
	status data.Status // Completed, Failed, Cancelled or Waiting
	cause  error       // the error of later emits
	err    *agui.OutputError
	node   string // that has failed, in a workflow
	answer string
	result json.RawMessage
	by     decide.By   // the requester of the end
	waits  *data.Waits // of a run that is WAITING for an answer too
}

// FailedWith returns the ending of a run that fails.
func FailedWith(err *agui.OutputError) Ending {
	return Ending{status: data.Failed, cause: plugins.ErrEnded, err: err}
}

// CancelledBy returns the ending of a run that is cancelled.
func CancelledBy(by decide.By) Ending {
	return Ending{status: data.Cancelled, cause: plugins.ErrCancelled, by: by}
}

// End shuts the gate of the span, so that no event follows, and decides the end. It fails with decide.ErrSettled when the run was
// settled before, or was taken away.
func (l *Live) End(e Ending) error {
	l.out.mu.Lock()
	if !l.out.shut(e.cause) {
		l.out.mu.Unlock()
		return decide.ErrSettled
	}
	closers := cmp.Or(l.out.closed, &commit.Item{})
	err := l.endGated(e, closers)
	if errors.Is(err, decide.ErrCancelAsked) {
		if e, err = l.cancelledElsewhere(l.cfg.Instance); err == nil {
			l.out.mu.Lock()
			err = l.endGated(e, closers)
		}
	}
	switch {
	case err == nil:
		l.out.mu.Lock()
		l.out.became = e.status
		l.out.mu.Unlock()
	case errors.Is(err, decide.ErrSettled): // another owner has the run
		l.cfg.Engine.Forget(l)
	case l.cfg.Commits.Alive():
		l.broken(fmt.Errorf("end the span: %w", err)) // whatever the error was, nothing else ends the run
	}
	l.cancel(e.cause)
	return err
}

// endGated decides the end of a span with a shut gate. It first ends, in closers, all that is open. The caller holds l.out.mu, and endGated
// releases it.
func (l *Live) endGated(e Ending, closers *commit.Item) error {
	err := l.out.stageClosers(closers, e)
	if err == nil {
		closers.Rows = append(closers.Rows, l.out.nodes.Settle(e.status, e.err)...)
	}
	l.out.mu.Unlock()
	if err != nil { // only the log knows the open entities
		return fmt.Errorf("close the span: %w", err)
	}
	return l.finish(e, closers, l.cfg.Instance, func() { l.cfg.Engine.Forget(l) })
}

// finish decides the end of the span, which begins with closers. A cancelled run takes its waiting messages first.
func (l *Live) finish(e Ending, closers *commit.Item, owner string, then func()) error {
	for again := false; ; again = true {
		it, err := l.ending(e, closers, owner, again)
		if err != nil {
			return err
		}
		if then != nil {
			it.Then = func(*decide.Decided) { then() }
		}
		if l.t != nil { // nil if the run is not executed
			it.Source, it.Thread = l.out.source, l.t.Key()
		}
		if err := l.cfg.Engine.Decide(it); !errors.Is(err, decide.ErrStale) || owner != l.cfg.Instance { // its log was read back
			return err
		}
	}
}

// ending returns the item that ends the span: its closers, the messages that a cancelled run takes, and the terminal event.
// It reads waiting messages if some are known, or again is true.
func (l *Live) ending(e Ending, closers *commit.Item, owner string, again bool) (*commit.Item, error) {
	w := l.out.span.Fork()
	tail := &commit.Item{}
	c := &decide.Finish{
		Thread: l.out.span.Thread.Key, Run: l.run.Key, Owner: owner, To: e.status, Span: l.out.span.Row, State: l.out.span.NewState(), Error: e.err,
		Node: e.node, By: e.by, Trace: l.Input.Trace, Waits: e.waits, ActiveMs: l.out.active(),
	}
	if e.status == data.Cancelled && (again || l.Inbox.Load() > 0) {
		queued, err := l.waiting()
		if err != nil {
			return nil, err
		}
		c.Inbox = lastKey(queued)
		if err := w.Take(tail, queued); err != nil {
			return nil, err
		}
	}
	terminal, err := l.terminal(e)
	if err != nil {
		return nil, err
	}
	if err := w.Stage(tail, terminal); err != nil {
		return nil, err
	}
	c.Span.Last, c.Seq = w.Last(), w.Seq()
	c.Rows = slices.Concat(closers.Rows, tail.Rows, l.resultRows(e))
	c.Events = slices.Concat(closers.Events, tail.Events)
	if owner != l.cfg.Instance {
		c.Last = c.Events[0].ID - 1
	}
	return &commit.Item{Owner: l.out.owner(), Records: slices.Concat(closers.Records, tail.Records), Command: c, Bytes: sizeOf(c.Events)}, nil
}

// resultRows returns the rows of a run that is over: its result, and the end of its questions.
func (l *Live) resultRows(e Ending) (rows []data.Row) {
	if !e.status.Final() {
		return nil
	}
	result := &data.RunResult{Key: l.run.Key, Usage: l.run.Usage}
	if e.status == data.Completed {
		answer := data.Plain(data.Clip(e.answer, summaryBytes))
		result.OutputSummary = &answer
	}
	rows = append(rows, result)
	if l.out.asked {
		rows = append(rows, &data.Withdraw{RunKey: l.run.Key})
	}
	return rows
}

// waiting returns the messages that the run has accepted and not taken.
func (l *Live) waiting() ([]data.Message, error) {
	if err := l.cfg.Commits.Flush(); err != nil { // messages that Next has taken may be on their way to the store
		return nil, err
	}
	return commit.RetryUnavailable(l.cfg.Abandoned, func() ([]data.Message, error) {
		return l.cfg.Store.Queued(l.cfg.Abandoned, l.run.Key)
	})
}

// lastKey returns the key of the last of msgs, or 0 when there are none.
func lastKey(msgs []data.Message) int64 {
	if len(msgs) == 0 {
		return 0
	}
	return msgs[len(msgs)-1].Key
}

// left returns the output of a message that the ending cuts short.
func (e Ending) left() agui.WorkerOutput {
	switch e.status {
	case data.Cancelled:
		return agui.WorkerOutput{Status: agui.StatusPartialSuccess}
	case data.Failed:
		return agui.WorkerOutput{Status: agui.StatusFailed, Error: e.err}
	}
	return agui.WorkerOutput{Status: agui.StatusSuccess}
}

// code returns the reason why a call gets no result of its own.
func (e Ending) code() string {
	if e.status == data.Cancelled {
		return span.CodeCancelled
	}
	return span.CodeInterrupted
}

func (l *Live) terminal(e Ending) (agui.Event, error) {
	base, usage := agui.Base{Agent: l.run.WorkflowID}, l.run.Usage
	if e.status == data.Failed {
		return agui.RunError{Base: base, Message: e.err.Message, Code: e.err.Code, Usage: usage}, nil
	}
	base.Metadata = l.out.journal.FinishMetadata(usage)
	end := agui.RunFinished{Base: base, Result: e.result, Outcome: agui.Outcome{Type: agui.OutcomeSuccess}, Usage: usage}
	if e.status == data.Cancelled {
		end.Outcome.Type = agui.OutcomeCancelled
	}
	if e.status.Final() {
		return end, nil
	}
	if err := l.cfg.Commits.Flush(); err != nil { // the run's questions may be on their way to the store
		return nil, err
	}
	var err error
	end.Outcome, err = commit.RetryUnavailable(l.cfg.Abandoned, func() (agui.Outcome, error) {
		return tail.Outcome(l.cfg.Abandoned, l.cfg.Store, l.run.Key)
	})
	return end, err
}

// summaryBytes is the maximum length of the answer in a run's row.
const summaryBytes = 4 << 10

// cancelledElsewhere returns the ending of a run that another instance has asked its owner to cancel. That instance may have ended since.
func (l *Live) cancelledElsewhere(owner string) (Ending, error) {
	asks, err := commit.RetryUnavailable(l.cfg.Abandoned, func() ([]data.CancelAsk, error) {
		return l.cfg.Store.CancelAsks(l.cfg.Abandoned, owner)
	})
	var by decide.By
	if i := slices.IndexFunc(asks, func(a data.CancelAsk) bool { return a.RunKey == l.run.Key }); i >= 0 {
		by.Request = asks[i].By
	}
	return CancelledBy(by), err
}

// Over ends AwaitEnd, and gives back the memory of the run's messages.
func (l *Live) Over() {
	close(l.over)
	l.Rests.Reserved.ReleaseMessages()
}
