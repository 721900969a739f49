package decide

import (
	"encoding/json"

	"github.com/batonrun/baton/runtime/data"
)

// Reply answers one interrupt.
type Reply struct {
	Interrupt string
	Payload   json.RawMessage // nil for the server's own answer to an expired interrupt
	Output    json.RawMessage // of the interrupt's memo; nil if there is no such interrupt
	Rows      []data.Row      // that the answer writes
}

// Resume answers open interrupts of a run. A WAITING run then comes first in its thread's queue; a run that goes on already uses the
// answers in its next span.
type Resume struct {
	Thread, Run int64
	Project     string // required project; empty for any
	Replies     []Reply
	Key         *Key
	Limits      Limits
	By
}

// Ask returns the rows that the decision needs to see.
func (c *Resume) Ask() data.Ask {
	ask := data.Ask{Thread: c.Thread, Project: c.Project, Runs: []int64{c.Run}, Interrupts: interruptIDs(c.Replies)}
	if c.Key != nil {
		ask.Scope = c.Key.Scope
	}
	return ask
}

func (c *Resume) decide(d *decision) error {
	run, err := d.run(c.Run)
	if err != nil {
		return err
	}
	answered := *run
	if done, err := d.recallAnswer(c.Key, &answered.Status); done || err != nil {
		d.out.Run = answered
		return err
	}
	if err := c.Limits.budgetErr(); err != nil {
		return err
	}
	if err := d.applyReplies(run, c.Replies); err != nil {
		return err
	}
	d.putHead(run)
	return d.storeAnswer(c.Key, run.Key, run.Status)
}

// Expire answers one open interrupt after its deadline.
type Expire struct {
	Thread, Run int64
	Reply       Reply
}

// Ask returns the rows that the decision needs to see.
func (c *Expire) Ask() data.Ask {
	return data.Ask{Thread: c.Thread, Runs: []int64{c.Run}, Interrupts: []string{c.Reply.Interrupt}}
}

func (c *Expire) decide(d *decision) error {
	run := d.v.Run(c.Run)
	if run == nil {
		return ErrStale
	}
	if in := d.interrupt(run.Key, c.Reply.Interrupt); in == nil || in.Status != data.InterruptOpen {
		return ErrStale // already answered
	}
	if err := d.applyReplies(run, []Reply{c.Reply}); err != nil {
		return err
	}
	d.putHead(run)
	return nil
}

// applyReplies writes the answers, and queues the run if it is WAITING. The caller writes the run's head.
func (d *decision) applyReplies(run *data.RunHead, replies []Reply) error {
	took := make([]*data.Asked, len(replies))
	for i := range replies {
		in := d.interrupt(run.Key, replies[i].Interrupt)
		switch {
		case in == nil:
			return errUnknownInterrupt(replies[i].Interrupt)
		case in.Status != data.InterruptOpen:
			return errLate(in)
		case replies[i].Output == nil:
			return ErrStale
		}
		took[i] = in
	}
	for i, in := range took {
		in.Status, in.Expired = data.InterruptAnswered, replies[i].Payload == nil
		d.put(&data.Answer{
			RunKey: run.Key, Generation: run.Generation, ID: in.ID, Step: in.Step, Place: in.Place,
			Payload: replies[i].Payload, Output: replies[i].Output,
		})
		for _, row := range replies[i].Rows {
			d.put(row)
		}
	}
	if run.Status == data.Waiting {
		d.continueRun(run)
	}
	return nil
}

// continueRun queues a WAITING run that has answers, or a wait that is due.
func (d *decision) continueRun(run *data.RunHead) {
	d.moveRun(run, data.Queued)
	run.Answered, run.QueuedAt = true, d.v.Now
}

// answers counts the answers that no span of the run has used.
func answers(v *data.View, runKey int64) (n int) {
	for i := range v.Asked {
		if v.Asked[i].RunKey == runKey && v.Asked[i].Status == data.InterruptAnswered {
			n++
		}
	}
	return n
}

func errUnknownInterrupt(id string) error {
	return data.Refuse(data.KindInvalid, "unknown_interrupt", "There is no interrupt %q", id)
}

// errLate refuses an answer to a question that is not open any more.
func errLate(in *data.Asked) error {
	switch {
	case in.Status == data.InterruptCancelled:
		return data.Refuse(data.KindConflict, "interrupt_cancelled", "The interrupt %q was cancelled: its step or its run is over", in.ID)
	case in.Expired:
		return data.Refuse(data.KindConflict, "interrupt_expired", "The interrupt %q has expired", in.ID)
	}
	return data.Refuse(data.KindConflict, "already_answered", "The interrupt %q has been answered already", in.ID)
}

// interrupt returns a run's interrupt, or nil.
func (d *decision) interrupt(runKey int64, id string) *data.Asked {
	for i := range d.v.Asked {
		if a := &d.v.Asked[i]; a.RunKey == runKey && a.ID == id {
			return a
		}
	}
	return nil
}

func interruptIDs(replies []Reply) []string {
	list := make([]string, len(replies))
	for i := range replies {
		list[i] = replies[i].Interrupt
	}
	return list
}
