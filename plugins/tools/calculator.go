package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// Calculator computes arithmetic: numbers, + - * / % ^ and parentheses. Numbers are float64; results
// have up to 15 digits.
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

// Call returns the value. It fails with code bad_expression for what is not arithmetic, and with
// arithmetic for what has no value, a division by zero for instance.
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
	return summary("%s", strconv.FormatFloat(value+0, 'g', 15, 64)) // + 0 makes 0 of -0
}

var errNoValue = errors.New("the result is not a number")

const (
	maxExpression = 1000 // bytes
	maxDepth      = 100  // of parentheses and signs
)

// evaluate returns the value of
//
//	sum     = product {("+" | "-") product}
//	product = sign {("*" | "/" | "%") sign}
//	sign    = ("+" | "-") sign | power
//	power   = (number | "(" sum ")") ["^" sign]
func evaluate(expression string) (float64, error) {
	if len(expression) > maxExpression {
		return 0, fmt.Errorf("the expression is longer than %d bytes", maxExpression)
	}
	p := parser{rest: expression}
	value, err := p.sum()
	if err != nil {
		return 0, err
	}
	if p.peek() != 0 {
		return 0, p.unexpected()
	}
	return value, nil
}

// parser evaluates while it reads.
type parser struct {
	rest  string
	depth int
}

// peek skips space and returns the next byte, 0 at the end.
func (p *parser) peek() byte {
	p.rest = strings.TrimLeft(p.rest, " \t\r\n")
	if p.rest == "" {
		return 0
	}
	return p.rest[0]
}

func (p *parser) unexpected() error {
	if p.peek() == 0 {
		return errors.New("the expression ends too early")
	}
	return fmt.Errorf("cannot read the expression at %q", p.rest)
}

func (p *parser) sum() (float64, error)     { return p.chain("+-", p.product) }
func (p *parser) product() (float64, error) { return p.chain("*/%", p.sign) }

// chain reads operands between operators that bind equally, from the left.
func (p *parser) chain(operators string, operand func() (float64, error)) (float64, error) {
	value, err := operand()
	for err == nil {
		op := p.peek()
		if op == 0 || strings.IndexByte(operators, op) < 0 {
			return value, nil
		}
		p.rest = p.rest[1:]
		var right float64
		if right, err = operand(); err == nil {
			value, err = apply(op, value, right)
		}
	}
	return 0, err
}

func (p *parser) sign() (float64, error) {
	if p.depth++; p.depth > maxDepth {
		return 0, errors.New("the expression is nested too deeply")
	}
	defer func() { p.depth-- }()
	op := p.peek()
	if op != '+' && op != '-' {
		return p.power()
	}
	p.rest = p.rest[1:]
	value, err := p.sign()
	if op == '-' {
		value = -value
	}
	return value, err
}

func (p *parser) power() (float64, error) {
	base, err := p.operand()
	if err != nil || p.peek() != '^' {
		return base, err
	}
	p.rest = p.rest[1:]
	exponent, err := p.sign()
	if err != nil {
		return 0, err
	}
	return apply('^', base, exponent)
}

func (p *parser) operand() (float64, error) {
	if p.peek() != '(' {
		return p.number()
	}
	p.rest = p.rest[1:]
	value, err := p.sum()
	if err != nil {
		return 0, err
	}
	if p.peek() != ')' {
		return 0, p.unexpected()
	}
	p.rest = p.rest[1:]
	return value, nil
}

func (p *parser) number() (float64, error) {
	text := p.rest[:len(p.rest)-len(strings.TrimLeft(p.rest, "0123456789."))]
	value, err := strconv.ParseFloat(text, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, errNoValue
	case err != nil:
		return 0, p.unexpected()
	}
	p.rest = p.rest[len(text):]
	return value, nil
}

func apply(op byte, left, right float64) (float64, error) {
	var value float64
	switch op {
	case '+':
		value = left + right
	case '-':
		value = left - right
	case '*':
		value = left * right
	case '/':
		value = left / right
	case '%':
		value = math.Mod(left, right)
	case '^':
		value = math.Pow(left, right)
	}
	switch {
	case right == 0 && (op == '/' || op == '%'):
		return 0, fmt.Errorf("division by zero: %w", errNoValue)
	case math.IsInf(value, 0) || math.IsNaN(value):
		return 0, errNoValue
	}
	return value, nil
}
