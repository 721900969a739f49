package decide

import (
	"encoding/json"
	"time"

	"github.com/batonrun/baton/runtime/model"
)

// Patch changes what people say of a thread; what is nil stays.
type Patch struct {
	Thread   int64
	Project  string // the thread's
	Title    *string
	Metadata json.RawMessage // nil stays, null for none
	Archived *bool
	By
}

// Ask says what the decision has to see.
func (c *Patch) Ask() model.Ask { return model.Ask{Thread: c.Thread, Project: c.Project} }

func (c *Patch) decide(d *decision) error {
	if err := d.exists(); err != nil {
		return err
	}
	if c.Title != nil || c.Metadata != nil || c.Archived != nil {
		d.put(&model.ThreadPatch{Key: c.Thread, Title: c.Title, Metadata: c.Metadata, Archived: c.Archived})
	}
	return nil
}

// Delete removes a part of a run that is over, or with Run 0 of the thread, none of whose runs may be RUNNING then. It is
// decided in a batch of its own; whether there is more Decided says.
type Delete struct {
	Thread, Run int64
	Project     string    // theirs
	Limit       int       // rows of the part
	Events      bool      // of the run, its events alone
	Before      time.Time `json:",omitzero"` // when the run has ended at the latest; zero is any time
	Last        int64     // of a deletion that broke off; 0 is any
	By
}

// Ask says what the decision has to see.
func (c *Delete) Ask() model.Ask {
	ask := model.Ask{Thread: c.Thread, Project: c.Project}
	if c.Run != 0 {
		ask.Runs = []int64{c.Run}
	}
	return ask
}

func (c *Delete) decide(d *decision) error {
	if err := d.exists(); err != nil {
		return err
	}
	last := d.v.Thread.LastEventID
	if c.Run != 0 {
		run, err := d.run(c.Run)
		if err != nil {
			return err
		}
		if !run.Status.Final() {
			return model.Refuse(model.KindInvalid, "invalid_state", "Run cannot be deleted. Current status: %s", run.Status)
		}
		if !c.Before.IsZero() && (run.FinishedAt == nil || !run.FinishedAt.Before(c.Before)) { // it went on meanwhile
			return ErrMoved
		}
		d.out.Run = *run
		last = run.ClosedEvent
	} else if len(open(d.v)) > 0 { // it may go in parts, and a run that is to go on needs all of its own
		return ErrRunning
	}
	if c.Last != 0 && c.Last != last { // it is used again
		return ErrMoved
	}
	d.out.Removed = &model.Delete{ThreadKey: c.Thread, RunKey: c.Run, Events: c.Events, Limit: c.Limit, Last: last}
	d.put(d.out.Removed)
	return nil
}
