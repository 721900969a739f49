package provider_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/llmtest"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/runtime/agui"
)

// odd are schemas of tools that some provider refuses as they are.
var odd = []string{
	``, `null`, `{}`, `true`, `{"type":"object"}`, `{"type":"object","properties":null}`, `{"type":"object","properties":[]}`,
	`{"properties":{"a":{"type":"string"}}}`, `{"type":["object","null"],"properties":{"a":{"type":["string","null"]}}}`,
	`{"type":"object","properties":{"a":{"type":"array"}},"required":["a","gone"]}`,
	`{"anyOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"b":{"type":"integer"}}}]}`,
	`{"type":"object","oneOf":[{"required":["a"]},{"required":["b"]}],"properties":{"a":{},"b":{}}}`,
	`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"string","enum":["x"]}}}`,
	`{"type":"object","properties":{"a":{"type":"integer","enum":[1,2]},"b":{"const":3}}}`,
	`{"type":"object","properties":{"$filter":{"type":"string"},"a[b]":{"type":"string"}}}`,
	`{"type":"object","properties":{"a":{"$ref":"#"}}}`,
	`{"type":"object","properties":{"a":{"type":"float"},"b":{"type":"array","items":{"type":"dict","properties":{"c":{"type":"any","enum":[]},"d":{"type":"array"}}}}}}`,
	`{"type":"object","properties":{"a":{"type":"number","minimum":1,"exclusiveMinimum":true},"b":{"anyOf":[{"type":["array","null"]},{"type":"str"}]},"c":{"type":"date"}}}`,
}

func TestTools_OddSchemasFitEachProvider(t *testing.T) {
	in := plugins.Input{Query: "hello"}
	for i, schema := range odd {
		in.Tools = append(in.Tools, agui.Tool{Name: fmt.Sprint("tool.", i), Description: "Does it.", Parameters: json.RawMessage(schema)})
	}
	for _, name := range []string{"查询天气", "搜索新闻", "1st", strings.Repeat("n", 65), "a.b", "a_b", "a b"} {
		in.Tools = append(in.Tools, agui.Tool{Name: name})
	}
	for server := range servers {
		a, asked := strict(t, server, llm.Config{})
		res := plugintest.Run(t, a, plugintest.Config{Input: in})
		if n := len(asked.Requests()); res.Err != nil || n != 1 {
			t.Errorf("%s: %v after %d requests", server, res.Err, n)
		}
		if strings.Contains(fmt.Sprint(res.Events), llm.LeftOutEvent) || a.Health() != nil {
			t.Errorf("%s: a tool is left out: %+v", server, a.Health())
		}
	}
}

// publicTools returns the tools of public MCP servers, which testdata/tools.json.gz has by the servers' names as they list them:
// filesystem, memory, everything and sequential-thinking 2026.8.31 and github 2025.4.8 of Model Context Protocol, playwright 0.0.83,
// notion 2.5.2, firecrawl 3.22.2, context7 4.1.1, and gitlab 2.1.64 of zereight.
func publicTools(tb testing.TB) (tools []agui.Tool) {
	tb.Helper()
	f, err := os.Open("testdata/tools.json.gz")
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		tb.Fatal(err)
	}
	var servers map[string][]struct {
		Name        string
		InputSchema json.RawMessage
	}
	if err := json.NewDecoder(z).Decode(&servers); err != nil {
		tb.Fatal(err)
	}
	for _, server := range slices.Sorted(maps.Keys(servers)) {
		for _, t := range servers[server] {
			tools = append(tools, agui.Tool{Name: server + "." + t.Name, Parameters: t.InputSchema})
		}
	}
	return tools
}

func TestTools_OfPublicServersFitEachProvider(t *testing.T) {
	tools := publicTools(t)
	servers["references"] = servers["openai"] // OpenAI's own, which has references
	defer delete(servers, "references")
	s := servers["references"]
	s.config.Compat.Schema = "openai"
	servers["references"] = s
	for _, server := range []string{"openai", "references", "responses", "anthropic", "gemini", "ollama"} {
		a, asked := strict(t, server, llm.Config{})
		for some := range slices.Chunk(tools, 100) {
			res := plugintest.Run(t, a, plugintest.Config{Input: plugins.Input{Query: "hello", Tools: some}})
			if res.Err != nil {
				t.Errorf("%s: %v", server, res.Err)
			}
		}
		if n := len(asked.Requests()); n != (len(tools)+99)/100 || a.Health() != nil {
			t.Errorf("%s: %d requests, %+v", server, n, a.Health())
		}
	}
}

// A tool that cannot be sent, or that the provider refuses, is left out, and viewers and operators see which.
func TestTools_LeftOutAreReported(t *testing.T) {
	refuse := func(r *llmtest.Request) *llm.Error {
		if i := strings.Index(string(r.Body), "refused"); i > 0 {
			return &llm.Error{Status: http.StatusBadRequest, Message: "Invalid schema for function 'm_refused': In context=(), it is odd"}
		}
		return nil
	}
	servers["picky"] = servers["openai"]
	defer delete(servers, "picky")
	s := servers["picky"]
	s.rules = []llmtest.Rule{refuse, llmtest.OpenAI}
	servers["picky"] = s
	a, asked := strict(t, "picky", llm.Config{})
	in := plugins.Input{Query: "hello", Tools: []agui.Tool{
		{Name: "m.refused"}, {Name: "m.unfit", Parameters: json.RawMessage(`{"properties":{"a":` + strings.Repeat(`{"items":`, 100) + `{}` + strings.Repeat("}", 100) + `}}`)}, {Name: "m.good"},
	}}
	for range 2 {
		res := plugintest.Run(t, a, plugintest.Config{Input: in})
		if res.Err != nil {
			t.Fatal(res.Err)
		}
		var told []string
		for _, ev := range res.Events {
			if c, ok := ev.(agui.Custom); ok && c.Name == llm.LeftOutEvent {
				told = append(told, string(c.Value))
			}
		}
		if len(told) != 1 || !strings.Contains(told[0], `{"name":"m.refused","why":"openai: 400: Invalid schema`) || !strings.Contains(told[0], `its schema is too deep`) {
			t.Errorf("told %q", told)
		}
	}
	if h := a.Health(); h == nil || !h.OK || !strings.Contains(h.Detail, "tool m.unfit is left out") || !strings.Contains(h.Detail, "learned: without tool m_refused") {
		t.Errorf("health %+v", h)
	}
	if n := len(asked.Requests()); n != 3 {
		t.Errorf("%d requests", n)
	}
}
