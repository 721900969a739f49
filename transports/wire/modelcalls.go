package wire

import (
	"encoding/json"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// ModelCall is a model call of a run.
type ModelCall struct {
	ID           string            `json:"id"`   // The `callId` of the run's `model-call` events.
	Step         int               `json:"step"` // Number of the step.
	Provider     *string           `json:"provider"`
	Model        *string           `json:"model"`
	Status       string            `json:"status" enum:"started,finished,failed,interrupted"` // The call's status.
	FinishReason *string           `json:"finishReason"`
	Usage        *agui.TokenUsage  `json:"usage"` // Null until the call ends, and if the provider reported no usage.
	Cost         *float64          `json:"cost"`  // Cost of its tokens at the current prices of the agents. Null if its model has no price.
	Error        *agui.OutputError `json:"error"`
	FirstTokenMs *int64            `json:"firstTokenMs"` // Milliseconds from the start of the call to the first token.
	DurationMs   *int64            `json:"durationMs"`   // Duration in milliseconds. Null until the call ends.
	StartedAt    time.Time         `json:"startedAt"`
}

// NewModelCall returns the resource of a call of a model with its cost, nil for unknown.
func NewModelCall(c *runtime.ModelCall, costs func([]agui.TokenUsage) *float64) ModelCall {
	call := ModelCall{
		ID: c.ID, Step: c.Step, Provider: orNull(c.Provider), Model: orNull(c.Model), Status: c.Status, FinishReason: orNull(c.FinishReason),
		Error: c.Error, FirstTokenMs: milliseconds(c.FirstToken), DurationMs: milliseconds(c.Took), StartedAt: stamp(c.StartedAt),
	}
	if c.Usage != (agui.TokenUsage{}) {
		call.Usage, call.Cost = &c.Usage, costs([]agui.TokenUsage{c.Usage})
	}
	return call
}

// milliseconds returns a duration, nil for none.
func milliseconds(d time.Duration) *int64 {
	if d <= 0 {
		return nil
	}
	return new(d.Milliseconds())
}

// NewModelCalls makes a page of a run's calls of models.
func NewModelCalls(l List, read runtime.Page[runtime.ModelCall], costs func([]agui.TokenUsage) *float64) Page[ModelCall] {
	return newPage(read, func(c *runtime.ModelCall) ModelCall { return NewModelCall(c, costs) },
		func(c *runtime.ModelCall) string { return l.CursorBehind(c.ID) })
}

// WholeModelCall is a model call with its prompt and answer.
type WholeModelCall struct {
	ModelCall

	Sent     *SentPrompt  `json:"sent"`     // The prompt. Null if the server keeps no prompts.
	Answered *ModelAnswer `json:"answered"` // The answer. Null until the call ends, without an answer, and if the server keeps no prompts.
}

// SentPrompt is the prompt that was sent to the model.
type SentPrompt struct {
	System     string                 `json:"system"`                   // The instructions. Empty for users and viewers.
	Messages   []SentMessage          `json:"messages"`                 // The messages, in order.
	Tools      []plugins.PromptTool   `json:"tools"`                    // The tools. Empty for users and viewers.
	Parameters json.RawMessage        `json:"parameters" type:"object"` // The parameters that are set, such as `temperature`.
	Changes    []plugins.PromptChange `json:"changes"`                  // Differences between the log and the prompt.
	// Sizes of the instructions and tools, for users and viewers, who do not see them. Absent for operators.
	Hidden *runtime.HiddenPrompt `json:"hidden,omitempty"`
}

// SentMessage is a message of a prompt.
type SentMessage struct {
	ID         string          `json:"id,omitempty"` // The thread's message that was sent unchanged.
	Role       agui.Role       `json:"role"`
	Content    json.RawMessage `json:"content"` // A text, or a list of texts and file descriptions.
	ToolCalls  []agui.ToolCall `json:"toolCalls,omitempty"`
	ToolCallID string          `json:"toolCallId,omitempty"`
}

// ModelAnswer is the model's answer, as received.
type ModelAnswer struct {
	Text         string          `json:"text"`         // The text.
	Reasoning    string          `json:"reasoning"`    // The reasoning, as text.
	ToolCalls    []agui.ToolCall `json:"toolCalls"`    // The tool calls.
	FinishReason *string         `json:"finishReason"` // Why the model stopped.
}

// NewWholeModelCall returns the resource of a call of a model with its prompt and answer, which can be nil.
func NewWholeModelCall(c *runtime.ModelCall, sent *runtime.SentPrompt, answer *runtime.Answered, costs func([]agui.TokenUsage) *float64) (WholeModelCall, error) {
	call := WholeModelCall{ModelCall: NewModelCall(c, costs)}
	if answer != nil {
		call.Answered = &ModelAnswer{answer.Text, answer.Reasoning, list(answer.Calls), orNull(c.FinishReason)}
	}
	if sent == nil {
		return call, nil
	}
	call.Sent = &SentPrompt{
		System: sent.System, Messages: make([]SentMessage, len(sent.Messages)), Tools: list(sent.Tools), Parameters: sent.Parameters,
		Changes: list(sent.Changes), Hidden: sent.Hidden,
	}
	if call.Sent.Parameters == nil {
		call.Sent.Parameters = json.RawMessage("{}")
	}
	for i := range sent.Messages {
		m := &sent.Messages[i]
		content := m.Parts
		if content == nil || m.ID != "" { // then it is one text
			var err error
			if content, err = json.Marshal(m.Text()); err != nil {
				return call, err
			}
		}
		call.Sent.Messages[i] = SentMessage{m.ID, m.Role, content, bare(m.ToolCalls), m.ToolCallID}
	}
	return call, nil
}

// bare returns calls with their arguments only.
func bare(calls []agui.ToolCall) (list []agui.ToolCall) {
	for _, c := range calls {
		list = append(list, agui.ToolCall{ID: c.ID, Name: c.Name, Arguments: c.Arguments})
	}
	return list
}
