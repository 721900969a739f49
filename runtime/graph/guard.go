package graph

import (
	"context"
	"encoding/json"
	"errors"
	"os"

	"github.com/expr-lang/expr/types"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/expression"
)

// guardNames are the variables of a guard's expression.
var guardNames = types.Map{
	"on": types.String, "input": types.String, "tool": types.String, "args": types.Any, "output": types.String,
	"result": types.Any, "user": types.String, "project": types.String,
}

// Guard compiles the expression of a guard. It allows with true, refuses with false or a text, which is the reason, and
// decides anything with a mapping that has the members of a [plugins.Verdict]. Any other value is an error of the verdict.
func Guard(code string) (func(context.Context, plugins.Subject) (plugins.Verdict, error), error) {
	program, err := expression.Compile(code, guardNames, false, os.LookupEnv)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, s plugins.Subject) (plugins.Verdict, error) {
		args, _ := expression.Decode(s.Args) // nil if there are none
		result, _ := expression.Decode(s.Result)
		v, err := program.Run(ctx, map[string]any{
			"on": s.On, "input": s.Input, "tool": s.Tool, "args": args, "output": s.Output, "result": result,
			"user": s.User, "project": s.Project,
		})
		if err != nil && ctx.Err() != nil {
			return plugins.Verdict{}, context.Cause(ctx)
		}
		if err != nil {
			return plugins.Verdict{}, &plugins.Error{Message: firstLine(err)}
		}
		switch v := v.(type) {
		case bool:
			if v {
				return plugins.Verdict{Verdict: plugins.Allow}, nil
			}
			return plugins.Verdict{Verdict: plugins.Refuse}, nil
		case string:
			return plugins.Verdict{Verdict: plugins.Refuse, Reason: v}, nil
		case map[string]any:
			var verdict plugins.Verdict
			raw, err := expression.Encode(v)
			if err == nil {
				err = json.Unmarshal(raw, &verdict)
			}
			return verdict, err
		}
		return plugins.Verdict{}, errors.New("the expression gave no verdict")
	}, nil
}
