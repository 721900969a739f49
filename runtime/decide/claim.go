package decide

import (
	"slices"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/model"
)

// Basis is what a command's events were prepared on.
type Basis struct {
	Last, Seq  int64        // of the thread
	Status     model.Status // of the run
	Answered   bool
	Generation int
	Spans      int
	Inbox      int64 // the key of the last message that was read from the run's inbox, 0 for none
}

// BasisOf is what a command about the run is based on that is prepared now.
func BasisOf(th *model.ThreadHead, run *model.RunHead, inbox int64) Basis {
	return Basis{
		Last: th.LastEventID, Seq: th.LastSeq, Status: run.Status, Answered: run.Answered,
		Generation: run.Generation, Spans: run.Spans, Inbox: inbox,
	}
}

// holds reports whether nothing has changed since, and nobody else numbers the thread's events.
func (b *Basis) holds(v *model.View, run *model.RunHead) bool {
	return running(v) == nil && *b == BasisOf(&v.Thread, run, v.Inbox[run.Key].Last)
}

// Claim begins a QUEUED run, or goes on with an answered one: it becomes RUNNING under Instance with a new span.
type Claim struct {
	Thread, Run int64
	Instance    string
	Basis       Basis
	Span        model.Span
	Shows       []int64 // other runs whose messages the rows and events repeat
	Rows        model.Rows
	Events      []model.StoredEvent
}

// Ask says what the decision has to see.
func (c *Claim) Ask() model.Ask {
	return model.Ask{Thread: c.Thread, Runs: append([]int64{c.Run}, c.Shows...)}
}

func (c *Claim) decide(d *decision) error {
	if n := next(d.v); n.Do != ToClaim || n.Run.Key != c.Run {
		return ErrNotClaimed
	}
	run, err := d.run(c.Run)
	if err != nil {
		return err
	}
	if !c.Basis.holds(d.v, run) || !c.shown(d.v) {
		return ErrStale
	}
	d.begin(run, c)
	d.keep(run)
	d.open(c)
	return nil
}

// shown reports whether the runs are still there whose messages the claim repeats: what is deleted is not told again.
func (c *Claim) shown(v *model.View) bool {
	return !slices.ContainsFunc(c.Shows, func(key int64) bool { return v.Run(key) == nil })
}

// begin makes a run RUNNING. Its row is still to be written.
func (d *decision) begin(run *model.RunHead, c *Claim) {
	d.move(run, model.Running)
	run.Owner, run.Answered, run.FinishedAt = c.Instance, false, nil
	run.Spans++
	if run.StartedAt == nil {
		now := d.v.Now
		run.StartedAt = &now
	}
	if !c.Basis.Answered { // who goes on with an answer takes what came meanwhile later
		delete(d.v.Inbox, run.Key)
	}
}

// open writes the span that a claim opens.
func (d *decision) open(c *Claim) {
	span := c.Span
	d.put(&span)
	d.put(c.Rows...)
	d.out.Events = append(d.out.Events, c.Events...)
}

// Close ends a run that nobody executes with a span that says so: one that waits or was answered is CANCELLED, and one that
// cannot be claimed FAILED.
type Close struct {
	Thread, Run int64
	To          model.Status
	Basis       Basis
	Span        model.Span // with its Last
	Seq         int64      // of the thread's last message after it
	Rows        model.Rows
	Events      []model.StoredEvent
	Error       *agui.OutputError
	By
}

// Ask says what the decision has to see.
func (c *Close) Ask() model.Ask { return model.Ask{Thread: c.Thread, Runs: []int64{c.Run}} }

func (c *Close) decide(d *decision) error {
	run, err := d.run(c.Run)
	if err != nil {
		return err
	}
	if run.Status != model.Waiting && run.Status != model.Queued || !c.Basis.holds(d.v, run) {
		return ErrStale
	}
	d.end(run, c.To, c.Error)
	run.Spans++
	run.ClosedEvent = c.Span.Last
	d.keep(run)
	span := c.Span
	d.put(&span)
	d.put(c.Rows...)
	d.put(&model.Withdraw{RunKey: run.Key})
	d.out.Events = append(d.out.Events, c.Events...)
	d.advance(c.Span.Last, c.Seq)
	delete(d.v.Inbox, run.Key)
	return nil
}

// TakeOver makes a RUNNING run Instance's whose owner From is gone. Its span goes on with Events.
type TakeOver struct {
	Thread, Run    int64
	From, Instance string
	Attempt        int
	Rows           model.Rows
	Events         []model.StoredEvent
}

// Ask says what the decision has to see.
func (c *TakeOver) Ask() model.Ask { return model.Ask{Thread: c.Thread, Runs: []int64{c.Run}} }

func (c *TakeOver) decide(d *decision) error {
	run, err := d.owned(c.Run, c.From)
	if err != nil {
		return err
	}
	run.Owner, run.Attempt = c.Instance, c.Attempt
	d.keep(run)
	d.put(c.Rows...)
	d.out.Events = c.Events
	return nil
}

// Release lets go of a RUNNING run without a word in its log: somebody else takes it over, and that is no crash.
type Release struct {
	Thread, Run int64
	Instance    string
}

// Ask says what the decision has to see.
func (c *Release) Ask() model.Ask { return model.Ask{Thread: c.Thread, Runs: []int64{c.Run}} }

func (c *Release) decide(d *decision) error {
	run, err := d.owned(c.Run, c.Instance)
	if err != nil {
		return err
	}
	run.Owner, run.Attempt = "", 0
	d.keep(run)
	return nil
}

// owned returns the run if it is RUNNING under the owner.
func (d *decision) owned(key int64, owner string) (*model.RunHead, error) {
	run := d.v.Run(key)
	if run == nil || run.Status != model.Running || run.Owner != owner {
		return nil, ErrSettled
	}
	return run, nil
}

// Look changes nothing and tells what the thread needs.
type Look struct{ Thread int64 }

// Ask says what the decision has to see.
func (c *Look) Ask() model.Ask { return model.Ask{Thread: c.Thread} }

func (c *Look) decide(d *decision) error { return d.exists() }

// exists refuses a command about a thread that is gone.
func (d *decision) exists() error {
	if !d.v.Exists {
		d.out.Gone = true
		return ErrThreadNotFound
	}
	return nil
}
