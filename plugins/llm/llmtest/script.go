package llmtest

import (
	"slices"
	"strings"
	"time"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/runtime/agui"
)

// Script is one answer, independent of the provider.
type Script struct {
	Steps  []Step
	Finish string           // as in llm.Response.Finish; by default tool_calls or stop, depending on Steps
	Usage  *agui.TokenUsage // nil for a server that does not count
	Pace   time.Duration    // time between the due times of steps, even if one is late
	Fail   *llm.Error       // an error response instead: Status, Code, Message and RetryAfter

	// Body is a response as it is, instead of Steps, for forms that no provider documents.
	Body   string
	Status int               // of the response with a Body, 200 by default
	Header map[string]string // of the response
	Gzip   bool              // compresses the response, whatever the client accepts
	NoEnd  bool              // leaves out the line ends after the last event

	// Loose simulates some compatible servers: complete calls in one piece, without index and id, and no [DONE].
	Loose bool
}

// Step is one action of a server. Exactly one member is set.
type Step struct {
	llm.Piece

	Refusal   string          // a piece of a refusal
	KeepAlive bool            // the protocol's keep-alive, if it has one
	Stall     <-chan struct{} // waits until it is closed or the client disconnects
	Cut       bool            // closes the connection
	Fail      *llm.Error      // a failure in the stream, which ends it
	Raw       string          // bytes as they are
}

// Text is a Step with a piece of text.
func Text(s string) Step { return Step{Piece: llm.Piece{Text: s}} }

// Tokens is a Step for each of n pieces of text.
func Tokens(n int, piece string) []Step { return slices.Repeat([]Step{Text(piece)}, n) }

// Reasoning is a Step with a piece of reasoning.
func Reasoning(s string) Step { return Step{Piece: llm.Piece{Reasoning: s}} }

// Call is a Step that starts the call at index; Arguments follow.
func Call(index int, id, name string) Step {
	return Step{Piece: llm.Piece{Call: &llm.CallPiece{Index: index, ID: id, Name: name}}}
}

// Arguments is a Step with the next piece of the JSON of the call at index. Providers without overlapping or incremental
// calls send it with its call.
func Arguments(index int, piece string) Step {
	return Step{Piece: llm.Piece{Call: &llm.CallPiece{Index: index, Arguments: piece}}}
}

// Refusal is a Step with a refusal.
func Refusal(s string) Step { return Step{Refusal: s} }

// KeepAlive is a Step with a keep-alive.
func KeepAlive() Step { return Step{KeepAlive: true} }

// Stall is a Step that waits until the channel is closed or the client disconnects; nil is never closed.
func Stall(until <-chan struct{}) Step {
	if until == nil {
		until = make(chan struct{})
	}
	return Step{Stall: until}
}

// Cut is a Step that closes the connection.
func Cut() Step { return Step{Cut: true} }

// Fault is a Step with a failure in the middle of an answer.
func Fault(err *llm.Error) Step { return Step{Fail: err} }

// Raw is a Step with bytes as they are, such as an event of another form.
func Raw(text string) Step { return Step{Raw: text} }

// finish returns the finish reason.
func (s Script) finish() string {
	if s.Finish != "" {
		return s.Finish
	}
	for _, step := range s.Steps {
		if step.Call != nil {
			return "tool_calls"
		}
		if step.Refusal != "" {
			return "content_filter"
		}
	}
	return "stop"
}

// oneByOne returns steps with the pieces of each call in sequence, for protocols without overlapping calls. Steps that end
// or delay the answer keep their place.
func oneByOne(steps []Step) []Step {
	out := make([]Step, 0, len(steps))
	for from := 0; from < len(steps); {
		to := from
		for to < len(steps) && !steps[to].Cut && steps[to].Stall == nil && steps[to].Fail == nil {
			to++
		}
		var calls []Step
		for _, s := range steps[from:to] {
			if s.Call == nil {
				out = append(out, s)
				continue
			}
			calls = append(calls, s)
		}
		slices.SortStableFunc(calls, func(a, b Step) int { return a.Call.Index - b.Call.Index })
		out = append(out, calls...)
		if to < len(steps) {
			out = append(out, steps[to])
		}
		from = to + 1
	}
	return out
}

// whole returns oneByOne(steps) with each call in one step.
func whole(steps []Step) []Step {
	out := make([]Step, 0, len(steps))
	for _, s := range oneByOne(steps) {
		if last := len(out) - 1; s.Call != nil && s.Call.Name == "" && last >= 0 && out[last].Call != nil {
			call := *out[last].Call
			call.Arguments += s.Call.Arguments
			out[last].Call = &call
			continue
		}
		out = append(out, s)
	}
	for _, s := range out {
		if s.Call != nil && strings.TrimSpace(s.Call.Arguments) == "" {
			s.Call.Arguments = "{}"
		}
	}
	return out
}
