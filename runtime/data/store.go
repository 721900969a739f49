// Package data defines the rows of Baton's tables, the View that a decision reads and the Changes that it makes, and Store, which a
// database implements. It decides nothing.
package data

import (
	"context"
	"time"
)

// Store is the database. storage implements it; storagetest is its contract.
type Store interface {
	Reader

	// Queue returns the queue.
	Queue() Queue
	// Members returns the instances.
	Members() Members
	// Budgets returns the use of budgets.
	Budgets() Budgets
	// Saved returns the store of secrets and of users' views.
	Saved() Saved
	// Commit writes batch n of the joined instance in one transaction, exactly once: after an error the caller calls it again with
	// the same n, and it returns nil when the earlier attempt was committed. n counts from 1, by one for each committed batch.
	// Commit locks the threads of the decisions, shows each decision its View, and writes the changes in the order of the
	// decisions, events last. It does not wait for threads that another instance has locked, but defers their decisions. The number of its statements does not depend on the number of decisions. An error
	// wraps ErrFenced, ErrUnavailable, ErrTooSlow, ErrConflict or ErrDiskFull, or is the fault of the data.
	Commit(ctx context.Context, n int64, b *Batch) error
	// NewThreadKey and NewRunKey return keys for new rows. No key is returned twice. Each is
	// higher than those that an instance got a second before the call, of a run 20 ms. They do not wait for a running commit, and may be called concurrently.
	NewThreadKey(ctx context.Context) (int64, error)
	NewRunKey(ctx context.Context) (int64, error)
	// Ping reports whether the database answers and has the schema this program needs.
	Ping(ctx context.Context) error
	// Shared reports whether other instances may write the database at the same time.
	Shared() bool
	// Close closes the connections.
	Close() error
}

// Queue has the work that waits for an instance.
type Queue interface {
	// Take takes rows of the queue that no other instance has taken, and returns their threads. For hold, at most MostHold,
	// the others' Line leaves them out; a hold of 0 gives them back. It is only a saving: rows of an instance that ends are left out until
	// then. A row whose hold would end after twice MostHold is free: the database's clock was set back. A Store that is not Shared takes all.
	Take(ctx context.Context, threads []int64, hold time.Duration) ([]int64, error)
	// Appended returns the number of queued messages of those of the runs that have any.
	Appended(ctx context.Context, runs []int64) (map[int64]int, error)
	// Signal returns the run's first signal of a name with a number above after.
	Signal(ctx context.Context, runKey int64, name string, after int64) (Signal, error)
	// Orphans returns up to limit RUNNING runs of all threads whose owner may not write any more, by their threads' keys, after that
	// key.
	Orphans(ctx context.Context, afterThread int64, limit int) ([]RunHead, error)
	// Misplaced returns up to limit threads whose Place is not what their runs need: a defect, which a Look repairs.
	Misplaced(ctx context.Context, limit int) ([]int64, error)
	// Line returns up to limit rows of the queue behind a place: see the Selections of Each. An empty name is before all names.
	Line(ctx context.Context, after Place, each Each, limit int) ([]Place, error)
	// Position returns a thread's row in the queue, and its position by Place.Compare among the claim rows of its user in its project,
	// from 1 to 1000 at most; 0 for a row that asks for a cancel.
	Position(ctx context.Context, thread int64) (Place, int, error)
	// Backlog returns the work that waits. It reads all WAITING runs and the whole queue.
	Backlog(ctx context.Context) (Backlog, error)
	// CountRunning returns how many runs of projects and of users are RUNNING, with those of the projects' users. It is for a Store that
	// is Shared, as CountQueued is.
	CountRunning(ctx context.Context, of []Name) (map[Name]int, error)
	// CountQueued returns how many runs are QUEUED: of all, of each project and of each user in it, as Names without ids.
	CountQueued(ctx context.Context) (map[Name]int, error)
	// Deletions returns up to limit deletions of which parts are left and whose instance may not write any more, by the keys of
	// their threads and runs, after those keys.
	Deletions(ctx context.Context, afterThread, afterRun int64, limit int) ([]Deletion, error)
	// Expired returns up to limit open interrupts that have expired by now.
	Expired(ctx context.Context, now time.Time, limit int) ([]Interrupt, error)
}

// Members has the instances, one of which this process may join as.
type Members interface {
	// Join registers this process as a new instance, in whose name Commit writes. It fences instances that have ended: all others of a
	// Store that is not Shared, and those whose process is known to have ended. When Join returns, no commit of an instance that has ended is running.
	Join(ctx context.Context, instance, addr string) error
	// Watch looks at the other instances beside which this one writes, and fences those that have died: their process is known to have
	// ended, or they were silent for a lease, as calls see it that follow each other within three seconds. The caller calls it every
	// second. It does not wait for a running commit.
	Watch(ctx context.Context) (Watched, error)
	// Drain records that the joined instance hands its runs over. It reports whether a living instance that does not drain could
	// take them over.
	Drain(ctx context.Context) (successor bool, err error)
	// Renew renews the joined instance's lease, as each commit does. Its error wraps ErrFenced when the instance was fenced, or
	// when n is not the instance's last batch in the database.
	Renew(ctx context.Context, n int64) error
	// KeepLease renews the lease without a batch number, while the outcome of a batch is unknown. It does nothing for an instance
	// that was fenced.
	KeepLease(ctx context.Context) error
	// TakeDuty reports whether the joined instance is the one that does a kind of background work. It becomes that if no other
	// that may write is, and stays it until LeaveDuties, or until it may not write any more. A Store that is not Shared has no
	// duties: it reports true.
	TakeDuty(ctx context.Context, name string) (bool, error)
	// LeaveDuties lets another instance take the joined instance's duties.
	LeaveDuties(ctx context.Context) error
	// Leave ends the joined instance, so that another may join at once. It does not change an instance that has ended.
	Leave(ctx context.Context) error
	// Fence ends an instance that may still write, as EndFenced. It waits for a running commit.
	Fence(ctx context.Context, instance string) error
	// Tell stores the joined instance's description of itself for the others. An empty About or Load stays as it was. Tell does not
	// wait for a running commit.
	Tell(ctx context.Context, s *Server) error
	// Servers returns the instances that may write, ordered by their ids, 1000 at most. About is empty where its hash is among known.
	Servers(ctx context.Context, known []string) ([]Server, error)
	// Instance returns an instance that has joined at some time.
	Instance(ctx context.Context, id string) (Instance, error)
	// Now returns the database's time, which its rows have.
	Now(ctx context.Context) (time.Time, error)
}

// Budgets has the use of budgets by all instances.
type Budgets interface {
	// Spent returns the spending of a project, or of all when it is empty, from the beginning of one day to that of
	// another.
	Spent(ctx context.Context, project string, from, until time.Time) ([]Spending, error)
	// Raises returns the raises of periods that began at a time or later.
	Raises(ctx context.Context, since time.Time) ([]Raise, error)
	// ReserveBudgets replaces what an instance has reserved of a project's budgets by the result of decide, which gets the reservations of
	// the other instances that may write. The instances decide about a project one after another, beside batches. It is called if the Store
	// is Shared.
	ReserveBudgets(ctx context.Context, instance, project string, decide func(others []Reserved) ([]Reserved, error)) error
}

// Saved stores the secrets that servers sign and seal with, and the users' own views of lists. They do not belong to an instance.
type Saved interface {
	// Secret returns the secret of a purpose, or ErrNotFound.
	Secret(ctx context.Context, purpose string) (string, error)
	// PutSecret stores the secret of a purpose that has none.
	PutSecret(ctx context.Context, purpose, value string) error
	// RemoveSecrets removes all secrets.
	RemoveSecrets(ctx context.Context) error
	// Views returns a user's views, in the order in which they were put.
	Views(ctx context.Context, project, user string) ([]SavedView, error)
	// PutViews replaces all of a user's views.
	PutViews(ctx context.Context, project, user string, views []SavedView) error
}

// Name is a user's name for a thread or a run.
type Name struct{ Project, User, ID string }

// ByProject has the reads of one project: they find nothing for a key of another project.
type ByProject interface {
	ThreadByID(ctx context.Context, project, user, id string) (Thread, error)
	ThreadByConversation(ctx context.Context, project, conversationID string) (Thread, error)
	// LatestThread returns the user's thread with the latest activity.
	LatestThread(ctx context.Context, project, user string) (Thread, error)
	// Threads lists the threads of a user, or of all users of a project, without their states, latest activity first.
	Threads(ctx context.Context, f ThreadFilter) (Page[ListedThread], error)
	// ListedThread returns a project's thread as Threads lists it.
	ListedThread(ctx context.Context, project string, key int64) (ListedThread, error)
	// Users lists a project's users with threads, in a stable order of their names. It does not count them.
	Users(ctx context.Context, f UserFilter) (Page[ThreadUser], error)
	// RunsByName returns the runs of the project that have the name, as their first or a later one: those of one user, or with user
	// "" of all (at most 2, which shows that the name is ambiguous). They have no inputs and no definitions.
	RunsByName(ctx context.Context, project, user, name string) ([]Run, error)
	// Runs lists runs, newest first, without their inputs, definitions and metadata. A search finds a run by what is known at
	// its start, and by its answer, error and title once RollUp has counted its end. A list that searches fails with ErrTooSlow after some seconds.
	Runs(ctx context.Context, f RunFilter) (Page[Run], error)
	// Steps lists the steps of a run, or of one node of it, with a number above after, by number.
	Steps(ctx context.Context, project string, runKey int64, node string, after, limit int) (Page[Step], error)
	// NodeStates is Nodes of a project's run, without their outputs.
	NodeStates(ctx context.Context, project string, runKey int64) ([]Node, error)
	// RunMessages lists a run's messages with a key above after, except hidden ones, in the order of their keys.
	RunMessages(ctx context.Context, project string, runKey, after int64, limit int) (Page[Message], error)
	// Prompts lists a run's calls of models with an id behind after, by id.
	Prompts(ctx context.Context, project string, runKey int64, after string, limit int) (Page[Prompt], error)
	Prompt(ctx context.Context, project string, runKey int64, id string) (Prompt, error)
	// PromptPieces returns those of the pieces that runs of a thread use, by id, fewer when they exceed PageBytes, without a RunKey.
	// It does not count.
	PromptPieces(ctx context.Context, project string, threadKey int64, ids []string) (Page[PromptPiece], error)
	// MessagesBySeq returns a thread's messages with one of the seqs, hidden ones included, the latest first, fewer when they exceed
	// PageBytes. It does not count.
	MessagesBySeq(ctx context.Context, project string, threadKey int64, seqs []int64) (Page[Message], error)
	// MessagesBefore lists the newest limit of the thread's consumed messages with a seq below before (0 means all), by seq, fewer
	// when they exceed ThreadBytes; with hidden also those that were hidden since. The next page is older. It does not count.
	MessagesBefore(ctx context.Context, project string, threadKey, before int64, hidden bool, limit int) (Page[Message], error)
	// HistoryDay returns the latest UTC day before the day of a time on which History lists messages of the thread.
	HistoryDay(ctx context.Context, project string, threadKey int64, before time.Time) (time.Time, error)
	// History lists the thread's consumed messages of a Day with a seq above after, by seq. It does not count.
	History(ctx context.Context, project string, threadKey int64, day time.Time, after int64, limit int) (Page[Message], error)
	// Audit lists the requests that changed a project, latest first.
	Audit(ctx context.Context, f AuditFilter) (Page[Audit], error)
	// Questions lists the open interrupts of a project's runs, oldest first.
	Questions(ctx context.Context, f QuestionFilter) (Page[Question], error)
}

// Reader has the reads of a Store. They see committed rows. Each has an index and a limit. A single row that does not exist is
// ErrNotFound. Reads by key check no permission: package runtime has grants for the keys that a caller may read.
type Reader interface {
	// ByProject returns the reads of a project.
	ByProject() ByProject
	Thread(ctx context.Context, key int64) (Thread, error)
	Run(ctx context.Context, key int64) (Run, error)
	// Weight returns how many bytes a run needs in memory when it begins or resumes, without reading them.
	Weight(ctx context.Context, threadKey, runKey int64) (Weight, error)
	// OpenRuns returns the thread's QUEUED, RUNNING and WAITING runs in the order of View.Runs.
	OpenRuns(ctx context.Context, threadKey int64) ([]RunHead, error)
	// Heads returns the heads of those of the runs that exist.
	Heads(ctx context.Context, runs []int64) ([]RunHead, error)
	// CancelAsks returns up to 1000 requests to cancel runs that an instance executes.
	CancelAsks(ctx context.Context, instance string) ([]CancelAsk, error)
	// LastRun returns the thread's newest run, without its input and definition.
	LastRun(ctx context.Context, threadKey int64) (Run, error)
	Nodes(ctx context.Context, runKey int64) ([]Node, error)
	// Queued returns the run's queued messages, in the order of their keys.
	Queued(ctx context.Context, runKey int64) ([]Message, error)
	// Messages lists the newest limit of the thread's consumed messages that events up to upTo (0 means all) have written, by seq,
	// fewer when they exceed ThreadBytes.
	Messages(ctx context.Context, threadKey, upTo int64, limit int) ([]Message, error)
	// Instructions returns the thread's first hundred messages that instruct models (see Instructs), as Messages does.
	Instructions(ctx context.Context, threadKey, upTo int64) ([]Message, error)
	// MessagesByID returns the thread's messages, hidden ones included, whose id or toolCallId is among ids.
	MessagesByID(ctx context.Context, threadKey int64, ids []string) ([]Message, error)
	// MessageHeads returns the heads of the thread's messages, hidden ones included, whose id or toolCallId is among ids.
	MessageHeads(ctx context.Context, threadKey int64, ids []string) ([]MessageHead, error)
	// ShownHeads returns the heads of the newest limit of the thread's consumed messages, by seq.
	ShownHeads(ctx context.Context, threadKey int64, limit int) ([]MessageHead, error)
	// LastSeq returns the highest seq of the thread's messages, 0 when it has none.
	LastSeq(ctx context.Context, threadKey int64) (int64, error)
	// Events returns up to limit events of the thread with an id above after, by id, fewer when they are large. No events mean the
	// end of the log.
	Events(ctx context.Context, threadKey, after int64, limit int) ([]StoredEvent, error)
	// LastEventID returns the id of the thread's last event, also when that event has been removed.
	LastEventID(ctx context.Context, threadKey int64) (int64, error)
	// LogHeads returns the heads of the logs of those of the threads that exist, as of one moment. A Store that is not Shared may return no
	// events with them.
	LogHeads(ctx context.Context, of []LogPlace) ([]LogHead, error)
	// Spans returns the run's spans in order.
	Spans(ctx context.Context, runKey int64) ([]Span, error)
	// SpanAfter returns the thread's first span that begins after the event.
	SpanAfter(ctx context.Context, threadKey, eventID int64) (Span, error)
	Memos(ctx context.Context, runKey int64, generation int) ([]Memo, error)
	// Interrupts returns the run's interrupts, oldest first.
	Interrupts(ctx context.Context, runKey int64) ([]Interrupt, error)
}

// Weight is about how many bytes a running run has in memory. Each message counts MessageBytes beside its text.
type Weight struct {
	Asked int64 // the worker's input, with the messages of the thread
	Said  int64 // the messages that the run has written so far
}

// Page is a part of a list, as of one moment. It ends at its limit of rows or when the rows exceed PageBytes, and has at least one row
// unless the list has ended.
type Page[T any] struct {
	Rows  []T
	More  bool // whether rows follow
	Total int  // of the whole list, if Counted

	Counted bool // the count was asked for, and is not above 10 000
	// Where the next page begins, if that is not after the last row: of threads, after this key and UpdatedAt; of users, after this name.
	Behind    int64
	BehindAt  time.Time
	BehindOne string
}

// Sizes of a page and of a thread's newest messages.
const (
	PageBytes   = 4 << 20
	ThreadBytes = 16 << 20
)

// MessageBytes is half of a run's memory for each message of its input, beside the text: the input is in memory twice.
const MessageBytes = 512

// ThreadFilter selects threads.
type ThreadFilter struct {
	Project    string
	User       string    // empty for all
	Text       string    // in the title or the user's name for it, in upper or lower case
	Archived   *bool     // nil for all
	BeforeTime time.Time // continue after the thread with this UpdatedAt and this key
	BeforeKey  int64
	Limit      int
	Count      bool // also count the list
}

// Searches reports whether no index serves the filter.
func (f *ThreadFilter) Searches() bool { return f.Text != "" || f.Archived != nil }

// UserFilter selects users.
type UserFilter struct {
	Project string
	Text    string // in the name, in upper or lower case
	After   string // continue after this user
	Limit   int
}

// Searches reports whether no index serves the filter.
func (f *UserFilter) Searches() bool { return f.Text != "" }

// QuestionFilter selects open interrupts.
type QuestionFilter struct {
	Project  string
	User     string // the owner of the runs; empty for all
	AfterKey int64  // continue after this key
	Limit    int
	Count    bool // also count the list
}

// AuditFilter selects audit rows; zero fields except Project match all.
type AuditFilter struct {
	Project    string
	Actor      string
	Action     string
	User       string    // the owner of the thread
	Run        string    // the first name of the run
	Since      time.Time // then or later
	Until      time.Time // before
	BeforeTime time.Time // continue after the row with this time and this key
	BeforeKey  int64
	Limit      int
	Count      bool // also count the list
}

// Searches reports whether no index serves the filter: it has two names.
func (f *AuditFilter) Searches() bool {
	n := 0
	for _, name := range []string{f.Actor, f.Action, f.User, f.Run} {
		if name != "" {
			n++
		}
	}
	return n > 1
}

// RunFilter selects runs; zero fields match all.
type RunFilter struct {
	Project    string
	User       string
	Statuses   []Status // any of them
	Agent      string
	WorkflowID string
	ThreadKey  int64
	Since      time.Time         // created then or later
	Until      time.Time         // created before
	Text       string            // the words of the run's and its thread's name, title, input, answer and error, or exactly a name of the run
	Tags       []string          // all of them
	Metadata   map[string]string // the values of members
	Oldest     bool              // the oldest first
	BeforeKey  int64             // continue after the run with this key
	Limit      int
	Count      bool // also count the list
}

// ByTerms reports whether the filter selects runs by their terms: see package terms. Such a list is in the order of the keys.
func (f *RunFilter) ByTerms() bool { return f.Text != "" || len(f.Tags)+len(f.Metadata) > 0 }

// Searches reports whether a page may read many more runs than it shows: the filter has terms, two columns, or a thread and a time.
func (f *RunFilter) Searches() bool {
	n := 0
	for _, asked := range []bool{f.ThreadKey != 0, f.User != "", f.Agent != "" || f.WorkflowID != "", len(f.Statuses) > 0} {
		if asked {
			n++
		}
	}
	timed := f.ThreadKey != 0 && (!f.Since.IsZero() || !f.Until.IsZero())
	return n > 1 || timed || f.ByTerms()
}
