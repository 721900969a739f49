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

// Tool is a tool that the client executes.
type Tool struct {
	Name        string          `json:"name"`                 // The tool's name.
	Description string          `json:"description"`          // What the tool does, for the model.
	Parameters  json.RawMessage `json:"parameters,omitempty"` // JSON Schema of the arguments.
	Metadata    json.RawMessage `json:"metadata,omitempty" type:"object"`
}

// Context is a named piece of information for a run.
type Context struct {
	Description string `json:"description"` // What the value is.
	Value       string `json:"value"`       // The information.
}

// ResumeEntry is the answer to an interrupt.
type ResumeEntry struct {
	InterruptID string          `json:"interruptId"`                      // The interrupt.
	Status      string          `json:"status" enum:"resolved,cancelled"` // `resolved` with a payload, or `cancelled` without one.
	Payload     json.RawMessage `json:"payload,omitempty"`                // The answer, valid against the interrupt's `responseSchema`.
	Metadata    json.RawMessage `json:"metadata,omitempty" type:"object"`
}

// RunAgentInput is AG-UI's request to run an agent. In RUN_STARTED, it has what the run adds to the thread.
type RunAgentInput struct {
	ThreadID        string          `json:"threadId"`
	RunID           string          `json:"runId"`
	ProtocolVersion string          `json:"protocolVersion,omitempty"`
	ParentRunID     string          `json:"parentRunId,omitempty"`
	State           json.RawMessage `json:"state,omitempty"`
	Messages        []Message       `json:"messages"` // In RUN_STARTED, messages that the thread did not have before.
	Tools           []Tool          `json:"tools"`
	Context         []Context       `json:"context"`
	ForwardedProps  json.RawMessage `json:"forwardedProps,omitempty"`
	Resume          []ResumeEntry   `json:"resume,omitempty"`

	// Encoded are the stored forms of Messages if they are already encoded. A decoded input has none.
	Encoded []json.RawMessage `json:"-"`
}

// Interrupt is something a run needs from outside before it can continue.
type Interrupt struct {
	ID string `json:"id"` // Use it as `interruptId` of the answer.
	// `tool_call`, `input_required`, `confirmation`, or a reason of the agent.
	Reason         string          `json:"reason"`
	Message        string          `json:"message,omitempty"`                      // The question, for people.
	ToolCallID     string          `json:"toolCallId,omitempty"`                   // The tool call it is about.
	ResponseSchema json.RawMessage `json:"responseSchema,omitempty"`               // JSON Schema of the answer's payload.
	ExpiresAt      string          `json:"expiresAt,omitempty" format:"date-time"` // Expiry time. The server then answers with `cancelled`.
	Metadata       json.RawMessage `json:"metadata,omitempty" type:"object"`       // Further facts, such as the kind of question.
	SubagentRunID  string          `json:"subagentRunId,omitempty"`                // The sub-agent invocation it belongs to.
	Answerable     *bool           `json:"answerable,omitempty"`                   // REST responses only: whether you may answer it.
}

// TokenUsage is the number of tokens used with one provider and model. `inputTokens` and `outputTokens` are totals; the other counts
// are parts of them.
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

// WorkerOutput is the result of a worker. Its last TEXT_MESSAGE_END carries it.
type WorkerOutput struct {
	Status           string          `json:"status" enum:"success,partial_success,failed"` // How the worker ended.
	Answer           string          `json:"answer"`
	KeyPoints        []string        `json:"key_points,omitempty"`
	ResultType       string          `json:"result_type,omitempty"`
	SuggestedActions []string        `json:"suggested_actions,omitempty"`
	Error            *OutputError    `json:"error,omitempty"`
	UIHints          json.RawMessage `json:"ui_hints,omitempty" type:"object"` // Display hints for front ends.

	// The JSON answer of an agent with an output schema.
	//
	// It is the run's result and NODE.output in workflows.
	Result json.RawMessage `json:"result,omitempty"`
}

// ToolOutput is the result of a tool. Its TOOL_CALL_RESULT carries it.
type ToolOutput struct {
	ToolName      string          `json:"tool_name"`                              // The tool.
	ToolCallID    string          `json:"tool_call_id"`                           // The tool call.
	ToolCallArgs  json.RawMessage `json:"tool_call_args,omitempty" type:"object"` // The arguments the tool was called with.
	Status        string          `json:"status" enum:"success,partial,failure"`  // How the call ended.
	ResultSummary string          `json:"result_summary"`                         // The result, as the model reads it.
	UIHints       json.RawMessage `json:"ui_hints,omitempty" type:"object"`       // Display hints for front ends.
	Error         *OutputError    `json:"error,omitempty"`

	// The content as parts, such as images. Absent if `result_summary` is all. The event has them as its own.
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
	Code      string          `json:"code"`                            // The error code.
	Message   string          `json:"message"`                         // What failed, as a sentence.
	Retryable bool            `json:"retryable,omitempty"`             // Whether another attempt may succeed.
	Details   json.RawMessage `json:"details,omitempty" type:"object"` // Further facts, for programs.
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
