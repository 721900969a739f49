package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// Calculator computes arithmetic: numbers, + - * / % ^ and parentheses, in the syntax of github.com/expr-lang/expr.
// Numbers are float64; results have up to 15 digits.
type Calculator struct{}

// Info describes the tool, which is named calculator.
func (Calculator) Info() plugins.Info {
	return plugins.Info{
		Name:        "calculator",
		Description: "Computes an arithmetic expression of numbers, + - * / % ^ and parentheses.",
		Parameters: json.RawMessage(`{
			"type": "object",
			"properties": {"expression": {"type": "string", "maxLength": 1000, "description": "for example 2 * (3 + 4)"}},
			"required": ["expression"],
			"additionalProperties": false
		}`),
		Idempotent: true,
	}
}

// Call returns the value. It fails with the code bad_expression for anything but arithmetic, and with arithmetic for an
// undefined value such as a division by zero.
func (Calculator) Call(_ context.Context, call *plugins.Call) (agui.ToolOutput, error) {
	var args struct {
		Expression string `json:"expression"`
	}
	if err := arguments(call, &args); err != nil {
		return agui.ToolOutput{}, err
	}
	value, err := evaluate(args.Expression)
	switch {
	case errors.Is(err, errNoValue):
		return agui.ToolOutput{}, &plugins.Error{Code: "arithmetic", Message: err.Error()}
	case err != nil:
		return agui.ToolOutput{}, &plugins.Error{Code: "bad_expression", Message: err.Error()}
	}
	return summary("%s", strconv.FormatFloat(value+0, 'g', 15, 64)) // + 0 turns -0 into 0
}

var errNoValue = errors.New("the result is not a number")

const maxExpression = 1000 // bytes

var errNoArithmetic = errors.New("only numbers, + - * / % ^ and parentheses can be computed")

// evaluate returns the value of an expression.
func evaluate(expression string) (float64, error) {
	if len(expression) > maxExpression {
		return 0, fmt.Errorf("the expression is longer than %d bytes", maxExpression)
	}
	tree, err := parser.Parse(expression)
	if where, ok := errors.AsType[*file.Error](err); ok {
		return 0, fmt.Errorf("cannot read the expression at character %d: %s", where.Column+1, where.Message)
	}
	if err != nil {
		return 0, errNoArithmetic
	}
	return compute(tree.Node)
}

func compute(node ast.Node) (float64, error) {
	switch n := node.(type) {
	case *ast.IntegerNode:
		return float64(n.Value), nil
	case *ast.FloatNode:
		return n.Value, nil
	case *ast.UnaryNode:
		value, err := compute(n.Node)
		if n.Operator == "-" {
			return -value, err
		}
		if n.Operator != "+" {
			return 0, errNoArithmetic
		}
		return value, err
	case *ast.BinaryNode:
		left, err := compute(n.Left)
		if err != nil {
			return 0, err
		}
		right, err := compute(n.Right)
		if err != nil {
			return 0, err
		}
		return apply(n.Operator, left, right)
	}
	return 0, errNoArithmetic
}

func apply(op string, left, right float64) (float64, error) {
	var value float64
	switch op {
	case "+":
		value = left + right
	case "-":
		value = left - right
	case "*":
		value = left * right
	case "/":
		value = left / right
	case "%":
		value = math.Mod(left, right)
	case "^", "**":
		value = math.Pow(left, right)
	default:
		return 0, errNoArithmetic
	}
	switch {
	case right == 0 && (op == "/" || op == "%"):
		return 0, fmt.Errorf("division by zero: %w", errNoValue)
	case math.IsInf(value, 0) || math.IsNaN(value):
		return 0, errNoValue
	}
	return value, nil
}
