// Package typed makes tools from Go functions with typed arguments and results. The JSON Schema for clients and models is
// derived from the type of the arguments:
//
//	type place struct {
//		City string `json:"city" jsonschema:"the city's name, in English"`
//		Days int    `json:"days,omitempty" jsonschema:"how many days ahead, today if absent"`
//	}
//
// A field's json tag gives its name and, with omitempty or omitzero, makes it optional; its jsonschema tag is its
// description. Unknown members are refused.
//
// Besides package plugins it depends only on github.com/google/jsonschema-go.
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

// Tool returns a tool that calls fn with the decoded arguments. info's Parameters are derived from In, which must be a
// struct or a map with string keys, and its Output from Out if values of Out are JSON of a known form. A result of fn that is a string or an agui.ToolOutput is returned unchanged, any
// other value as JSON. Clients see the text of a *plugins.Error from fn. Arguments that violate the schema are refused
// with the code bad_arguments without calling fn.
//
// Tool panics if In or info is invalid.
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
		return nil, fmt.Errorf("info.Parameters must be empty: they are derived")
	}
	schema, err := jsonschema.For[In](nil)
	if err != nil {
		return nil, err
	}
	if schema.Type != "object" {
		return nil, fmt.Errorf("%T is not a struct or map", *new(In))
	}
	if info.Parameters, err = json.Marshal(schema); err != nil {
		return nil, err
	}
	if info.Output == nil {
		info.Output = outputOf[Out]()
	}
	resolved, err := schema.Resolve(nil)
	return &tool[In, Out]{info, resolved, fn}, err
}

// outputOf returns the schema of results, or nil for texts and for types whose JSON has no known form.
func outputOf[Out any]() json.RawMessage {
	switch any(*new(Out)).(type) {
	case string, agui.ToolOutput, json.Marshaler:
		return nil
	}
	schema, err := jsonschema.For[Out](nil)
	if err != nil || schema.Type == "" && schema.Types == nil {
		return nil
	}
	raw, err := json.Marshal(schema)
	if err != nil {
		return nil
	}
	return raw
}

// Info describes the tool.
func (t *tool[In, Out]) Info() plugins.Info { return t.info }

// Call calls the function.
func (t *tool[In, Out]) Call(ctx context.Context, call *plugins.Call) (agui.ToolOutput, error) {
	var in In
	if err := t.decode(call.Args, &in); err != nil {
		return agui.ToolOutput{}, &plugins.Error{Code: "bad_arguments", Message: "The arguments do not match the tool's schema: " + err.Error()}
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

// Call calls a tool as run.CallTool does, and decodes its result: JSON, or the text itself if Out is a string. A failure of the tool is a
// *plugins.Error.
func Call[Out any](ctx context.Context, run *plugins.Run, name string, args any) (out Out, err error) {
	got, err := run.CallTool(ctx, name, args)
	if err != nil {
		return out, err
	}
	if e := got.Error; e != nil {
		return out, &plugins.Error{Code: e.Code, Message: e.Message, Retryable: e.Retryable}
	}
	if got.Status == agui.StatusFailure {
		return out, &plugins.Error{Code: "failed", Message: got.ResultSummary}
	}
	if text, ok := any(&out).(*string); ok {
		*text = got.ResultSummary
		return out, nil
	}
	if err := json.Unmarshal([]byte(got.ResultSummary), &out); err != nil {
		return out, fmt.Errorf("the result of tool %s: %w", name, err)
	}
	return out, nil
}

// decode validates the arguments and decodes them into in.
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

// plain removes the position in the schema from a validation error.
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
