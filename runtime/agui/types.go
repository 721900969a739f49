package agui

import (
	"encoding/json"
	"fmt"
)

// Role is the author of a message.
type Role string

// The roles of messages. Text messages are never of role tool, reasoning or activity.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleSystem    Role = "system"
	RoleDeveloper Role = "developer"
	RoleTool      Role = "tool"
	RoleReasoning Role = "reasoning"
	RoleActivity  Role = "activity"
)

// Message is one message of a conversation.
type Message struct {
	ID             string
	Role           Role
	Content        string          // the text; empty when Parts is set
	Parts          json.RawMessage // content that is not a string: an array of parts, or an activity's object
	Name           string
	ToolCalls      []ToolCall // role assistant
	ToolCallID     string     // role tool
	Error          string     // role tool
	ActivityType   string     // role activity
	EncryptedValue string
	SubagentRunID  string
	Metadata       json.RawMessage // an object; nil when absent
	Extra          json.RawMessage // an object with unknown members; nil for none
}

// ToolCall is a call that an assistant message carries.
type ToolCall struct {
	ID             string
	Name           string
	Arguments      string // JSON text
	EncryptedValue string
	Metadata       json.RawMessage
}

// Tool is a tool a client offers for a run.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters,omitempty"` // a JSON Schema
	Metadata    json.RawMessage `json:"metadata,omitempty"`
}

// Context is a named piece of ambient information for a run.
type Context struct {
	Description string `json:"description"`
	Value       string `json:"value"`
}

// ResumeEntry answers one interrupt.
type ResumeEntry struct {
	InterruptID string          `json:"interruptId"`
	Status      string          `json:"status"` // "resolved" or "cancelled"
	Payload     json.RawMessage `json:"payload,omitempty"`
	Metadata    json.RawMessage `json:"metadata,omitempty"`
}

// RunAgentInput is AG-UI's request to run an agent; inside RUN_STARTED it has the parts that are new to the thread.
type RunAgentInput struct {
	ThreadID        string          `json:"threadId"`
	RunID           string          `json:"runId"`
	ProtocolVersion string          `json:"protocolVersion,omitempty"`
	ParentRunID     string          `json:"parentRunId,omitempty"`
	State           json.RawMessage `json:"state,omitempty"`
	Messages        []Message       `json:"messages"`
	Tools           []Tool          `json:"tools"`
	Context         []Context       `json:"context"`
	ForwardedProps  json.RawMessage `json:"forwardedProps,omitempty"`
	Resume          []ResumeEntry   `json:"resume,omitempty"`

	// Encoded are the stored forms of Messages if they are already encoded. A decoded input has none.
	Encoded []json.RawMessage `json:"-"`
}

// Interrupt is something a run needs from outside before it can go on.
type Interrupt struct {
	ID             string          `json:"id"`
	Reason         string          `json:"reason"` // "tool_call", "input_required" or "confirmation"
	Message        string          `json:"message,omitempty"`
	ToolCallID     string          `json:"toolCallId,omitempty"`
	ResponseSchema json.RawMessage `json:"responseSchema,omitempty"`
	ExpiresAt      string          `json:"expiresAt,omitempty"` // RFC 3339
	Metadata       json.RawMessage `json:"metadata,omitempty"`
	SubagentRunID  string          `json:"subagentRunId,omitempty"`
	Answerable     *bool           `json:"answerable,omitempty"` // set where a caller asks for it: whether they may answer
}

// TokenUsage counts the tokens of one provider and model. OutputTokens and InputTokens are totals, the
// others parts of them.
type TokenUsage struct {
	Provider              string `json:"provider,omitempty"`
	Model                 string `json:"model,omitempty"`
	InputTokens           int64  `json:"inputTokens,omitempty"`
	OutputTokens          int64  `json:"outputTokens,omitempty"`
	TotalTokens           int64  `json:"totalTokens,omitempty"`
	ReasoningTokens       int64  `json:"reasoningTokens,omitempty"`
	CachedInputTokens     int64  `json:"cachedInputTokens,omitempty"`
	CacheWriteInputTokens int64  `json:"cacheWriteInputTokens,omitempty"`
}

// The statuses of WorkerOutput and ToolOutput.
const (
	StatusSuccess        = "success"
	StatusPartialSuccess = "partial_success" // a worker that was cut short
	StatusPartial        = "partial"         // a tool that returned less than requested
	StatusFailed         = "failed"          // a worker
	StatusFailure        = "failure"         // a tool
)

// WorkerOutput is a worker's result, which its last TEXT_MESSAGE_END carries.
type WorkerOutput struct {
	Status           string          `json:"status"` // StatusSuccess when empty
	Answer           string          `json:"answer"`
	KeyPoints        []string        `json:"key_points,omitempty"`
	ResultType       string          `json:"result_type,omitempty"`
	SuggestedActions []string        `json:"suggested_actions,omitempty"`
	Error            *OutputError    `json:"error,omitempty"`
	UIHints          json.RawMessage `json:"ui_hints,omitempty"` // an object

	// Result is the answer of an agent with an output schema, as JSON. It is the run's result and NODE.output in workflows.
	Result json.RawMessage `json:"result,omitempty"`
}

// ToolOutput is a tool's result, which its TOOL_CALL_RESULT carries.
type ToolOutput struct {
	ToolName      string          `json:"tool_name"`
	ToolCallID    string          `json:"tool_call_id"`
	ToolCallArgs  json.RawMessage `json:"tool_call_args,omitempty"` // an object
	Status        string          `json:"status"`                   // StatusSuccess when empty
	ResultSummary string          `json:"result_summary"`
	UIHints       json.RawMessage `json:"ui_hints,omitempty"` // an object
	Error         *OutputError    `json:"error,omitempty"`

	// Parts are the content as parts, such as images; nil when ResultSummary is all. The event has them as its own.
	Parts json.RawMessage `json:"parts,omitempty"`
}

// Settle sets a tool's missing status to success, and one that does not exist to failure.
func (o *ToolOutput) Settle() {
	switch o.Status {
	case "":
		o.Status = StatusSuccess
	case StatusSuccess, StatusPartial, StatusFailure:
	default:
		if o.Error == nil && o.Status != StatusFailed {
			o.Error = &OutputError{Code: "bad_output", Message: fmt.Sprintf("The tool returned the unknown status %.100q", o.Status)}
		}
		o.Status = StatusFailure
	}
}

// OutputError is the reason why a worker or a tool failed.
type OutputError struct {
	Code      string          `json:"code"`
	Message   string          `json:"message"`
	Retryable bool            `json:"retryable,omitempty"`
	Details   json.RawMessage `json:"details,omitempty"` // an object
}

// Projection is one of the forms an event is written in (the same event, for different readers).
type Projection uint8

// The projections. Each is a pure function of the event.
const (
	Stored Projection = iota // the log's own form: everything but threadId and runId, which columns hold
	Seed                     // complete AG-UI members plus the seed members at top level; dialect 0.0
	AGUI1                    // strictly AG-UI 1.0; seed members only inside metadata
	AGUI0                    // the same for clients of 0.0.55 to 0.0.59
	Public                   // only types and shapes that get_agent_run_events' output schema admits
	numProjections
)
