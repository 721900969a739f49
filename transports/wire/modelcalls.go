package wire

import (
	"encoding/json"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// ModelCall is a call of a model in a run.
type ModelCall struct {
	ID           string            `json:"id"`
	Step         int               `json:"step"` // the number of the step
	Provider     *string           `json:"provider"`
	Model        *string           `json:"model"`
	Status       string            `json:"status"`
	FinishReason *string           `json:"finishReason"`
	Usage        *agui.TokenUsage  `json:"usage"`
	Cost         *float64          `json:"cost"`
	Error        *agui.OutputError `json:"error"`
	FirstTokenMs *int64            `json:"firstTokenMs"`
	DurationMs   *int64            `json:"durationMs"`
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

// WholeModelCall is a call of a model with its prompt and its answer. Each is null if it is not kept.
type WholeModelCall struct {
	ModelCall

	Sent     *SentPrompt  `json:"sent"`
	Answered *ModelAnswer `json:"answered"`
}

// SentPrompt is the prompt of a model call.
type SentPrompt struct {
	System     string                 `json:"system"`
	Messages   []SentMessage          `json:"messages"`
	Tools      []plugins.PromptTool   `json:"tools"`
	Parameters json.RawMessage        `json:"parameters"` // an object
	Changes    []plugins.PromptChange `json:"changes"`
	Hidden     *runtime.HiddenPrompt  `json:"hidden,omitempty"` // for users and viewers: the size of what only operators see
}

// SentMessage is a message of a prompt.
type SentMessage struct {
	ID         string          `json:"id,omitempty"` // of the thread's message, if that has this form
	Role       agui.Role       `json:"role"`
	Content    json.RawMessage `json:"content"` // a text, or a list of parts
	ToolCalls  []agui.ToolCall `json:"toolCalls,omitempty"`
	ToolCallID string          `json:"toolCallId,omitempty"`
}

// ModelAnswer is the answer of a model.
type ModelAnswer struct {
	Text         string          `json:"text"`
	Reasoning    string          `json:"reasoning"`
	ToolCalls    []agui.ToolCall `json:"toolCalls"`
	FinishReason *string         `json:"finishReason"`
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
