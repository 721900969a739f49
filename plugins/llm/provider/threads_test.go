package provider_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/llmtest"
	"github.com/batonrun/baton/plugins/llm/provider"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/runtime/agui"
)

// dot is a PNG image of one pixel.
var dot, _ = base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")

func user(text string) agui.Message { return agui.Message{Role: agui.RoleUser, Content: text} }

func assistant(text string) agui.Message {
	return agui.Message{Role: agui.RoleAssistant, Content: text}
}

func calls(text string, ids ...string) agui.Message {
	m := assistant(text)
	for _, id := range ids {
		m.ToolCalls = append(m.ToolCalls, agui.ToolCall{ID: id, Name: "files.read", Arguments: `{"path":"a"}`})
	}
	return m
}

func result(id string) agui.Message {
	return agui.Message{Role: agui.RoleTool, ToolCallID: id, Content: "text"}
}

const (
	first  = "01931e3b-5a7e-7c3e-9a52-6f0f3e6d9c01"
	second = "01931e3b-5a7e-7c3e-9a52-6f0f3e6d9c02"
)

// oddTurns are beginnings of threads that some server refuses as they are.
var oddTurns = map[string][]agui.Message{
	"nothing odd":                   {user("a"), assistant("b")},
	"a failed turn":                 {user("a")},
	"three failed turns":            {user("a"), user("b"), user("c")},
	"an empty answer":               {user("a"), assistant("")},
	"a blank answer":                {user("a"), assistant(" \n")},
	"a blank question":              {user(" "), assistant("b")},
	"an assistant first":            {assistant("welcome")},
	"a call":                        {user("a"), calls("", first), result(first), assistant("b")},
	"a call, then nothing":          {user("a"), calls("", first), result(first)},
	"a call without a result":       {user("a"), calls("", first)},
	"a call first":                  {calls("", first), result(first), assistant("b")},
	"calls, one without a result":   {user("a"), calls("I look.", first, second), result(second), assistant("b")},
	"results in another order":      {user("a"), calls("", first, second), result(second), result(first), assistant("b")},
	"a blank result":                {user("a"), calls("", first), {Role: agui.RoleTool, ToolCallID: first, Content: " \n"}, assistant("b")},
	"a result twice":                {user("a"), calls("", first), result(first), result(first), assistant("b")},
	"a result before its call":      {user("a"), result(first), calls("", first), assistant("b")},
	"a late result":                 {user("a"), calls("", first), user("b"), result(first), assistant("c")},
	"a result of no call":           {user("a"), result(first), assistant("b")},
	"one id for all calls":          {user("a"), calls("", "call_0"), result("call_0"), assistant("b"), user("c"), calls("", "call_0"), result("call_0"), assistant("d")},
	"one id in a message":           {user("a"), calls("", "x", "x"), result("x"), result("x"), assistant("b")},
	"a long id":                     {user("a"), calls("", strings.Repeat("x", 100)), result(strings.Repeat("x", 100)), assistant("b")},
	"an id with other characters":   {user("a"), calls("", "functions.read:0"), result("functions.read:0"), assistant("b")},
	"an answer in several messages": {user("a"), calls("I look.", first), calls("And there.", second), result(first), result(second), assistant("b")},
	"messages of a client's system": {user("a"), assistant("b"), {Role: agui.RoleSystem, Content: "Be kind."}},
}

// servers are strict servers.
var servers = map[string]struct {
	config provider.Config
	path   string
	rules  []llmtest.Rule
}{
	"mistral":   {provider.Config{Provider: "openai", API: "chat"}, "/v1", []llmtest.Rule{llmtest.Mistral, llmtest.OpenAI}},
	"template":  {provider.Config{Provider: "openai", API: "chat"}, "/v1", []llmtest.Rule{llmtest.MistralTemplate, llmtest.OpenAI}},
	"lmstudio":  {provider.Config{Provider: "openai", API: "chat"}, "/v1", []llmtest.Rule{llmtest.LMStudio, llmtest.OpenAI}},
	"hunyuan":   {provider.Config{Provider: "openai", API: "chat"}, "/v1", []llmtest.Rule{llmtest.Hunyuan, llmtest.OpenAI}},
	"kimi":      {provider.Config{Provider: "openai", API: "chat"}, "/v1", []llmtest.Rule{llmtest.Kimi, llmtest.OpenAI}},
	"openai":    {provider.Config{Provider: "openai", API: "chat"}, "/v1", []llmtest.Rule{llmtest.OpenAI}},
	"responses": {provider.Config{Provider: "openai", API: "responses"}, "/v1", []llmtest.Rule{llmtest.Responses}},
	"anthropic": {provider.Config{Provider: "anthropic"}, "", []llmtest.Rule{llmtest.Anthropic}},
	"gemini":    {provider.Config{Provider: "google"}, "", []llmtest.Rule{llmtest.Gemini}},
	"ollama":    {provider.Config{Provider: "ollama"}, "", []llmtest.Rule{llmtest.Ollama}},
}

// strict returns an agent at a strict server, and the server.
func strict(t *testing.T, name string, cfg llm.Config) (*llm.Agent, *llmtest.Server) {
	t.Helper()
	s := servers[name]
	server := llmtest.New(llmtest.Strict(llmtest.Always(llmtest.Script{Steps: []llmtest.Step{llmtest.Text("fine")}}), s.rules...))
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	s.config.Log = slog.New(slog.DiscardHandler)
	s.config.Model, s.config.APIKey, s.config.BaseURL, s.config.HTTPClient = "m", key, server.URL+s.path, &http.Client{Transport: transport}
	m, err := provider.Open(s.config)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Name, cfg.Model, cfg.Retries = "a", m, -1
	a, err := llm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a, server
}

// say runs a turn of a thread, and returns its failure.
func say(t *testing.T, a plugins.Agent, thread []agui.Message, text string) error {
	t.Helper()
	for i := range thread {
		thread[i].ID = fmt.Sprint("m", i)
	}
	hello := user(text)
	hello.ID = "last"
	res := plugintest.Run(t, a, plugintest.Config{Messages: append(thread, hello)})
	if res.Err == nil && res.Output.Answer != "fine" {
		return fmt.Errorf("answered %q", res.Output.Answer)
	}
	return res.Err
}

func TestThread_SurvivesOddTurns(t *testing.T) {
	for server := range servers {
		t.Run(server, func(t *testing.T) {
			for name, thread := range oddTurns {
				a, asked := strict(t, server, llm.Config{System: "Be brief."})
				for range 2 {
					if err := say(t, a, append([]agui.Message{}, thread...), "hello"); err != nil {
						t.Errorf("%s: %v\n%s", name, err, last(asked).Body)
					}
				}
				n := len(asked.Requests())
				if err := say(t, a, append([]agui.Message{}, thread...), "hello"); err != nil || len(asked.Requests()) != n+1 {
					t.Errorf("%s: %v after %d requests: what was learned is remembered", name, err, len(asked.Requests())-n)
				}
			}
		})
	}
}

// Gemma has no tools and no system messages.
func TestThread_SurvivesTemplateOfTwoRoles(t *testing.T) {
	servers["gemma"] = servers["openai"]
	defer delete(servers, "gemma")
	s := servers["gemma"]
	s.rules = []llmtest.Rule{llmtest.Gemma, llmtest.OpenAI}
	servers["gemma"] = s
	for _, name := range []string{"nothing odd", "a failed turn", "three failed turns", "an empty answer", "a blank question", "an assistant first"} {
		a, asked := strict(t, "gemma", llm.Config{System: "Be brief."})
		if err := say(t, a, append([]agui.Message{}, oddTurns[name]...), "hello"); err != nil || !strings.Contains(string(last(asked).Body), "Be brief.") {
			t.Errorf("%s: %v\n%s", name, err, last(asked).Body)
		}
	}
}

func last(server *llmtest.Server) *llmtest.Request {
	all := server.Requests()
	return all[len(all)-1]
}

// A run without anything to ask makes no request.
func TestRun_NothingToAnswer(t *testing.T) {
	for server := range servers {
		a, asked := strict(t, server, llm.Config{})
		for _, messages := range [][]agui.Message{nil, {{ID: "s", Role: agui.RoleSystem, Content: "Be kind."}}, {{ID: "u", Role: agui.RoleUser, Content: " "}}} {
			res := plugintest.Run(t, a, plugintest.Config{Messages: messages})
			if e, ok := res.Err.(*plugins.Error); !ok || e.Code != "nothing_to_answer" || len(asked.Requests()) != 0 { //nolint:errorlint // it is exactly that
				t.Errorf("%s: %v after %d requests", server, res.Err, len(asked.Requests()))
			}
		}
	}
}

func TestThread_SurvivesImages(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString(dot)
	svg := base64.StdEncoding.EncodeToString([]byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`))
	data := func(kind, value string) string {
		return fmt.Sprintf(`{"type":"image","source":{"type":"data","value":%q,"mimeType":%q}}`, value, kind)
	}
	for name, part := range map[string]string{
		"png":                    data("image/png", encoded),
		"png without a type":     data("", encoded),
		"png as jpeg":            data("image/jpeg", encoded),
		"png with parameters":    data("image/png; charset=binary", encoded),
		"png as a file":          data("application/octet-stream", encoded),
		"png in upper case":      data("IMAGE/PNG", encoded),
		"png, not padded":        data("image/png", strings.TrimRight(encoded, "=")),
		"svg":                    data("image/svg+xml", svg),
		"svg without a type":     data("", svg),
		"svg as png":             data("image/png", svg),
		"tiff":                   data("image/tiff", base64.StdEncoding.EncodeToString([]byte("II*\x00data"))),
		"gif":                    data("image/gif", "R0lGODlhAQABAAAAACwAAAAAAQABAAACADs="),
		"empty":                  data("image/png", ""),
		"truncated":              data("image/png", encoded[:24]),
		"not base64":             data("image/png", "%%%"),
		"a data: URL as a value": data("image/png", "data:image/png;base64,"+encoded),
		"an empty data: URL":     data("image/png", "data:;base64,"),
		"a data: URL":            `{"type":"image","source":{"type":"url","value":"data:image/png;base64,` + encoded + `"}}`,
		"image_url":              `{"type":"image_url","image_url":{"url":"data:image/png;base64,` + encoded + `"}}`,
		"a document":             data("application/zip", "UEsDBA=="),
		"a video":                `{"type":"video","source":{"type":"url","value":"https://x.example/v.mp4"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			for server := range servers {
				a, asked := strict(t, server, llm.Config{})
				thread := []agui.Message{{Role: agui.RoleUser, Parts: json.RawMessage(`[{"type":"text","text":"look"},` + part + `]`)}}
				for _, text := range []string{"and now?", "hello"} {
					if err := say(t, a, thread, text); err != nil {
						t.Errorf("%s: %v\n%s", server, err, last(asked).Body)
					}
					thread = append(thread, assistant("fine"))
				}
				if n := len(asked.Requests()); n != 2 {
					t.Errorf("%s: %d requests", server, n)
				}
				body := string(last(asked).Body)
				if strings.Contains(name, "png") && !strings.Contains(name, "svg") && !strings.Contains(body, encoded) {
					t.Errorf("%s: the image is missing: %s", server, body)
				}
			}
		})
	}
}

// LM Studio refuses a request in its stream. The attempt that follows has the form that it accepts.
func TestThread_LearnsFromStream(t *testing.T) {
	server := llmtest.New(func(r *llmtest.Request) llmtest.Script {
		if err := llmtest.Gemma(r); err != nil {
			return llmtest.Script{Steps: []llmtest.Step{llmtest.Fault(&llm.Error{Status: http.StatusBadRequest, Message: "Error rendering prompt with jinja template: " + err.Message})}}
		}
		return llmtest.Script{Steps: []llmtest.Step{llmtest.Text("fine")}}
	})
	defer server.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	m, err := provider.Open(provider.Config{
		Provider: "openai", API: "chat", Model: "m", BaseURL: server.URL + "/v1", HTTPClient: &http.Client{Transport: transport}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	a, err := llm.New(llm.Config{Name: "a", Model: m, System: "Be brief."})
	if err != nil {
		t.Fatal(err)
	}
	if err := say(t, a, []agui.Message{user("a")}, "hello"); err != nil || len(server.Requests()) != 2 {
		t.Errorf("%v after %d requests", err, len(server.Requests()))
	}
}
