package agui

import (
	"encoding/json"
	"slices"
)

// ModelCallEvent is the name of the CUSTOM events that tell of a call of a model; their value is a ModelCall. The first one
// of an id opens the call and the next one closes it: a Verifier has closers for those that are open.
const ModelCallEvent = "model-call"

// ModelCall is what the log tells of a call of a model.
type ModelCall struct {
	ID           string       `json:"callId"`
	Status       string       `json:"status"`
	FinishReason string       `json:"finishReason,omitempty"`
	Usage        *TokenUsage  `json:"usage,omitempty"` // what the call took, of which provider and model
	Error        *OutputError `json:"error,omitempty"`
}

// The statuses of a ModelCall. All but the first close it.
const (
	ModelStarted     = "started"
	ModelFinished    = "finished"
	ModelFailed      = "failed"
	ModelInterrupted = "interrupted" // nobody waits for its answer any more
)

// Event is the event that tells of c.
func (c ModelCall) Event() Custom {
	return custom(ModelCallEvent, c)
}

// ModelCallOf is what e tells of a call of a model, if it is about one. Ids are 1 to 200 bytes.
func ModelCallOf(e Custom) (c ModelCall, ok bool) {
	ok = e.Name == ModelCallEvent && json.Unmarshal(e.Value, &c) == nil && c.ID != "" && len(c.ID) <= 200 && c.Status != ""
	return c, ok
}

// maxModelCalls is how many open calls of models a Verifier keeps account of. What tells of more is a stranger.
const maxModelCalls = 1000

// modelCall keeps account of the calls of models that are open. Whatever comes is legal: clients do not know of them.
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
