package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
)

func TestNormalise_Dialects(t *testing.T) {
	const none = `{"properties":{},"type":"object"}`
	for _, test := range []struct{ given, dialect, want string }{
		{`null`, "", none},
		{`{}`, "", none},
		{`true`, "", none},
		{`[]`, "", none},
		{`"x"`, "json", none},
		{`{"type":"object"}`, "json", none},
		{`{"type":"object"}`, "", none},
		{`{"type":"object","properties":null}`, "", none},
		{`{"type":"object","properties":[]}`, "ollama", none},
		{`{"type":["object","null"]}`, "", none},
		{`{"type":"string"}`, "", none},
		{`{"type":"object","properties":{}}`, "", `{"type":"object","properties":{}}`}, // as it is
		{`{"type":"object","required":["b","a"],"properties":{"b":{"type":"string"},"a":{"type":"integer"}},"additionalProperties":false}`, "gemini", `{"type":"object","required":["b","a"],"properties":{"b":{"type":"string"},"a":{"type":"integer"}},"additionalProperties":false}`},
		{`{"$schema":"x","$id":"y","type":"object","properties":{}}`, "openai", none},
		{`{"type":"object","properties":{"a":{}},"required":["a","b",3]}`, "", `{"properties":{"a":{}},"required":["a"],"type":"object"}`},
		{`{"type":"object","properties":{"a":{}},"required":"a"}`, "", `{"properties":{"a":{}},"type":"object"}`},
		{`{"type":"object","properties":{"a":true,"b":null}}`, "", `{"properties":{"a":{},"b":{}},"type":"object"}`},
		{`{"type":"object","properties":{"a":{"type":"array"}}}`, "", `{"properties":{"a":{"items":{},"type":"array"}},"type":"object"}`},
		{`{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"array"}}}}}`, "anthropic", `{"properties":{"a":{"properties":{"b":{"items":{},"type":"array"}},"type":"object"}},"type":"object"}`},
		{`{"type":"object","properties":{"a":{"type":["array","null"]}}}`, "", `{"properties":{"a":{"items":{},"type":["array","null"]}},"type":"object"}`},
		{`{"type":"object","properties":{"a":{"type":"array"},"b":{"items":{"type":"list"},"type":"array"}}}`, "gemini", `{"properties":{"a":{"items":{},"type":"array"},"b":{"items":{"items":{},"type":"array"},"type":"array"}},"type":"object"}`},
		// what is in no draft, or in old ones
		{`{"type":"OBJECT","properties":{"a":{"type":"float"},"b":{"type":"int"},"c":{"type":"any"},"d":{"type":"str"},"e":{"type":"dict"},"f":{"type":"Boolean"}}}`, "json", `{"properties":{"a":{"type":"number"},"b":{"type":"integer"},"c":{},"d":{"type":"string"},"e":{"type":"object"},"f":{"type":"boolean"}},"type":"object"}`},
		{`{"type":"object","properties":{"a":{"type":"float"},"b":{"type":"bool"},"c":{"type":"any","enum":[]},"d":{"type":"date"}}}`, "gemini", `{"properties":{"a":{"type":"number"},"b":{"type":"boolean"},"c":{},"d":{}},"type":"object"}`},
		{`{"type":"object","properties":{"a":{"type":["int","float","str"]},"b":{"type":["str","any"]},"c":{"type":["str"]},"d":{"type":{}},"e":{"type":null}}}`, "anthropic", `{"properties":{"a":{"type":["integer","number","string"]},"b":{},"c":{"type":"string"},"d":{},"e":{}},"type":"object"}`},
		{`{"type":"object","properties":{"a":{"type":"str","enum":[]},"b":{"enum":"x"},"type":{"type":"str"},"enum":{"enum":[]}}}`, "openai", `{"properties":{"a":{"type":"string"},"b":{},"enum":{},"type":{"type":"string"}},"type":"object"}`},
		{`{"type":"object","properties":{"a":{"type":"list"},"b":{"type":"tuple","items":{"type":"int"}}}}`, "ollama", `{"properties":{"a":{"items":{},"type":"array"},"b":{"items":{"type":"integer"},"type":"array"}},"type":"object"}`},
		{`{"type":"object","properties":{"a":{"type":"number","minimum":1,"exclusiveMinimum":true,"maximum":5,"exclusiveMaximum":false},"b":{"exclusiveMinimum":true}}}`, "anthropic", `{"properties":{"a":{"exclusiveMinimum":1,"maximum":5,"type":"number"},"b":{}},"type":"object"}`},
		// roots
		{`{"anyOf":[{"properties":{"a":{"type":"string"},"c":{}},"required":["a","c"]},{"properties":{"a":{"type":"integer"},"b":{}},"required":["a"]}]}`, "anthropic", `{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"integer"}]},"b":{},"c":{}},"required":["a"],"type":"object"}`},
		{`{"oneOf":[{"properties":{"a":{}},"required":["a"]},{"properties":{"a":{}},"required":["a"]}]}`, "", `{"properties":{"a":{}},"required":["a"],"type":"object"}`},
		{`{"allOf":[{"properties":{"a":{}},"required":["a"]},{"properties":{"b":{}},"required":["b"]}]}`, "", `{"properties":{"a":{},"b":{}},"required":["a","b"],"type":"object"}`},
		{`{"allOf":[{"$ref":"#/$defs/A"}],"$defs":{"A":{"properties":{"a":{}}}}}`, "", `{"properties":{"a":{}},"type":"object"}`},
		{`{"anyOf":[{"properties":{"a":{}}}]}`, "json", `{"anyOf":[{"properties":{"a":{}}}],"properties":{},"type":"object"}`},
		{`{"type":"object","properties":{},"enum":[1],"not":{}}`, "openai", none},
		{`{"$ref":"#/definitions/A","definitions":{"A":{"type":"object","properties":{"a":{"type":"string"}}}}}`, "gemini", `{"properties":{"a":{"type":"string"}},"type":"object"}`},
		// references
		{`{"type":"object","properties":{"a":{"$ref":"#/$defs/A","description":"d"}},"$defs":{"A":{"type":"string"}}}`, "gemini", `{"properties":{"a":{"description":"d","type":"string"}},"type":"object"}`},
		{`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"string"}}}`, "anthropic", `{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"string"}}}`},
		{`{"type":"object","properties":{"a":{"$ref":"https://x.example/a"},"b":{"$ref":"#/$defs/gone"}}}`, "", `{"properties":{"a":{},"b":{}},"type":"object"}`},
		{`{"type":"object","properties":{"a":{"$ref":"https://x.example/a"}}}`, "openai", `{"properties":{"a":{}},"type":"object"}`},
		{`{"type":"object","properties":{"a~b":{"type":"string"},"c":{"$ref":"#/properties/a~0b"}}}`, "ollama", `{"properties":{"a~b":{"type":"string"},"c":{"type":"string"}},"type":"object"}`},
		// names
		{`{"type":"object","properties":{"$filter":{},"a":{}}}`, "anthropic", `{"properties":{"a":{},"filter_bqex2qgw":{}},"type":"object"}`},
		{
			`{"type":"object","properties":{"x y":{"type":"object","properties":{"":{},"z":{"$ref":"#/properties/x y/properties/"}},"required":["",""]}},"required":["x y"]}`, "openai",
			`{"properties":{"x_y_rb745jvi":{"properties":{"t_4oymiquy":{},"z":{}},"required":["t_4oymiquy"],"type":"object"}},"required":["x_y_rb745jvi"],"type":"object"}`,
		},
		{
			`{"type":"object","properties":{"a":{"anyOf":[{"type":"null"},{"type":["integer","null"],"minimum":1}],"description":"A"},"b":{"const":"x"},"c":{"allOf":[{"$ref":"#/$defs/c"}]}},"$defs":{"c":{"type":"array","items":{"type":"string","format":"uri"}}}}`, "bare",
			`{"properties":{"a":{"description":"A","type":"integer"},"b":{"enum":["x"]},"c":{"items":{"type":"string"},"type":"array"}},"type":"object"}`,
		},
		{`{"type":"object","properties":{"$filter":{},"a":{}}}`, "gemini", `{"type":"object","properties":{"$filter":{},"a":{}}}`},
		// Gemini
		{`{"type":"object","properties":{"a":{"type":"integer","enum":[1,2]}}}`, "gemini", `{"properties":{"a":{"description":"One of: 1, 2.","type":"integer"}},"type":"object"}`},
		{`{"type":"object","properties":{"a":{"type":"string","enum":["x",2,null]}}}`, "gemini", `{"properties":{"a":{"enum":["x","2"],"type":"string"}},"type":"object"}`},
		{`{"type":"object","properties":{"a":{"const":"x"}}}`, "gemini", `{"properties":{"a":{"enum":["x"]}},"type":"object"}`},
		{`{"type":"object","properties":{"a":{"type":["string","null"]}}}`, "gemini", `{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}},"type":"object"}`},
		{`{"type":"object","properties":{"a":{"type":"object","patternProperties":{"x":{}},"propertyNames":{}}}}`, "gemini", `{"properties":{"a":{"type":"object"}},"type":"object"}`},
		{`{"type":"object","properties":{"a":{"type":"string","format":"uri"}}}`, "gemini", `{"properties":{"a":{"type":"string"}},"type":"object"}`},
		// Ollama
		{`{"type":"object","properties":{"a":{"type":["null","string"]}}}`, "ollama", `{"properties":{"a":{"type":"string"}},"type":"object"}`},
		{`{"type":"object","properties":{"a":{"items":[{"type":"string"},{}],"type":"array"}}}`, "", `{"properties":{"a":{"items":{"type":"string"},"type":"array"}},"type":"object"}`},
		{`{"type":"object","properties":{"a":{"minimum":12345678901234567890}},"required":[]}`, "", `{"properties":{"a":{"minimum":12345678901234567890}},"type":"object"}`},
	} {
		got, _, err := normalise(json.RawMessage(test.given), Dialect(test.dialect))
		if err != nil || string(got) != test.want {
			t.Errorf("%s for %s: %v\n got %s\nwant %s", test.given, test.dialect, err, got, test.want)
		}
		if again, _, err := normalise(got, Dialect(test.dialect)); err != nil || string(again) != string(got) {
			t.Errorf("%s for %s changes again: %v, %s", test.given, test.dialect, err, again)
		}
	}
}

func TestNormalise_Limits(t *testing.T) {
	cyclic := `{"type":"object","properties":{"a":{"$ref":"#/properties/a"},"b":{"$ref":"#"}}}`
	for _, d := range []Dialect{AnySchema, GeminiSchema, OllamaSchema} {
		out, _, err := normalise(json.RawMessage(cyclic), d)
		if err != nil || strings.Contains(string(out), "$ref") || len(out) > maxSchema {
			t.Errorf("%s: %v, %d bytes", d, err, len(out))
		}
	}
	wide := `{"type":"object","properties":{"a":{"$ref":"#/$defs/a0"}},"$defs":{"a0":{"anyOf":[` + strings.TrimSuffix(strings.Repeat(`{"$ref":"#/$defs/a0"},`, 100), ",") + `]}}}`
	deep := `{"properties":{"a":` + strings.Repeat(`{"items":`, 100) + `{}` + strings.Repeat("}", 100) + `}}`
	for _, given := range []string{wide, deep, `{"x":"` + strings.Repeat("x", maxSchema) + `"}`, `{`, `{"type":"object","properties":{}} {}`} {
		if out, _, err := normalise(json.RawMessage(given), AnySchema); err == nil {
			t.Errorf("%.60s: %.100s", given, out)
		}
	}
}

func TestNormalise_RemembersSchemas(t *testing.T) {
	k := &knowledge{}
	for i := range maxSchemas + 10 {
		raw := json.RawMessage(fmt.Sprintf(`{"properties":{"a":{"const":%d}}}`, i))
		for _, d := range []Dialect{GeminiSchema, OllamaSchema, GeminiSchema} {
			n := k.normalise(raw, d)
			if want, _, wantErr := normalise(raw, d); string(n.schema) != string(want) || n.err != nil || wantErr != nil {
				t.Fatalf("%s for %s: %s, %v, want %s", raw, d, n.schema, n.err, want)
			}
		}
	}
	if n := len(k.schemas); n == 0 || n > maxSchemas {
		t.Errorf("%d schemas are remembered", n)
	}
}

func FuzzNormalise(f *testing.F) {
	f.Add([]byte(`{"anyOf":[{"properties":{"a":{"type":["string","null"]}}}],"required":["a"]}`))
	f.Add([]byte(`{"properties":{"a":{"$ref":"#/properties/a"}}}`))
	f.Fuzz(func(t *testing.T, given []byte) {
		for _, d := range []Dialect{AnySchema, PlainSchema, OpenAISchema, AnthropicSchema, GeminiSchema, OllamaSchema, BareSchema} {
			out, _, err := normalise(given, d)
			if err != nil {
				continue
			}
			var s struct {
				Type       string         `json:"type"`
				Properties map[string]any `json:"properties"`
			}
			if json.Unmarshal(out, &s) != nil || s.Type != "object" || s.Properties == nil {
				t.Errorf("%s: %s becomes %s", d, given, out)
			}
		}
	})
}

func TestTools_UnfitAreLeftOut(t *testing.T) {
	req := llm.Request{Messages: dialog("u|a")}
	for _, name := range []string{"good", "refused", "bad"} {
		f := &llms.FunctionDefinition{Name: name, Description: "It is good."}
		if name == "bad" {
			f.Parameters = json.RawMessage(`{`)
		}
		req.Options.Tools = append(req.Options.Tools, llms.Tool{Function: f})
	}
	var left []llm.LeftOut
	req.LeftOut = func(tools []llm.LeftOut) error { left = append(left, tools...); return nil }
	var tools []Tool
	e, _, _ := endpoint(t, func(body string) string {
		if strings.Contains(body, "refused") {
			return "Invalid schema for function 'refused': no"
		}
		return ""
	})
	res, err := e.Exchange(t.Context(), "http://x.example", req, func(c *Conversation, _ Caps) any {
		tools = c.Tools
		return c.Tools
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if len(tools) != 1 || tools[0].Name != "good" || len(left) != 2 {
		t.Errorf("sent %+v, left out %+v", tools, left)
	}
	e.known.caps.Tools = 1
	e.known.models = nil
	req.Options.Tools = append(req.Options.Tools, llms.Tool{Function: &llms.FunctionDefinition{Name: "other"}})
	if _, err := e.Exchange(t.Context(), "http://x.example", req, plainShape); err == nil || !strings.Contains(err.Error(), "takes 1 tools, and there are 3") { //nolint:bodyclose // there is none
		t.Errorf("%v", err)
	}
}

func TestShortened_KeepsSentences(t *testing.T) {
	for text, want := range map[string]string{
		"short": "short", "It is good. It is very good.": "It is good. …", "word word word word word": "word word word …", strings.Repeat("ü", 20): strings.Repeat("ü", 8) + " …",
	} {
		if got := shortened(text, 20); got != want || len(got) > 20 {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}
