package graph

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/types"

	"github.com/batonrun/baton/plugins"
)

// guardNames are the variables of a guard's expression.
var guardNames = types.Map{
	"on": types.String, "input": types.String, "tool": types.String, "args": types.Any, "output": types.String,
	"result": types.Any, "user": types.String, "project": types.String,
}

// Guard compiles the expression of a guard. It allows with true, refuses with false or a text, which is the reason, and
// decides anything with a mapping that has the members of a [plugins.Verdict]. Any other value is an error of the verdict.
func Guard(code string) (func(context.Context, plugins.Subject) (plugins.Verdict, error), error) {
	program, err := expr.Compile(code, expr.Env(guardNames))
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, s plugins.Subject) (plugins.Verdict, error) {
		var args, result any
		_ = json.Unmarshal(s.Args, &args)
		_ = json.Unmarshal(s.Result, &result)
		v, err := expr.Run(program, map[string]any{
			"on": s.On, "input": s.Input, "tool": s.Tool, "args": args, "output": s.Output, "result": result,
			"user": s.User, "project": s.Project,
		})
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
			raw, err := json.Marshal(v)
			if err == nil {
				err = json.Unmarshal(raw, &verdict)
			}
			return verdict, err
		}
		return plugins.Verdict{}, errors.New("the expression gave no verdict")
	}, nil
}
