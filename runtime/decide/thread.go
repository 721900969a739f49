package decide

import (
	"encoding/json"
	"time"

	"github.com/batonrun/baton/runtime/data"
)

// Patch changes a thread's title, metadata or archived flag. Nil fields stay.
type Patch struct {
	Thread   int64
	Project  string // required project; empty for any
	Title    *string
	Metadata json.RawMessage // nil stays; null removes it
	Archived *bool
	By
}

// Ask returns the rows that the decision needs to see.
func (c *Patch) Ask() data.Ask { return data.Ask{Thread: c.Thread, Project: c.Project} }

func (c *Patch) decide(d *decision) error {
	if err := d.requireThread(); err != nil {
		return err
	}
	if c.Title != nil || c.Metadata != nil || c.Archived != nil {
		d.put(&data.ThreadPatch{Key: c.Thread, Title: c.Title, Metadata: c.Metadata, Archived: c.Archived})
	}
	return nil
}

// Delete removes part of an ended run, or with Run 0 part of a thread without open runs. It is decided in a batch of
// its own. Decided reports whether rows are left.
type Delete struct {
	Thread, Run int64
	Project     string    // required project; empty for any
	Limit       int       // rows to remove at most
	Events      bool      // remove only the run's events
	Before      time.Time `json:",omitzero"` // the run must have ended before; zero for no check
	Last        int64     // expected last event; 0 accepts any (continues an interrupted deletion)
	By
}

// Ask returns the rows that the decision needs to see.
func (c *Delete) Ask() data.Ask {
	ask := data.Ask{Thread: c.Thread, Project: c.Project}
	if c.Run != 0 {
		ask.Runs = []int64{c.Run}
	}
	return ask
}

func (c *Delete) decide(d *decision) error {
	if err := d.requireThread(); err != nil {
		return err
	}
	last := d.v.Thread.LastEventID
	if c.Run != 0 {
		run, err := d.run(c.Run)
		if err != nil {
			return err
		}
		if !run.Status.Final() {
			return data.Refuse(data.KindInvalid, "invalid_state", "Run cannot be deleted. Current status: %s", run.Status)
		}
		if !c.Before.IsZero() && (run.FinishedAt == nil || !run.FinishedAt.Before(c.Before)) { // it has restarted
			return ErrMoved
		}
		d.out.Run = *run
		last = run.ClosedEvent
	} else if len(openRuns(d.v)) > 0 { // a run that goes on needs every row of its thread
		return ErrRunning
	}
	if c.Last != 0 && c.Last != last { // the thread or run is in use again
		return ErrMoved
	}
	d.out.Removed = &data.Delete{ThreadKey: c.Thread, RunKey: c.Run, Events: c.Events, Limit: c.Limit, Last: last}
	d.put(d.out.Removed)
	return nil
}
