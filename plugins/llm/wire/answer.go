package wire

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/problem"
	"github.com/batonrun/baton/runtime/agui"
)

// Answer collects the streamed pieces of a Response and passes each to show. Its methods return show's errors.
type Answer struct {
	Finish string // the provider's word, "" before the end
	Reason string // what the provider adds to it
	Ended  bool   // the connection can end here even without a Finish
	Usage  agui.TokenUsage

	endpoint  *Endpoint
	show      func(llm.Piece) error
	told      agui.TokenUsage
	text      Pieces
	reasoning Pieces
	calls     calls
	aliases   *aliases
	over      bool // nothing more comes
	places    []*place
	events    int    // read so far
	first     []byte // the beginning of the first
}

// place is a part of an answer: a text, a call, or data for later requests, which can still be empty.
type place struct {
	text int // bytes
	call *call
	data json.RawMessage
}

// Pieces is a text that arrives in pieces.
type Pieces struct {
	text strings.Builder
	half half
}

// Add adds a piece. It returns the new end of the text: halves of characters wait for the next piece.
func (p *Pieces) Add(piece Text) string {
	s := p.half.join(string(piece))
	p.text.WriteString(s)
	return s
}

// Text returns the text so far.
func (p *Pieces) Text() Text { return Text(p.text.String()) }

// Answer returns an empty Answer of e's model to a request.
func (e *Endpoint) Answer(req llm.Request, show func(llm.Piece) error) *Answer {
	none := agui.TokenUsage{Provider: e.Provider, Model: e.Model}
	own := *e
	a := &Answer{show: show, Usage: none, told: none, endpoint: &own, aliases: &aliases{}}
	if e.sent != nil {
		a.aliases = &e.sent.c.aliases
	}
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
	if s = a.text.Add(Text(s)); s == "" {
		return nil
	}
	if n := len(a.places); n == 0 || a.places[n-1].text == 0 {
		a.places = append(a.places, &place{})
	}
	a.places[len(a.places)-1].text += len(s)
	return a.show(llm.Piece{Text: s})
}

// Reasoning adds a piece of reasoning.
func (a *Answer) Reasoning(s string) error {
	if s = a.reasoning.Add(Text(s)); s == "" {
		return nil
	}
	return a.show(llm.Piece{Reasoning: s})
}

// Spoken reports whether the answer has text or calls so far.
func (a *Answer) Spoken() bool { return a.text.Text() != "" || len(a.calls.list) > 0 }

// Carry adds v as JSON for later requests to the model, at the end of the answer so far.
func (a *Answer) Carry(v any) error { return a.Reserve()(v) }

// Reserve returns a Carry for something that has its place here and is complete later.
func (a *Answer) Reserve() func(v any) error {
	p := &place{}
	a.places = append(a.places, p)
	return func(v any) (err error) {
		p.data, err = json.Marshal(v)
		return err
	}
}

// parts returns the parts of the answer in order, nil if nothing is carried.
func (a *Answer) parts() (list []llms.ContentPart) {
	if !slices.ContainsFunc(a.places, func(p *place) bool { return p.data != nil }) {
		return nil
	}
	text, calls := string(a.text.Text()), slices.Clone(a.calls.order)
	for _, p := range a.places {
		i := slices.Index(calls, p.call)
		switch {
		case p.data != nil:
			list = append(list, llm.Carried{Origin: a.endpoint.origin(), Data: p.data})
		case p.text > 0:
			list = append(list, llms.TextContent{Text: text[:p.text]})
			text = text[p.text:]
		case i >= 0:
			list = append(list, a.toolCall(calls[i]))
			calls = slices.Delete(calls, i, i+1)
		}
	}
	return list
}

func (a *Answer) toolCall(c *call) llms.ToolCall {
	return llms.ToolCall{ID: c.id, Type: "function", FunctionCall: &llms.FunctionCall{Name: c.name, Arguments: a.aliases.resolve(c.String())}}
}

// complete returns the response at the answer's end.
func (a *Answer) complete() (llm.Response, error) {
	err := a.settle()
	res := a.Response()
	if code := failed[res.Finish]; err == nil && code != "" {
		return res, &llm.Error{Code: code, Message: a.endpoint.Provider + ": the answer ended with " + res.Reason, Retryable: true}
	}
	if err == nil {
		a.endpoint.complete()
	}
	return res, err
}

// failed are the codes of finish reasons of answers that their provider could not complete, or that their model has spoiled.
var failed = map[string]string{
	"error": "provider_error", "failed": "provider_error", "failure": "provider_error", "abort": "provider_error",
	"aborted": "provider_error", "cancelled": "provider_error", "network_error": "provider_error", "server_error": "provider_error",
	"internal_error": "provider_error", "timeout": "provider_error", "insufficient_system_resource": "provider_error",
	"malformed_response": "bad_answer", "malformed_function_call": "bad_answer", "unexpected_tool_call": "bad_answer",
	"too_many_tool_calls": "bad_answer", "missing_thought_signature": "bad_answer",
}

// Response returns the response so far.
func (a *Answer) Response() llm.Response {
	r := llm.Response{
		Text: string(a.text.Text()), Reasoning: string(a.reasoning.Text()), Finish: finish(a.Finish), Usage: a.Usage, Parts: a.parts(),
	}
	r.Reason = a.endpoint.clean(strings.TrimSpace(a.Finish + " " + a.Reason))
	for _, c := range a.calls.order {
		r.Calls = append(r.Calls, a.toolCall(c))
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

// Read reads the answer in res, closes it and returns the response. It passes each JSON object with the name of its event to
// add, which reports whether the answer is complete.
func (a *Answer) Read(ctx context.Context, res *http.Response, add func(event string, object []byte) (done bool, err error)) (llm.Response, error) {
	defer res.Body.Close()
	if res.Request != nil {
		a.endpoint.asked = res.Request.URL
	}
	in := body{lines: agui.NewReader(res.Body, MaxEvent)}
	for {
		event, object, err := in.next()
		if err != nil {
			return a.end(ctx, &in, err)
		}
		if a.events++; a.events == 1 {
			a.first = bytes.Clone(object[:min(len(object), maxSkipped)])
		}
		done, err := add(event, object)
		bad := garbled(nil)
		switch {
		case errors.As(err, &bad):
			return a.end(ctx, &in, err)
		case err != nil:
			return a.Response(), err
		case done:
			return a.complete()
		case event == "error":
			return a.Response(), a.endpoint.Fault(0, object)
		}
	}
}

// end returns the response after err has ended the body.
func (a *Answer) end(ctx context.Context, in *body, err error) (llm.Response, error) {
	e := a.endpoint
	clean := errors.Is(err, io.EOF)
	bad := garbled(nil)
	switch {
	case ctx.Err() != nil:
		return a.Response(), ctx.Err()
	case errors.As(err, &bad) && a.Finish == "":
		return a.Response(), &llm.Error{Code: "provider_error", Message: e.Provider + ": cannot read the answer: " + e.clean(err.Error()), Retryable: true}
	case clean && !in.began:
		return a.Response(), e.other(in.skipped)
	case errors.Is(err, errDone), a.Finish != "", clean && a.Ended:
		return a.complete()
	case clean && a.events <= 1 && len(a.places) == 0 && a.reasoning.Text() == "":
		return a.Response(), e.noAnswer(cmp.Or(string(a.first), "[]"))
	}
	return a.Response(), e.Lost(ctx, err)
}

// Decode decodes an event into v. Members of other types than v's stay empty: they never cost an answer.
func (a *Answer) Decode(object []byte, v any) error {
	err := json.Unmarshal(object, v)
	if wrong := (*json.UnmarshalTypeError)(nil); err == nil || len(object) == 0 || errors.As(err, &wrong) {
		return nil
	}
	return garbled(object)
}

// noAnswer returns the failure of a response that is one object without an answer, or an empty list.
func (e *Endpoint) noAnswer(object string) error {
	if problem.Sentence([]byte(object), e.redact) != "" {
		return e.Fault(0, []byte(object))
	}
	return &llm.Error{Code: "provider_error", Message: e.Provider + ": this is no answer: " + e.clean(object), Retryable: true}
}

// other returns the failure of a response with the status of a success that is not an answer.
func (e *Endpoint) other(text []byte) error {
	switch text = bytes.TrimSpace(text); {
	case len(text) == 0:
		return &llm.Error{Code: "empty_answer", Message: e.Provider + ": the answer is empty", Retryable: true}
	case text[0] == '<':
		return &llm.Error{Code: "not_an_api", Message: e.Provider + ": the address answers with a web page" + e.instead()}
	}
	return e.Fault(0, text)
}
