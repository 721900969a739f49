package data

import (
	"encoding/json"
	"time"
)

// Ask is the rows that a decision needs to see.
type Ask struct {
	Thread     int64    // the thread's key, or 0 to use Name
	Project    string   // the thread's required project; empty for any
	Name       Name     // the thread's name; zero for a thread that is certainly new
	Runs       []int64  // runs of the thread to load in any status
	RunName    Name     // the name of a run that may exist; zero for none
	Scope      string   // of an Idempotency-Key; empty for none
	IDs        []string // message and tool call ids that the thread may know
	Interrupts []string // ids of interrupts that the thread's runs may have
	Waits      bool     // a RUNNING run starts waiting: load its interrupts
	Owner      string   // whose run the decision takes away: load whether it may write, and the log's end
	Counts     Name     // a project, or a user of one, whose RUNNING runs the decision adds one to; zero for none
	Await      bool     // wait a moment for the thread if another instance has locked it
}

// View is the part of one thread that a decision reads, bounded in size. The decisions of a batch about one thread
// share its View, and each updates it for the next.
type View struct {
	Now    time.Time  // the database's
	Exists bool       // whether the thread exists
	Thread ThreadHead // zero unless Exists

	// Runs are the thread's open runs, then the requested ended ones. Open runs stand in the order RUNNING and WAITING,
	// answered, and other QUEUED ones by Turn (then QueuedAt and Key, as older databases have no turns).
	Runs []RunHead
	// Inbox has the queued messages of each of Runs.
	Inbox map[int64]Inbox
	// Signals are those of each of Runs that are kept, in order, without their payloads.
	Signals map[int64][]Signal
	// CancelAsked are those of Runs that another instance has asked their owner to cancel.
	CancelAsked map[int64]bool
	// Asked are the interrupts of Runs that are WAITING, answered or about to wait, oldest first, and the requested
	// ones.
	Asked []Asked
	// Known has the requested ids that are the id or toolCallId of a message of the thread, hidden and queued ones
	// included.
	Known map[string]bool

	Last int64 // the log's end, if an owner was requested

	// Queued is the number of QUEUED runs, filled in by the caller of the decision.
	Queued InQueue

	// These are the same in all views of a batch.
	Names      map[Name]NamedRun     // requested by name
	Remembered map[string]Remembered // requested Idempotency-Keys, by scope
	Living     map[string]bool       // the requested owners that may write
	// Running has the numbers of RUNNING runs of the requested projects, with those of their users, and users. It has no entry
	// for a project or user whose runs another instance counts at this moment.
	Running map[Name]int
}

// Caps limit the RUNNING runs of each project and of each user over all instances. 0 is no limit.
type Caps struct{ PerProject, PerUser int }

// Counts returns whose RUNNING runs must be counted before another one of a user begins.
func (c Caps) Counts(project, user string) Name {
	switch {
	case c.PerProject > 0:
		return Name{Project: project}
	case c.PerUser > 0:
		return Name{Project: project, User: user}
	}
	return Name{}
}

// Reached reports whether a project or a user has as many RUNNING runs as it may.
func (c Caps) Reached(of Name, running int) bool {
	limit := c.PerProject
	if of.User != "" {
		limit = c.PerUser
	}
	return limit > 0 && running >= limit
}

// InQueue is the number of QUEUED runs: of all threads, of the project and of its user.
type InQueue struct{ All, OfProject, OfUser int }

// Run returns a run's head, nil if the view does not have it.
func (v *View) Run(key int64) *RunHead {
	for i := range v.Runs {
		if v.Runs[i].Key == key {
			return &v.Runs[i]
		}
	}
	return nil
}

// Inbox is a run's queued messages.
type Inbox struct {
	Messages int
	Bytes    int   // of their stored form
	Last     int64 // the highest key
}

// Asked is an interrupt without question and answer.
type Asked struct {
	RunKey   int64
	ID       string
	Step     int
	Place    string // the memo that its answer completes, with Step
	Frontend bool
	Status   string
	Expired  bool // the server has answered it
}

// NamedRun is a run found by one of its names.
type NamedRun struct {
	RunKey    int64
	ThreadKey int64
	ID        string // the run's first name
	BodyHash  string // of the request that gave it the name
	Status    Status
	First     int64 // first event of its first span of this name, 0 before it
}

// Remembered is the response to an earlier request with an Idempotency-Key.
type Remembered struct {
	BodyHash  string
	RunKey    int64
	RunGone   bool            // the run has since been deleted
	Answer    json.RawMessage // as the decision encoded it
	CreatedAt time.Time
}

// Changes are the result of a decision.
type Changes struct {
	Rows    []Row
	Events  []StoredEvent // numbered
	Refused error         // the refusal; Rows and Events are empty then
}

// Batch is the content of one transaction.
type Batch struct {
	Events []StoredEvent // events of running runs
	Rows   []Row         // rows for Events
	Asks   []Ask         // one per decision
	// Decide makes decision i on the view for Asks[i]. Commit calls it for each decision in turn after writing Rows, except
	// the deferred ones, and again if it repeats the transaction.
	Decide func(i int, v *View) Changes

	// Deferred are the decisions that were not made, in order: another instance has locked their rows. Commit sets it
	// in each attempt that may write, so after Commit has returned nil it is that of the attempt that was committed.
	Deferred []int
}
