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
	return new(graph.Set).CheckArgs(tool{parameters}, json.RawMessage(args))
}

func TestArgumentsFit(t *testing.T) {
	const schema = `{"type":"object","properties":{"n":{"$ref":"#/$defs/count"},"list":{"type":"array","items":{"format":"date","type":"string"}}},` +
		`"required":["n"],"$defs":{"count":{"type":"integer","minimum":1}},"$schema":"http://json-schema.org/draft-07/schema#"}`
	for args, want := range map[string]string{
		`{"n":1,"list":["2026-01-31"]}`: "",
		`{"n":0}`:                       "at '/n': minimum: got 0, want 1",
		`{}`:                            "at '': missing property 'n'",
		`{"n":1,"list":["then"]}`:       "at '/list/0': 'then' is not valid date",
		`[]`:                            "the arguments are not an object",
	} {
		err := check(schema, args)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// A schema of a few lines can make a validator run for years, at each level of the schema or of the arguments.
func TestCheckingIsBounded(t *testing.T) {
	var wide, deep strings.Builder
	wide.WriteString(`{"$ref":"#/$defs/a0","$defs":{`)
	for i := range 200 {
		fmt.Fprintf(&wide, `"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, i, i+1, i+1)
	}
	wide.WriteString(`"a200":{"type":"object"}}}`)
	deep.WriteString(`{"$ref":"#/$defs/a0","$defs":{`)
	for i := range 1000 {
		fmt.Fprintf(&deep, `"a%d":{"$ref":"#/$defs/a%d"},`, i, i+1)
	}
	deep.WriteString(`"a1000":{"properties":{"a":{"$ref":"#"}}}}}`)
	nested := strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200)
	for name, schema := range map[string]string{
		"wide": wide.String(), "deep": deep.String(),
		"draft 7":    strings.Replace(wide.String(), "{", `{"$schema":"http://json-schema.org/draft-07/schema#",`, 1),
		"each level": `{"anyOf":[{"properties":{"a":{"$ref":"#"}},"required":["b"]},{"properties":{"a":{"$ref":"#"}}}]}`,
	} {
		if err := check(schema, nested); err == nil || !strings.Contains(err.Error(), "takes too long") {
			t.Errorf("%s: %.200v", name, err)
		}
	}
}

// Steps of a dynamic reference cannot be counted, so the schema is refused and the tool checks its own arguments.
func TestDynamicReferencesAreNotChecked(t *testing.T) {
	var wide strings.Builder
	for i := range 200 {
		fmt.Fprintf(&wide, `"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, i, i+1, i+1)
	}
	if err := check(`{"$dynamicRef":"#/$defs/a0","$defs":{`+wide.String()+`"a200":{"type":"string"}}}`, `{}`); err != nil {
		t.Error(err)
	}
}

// The schema of a remote server must not read our files.
func TestSchemasReadNoFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret.json")
	if err := os.WriteFile(file, []byte(`{"required":["secret"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := check(`{"$ref":"file://`+file+`"}`, `{}`); err != nil {
		t.Errorf("the file was read: %v", err)
	}
}

func TestCompileSchema_RefusesWhatIsNoSchema(t *testing.T) {
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
