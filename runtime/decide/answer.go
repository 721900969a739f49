package decide

import (
	"encoding/json"
	"slices"

	"github.com/batonrun/baton/runtime/data"
)

// Reply answers one interrupt.
type Reply struct {
	Interrupt string
	Payload   json.RawMessage
	Output    json.RawMessage // of the interrupt's memo; nil if there is no such interrupt
	Rows      []data.Row      // that the answer writes
}

// Resume answers all open interrupts of a WAITING run, which then comes first in its thread's queue.
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
	if err := d.applyReplies(run, c.Replies, true); err != nil {
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
func (c *Expire) Ask() data.Ask { return data.Ask{Thread: c.Thread, Runs: []int64{c.Run}} }

func (c *Expire) decide(d *decision) error {
	run := d.v.Run(c.Run)
	if run == nil || run.Status != data.Waiting || d.interrupt(run.Key, c.Reply.Interrupt, data.InterruptOpen) == nil {
		return ErrStale // already answered, or the run does not wait yet
	}
	if err := d.applyReplies(run, []Reply{c.Reply}, false); err != nil {
		return err
	}
	d.putHead(run)
	return nil
}

// applyReplies writes the answers, and queues the run once it has no open interrupt. If whole is set, the answers must cover
// all of them. The caller writes the run's head.
func (d *decision) applyReplies(run *data.RunHead, replies []Reply, whole bool) error {
	left, _ := openInterrupts(d.v, run.Key)
	var took []*data.Asked
	for i := range replies {
		in := d.interrupt(run.Key, replies[i].Interrupt, "")
		switch {
		case in == nil:
			return data.Refuse(data.KindInvalid, "interrupts_open", "There is no open interrupt %q", replies[i].Interrupt)
		case in.Status != data.InterruptOpen || slices.Contains(took, in):
			return ErrAnswered
		case replies[i].Output == nil:
			return ErrStale
		}
		took = append(took, in)
		left--
	}
	if run.Status != data.Waiting || whole && left > 0 {
		return data.Refuse(data.KindInvalid, "interrupts_open", "The answer must cover every open interrupt and pending tool call of the run")
	}
	for i, in := range took {
		in.Status = data.InterruptAnswered
		d.put(&data.Answer{
			RunKey: run.Key, Generation: run.Generation, ID: in.ID, Step: in.Step, Place: in.Place,
			Payload: replies[i].Payload, Output: replies[i].Output,
		})
		for _, row := range replies[i].Rows {
			d.put(row)
		}
	}
	if left == 0 {
		d.moveRun(run, data.Queued)
		run.Answered, run.QueuedAt = true, d.v.Now
	}
	return nil
}

// interrupt returns a run's interrupt in a status; an empty status matches any.
func (d *decision) interrupt(runKey int64, id, status string) *data.Asked {
	for i := range d.v.Asked {
		if a := &d.v.Asked[i]; a.RunKey == runKey && a.ID == id && (status == "" || a.Status == status) {
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
