package runtime

import (
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/tail"
)

// Stored rows and their filters, as package data defines them.
//
//nolint:revive // each is documented there
type (
	Store        = data.Store
	Row          = data.Row
	Status       = data.Status
	ListedThread = data.ListedThread
	RunHead      = data.RunHead
	Span         = data.Span
	Step         = data.Step
	Node         = data.Node
	MessageState = data.MessageState
	Message      = data.Message
	Memo         = data.Memo
	Interrupt    = data.Interrupt
	StoredEvent  = data.StoredEvent
	HeldError    = data.HeldError
	ThreadFilter = data.ThreadFilter
	RunFilter    = data.RunFilter
	Question     = data.Question
	ThreadUser   = data.ThreadUser
	UserFilter   = data.UserFilter
	Audit        = data.Audit
	Deletion     = data.Deletion
	AuditFilter  = data.AuditFilter

	QuestionFilter = data.QuestionFilter

	APIKey = data.APIKey

	Page[T any] = data.Page[T]
)

// The statuses of runs, steps and nodes: see [data.Status].
const (
	Queued    = data.Queued
	Pending   = data.Pending
	Running   = data.Running
	Waiting   = data.Waiting
	Completed = data.Completed
	Failed    = data.Failed
	Cancelled = data.Cancelled
	Skipped   = data.Skipped
)

// The states of a message: see [data.MessageState].
const (
	MessageQueued   = data.MessageQueued
	MessageConsumed = data.MessageConsumed
	MessageHidden   = data.MessageHidden
)

// Types that readers of a log receive, as package tail defines them.
//
//nolint:revive // each is documented there
type (
	Record      = tail.Record
	Cursor      = tail.Cursor
	RunCursor   = tail.RunCursor
	Source      = tail.Source
	Snapshot    = tail.Snapshot
	RunSnapshot = tail.RunSnapshot
)

// Parts of requests, as package decide defines them.
//
//nolint:revive // each is documented there
type (
	Multitask   = decide.Multitask
	Idempotency = decide.Key
)

// How a request treats the runs that its thread already has: see [decide.Multitask].
const (
	EnqueueRun    = decide.EnqueueRun
	RejectRun     = decide.RejectRun
	InterruptRuns = decide.InterruptRuns
	RollbackRuns  = decide.RollbackRuns
)

// KeyLifetime is how long the answer to a request with an Idempotency-Key is remembered.
const KeyLifetime = decide.KeyLifetime
