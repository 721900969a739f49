// Package decide decides the effects of a command on the runs of a thread: which rows and events follow from the thread's
// state. A decision is a pure function of a View and a Command. It reads no database, clock or random source, takes no
// lock and starts no goroutine, so a retried transaction can repeat it and a test can compare it with a model. Large or
// slow work happens before: a command carries its prepared events and the state that they are based on (see Basis). If
// that state has changed, the decision is ErrStale and the command is prepared again.
//
// Each thread has one source of event ids. While a run is RUNNING, its owner numbers the thread's events, and only its
// Finish writes any. Otherwise the thread's head says where the log ends.
package decide

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// Command is a request for one decision about a thread.
type Command interface {
	// Ask returns the rows that the decision needs to see.
	Ask() data.Ask
	decide(d *decision) error
}

// Decided is the result of a command.
type Decided struct {
	data.Changes

	At        time.Time      // time of the decision
	Thread    int64          // the thread's key
	Run       data.RunHead   // the command's run, after the decision
	Started   Started        // set by Start
	Message   string         // set by Append: the message's id, which a repeated request gets again
	Sent      bool           // set by SendEvent: the request is no repeated one
	Delivered bool           // set by SendEvent: the run goes on for the signal
	Name      string         // the thread's id as its user knows it
	Project   string         // the thread's project
	User      string         // the thread's user
	Moves     []Move         // status changes of the thread's runs, in order
	Open      []data.RunHead // the thread's open runs, in the order of View.Runs
	Next      Next           // the thread's next action
	Void      []int64        // keys of runs that were cancelled before their first event
	Claimed   bool           // set by Start: the run is RUNNING
	Removed   *data.Delete   // rows to delete, events first; nil for none
	Gone      bool           // the thread does not exist
}

// Move is a run's change of status. A run that ends and is queued again at once has two moves.
type Move struct {
	Run      data.RunHead // after the decision
	From, To data.Status  // From is "" for a new run
}

// Busy reports whether a run of the thread is QUEUED, RUNNING or parked.
func (d *Decided) Busy() bool {
	return slices.ContainsFunc(d.Open, data.RunHead.Busies)
}

// Decide decides c. It updates v for the next decision about the same thread.
func Decide(v *data.View, c Command) *Decided {
	d := &decision{v: v, out: new(Decided)}
	ask := c.Ask()
	before := PlaceOf(v)
	err := error(ErrThreadNotFound) // for a thread of another project
	if ask.Project == "" || !v.Exists || v.Thread.Project == ask.Project {
		err = cmp.Or(c.decide(d), d.illegal)
	}
	if err != nil {
		d.out = &Decided{Changes: data.Changes{Refused: err}, Gone: d.out.Gone}
	} else {
		d.putAudit(c)
	}
	d.out.At, d.out.Thread, d.out.Name = v.Now, cmp.Or(v.Thread.Key, ask.Thread), v.Thread.ID
	d.out.Project, d.out.User = v.Thread.Project, v.Thread.User
	for i := range d.out.Moves {
		if run := v.Run(d.out.Moves[i].Run.Key); run != nil {
			d.out.Moves[i].Run = *run
		}
	}
	d.out.Open = openRuns(v)
	d.out.Next = next(v, d.out.Open)
	if err == nil {
		d.putPlace(c, before)
	}
	return d.out
}

// Refusals shared by several decisions.
var (
	ErrRunNotFound    = data.Refuse(data.KindNotFound, "not_found", "Agent run not found")
	ErrThreadNotFound = data.Refuse(data.KindNotFound, "not_found", "Thread not found")
	ErrThreadBusy     = data.Refuse(data.KindConflict, "thread_busy", "The thread has a run that is queued or running")
	ErrThreadWaiting  = data.Refuse(data.KindConflict, "thread_waiting", "The thread waits for an answer; answer it or use multitask interrupt")
	ErrQueueFull      = queueFull("Too many runs are queued; try again later")
	errKeyReused      = data.Refuse(data.KindConflict, "idempotency_mismatch", "This Idempotency-Key was used with another body")
)

func queueFull(format string, args ...any) *data.Error {
	err := data.Refuse(data.KindOverloaded, "queue_full", format, args...)
	err.RetryAfter = time.Second
	return err
}

// Refusals that clients never see: the engine reacts to them instead.
var (
	// ErrStale means that the state on which the command was prepared has changed: prepare it again.
	ErrStale = data.Refuse(data.KindConflict, "stale", "The thread has changed meanwhile; try again")
	// ErrSettled means that the sender no longer owns the run.
	ErrSettled = data.Refuse(data.KindConflict, "settled", "The run has been settled already")
	// ErrUnknownMessage means that the thread does not show the message to rewind to.
	ErrUnknownMessage = data.Refuse(data.KindInvalid, "unknown_message", "The thread does not show the message of rewindTo")

	// ErrNotClaimed means that another run of the thread comes first, so this one can neither begin nor end with events.
	ErrNotClaimed = data.Refuse(data.KindConflict, "not_claimed", "The run cannot be claimed now")
	// ErrProjectFull and ErrUserFull mean that the project, or the user, has as many RUNNING runs as it may.
	ErrProjectFull = data.Refuse(data.KindConflict, "project_full", "The project executes as many runs as it may")
	ErrUserFull    = data.Refuse(data.KindConflict, "user_full", "The user executes as many runs as they may")
	// ErrUncounted means that another instance counts the RUNNING runs of the project or the user at this moment.
	ErrUncounted = data.Refuse(data.KindConflict, "uncounted", "Other servers begin runs at the same moment")
	// ErrRunning means that only the run's owner can do this, or that the run must be cancelled first.
	ErrRunning = data.Refuse(data.KindConflict, "running", "The run is running")
	// ErrMoved means that the run has left the state that the command is about.
	ErrMoved = data.Refuse(data.KindConflict, "moved", "The run goes on")
	// ErrCancelAsked means that the run would go on, and another instance has asked to cancel it.
	ErrCancelAsked = data.Refuse(data.KindConflict, "cancel_asked", "Another server cancels the run")
	// ErrOwesSpan means that the run has started and waits: Finish must end it with a span.
	ErrOwesSpan = data.Refuse(data.KindConflict, "owes_span", "The run has begun")
)

// moves are the legal transitions of a run; "" is a run that does not exist yet.
var moves = map[data.Status][]data.Status{
	"":             {data.Queued},
	data.Queued:    {data.Running, data.Cancelled, data.Failed},
	data.Running:   {data.Completed, data.Failed, data.Cancelled, data.Waiting},
	data.Waiting:   {data.Queued, data.Cancelled, data.Failed},
	data.Completed: {data.Queued},
	data.Failed:    {data.Queued},
}

// decision is one decision in progress.
type decision struct {
	v         *data.View
	out       *Decided
	action    string   // the audited action if it differs from the requested one
	toReplace []string // ids of the runs to cancel in favour of another
	illegal   error    // an illegal transition: a bug in the decision
}

// put adds rows to the changes.
func (d *decision) put(rows ...data.Row) { d.out.Rows = append(d.out.Rows, rows...) }

// moveRun changes a run's status and records the move. The caller writes the run's row.
func (d *decision) moveRun(run *data.RunHead, to data.Status) {
	if !slices.Contains(moves[run.Status], to) {
		d.illegal = fmt.Errorf("run %d cannot become %s from %q", run.Key, to, run.Status)
	}
	d.out.Moves = append(d.out.Moves, Move{*run, run.Status, to})
	run.Status = to
	if to != data.Queued {
		run.Waits = nil
	}
	if to != data.Running {
		run.Owner = ""
	}
}

// putHead writes the run's head and makes it the command's run.
func (d *decision) putHead(run *data.RunHead) {
	row := *run
	d.put(&row)
	d.out.Run = row
}

func (d *decision) run(key int64) (*data.RunHead, error) {
	if run := d.v.Run(key); run != nil {
		return run, nil
	}
	return nil, ErrRunNotFound
}

// enqueue puts a run behind the queued runs of its thread.
func (d *decision) enqueue(run *data.RunHead) {
	for i := range d.v.Runs {
		run.Turn = max(run.Turn, d.v.Runs[i].Turn+1)
	}
	run.QueuedAt = d.v.Now
}

// restartRun queues an ended run for its next generation, behind the other runs of its thread.
func (d *decision) restartRun(run *data.RunHead) {
	d.moveRun(run, data.Queued)
	d.enqueue(run)
	run.Generation++
	run.FinishedAt, run.Error = nil, nil
	run.Attempt, run.Answered, run.Replaces, run.RollBack, run.ActiveMs = 0, false, nil, false, 0
}

// endRun ends a run and counts it in the statistics. The caller writes the run's row.
func (d *decision) endRun(run *data.RunHead, to data.Status, err *agui.OutputError) {
	d.moveRun(run, to)
	now := d.v.Now
	run.FinishedAt, run.Attempt, run.Answered, run.Error = &now, 0, false, err
	for i := range d.v.Asked { // as the run's Withdraw does
		if in := &d.v.Asked[i]; in.RunKey == run.Key {
			in.Status = data.Withdrawn(in.Status)
		}
	}
	d.put(data.EndOf(run))
}

// cancelUnstarted cancels a run whose generation has not begun. It writes no event and hides the messages queued for the run.
func (d *decision) cancelUnstarted(run *data.RunHead) {
	d.endRun(run, data.Cancelled, nil)
	d.dropSignals(run)
	d.putHead(run)
	d.put(&data.Hide{ThreadKey: d.v.Thread.Key, RunKey: run.Key, Queued: true})
	delete(d.v.Inbox, run.Key)
	d.out.Void = append(d.out.Void, run.Key)
}

// begun reports whether a run's generation has begun. A queued run has begun if it waited and was answered.
func begun(run *data.RunHead) bool { return run.Status != data.Queued || run.Answered }

// advanceThread moves the thread's head to the end of a span.
func (d *decision) advanceThread(last, seq int64) {
	th := &d.v.Thread
	th.LastEventID, th.LastSeq, th.UpdatedAt = last, seq, d.v.Now
	row := *th
	d.put(&row)
}

// waitingRun returns the thread's run that waits for a person, nil when there is none.
func waitingRun(v *data.View) *data.RunHead {
	for i := range v.Runs {
		if v.Runs[i].Status == data.Waiting && !v.Runs[i].Parked() {
			return &v.Runs[i]
		}
	}
	return nil
}

// openRuns returns the runs that have not ended, in the order in which they execute.
func openRuns(v *data.View) []data.RunHead {
	runs := slices.DeleteFunc(slices.Clone(v.Runs), func(r data.RunHead) bool { return r.Status.Final() })
	Order(runs)
	return runs
}

// Order sorts a thread's open runs in the order in which they execute.
func Order(runs []data.RunHead) {
	slices.SortStableFunc(runs, func(a, b data.RunHead) int {
		return cmp.Or(
			cmp.Compare(rank(&a), rank(&b)), cmp.Compare(a.Turn, b.Turn), a.QueuedAt.Compare(b.QueuedAt), cmp.Compare(a.Key, b.Key))
	})
}

// rank orders open runs: running or waiting, then answered, then queued.
func rank(r *data.RunHead) int {
	switch {
	case r.Status != data.Queued:
		return 0
	case r.Answered:
		return 1
	}
	return 2
}

// openInterrupts counts a run's open interrupts, and the questions among them.
func openInterrupts(v *data.View, runKey int64) (open, questions int) {
	for i := range v.Asked {
		if a := &v.Asked[i]; a.RunKey == runKey && a.Status == data.InterruptOpen {
			open++
			if !a.Frontend {
				questions++
			}
		}
	}
	return open, questions
}

// Next is the action that a thread needs so that its runs go on.
type Next struct {
	Do  data.Todo
	Run data.RunHead
}

// next returns the thread's next action. runs are its open runs.
func next(v *data.View, runs []data.RunHead) Next {
	if len(runs) == 0 {
		return Next{}
	}
	head := &runs[0]
	queued := slices.ContainsFunc(runs, func(r data.RunHead) bool { return !begun(&r) })
	switch {
	case isReplaced(runs, head):
		return Next{data.ToCancel, *head}
	case head.Status == data.Waiting && !head.Parked() && queued && onlyFrontend(v, head.Key):
		return Next{data.ToCancel, *head} // the next run does not wait for the client's tools
	case head.Status == data.Waiting && head.Waits != nil:
		return Next{data.ToWake, *head}
	case head.Status == data.Queued:
		return Next{data.ToClaim, *head}
	}
	return Next{}
}

func onlyFrontend(v *data.View, runKey int64) bool {
	_, questions := openInterrupts(v, runKey)
	return questions == 0
}

// isReplaced reports whether a queued run replaces this generation of run.
func isReplaced(runs []data.RunHead, run *data.RunHead) bool {
	this := data.Replaced{RunKey: run.Key, Generation: run.Generation}
	return slices.ContainsFunc(runs, func(r data.RunHead) bool { return !begun(&r) && slices.Contains(r.Replaces, this) })
}
