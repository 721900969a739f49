package decide

import (
	"encoding/json"
	"slices"

	"github.com/batonrun/baton/runtime/model"
)

// Reply is one answer to an interrupt, prepared for the record that it completes.
type Reply struct {
	Interrupt string
	Payload   json.RawMessage
	Output    json.RawMessage // of the memo; nil when no such interrupt was found
}

// Resume answers all that a WAITING run asks: it is queued before all others of its thread.
type Resume struct {
	Thread, Run int64
	Project     string // theirs
	Replies     []Reply
	Key         *Key
	Limits      Limits
	By
}

// Ask says what the decision has to see.
func (c *Resume) Ask() model.Ask {
	ask := model.Ask{Thread: c.Thread, Project: c.Project, Runs: []int64{c.Run}, Interrupts: ids(c.Replies)}
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
	if done, err := d.remembered(c.Key, &answered.Status); done || err != nil {
		d.out.Run = answered
		return err
	}
	if err := c.Limits.spent(); err != nil {
		return err
	}
	if err := d.reply(run, c.Replies, true); err != nil {
		return err
	}
	d.keep(run)
	return d.remember(c.Key, run.Key, run.Status)
}

// Expire answers one interrupt whose time has passed, if nobody has.
type Expire struct {
	Thread, Run int64
	Reply       Reply
}

// Ask says what the decision has to see.
func (c *Expire) Ask() model.Ask { return model.Ask{Thread: c.Thread, Runs: []int64{c.Run}} }

func (c *Expire) decide(d *decision) error {
	run := d.v.Run(c.Run)
	if run == nil || run.Status != model.Waiting || d.asked(run.Key, c.Reply.Interrupt, model.InterruptOpen) == nil {
		return ErrStale // it is answered when the run has come to wait for it
	}
	if err := d.reply(run, []Reply{c.Reply}, false); err != nil {
		return err
	}
	d.keep(run)
	return nil
}

// reply writes answers, and queues the run once nothing that it asks is open. It refuses, when they must be whole, answers
// that leave something open. The run's head is still to be kept.
func (d *decision) reply(run *model.RunHead, replies []Reply, whole bool) error {
	left, _ := asks(d.v, run.Key)
	var took []*model.Asked
	for i := range replies {
		in := d.asked(run.Key, replies[i].Interrupt, "")
		switch {
		case in == nil:
			return model.Refuse(model.KindInvalid, "interrupts_open", "There is no open interrupt %q", replies[i].Interrupt)
		case in.Status != model.InterruptOpen || slices.Contains(took, in):
			return ErrAnswered
		case replies[i].Output == nil:
			return ErrStale
		}
		took = append(took, in)
		left--
	}
	if run.Status != model.Waiting || whole && left > 0 {
		return model.Refuse(model.KindInvalid, "interrupts_open", "The answer must cover every open interrupt and pending tool call of the run")
	}
	for i, in := range took {
		in.Status = model.InterruptAnswered
		d.put(&model.Answer{
			RunKey: run.Key, Generation: run.Generation, ID: in.ID, Step: in.Step, Place: in.Place,
			Payload: replies[i].Payload, Output: replies[i].Output,
		})
	}
	if left == 0 {
		d.move(run, model.Queued)
		run.Answered, run.QueuedAt = true, d.v.Now
	}
	return nil
}

// asked returns the interrupt of a run with that status, "" for any.
func (d *decision) asked(runKey int64, id, status string) *model.Asked {
	for i := range d.v.Asked {
		if a := &d.v.Asked[i]; a.RunKey == runKey && a.ID == id && (status == "" || a.Status == status) {
			return a
		}
	}
	return nil
}

func ids(replies []Reply) []string {
	list := make([]string, len(replies))
	for i := range replies {
		list[i] = replies[i].Interrupt
	}
	return list
}
