package provider_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/llmtest"
)

var update = flag.Bool("update", false, "write the requests as they are now")

// TestRequest_Conversation has a turn with reasoning, two calls and their results, and compares the next turn's request
// with a reviewed golden.
func TestRequest_Conversation(t *testing.T) {
	script := llmtest.Script{Steps: []llmtest.Step{
		llmtest.Reasoning("I look at both."), llmtest.Text("One moment."),
		llmtest.Call(0, "call_a", "look"), llmtest.Arguments(0, `{"at":"cat"}`), llmtest.Call(1, "call_b", "now"),
	}}
	open(t, llmtest.Always(script), func(t *testing.T, i int, m llm.Streamer, server *llmtest.Server) {
		req := llm.Request{Options: llms.CallOptions{
			Temperature: 0.5, MaxTokens: 500, StopWords: []string{"END"}, ToolChoice: "auto",
			Tools: []llms.Tool{
				{Type: "function", Function: &llms.FunctionDefinition{
					Name: "look", Description: "Looks at something.",
					Parameters: json.RawMessage(`{"type":"object","properties":{"at":{"type":"string"}},"required":["at"],"additionalProperties":false}`),
				}},
				{Type: "function", Function: &llms.FunctionDefinition{Name: "now", Description: "Tells the time."}},
			},
		}}
		req.Messages = []llms.MessageContent{
			llms.TextParts(llms.ChatMessageTypeSystem, "Be brief."),
			{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{
				llms.TextPart("What is this, and what time is it?"),
				llms.BinaryPart("image/png", dot),
				llms.ImageURLPart("data:image/gif;base64,R0lGODlhAQABAAAAAA=="),
				llms.BinaryPart("text/plain; charset=utf-8", []byte("A note.")),
			}},
		}
		first, err := m.Stream(t.Context(), req, new(seen).show)
		if err != nil {
			t.Fatal(err)
		}
		answer := llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: first.Parts}
		if first.Parts == nil {
			answer.Parts = []llms.ContentPart{llms.TextPart(first.Text), first.Calls[0], first.Calls[1]}
		}
		answer.Parts = append(answer.Parts, llm.Carried{Origin: "another", Data: json.RawMessage(`{"secret":1}`)})
		req.Messages = append(req.Messages, answer)
		for n, c := range first.Calls {
			req.Messages = append(req.Messages, llms.MessageContent{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{
				llms.ToolCallResponse{ToolCallID: c.ID, Name: c.FunctionCall.Name, Content: []string{`{"is":"a cat"}`, "noon"}[n]},
			}})
		}
		req.Messages = append(req.Messages, llms.TextParts(llms.ChatMessageTypeHuman, "And in short?"))
		if _, err := m.Stream(t.Context(), req, new(seen).show); err != nil {
			t.Fatal(err)
		}
		golden(t, protocols[i].name, server.Requests()[1], first.Calls)
	})
}

func TestRequest_Schema(t *testing.T) {
	script := llmtest.Script{Steps: []llmtest.Step{llmtest.Text(`{"answer":"a"}`)}}
	open(t, llmtest.Always(script), func(t *testing.T, i int, m llm.Streamer, server *llmtest.Server) {
		req := question()
		req.Schema = json.RawMessage(`{"type":"object","properties":{"answer":{"type":"string"},"key_points":{"type":"array","items":{"type":"string"}}},"required":["answer"]}`)
		if _, err := m.Stream(t.Context(), req, new(seen).show); err != nil {
			t.Fatal(err)
		}
		golden(t, protocols[i].name+"_schema", server.Requests()[0], nil)
	})
}

// golden compares a request with testdata. Varying ids of calls are replaced by numbers.
func golden(t *testing.T, name string, req *llmtest.Request, calls []llms.ToolCall) {
	t.Helper()
	var got bytes.Buffer
	if err := json.Indent(&got, req.Body, "", "  "); err != nil {
		t.Fatal(err)
	}
	body := append([]byte(req.Path+"\n"), got.Bytes()...)
	for i, c := range calls {
		body = bytes.ReplaceAll(body, []byte(c.ID), []byte("call_"+string(rune('a'+i))))
	}
	body = append(bytes.TrimSpace(body), '\n')
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(body)); diff != "" {
		t.Error(diff)
	}
}
