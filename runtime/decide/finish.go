package decide

import (
	"encoding/json"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// Finish ends a span of a run, with its terminal event last: the open span of a RUNNING run, which the run's owner or its
// successor closes, or a whole span that ends a run which is not executed. If messages arrived meanwhile, a running run that
// ends by itself restarts; any other run has read or hidden its messages before the terminal event.
type Finish struct {
	Thread, Run int64
	Owner       string      // of a RUNNING run
	Last        int64       // of the log before the events, if they end the run of another owner; else 0
	Basis       *Basis      // of a run that is not executed; nil for a RUNNING one
	To          data.Status // COMPLETED, FAILED, CANCELLED or WAITING
	Span        data.Span   // with its Last, the terminal event
	Seq         int64       // of the thread's last message afterwards
	State       json.RawMessage
	Waits       *data.Waits // of a run that is WAITING for an answer too
	ActiveMs    int64       // of its generation, so far; 0 from others than its owner
	Inbox       int64       // of a cancelled run: key of the last message read from its inbox, 0 for none
	Error       *agui.OutputError
	Node        string // that has failed, for the log; empty for a run of one agent
	Trace       string // the run's traceparent, for the log
	Rows        data.Rows
	Events      []data.StoredEvent
	By
}

// Ask returns the rows that the decision needs to see.
func (c *Finish) Ask() data.Ask {
	ask := data.Ask{Thread: c.Thread, Runs: []int64{c.Run}, Waits: c.To == data.Waiting}
	if c.Last != 0 {
		ask.Owner = c.Owner
	}
	return ask
}

func (c *Finish) decide(d *decision) error {
	run, err := c.subject(d)
	if err != nil {
		return err
	}
	if c.Basis == nil && d.v.CancelAsked[run.Key] && c.continues(d, run) {
		return ErrCancelAsked
	}
	if c.To == data.Waiting {
		d.moveRun(run, data.Waiting)
		run.Attempt = 0
		d.await(run, c.Waits)
		if !d.signal(run) && answers(d.v, run.Key) > 0 { // they came while it was executed
			d.continueRun(run)
		}
	} else {
		d.endRun(run, c.To, c.Error)
	}
	run.Spans, run.ClosedEvent, run.ActiveMs = c.Span.N, c.Span.Last, max(run.ActiveMs, c.ActiveMs)
	if c.To == data.Cancelled || c.Basis != nil {
		delete(d.v.Inbox, run.Key)
	} else if c.To.Final() && d.v.Inbox[run.Key].Messages > 0 {
		d.restartRun(run)
	}
	if run.Status.Final() { // a restarted run keeps its events
		d.dropSignals(run)
	}
	d.putHead(run)
	if span := c.Span; c.Basis != nil {
		d.put(&span)
		d.put(c.Rows...)
	} else { // the rows can have the span
		d.put(c.Rows...)
		d.put(&data.SpanEnd{RunKey: run.Key, N: span.N, Last: span.Last})
	}
	if c.State != nil {
		d.put(&data.ThreadState{Key: d.v.Thread.Key, State: c.State})
	}
	d.out.Events = c.Events
	d.advanceThread(c.Span.Last, c.Seq)
	return nil
}

// continues reports whether a run that ends a span by itself waits, or restarts for its messages.
func (c *Finish) continues(d *decision, run *data.RunHead) bool {
	return c.To == data.Waiting || c.To != data.Cancelled && d.v.Inbox[run.Key].Messages > 0
}

// subject returns the run if it still is as the events were prepared for.
func (c *Finish) subject(d *decision) (*data.RunHead, error) {
	if c.Basis == nil {
		run, err := d.ownedRun(c.Run, c.Owner)
		if c.Last != 0 {
			run, err = d.leftRun(c.Run, c.Owner, c.Last)
		}
		if err == nil && c.To == data.Cancelled && d.v.Inbox[run.Key].Last != c.Inbox {
			err = ErrStale
		}
		return run, err
	}
	run, err := d.run(c.Run)
	switch {
	case err != nil:
	case run.Status != data.Waiting && run.Status != data.Queued, run.Unowned(): // its open span ends
		err = ErrStale
	case openRuns(d.v)[0].Key != run.Key: // whose events come first
		err = ErrNotClaimed
	case !c.Basis.isCurrent(d.v, run):
		err = ErrStale
	}
	return run, err
}
