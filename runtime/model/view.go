package model

import (
	"encoding/json"
	"time"
)

// Ask says what a decision has to see of the database.
type Ask struct {
	Thread     int64    // the thread's key, or 0 when it goes by Name
	Project    string   // whose it has to be, else it is not there; empty for any
	Name       Name     // the thread's name; zero for a thread that is certainly new
	Runs       []int64  // runs of the thread that are wanted whatever their status
	RunName    Name     // the name of a run that may exist; zero for none
	Scope      string   // of an Idempotency-Key; empty for none
	IDs        []string // message and tool call ids that the thread may know
	Interrupts []string // ids of interrupts that runs of the thread may have asked
	Waits      bool     // a run that is RUNNING comes to wait: what it asks is wanted
}

// View is what a decision sees of one thread, small whatever the thread holds. The decisions of a batch about one
// thread share its View: each moves it on for the next.
type View struct {
	Now    time.Time  // the database's
	Exists bool       // whether there is such a thread
	Thread ThreadHead // zero unless Exists

	// Runs are the thread's open runs: RUNNING and WAITING ones, answered ones, and other QUEUED ones by Turn (then
	// QueuedAt and Key, as older databases have no turns); and then those asked for that are over.
	Runs []RunHead
	// Inbox tells of each of Runs what was accepted for it and not yet taken.
	Inbox map[int64]Inbox
	// Asked are the interrupts of those of Runs that are WAITING, answered or come to wait, oldest first, and those whose
	// ids were asked for.
	Asked []Asked
	// Known holds those of the ids asked for that a message of the thread has, hidden or queued ones included, as its
	// id or its toolCallId.
	Known map[string]bool

	// Queued is how many runs are QUEUED as the decision is taken: the one who has it taken fills it in.
	Queued InQueue

	// What follows is the same for all views of a batch.
	Names      map[Name]NamedRun     // the runs asked for by name
	Remembered map[string]Remembered // the Idempotency-Keys asked for, by scope
}

// InQueue is how many runs are QUEUED: of all threads, of a project's and of a user's in it.
type InQueue struct{ All, OfProject, OfUser int }

// Run returns the head of the thread's run, nil when the view has none.
func (v *View) Run(key int64) *RunHead {
	for i := range v.Runs {
		if v.Runs[i].Key == key {
			return &v.Runs[i]
		}
	}
	return nil
}

// Inbox is what was accepted for a run and not yet taken.
type Inbox struct {
	Messages int
	Bytes    int   // of their stored form
	Last     int64 // the highest key
}

// Asked is an interrupt without what was asked and answered.
type Asked struct {
	RunKey   int64
	ID       string
	Step     int
	Place    string // with Step: the memo its answer completes
	Frontend bool
	Status   string
}

// NamedRun is a run by one of its names.
type NamedRun struct {
	RunKey    int64
	ThreadKey int64
	ID        string // the run's first name
	BodyHash  string // of the request that gave it this name
	Status    Status
	First     int64 // the first event of its first span of this name, 0 before it
}

// Remembered is the answer to an earlier request with an Idempotency-Key.
type Remembered struct {
	BodyHash  string
	RunKey    int64
	RunGone   bool            // the run has been deleted since
	Answer    json.RawMessage // as the decision put it
	CreatedAt time.Time
}

// Changes are what follows from a decision.
type Changes struct {
	Rows    []Row
	Events  []StoredEvent // numbered
	Refused error         // why nothing follows; Rows and Events are empty then
}

// Batch is what one transaction writes.
type Batch struct {
	Events []StoredEvent // what running runs have said
	Rows   []Row         // what belongs to it
	Asks   []Ask         // one for each decision
	// Decide takes decision i on what was asked for it. It is called for one after the other, after Rows were written,
	// and for all of them again when the transaction has to be repeated.
	Decide func(i int, v *View) Changes
}
