package decide

import "github.com/batonrun/baton/runtime/data"

// Cancel ends a run that has not begun. Others need a Finish: by the owner if Cancel fails with ErrRunning, by any instance if it fails with
// ErrOwesSpan. A run that another instance executes stays RUNNING, and Cancel records a request to that instance.
type Cancel struct {
	Thread, Run int64
	Project     string // required project; empty for any
	Generation  int    // required generation, 0 for any; ErrMoved for another
	Until       int64  // ErrMoved if a span of the run has closed, or the run was parked, at this event or later; 0 for no check
	Instance    string // of the sender, which asks the others; empty if there are none
	By
}

// Moved reports whether run has gone on since the request to cancel it.
func (c *Cancel) Moved(run *data.RunHead) bool {
	return c.Generation != 0 && c.Generation != run.Generation || c.Until != 0 && c.Until <= max(run.ClosedEvent, run.ParkedEvent)
}

// NotCancellable is the error for a run that is over.
func NotCancellable(is data.Status) error {
	return data.Refuse(data.KindInvalid, "invalid_state", "Run cannot be cancelled. Current status: %s", is)
}

// Ask returns the rows that the decision needs to see.
func (c *Cancel) Ask() data.Ask {
	return data.Ask{Thread: c.Thread, Project: c.Project, Runs: []int64{c.Run}}
}

func (c *Cancel) decide(d *decision) error {
	run, err := d.run(c.Run)
	if err != nil {
		return err
	}
	switch {
	case c.Moved(run):
		return ErrMoved
	case run.Status == data.Cancelled:
		d.out.Run = *run
	case run.Status == data.Running && c.Instance != "" && c.Instance != run.Owner:
		d.out.Run = *run
		d.put(&data.CancelAsk{RunKey: run.Key, By: c.Request})
	case run.Status == data.Running:
		return ErrRunning
	case run.Status.Final():
		return NotCancellable(run.Status)
	case begun(run):
		return ErrOwesSpan
	default:
		d.cancelUnstarted(run)
	}
	return nil
}
