package graph_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/graph"
)

// A schema stays as strict as it is where more of it would fit than before, and a text that fits stays one.
func TestSet_FitArgsKeepsMeaning(t *testing.T) {
	const either = `{"type":"object","properties":{"path":{"type":"string","default":null},"url":{"type":"string","default":null}},
		"oneOf":[{"required":["path"]},{"required":["url"]}]}`
	const mode = `{"type":"object","properties":{"mode":{"default":"x"},"n":{}},"if":{"required":["mode"]},"then":{"required":["n"]}}`
	const both = `{"type":"object","properties":{"a":{"default":1},"b":{"default":1}},"not":{"required":["a","b"]}}`
	const data = `{"type":"object","properties":{"data":{"anyOf":[{"type":"object"},{"type":"string"}]},"note":{"type":"string"}}}`
	for _, c := range []struct{ schema, args, want string }{
		{either, `{"path":"x"}`, `{"path":"x"}`},
		{mode, `{}`, `{}`},
		{both, `{"a":1}`, `{"a":1}`},
		{data, `{"data":"{}","note":null}`, `{"data":"{}"}`},
		{data, `{"data":{},"note":"7"}`, `{"data":{},"note":"7"}`},
	} {
		got, err := new(graph.Set).FitArgs(tool{c.schema}, json.RawMessage(c.args))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v, want %s", c.args, got, err, c.want)
		}
	}
}

// Arguments with a clear meaning are changed until they fit, and all others are refused as before.
func TestSet_FitArgsChanges(t *testing.T) {
	const schema = `{"type":"object","required":["n","d","city"],"properties":{
		"n":{"type":"integer"},"d":{"type":"string","default":"x"},"city":{"type":"string"},"note":{"type":"string"},"kind":{"enum":["a","b"]},
		"either":{"anyOf":[{"type":"string","maxLength":2},{"type":"number"}]},"maybe":{"type":["string","null"]},
		"list":{"type":"array","items":{"type":"integer"}},"on":{"type":"boolean"},"f":{"type":"number"},
		"o":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"object","required":["c"],"properties":{"c":{"type":"integer","default":1}}}}}}}`
	for args, want := range map[string]string{
		`{"n":1,"city":"x"}`:                                            "", // a member with a default is not required
		`{"n":1,"city":"x","note":null}`:                                `{"city":"x","n":1}`,
		`{"n":1,"city":"x","note":null,"list":null}`:                    `{"city":"x","n":1}`,
		`{"n":1,"city":"x","kind":null}`:                                `{"city":"x","n":1}`,
		`{"n":1,"city":"x","either":null}`:                              `{"city":"x","n":1}`,
		`{"n":1,"city":"x","maybe":null}`:                               "",
		`{"n":1,"city":"x","d":null}`:                                   `{"city":"x","n":1}`,
		`{"n":null,"city":"x"}`:                                         "refused",
		`{"n":1,"city":null}`:                                           "refused",
		`{"n":"12345678901234567890","city":"7"}`:                       `{"city":"7","n":12345678901234567890}`,
		`{"n":"1.5","city":"x"}`:                                        "refused",
		`{"n":"one","city":"x"}`:                                        "refused",
		`{"n":"","city":"x"}`:                                           "refused",
		`{"n":"true","city":"x"}`:                                       "refused",
		`{"n":1,"city":"x","f":" 1.50 "}`:                               `{"city":"x","f":1.50,"n":1}`,
		`{"n":1,"city":"x","on":"true"}`:                                `{"city":"x","n":1,"on":true}`,
		`{"n":1,"city":"x","list":"[1, 2]"}`:                            `{"city":"x","list":[1,2],"n":1}`,
		`{"n":1,"city":"x","list":["1",2]}`:                             `{"city":"x","list":[1,2],"n":1}`,
		`{"n":1,"city":"x","list":"[\"1\"]"}`:                           `{"city":"x","list":[1],"n":1}`,
		`{"n":1,"city":"x","list":[null]}`:                              "refused",
		`{"n":1,"city":"x","o":"{\"a\":1,\"b\":\"{}\"}"}`:               `{"city":"x","n":1,"o":{"a":1,"b":{}}}`,
		`{"n":1,"city":"x","o":{"a":"1","b":{"c":null}}}`:               `{"city":"x","n":1,"o":{"a":1,"b":{}}}`,
		`{"n":1,"city":"x","o":"[1]"}`:                                  "refused",
		`{"n":1,"city":"<&>","note":null}`:                              `{"city":"<&>","n":1}`,
		`{"n":"1e999999","city":"x"}`:                                   "refused",
		`{"n":1,"city":5}`:                                              "refused",
		`{"n":1,"n":2,"city":"x","note":null}`:                          "refused", // twice
		`[1]`:                                                           "refused",
		`{"n":1,"city":"x","list":"` + strings.Repeat("[", 5000) + `"}`: "refused",
	} {
		got, err := new(graph.Set).FitArgs(tool{schema}, json.RawMessage(args))
		switch {
		case want == "refused" && err == nil:
			t.Errorf("%.100s is changed to %s", args, got)
		case want == "refused":
		case err != nil || string(got) != want && (want != "" || string(got) != args):
			t.Errorf("%s: got %s, %v; want %s", args, got, err, want)
		}
	}
}

// What is required of a member with a default is asked nowhere in the schema, and the words of enum and const are left alone.
func TestSet_FitArgsDefaults(t *testing.T) {
	for schema, fits := range map[string]bool{
		`{"required":["a"],"properties":{"a":{"default":null}}}`:                                                     true,
		`{"allOf":[{"required":["a"]}],"properties":{"a":{"default":1}}}`:                                            true,
		`{"required":["a"],"allOf":[{"properties":{"a":{"default":1}}}]}`:                                            true,
		`{"$ref":"#/$defs/args","$defs":{"args":{"required":["a"],"properties":{"a":{"default":1}}}}}`:               true,
		`{"required":["a"],"properties":{"a":{"type":"string"}}}`:                                                    false,
		`{"required":["a"],"properties":{"b":{"properties":{"a":{"default":1}}}}}`:                                   false,
		`{"const":{"required":["a"],"properties":{"a":{"default":1}}}}`:                                              false,
		`{"properties":{"required":{"default":1},"properties":{"default":{}}},"required":["required","properties"]}`: true,
	} {
		if _, err := new(graph.Set).FitArgs(tool{schema}, json.RawMessage(`{}`)); (err == nil) != fits {
			t.Errorf("%s: %v", schema, err)
		}
	}
}

// A person's answer is checked as it is.
func TestSchema_CheckKeepsDefaultsRequired(t *testing.T) {
	s, err := graph.CompileSchema(json.RawMessage(`{"required":["a"],"properties":{"a":{"default":1}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if s.Check(json.RawMessage(`{}`)) == nil {
		t.Error("the answer is accepted")
	}
}

// Many misfits take no longer than the limit of steps, and few changes.
func TestSet_FitArgsIsBounded(t *testing.T) {
	list := `{"list":[` + strings.Repeat(`"1",`, 20_000) + `"1"]}`
	begun := time.Now()
	if _, err := new(graph.Set).FitArgs(tool{`{"properties":{"list":{"items":{"type":"integer"}}}}`}, json.RawMessage(list)); err == nil {
		t.Error("20,000 changes were made")
	}
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("it took %v", took)
	}
}

func TestClientTools_FitChanges(t *testing.T) {
	var tools graph.ClientTools
	got, err := tools.Fit(json.RawMessage(`{"properties":{"a":{"type":"string"}}}`), json.RawMessage(`{"a":null,"b":1}`))
	if err != nil || string(got) != `{"b":1}` {
		t.Errorf("got %s, %v", got, err)
	}
}
