package decide

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/batonrun/baton/runtime/model"
)

// Append gives a run a message: one that is QUEUED or RUNNING takes it at its next safe boundary, a WAITING one with its answer,
// and one that is over goes once more.
type Append struct {
	Thread, Run int64
	Project     string        // theirs
	Message     model.Message // as it is queued
	Size        int           // of its stored form
	Key         *Key
	Limits      Limits
	By
}

// Limits bound what may wait and be spent. Of the numbers of runs that are QUEUED 0 or less is no limit.
type Limits struct {
	Queue      int          // of all threads
	PerProject int          // of the thread's project
	PerUser    int          // of its user
	PerThread  int          // of the thread
	InboxBytes int          // messages of one run that were accepted and not taken
	Spent      *model.Error // what refuses to begin or go on with a run whose project has nothing left to spend; nil when it has
}

// Key is a client's Idempotency-Key in its scope: project, user, method and path.
type Key struct {
	Scope    string
	BodyHash string
}

// KeyLifetime is how long the answer to a request with an Idempotency-Key is remembered.
const KeyLifetime = 24 * time.Hour

var errInboxFull = &model.Error{
	Kind: model.KindOverloaded, Code: "inbox_full", Detail: "Too much waits for the run already; try again later", RetryAfter: time.Second,
}

// Ask says what the decision has to see.
func (c *Append) Ask() model.Ask {
	ask := model.Ask{Thread: c.Thread, Project: c.Project, Runs: []int64{c.Run}}
	if c.Key != nil {
		ask.Scope = c.Key.Scope
	}
	return ask
}

func (c *Append) decide(d *decision) error {
	if done, err := d.remembered(c.Key, &d.out.Message); done || err != nil {
		return err
	}
	run, err := d.run(c.Run)
	if err != nil {
		return err
	}
	if run.Status == model.Cancelled {
		return model.Refuse(model.KindInvalid, "invalid_state", "Run cannot accept messages. Current status: %s", run.Status)
	}
	inbox := d.v.Inbox[run.Key]
	if inbox.Messages > 0 && inbox.Bytes+c.Size > c.Limits.InboxBytes {
		return errInboxFull
	}
	if run.Status.Final() {
		if err := cmp.Or(c.Limits.spent(), c.Limits.full(d.v)); err != nil {
			return err
		}
		d.restart(run)
		d.keep(run)
	}
	d.out.Run, d.out.Message = *run, c.Message.ID
	d.accept(run, []model.Message{c.Message}, c.Size)
	return d.remember(c.Key, run.Key, c.Message.ID)
}

// accept queues messages for a run.
func (d *decision) accept(run *model.RunHead, msgs []model.Message, size int) {
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
		d.v.Inbox = make(map[int64]model.Inbox)
	}
	d.v.Inbox[run.Key] = inbox
}

// unread stands for the key of a message that the batch has yet to insert: nobody can have read it.
const unread = -1

// full refuses more runs of the thread when they may not be queued.
func (l *Limits) full(v *model.View) error {
	queued := 0
	for i := range v.Runs {
		if v.Runs[i].Status == model.Queued {
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

// spent refuses what would spend more.
func (l *Limits) spent() error {
	if l.Spent == nil {
		return nil
	}
	return l.Spent
}

// remembered fills answer with what an equal request was answered before, if one was.
func (d *decision) remembered(key *Key, answer any) (bool, error) {
	if key == nil {
		return false, nil
	}
	old, ok := d.v.Remembered[key.Scope]
	switch known := ok && d.v.Now.Sub(old.CreatedAt) <= KeyLifetime; {
	case !known:
		return false, nil
	case old.BodyHash != key.BodyHash:
		return false, errKeyReused
	case old.RunGone:
		return false, ErrRunNotFound
	}
	return true, json.Unmarshal(old.Answer, answer)
}

// remember keeps the answer to a request.
func (d *decision) remember(key *Key, runKey int64, answer any) error {
	if key == nil {
		return nil
	}
	raw, err := model.JSON(answer)
	if err != nil {
		return err
	}
	d.put(&model.IdempotencyKey{Scope: key.Scope, BodyHash: key.BodyHash, RunKey: runKey, Answer: raw, CreatedAt: d.v.Now})
	d.v.Remembered[key.Scope] = model.Remembered{BodyHash: key.BodyHash, RunKey: runKey, Answer: raw, CreatedAt: d.v.Now}
	return nil
}
