package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/batonrun/baton/runtime/agui"
)

// Errors a Store returns, wrapped or bare.
var (
	// ErrNotFound means that no such row exists.
	ErrNotFound = errors.New("not found")
	// ErrFenced means that another instance has taken over: nothing was written and nothing will be.
	ErrFenced = errors.New("this instance has been fenced")
	// ErrUnavailable means that the database could not be reached, or the connection broke and the fate
	// of the transaction is unknown. The same call may be made again.
	ErrUnavailable = errors.New("database unavailable")
	// ErrDiskFull means that the database has no room; nothing was written.
	ErrDiskFull = errors.New("database is out of space")
)

// Store is what Baton asks of a database. storage implements it; storagetest is its contract.
type Store interface {
	Reader

	// Join registers this process as a new instance, which Commit writes as from then on, and fences all
	// others.
	Join(ctx context.Context, instance, addr string) error
	// Commit writes batch n of the joined instance in one transaction: events, and what apply does with
	// its Tx. It applies a batch exactly once: called again with the same n after an error, it returns nil
	// without calling apply when the earlier attempt had been committed after all. n counts from 1 and
	// moves on by one with each batch that was committed. An error of apply rolls back and is returned
	// as it is; any other error wraps ErrFenced, ErrUnavailable, ErrDiskFull, or is the data's fault.
	Commit(ctx context.Context, n int64, events []StoredEvent, apply func(Tx) error) error
	// Ping reports whether the database answers and has the schema this program needs.
	Ping(ctx context.Context) error
	// Close closes the connections.
	Close() error
}

// Tx is one transaction: it reads what the transaction has written so far. It is used by one goroutine.
type Tx interface {
	Reader

	// Append adds events to the transaction. They may become readable only when it ends.
	Append(events ...StoredEvent)
	// Put inserts rows, or replaces those with the same key. A Thread or Run with Key 0 is inserted and
	// given its key, which is taken back if the transaction fails, and if nobody knows whether it did; a name that
	// another has is refused, at the latest when the transaction ends.
	Put(rows ...Row) error
	// Ahead reads at once what the transaction is about to ask for one by one. It changes no answer, only how
	// long answers take.
	Ahead(w Wanted) error
	// LockThread returns the thread and keeps every other transaction from locking it until the end.
	LockThread(key int64) (Thread, error)
	// DeleteThread removes a thread with all that belongs to it, the idempotency keys of its runs too, by
	// parts: it removes about limit rows and reports whether that was all. Until then the thread is there with
	// what is left of it, and ids of removed events are not used again. None of its runs may be RUNNING.
	DeleteThread(key int64, limit int) (done bool, err error)
	// DeleteRun removes a run with its names, spans, events, steps, nodes, messages, memos and interrupts.
	DeleteRun(runKey int64) error
	// HideMessages hides the thread's messages: those of the runs given, and when fromSeq is not 0 those
	// with at least that seq.
	HideMessages(threadKey int64, runKeys []int64, fromSeq int64) error
	// Now is the database's time.
	Now() time.Time
}

// Wanted is what a transaction is about to ask for.
type Wanted struct {
	ThreadNames []Name   // of ThreadByID, and what is found of LockThread and OpenRuns
	RunNames    []Name   // of RunsByName
	Scopes      []string // of IdempotencyKey
	Threads     []int64  // of LockThread and OpenRuns
	Runs        []int64  // of Queued
}

// Name is the name that a user has given to a thread or a run.
type Name struct{ Project, User, ID string }

// Reader holds the reads a Store offers inside and outside of a transaction. Each has an index and a limit.
// Single rows that do not exist are ErrNotFound.
type Reader interface {
	Thread(ctx context.Context, key int64) (Thread, error)
	ThreadByID(ctx context.Context, project, user, id string) (Thread, error)
	ThreadByConversation(ctx context.Context, project, conversationID string) (Thread, error)
	// LatestThread returns the user's thread with the latest activity.
	LatestThread(ctx context.Context, project, user string) (Thread, error)
	// Threads lists a user's threads without their states, those with the latest activity first, and counts
	// all, up to 10 000.
	Threads(ctx context.Context, f ThreadFilter) ([]ListedThread, int, error)
	// ListedThread returns a thread as Threads lists it.
	ListedThread(ctx context.Context, key int64) (ListedThread, error)

	Run(ctx context.Context, key int64) (Run, error)
	// RunsByName returns the runs of that name, first or later, in the project: of one user, or with user ""
	// of all (at most 2, enough to see that the name is ambiguous).
	RunsByName(ctx context.Context, project, user, name string) ([]Run, error)
	// Runs lists runs, newest first, and counts those the filter admits, up to 10 000.
	Runs(ctx context.Context, f RunFilter) ([]Run, int, error)
	// OpenRuns returns the thread's QUEUED, RUNNING and WAITING runs in the order they will be claimed.
	OpenRuns(ctx context.Context, threadKey int64) ([]Run, error)
	// LastRun returns the thread's run that was created last.
	LastRun(ctx context.Context, threadKey int64) (Run, error)
	// Unfinished returns up to limit runs of all threads that are QUEUED or RUNNING, in the order of their
	// queued times, skipping those with a key up to afterKey when the times are equal.
	Unfinished(ctx context.Context, status Status, afterQueued time.Time, afterKey int64, limit int) ([]Run, error)
	// Expired returns up to limit open interrupts that have expired by now.
	Expired(ctx context.Context, now time.Time, limit int) ([]Interrupt, error)
	// Counts returns how many runs are in each status that is not final.
	Counts(ctx context.Context) (map[Status]int, error)

	// Steps lists a run's steps with a number above after, by number, and counts all.
	Steps(ctx context.Context, runKey int64, after, limit int) ([]Step, int, error)
	// OpenSteps returns the run's steps that are RUNNING or WAITING.
	OpenSteps(ctx context.Context, runKey int64) ([]Step, error)
	Nodes(ctx context.Context, runKey int64) ([]Node, error)
	// RunMessages lists a run's messages that are not hidden with a key above after, in the order they came,
	// and counts all.
	RunMessages(ctx context.Context, runKey, after int64, limit int) ([]Message, int, error)
	// Queued returns the run's messages that were accepted and not yet taken, in the order they came.
	Queued(ctx context.Context, runKey int64) ([]Message, error)
	// Messages lists the thread's consumed messages, by seq, that are not hidden: those written by events
	// up to upTo (0 means all), the newest limit of them.
	Messages(ctx context.Context, threadKey, upTo int64, limit int) ([]Message, error)
	// MessagesByID returns those of the thread's messages, hidden ones included, whose id or toolCallId is
	// among ids.
	MessagesByID(ctx context.Context, threadKey int64, ids []string) ([]Message, error)
	// HistoryDay returns the latest UTC day before that of a time on which the thread has messages of which
	// History lists some.
	HistoryDay(ctx context.Context, threadKey int64, before time.Time) (time.Time, error)
	// History lists the thread's consumed messages of a Day, by seq, from those above after.
	History(ctx context.Context, threadKey int64, day time.Time, after int64, limit int) ([]Message, error)
	// LastSeq returns the highest seq of the thread's messages, 0 when it has none.
	LastSeq(ctx context.Context, threadKey int64) (int64, error)

	// Events returns up to limit events of the thread with an id above after, by id, fewer when they are large.
	// None means that there are no more.
	Events(ctx context.Context, threadKey, after int64, limit int) ([]StoredEvent, error)
	// LastEventID returns the id of the thread's last event, also when that event has been removed.
	LastEventID(ctx context.Context, threadKey int64) (int64, error)
	// Spans returns the run's spans in order.
	Spans(ctx context.Context, runKey int64) ([]Span, error)
	// SpanAfter returns the thread's first span that begins after the event.
	SpanAfter(ctx context.Context, threadKey, eventID int64) (Span, error)
	Memos(ctx context.Context, runKey int64, generation int) ([]Memo, error)
	// Interrupts returns what the run waits or waited for, oldest first.
	Interrupts(ctx context.Context, runKey int64) ([]Interrupt, error)
	IdempotencyKey(ctx context.Context, scope string) (IdempotencyKey, error)
}

// Row is a pointer to one of the structs below.
type Row interface{ row() }

func (*Thread) row()         {}
func (*Run) row()            {}
func (*RunName) row()        {}
func (*Span) row()           {}
func (*Step) row()           {}
func (*Node) row()           {}
func (*Message) row()        {}
func (*Memo) row()           {}
func (*Interrupt) row()      {}
func (*IdempotencyKey) row() {}

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
	Key            int64
	Project        string
	User           string
	ID             string          // the user's own name for it
	ConversationID string          // a UUIDv7, unique everywhere
	LastEventID    int64           // as of the end of its latest span
	State          json.RawMessage // an object, as of the end of its latest span
	Title          string
	Metadata       json.RawMessage // an object, nil when none
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

// ListedThread is a thread as a list shows it.
type ListedThread struct {
	Thread
	// Of its RUNNING or WAITING run, else of the one created last; empty when it has had none.
	RunID  string
	Agent  string // the agent's or the workflow's name
	Status Status
}

// Run is one run of an agent or a workflow.
type Run struct {
	Key        int64
	ThreadKey  int64
	ID         string // its first name
	Project    string
	User       string
	Agent      string // empty for a workflow
	WorkflowID string // the agent's name for a single agent
	Status     Status

	Input          json.RawMessage // a runInput; serves the run for its whole life. Put keeps it when nil
	Definition     json.RawMessage // the workflow as started. Put keeps it when nil
	InputQuery     string
	OutputSummary  *string
	Error          *agui.OutputError
	Usage          []agui.TokenUsage
	ContextItemIDs []string
	Metadata       json.RawMessage // the client's own, an object, nil when none
	ParentRun      string          // the client's parentRunId
	Background     bool            // no connection owns it

	Generation  int    // counts restarts, from 1
	Attempt     int    // counts claims after a crash, from 0
	Answered    bool   // queued again by an answer: it goes before all others of its thread
	Owner       string // the instance that runs it, while RUNNING
	ClosedEvent int64  // the id of the terminal event of its latest span

	CreatedAt  time.Time
	QueuedAt   time.Time
	StartedAt  *time.Time
	FinishedAt *time.Time

	// Read-only: from the thread, filled by reads.
	ThreadID       string
	ConversationID string
}

// RunName is a further name of a run.
type RunName struct {
	RunKey int64
	Name   string
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

// Step is one execution of a node. Put replaces the row with the same RunKey and Number.
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

// Node is the state of one node of a run.
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

// Message is a message of a thread.
type Message struct {
	Key            int64 // in the order they came; filled by reads
	ThreadKey      int64
	RunKey         int64
	Seq            int64 // in log order; 0 while queued
	EventID        int64 // of the event that completed it; 0 while queued
	State          MessageState
	ContextItemIDs []string
	Day            time.Time // the midnight of the UTC day in whose history it stands; zero for none
	CreatedAt      time.Time // the time of the transaction that inserts it when zero; no later Put changes it
	agui.Message             // Put replaces the row with the same ThreadKey and Message.ID
}

// Memo is the record of one use of Do, CallTool, CallAgent, Ask or Next.
type Memo struct {
	RunKey     int64
	Generation int
	Step       int // the step's number
	Name       string
	N          int    // the n-th use of the name in the step, from 1
	CallID     string // the toolCallId, of a call
	Done       bool
	Output     json.RawMessage // nil until done
}

// Interrupt is something a run waits for: a question, or a call that the client answers.
type Interrupt struct {
	ID        string // of the question; the toolCallId of a frontend call
	RunKey    int64
	Step      int    // the step's number
	Name      string // with N: the memo its answer completes
	N         int
	Frontend  bool            // a frontend call
	Body      json.RawMessage // the agui.Interrupt; nil for a frontend call
	Status    string          // "open", "resolved" or "cancelled"
	Payload   json.RawMessage // the answer's
	ExpiresAt *time.Time
	CreatedAt time.Time
}

// IdempotencyKey remembers a request that succeeded.
type IdempotencyKey struct {
	Scope     string // project, user, method, path and key
	BodyHash  string
	RunKey    int64
	Status    int             // the HTTP status of the answer
	Answer    json.RawMessage // its body
	CreatedAt time.Time
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

// ThreadFilter says which threads Threads lists.
type ThreadFilter struct {
	Project    string
	User       string
	BeforeTime time.Time // continue behind the thread of this UpdatedAt and this key
	BeforeKey  int64
	Limit      int
}

// RunFilter says which runs Runs lists; zero fields admit all.
type RunFilter struct {
	Project    string
	User       string
	Status     Status
	Agent      string
	WorkflowID string
	ThreadKey  int64
	Since      time.Time
	BeforeKey  int64 // continue below this key
	Limit      int
}
