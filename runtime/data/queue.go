package data

import (
	"cmp"
	"time"
)

// Place is a thread's row in the queue: the action that the thread needs so that its runs go on. A thread has one at most, and one without
// an action has none.
//
// The rows that ask for a claim and have the same Project, User, Workflow and Agent are a lane, in the order of Compare.
type Place struct {
	ThreadKey int64
	Todo      Todo
	RunKey    int64 // the run to act on
	Project   string
	User      string
	Workflow  string    // the run's WorkflowID
	Agent     string    // the run's Agent, empty for a run of a workflow
	Answered  bool      // the run goes on with an answer or after a wait, and comes before others of its user
	Since     time.Time // when the run was queued, or when its wait is due
}

// Todo is an action on a run.
type Todo int

// Actions, as the table queue has them.
const (
	NoTodo   Todo = iota // no run is queued, or one runs or waits for a person
	ToCancel             // cancel the run, which blocks the first in line
	ToClaim              // start the run, which is the first in line
	ToWake               // queue the run once its wait is due
)

// MostHold is how long an instance has the rows that it has taken, at most. It claims their runs at once.
const MostHold = 10 * time.Second

// Each selects the rows that Line returns.
type Each int

// Selections. EachProject and EachLane skip the other rows, however long the lanes are.
const (
	EachProject Each = iota // a claim row of each project behind after.Project, in the order of the projects' names
	EachLane                // the first row of each lane of after.Project behind after's, in the order of User, Workflow and Agent
	EachRow                 // the rows of after's lane behind after, or from the beginning if after has no ThreadKey
	EachCancel              // the rows that ask for a cancel, of all projects, with a ThreadKey above after's, in their order
	EachDue                 // the rows that ask for a wake and are due by the database's clock, in the order of Since and ThreadKey, behind after
)

// Backlog is the work that waits in a database.
type Backlog struct {
	Waiting int       // runs that wait for an answer
	Parked  int       // runs that are parked
	Oldest  time.Time // the earliest Since of a claim row, zero if there is none
}

// Head returns the known part of the head of a run that is to be claimed.
func (p *Place) Head() RunHead {
	return RunHead{
		Key: p.RunKey, ThreadKey: p.ThreadKey, Project: p.Project, User: p.User, Agent: p.Agent, WorkflowID: p.Workflow,
		Status: Queued, Answered: p.Answered, QueuedAt: p.Since,
	}
}

// Rank is 1 for an answered run, otherwise 2.
func (p *Place) Rank() int {
	if p.Answered {
		return 1
	}
	return 2
}

// Compare orders the claim rows of a user, and so those of a lane: by Rank, Since and ThreadKey.
func (p *Place) Compare(o *Place) int {
	return cmp.Or(cmp.Compare(p.Rank(), o.Rank()), p.Since.Compare(o.Since), cmp.Compare(p.ThreadKey, o.ThreadKey))
}

// CompareLanes orders the lanes of a project.
func (p *Place) CompareLanes(o *Place) int {
	return cmp.Or(cmp.Compare(p.User, o.User), cmp.Compare(p.Workflow, o.Workflow), cmp.Compare(p.Agent, o.Agent))
}

// SameLane reports whether two claim rows are in one lane.
func (p *Place) SameLane(o *Place) bool { return p.Project == o.Project && p.CompareLanes(o) == 0 }
