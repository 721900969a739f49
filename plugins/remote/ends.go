package remote

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// finished handles the end of the remote's run.
func (r *relay) finished(e agui.RunFinished) {
	r.final, r.ended, r.outcome, r.runID = true, true, e.Outcome, clip(cmp.Or(e.RunID, r.runID), longestID)
	r.count(e.Usage, e.Metadata)
	if t := e.Outcome.Type; !slices.Contains([]agui.OutcomeType{agui.OutcomeNone, agui.OutcomeSuccess, agui.OutcomeInterrupt, agui.OutcomeCancelled}, t) {
		r.failure = &agui.OutputError{Code: "remote_failed", Message: fmt.Sprintf("The remote agent's run ended with the outcome %q", clip(string(t), 200))}
	}
	var out agui.WorkerOutput
	var text string
	switch {
	case json.Unmarshal(e.Result, &text) == nil && text != "":
		r.answers, r.output = true, agui.WorkerOutput{Answer: text}
	case isObject(e.Result) && json.Unmarshal(e.Result, &out) == nil && out.Answer != "":
		out.Status, out.Error = "", nil
		r.answers, r.output = true, out
	}
}

// failed handles the failure of the remote's run.
func (r *relay) failed(e agui.RunError) {
	r.final, r.ended = true, true
	r.count(e.Usage, nil)
	if e.Code == "CANCELLED" { // of dialect 0.0, for a cancelled outcome
		r.outcome = agui.Outcome{Type: agui.OutcomeCancelled}
		return
	}
	code := cmp.Or(clip(e.Code, 200), "remote_failed")
	message := cmp.Or(clip(r.a.secrets.Hide(e.Message), maxMessage), "The remote agent failed and does not say why")
	r.failure = &agui.OutputError{Code: code, Message: message, Retryable: slices.Contains(passing, code)}
}

// cut returns the error of a stream that ended before its run and cannot be resumed. over means that the server ended it.
func (r *relay) cut(over bool) error {
	switch {
	case r.complaint != "":
		return &plugins.Error{Code: "remote_failed", Message: "The remote agent's stream ended with an error: " + r.complaint, Retryable: true}
	case r.begun || !over:
		return lost()
	case r.strange:
		return &plugins.Error{Code: "not_agui", Message: "The remote agent's stream has no event of AG-UI"}
	}
	return &plugins.Error{
		Code: "empty_answer", Message: "The remote agent's stream has no event: an earlier run of the thread may be going on there", Retryable: true,
	}
}

// passing are the codes of temporary failures.
var passing = []string{"timeout", "rate_limited", "overloaded", "unavailable", "connection_lost", "interrupted", "stalled"}

// count adds the run's usage, from AG-UI's field or else from its metadata.
func (r *relay) count(usage []agui.TokenUsage, metadata json.RawMessage) {
	if len(usage) == 0 {
		var m agui.FinishMetadata
		if json.Unmarshal(metadata, &m) == nil && m.InputTokens+m.OutputTokens > 0 {
			usage = []agui.TokenUsage{{
				Provider: m.Provider, Model: m.Model, InputTokens: m.InputTokens, OutputTokens: m.OutputTokens,
				CachedInputTokens: m.CachedInputTokens, ReasoningTokens: m.ReasoningTokens,
			}}
		}
	}
	for _, u := range usage {
		if min(u.InputTokens, u.OutputTokens, u.TotalTokens, u.ReasoningTokens, u.CachedInputTokens, u.CacheWriteInputTokens) >= 0 {
			r.usage = agui.AddUsage(r.usage, u)
		}
	}
}

// isFarewell reports whether an event announces that the server stops while the run continues later.
func isFarewell(data []byte) bool {
	ev, err := agui.Decode(data)
	e, ok := ev.(agui.RunError)
	return err == nil && ok && e.Code == "interrupted"
}
