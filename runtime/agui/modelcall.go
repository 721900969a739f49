package agui

import (
	"encoding/json"
	"slices"
)

// ModelCallEvent is the name of the CUSTOM events about a call of a model; their value is a ModelCall. The first event of an id
// opens the call and the next closes it: a Verifier has closers for open calls.
const ModelCallEvent = "model-call"

// ModelCall is the log's record of a call of a model.
type ModelCall struct {
	ID           string       `json:"callId"`
	Status       string       `json:"status"`
	FinishReason string       `json:"finishReason,omitempty"`
	Usage        *TokenUsage  `json:"usage,omitempty"` // the call's usage, with provider and model
	Error        *OutputError `json:"error,omitempty"`
}

// The statuses of a ModelCall. All but the first close it.
const (
	ModelStarted     = "started"
	ModelFinished    = "finished"
	ModelFailed      = "failed"
	ModelInterrupted = "interrupted" // its answer is no longer awaited
)

// Event is the event for c.
func (c ModelCall) Event() Custom {
	return custom(ModelCallEvent, c)
}

// ModelCallOf returns the ModelCall in e, if e is one. Ids have 1 to 200 bytes.
func ModelCallOf(e Custom) (c ModelCall, ok bool) {
	ok = e.Name == ModelCallEvent && json.Unmarshal(e.Value, &c) == nil && c.ID != "" && len(c.ID) <= 200 && c.Status != ""
	return c, ok
}

// maxModelCalls limits the open calls of models that a Verifier tracks; it ignores more.
const maxModelCalls = 1000

// modelCall tracks open calls of models. Every event is legal, as clients do not know these events.
func (v *Verifier) modelCall(e Custom) {
	c, ok := ModelCallOf(e)
	if !ok {
		return
	}
	v.models = slices.DeleteFunc(v.models, func(s stream) bool { return s.id == c.ID })
	if c.Status == ModelStarted && len(v.models) < maxModelCalls {
		v.models = append(v.models, stream{id: c.ID, agent: e.Agent, tag: e.SubagentRunID, owner: e.SubagentRunID})
	}
}
