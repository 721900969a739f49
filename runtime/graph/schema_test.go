package graph_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/graph"
)

// tool is a tool with parameters.
type tool struct{ parameters string }

func (t tool) Info() plugins.Info {
	return plugins.Info{Name: "box.tool", Parameters: json.RawMessage(t.parameters)}
}

func (tool) Call(context.Context, *plugins.Call) (agui.ToolOutput, error) {
	return agui.ToolOutput{}, nil
}

func check(parameters, args string) error {
	_, err := new(graph.Set).FitArgs(tool{parameters}, json.RawMessage(args))
	return err
}

func TestSet_FitArgs(t *testing.T) {
	for schema, cases := range map[string]map[string]string{
		`{"type":"object","properties":{"n":{"$ref":"#/$defs/count"},"list":{"type":"array","items":{"format":"date","type":"string"}}},` +
			`"required":["n"],"$defs":{"count":{"type":"integer","minimum":1}},"$schema":"http://json-schema.org/draft-07/schema#"}`: {
			`{"n":1,"list":["2026-01-31"]}`: "",
			`{"n":0}`:                       "at '/n': minimum: got 0, want 1",
			`{}`:                            "at '': missing property 'n'",
			`{"n":1,"list":["then"]}`:       "at '/list/0': 'then' is not valid date",
			`[]`:                            "the arguments are not an object",
		},
		// parts that take extra steps
		`{"properties":{"a":{"pattern":"^[a-z]{2,40}(-\\d+)*$"},"b":{"enum":[` + strings.Repeat("0,", 500) + `"last"]},"c":{"const":[1,{"d":2}]}},"patternProperties":{"^x-":{"type":"string"}},"additionalProperties":{}}`: {
			`{"a":"abc-1-2"}`: "", `{"a":"A"}`: "does not match pattern", `{"x-a":"b"}`: "", `{"x-a":1}`: "got number, want string",
			`{"n":1.5e300,"m":-0.25}`:        "",
			`{"b":"last","c":[1.0,{"d":2}]}`: "", `{"b":1}`: "value must be one of", `{"c":[1]}`: "'const' failed",
		},
	} {
		for args, want := range cases {
			err := check(schema, args)
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: %v, want %q", args, err, want)
			}
		}
	}
}

// Steps of a dynamic reference cannot be counted, so the schema is refused and the tool checks its own arguments.
func TestSet_FitArgsSkipsDynamicReferences(t *testing.T) {
	var wide strings.Builder
	for i := range 200 {
		fmt.Fprintf(&wide, `"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, i, i+1, i+1)
	}
	if err := check(`{"$dynamicRef":"#/$defs/a0","$defs":{`+wide.String()+`"a200":{"type":"string"}}}`, `{}`); err != nil {
		t.Error(err)
	}
}

// The schema of a remote server must not read our files.
func TestSet_FitArgsReadsNoFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret.json")
	if err := os.WriteFile(file, []byte(`{"required":["secret"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := check(`{"$ref":"file://`+file+`"}`, `{}`); err != nil {
		t.Errorf("the file was read: %v", err)
	}
}

func TestCompileSchema_RefusesInvalidSchemas(t *testing.T) {
	for raw, want := range map[string]string{
		`5`:                                   "got number, want boolean or object",
		`{"properties":{"a":null}}`:           "at '/properties/a': got null, want boolean or object",
		`{"required":5}`:                      "at '/required': got number, want array",
		`{"title":{}}`:                        "at '/title': got object, want string",
		`{"pattern":"("}`:                     "not valid regex",
		`{"$ref":"#/title","title":"x"}`:      "got string, want boolean or object",
		`{"$ref":"#/$defs/a"}`:                "not found",
		`{"$ref":"https://example.com/a"}`:    "refers to nothing outside of it",
		`{"$schema":"https://example.com/a"}`: "refers to nothing outside of it",
		`{"$ref":"#"}`:                        "without end",
		`{"anyOf":[{"type":"string"},{"not":{"$ref":"#"}}]}`:                                         "without end",
		`{"dependentSchemas":{"a":{"$ref":"#"}}}`:                                                    "without end",
		`{"properties":{"a":{"$ref":"#/properties/a"}}}`:                                             "without end",
		`{"$defs":{"b":{"$ref":"#/$defs/c"},"c":{"$ref":"#/$defs/b"}},"items":{"$ref":"#/$defs/b"}}`: "without end",
		`{"patternProperties":{"^(?!a)":{}}}`:                                                        "patternProperties",
		`{"a":"` + strings.Repeat("a", 256<<10) + `"}`:                                               "262144 bytes",
		`{`: "not JSON",
	} {
		if _, err := graph.CompileSchema(json.RawMessage(raw)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.100s: %v, want %q", raw, err, want)
		}
	}
}

// A recursive schema ends with its value. A pattern in JavaScript's dialect, such as Zod's for an e-mail address,
// accepts every text, and the rest of the schema applies.
func TestCompileSchema_TakesTreesAndForeignPatterns(t *testing.T) {
	const raw = `{"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#"}},` +
		`"mail":{"type":"string","pattern":"^(?!\\.)(?!.*\\.\\.)[a-z.]+@[a-z.]+$"}}}`
	s, err := graph.CompileSchema(json.RawMessage(raw))
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{
		`{"mail":"a@b.c","children":[{"children":[{}]}]}`: "",
		`{"children":[{"children":[1]}]}`:                 "at '/children/0/children/0': got number, want object",
		`{"mail":1}`:                                      "at '/mail': got number, want string",
		`[`:                                               "not JSON",
	} {
		if err := s.Check(json.RawMessage(value)); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", value, err, want)
		}
	}
}

// A request's schemas are compiled before it is answered.
func TestCheckClientTools_BoundsAllSchemas(t *testing.T) {
	parts := json.RawMessage(`{"allOf":[` + strings.Repeat("true,", 2_000) + `true]}`)
	for name, c := range map[string]struct {
		tools []agui.Tool
		at    int
		want  string
	}{
		"none":       {[]agui.Tool{{Name: "a"}, {Name: "b", Parameters: json.RawMessage(`{}`)}}, 0, ""},
		"no schema":  {[]agui.Tool{{Name: "a"}, {Name: "b", Parameters: json.RawMessage(`{"required":5}`)}}, 1, "at '/required'"},
		"many parts": {[]agui.Tool{{Parameters: parts}, {Parameters: parts}, {Parameters: parts}}, 2, "too many parts"},
	} {
		at, err := graph.CheckClientTools(c.tools)
		if c.want == "" && err != nil || c.want != "" && (at != c.at || err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %d, %v, want %d, %q", name, at, err, c.at, c.want)
		}
	}
}
