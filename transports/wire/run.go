package wire

import (
	"encoding/json"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// Page is a page of a list.
type Page[T any] struct {
	Items      []T     `json:"items"`
	NextCursor *string `json:"nextCursor"` // The `cursor` of the next page. Null on the last page.
	// Number of items in the whole list. Always present for a run's steps, messages and model calls. Other lists are counted with
	// `count=true`, else it is null. It is also null for more than 10 000 items, and if counting would read more than a page does.
	Total *int `json:"total"`
}

// Items is a whole list.
type Items[T any] struct {
	Items []T `json:"items"`
}

// Run is a run.
type Run struct {
	ID             string            `json:"id"`             // The name its client gave it.
	ProjectID      string            `json:"projectId"`      // The project.
	WorkflowID     string            `json:"workflowId"`     // The workflow. The agent's name if the run is of a single agent.
	Status         runtime.Status    `json:"status"`         // The run's status.
	InputQuery     string            `json:"inputQuery"`     // Text of the user message that started the run.
	OutputSummary  *string           `json:"outputSummary"`  // Answer of the last worker.
	StartedAt      *time.Time        `json:"startedAt"`      // Start time. Null until the run starts.
	FinishedAt     *time.Time        `json:"finishedAt"`     // End time. Null until the run ends.
	ContextItemIDs []string          `json:"contextItemIds"` // The `contextItemIds` of the request.
	ThreadID       string            `json:"threadId"`       // The thread's name, as chosen by the client.
	ThreadTitle    *string           `json:"threadTitle"`    // Null if the thread has no title.
	ConversationID string            `json:"conversationId"` // Baton's own id of the thread, a UUID.
	Agent          *string           `json:"agent"`          // Null for a workflow.
	Error          *agui.OutputError `json:"error"`          // Why the run failed. Null without an error.
	Generation     int               `json:"generation"`     // Number of this generation. Starts at 1 and increases with each restart.
	Usage          []agui.TokenUsage `json:"usage"`          // Tokens by provider and model.
	User           string            `json:"user"`           // The owner of the run.
	// Attempts to execute the run. 0 until it starts, then 1, and one more for each crash in a row.
	Attempts     int   `json:"attempts"`
	InputTokens  int64 `json:"inputTokens"`  // Total of input tokens.
	OutputTokens int64 `json:"outputTokens"` // Total of output tokens.
	// Cost of its tokens at the current prices of the agents. Null if one of its models has no price.
	Cost        *float64         `json:"cost"`
	CreatedAt   time.Time        `json:"createdAt"`                        // Creation time.
	ParentRunID *string          `json:"parentRunId"`                      // The run that this run was started for.
	Interrupts  []agui.Interrupt `json:"interrupts"`                       // Its open interrupts.
	Metadata    json.RawMessage  `json:"metadata,omitempty" type:"object"` // Metadata of the request. Absent in lists and if the request had none.
	LastEvent   *LastEvent       `json:"lastEvent,omitempty"`              // The run's latest event. Absent in lists.
	// Why the run is not executing. Present only while it is QUEUED, has no execution slot, or is parked.
	Waiting *Waiting `json:"waiting,omitempty"`

	Overrides *plugins.ModelOverrides `json:"overrides,omitempty"` // Replaced parts of the agent's configuration. Absent in lists.
}

// Waiting is the reason why a run is not executing. It is present only while the run is QUEUED, has no execution slot, or
// is parked.
type Waiting struct {
	// `thread_busy`: another run of the thread executes. `thread_waiting`: another run of the thread waits for an answer.
	// `user_limit`, `project_limit`, `agent_limit`, `server_limit`: the number or total size of concurrent runs is at its limit.
	// `provider_pace`: the model's provider accepts no calls at present, so the run has lent its slot. `no_server`: no server
	// executes runs of this agent. `time`: the run waits until a time of its own.
	// `event`: the run waits for an event from outside.
	Reason string `json:"reason" enum:"thread_busy,thread_waiting,user_limit,project_limit,agent_limit,server_limit,provider_pace,no_server,time,event"`
	Name   string `json:"name,omitempty"`   // With `event`: the name of the event.
	Behind string `json:"behind,omitempty"` // The run of the same thread that goes first.
	// Place among the thread's queued runs, or among the user's threads whose next run is queued. 1 is next.
	Position int       `json:"position,omitempty"`
	Since    time.Time `json:"since"` // When the run was queued, lent its slot, asked to have it back, or began to wait.
	// With `provider_pace`: when the provider accepts calls again, if known. With `no_server`: when the run fails if no server offers
	// its agent. With `time`: when the run goes on. With `event`: when it goes on without the event.
	Until *time.Time `json:"until,omitempty"`
}

// NewWaiting returns why a run does not begin or go on, nil for no reason.
func NewWaiting(w *runtime.Wait) *Waiting {
	if w == nil {
		return nil
	}
	shown := &Waiting{Reason: w.Reason, Name: w.Name, Behind: w.Behind, Position: w.Position, Since: stamp(w.Since)}
	if !w.Until.IsZero() {
		shown.Until = stampOrNull(&w.Until)
	}
	return shown
}

// LastEvent is the latest event of a run.
type LastEvent struct {
	ID        int64      `json:"id"`
	Type      agui.Type  `json:"type"`
	Timestamp *time.Time `json:"timestamp"` // Null if unknown.
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
	Error          *string `json:"error"`          // Why it failed, as a sentence. Null without an error.
	ErrorCode      *string `json:"errorCode"`      // The error code. Null without an error.
	ErrorRetryable *bool   `json:"errorRetryable"` // Whether another attempt may succeed. Null without an error.
}

func newFailure(err *agui.OutputError) Failure {
	if err == nil {
		return Failure{}
	}
	return Failure{Error: &err.Message, ErrorCode: &err.Code, ErrorRetryable: &err.Retryable}
}

// Step is one execution of a node.
type Step struct {
	ID         string         `json:"id"`                                                       // The step's id.
	RunID      string         `json:"runId"`                                                    // The run.
	StepNumber int            `json:"stepNumber"`                                               // Order of the start, from 1.
	NodeID     string         `json:"nodeId"`                                                   // The node.
	Round      int            `json:"round,omitempty"`                                          // The round of a node with `repeat`, from 1. Absent for other nodes.
	Item       *StepItem      `json:"item"`                                                     // The item of the node's map. Null without a map.
	Status     runtime.Status `json:"status" enum:"RUNNING,WAITING,COMPLETED,FAILED,CANCELLED"` // The step's status.
	Input      string         `json:"input"`                                                    // The input, as text.
	Output     *string        `json:"output"`                                                   // The output, as text. Null until the step ends.
	Failure
	DurationMs  *int64     `json:"durationMs"`  // Null until the step ends.
	StartedAt   time.Time  `json:"startedAt"`   // Start time.
	CompletedAt *time.Time `json:"completedAt"` // End time. Null until the step ends.
}

// StepItem identifies an item of a node's map. The events of its steps are named after the node and the index, such as `read[3]`.
type StepItem struct {
	Index int    `json:"index"` // Its place in the list, from 0.
	Key   string `json:"key"`   // Its key, by default the index.
}

// NewStep returns the resource of a step of the run named runID.
func NewStep(runID string, s *runtime.Step) Step {
	step := Step{
		ID: s.ID, RunID: runID, StepNumber: s.Number, NodeID: s.NodeID, Round: s.Round, Status: s.Status,
		Input: s.Input, Output: s.Output, Failure: newFailure(s.Error),
		StartedAt: stamp(s.StartedAt), CompletedAt: stampOrNull(s.CompletedAt),
	}
	if s.Item != nil {
		step.Item = &StepItem{s.Item.Index, s.Item.Key}
	}
	if step.CompletedAt != nil {
		ms := max(0, step.CompletedAt.Sub(step.StartedAt).Milliseconds())
		step.DurationMs = &ms
	}
	return step
}

// Node is the state of one node of a run.
type Node struct {
	RunID    string         `json:"runId"`                                                                    // The run.
	NodeID   string         `json:"nodeId"`                                                                   // The node.
	Round    int            `json:"round,omitempty"`                                                          // The latest round of a node with `repeat`, from 1. Absent for other nodes and before the first.
	Status   runtime.Status `json:"status" enum:"PENDING,RUNNING,WAITING,COMPLETED,FAILED,CANCELLED,SKIPPED"` // The node's status.
	Progress float64        `json:"progress"`                                                                 // From 0 to 1.
	Messages []string       `json:"messages"`                                                                 // Progress messages of the node.
	Map      *NodeMap       `json:"map"`                                                                      // The items of the node's map. Null without a map, and until it begins.
	// Start time. Null until the node starts.
	StartedAt   *time.Time `json:"startedAt"`
	CompletedAt *time.Time `json:"completedAt"` // End time. Null until the node ends.
	Failure
}

// NodeMap counts the items of a node's map.
type NodeMap struct {
	Items  int `json:"items"`  // All items.
	Done   int `json:"done"`   // Those that have succeeded.
	Failed int `json:"failed"` // Those that have failed.
}

// NewNode returns the resource of a node of the run named runID.
func NewNode(runID string, n *runtime.Node) Node {
	node := Node{
		RunID: runID, NodeID: n.NodeID, Round: n.Round, Status: n.Status, Progress: n.Progress, Messages: list(n.Messages),
		StartedAt: stampOrNull(n.StartedAt), CompletedAt: stampOrNull(n.CompletedAt), Failure: newFailure(n.Error),
	}
	if n.Map != nil {
		node.Map = &NodeMap{n.Map.Items, n.Map.Done, n.Map.Failed}
	}
	return node
}

// Message is a message of a run.
type Message struct {
	ID             string    `json:"id"`             // The message id.
	RunID          string    `json:"runId"`          // The run.
	Role           agui.Role `json:"role"`           // The author's role.
	Content        string    `json:"content"`        // The text. Media parts are left out.
	ContextItemIDs []string  `json:"contextItemIds"` // The `contextItemIds` of the request.
	CreatedAt      time.Time `json:"createdAt"`      // Creation time.
}

// NewMessage returns the resource of a message of the run named runID.
func NewMessage(runID string, m *runtime.Message) Message {
	return Message{
		ID: m.ID, RunID: runID, Role: m.Role, Content: m.Text(),
		ContextItemIDs: list(m.ContextItemIDs), CreatedAt: stamp(m.CreatedAt),
	}
}

// Cancelled is a cancelled run.
type Cancelled struct {
	ID         string         `json:"id"`         // The run.
	Status     runtime.Status `json:"status"`     // The run's status.
	FinishedAt *time.Time     `json:"finishedAt"` // End time.
}

// NewCancelled returns the answer for a run that is cancelled.
func NewCancelled(r *runtime.Run) Cancelled {
	return Cancelled{ID: r.ID, Status: r.Status, FinishedAt: stampOrNull(r.FinishedAt)}
}

// Delivered is the answer to an event.
type Delivered struct {
	Delivered bool `json:"delivered"` // Whether the run waited for the event and goes on. Otherwise the event is kept.
}

// Resumed is a run that continues.
type Resumed struct {
	ID     string         `json:"id"`     // The run.
	Status runtime.Status `json:"status"` // The run's status.
}

// NewResumed returns the answer for a continued run.
func NewResumed(r *runtime.Run) Resumed { return Resumed{ID: r.ID, Status: r.Status} }
