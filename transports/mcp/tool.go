package mcp

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/google/uuid"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/fit"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/stream"
	"github.com/batonrun/baton/transports/wire"
)

// schemas are <tool>.input.schema.json and <tool>.output.schema.json.
//
//go:embed schemas/*.json
var schemas embed.FS

// tool is a tool with its implementation.
type tool struct {
	sdk.Tool
	input  *jsonschema.Schema
	call   call
	echoes bool // its answer repeats its arguments
}

// call runs a tool whose arguments fit its input schema.
type call func(t Transport, ctx context.Context, who runtime.Caller, args arguments) (any, error)

// newTool reads the tool's schemas. It panics when they are not there or no schemas.
func newTool(name, title, description string, hints sdk.ToolAnnotations, fn call) tool {
	input, output := schemaOf(name, "input"), schemaOf(name, "output")
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(input))
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err = errors.Join(err, c.AddResource(name, doc)); err != nil {
		panic(err)
	}
	return tool{
		Tool: sdk.Tool{
			Name: name, Title: title, Description: description, Annotations: &hints,
			InputSchema: input, OutputSchema: output,
		},
		input: c.MustCompile(name), call: fn,
	}
}

// echoing is the tool with an answer that repeats its arguments.
func echoing(t tool) tool {
	t.echoes = true
	return t
}

func schemaOf(name, kind string) json.RawMessage {
	raw, err := schemas.ReadFile("schemas/" + name + "." + kind + ".schema.json")
	if err != nil {
		panic(err)
	}
	return raw
}

// handler answers calls. Failures are tool errors, which the model reads: protocol errors are for the client.
func (t Transport) handler(tool *tool) sdk.ToolHandler {
	return func(ctx context.Context, req *sdk.CallToolRequest) (res *sdk.CallToolResult, err error) {
		defer func() { // the server does not recover from panics here
			if v := recover(); v != nil {
				res, err = t.refuse(tool, fmt.Errorf("panic: %v\n%s", v, debug.Stack())), nil
			}
		}()
		who, ok := ctx.Value(callerKey{}).(runtime.Caller)
		if !ok {
			return t.refuse(tool, errors.New("nobody calls")), nil
		}
		args, err := tool.arguments(req.Params.Arguments)
		if err != nil {
			return t.refuse(tool, err), nil
		}
		answer := func(ctx context.Context) ([]byte, error) {
			answer, err := tool.call(t, ctx, who, args)
			if err != nil {
				return nil, err
			}
			return wire.Encode(answer)
		}
		raw, err := budgeted(ctx, func() ([]byte, error) {
			switch {
			case tool.Annotations.ReadOnlyHint:
				return t.read(ctx, who, answer)
			case tool.echoes:
				return echo(ctx, req.Params.Arguments, answer)
			}
			return answer(ctx)
		})
		if err != nil {
			return t.refuse(tool, err), nil
		}
		return result(raw), nil
	}
}

// maxText is how large an answer may be that is given as text too, for clients that know no structured content.
// Twice a larger one would be more than many clients read, and no model would.
const maxText = 1 << 20

func result(raw json.RawMessage) *sdk.CallToolResult {
	text := string(raw)
	if len(text) > maxText {
		text = "The answer is too large for text; it is the structured content"
	}
	return &sdk.CallToolResult{StructuredContent: raw, Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}

// refuse is the answer to a call that failed: the body that REST would answer with.
func (t Transport) refuse(tool *tool, err error) *sdk.CallToolResult {
	_, problem, _ := transports.Status(err)
	if problem.Code == "internal" && !errors.Is(err, stream.ErrGone) {
		problem.RequestID = uuid.NewString()
		cmp.Or(t.Log, slog.Default()).Error("tool failed", "request", problem.RequestID, "tool", tool.Name, "error", err)
	}
	text, _ := wire.Encode(problem) // of strings: it cannot fail
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: string(text)}}}
}

// arguments are a call's arguments by name.
type arguments map[string]json.RawMessage

// arguments checks a call's arguments against the tool's input schema.
func (tool *tool) arguments(raw json.RawMessage) (arguments, error) {
	if len(raw) == 0 || string(raw) == "null" {
		raw = json.RawMessage("{}")
	}
	if err := wire.Scan(raw); err != nil {
		return nil, err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err == nil {
		err = tool.input.Validate(v)
	}
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		if raw, err = fit.Mend(v, tool.input.Validate); err != nil {
			err = invalid
		}
	}
	if err != nil {
		return nil, &runtime.Error{
			Kind: runtime.KindInvalid, Code: "invalid_arguments",
			Detail: fmt.Sprintf("The arguments do not fit %s: %s", tool.Name, lastLine(err.Error())),
		}
	}
	var args arguments
	return args, json.Unmarshal(raw, &args)
}

// lastLine is the line of a validation error about the innermost value.
func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return strings.TrimPrefix(strings.TrimSpace(s[strings.LastIndexByte(s, '\n')+1:]), "- ")
}

// text returns an argument that is a string, "" when it is absent.
func (a arguments) text(name string) string {
	var s string
	_ = json.Unmarshal(a[name], &s) // the schema has looked
	return s
}

// integer returns an argument that is an integer as its digits, also when it was written like 1e2; "" when it is
// absent.
func (a arguments) integer(name string) string {
	text := string(a[name])
	if f, err := strconv.ParseFloat(text, 64); err == nil && strings.ContainsAny(text, ".eE") {
		text = strconv.FormatFloat(f, 'f', -1, 64)
	}
	return text
}

// body returns the arguments as the body of the corresponding REST route, with camelCase members. Equal arguments make equal
// bodies.
func (a arguments) body() ([]byte, error) {
	body := make(map[string]json.RawMessage, len(a))
	for name, val := range a {
		body[camel(name)] = val
	}
	return wire.Encode(body)
}

func camel(name string) string {
	words := strings.Split(name, "_")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}
