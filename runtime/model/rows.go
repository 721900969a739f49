package model

import (
	"encoding/json"
	"time"

	"github.com/batonrun/baton/runtime/agui"
)

// Row is a pointer to one of the structs below: a row that is inserted, one that takes the place of another with the
// same key, or the columns of one that change. The rows of a batch take effect one after the other; only that a run leaves
// RUNNING or WAITING counts before another of its thread enters them.
type Row interface{ row() }

func (*Thread) row()         {} // inserted, with the key it has
func (*ThreadHead) row()     {} // changes LastEventID, LastSeq and UpdatedAt
func (*ThreadState) row()    {}
func (*ThreadPatch) row()    {}
func (*Run) row()            {} // inserted, with the key it has
func (*RunHead) row()        {} // changes the head's columns but for those above Status, and CreatedAt
func (*RunResult) row()      {}
func (*RunSettled) row()     {}
func (*RunName) row()        {} // inserted
func (*Audit) row()          {} // inserted
func (*RunEnded) row()       {} // inserted
func (*ModelCall) row()      {} // inserted
func (*Span) row()           {} // inserted
func (*SpanEnd) row()        {}
func (*Step) row()           {}
func (*Node) row()           {}
func (*Message) row()        {}
func (*Hide) row()           {}
func (*Memo) row()           {}
func (*Interrupt) row()      {}
func (*Answer) row()         {}
func (*Withdraw) row()       {}
func (*IdempotencyKey) row() {}
func (*AttachmentUse) row()  {} // makes the attachment used
func (*Delete) row()         {}

// Rows are rows of any kinds, in the order in which they take effect.
type Rows []Row

// Instance is a process that writes, or has written, the database.
type Instance struct {
	ID, Addr string
	End      End
}

// End says why an instance may not write any more, "" while it may.
type End string

// The ends of an instance. A run that it has left RUNNING counts as crashed with it only after EndCrashed.
const (
	EndLeft    End = "left"    // it said so
	EndFenced  End = "fenced"  // it lived, and another was to take its place
	EndCrashed End = "crashed" // its process had died, or it was silent until its lease ran out
)

// Status is the state of a run, a step or a node.
type Status string

// The statuses. Runs are QUEUED, RUNNING, WAITING or final; steps RUNNING, WAITING or final; nodes PENDING,
// RUNNING, WAITING, SKIPPED or final. Final are COMPLETED, FAILED and CANCELLED.
const (
	Queued    Status = "QUEUED"
	Pending   Status = "PENDING"
	Running   Status = "RUNNING"
	Waiting   Status = "WAITING"
	Completed Status = "COMPLETED"
	Failed    Status = "FAILED"
	Cancelled Status = "CANCELLED"
	Skipped   Status = "SKIPPED"
)

// Final reports whether nothing follows s but a restart.
func (s Status) Final() bool { return s == Completed || s == Failed || s == Cancelled || s == Skipped }

// Thread is a conversation: one log.
type Thread struct {
	ThreadHead
	State    json.RawMessage // an object, as of the end of its latest span
	Title    string
	Metadata json.RawMessage // an object, nil when none
	Archived bool            // put away, and not shown where people look for what they are at
}

// ThreadHead is what decisions know of a thread.
type ThreadHead struct {
	Key            int64
	Project        string
	User           string
	ID             string // the user's own name for it
	ConversationID string // a UUIDv7, unique everywhere
	LastEventID    int64  // as of the end of its latest span: of all its events while no run is RUNNING
	LastSeq        int64  // of its messages, likewise
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

// ThreadState changes a thread's state.
type ThreadState struct {
	Key   int64
	State json.RawMessage
}

// ThreadPatch changes what people say of a thread; what is nil stays.
type ThreadPatch struct {
	Key      int64
	Title    *string
	Metadata json.RawMessage // null for none
	Archived *bool
}

// ListedThread is a thread as a list shows it.
type ListedThread struct {
	Thread
	// Of its RUNNING or WAITING run, else of the one created last; empty when it has had none.
	RunID  string
	Agent  string // the agent's or the workflow's name
	Status Status
	Asked  string // the first 200 characters of what it was asked
}

// ThreadUser is somebody who has threads in a project.
type ThreadUser struct {
	User         string
	Threads      int // up to 1 000
	LastActiveAt time.Time
}

// Run is one run of an agent or a workflow.
type Run struct {
	RunHead

	Input          json.RawMessage // serves the run for its whole life; set when it is created
	Definition     json.RawMessage // the workflow as started, likewise
	InputQuery     string
	OutputSummary  *string
	Usage          []agui.TokenUsage
	ContextItemIDs []string
	Metadata       json.RawMessage // the client's own, an object, nil when none
	ParentRun      string          // the client's parentRunId

	// Read-only: from the thread, filled by reads.
	ThreadID       string
	ThreadTitle    string
	ConversationID string
}

// RunHead is what decisions know of a run.
type RunHead struct {
	Key        int64
	ThreadKey  int64
	Project    string
	User       string
	ID         string // its first name
	Agent      string // empty for a workflow
	WorkflowID string // the agent's name for a single agent
	Status     Status

	Generation  int        // counts restarts, from 1
	Attempt     int        // counts claims after a crash, from 0
	Spans       int        // how many it has, an open one included
	SpanName    string     // the name that its next span echoes, empty for ID
	Turn        int64      // its place among the queued runs of its thread
	Answered    bool       // queued again by an answer: it goes before all others of its thread
	Owner       string     // the instance that runs it, while RUNNING
	Replaces    []Replaced // runs that are cancelled before it is claimed
	RollBack    bool       // what they wrote is hidden when it starts
	ClosedEvent int64      // the id of the terminal event of its latest span
	Error       *agui.OutputError

	CreatedAt  time.Time
	QueuedAt   time.Time
	StartedAt  *time.Time
	FinishedAt *time.Time
}

// Replaced is a run that makes room for another.
type Replaced struct {
	RunKey     int64 `json:"run"`
	Generation int   `json:"generation"`
}

// RunResult changes what a run's row tells of its result.
type RunResult struct {
	Key           int64
	OutputSummary *string
	Usage         []agui.TokenUsage
}

// RunSettled takes back a run's crashes: it has got somewhere since.
type RunSettled struct{ Key int64 }

// RunName is a name of a run, its first one included.
type RunName struct {
	RunKey   int64
	Project  string
	User     string
	Name     string
	BodyHash string // of the request that named it so
}

// Span is one RUN_STARTED … terminal event range of a run.
type Span struct {
	RunKey     int64
	N          int // from 1
	ThreadKey  int64
	RunID      string // the name the run has in it
	Generation int
	First      int64           // event ids
	Last       int64           // 0 while the span is open
	State      json.RawMessage // the thread's state before the span
}

// SpanEnd ends a span.
type SpanEnd struct {
	RunKey int64
	N      int
	Last   int64
}

// Step is one execution of a node. A row replaces the one with the same RunKey and Number.
type Step struct {
	RunKey      int64
	Number      int // in start order, from 1, over the whole run
	ID          string
	Generation  int
	NodeID      string
	Name        string // its stepName
	Execution   int
	Status      Status
	Input       string
	Output      *string
	Error       *agui.OutputError
	StartedAt   time.Time
	CompletedAt *time.Time
}

// Node is the state of one node of a run. A row replaces the one with the same RunKey and NodeID.
type Node struct {
	RunKey      int64
	NodeID      string
	Status      Status
	Progress    float64 // 0..1
	Messages    []string
	Output      json.RawMessage // a WorkerOutput or ToolOutput, nil until COMPLETED
	Error       *agui.OutputError
	StartedAt   *time.Time
	CompletedAt *time.Time
}

// MessageState says where a message is between being accepted and being shown.
type MessageState string

// The states of a message.
const (
	MessageQueued   MessageState = "queued"   // accepted, not yet in the log
	MessageConsumed MessageState = "consumed" // in the log
	MessageHidden   MessageState = "hidden"   // in the log or not, and left out of prompts and history
)

// Message is a message of a thread. A row replaces the one with the same ThreadKey and Message.ID.
type Message struct {
	Key            int64 // in the order they came; filled by reads
	ThreadKey      int64
	RunKey         int64
	Seq            int64 // in log order; 0 while queued
	EventID        int64 // of the event that completed it; 0 while queued
	State          MessageState
	ContextItemIDs []string
	Day            time.Time // the midnight of the UTC day in whose history it stands; zero for none
	CreatedAt      time.Time // the time of the transaction that inserts it when zero; no later row changes it
	agui.Message
	Encoded []byte `json:"-"` // the stored form of Message where somebody has made it: who changes Message makes it nil
}

// Stored is the stored form of the message, which is encoded once.
func (m *Message) Stored() []byte {
	if m.Encoded == nil {
		m.Encoded = m.AppendJSON(nil, agui.Stored)
	}
	return m.Encoded
}

// Hide hides messages of a thread, or of one run of it, from prompts and history: all of which one of the last three
// fields speaks. With Queued and FromSeq 1 that is all there are.
type Hide struct {
	ThreadKey int64
	RunKey    int64 // of this run only, 0 for all
	Queued    bool  // those not yet taken
	FromEvent int64 // those completed by an event with at least this id; 0 for none
	FromSeq   int64 // those with at least this seq; 0 for none
}

// Memo is the record of one use of Do, CallTool, CallAgent, Ask or Next, or of a call's approval. A row replaces the one with
// the same RunKey, Generation, Step and Place.
type Memo struct {
	RunKey     int64
	Generation int
	Step       int    // the step's number
	Place      string // of the use in the step's code: see plugins.Use
	Tool       string // which is called, if one is
	Agent      string // likewise
	Hash       string // of what was asked; empty for what asks for nothing
	CallID     string // the toolCallId, the subagentRunId or the id of the question, once there is one
	Begun      bool   // of a call: the tool may have been called
	Done       bool
	Output     json.RawMessage // nil until done
}

// Interrupt is something a run waits for: a question, or a call that the client answers. A row replaces the one with the same
// RunKey and ID.
type Interrupt struct {
	ID        string // of the question; the toolCallId of a frontend call
	RunKey    int64
	Step      int             // the step's number
	Place     string          // with Step: the memo its answer completes
	Frontend  bool            // a frontend call
	Tool      string          // which is called, of a frontend call and of an approval
	Body      json.RawMessage // the agui.Interrupt; of a frontend call nil, or as lists show the call
	Status    string
	Payload   json.RawMessage // the answer's
	ExpiresAt *time.Time
	CreatedAt time.Time
}

// Question is an open interrupt of a run that is WAITING, as a list shows it.
type Question struct {
	Interrupt
	Key            int64  // in the order in which they were asked
	User           string // whose run it is, and what it is called
	RunID          string
	Agent          string // the agent's or the workflow's name
	ThreadID       string
	ConversationID string
}

// The statuses of an Interrupt. An answer makes it answered, the answer's span resolved.
const (
	InterruptOpen      = "open"
	InterruptAnswered  = "answered"
	InterruptResolved  = "resolved"
	InterruptCancelled = "cancelled"
)

// Answer answers an interrupt: it changes the interrupt's Status and Payload, and completes its memo.
type Answer struct {
	RunKey     int64
	Generation int
	ID         string // the interrupt's
	Step       int    // with Place: the memo
	Place      string
	Payload    json.RawMessage
	Output     json.RawMessage // of the memo
}

// Withdraw cancels the open interrupts of a run that is over.
type Withdraw struct{ RunKey int64 }

// IdempotencyKey remembers a request that succeeded. A row replaces the one of the same scope.
type IdempotencyKey struct {
	Scope     string // project, user, method, path and key
	BodyHash  string
	RunKey    int64
	Answer    json.RawMessage
	CreatedAt time.Time
}

// Delete removes a part of a run or of a thread, about Limit rows, and comes in a batch without anything else. Of a run its events
// and their spans go first, then steps, nodes, messages, memos, interrupts and names, and with the last of them its own row; its
// Idempotency-Keys stay without what was answered: a repeat learns that the run is gone. Of a thread its runs' keys go, too. Until
// all is gone ids of removed events are not used again. None of the thread's runs may be RUNNING. What is gone already needs no
// removing. While parts are left there is a Deletion.
type Delete struct {
	ThreadKey int64
	RunKey    int64 // 0 for the whole thread
	Events    bool  // of the run, its events and spans alone
	Limit     int
	Last      int64 // what was the last event of the thread, or has closed the run

	Left bool // set as the row is written: this was not the last part
}

// Deletion is one that has been begun and of which parts are left.
type Deletion struct {
	ThreadKey, RunKey int64
	Project           string // the thread's
	Events            bool
	Last              int64 // as Delete has it: who has gone on with the thread or the run since has another
}

// Audit tells who has asked for a decision that has changed something, and where the request came from.
type Audit struct {
	Key        int64 // given when it is inserted
	At         time.Time
	Project    string
	User       string // whose thread it is
	Actor      string // who has asked
	Action     string // start, append, answer, cancel, update, delete, create_key, revoke_key
	ThreadID   string
	RunID      string // empty when it was about a thread
	Credential string
	Address    string
	Request    string
	Subject    string // what else it was about: the id of a key
}

// StoredEvent is an event as the log keeps it.
type StoredEvent struct {
	ThreadKey int64
	ID        int64
	RunKey    int64
	Kind      agui.Type
	Payload   []byte // the event in agui.Stored, one line
	RunID     string // filled by reads: the run's name in the span the event belongs to
}
