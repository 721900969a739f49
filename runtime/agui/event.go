// Package agui is the AG-UI protocol as Baton speaks it: every event type as a Go struct, encoders
// that append an event's bytes in any projection, a decoder that loses nothing, and a Verifier of the
// legal order. It knows nothing of runs, databases or transports and imports only the standard library.
//
// The protocol's source is AG-UI 1.0 (npm @ag-ui/core 1.0.0); members that are Baton's own are marked
// as seed members.
package agui

import (
	"encoding/json"
	"time"
)

// Type is an event's name on the wire.
type Type string

// The event types of AG-UI 1.0 that Baton writes or accepts. The *_CHUNK shorthands are accepted by
// the decoder and never written.
const (
	TypeTextMessageStart        Type = "TEXT_MESSAGE_START"
	TypeTextMessageContent      Type = "TEXT_MESSAGE_CONTENT"
	TypeTextMessageEnd          Type = "TEXT_MESSAGE_END"
	TypeTextMessageChunk        Type = "TEXT_MESSAGE_CHUNK"
	TypeToolCallStart           Type = "TOOL_CALL_START"
	TypeToolCallArgs            Type = "TOOL_CALL_ARGS"
	TypeToolCallEnd             Type = "TOOL_CALL_END"
	TypeToolCallChunk           Type = "TOOL_CALL_CHUNK"
	TypeToolCallResult          Type = "TOOL_CALL_RESULT"
	TypeStateSnapshot           Type = "STATE_SNAPSHOT"
	TypeStateDelta              Type = "STATE_DELTA"
	TypeMessagesSnapshot        Type = "MESSAGES_SNAPSHOT"
	TypeActivitySnapshot        Type = "ACTIVITY_SNAPSHOT"
	TypeActivityDelta           Type = "ACTIVITY_DELTA"
	TypeRaw                     Type = "RAW"
	TypeCustom                  Type = "CUSTOM"
	TypeRunStarted              Type = "RUN_STARTED"
	TypeRunFinished             Type = "RUN_FINISHED"
	TypeRunError                Type = "RUN_ERROR"
	TypeStepStarted             Type = "STEP_STARTED"
	TypeStepFinished            Type = "STEP_FINISHED"
	TypeReasoningStart          Type = "REASONING_START"
	TypeReasoningMessageStart   Type = "REASONING_MESSAGE_START"
	TypeReasoningMessageContent Type = "REASONING_MESSAGE_CONTENT"
	TypeReasoningMessageEnd     Type = "REASONING_MESSAGE_END"
	TypeReasoningMessageChunk   Type = "REASONING_MESSAGE_CHUNK"
	TypeReasoningEnd            Type = "REASONING_END"
	TypeReasoningEncryptedValue Type = "REASONING_ENCRYPTED_VALUE"
	TypeSubagentStarted         Type = "SUBAGENT_STARTED"
	TypeSubagentFinished        Type = "SUBAGENT_FINISHED"
	TypeSubagentError           Type = "SUBAGENT_ERROR"
)

// Event is one AG-UI event. The implementations are the structs of this package, used as values.
type Event interface {
	// Type is the event's name on the wire.
	Type() Type
	// Common returns the members every event has.
	Common() Base
	// WithCommon returns the event with its common members replaced.
	WithCommon(Base) Event
	// AppendJSON appends the event as one line of JSON in projection p. It does not apply Project: see AppendSSE and
	// Project.
	AppendJSON(dst []byte, p Projection) []byte
}

// Base holds the members every event may carry.
type Base struct {
	ThreadID      string          // the client's own thread id; on every event of the seed projection
	RunID         string          // the run's name in this span; on every event of the seed projection
	Agent         string          // seed member: the agent that emitted the event
	SubagentRunID string          // the sub-agent invocation the event belongs to
	Timestamp     int64           // milliseconds since 1970, 0 when absent
	Metadata      json.RawMessage // a JSON object, AG-UI's own extension channel; nil when absent
	RawEvent      json.RawMessage // the provider's own event; nil when absent
	Extra         json.RawMessage // a JSON object with unknown members; nil for none
}

// Timed reports whether events like ev have a timestamp. Deltas have none, as there are too many of them.
func Timed(ev Event) bool {
	switch ev.Type() {
	case TypeRunStarted, TypeRunFinished, TypeRunError, TypeStepStarted, TypeStepFinished,
		TypeTextMessageStart, TypeTextMessageEnd, TypeToolCallStart, TypeToolCallEnd, TypeToolCallResult,
		TypeReasoningStart, TypeReasoningMessageStart, TypeReasoningMessageEnd, TypeReasoningEnd,
		TypeSubagentStarted, TypeSubagentFinished, TypeSubagentError,
		TypeStateSnapshot, TypeMessagesSnapshot, TypeActivitySnapshot:
		return true
	case TypeCustom:
		c, ok := ev.(Custom)
		return ok && c.Name == ModelCallEvent
	}
	return false
}

// At returns ev with the time t, unless it has a time already or is not Timed.
func At(t time.Time, ev Event) Event {
	base := ev.Common()
	if base.Timestamp != 0 || !Timed(ev) {
		return ev
	}
	base.Timestamp = t.UnixMilli()
	return ev.WithCommon(base)
}

// Common returns b itself.
func (b Base) Common() Base { return b }

// RunStarted opens a span of a run.
type RunStarted struct {
	Base
	AgentID         string         // seed member
	ProtocolVersion string         // "1.0" towards clients of dialect 1.0
	ParentRunID     string         // the run's first name, when RunID is a later one
	Input           *RunAgentInput // the parts that are new to the thread; nil for none
}

// RunFinished ends a span of a run that did not fail.
type RunFinished struct {
	Base
	Result  json.RawMessage
	Outcome Outcome
	Usage   []TokenUsage
}

// OutcomeType is the reason why a span ended without failing.
type OutcomeType string

// The outcomes of RUN_FINISHED; an absent one means success.
const (
	OutcomeNone      OutcomeType = ""
	OutcomeSuccess   OutcomeType = "success"
	OutcomeInterrupt OutcomeType = "interrupt"
	OutcomeCancelled OutcomeType = "cancelled"
)

// Outcome is the way in which a span ended that did not fail.
type Outcome struct {
	Type               OutcomeType `json:"type"`
	Interrupts         []Interrupt `json:"interrupts,omitempty"`         // With `interrupt`: the run's open questions. Each can be answered on its own.
	PendingToolCallIDs []string    `json:"pendingToolCallIds,omitempty"` // With `success`: calls of the client's tools that the run waits for.
}

// RunError ends a span of a run that failed.
type RunError struct {
	Base
	Message string
	Code    string
	Usage   []TokenUsage
}

// StepStarted opens a named step; the name is unique among the open steps of a run.
type StepStarted struct {
	Base
	StepName string
}

// StepFinished closes a named step.
type StepFinished struct {
	Base
	StepName string
}

// TextMessageStart opens a streamed text message.
type TextMessageStart struct {
	Base
	MessageID string
	Role      Role
	Name      string
	Stage     string // seed member
}

// TextMessageContent appends a fragment, never an empty one, to an open text message.
type TextMessageContent struct {
	Base
	MessageID string
	Delta     string
}

// TextMessageEnd closes a text message.
type TextMessageEnd struct {
	Base
	MessageID string
	Output    *WorkerOutput // seed member workerAgentOutput; always present in the log
}

// ToolCallStart opens a tool call.
type ToolCallStart struct {
	Base
	ToolCallID      string
	ToolCallName    string
	ParentMessageID string // the assistant message of the call; empty for none
}

// ToolCallArgs appends a fragment of a call's arguments.
type ToolCallArgs struct {
	Base
	ToolCallID string
	Delta      string
}

// ToolCallEnd ends a call's arguments.
type ToolCallEnd struct {
	Base
	ToolCallID string
}

// ToolCallResult carries a tool's result; Content is Output.ResultSummary.
type ToolCallResult struct {
	Base
	MessageID  string
	ToolCallID string
	Content    string
	Parts      json.RawMessage // content parts, which AGUI1 writes instead of Content; nil when absent
	Output     *ToolOutput     // seed member toolAgentOutput; always present in the log
}

// StateSnapshot replaces the thread's state.
type StateSnapshot struct {
	Base
	Snapshot json.RawMessage
}

// StateDelta changes the thread's state by an RFC 6902 patch.
type StateDelta struct {
	Base
	Delta json.RawMessage
}

// MessagesSnapshot replaces the thread's messages.
type MessagesSnapshot struct {
	Base
	Messages []Message
}

// ActivitySnapshot creates or replaces an activity message.
type ActivitySnapshot struct {
	Base
	MessageID    string
	ActivityType string
	Content      json.RawMessage // an object
	Replace      *bool           // nil when absent, which means true
}

// ActivityDelta changes an activity message's content by an RFC 6902 patch.
type ActivityDelta struct {
	Base
	MessageID    string
	ActivityType string
	Patch        json.RawMessage
}

// ReasoningStart opens a span of reasoning.
type ReasoningStart struct {
	Base
	MessageID string
}

// ReasoningMessageStart opens a streamed reasoning message; its role is always "reasoning".
type ReasoningMessageStart struct {
	Base
	MessageID string
}

// ReasoningMessageContent appends a fragment to an open reasoning message.
type ReasoningMessageContent struct {
	Base
	MessageID string
	Delta     string
}

// ReasoningMessageEnd closes a reasoning message.
type ReasoningMessageEnd struct {
	Base
	MessageID string
}

// ReasoningEnd closes a span of reasoning.
type ReasoningEnd struct {
	Base
	MessageID string
}

// ReasoningEncryptedValue attaches an opaque value to a message or a tool call.
type ReasoningEncryptedValue struct {
	Base
	Subtype        string // "tool-call" or "message"
	EntityID       string
	EncryptedValue string
}

// SubagentStarted opens one invocation of a sub-agent, named by Base.SubagentRunID.
type SubagentStarted struct {
	Base
	Name                string
	Description         string
	ParentSubagentRunID string
	ParentToolCallID    string
	ParentMessageID     string
}

// SubagentFinished closes a sub-agent that did not fail. Its stored metadata has "name".
type SubagentFinished struct {
	Base
	Result  json.RawMessage
	Outcome json.RawMessage // {"type": "success"} or {"type": "suspended", "interruptIds": […]}; nil when absent
}

// SubagentError closes a sub-agent that failed without ending the run. Its stored metadata has "name".
type SubagentError struct {
	Base
	Message string
	Code    string
}

// Custom is an application's own event.
type Custom struct {
	Base
	Name  string
	Value json.RawMessage // any JSON value; "null" for none
}

// Raw passes a provider's event through untranslated.
type Raw struct {
	Base
	Event  json.RawMessage
	Source string
}

// Unknown is an event of a type this package does not know, or one of the *_CHUNK shorthands.
type Unknown struct {
	Base
	Name Type            // [A-Z][A-Z0-9_]{0,63}
	Body json.RawMessage // an object of its members but type and the common ones, on one line; nil for none
}
