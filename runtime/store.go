package runtime

import (
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/log"
	"github.com/batonrun/baton/runtime/model"
)

// Stored rows and their filters, as package model defines them.
//
//nolint:revive // each is documented there
type (
	Store        = model.Store
	Reader       = model.Reader
	Row          = model.Row
	Status       = model.Status
	ThreadHead   = model.ThreadHead
	ListedThread = model.ListedThread
	RunHead      = model.RunHead
	Span         = model.Span
	Step         = model.Step
	Node         = model.Node
	MessageState = model.MessageState
	Message      = model.Message
	Memo         = model.Memo
	Interrupt    = model.Interrupt
	StoredEvent  = model.StoredEvent
	HeldError    = model.HeldError
	ThreadFilter = model.ThreadFilter
	RunFilter    = model.RunFilter
	Question     = model.Question
	ThreadUser   = model.ThreadUser
	UserFilter   = model.UserFilter
	Audit        = model.Audit
	Deletion     = model.Deletion
	AuditFilter  = model.AuditFilter

	QuestionFilter = model.QuestionFilter

	APIKey = model.APIKey

	Page[T any] = model.Page[T]
)

// The statuses of runs, steps and nodes: see [model.Status].
const (
	Queued    = model.Queued
	Pending   = model.Pending
	Running   = model.Running
	Waiting   = model.Waiting
	Completed = model.Completed
	Failed    = model.Failed
	Cancelled = model.Cancelled
	Skipped   = model.Skipped
)

// The states of a message: see [model.MessageState].
const (
	MessageQueued   = model.MessageQueued
	MessageConsumed = model.MessageConsumed
	MessageHidden   = model.MessageHidden
)

// Types that readers of a log receive, as package log defines them.
//
//nolint:revive // each is documented there
type (
	Record      = log.Record
	Cursor      = log.Cursor
	RunCursor   = log.RunCursor
	Source      = log.Source
	Snapshot    = log.Snapshot
	RunSnapshot = log.RunSnapshot
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
