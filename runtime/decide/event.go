package decide

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/data"
)

// SendEvent sends a signal to a run that has not ended. A run that waits for it goes on; otherwise it is kept for the run's worker.
type SendEvent struct {
	Thread, Run int64
	Project     string // required project; empty for any
	Name        string
	Payload     json.RawMessage
	Key         *Key
	By
}

var (
	errRunEnded    = data.Refuse(data.KindConflict, "run_ended", "The run has ended")
	errSignalsFull = &data.Error{Kind: data.KindOverloaded, Code: "inbox_full", Detail: "A run may have 100 events, and 8 MiB of them, that it has not received", RetryAfter: time.Second}
)

// Ask returns the rows that the decision needs to see.
func (c *SendEvent) Ask() data.Ask {
	ask := data.Ask{Thread: c.Thread, Project: c.Project, Runs: []int64{c.Run}}
	if c.Key != nil {
		ask.Scope = c.Key.Scope
	}
	return ask
}

func (c *SendEvent) decide(d *decision) error {
	if done, err := d.recallAnswer(c.Key, &d.out.Delivered); done || err != nil {
		return err
	}
	run, err := d.run(c.Run)
	if err != nil {
		return err
	}
	size := len(c.Payload)
	for _, s := range d.v.Signals[run.Key] {
		size += s.Bytes
	}
	switch {
	case run.Status.Final():
		return errRunEnded
	case len(d.v.Signals[run.Key]) >= data.MostSignals || size > data.MostSignalBytes:
		return errSignalsFull
	}
	run.Signals++
	s := data.Signal{RunKey: run.Key, N: run.Signals, Name: c.Name, Payload: c.Payload, Bytes: len(c.Payload), CreatedAt: d.v.Now}
	d.put(&s)
	if d.v.Signals == nil {
		d.v.Signals = make(map[int64][]data.Signal)
	}
	d.v.Signals[run.Key] = append(d.v.Signals[run.Key], s)
	d.out.Sent, d.out.Delivered = true, run.Status == data.Waiting && d.signal(run)
	d.putHead(run)
	return d.storeAnswer(c.Key, run.Key, d.out.Delivered)
}

// signal queues a WAITING run if it waits for a signal that is kept. The caller writes the run's head.
func (d *decision) signal(run *data.RunHead) bool {
	if run.Waits == nil {
		return false
	}
	for _, s := range d.v.Signals[run.Key] {
		if slices.Contains(run.Waits.Events, s.Name) {
			d.wake(run, s.Name)
			return true
		}
	}
	return false
}

// wake queues a WAITING run whose wait has ended, by a signal of that name or, without one, by its time. The caller writes the run's head.
func (d *decision) wake(run *data.RunHead, by string) {
	mark := run.Owner
	run.Waits = new(*run.Waits)
	run.Waits.By = by
	d.continueRun(run)
	run.Owner = mark
}

// dropSignals removes the signals of a run that ends.
func (d *decision) dropSignals(run *data.RunHead) {
	if len(d.v.Signals[run.Key]) > 0 {
		d.put(&data.TakenSignals{RunKey: run.Key, To: run.Signals})
		delete(d.v.Signals, run.Key)
	}
}
