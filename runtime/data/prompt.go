package data

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/batonrun/baton/runtime/agui"
)

// Prompt is a call of a model, with references to its prompt.
type Prompt struct {
	PromptResult

	RunKey    int64
	ID        string // of the call: a UUIDv7, so that later calls have higher ones
	Step      int    // the number of the step
	Sent      string // the references: see package work; empty if they are not kept
	StartedAt time.Time
}

// PromptResult is the part of a Prompt that the end of the call changes.
type PromptResult struct {
	Status       string // of the agui.ModelCall
	Provider     string
	Model        string
	FinishReason string
	Usage        agui.TokenUsage
	Error        *agui.OutputError
	Changes      json.RawMessage // a list, nil for none
	Answer       string          // references like Prompt.Sent; empty for no answer
	FirstToken   time.Duration   // to the first piece of the answer; 0 if there is none
	Took         time.Duration   // 0 if that is not known
}

// PromptEnd ends a call of a model. An empty Provider, Model or Changes leaves the Prompt's.
type PromptEnd struct {
	PromptResult

	RunKey int64
	ID     string
}

// End applies e to the call.
func (p *Prompt) End(e *PromptEnd) {
	was := p.PromptResult
	p.PromptResult = e.PromptResult
	p.Provider, p.Model = cmp.Or(e.Provider, was.Provider), cmp.Or(e.Model, was.Model)
	if p.Changes == nil {
		p.Changes = was.Changes
	}
	if p.Usage != (agui.TokenUsage{}) {
		p.Usage.Provider, p.Usage.Model = p.Provider, p.Model
	}
}

// PromptPiece is a part of prompts that is no message of the thread. Runs of a thread share it; it is removed with the last of them,
// and not stored for a run that is gone.
type PromptPiece struct {
	RunKey int64
	ID     string // a hash of the thread and of Body, so that equal pieces are one
	Body   json.RawMessage
}
