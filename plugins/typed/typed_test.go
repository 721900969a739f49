package typed_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/plugins/typed"
	"github.com/batonrun/baton/runtime/agui"
)

type place struct {
	City string   `json:"city" jsonschema:"the city's name"`
	Days int      `json:"days,omitempty" jsonschema:"how many days ahead"`
	Tags []string `json:"tags,omitzero"`
	Near *struct {
		Lat float64 `json:"lat"`
	} `json:"near,omitempty"`
	hidden bool
}

type weather struct {
	Sky  string  `json:"sky"`
	Temp float64 `json:"temp"`
}

func forecast(_ context.Context, call *plugins.Call, in place) (weather, error) {
	switch {
	case in.City == "Atlantis":
		return weather{}, &plugins.Error{Code: "unknown_city", Message: "There is no such city"}
	case in.hidden:
		return weather{}, errors.New("hidden")
	}
	return weather{Sky: in.City + " for " + call.User, Temp: float64(in.Days)}, nil
}

var tool = typed.Tool(plugins.Info{Name: "weather", Description: "Tells the weather.", Timeout: time.Second}, forecast)

func TestTool_DerivesSchema(t *testing.T) {
	info := tool.Info()
	if info.Name != "weather" || info.Description != "Tells the weather." || info.Timeout != time.Second {
		t.Errorf("got %+v", info)
	}
	var got, want any
	if err := json.Unmarshal(info.Parameters, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(`{
		"type": "object",
		"properties": {
			"city": {"type": "string", "description": "the city's name"},
			"days": {"type": "integer", "description": "how many days ahead"},
			"tags": {"type": ["null", "array"], "items": {"type": "string"}},
			"near": {
				"type": ["null", "object"], "properties": {"lat": {"type": "number"}},
				"required": ["lat"], "additionalProperties": false
			}
		},
		"required": ["city"],
		"additionalProperties": false
	}`), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if out := string(info.Output); !strings.Contains(out, `"sky":{"type":"string"}`) {
		t.Errorf("the output has the schema %s", out)
	}
	var reg host.Registry
	if err := reg.Add(tool); err != nil {
		t.Error(err)
	}
}

func TestTool_ResultIsJSON(t *testing.T) {
	for args, want := range map[string]string{
		`{"city":"Oslo"}`: `{"sky":"Oslo for alice","temp":0}`,
		`{"city":"Oslo","days":2,"tags":null,"near":{"lat":1}}`: `{"sky":"Oslo for alice","temp":2}`,
	} {
		out, err := tool.Call(t.Context(), &plugins.Call{Args: json.RawMessage(args), User: "alice"})
		if err != nil || out.ResultSummary != want {
			t.Errorf("%s: %+v, %v", args, out, err)
		}
	}
}

func TestTool_TextAndOutputAreUnchanged(t *testing.T) {
	text := typed.Tool(plugins.Info{Name: "text"}, func(_ context.Context, _ *plugins.Call, in map[string]int) (string, error) {
		return "sum", nil
	})
	if out, err := text.Call(t.Context(), &plugins.Call{Args: json.RawMessage(`{"a":1}`)}); err != nil || out.ResultSummary != "sum" {
		t.Errorf("got %+v, %v", out, err)
	}
	whole := typed.Tool(plugins.Info{Name: "whole"}, func(context.Context, *plugins.Call, struct{}) (agui.ToolOutput, error) {
		return agui.ToolOutput{ResultSummary: "s", UIHints: json.RawMessage(`{"a":1}`)}, nil
	})
	if out, err := whole.Call(t.Context(), &plugins.Call{Args: json.RawMessage(`{}`)}); err != nil || string(out.UIHints) != `{"a":1}` {
		t.Errorf("got %+v, %v", out, err)
	}
	if text.Info().Output != nil || whole.Info().Output != nil {
		t.Errorf("they have the schemas %s and %s", text.Info().Output, whole.Info().Output)
	}
}

func TestTool_RefusesInvalidArguments(t *testing.T) {
	for args, want := range map[string]string{
		`{}`:                                  `required: missing properties: ["city"]`,
		`{"city":1}`:                          `city: type: 1 has type "integer", want "string"`,
		`{"city":"Oslo","days":1.5}`:          `days: type: 1.5 has type "number", want "integer"`,
		`{"city":"Oslo","dayz":1}`:            `unexpected additional properties ["dayz"]`,
		`{"city":"Oslo","near":{"lat":"no"}}`: `near/lat: type: no has type "string", want "number"`,
		`[]`:                                  `type: [] has type "array", want "object"`,
		`{"city":`:                            `unexpected end of JSON input`,
	} {
		_, err := tool.Call(t.Context(), &plugins.Call{Args: json.RawMessage(args)})
		shown, ok := errors.AsType[*plugins.Error](err)
		if want = "The arguments do not match the tool's schema: " + want; !ok || shown.Code != "bad_arguments" || shown.Message != want {
			t.Errorf("%s:\n got %v\nwant %s", args, err, want)
		}
	}
}

func TestTool_ReturnsErrorsOfFunction(t *testing.T) {
	_, err := tool.Call(t.Context(), &plugins.Call{Args: json.RawMessage(`{"city":"Atlantis"}`)})
	if shown, ok := errors.AsType[*plugins.Error](err); !ok || shown.Code != "unknown_city" {
		t.Errorf("got %v", err)
	}
}

func TestTool_PanicsIfInvalid(t *testing.T) {
	for what, make := range map[string]func(){
		"text in": func() {
			typed.Tool(plugins.Info{Name: "t"}, func(context.Context, *plugins.Call, string) (int, error) { return 0, nil })
		},
		"function in": func() {
			typed.Tool(plugins.Info{Name: "t"}, func(context.Context, *plugins.Call, struct{ F func() }) (int, error) { return 0, nil })
		},
		"own a schema": func() { typed.Tool(plugins.Info{Name: "t", Parameters: json.RawMessage(`{}`)}, forecast) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", what)
				}
			}()
			make()
		}()
	}
}

// Call decodes the results of tools, and returns their failures as errors.
func TestCall_DecodesResult(t *testing.T) {
	got, failures := weather{}, []string{}
	agent := plugins.AgentFunc("a", func(ctx context.Context, run *plugins.Run) (err error) {
		if got, err = typed.Call[weather](ctx, run, "weather", place{City: "Rome", Days: 2}); err != nil {
			return err
		}
		for name, args := range map[string]any{"weather": place{City: "Atlantis"}, "none": nil} {
			_, err := typed.Call[weather](ctx, run, name, args)
			if e, ok := errors.AsType[*plugins.Error](err); ok {
				failures = append(failures, e.Code)
			}
		}
		text, err := typed.Call[string](ctx, run, "weather", place{City: "Rome"})
		if !strings.HasPrefix(text, "{") {
			t.Errorf("as a text: %q", text)
		}
		return err
	})
	plugintest.Run(t, agent, plugintest.Config{Input: plugins.Input{Query: "?"}, Tools: []plugins.Tool{tool}})
	slices.Sort(failures)
	if got.Sky == "" || got.Temp != 2 || !slices.Equal(failures, []string{"unknown_city", "unknown_tool"}) {
		t.Errorf("got %+v and %v", got, failures)
	}
}
