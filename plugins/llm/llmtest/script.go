package llmtest

import (
	"slices"
	"strings"
	"time"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/runtime/agui"
)

// Script is one answer, in words that all providers have.
type Script struct {
	Steps  []Step
	Finish string           // a word of llm.Response.Finish; tool_calls or stop when empty, as Steps call tools or not
	Usage  *agui.TokenUsage // nil for a server that does not count
	Pace   time.Duration    // between the moments at which steps are due, however late the one before was
	Fail   *llm.Error       // what is answered instead: Status, Code, Message and RetryAfter

	// Loose answers chat completions as some compatible servers do: calls whole and in one piece, with neither index
	// nor id, and no [DONE].
	Loose bool
}

// Step is one thing that a server does. One of its members is set.
type Step struct {
	llm.Piece

	Refusal   string          // a piece of what the model says instead of an answer
	KeepAlive bool            // what the protocol has for a sign of life, if anything
	Stall     <-chan struct{} // waits until it is closed or the client has left
	Cut       bool            // closes the connection
	Fail      *llm.Error      // a failure told in the stream, which ends it
}

// Text is a Step that says s.
func Text(s string) Step { return Step{Piece: llm.Piece{Text: s}} }

// Tokens is a Step for each of n pieces of text.
func Tokens(n int, piece string) []Step { return slices.Repeat([]Step{Text(piece)}, n) }

// Reasoning is a Step that thinks s aloud.
func Reasoning(s string) Step { return Step{Piece: llm.Piece{Reasoning: s}} }

// Call is a Step that begins the call at index; Arguments follow.
func Call(index int, id, name string) Step {
	return Step{Piece: llm.Piece{Call: &llm.CallPiece{Index: index, ID: id, Name: name}}}
}

// Arguments is a Step with the next piece of the JSON of the call at index. Of a provider that does not send several
// calls at once, or none in pieces, it comes with its call.
func Arguments(index int, piece string) Step {
	return Step{Piece: llm.Piece{Call: &llm.CallPiece{Index: index, Arguments: piece}}}
}

// Refusal is a Step that refuses in the words s.
func Refusal(s string) Step { return Step{Refusal: s} }

// KeepAlive is a Step that shows that the server is there.
func KeepAlive() Step { return Step{KeepAlive: true} }

// Stall is a Step that takes until the channel is closed or the client has left; nil is never closed.
func Stall(until <-chan struct{}) Step {
	if until == nil {
		until = make(chan struct{})
	}
	return Step{Stall: until}
}

// Cut is a Step that closes the connection in the middle of the answer.
func Cut() Step { return Step{Cut: true} }

// Fault is a Step that tells a failure in an answer that began well.
func Fault(err *llm.Error) Step { return Step{Fail: err} }

// finish returns how the answer ends.
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

// oneByOne returns steps with the pieces of each call behind one another, for protocols in which calls do not overlap.
// Nothing moves over a step that ends or holds the answer.
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

// whole returns oneByOne(steps) with each call in a single step.
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
