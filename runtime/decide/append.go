package decide

import (
	"cmp"
	"time"

	"github.com/batonrun/baton/runtime/data"
)

// Append sends a message to a run. A QUEUED or RUNNING run reads it at its next safe boundary, a WAITING one together
// with its answer. A run that has ended starts again.
type Append struct {
	Thread, Run int64
	Project     string       // required project; empty for any
	Message     data.Message // as it is queued
	Size        int          // bytes of its stored form
	Key         *Key
	Limits      Limits
	By
}

// Limits bound queued runs and spending. A number of runs that is not positive is no limit.
type Limits struct {
	Queue      int         // queued runs in all
	PerProject int         // queued runs of the thread's project
	PerUser    int         // queued runs of the thread's user
	PerThread  int         // queued runs of the thread
	InboxBytes int         // queued messages of one run
	Spent      *data.Error // the refusal once a budget is used up; nil before
}

var errInboxFull = &data.Error{
	Kind: data.KindOverloaded, Code: "inbox_full", Detail: "Too much waits for the run already; try again later", RetryAfter: time.Second,
}

// Ask returns the rows that the decision needs to see.
func (c *Append) Ask() data.Ask {
	ask := data.Ask{Thread: c.Thread, Project: c.Project, Runs: []int64{c.Run}}
	if c.Key != nil {
		ask.Scope = c.Key.Scope
	}
	return ask
}

func (c *Append) decide(d *decision) error {
	if done, err := d.recallAnswer(c.Key, &d.out.Message); done || err != nil {
		return err
	}
	run, err := d.run(c.Run)
	if err != nil {
		return err
	}
	if run.Status == data.Cancelled {
		return data.Refuse(data.KindInvalid, "invalid_state", "Run cannot accept messages. Current status: %s", run.Status)
	}
	inbox := d.v.Inbox[run.Key]
	if inbox.Messages > 0 && inbox.Bytes+c.Size > c.Limits.InboxBytes {
		return errInboxFull
	}
	if run.Status.Final() {
		if err := cmp.Or(c.Limits.budgetErr(), c.Limits.queueErr(d.v)); err != nil {
			return err
		}
		d.restartRun(run)
		d.putHead(run)
	}
	d.out.Run, d.out.Message = *run, c.Message.ID
	d.queueMessages(run, []data.Message{c.Message}, c.Size)
	return d.storeAnswer(c.Key, run.Key, c.Message.ID)
}

// queueMessages queues messages for a run.
func (d *decision) queueMessages(run *data.RunHead, msgs []data.Message, size int) {
	inbox := d.v.Inbox[run.Key]
	for i := range msgs {
		m := &msgs[i]
		m.ThreadKey, m.RunKey, m.CreatedAt = d.v.Thread.Key, run.Key, d.v.Now
		d.put(m)
		if d.v.Known == nil {
			d.v.Known = make(map[string]bool)
		}
		d.v.Known[m.ID] = true
	}
	inbox.Messages += len(msgs)
	inbox.Bytes += size
	inbox.Last = unread
	if d.v.Inbox == nil {
		d.v.Inbox = make(map[int64]data.Inbox)
	}
	d.v.Inbox[run.Key] = inbox
}

// unread stands for the key of a message that this batch has yet to insert, which no run can have read.
const unread = -1

// queueErr refuses to queue another run of the thread beyond a limit.
func (l *Limits) queueErr(v *data.View) error {
	queued := 0
	for i := range v.Runs {
		if v.Runs[i].Status == data.Queued {
			queued++
		}
	}
	switch {
	case reached(l.PerUser, v.Queued.OfUser):
		return queueFull("You may have %d runs queued at a time; try again later", l.PerUser)
	case reached(l.PerProject, v.Queued.OfProject):
		return queueFull("Your project may have %d runs queued at a time; try again later", l.PerProject)
	case reached(l.Queue, v.Queued.All), reached(l.PerThread, queued):
		return ErrQueueFull
	}
	return nil
}

func reached(limit, n int) bool { return limit > 0 && n >= limit }

// budgetErr refuses a run if a budget is used up.
func (l *Limits) budgetErr() error {
	if l.Spent == nil {
		return nil
	}
	return l.Spent
}
