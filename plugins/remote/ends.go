package remote

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// ending is how the remote's run has ended, and before that, whether it has begun.
type ending struct {
	begun     bool   // an event was read
	strange   bool   // something else was read
	complaint string // the description in the last error that is no event

	run     string // its id there
	final   bool   // an event has ended the run
	over    bool   // and no other one has continued it
	failure *agui.OutputError
	outcome agui.Outcome
	usage   []agui.TokenUsage
	output  agui.WorkerOutput
	answers bool // output has its answer from the run's result
}

// finished handles the end of the remote's run.
func (n *ending) finished(e agui.RunFinished) {
	n.final, n.over, n.outcome, n.run = true, true, e.Outcome, clip(cmp.Or(e.RunID, n.run), longestID)
	n.count(e.Usage, e.Metadata)
	if t := e.Outcome.Type; !slices.Contains([]agui.OutcomeType{agui.OutcomeNone, agui.OutcomeSuccess, agui.OutcomeInterrupt, agui.OutcomeCancelled}, t) {
		n.failure = &agui.OutputError{Code: "remote_failed", Message: fmt.Sprintf("The remote agent's run ended with the outcome %q", clip(string(t), 200))}
	}
	var out agui.WorkerOutput
	var text string
	switch {
	case json.Unmarshal(e.Result, &text) == nil && text != "":
		n.answers, n.output = true, agui.WorkerOutput{Answer: text}
	case isObject(e.Result) && json.Unmarshal(e.Result, &out) == nil && out.Answer != "":
		out.Status, out.Error = "", nil
		n.answers, n.output = true, out
	}
}

// failed handles the failure of the remote's run.
func (n *ending) failed(e agui.RunError, hide func(string) string) {
	n.final, n.over = true, true
	n.count(e.Usage, nil)
	if e.Code == "CANCELLED" { // of dialect 0.0, for a cancelled outcome
		n.outcome = agui.Outcome{Type: agui.OutcomeCancelled}
		return
	}
	code := cmp.Or(clip(e.Code, 200), "remote_failed")
	message := cmp.Or(clip(hide(e.Message), maxMessage), "The remote agent failed and does not say why")
	n.failure = &agui.OutputError{Code: code, Message: message, Retryable: slices.Contains(passing, code)}
}

// cut returns the error of a stream that ended before its run and cannot be resumed. over means that the server ended it.
func (n *ending) cut(over bool) error {
	switch {
	case n.complaint != "":
		return &plugins.Error{Code: "remote_failed", Message: "The remote agent's stream ended with an error: " + n.complaint, Retryable: true}
	case n.begun || !over:
		return lost()
	case n.strange:
		return &plugins.Error{Code: "not_agui", Message: "The remote agent's stream has no event of AG-UI"}
	}
	return &plugins.Error{
		Code: "empty_answer", Message: "The remote agent's stream has no event: an earlier run of the thread may be going on there", Retryable: true,
	}
}

// passing are the codes of temporary failures.
var passing = []string{"timeout", "rate_limited", "overloaded", "unavailable", "connection_lost", "interrupted", "stalled"}

// count adds the run's usage, from AG-UI's field or else from its metadata.
func (n *ending) count(usage []agui.TokenUsage, metadata json.RawMessage) {
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
			n.usage = agui.AddUsage(n.usage, u)
		}
	}
}

// isFarewell reports whether an event announces that the server stops while the run continues later.
func isFarewell(data []byte) bool {
	ev, err := agui.Decode(data)
	e, ok := ev.(agui.RunError)
	return err == nil && ok && e.Code == "interrupted"
}
