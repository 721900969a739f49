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
	Metadata json.RawMessage `json:",omitempty"` // nil stays, null for none
	Archived *bool           `json:",omitempty"`
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

// Delete removes a run that is over, or with Run 0 a part of the thread, none of whose runs may be RUNNING then. It is
// decided in a batch of its own, and a thread is gone once Decided says so.
type Delete struct {
	Thread, Run int64
	Project     string    // theirs
	Limit       int       // rows of a part
	Events      bool      `json:",omitempty"` // of the run, its events alone
	Before      time.Time `json:",omitzero"`  // when the run has ended at the latest; zero is any time
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
	} else if len(open(d.v)) > 0 { // it may go in parts, and a run that is to go on needs all of its own
		return ErrRunning
	}
	d.put(&model.Delete{ThreadKey: c.Thread, RunKey: c.Run, Events: c.Events, Limit: c.Limit})
	d.out.Removed = true
	return nil
}
