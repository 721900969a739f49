// Package typed makes tools of Go functions whose arguments and results are Go values. The JSON Schema that
// clients and models see is derived from the type of the arguments:
//
//	type place struct {
//		City string `json:"city" jsonschema:"the city's name, in English"`
//		Days int    `json:"days,omitempty" jsonschema:"how many days ahead, today if absent"`
//	}
//
// A field's name, and whether it may be absent (omitempty or omitzero), is said by its json tag, what it means by its
// jsonschema tag. Members that are not fields are refused.
//
// Beside package plugins it imports github.com/google/jsonschema-go, and nothing else.
package typed

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// Tool returns a tool that calls fn with the arguments of each call; info's Parameters are derived from In, which
// must be a struct or a map with string keys. What fn returns is the result: a string as it is, anything else as
// JSON, unless it is an agui.ToolOutput. A *plugins.Error of fn is shown in full. Arguments that are not as the
// schema says are refused with the code bad_arguments, and fn is not called.
//
// Tool panics when In or info cannot make a tool: that is the program's mistake.
func Tool[In, Out any](info plugins.Info, fn func(ctx context.Context, call *plugins.Call, in In) (Out, error)) plugins.Tool {
	t, err := newTool(info, fn)
	if err != nil {
		panic(fmt.Sprintf("typed: tool %q: %v", info.Name, err))
	}
	return t
}

type tool[In, Out any] struct {
	info   plugins.Info
	schema *jsonschema.Resolved
	fn     func(context.Context, *plugins.Call, In) (Out, error)
}

func newTool[In, Out any](info plugins.Info, fn func(context.Context, *plugins.Call, In) (Out, error)) (*tool[In, Out], error) {
	if info.Parameters != nil {
		return nil, fmt.Errorf("its Parameters are derived, not given")
	}
	schema, err := jsonschema.For[In](nil)
	if err != nil {
		return nil, err
	}
	if schema.Type != "object" {
		return nil, fmt.Errorf("%T is no struct or map", *new(In))
	}
	if info.Parameters, err = json.Marshal(schema); err != nil {
		return nil, err
	}
	resolved, err := schema.Resolve(nil)
	return &tool[In, Out]{info, resolved, fn}, err
}

// Info describes the tool.
func (t *tool[In, Out]) Info() plugins.Info { return t.info }

// Call calls the function.
func (t *tool[In, Out]) Call(ctx context.Context, call *plugins.Call) (agui.ToolOutput, error) {
	var in In
	if err := t.decode(call.Args, &in); err != nil {
		return agui.ToolOutput{}, &plugins.Error{Code: "bad_arguments", Message: "The arguments are not as the tool's schema says: " + err.Error()}
	}
	out, err := t.fn(ctx, call, in)
	if err != nil {
		return agui.ToolOutput{}, err
	}
	switch out := any(out).(type) {
	case agui.ToolOutput:
		return out, nil
	case string:
		return agui.ToolOutput{ResultSummary: out}, nil
	}
	text, err := json.Marshal(out)
	if err != nil {
		return agui.ToolOutput{}, fmt.Errorf("the result of tool %s: %w", t.info.Name, err)
	}
	return agui.ToolOutput{ResultSummary: string(text)}, nil
}

// decode checks the arguments and reads them into in.
func (t *tool[In, Out]) decode(args json.RawMessage, in *In) error {
	var value any
	if err := json.Unmarshal(args, &value); err != nil {
		return err
	}
	if err := t.schema.Validate(value); err != nil {
		return plain(err)
	}
	return json.Unmarshal(args, in)
}

// plain leaves out where in the schema a rule stands, which says nothing to whoever made the arguments.
func plain(err error) error {
	text := strings.TrimPrefix(err.Error(), "validating root: ")
	for {
		rest, ok := strings.CutPrefix(text, "validating /")
		if !ok {
			return fmt.Errorf("%s", text)
		}
		where, what, ok := strings.Cut(rest, ": ")
		if !ok {
			return fmt.Errorf("%s", text)
		}
		if !strings.HasPrefix(what, "validating /") {
			return fmt.Errorf("%s: %s", strings.ReplaceAll(where, "properties/", ""), what)
		}
		text = what
	}
}
