// Package model holds what Baton keeps: the rows of its tables, what decisions see of them and what they change, and
// Store, which a database implements. It decides nothing.
package model

import (
	"context"
	"time"
)

// Store is what Baton asks of a database. storage implements it; storagetest is its contract.
type Store interface {
	Reader
	Secrets

	// Join registers this process as a new instance, which Commit writes as from then on. It fails with a *HeldError
	// while another may write: until that one leaves, has not renewed its lease for as long as that lasts, is known to
	// have died, or is fenced. Of all that may not write any more none has a commit under way when Join returns.
	Join(ctx context.Context, instance, addr string) error
	// Renew renews the joined instance's lease, as each commit does, and returns an error that wraps ErrFenced when the
	// instance may not write any more, or n is not the last batch that the database has of it.
	Renew(ctx context.Context, n int64) error
	// Leave ends the joined instance, so that another may join at once. One that has ended already stays as it is.
	Leave(ctx context.Context) error
	// Fence ends an instance that may still write, as EndFenced. It waits for a commit under way.
	Fence(ctx context.Context, instance string) error
	// Commit writes batch n of the joined instance in one transaction, exactly once: called again with the same n
	// after an error, it returns nil when the earlier attempt had been committed after all. n counts from 1 and
	// moves on by one with each batch that was committed. It locks the threads of the decisions in the order of their
	// keys, shows each decision what it asks for, and writes what follows in the order of the decisions, events last.
	// The number of its statements does not grow with that of the decisions. An error wraps ErrFenced, ErrUnavailable, ErrTooSlow,
	// ErrConflict or ErrDiskFull, or is the data's fault.
	Commit(ctx context.Context, n int64, b *Batch) error
	// NewThreadKey and NewRunKey return keys for rows to come. They are never returned again, used or not. They
	// do not wait for a commit under way, and may be called by many.
	NewThreadKey(ctx context.Context) (int64, error)
	NewRunKey(ctx context.Context) (int64, error)
	// Ping reports whether the database answers and has the schema this program needs.
	Ping(ctx context.Context) error
	// Close closes the connections.
	Close() error
}

// Secrets keeps what is signed or sealed with, which is no part of what an instance writes.
type Secrets interface {
	// Secret returns that of a purpose, ErrNotFound unless there is something.
	Secret(ctx context.Context, purpose string) (string, error)
	// PutSecret keeps it unless there is something.
	PutSecret(ctx context.Context, purpose, value string) error
	// RemoveSecrets removes those of all purposes.
	RemoveSecrets(ctx context.Context) error
}

// Name is the name that a user has given to a thread or a run.
type Name struct{ Project, User, ID string }

// Reader holds the reads a Store offers. They see what has been committed. Each has an index and a limit.
// Single rows that do not exist are ErrNotFound.
type Reader interface {
	ByProject
	ByKey
}

// ByProject are the reads that say in which project: a key of another has nothing there.
type ByProject interface {
	ThreadByID(ctx context.Context, project, user, id string) (Thread, error)
	ThreadByConversation(ctx context.Context, project, conversationID string) (Thread, error)
	// LatestThread returns the user's thread with the latest activity.
	LatestThread(ctx context.Context, project, user string) (Thread, error)
	// Threads lists the threads of a user, or of all users of a project, without their states, those with the latest
	// activity first.
	Threads(ctx context.Context, f ThreadFilter) (Page[ListedThread], error)
	// ListedThread returns a project's thread as Threads lists it.
	ListedThread(ctx context.Context, project string, key int64) (ListedThread, error)
	// Users lists those who have threads in a project, in some order of their names that stays. It does not count them.
	Users(ctx context.Context, f UserFilter) (Page[ThreadUser], error)
	// RunsByName returns the runs of that name, first or later, in the project: of one user, or with user ""
	// of all (at most 2, enough to see that the name is ambiguous).
	RunsByName(ctx context.Context, project, user, name string) ([]Run, error)
	// Runs lists runs, newest first, without their inputs, definitions and metadata. A page of what takes long to find is
	// short. A run that the text names may come before its place.
	Runs(ctx context.Context, f RunFilter) (Page[Run], error)
	// Steps lists a run's steps with a number above after, by number.
	Steps(ctx context.Context, project string, runKey int64, after, limit int) (Page[Step], error)
	// NodeStates is Nodes of a project's run, without their outputs.
	NodeStates(ctx context.Context, project string, runKey int64) ([]Node, error)
	// RunMessages lists a run's messages that are not hidden with a key above after, in the order they came.
	RunMessages(ctx context.Context, project string, runKey, after int64, limit int) (Page[Message], error)
	// MessagesBefore lists the thread's messages that were consumed, by seq, from those below before (0 means all),
	// the newest limit of them, fewer when they are larger than ThreadBytes; with hidden also those that were hidden since.
	// What follows such a page is older. It counts nothing.
	MessagesBefore(ctx context.Context, project string, threadKey, before int64, hidden bool, limit int) (Page[Message], error)
	// HistoryDay returns the latest UTC day before that of a time on which the thread has messages of which
	// History lists some.
	HistoryDay(ctx context.Context, project string, threadKey int64, before time.Time) (time.Time, error)
	// History lists the thread's consumed messages of a Day, by seq, from those above after. It counts nothing.
	History(ctx context.Context, project string, threadKey int64, day time.Time, after int64, limit int) (Page[Message], error)
	// Audit lists who has asked for what in a project, latest first, and counts up to 10 000. A page of what takes long to find
	// is short.
	Audit(ctx context.Context, f AuditFilter) (Page[Audit], error)
	// Questions lists the open interrupts of a project's runs that are WAITING, those first that were asked first.
	Questions(ctx context.Context, f QuestionFilter) (Page[Question], error)
}

// ByKey are the reads by keys alone, and by what only a server asks for. Who reads for somebody goes by what that somebody was found
// to see: package runtime has a grant for it.
type ByKey interface {
	Instance(ctx context.Context, id string) (Instance, error)
	Thread(ctx context.Context, key int64) (Thread, error)
	Run(ctx context.Context, key int64) (Run, error)
	// Weight tells how many bytes a run that begins or goes on has in memory, without reading them.
	Weight(ctx context.Context, threadKey, runKey int64) (Weight, error)
	// OpenRuns returns the thread's QUEUED, RUNNING and WAITING runs in the order of View.Runs.
	OpenRuns(ctx context.Context, threadKey int64) ([]RunHead, error)
	// LastRun returns the thread's run that was created last.
	LastRun(ctx context.Context, threadKey int64) (Run, error)
	// Unfinished returns up to limit runs of all threads that are QUEUED, RUNNING or WAITING, by their threads' keys and their own,
	// those behind the run of that key in that thread.
	Unfinished(ctx context.Context, status Status, afterThread, afterKey int64, limit int) ([]RunHead, error)
	// Deletions returns up to limit of those of which parts are left, by the keys of their threads and runs, those behind the given one.
	Deletions(ctx context.Context, afterThread, afterRun int64, limit int) ([]Deletion, error)
	// Expired returns up to limit open interrupts that have expired by now.
	Expired(ctx context.Context, now time.Time, limit int) ([]Interrupt, error)
	Nodes(ctx context.Context, runKey int64) ([]Node, error)
	// Queued returns the run's messages that were accepted and not yet taken, in the order they came.
	Queued(ctx context.Context, runKey int64) ([]Message, error)
	// Messages lists the thread's consumed messages, by seq, that are not hidden: those written by events
	// up to upTo (0 means all), the newest limit of them, fewer when they are larger than ThreadBytes.
	Messages(ctx context.Context, threadKey, upTo int64, limit int) ([]Message, error)
	// MessagesByID returns those of the thread's messages, hidden ones included, whose id or toolCallId is
	// among ids.
	MessagesByID(ctx context.Context, threadKey int64, ids []string) ([]Message, error)
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
	// TokensSince returns the tokens that all projects have used since a time, by their time and project. RollUp must not be
	// called meanwhile.
	TokensSince(ctx context.Context, since time.Time) ([]Tokens, error)
	// Interrupts returns what the run waits or waited for, oldest first.
	Interrupts(ctx context.Context, runKey int64) ([]Interrupt, error)
}

// Weight is how many bytes a run has in memory while it is at work, about. A message weighs MessageBytes beside its own.
type Weight struct {
	Asked int64 // what its worker gets: the messages of the thread among it, which are its own as well
	Said  int64 // its own messages, which it has made before it goes on
}

// Page is a part of a list, as it was at one moment. It ends at its limit of rows or when they hold PageBytes, but has
// one row at least unless the list ends before it.
type Page[T any] struct {
	Rows  []T
	More  bool // whether rows follow
	Total int  // of the whole list; of runs, threads and messages up to 10 000 are counted

	Uncounted bool      // the list has Total at least, and to count it would take too long
	Behind    int64     // the key behind which the next page begins, unless that is behind the last row: nothing that stands there is on the list
	BehindAt  time.Time // of threads, its UpdatedAt; of the audit, its At
	BehindOne string    // of users, the name
}

// What a read returns at once: a page that is as large is complete, and so are the messages of a thread, the newest.
const (
	PageBytes   = 4 << 20
	ThreadBytes = 16 << 20
)

// MessageBytes is half of what a run has in memory of each message that it is asked, beside what the message says: what is asked is
// there twice.
const MessageBytes = 512

// ThreadFilter says which threads Threads lists.
type ThreadFilter struct {
	Project    string
	User       string    // whose they are; empty for all
	Text       string    // in the title or the user's name for it, in upper or lower case
	Archived   *bool     // whether it is put away; nil for all
	BeforeTime time.Time // continue behind the thread of this UpdatedAt and this key
	BeforeKey  int64
	Limit      int
}

// Searches reports whether no index has what the filter asks for.
func (f *ThreadFilter) Searches() bool { return f.Text != "" || f.Archived != nil }

// UserFilter says which users Users lists.
type UserFilter struct {
	Project string
	Text    string // in the name, in upper or lower case
	After   string // continue behind this user
	Limit   int
}

// Searches reports whether no index has what the filter asks for.
func (f *UserFilter) Searches() bool { return f.Text != "" }

// QuestionFilter says which open interrupts Questions lists.
type QuestionFilter struct {
	Project  string
	User     string // whose runs ask; empty for all
	AfterKey int64  // continue behind this key
	Limit    int
}

// AuditFilter says which rows Audit lists; zero fields but Project admit all.
type AuditFilter struct {
	Project    string
	Actor      string
	Action     string
	User       string    // whose thread it was about
	Run        string    // the first name of the run it was about
	Since      time.Time // then or later
	Until      time.Time // before
	BeforeTime time.Time // continue behind the row of this time and this key
	BeforeKey  int64
	Limit      int
}

// Searches reports whether no index has what the filter asks for: it asks by two names.
func (f *AuditFilter) Searches() bool {
	n := 0
	for _, name := range []string{f.Actor, f.Action, f.User, f.Run} {
		if name != "" {
			n++
		}
	}
	return n > 1
}

// RunFilter says which runs Runs lists; zero fields admit all.
type RunFilter struct {
	Project    string
	User       string
	Statuses   []Status // any of them
	Agent      string
	WorkflowID string
	ThreadKey  int64
	Since      time.Time // created then or later
	Until      time.Time // created before
	Text       string    // in a run's or its thread's name, its title or the first words of the input, in upper or lower case
	Oldest     bool      // the oldest first
	BeforeKey  int64     // continue behind the run of this key
	Limit      int
}

// Searches reports whether no index has what the filter asks for, so that a page looks at thousands of runs: it asks by a text, or
// by two things, or for those of a thread by time.
func (f *RunFilter) Searches() bool {
	n := 0
	for _, asked := range []bool{f.ThreadKey != 0, f.User != "", f.Agent != "" || f.WorkflowID != "", len(f.Statuses) > 0} {
		if asked {
			n++
		}
	}
	timed := f.ThreadKey != 0 && (!f.Since.IsZero() || !f.Until.IsZero())
	return n > 1 || timed || f.Text != ""
}
