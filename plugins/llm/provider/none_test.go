package provider_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/llmtest"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/runtime/agui"
)

// nothing are answers without an answer, by protocol: the script, and the code and words of the failure.
func nothing(protocol string) map[string][3]any {
	end := map[string]func(finish string) string{
		"chat": func(f string) string { return `{"choices":[{"index":0,"delta":{},"finish_reason":"` + f + `"}]}` },
		"responses": func(f string) string {
			return `{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"` + f + `"}}}`
		},
		"anthropic": func(f string) string { return `{"type":"message_delta","delta":{"stop_reason":"` + f + `"}}` },
		"google":    func(f string) string { return `{"candidates":[{"finishReason":"` + f + `"}]}` },
		"ollama":    func(f string) string { return `{"message":{"content":""},"done":true,"done_reason":"` + f + `"}` },
	}[protocol]
	events := func(data ...string) llmtest.Script { return llmtest.Events(protocol, data...) }
	return map[string][3]any{
		"no body":          {llmtest.Script{Status: http.StatusOK}, "empty_answer", "empty"},
		"keep-alives":      {llmtest.Script{Body: ": hello\n\n: hello\n\n"}, "empty_answer", "empty"},
		"DONE alone":       {events("[DONE]"), "empty_answer", "has not answered"},
		"stop":             {events(end("stop"), "[DONE]"), "empty_answer", "has not answered"},
		"calls without":    {events(end("tool_calls")), "empty_answer", "tool_calls"},
		"another word":     {events(end("recess")), "empty_answer", "recess"},
		"blanks":           {llmtest.Script{Steps: []llmtest.Step{llmtest.Text("\n"), llmtest.Text(" \n")}}, "empty_answer", "has not answered"},
		"only reasoning":   {llmtest.Script{Steps: []llmtest.Step{llmtest.Reasoning("Hm")}}, "empty_answer", "only reasoning"},
		"cut in reasoning": {llmtest.Script{Steps: []llmtest.Step{llmtest.Reasoning("Hm")}, Finish: "length"}, "answer_cut", "max_tokens"},
		"filtered":         {events(end("content_filter")), "content_filter", "content_filter"},
		"spoiled":          {events(end("malformed_function_call")), "bad_answer", "malformed_function_call"},
		"refused call":     {llmtest.Script{Status: http.StatusBadRequest, Body: `{"error":{"message":"Failed to call a function. Please adjust your prompt.","code":"tool_use_failed","failed_generation":"<function=look>"}}`}, "bad_answer", "Failed to call a function"},
		"no answer":        {llmtest.Script{Body: `{"base_resp":{"status_code":2013,"status_msg":"invalid params"}}`}, "provider_error", "invalid params"},
		"another document": {llmtest.Script{Body: `{"hello":["world"]}`}, "provider_error", `{"hello":["world"]}`},
		"an empty list":    {llmtest.Script{Body: `[]`}, "provider_error", "this is no answer: []"},
		"null":             {llmtest.Script{Body: `null`}, "provider_error", "null"},
		"an error's word":  {llmtest.Script{Body: "event: error\ndata: The GPU is gone\n\n"}, "provider_error", "The GPU is gone"},
		"an error's data":  {llmtest.Script{Body: "event: error\ndata: {\"x\":1}\n\n"}, "provider_error", `{"x":1}`},
		"a word after all": {llmtest.Script{Body: "data: {}\n\nevent: error\ndata: The GPU is gone\n\n"}, "provider_error", "The GPU is gone"},
		"failed":           {events(end("insufficient_system_resource")), "provider_error", "insufficient_system_resource"},
	}
}

// An empty answer is retried where that helps, then the fallback is asked, and then the run fails.
func TestAnswer_NoneFails(t *testing.T) {
	for _, p := range protocols {
		for name, test := range nothing(p.name) {
			t.Run(name, func(t *testing.T) {
				openOne(t, p.name, llmtest.Always(test[0].(llmtest.Script)), func(t *testing.T, m llm.Streamer, server *llmtest.Server) {
					cfg := llm.Config{Name: "a", Model: m, Retries: -1}
					res := run(t, cfg)
					var failed *plugins.Error
					if !errors.As(res.Err, &failed) || failed.Code != test[1] || !strings.Contains(failed.Message, test[2].(string)) {
						t.Errorf("%+v, %v, want %s", res.Output, res.Err, test[1])
					}
					openOne(t, "chat", llmtest.Always(llmtest.Script{Steps: []llmtest.Step{llmtest.Text("Hello")}}), func(t *testing.T, other llm.Streamer, _ *llmtest.Server) {
						cfg.Fallbacks = []llms.Model{other}
						if res := run(t, cfg); res.Err != nil || res.Output.Answer != "Hello" {
							t.Errorf("fallback: %+v, %v", res.Output, res.Err)
						}
					})
					if failed.Retryable == (test[1] == "answer_cut" || test[1] == "content_filter") {
						t.Errorf("retryable: %v", failed.Retryable)
					}
					if n := len(server.Requests()); n != 2 {
						t.Errorf("%d requests", n)
					}
				})
			})
		}
	}
}

// A call that the model has written as text, or that the provider could not read, is the model's fault: the answer is asked again.
func TestAnswer_SpoiledCallIsRetried(t *testing.T) {
	hello := llmtest.Script{Steps: []llmtest.Step{llmtest.Text("Say <tool_call> and look.")}}
	text := func(text string) llmtest.Script { return llmtest.Script{Steps: []llmtest.Step{llmtest.Text(text)}} }
	for _, spoiled := range []llmtest.Script{
		text("I look it up.\n<tool_call>\n{\"name\": \"look\", \"arguments\": {}}\n</tool_call>"),
		text("<minimax:tool_call>\n<invoke name=\"look\">\n</invoke>"), text(`<|python_tag|>{"name": "look", "parameters": {}}`), text(`<TOOLCALL>[{"name": "look"}]</TOOLCALL>`),
		text("<tool_calls>\n[{\"name\": \"look\"}]"), text("<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"look\">"), text("```tool_code\nlook(at=1)\n```"),
		text(`functools[{"name": "look", "arguments": {}}]`), text(`<|channel|>commentary to=functions.look <|constrain|>json<|message|>{}`), text(`<invoke name="look">`),
		text(`<function=look>{"at":1}</function>`), text(`[TOOL_CALLS][{"name": "look"}]`), text(`<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>look`),
		{Status: http.StatusBadRequest, Body: `{"error":{"message":"tool call validation failed: attempted to call tool 'json'","code":"tool_use_failed"}}`},
	} {
		openOne(t, "chat", llmtest.Each(spoiled, hello), func(t *testing.T, m llm.Streamer, server *llmtest.Server) {
			a, err := llm.New(llm.Config{Name: "a", Model: m})
			if err != nil {
				t.Fatal(err)
			}
			res := plugintest.Run(t, a, plugintest.Config{Input: plugins.Input{Query: "?", Tools: []agui.Tool{{Name: "look"}}}})
			if res.Err != nil || res.Output.Answer != "Say <tool_call> and look." || len(server.Requests()) != 2 {
				t.Errorf("%+v, %v after %d requests", res.Output, res.Err, len(server.Requests()))
			}
		})
	}
}

func TestAnswer_NoneIsRetried(t *testing.T) {
	hello := llmtest.Script{Steps: []llmtest.Step{llmtest.Text("Hello")}}
	openOne(t, "chat", llmtest.Each(llmtest.Events("chat", "[DONE]"), hello), func(t *testing.T, m llm.Streamer, _ *llmtest.Server) {
		if res := run(t, llm.Config{Name: "a", Model: m}); res.Err != nil || res.Output.Answer != "Hello" {
			t.Errorf("%+v, %v", res.Output, res.Err)
		}
	})
}

func run(t *testing.T, cfg llm.Config) *plugintest.Result {
	t.Helper()
	a, err := llm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return plugintest.Run(t, a, plugintest.Config{Input: plugins.Input{Query: "?"}})
}
