package wire

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/runtime/agui"
)

// Answer collects the streamed pieces of a Response and passes each to show. Its methods return show's errors.
type Answer struct {
	Finish  string // the provider's word, "" before the end
	Reason  string // what the provider adds to it
	Ended   bool   // the connection can end here even without a Finish
	Usage   agui.TokenUsage
	Carried []llm.Carried

	endpoint  *Endpoint
	show      func(llm.Piece) error
	told      agui.TokenUsage
	text      stretch
	reasoning stretch
	calls     calls
	events    int // read so far
}

// stretch is a text that arrives in pieces.
type stretch struct {
	strings.Builder
	half half
}

// Answer returns an empty Answer of e's model to a request.
func (e *Endpoint) Answer(req llm.Request, show func(llm.Piece) error) *Answer {
	none := agui.TokenUsage{Provider: e.Provider, Model: e.Model}
	own := *e
	a := &Answer{show: show, Usage: none, told: none, endpoint: &own}
	for _, t := range req.Options.Tools {
		if t.Function != nil {
			a.calls.names = append(a.calls.names, t.Function.Name)
		}
	}
	return a
}

// Counted shows the usage so far if it has changed.
func (a *Answer) Counted() error {
	if a.Usage == a.told {
		return nil
	}
	a.told = a.Usage
	u := a.Usage
	return a.show(llm.Piece{Usage: &u})
}

// Text adds a piece of text.
func (a *Answer) Text(s string) error {
	if s = a.text.half.join(s); s == "" {
		return nil
	}
	a.text.WriteString(s)
	return a.show(llm.Piece{Text: s})
}

// Reasoning adds a piece of reasoning.
func (a *Answer) Reasoning(s string) error {
	if s = a.reasoning.half.join(s); s == "" {
		return nil
	}
	a.reasoning.WriteString(s)
	return a.show(llm.Piece{Reasoning: s})
}

// Spoken reports whether the answer has text or calls so far.
func (a *Answer) Spoken() bool { return a.text.Len() > 0 || len(a.calls.list) > 0 }

// Thoughts returns the reasoning so far.
func (a *Answer) Thoughts() string { return a.reasoning.String() }

// Carry adds v as JSON for the provider's later requests.
func (a *Answer) Carry(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	a.Carried = append(a.Carried, llm.Carried{Provider: a.Usage.Provider, Data: data})
	return nil
}

// complete returns the response at the answer's end.
func (a *Answer) complete() (llm.Response, error) {
	err := a.settle()
	res := a.Response()
	if err == nil && slices.Contains(failed, res.Finish) {
		return res, &llm.Error{Code: "provider_error", Message: a.endpoint.Provider + ": the answer ended with " + res.Reason, Retryable: true}
	}
	if err == nil {
		a.endpoint.complete()
	}
	return res, err
}

// failed are finish reasons of answers that their provider could not complete.
var failed = []string{
	"error", "failed", "failure", "abort", "aborted", "cancelled", "network_error", "server_error", "internal_error", "timeout",
	"insufficient_system_resource", "malformed_response", "malformed_function_call", "unexpected_tool_call", "too_many_tool_calls",
	"missing_thought_signature",
}

// Response returns the response so far.
func (a *Answer) Response() llm.Response {
	r := llm.Response{
		Text: a.text.String(), Reasoning: a.reasoning.String(), Finish: finish(a.Finish), Usage: a.Usage, Carried: a.Carried,
	}
	r.Reason = a.endpoint.clean(strings.TrimSpace(a.Finish + " " + a.Reason))
	for _, c := range a.calls.order {
		r.Calls = append(r.Calls, llms.ToolCall{
			ID: c.id, Type: "function", FunctionCall: &llms.FunctionCall{Name: c.name, Arguments: c.String()},
		})
	}
	if len(r.Calls) > 0 && r.Finish == "stop" {
		r.Finish = "tool_calls" // not every provider reports it
	}
	return r
}

// finish returns a provider's finish reason in the words of llm.Response, or as it is.
func finish(word string) string {
	switch w := strings.ToLower(word); w {
	case "", "stop", "end_turn", "stop_sequence", "eos", "eos_token", "complete", "completed", "end", "done":
		return "stop"
	case "tool_calls", "tool_use", "tool_call", "function_call":
		return "tool_calls"
	case "length", "max_tokens", "max_output_tokens", "max_length", "model_length", "model_context_window_exceeded", "token_limit":
		return "length"
	case "content_filter", "refusal", "safety", "recitation", "blocklist", "prohibited_content", "spii", "language",
		"image_safety", "content_filtered", "sensitive":
		return "content_filter"
	default:
		return w
	}
}
