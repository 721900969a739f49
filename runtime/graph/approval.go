package graph

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/expr-lang/expr/types"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/expression"
)

// Message returns the question of a node or its approval, "" for the default.
func (n *Node) Message(ctx context.Context, env func() map[string]any) (string, error) {
	if n.message == nil {
		return "", nil
	}
	return question(ctx, n.message, env())
}

// CheckMessage checks the expression of a question about a call.
func CheckMessage(code string) error {
	_, err := compileMessage(code)
	return err
}

func compileMessage(code string) (*expression.Program, error) {
	return expression.Compile(code, types.Map{"args": types.Any}, false, os.LookupEnv)
}

// CallMessage returns the question of an approval of a call with arguments, "" for the default.
func CallMessage(ctx context.Context, code string, args json.RawMessage) (string, error) {
	if code == "" {
		return "", nil
	}
	program, err := compileMessage(code)
	if err != nil {
		return "", badMessage(err)
	}
	given, _ := expression.Decode(args)
	return question(ctx, program, map[string]any{"args": given})
}

// question returns the value of an expression as a text.
func question(ctx context.Context, program *expression.Program, env map[string]any) (string, error) {
	v, err := program.Run(ctx, env)
	if err != nil && ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		return "", badMessage(err)
	}
	if text, ok := v.(string); ok {
		return text, nil
	}
	raw, err := expression.Encode(v)
	if err != nil {
		return "", badMessage(err)
	}
	return string(raw), nil
}

func badMessage(err error) error {
	return &plugins.Error{Code: "bad_input", Message: fmt.Sprintf("The message of a question failed: %s", firstLine(err))}
}
