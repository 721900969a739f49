// Package decide holds Baton's decisions about the runs of a thread: what a command may do in each state and what rows and
// events follow. A decision is a pure function of a View and a Command: it reads no database, no clock and no chance, takes
// no lock and starts nothing, so that it can be made again when a transaction has to be repeated, and be compared with a
// model. Whatever is large or slow is prepared before: a command brings the events it would write and says what they are
// based on (see Basis); when that has changed, the decision is ErrStale and the command is prepared anew.
//
// One numberer per thread: while a run is RUNNING its owner gives the ids of the thread's events, and no decision but its
// Finish brings any. While none is, the thread's head tells where its log ends.
package decide

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/model"
)

// Command asks for one decision about a thread.
type Command interface {
	// Ask says what the decision has to see.
	Ask() model.Ask
	decide(d *decision) error
}

// Decided is what a command has come to.
type Decided struct {
	model.Changes

	At      time.Time       // when
	Thread  int64           // the thread's key
	Run     model.RunHead   // the run that the command was about, as it is now
	Started Started         // of Start
	Message string          // of Append: the id of the message, also of one that an equal request has appended before
	Name    string          // the thread's, as its user knows it
	Project string          // the thread's
	User    string          // whose it is
	Moves   []Move          // what has become of its runs, in order
	Open    []model.RunHead // the thread's open runs now, in the order of View.Runs
	Next    Next            // what the thread needs now
	Void    []int64         // keys of runs that were cancelled before they wrote an event
	Claimed bool            // of Start: the run is RUNNING
	Removed *model.Delete   // what is removed, events first; nil for nothing
	Gone    bool            // there is no such thread any more
}

// Move is a run's change of status. A run that is over and queued again at once has two.
type Move struct {
	Run      model.RunHead // as the decision has left it
	From, To model.Status  // From is "" for a new run
}

// Busy reports whether a run of the thread is QUEUED or RUNNING.
func (d *Decided) Busy() bool {
	return slices.ContainsFunc(d.Open, func(r model.RunHead) bool { return r.Status != model.Waiting })
}

// Decide takes the decision that c asks for. v moves on for the next decision about its thread.
func Decide(v *model.View, c Command) *Decided {
	d := &decision{v: v, out: new(Decided)}
	ask := c.Ask()
	err := error(ErrThreadNotFound) // of a thread of another project
	if ask.Project == "" || !v.Exists || v.Thread.Project == ask.Project {
		err = cmp.Or(c.decide(d), d.broken)
	}
	if err != nil {
		d.out = &Decided{Changes: model.Changes{Refused: err}, Gone: d.out.Gone}
	} else {
		d.note(c)
	}
	d.out.At, d.out.Thread, d.out.Name = v.Now, cmp.Or(v.Thread.Key, ask.Thread), v.Thread.ID
	d.out.Project, d.out.User = v.Thread.Project, v.Thread.User
	for i := range d.out.Moves {
		if run := v.Run(d.out.Moves[i].Run.Key); run != nil {
			d.out.Moves[i].Run = *run
		}
	}
	d.out.Open = open(v)
	if del, ok := c.(*Delete); !ok || del.Run != 0 { // what is being deleted needs nothing more
		d.out.Next = next(v)
	}
	return d.out
}

// Refusals that more than one decision makes.
var (
	ErrRunNotFound    = model.Refuse(model.KindNotFound, "not_found", "Agent run not found")
	ErrThreadNotFound = model.Refuse(model.KindNotFound, "not_found", "Thread not found")
	ErrThreadBusy     = model.Refuse(model.KindConflict, "thread_busy", "The thread has a run that is queued or running")
	ErrThreadWaiting  = model.Refuse(model.KindConflict, "thread_waiting", "The thread waits for an answer; answer it or use multitask interrupt")
	ErrQueueFull      = queueFull("Too many runs are queued; try again later")
	ErrAnswered       = model.Refuse(model.KindConflict, "already_answered", "The interrupt has been answered already")
	errKeyReused      = model.Refuse(model.KindConflict, "idempotency_mismatch", "This Idempotency-Key was used with another body")
)

func queueFull(format string, args ...any) *model.Error {
	err := model.Refuse(model.KindOverloaded, "queue_full", format, args...)
	err.RetryAfter = time.Second
	return err
}

// What a command is told that is not for callers' eyes: the one who sent it does something else then.
var (
	// ErrStale means that what the command was prepared on has changed: it is to be prepared anew.
	ErrStale = model.Refuse(model.KindConflict, "stale", "The thread has changed meanwhile; try again")
	// ErrSettled means that the run is not the sender's any more.
	ErrSettled = model.Refuse(model.KindConflict, "settled", "The run has been settled already")
	// ErrUnknownMessage means that the thread does not show what a run is to rewind to.
	ErrUnknownMessage = model.Refuse(model.KindInvalid, "unknown_message", "The thread does not show the message of rewindTo")

	// ErrNotClaimed means that it is not the run's turn.
	ErrNotClaimed = model.Refuse(model.KindConflict, "not_claimed", "The run cannot be claimed now")
	// ErrRunning means that only the run's owner can do it, or that a run has to be cancelled first.
	ErrRunning = model.Refuse(model.KindConflict, "running", "The run is running")
	// ErrMoved means that the run is in another state by now than the command is about.
	ErrMoved = model.Refuse(model.KindConflict, "moved", "The run goes on")
	// ErrOwesSpan means that the run has begun and waits: its end is a span, which Close brings.
	ErrOwesSpan = model.Refuse(model.KindConflict, "owes_span", "The run has begun")
)

// moves are the legal transitions of a run; "" is a run that does not exist yet.
var moves = map[model.Status][]model.Status{
	"":              {model.Queued},
	model.Queued:    {model.Running, model.Cancelled, model.Failed},
	model.Running:   {model.Completed, model.Failed, model.Cancelled, model.Waiting},
	model.Waiting:   {model.Queued, model.Cancelled, model.Failed},
	model.Completed: {model.Queued},
	model.Failed:    {model.Queued},
}

// decision is one decision being taken.
type decision struct {
	v        *model.View
	out      *Decided
	action   string   // what a command has come to be, "" for what was asked
	replaced []string // ids of the runs that are to be cancelled for another
	broken   error    // a transition that is not legal: the fault of the decision itself
}

// put adds rows to what follows.
func (d *decision) put(rows ...model.Row) { d.out.Rows = append(d.out.Rows, rows...) }

// move brings a run to a status and notes its row.
func (d *decision) move(run *model.RunHead, to model.Status) {
	if !slices.Contains(moves[run.Status], to) {
		d.broken = fmt.Errorf("run %d cannot become %s from %q", run.Key, to, run.Status)
	}
	d.out.Moves = append(d.out.Moves, Move{*run, run.Status, to})
	run.Status = to
	if to != model.Running {
		run.Owner = ""
	}
}

// keep writes the run's head as it is now, also as the command's run.
func (d *decision) keep(run *model.RunHead) {
	row := *run
	d.put(&row)
	d.out.Run = row
}

// run returns the head of a run of the thread.
func (d *decision) run(key int64) (*model.RunHead, error) {
	if run := d.v.Run(key); run != nil {
		return run, nil
	}
	return nil, ErrRunNotFound
}

// queue gives a run that is queued behind others its turn.
func (d *decision) queue(run *model.RunHead) {
	for i := range d.v.Runs {
		run.Turn = max(run.Turn, d.v.Runs[i].Turn+1)
	}
	run.QueuedAt = d.v.Now
}

// restart queues a run that is over for its next generation, behind the others of its thread.
func (d *decision) restart(run *model.RunHead) {
	d.move(run, model.Queued)
	d.queue(run)
	run.Generation++
	run.FinishedAt, run.Error = nil, nil
	run.Attempt, run.Answered, run.Replaces, run.RollBack = 0, false, nil, false
}

// end brings a run to a final status, and counts it. The caller writes the run's row.
func (d *decision) end(run *model.RunHead, to model.Status, err *agui.OutputError) {
	d.move(run, to)
	now := d.v.Now
	run.FinishedAt, run.Attempt, run.Answered, run.Error = &now, 0, false, err
	d.put(model.EndOf(run))
}

// discard cancels a run whose generation has not begun: it writes no event, and what was accepted for it is hidden.
func (d *decision) discard(run *model.RunHead) {
	d.end(run, model.Cancelled, nil)
	d.keep(run)
	d.put(&model.Hide{ThreadKey: d.v.Thread.Key, RunKey: run.Key, Queued: true})
	delete(d.v.Inbox, run.Key)
	d.out.Void = append(d.out.Void, run.Key)
}

// begun reports whether a queued run's generation has begun: it waited and was answered.
func begun(run *model.RunHead) bool { return run.Status != model.Queued || run.Answered }

// advance moves the thread's head to the end of a span.
func (d *decision) advance(last, seq int64) {
	th := &d.v.Thread
	th.LastEventID, th.LastSeq, th.UpdatedAt = last, seq, d.v.Now
	row := *th
	d.put(&row)
}

// running returns the thread's run that is RUNNING, nil when there is none.
func running(v *model.View) *model.RunHead { return first(v, model.Running) }

func first(v *model.View, status model.Status) *model.RunHead {
	for i := range v.Runs {
		if v.Runs[i].Status == status {
			return &v.Runs[i]
		}
	}
	return nil
}

// open returns the runs of a view that are not over, in the order of their turns.
func open(v *model.View) []model.RunHead {
	runs := slices.DeleteFunc(slices.Clone(v.Runs), func(r model.RunHead) bool { return r.Status.Final() })
	slices.SortStableFunc(runs, func(a, b model.RunHead) int {
		return cmp.Or(
			cmp.Compare(rank(&a), rank(&b)), cmp.Compare(a.Turn, b.Turn), a.QueuedAt.Compare(b.QueuedAt), cmp.Compare(a.Key, b.Key))
	})
	return runs
}

// rank orders open runs: who runs or waits, who was answered, who is queued.
func rank(r *model.RunHead) int {
	switch {
	case r.Status != model.Queued:
		return 0
	case r.Answered:
		return 1
	}
	return 2
}

// asks returns the open interrupts of a run, and how many of them are questions.
func asks(v *model.View, runKey int64) (open, questions int) {
	for i := range v.Asked {
		if a := &v.Asked[i]; a.RunKey == runKey && a.Status == model.InterruptOpen {
			open++
			if !a.Frontend {
				questions++
			}
		}
	}
	return open, questions
}

// Next is what a thread needs so that its runs go on.
type Next struct {
	Do  Do
	Run model.RunHead
}

// Do says what to do with a run.
type Do uint8

// What a thread may need.
const (
	Rest     Do = iota // nothing: no run is queued, or one runs or waits for a person
	ToClaim            // the run is the first in line
	ToCancel           // the run makes room for the first in line
)

// next says what the thread needs.
func next(v *model.View) Next {
	runs := open(v)
	if len(runs) == 0 {
		return Next{}
	}
	head := &runs[0]
	queued := slices.ContainsFunc(runs, func(r model.RunHead) bool { return !begun(&r) })
	switch {
	case replaced(runs, head):
		return Next{ToCancel, *head}
	case head.Status == model.Waiting && queued && onlyFrontend(v, head.Key):
		return Next{ToCancel, *head} // the thread moves on without the client's tools
	case head.Status == model.Queued:
		return Next{ToClaim, *head}
	}
	return Next{}
}

func onlyFrontend(v *model.View, runKey int64) bool {
	_, questions := asks(v, runKey)
	return questions == 0
}

// replaced reports whether one of runs that has not begun takes the place of run, as it is now.
func replaced(runs []model.RunHead, run *model.RunHead) bool {
	this := model.Replaced{RunKey: run.Key, Generation: run.Generation}
	return slices.ContainsFunc(runs, func(r model.RunHead) bool { return !begun(&r) && slices.Contains(r.Replaces, this) })
}
