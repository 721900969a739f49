package decide

import (
	"encoding/json"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/model"
)

// Finish ends the open span of a RUNNING run. The run's owner, or its successor, brings the closing events with the
// terminal event last. If messages arrived meanwhile, a run that ends by itself restarts; a cancelled run has read them
// all before its terminal event.
type Finish struct {
	Thread, Run int64
	Owner       string
	To          model.Status // COMPLETED, FAILED, CANCELLED or WAITING
	Span        int          // the span's number in the run
	Last, Seq   int64        // the thread's end afterwards; Last is the terminal event
	State       json.RawMessage
	Inbox       int64 // of a cancelled run: key of the last message read from its inbox, 0 for none
	Result      model.RunResult
	Error       *agui.OutputError
	Asked       bool // the run has asked questions, which are withdrawn
	Rows        model.Rows
	Events      []model.StoredEvent
	By
}

// Ask returns the rows that the decision needs to see.
func (c *Finish) Ask() model.Ask {
	return model.Ask{Thread: c.Thread, Runs: []int64{c.Run}, Waits: c.To == model.Waiting}
}

func (c *Finish) decide(d *decision) error {
	run, err := d.ownedRun(c.Run, c.Owner)
	if err != nil {
		return err
	}
	inbox := d.v.Inbox[run.Key]
	if c.To == model.Cancelled && inbox.Last != c.Inbox {
		return ErrStale
	}
	if c.To == model.Waiting {
		d.moveRun(run, model.Waiting)
		run.Attempt = 0
	} else {
		d.endRun(run, c.To, c.Error)
	}
	run.Spans, run.ClosedEvent = c.Span, c.Last
	if c.To == model.Cancelled {
		delete(d.v.Inbox, run.Key)
	} else if c.To.Final() && inbox.Messages > 0 {
		d.restartRun(run)
	}
	d.putHead(run)
	d.put(c.Rows...)
	d.put(&model.SpanEnd{RunKey: run.Key, N: run.Spans, Last: c.Last})
	if c.To.Final() {
		result := c.Result
		d.put(&result)
		if c.Asked {
			d.put(&model.Withdraw{RunKey: run.Key})
		}
	}
	if c.State != nil {
		d.put(&model.ThreadState{Key: d.v.Thread.Key, State: c.State})
	}
	d.out.Events = c.Events
	d.advanceThread(c.Last, c.Seq)
	return nil
}

// Cancel ends a run. The owner of a running run has to end it with Finish (ErrRunning), and a waiting run ends with
// Close (ErrOwesSpan).
type Cancel struct {
	Thread, Run int64
	Project     string // required project; empty for any
	Generation  int    // required generation, 0 for any; ErrMoved for another
	Until       int64  // ErrMoved if a span of the run has closed at this event or later; 0 for no check
	By
}

// Moved reports whether run has gone on since the request to cancel it.
func (c *Cancel) Moved(run *model.RunHead) bool {
	return c.Generation != 0 && c.Generation != run.Generation || c.Until != 0 && c.Until <= run.ClosedEvent
}

// Ask returns the rows that the decision needs to see.
func (c *Cancel) Ask() model.Ask {
	return model.Ask{Thread: c.Thread, Project: c.Project, Runs: []int64{c.Run}}
}

func (c *Cancel) decide(d *decision) error {
	run, err := d.run(c.Run)
	if err != nil {
		return err
	}
	switch {
	case c.Moved(run):
		return ErrMoved
	case run.Status == model.Cancelled:
		d.out.Run = *run
	case run.Status == model.Running:
		return ErrRunning
	case run.Status.Final():
		return model.Refuse(model.KindInvalid, "invalid_state", "Run cannot be cancelled. Current status: %s", run.Status)
	case begun(run):
		return ErrOwesSpan
	default:
		d.cancelUnstarted(run)
	}
	return nil
}
