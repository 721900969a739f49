package wire

import (
	"encoding/json"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// History is a day of a thread's messages.
type History struct {
	Type     string      `json:"type" enum:"STATE_SNAPSHOT"`
	ThreadID string      `json:"threadId,omitempty"` // Absent if the thread does not exist yet.
	Snapshot HistoryPart `json:"snapshot"`
}

// HistoryPart are the messages of one day.
//
// They come last, so that a long day can be written piece by piece.
type HistoryPart struct {
	Scope    string           `json:"scope" enum:"history_day"`
	ThreadID *string          `json:"threadId"`          // The thread.
	Day      *string          `json:"day" format:"date"` // The day in UTC. Null if there are no messages.
	HasMore  bool             `json:"hasMore"`           // Whether an earlier day has messages.
	Messages []HistoryMessage `json:"messages"`          // The day's messages, in order.
}

// HistoryMessage is a message in a thread's history.
type HistoryMessage struct {
	ID      string    `json:"id"`                                     // The message id.
	Seq     int64     `json:"seq"`                                    // Position of the message. Increases over the whole thread.
	Role    agui.Role `json:"role" enum:"user,assistant,system,tool"` // The author's role.
	Content string    `json:"content"`                                // The text. Messages that are more than text have their parts in `metadata`.
	// `toolCalls`, `toolCallId`, `parts`, `attachments`, and members added by agents.
	Metadata  json.RawMessage `json:"metadata,omitempty" type:"object"`
	Timestamp time.Time       `json:"timestamp"` // Time of the message.
}

// NewHistory returns the answer without the day's messages.
func NewHistory(h runtime.History) History {
	answer := History{Type: string(agui.TypeStateSnapshot), ThreadID: h.Thread.ID, Snapshot: HistoryPart{
		Scope: "history_day", ThreadID: orNull(h.Thread.ID), HasMore: h.HasMore,
		Messages: []HistoryMessage{},
	}}
	if !h.Day.IsZero() {
		day := h.Day.Format(time.DateOnly)
		answer.Snapshot.Day = &day
	}
	return answer
}

// NewHistoryMessage returns a message in the form of histories. Its metadata has the members without a field there: toolCalls,
// toolCallId, and the parts of a message that is more than text.
func NewHistoryMessage(m *runtime.Message) HistoryMessage {
	msg := HistoryMessage{ID: m.ID, Seq: m.Seq, Role: m.Role, Content: m.Text(), Timestamp: stamp(m.CreatedAt)}
	if m.Role == agui.RoleDeveloper {
		msg.Role = agui.RoleSystem
	}
	more, _ := json.Marshal(struct { // of values that have been decoded
		ToolCalls  []agui.ToolCall `json:"toolCalls,omitempty"`
		ToolCallID string          `json:"toolCallId,omitempty"`
		Parts      json.RawMessage `json:"parts,omitempty"`
	}{m.ToolCalls, m.ToolCallID, m.Parts})
	msg.Metadata = m.Metadata
	if string(more) != "{}" {
		msg.Metadata = agui.MergeMetadata(m.Metadata, more)
	}
	return msg
}

// Day reads a day like 2024-01-15, nil for "".
func Day(name, day string) (*time.Time, error) {
	if day == "" {
		return nil, nil
	}
	t, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return nil, Refuse(codeRequest, "%s must be a day like 2024-01-15", name)
	}
	return &t, nil
}
