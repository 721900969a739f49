package provider_test

import (
	"encoding/json"
	"fmt"
	"net/http"
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
		{Name: "m.refused"}, {Name: "m.unfit", Parameters: json.RawMessage(`{"properties":{"$a":{}},"required":["$a"]}`)}, {Name: "m.good"},
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
		if len(told) != 1 || !strings.Contains(told[0], `{"name":"m.refused","why":"openai: 400: Invalid schema`) || !strings.Contains(told[0], `its argument \"$a\" has a name`) {
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
