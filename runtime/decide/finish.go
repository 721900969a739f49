package decide

import (
	"encoding/json"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/model"
)

// Finish ends the open span of a RUNNING run: its owner, or who takes it from an owner that is gone, brings what closes the
// span, the terminal event the last. Messages that were accepted meanwhile restart a run that ends by itself; a cancelled
// one has taken all of them before its terminal event.
type Finish struct {
	Thread, Run int64
	Owner       string
	To          model.Status // COMPLETED, FAILED, CANCELLED or WAITING
	Span        int          // which of the run's
	Last, Seq   int64        // the thread's after it; Last is the terminal event
	State       json.RawMessage
	Inbox       int64 // when cancelled: the key of the last message taken from the run's inbox, 0 for none
	Result      model.RunResult
	Error       *agui.OutputError
	Asked       bool // the run has asked somebody: what it asked is withdrawn
	Rows        model.Rows
	Events      []model.StoredEvent
	By
}

// Ask says what the decision has to see.
func (c *Finish) Ask() model.Ask {
	return model.Ask{Thread: c.Thread, Runs: []int64{c.Run}, Waits: c.To == model.Waiting}
}

func (c *Finish) decide(d *decision) error {
	run, err := d.owned(c.Run, c.Owner)
	if err != nil {
		return err
	}
	inbox := d.v.Inbox[run.Key]
	if c.To == model.Cancelled && inbox.Last != c.Inbox {
		return ErrStale
	}
	if c.To == model.Waiting {
		d.move(run, model.Waiting)
		run.Attempt = 0
	} else {
		d.end(run, c.To, c.Error)
	}
	run.Spans, run.ClosedEvent = c.Span, c.Last
	if c.To == model.Cancelled {
		delete(d.v.Inbox, run.Key)
	} else if c.To.Final() && inbox.Messages > 0 {
		d.restart(run)
	}
	d.keep(run)
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
	d.advance(c.Last, c.Seq)
	return nil
}

// Cancel ends a run for good. A run that executes is ended by its owner's Finish, and one that waits by a Close: the
// refusals ErrRunning and ErrOwesSpan say so.
type Cancel struct {
	Thread, Run int64
	Project     string // theirs, empty for any
	Generation  int    // which of the run's, 0 for any: another is not cancelled, with ErrMoved
	Until       int64  // an event, 0 for none: nor is a run a span of which has closed there or later
	By
}

// Moved reports whether run is past what is to be cancelled.
func (c *Cancel) Moved(run *model.RunHead) bool {
	return c.Generation != 0 && c.Generation != run.Generation || c.Until != 0 && c.Until <= run.ClosedEvent
}

// Ask says what the decision has to see.
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
		d.discard(run)
	}
	return nil
}
