package wire

import (
	"encoding/json"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// Page is one page of a list.
type Page[T any] struct {
	Items      []T     `json:"items"`
	NextCursor *string `json:"nextCursor"` // null on the last page
	Total      *int    `json:"total"`      // of the whole list, counted up to 10 000; null when that takes too long
}

// Items is a list that has no pages.
type Items[T any] struct {
	Items []T `json:"items"`
}

// Run is a run as a resource.
type Run struct {
	ID             string            `json:"id"`
	ProjectID      string            `json:"projectId"`
	WorkflowID     string            `json:"workflowId"` // the agent's name for a single agent
	Status         runtime.Status    `json:"status"`
	InputQuery     string            `json:"inputQuery"`
	OutputSummary  *string           `json:"outputSummary"`
	StartedAt      *time.Time        `json:"startedAt"`
	FinishedAt     *time.Time        `json:"finishedAt"`
	ContextItemIDs []string          `json:"contextItemIds"`
	ThreadID       string            `json:"threadId"`
	ThreadTitle    *string           `json:"threadTitle"`
	ConversationID string            `json:"conversationId"`
	Agent          *string           `json:"agent"` // null for a workflow
	Error          *agui.OutputError `json:"error"`
	Generation     int               `json:"generation"` // counts restarts, from 1
	Usage          []agui.TokenUsage `json:"usage"`
	User           string            `json:"user"`
	Attempts       int               `json:"attempts"` // to execute it: 1 once it has started, and one more for each crash in a row
	InputTokens    int64             `json:"inputTokens"`
	OutputTokens   int64             `json:"outputTokens"`
	Cost           *float64          `json:"cost"` // of its tokens by the agents' prices; null if an agent has no price
	CreatedAt      time.Time         `json:"createdAt"`
	ParentRunID    *string           `json:"parentRunId"`
	Interrupts     []agui.Interrupt  `json:"interrupts"`          // its open questions
	Metadata       json.RawMessage   `json:"metadata,omitempty"`  // of its request, an object; not in lists
	LastEvent      *LastEvent        `json:"lastEvent,omitempty"` // its latest event; not in lists
	Waiting        *Waiting          `json:"waiting,omitempty"`   // why it does not begin or go on

	Overrides *plugins.ModelOverrides `json:"overrides,omitempty"` // of its agent; not in lists
}

// Waiting is why a run does not begin or go on.
type Waiting struct {
	Reason   string     `json:"reason"` // see [runtime.Wait]
	Behind   string     `json:"behind,omitempty"`
	Position int        `json:"position,omitempty"`
	Since    time.Time  `json:"since"`
	Until    *time.Time `json:"until,omitempty"` // none if it is unknown
}

// NewWaiting returns why a run does not begin or go on, nil for no reason.
func NewWaiting(w *runtime.Wait) *Waiting {
	if w == nil {
		return nil
	}
	shown := &Waiting{Reason: w.Reason, Behind: w.Behind, Position: w.Position, Since: stamp(w.Since)}
	if !w.Until.IsZero() {
		shown.Until = stampOrNull(&w.Until)
	}
	return shown
}

// LastEvent is the latest event of a run.
type LastEvent struct {
	ID        int64      `json:"id"`
	Type      agui.Type  `json:"type"`
	Timestamp *time.Time `json:"timestamp"` // null when that is not known
}

// NewLastEvent returns the latest event of a run, nil for none.
func NewLastEvent(e *runtime.LastEvent) *LastEvent {
	if e == nil {
		return nil
	}
	last := &LastEvent{ID: e.ID, Type: e.Type}
	if !e.At.IsZero() {
		last.Timestamp = stampOrNull(&e.At)
	}
	return last
}

// NewRun returns the resource of a run with its open interrupts and its cost, nil for unknown.
func NewRun(r *runtime.Run, interrupts []agui.Interrupt, cost *float64) Run {
	run := Run{
		ID: r.ID, ProjectID: r.Project, WorkflowID: r.WorkflowID, Status: r.Status,
		InputQuery: r.InputQuery, OutputSummary: r.OutputSummary,
		StartedAt: stampOrNull(r.StartedAt), FinishedAt: stampOrNull(r.FinishedAt),
		ContextItemIDs: list(r.ContextItemIDs), ThreadID: r.ThreadID, ConversationID: r.ConversationID,
		Agent: orNull(r.Agent), Error: r.Error, Generation: r.Generation, Usage: list(r.Usage),
		CreatedAt: stamp(r.CreatedAt), ParentRunID: orNull(r.ParentRun), Interrupts: list(interrupts),
		User: r.User, Cost: cost, ThreadTitle: orNull(r.ThreadTitle), Metadata: r.Metadata, Overrides: runtime.Overrides(r),
	}
	if r.StartedAt != nil {
		run.Attempts = r.Attempt + 1
	}
	for _, u := range r.Usage {
		run.InputTokens += u.InputTokens
		run.OutputTokens += u.OutputTokens
	}
	return run
}

// Failure is why a step or node failed. Its fields are null without an error.
type Failure struct {
	Error          *string `json:"error"` // a sentence
	ErrorCode      *string `json:"errorCode"`
	ErrorRetryable *bool   `json:"errorRetryable"`
}

func newFailure(err *agui.OutputError) Failure {
	if err == nil {
		return Failure{}
	}
	return Failure{Error: &err.Message, ErrorCode: &err.Code, ErrorRetryable: &err.Retryable}
}

// Step is one execution of a node of a run.
type Step struct {
	ID         string         `json:"id"`
	RunID      string         `json:"runId"`
	StepNumber int            `json:"stepNumber"`
	NodeID     string         `json:"nodeId"`
	Status     runtime.Status `json:"status"`
	Input      string         `json:"input"`
	Output     *string        `json:"output"`
	Failure
	DurationMs  *int64     `json:"durationMs"` // null until it is over
	StartedAt   time.Time  `json:"startedAt"`
	CompletedAt *time.Time `json:"completedAt"`
}

// NewStep returns the resource of a step of the run named runID.
func NewStep(runID string, s *runtime.Step) Step {
	step := Step{
		ID: s.ID, RunID: runID, StepNumber: s.Number, NodeID: s.NodeID, Status: s.Status,
		Input: s.Input, Output: s.Output, Failure: newFailure(s.Error),
		StartedAt: stamp(s.StartedAt), CompletedAt: stampOrNull(s.CompletedAt),
	}
	if step.CompletedAt != nil {
		ms := max(0, step.CompletedAt.Sub(step.StartedAt).Milliseconds())
		step.DurationMs = &ms
	}
	return step
}

// Node is the state of a node of a run.
type Node struct {
	RunID       string         `json:"runId"`
	NodeID      string         `json:"nodeId"`
	Status      runtime.Status `json:"status"`
	Progress    float64        `json:"progress"` // 0..1
	Messages    []string       `json:"messages"`
	StartedAt   *time.Time     `json:"startedAt"`
	CompletedAt *time.Time     `json:"completedAt"`
	Failure
}

// NewNode returns the resource of a node of the run named runID.
func NewNode(runID string, n *runtime.Node) Node {
	return Node{
		RunID: runID, NodeID: n.NodeID, Status: n.Status, Progress: n.Progress, Messages: list(n.Messages),
		StartedAt: stampOrNull(n.StartedAt), CompletedAt: stampOrNull(n.CompletedAt), Failure: newFailure(n.Error),
	}
}

// Message is a message of a run.
type Message struct {
	ID             string    `json:"id"`
	RunID          string    `json:"runId"`
	Role           agui.Role `json:"role"`
	Content        string    `json:"content"` // the text; media parts are left out
	ContextItemIDs []string  `json:"contextItemIds"`
	CreatedAt      time.Time `json:"createdAt"`
}

// NewMessage returns the resource of a message of the run named runID.
func NewMessage(runID string, m *runtime.Message) Message {
	return Message{
		ID: m.ID, RunID: runID, Role: m.Role, Content: m.Text(),
		ContextItemIDs: list(m.ContextItemIDs), CreatedAt: stamp(m.CreatedAt),
	}
}

// Cancelled is the answer to a request to cancel a run.
type Cancelled struct {
	ID         string         `json:"id"`
	Status     runtime.Status `json:"status"`
	FinishedAt *time.Time     `json:"finishedAt"`
}

// NewCancelled returns the answer for a run that is cancelled.
func NewCancelled(r *runtime.Run) Cancelled {
	return Cancelled{ID: r.ID, Status: r.Status, FinishedAt: stampOrNull(r.FinishedAt)}
}

// Resumed is the answer to a request that answers a run's questions.
type Resumed struct {
	ID     string         `json:"id"`
	Status runtime.Status `json:"status"`
}

// NewResumed returns the answer for a continued run.
func NewResumed(r *runtime.Run) Resumed { return Resumed{ID: r.ID, Status: r.Status} }
