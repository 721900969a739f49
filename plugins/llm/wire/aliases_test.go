package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
)

// Names of properties that a provider refuses are aliases in requests, and themselves everywhere else.
func TestAliases_AreSeenByTheProviderAlone(t *testing.T) {
	given := `{"$filter":{"$gt":1,"größe":"$filter","":[{"a b":"\"$filter\":"}]},"plain":"$filter"}`
	schema := `{"type":"object","properties":{"$filter":{"type":"object","properties":{"größe":{},"":{"type":"array","items":{"properties":{"a b":{}},"required":["a b"]}}}},"plain":{}},"required":["$filter"]}`
	tools := []llms.Tool{{Function: &llms.FunctionDefinition{Name: "find", Parameters: json.RawMessage(schema)}}}
	e, _, _ := endpoint(t, func(string) string { return "" })
	e.known.caps.Schema = OpenAISchema
	req := llm.Request{Options: llms.CallOptions{Tools: tools}, Messages: append(dialog("u|a"),
		llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{llms.ToolCall{ID: "1", FunctionCall: &llms.FunctionCall{Name: "find", Arguments: given}}}},
		llms.MessageContent{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{llms.ToolCallResponse{ToolCallID: "1", Name: "find", Content: "none"}}})}
	var sent Tool
	var said string // how the provider sees the call
	res, err := e.Exchange(t.Context(), "http://x.example", req, func(c *Conversation, _ Caps) any {
		sent, said = c.Tools[0], string(c.Messages[1].Parts[0].Call.Arguments)
		return c
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	for _, name := range []string{`"$filter":`, `"größe":`, `"":`, `"a b":`} {
		if strings.Contains(said, name) || strings.Contains(string(sent.Parameters), name) {
			t.Errorf("the provider sees %s in %s and %s", name, said, sent.Parameters)
		}
	}
	if strings.Contains(string(sent.Parameters), `"required":["$filter"]`) || !strings.Contains(said, `"$gt":1`) || !strings.Contains(said, `"plain":"$filter"`) {
		t.Errorf("the provider sees %s and %s", said, sent.Parameters)
	}
	for cut := 1; cut < len(said); cut++ { // the model calls likewise
		var shown strings.Builder
		a := e.Answer(req, func(p llm.Piece) error { shown.WriteString(p.Call.Arguments); return nil })
		for i, piece := range []string{said[:cut], said[cut:]} {
			part := CallPart{Key: "0", Args: Args{Text: piece}}
			if i == 0 {
				part.ID, part.Name = "2", "find"
			}
			if _, err := a.Call(part); err != nil {
				t.Fatal(err)
			}
		}
		res, err := a.complete()
		if err != nil || len(res.Calls) != 1 || res.Calls[0].FunctionCall.Arguments != given || shown.String() != given {
			t.Fatalf("cut at %d: %v, shown %s, called %+v", cut, err, &shown, res.Calls)
		}
	}
}
