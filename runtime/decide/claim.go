package decide

import (
	"slices"

	"github.com/batonrun/baton/runtime/data"
)

// Basis is the state for which a command's events were prepared.
type Basis struct {
	Last, Seq  int64       // of the thread
	Status     data.Status // of the run
	Answered   bool
	Generation int
	Spans      int
	Inbox      int64 // key of the last message read from the run's inbox, 0 for none
	Answers    int   // that the span uses
}

// BasisOf returns the present state of a thread and its run.
func BasisOf(th *data.ThreadHead, run *data.RunHead, inbox int64, answers int) Basis {
	return Basis{
		Last: th.LastEventID, Seq: th.LastSeq, Status: run.Status, Answered: run.Answered,
		Generation: run.Generation, Spans: run.Spans, Inbox: inbox, Answers: answers,
	}
}

// isCurrent reports whether the state is unchanged.
func (b *Basis) isCurrent(v *data.View, run *data.RunHead) bool {
	return *b == BasisOf(&v.Thread, run, v.Inbox[run.Key].Last, answers(v, run.Key))
}

// Claim starts a QUEUED run or continues an answered one: it becomes RUNNING under Instance with a new span.
type Claim struct {
	Thread, Run int64
	Instance    string
	Project     string // of the thread, with its user
	User        string
	Caps        data.Caps
	Basis       Basis
	Span        data.Span
	Shows       []int64 // other runs whose messages the events repeat
	Rows        data.Rows
	Events      []data.StoredEvent
}

// Ask returns the rows that the decision needs to see.
func (c *Claim) Ask() data.Ask {
	return data.Ask{Thread: c.Thread, Runs: append([]int64{c.Run}, c.Shows...), Counts: c.Caps.Counts(c.Project, c.User)}
}

func (c *Claim) decide(d *decision) error {
	if n := next(d.v, openRuns(d.v)); n.Do != data.ToClaim || n.Run.Key != c.Run {
		return ErrNotClaimed
	}
	if err := hasRoom(d.v, c.Caps, c.Project, c.User); err != nil {
		return err
	}
	run, err := d.run(c.Run)
	if err != nil {
		return err
	}
	if !c.Basis.isCurrent(d.v, run) || !c.sourcesExist(d.v) {
		return ErrStale
	}
	d.startRun(run, c)
	d.putHead(run)
	d.putSpan(c)
	return nil
}

// hasRoom returns a refusal when the project or the user has as many RUNNING runs as it may, or when that is not known now.
func hasRoom(v *data.View, caps data.Caps, project, user string) error {
	if caps == (data.Caps{}) {
		return nil
	}
	ofProject, ofUser := data.Name{Project: project}, data.Name{Project: project, User: user}
	_, counted := v.Running[caps.Counts(project, user)]
	switch {
	case !counted:
		return ErrUncounted
	case caps.Reached(ofUser, v.Running[ofUser]):
		return ErrUserFull
	case caps.Reached(ofProject, v.Running[ofProject]):
		return ErrProjectFull
	}
	return nil
}

// sourcesExist reports whether the runs in Shows still exist: deleted messages must not appear again.
func (c *Claim) sourcesExist(v *data.View) bool {
	return !slices.ContainsFunc(c.Shows, func(key int64) bool { return v.Run(key) == nil })
}

// startRun makes a run RUNNING. The caller writes its row.
func (d *decision) startRun(run *data.RunHead, c *Claim) {
	d.execute(run, c.Caps)
	run.Owner, run.Answered, run.FinishedAt, run.ClaimedAt = c.Instance, false, nil, new(d.v.Now)
	run.Spans++
	for i := range d.v.Asked { // its span uses the answers
		if in := &d.v.Asked[i]; in.RunKey == run.Key && in.Status == data.InterruptAnswered {
			in.Status = data.InterruptResolved
		}
	}
	if run.StartedAt == nil {
		now := d.v.Now
		run.StartedAt = &now
	}
	if !c.Basis.Answered { // an answered run reads its new messages later
		delete(d.v.Inbox, run.Key)
	}
}

// execute makes a run RUNNING and counts it for the limits over all servers. The caller writes its row.
func (d *decision) execute(run *data.RunHead, caps data.Caps) {
	d.moveRun(run, data.Running)
	if caps != (data.Caps{}) {
		d.v.Running[data.Name{Project: run.Project}]++
		d.v.Running[data.Name{Project: run.Project, User: run.User}]++
	}
}

func (d *decision) putSpan(c *Claim) {
	span := c.Span
	d.put(&span)
	d.put(c.Rows...)
	d.out.Events = append(d.out.Events, c.Events...)
}

// TakeOver moves a RUNNING run from the dead owner From to Instance, which continues the run's span with Events behind Last. A run that was
// parked and is QUEUED now becomes RUNNING again.
type TakeOver struct {
	Thread, Run    int64
	From, Instance string
	Queued         *data.Name // the thread's project and user, if the run is QUEUED
	Caps           data.Caps
	Appended       int   // the messages that a QUEUED run has for its Next
	Last           int64 // of the log, on which the events were prepared
	Attempt        int
	Rows           data.Rows
	Events         []data.StoredEvent
}

// Ask returns the rows that the decision needs to see.
func (c *TakeOver) Ask() data.Ask {
	ask := data.Ask{Thread: c.Thread, Runs: []int64{c.Run}, Owner: c.From}
	if c.Queued != nil {
		ask.Counts = c.Caps.Counts(c.Queued.Project, c.Queued.User)
	}
	return ask
}

func (c *TakeOver) decide(d *decision) error {
	run, err := d.leftRun(c.Run, c.From, c.Last)
	if err != nil {
		return err
	}
	if run.Status != data.Running {
		if n := next(d.v, openRuns(d.v)); n.Do != data.ToClaim || n.Run.Key != c.Run || c.Queued == nil {
			return ErrNotClaimed
		}
		if d.v.Inbox[run.Key].Messages != c.Appended {
			return ErrStale
		}
		if err := hasRoom(d.v, c.Caps, c.Queued.Project, c.Queued.User); err != nil {
			return err
		}
		d.execute(run, c.Caps)
		run.Answered = false
	}
	run.Owner, run.Attempt, run.ClaimedAt = c.Instance, c.Attempt, new(d.v.Now)
	d.putHead(run)
	d.put(c.Rows...)
	d.out.Events = c.Events
	return nil
}

// Release gives up a RUNNING run, so that another instance takes it over: at once, or when the run's wait is due. It does not count as a
// crash. From the moment of parking the run belongs to no connection.
type Release struct {
	Thread, Run int64
	Instance    string
	Mark        string      // the run's owner afterwards: see data.ReleasedBy
	ActiveMs    int64       // of its generation, so far
	Waits       *data.Waits // parks the run; nil for a run that goes on at once
	Rows        data.Rows
	Events      []data.StoredEvent // of a run that is parked
}

// Ask returns the rows that the decision needs to see.
func (c *Release) Ask() data.Ask { return data.Ask{Thread: c.Thread, Runs: []int64{c.Run}} }

func (c *Release) decide(d *decision) error {
	run, err := d.ownedRun(c.Run, c.Instance)
	if err != nil {
		return err
	}
	if c.Waits != nil && !d.v.CancelAsked[run.Key] { // a successor ends the run that is to be cancelled
		d.moveRun(run, data.Waiting)
		d.await(run, c.Waits)
		run.ParkedEvent = c.Events[len(c.Events)-1].ID
		d.put(&data.RunTie{Key: run.Key})
		d.signal(run) // a signal may have come since its worker has looked
	}
	run.Owner, run.Attempt, run.ActiveMs = c.Mark, 0, c.ActiveMs
	d.putHead(run)
	d.put(c.Rows...)
	d.out.Events = c.Events
	return nil
}

// await has a run wait from now on.
func (d *decision) await(run *data.RunHead, w *data.Waits) {
	if w != nil {
		w = new(*w)
		w.Since = d.v.Now
	}
	run.Waits = w
}

// Wake queues a WAITING run with a wait that is due, before all others of its user.
type Wake struct{ Thread, Run int64 }

// Ask returns the rows that the decision needs to see.
func (c *Wake) Ask() data.Ask { return data.Ask{Thread: c.Thread, Runs: []int64{c.Run}} }

func (c *Wake) decide(d *decision) error {
	run := d.v.Run(c.Run)
	if run == nil || run.Status != data.Waiting || run.Waits == nil || run.Waits.Due.After(d.v.Now) {
		return ErrMoved
	}
	d.wake(run, "")
	d.putHead(run)
	return nil
}

// ownedRun returns a run with an open span of owner.
func (d *decision) ownedRun(key int64, owner string) (*data.RunHead, error) {
	run := d.v.Run(key)
	if run == nil || owner == "" || run.Owner != owner {
		return nil, ErrSettled
	}
	return run, nil
}

// leftRun returns a run with an open span of an owner that cannot write any more, if nothing was written behind last. An owner
// that is named again would not do: the run may have had, and lost, another one since the command was prepared.
func (d *decision) leftRun(key int64, owner string, last int64) (*data.RunHead, error) {
	run, err := d.ownedRun(key, owner)
	switch {
	case err != nil:
		return nil, err
	case d.v.Living[owner]:
		return nil, ErrRunning
	case d.v.Last != last:
		return nil, ErrStale
	}
	return run, nil
}

// Look changes no run. Its result has the thread's next action.
type Look struct {
	Thread int64
	Repair bool // it writes the thread's row in the queue, whatever that has been
}

// Ask returns the rows that the decision needs to see.
func (c *Look) Ask() data.Ask { return data.Ask{Thread: c.Thread} }

func (c *Look) decide(d *decision) error {
	if c.Repair && !d.v.Exists { // the thread is gone, and its row goes
		d.out.Gone = true
		return nil
	}
	return d.requireThread()
}

// requireThread refuses a command about a deleted thread.
func (d *decision) requireThread() error {
	if !d.v.Exists {
		d.out.Gone = true
		return ErrThreadNotFound
	}
	return nil
}
