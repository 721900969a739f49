package wire

import (
	"encoding/json"
	"time"

	"github.com/batonrun/baton/runtime"
)

// Question is an open question of a waiting run, with the run's owner.
type Question struct {
	// These are as in the run's own list.
	ID             string          `json:"id"`
	Reason         string          `json:"reason"`
	Message        string          `json:"message,omitempty"`
	ToolCallID     string          `json:"toolCallId,omitempty"`
	ResponseSchema json.RawMessage `json:"responseSchema,omitempty"`
	ExpiresAt      string          `json:"expiresAt,omitempty"`
	Metadata       json.RawMessage `json:"metadata,omitempty"`
	SubagentRunID  string          `json:"subagentRunId,omitempty"`
	Answerable     bool            `json:"answerable"`

	ToolName  *string         `json:"toolName"`  // of a call that is to be approved, or answered by the client
	Arguments json.RawMessage `json:"arguments"` // likewise; null when they are too large for a list

	RunID          string    `json:"runId"`
	ThreadID       string    `json:"threadId"`
	ConversationID string    `json:"conversationId"`
	Agent          string    `json:"agent"` // the agent's or the workflow's name
	User           string    `json:"user"`
	CreatedAt      time.Time `json:"createdAt"`
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
