package wire

import (
	"crypto/rand"
	"encoding/json"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/runtime/agui"
)

// Answer collects the streamed pieces of a Response and passes each to show. Its methods return show's errors.
type Answer struct {
	Finish  string
	Usage   agui.TokenUsage
	Carried []llm.Carried

	show      func(llm.Piece) error
	told      agui.TokenUsage
	text      strings.Builder
	reasoning strings.Builder
	calls     []*call
}

type call struct {
	id, name  string
	arguments strings.Builder
}

// Answer returns an empty Answer of e's model.
func (e *Endpoint) Answer(show func(llm.Piece) error) *Answer {
	none := agui.TokenUsage{Provider: e.Provider, Model: e.Model}
	return &Answer{show: show, Usage: none, told: none}
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
	if s == "" {
		return nil
	}
	a.text.WriteString(s)
	return a.show(llm.Piece{Text: s})
}

// Reasoning adds a piece of reasoning.
func (a *Answer) Reasoning(s string) error {
	if s == "" {
		return nil
	}
	a.reasoning.WriteString(s)
	return a.show(llm.Piece{Reasoning: s})
}

const minted = "baton_"

// Minted reports whether the id of a call is ours and unknown to the provider.
func Minted(id string) bool { return strings.HasPrefix(id, minted) }

// Call starts a tool call and returns its index. A call without an id gets one.
func (a *Answer) Call(id, name string) (int, error) {
	if id == "" {
		id = minted + rand.Text()
	}
	a.calls = append(a.calls, &call{id: id, name: name})
	index := len(a.calls) - 1
	return index, a.show(llm.Piece{Call: &llm.CallPiece{Index: index, ID: id, Name: name}})
}

// Arguments adds a piece of the JSON arguments of the call at index.
func (a *Answer) Arguments(index int, s string) error {
	if s == "" {
		return nil
	}
	a.calls[index].arguments.WriteString(s)
	return a.show(llm.Piece{Call: &llm.CallPiece{Index: index, Arguments: s}})
}

// Calls returns the number of started calls.
func (a *Answer) Calls() int { return len(a.calls) }

// ID returns the id of the call at index.
func (a *Answer) ID(index int) string { return a.calls[index].id }

// Carry adds v as JSON for the provider's later requests.
func (a *Answer) Carry(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	a.Carried = append(a.Carried, llm.Carried{Provider: a.Usage.Provider, Data: data})
	return nil
}

// Response returns the response so far.
func (a *Answer) Response() llm.Response {
	r := llm.Response{
		Text: a.text.String(), Reasoning: a.reasoning.String(), Finish: a.Finish, Usage: a.Usage, Carried: a.Carried,
	}
	for _, c := range a.calls {
		arguments := c.arguments.String()
		if strings.TrimSpace(arguments) == "" {
			arguments = "{}"
		}
		r.Calls = append(r.Calls, llms.ToolCall{
			ID: c.id, Type: "function", FunctionCall: &llms.FunctionCall{Name: c.name, Arguments: arguments},
		})
	}
	if len(r.Calls) > 0 && r.Finish == "stop" {
		r.Finish = "tool_calls" // not every provider reports it
	}
	return r
}
