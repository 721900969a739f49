package data

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/batonrun/baton/runtime/agui"
)

// Row is a pointer to one of the structs below: a row to insert, a row that replaces the one with the same key, or changed columns of a
// row. The rows of a batch take effect one after the other, except that a run leaves RUNNING or WAITING before another run of its
// thread enters.
type Row interface{ row() }

func (*Thread) row()         {} // inserted, with the key it has
func (*ThreadHead) row()     {} // changes LastEventID, LastSeq and UpdatedAt
func (*ThreadState) row()    {}
func (*ThreadPatch) row()    {}
func (*Run) row()            {} // inserted, with the key it has
func (*RunHead) row()        {} // changes the head's columns but for those above Status, and CreatedAt
func (*RunResult) row()      {}
func (*RunCrashes) row()     {}
func (*RunTie) row()         {}
func (*CancelAsk) row()      {}
func (*RunName) row()        {} // inserted
func (*Audit) row()          {} // inserted
func (*RunEnded) row()       {} // inserted
func (*CallUsage) row()      {} // inserted
func (*Raise) row()          {}
func (*Span) row()           {} // inserted
func (*SpanEnd) row()        {}
func (*Step) row()           {}
func (*Node) row()           {}
func (*Message) row()        {}
func (*Hide) row()           {}
func (*Memo) row()           {}
func (*Signal) row()         {} // inserted
func (*TakenSignals) row()   {}
func (*Interrupt) row()      {}
func (*Answer) row()         {}
func (*Withdraw) row()       {}
func (*IdempotencyKey) row() {}
func (*AttachmentUse) row()  {} // makes the attachment used
func (*Prompt) row()         {} // inserted
func (*PromptEnd) row()      {}
func (*PromptPiece) row()    {} // inserted if it is new, and used by its run
func (*Place) row()          {}
func (*Delete) row()         {}

// Rows are rows of any kinds, in the order in which they take effect.
type Rows []Row

// Instance is a process that serves the database, or did.
type Instance struct {
	ID, Addr string
	End      End
	SeenAt   time.Time // its last sign of life, approximately
}

// Watched has the view of an instance of the others.
type Watched struct {
	Others int  // that may write
	Gone   bool // one has ended since the last look, or drains
}

// Server is an instance of a cluster, as it describes itself to the others.
type Server struct {
	Instance, Addr    string
	StartedAt, SeenAt time.Time // by the database's clock
	Draining          bool      // it hands its runs over and takes none
	About             []byte    // JSON: who it is and what it offers, 1 MiB at most
	Hash              string    // of About, empty before the first Tell
	Load              []byte    // JSON: what it does now
}

// End is the reason why an instance ended, "" while it may write.
type End string

// Ends. A RUNNING run counts as crashed only after EndCrashed.
const (
	EndLeft    End = "left"    // it shut down
	EndFenced  End = "fenced"  // another instance replaced it while it lived
	EndCrashed End = "crashed" // its process died, or its lease expired
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

// Final reports whether only a restart may follow s.
func (s Status) Final() bool { return s == Completed || s == Failed || s == Cancelled || s == Skipped }

// Thread is a conversation: one log.
type Thread struct {
	ThreadHead
	State    json.RawMessage // an object, at the end of its latest span
	Title    string
	Metadata json.RawMessage // an object, nil for none
	Archived bool            // not listed by default
}

// ThreadHead is the part of a thread that decisions read.
type ThreadHead struct {
	Key            int64
	Project        string
	User           string
	ID             string // the user's name for the thread
	ConversationID string // a UUIDv7, unique everywhere
	LastEventID    int64  // last event at the end of its latest span: of the whole log while no run is RUNNING
	LastSeq        int64  // of its messages, at the same time
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

// LogHead is the end of a thread's log, and whether more follows.
type LogHead struct {
	Thread   int64
	Last     int64 // the last event
	Busy     bool  // a run is QUEUED or RUNNING
	Removals int64 // another number means that rows were deleted

	Latest []StoredEvent // those behind LogPlace.After, if asked for and few: the first of them, and none beyond Last
}

// LogPlace is a place in a thread's log.
type LogPlace struct {
	Thread int64
	After  int64 // behind this event; below 0 if no events are asked for
}

// ThreadState changes a thread's state.
type ThreadState struct {
	Key   int64
	State json.RawMessage
}

// ThreadPatch changes columns that users set. A nil field stays as it is.
type ThreadPatch struct {
	Key      int64
	Title    *string
	Metadata json.RawMessage // null for none
	Archived *bool
}

// ListedThread is a thread as a list shows it.
type ListedThread struct {
	Thread
	// These are of its RUNNING or WAITING run, else of its newest run; empty without a run.
	RunID  string
	Agent  string // the agent's or the workflow's name
	Status Status
	Asked  string // the first 200 characters of the run's input
}

// ThreadUser is a user with threads in a project.
type ThreadUser struct {
	User         string
	Threads      int // up to 1 000
	LastActiveAt time.Time
}

// Run is one run of an agent or a workflow.
type Run struct {
	RunHead

	Input          json.RawMessage // set when the run is created, and never changed
	Definition     json.RawMessage // of the workflow, likewise
	InputQuery     string
	OutputSummary  *string
	Usage          []agui.TokenUsage
	ContextItemIDs []string
	Metadata       json.RawMessage // the client's, an object, nil for none
	ParentRun      string          // the client's parentRunId
	TiedTo         string          // see RunTie; not read

	// Reads fill these from the thread.
	ThreadID       string
	ThreadTitle    string
	ConversationID string
}

// RunHead is the part of a run that decisions read.
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
	Spans       int        // the number of its spans, with an open one
	SpanName    string     // the name of its next span, empty for ID
	Turn        int64      // its position among the queued runs of its thread
	Answered    bool       // queued again by an answer: it precedes all others of its thread
	Owner       string     // the instance that runs it, or see ReleasedBy, while its span is open
	Waits       *Waits     // of a WAITING run, beside its questions, and until it is claimed; nil for none
	Replaces    []Replaced // runs that are cancelled before it is claimed
	RollBack    bool       // their messages are hidden when it starts
	ClosedEvent int64      // the id of the terminal event of its latest span
	ParkedEvent int64      // the id of the event with which it was last parked, 0 for never
	ActiveMs    int64      // of its generation: how long it was at work, without the time that a crash has cut short
	Signals     int64      // the number of signals that it was ever sent
	Error       *agui.OutputError

	CreatedAt  time.Time
	QueuedAt   time.Time
	StartedAt  *time.Time
	FinishedAt *time.Time
	ClaimedAt  *time.Time // when it was last claimed or taken over
}

// ReleasedBy returns the owner of a run that an instance has released. number counts the instance's releases: who has read this
// owner can tell that the run has had no other since. times counts the run's releases since its last record.
func ReleasedBy(instance string, number int64, times int) string {
	return fmt.Sprintf("~%s.%d.%d", instance, number, times)
}

// Releases returns how often a released run was released since its last record. It is 0 for any other run.
func (h *RunHead) Releases() int {
	if !h.Released() {
		return 0
	}
	times, _ := strconv.Atoi(h.Owner[strings.LastIndexByte(h.Owner, '.')+1:])
	return times
}

// Waits are waits of a run that no answer ends.
type Waits struct {
	Since time.Time `json:"since"` // when the run began to wait
	Due   time.Time `json:"due"`   // when the run goes on, by the database's clock
	All   []Wait    `json:"all"`   // the first MostShownWaits in the order of their ends

	Events []string `json:"events,omitempty"` // the names of all signals with one of which the run goes on before
	By     string   `json:"by,omitempty"`     // the name of the signal that has ended the wait, empty for the time
}

// Wait is a wait of a run for a time, or for a signal until a time.
type Wait struct {
	Kind  WaitKind  `json:"kind"`
	Name  string    `json:"name,omitempty"` // of the signal
	Until time.Time `json:"until"`
}

// WaitKind is the kind of a wait.
type WaitKind string

// The kinds of waits.
const (
	WaitTime  WaitKind = "time"
	WaitEvent WaitKind = "event"
)

// MostShownWaits limits the waits that a run's row shows.
const MostShownWaits = 20

// Parked reports whether the run waits without a question: its span is open, and it is queued when its wait is due.
func (h *RunHead) Parked() bool { return h.Status == Waiting && h.Released() }

// Busies reports whether the open run keeps its thread busy. One that waits for a person does not.
func (h RunHead) Busies() bool { return h.Status != Waiting || h.Released() }

// Unowned reports whether no instance executes the run, though its span is open: the run is parked, or queued after that.
func (h *RunHead) Unowned() bool { return h.Status != Running && h.Released() }

// Released reports whether no instance executes the run, though its span is open, because its owner has released it.
func (h *RunHead) Released() bool { return strings.HasPrefix(h.Owner, "~") }

// CancelAsk asks the owner of a RUNNING run to cancel it. It lasts until the run leaves RUNNING; then a row changes nothing.
type CancelAsk struct {
	RunKey int64
	By     *Audit // as the first request has it; nil if it is not audited
}

// RunTie sets the connection that a run belongs to: the one of the request that started the run, or answered it. Empty is none.
type RunTie struct {
	Key    int64
	TiedTo string // an instance, a dot and the number of its connection
}

// Tie is a run and the connection that it belongs to.
type Tie struct {
	Project, User, ThreadID string

	RunKey int64
	RunID  string // of the request
	Scope  string // of its Idempotency-Key
	After  int64  // the log's end when it was accepted
	TiedTo string // see RunTie
}

// Replaced is a run that another run replaces.
type Replaced struct {
	RunKey     int64 `json:"run"`
	Generation int   `json:"generation"`
}

// RunResult changes a run's result.
type RunResult struct {
	Key           int64
	OutputSummary *string
	Usage         []agui.TokenUsage
}

// RunCrashes sets a run's count of crashes: to 0 after progress.
type RunCrashes struct {
	Key     int64
	Attempt int
}

// RunName is a name of a run, its first one included.
type RunName struct {
	RunKey   int64
	Project  string
	User     string
	Name     string
	BodyHash string // of the request that gave the name
}

// Span is one RUN_STARTED … terminal event range of a run.
type Span struct {
	RunKey     int64
	N          int // from 1
	ThreadKey  int64
	RunID      string // the run's name in the span
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
	Item        *Item  // nil unless the node has a map
	Execution   int    // of its round
	Round       int    // of a node that is repeated, from 1; 0 for others
	Status      Status
	Input       string
	Output      *string
	Error       *agui.OutputError
	StartedAt   time.Time
	CompletedAt *time.Time
}

// NodeOf returns the node of a step by the step's name, which has the index of an item in brackets.
func NodeOf(step string) string {
	id, _, _ := strings.Cut(step, "[") // which no node's id has
	return id
}

// Item identifies an item of a node's map.
type Item struct {
	Index int    `json:"index"` // from 0
	Key   string `json:"key"`
}

// MapProgress counts the items of a node's map.
type MapProgress struct {
	Items  int `json:"items"`
	Done   int `json:"done"`
	Failed int `json:"failed"`
}

// Fraction returns the progress of the map, 0 for none.
func (m *MapProgress) Fraction() float64 {
	if m == nil || m.Items == 0 {
		return 0
	}
	return float64(m.Done+m.Failed) / float64(m.Items)
}

// Node is the state of one node of a run. A row replaces the one with the same RunKey and NodeID.
type Node struct {
	RunKey      int64
	NodeID      string
	Status      Status
	Round       int     // as in Step: the latest that has begun
	Progress    float64 // 0..1
	Messages    []string
	Output      json.RawMessage // a WorkerOutput or ToolOutput; nil until COMPLETED, but for the last one of a node that is repeated
	Map         *MapProgress    // of a map that has begun
	Error       *agui.OutputError
	StartedAt   *time.Time
	CompletedAt *time.Time
}

// Memo records one use of Do, CallTool, CallAgent, Ask, Sleep, WaitFor or Next, or a call's approval. A row replaces the one with the
// same RunKey, Generation, Step and Place.
type Memo struct {
	RunKey     int64
	Generation int
	Step       int    // the step's number
	Place      string // of the use in the step's code: see plugins.Use
	Tool       string // the called tool, if any
	Agent      string // the called agent, if any
	Hash       string // of the arguments; empty without arguments
	CallID     string // the toolCallId, the subagentRunId or the id of the question, once there is one
	Begun      bool   // the call may have reached the tool
	Done       bool
	Output     json.RawMessage // nil until done
	Event      int64           // the last event of the log when it was written
}

// Signal is an event from outside that is kept for a run until its worker receives it, or the run ends.
type Signal struct {
	RunKey    int64
	N         int64 // its number among the run's, from 1
	Name      string
	Payload   json.RawMessage
	Bytes     int // of the payload
	CreatedAt time.Time
}

// MostSignalBytes limits the bytes of the signals that are kept for a run.
const MostSignalBytes = 8 << 20

// MostSignals limits the signals that are kept for a run.
const MostSignals = 100

// TakenSignals removes the run's signals from a number to another.
type TakenSignals struct{ RunKey, From, To int64 }

// IdempotencyKey records a request that succeeded.
type IdempotencyKey struct {
	Scope     string // project, user, method, path and key
	BodyHash  string
	RunKey    int64
	Answer    json.RawMessage
	CreatedAt time.Time
	Replaces  bool // an expired row of the scope; the database does not have this field
}

// Delete removes a part of a run or of a thread, about Limit rows. It shares a batch only with others of its
// kind, which together remove about as much as one of them may: with Left set a Delete may not have begun. The events and spans of a run are deleted
// first, then its other rows, then the run. Its Idempotency-Keys stay without their answers, so that a repeated request learns that
// the run is gone; with a thread they are deleted. Ids of removed events are not reused before the whole thread is deleted. No run
// of the thread may be RUNNING. Delete ignores rows that do not exist. While parts are left there is a Deletion.
type Delete struct {
	ThreadKey int64
	RunKey    int64 // 0 for the whole thread
	Events    bool  // of the run, its events and spans alone
	Limit     int
	Last      int64 // the thread's last event, or the event that closed the run

	Left bool // set as the row is written: this was not the last part
}

// Deletion is a Delete of which parts are left.
type Deletion struct {
	ThreadKey, RunKey int64
	Project           string // the thread's
	Events            bool
	Last              int64 // as in Delete: another value means that the thread or the run went on
}

// Audit records the requester and origin of a request that changed something.
type Audit struct {
	Key        int64 // given when it is inserted
	At         time.Time
	Project    string
	User       string // the thread's user
	Actor      string // the requester
	Action     string // start, append, answer, cancel, update, delete, create_key, revoke_key
	ThreadID   string
	RunID      string // empty for a thread
	Credential string
	Address    string
	Request    string
	Subject    string // the id of another subject, such as a key
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
