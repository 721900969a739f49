package wire

import (
	"encoding/json"
	"time"

	"github.com/batonrun/baton/runtime"
)

// Question is an open interrupt, with its run.
type Question struct {
	ID string `json:"id"` // Use it as `interruptId` of the answer.
	// `tool_call`, `input_required`, `confirmation`, or a reason of the agent.
	Reason         string          `json:"reason"`
	Message        string          `json:"message,omitempty"`                      // The question, for people.
	ToolCallID     string          `json:"toolCallId,omitempty"`                   // The tool call it is about.
	ResponseSchema json.RawMessage `json:"responseSchema,omitempty"`               // JSON Schema of the answer's payload.
	ExpiresAt      string          `json:"expiresAt,omitempty" format:"date-time"` // Expiry time. The server then answers with `cancelled`.
	Metadata       json.RawMessage `json:"metadata,omitempty" type:"object"`       // Further facts, such as the kind of question.
	SubagentRunID  string          `json:"subagentRunId,omitempty"`
	Answerable     bool            `json:"answerable"` // Whether you may answer it.

	ToolName  *string         `json:"toolName"`  // The tool, if a call needs approval or is the client's to execute.
	Arguments json.RawMessage `json:"arguments"` // The call's arguments. Null without arguments to show, or above 64 KiB; the log then has them.

	RunID          string    `json:"runId"`    // The run that waits.
	ThreadID       string    `json:"threadId"` // The run's thread.
	ConversationID string    `json:"conversationId"`
	Agent          string    `json:"agent"`     // The agent or workflow.
	User           string    `json:"user"`      // Owner of the run.
	CreatedAt      time.Time `json:"createdAt"` // Time of the question.
}

// NewQuestion returns a question as lists show it.
func NewQuestion(q *runtime.Asked) Question {
	i := &q.Interrupt
	var call struct {
		ToolName string          `json:"toolName"`
		Input    json.RawMessage `json:"input"`
	}
	if i.ToolCallID != "" {
		_ = json.Unmarshal(i.Metadata, &call) // agents may put anything there
	}
	return Question{
		ToolName: orNull(call.ToolName), Arguments: call.Input,
		ID: i.ID, Reason: i.Reason, Message: i.Message, ToolCallID: i.ToolCallID, ResponseSchema: i.ResponseSchema,
		ExpiresAt: i.ExpiresAt, Metadata: i.Metadata, SubagentRunID: i.SubagentRunID,
		Answerable: i.Answerable != nil && *i.Answerable,
		RunID:      q.RunID, ThreadID: q.ThreadID, ConversationID: q.ConversationID, Agent: q.Agent, User: q.User,
		CreatedAt: stamp(q.CreatedAt),
	}
}
