package data

import (
	"encoding/json"
	"time"
)

// Interrupt is a question of a run, or a call for its client to answer. A row replaces the one with the same RunKey and
// ID.
type Interrupt struct {
	ID        string // of the question; the toolCallId of a frontend call
	RunKey    int64
	Step      int             // the step's number
	Place     string          // with Step: the memo its answer completes
	Frontend  bool            // a frontend call
	Tool      string          // of a frontend call or an approval
	Body      json.RawMessage // the agui.Interrupt; of a frontend call nil or its listed form
	Status    string
	Payload   json.RawMessage // the answer's
	ExpiresAt *time.Time
	CreatedAt time.Time
}

// Question is an open interrupt of a run, as lists show it.
type Question struct {
	Interrupt
	Key            int64  // in the order of insertion
	User           string // the run's owner
	RunID          string
	Agent          string // the agent's or the workflow's name
	ThreadID       string
	ConversationID string
}

// Statuses of an Interrupt. An answer makes it answered, and the answer's span resolved.
const (
	InterruptOpen      = "open"
	InterruptAnswered  = "answered"
	InterruptResolved  = "resolved"
	InterruptCancelled = "cancelled"
)

// Withdrawn returns the status of an interrupt once its run has ended.
func Withdrawn(status string) string {
	switch status {
	case InterruptOpen:
		return InterruptCancelled
	case InterruptAnswered:
		return InterruptResolved
	}
	return status
}

// Answer answers an interrupt: it changes the interrupt's Status and Payload, and completes its memo.
type Answer struct {
	RunKey     int64
	Generation int
	ID         string // the interrupt's
	Step       int    // with Place: the memo
	Place      string
	Payload    json.RawMessage // nil if the interrupt has expired
	Output     json.RawMessage // of the memo
}

// Withdraw cancels the open interrupts of a run that has ended, and resolves those with answers that came too late for a span.
type Withdraw struct{ RunKey int64 }
