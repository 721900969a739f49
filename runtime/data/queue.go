package data

import "time"

// Place is a thread's row in the queue: the action that the thread needs so that its runs go on. A thread has one at most, and one without
// an action has none.
type Place struct {
	ThreadKey int64
	Todo      Todo
	RunKey    int64 // the run to act on
	Project   string
	User      string
	Agent     string    // the workflow or agent that a server needs
	Answered  bool      // the run goes on with an answer, and comes before others of its user
	Since     time.Time // when the run was queued
}

// Todo is an action on a run.
type Todo int

// Actions, as the table queue has them.
const (
	NoTodo   Todo = iota // no run is queued, or one runs or waits for a person
	ToCancel             // cancel the run, which blocks the first in line
	ToClaim              // start the run, which is the first in line
)
