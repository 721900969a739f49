// Package expression evaluates the expressions of workflows and guards, in the language of github.com/expr-lang/expr: its parser
// and its type checks, but an evaluator of its own, which bounds the work and the memory of an evaluation and computes
// integers exactly. Errors name operations, types and places, never values, which can be secrets.
package expression

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/checker/nature"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/types"
)

// Limits of one evaluation.
const (
	MaxBytes = 16 << 20   // of all texts, lists and objects that it makes
	MaxSteps = 10_000_000 // of nodes that are evaluated, elements that are visited and KiB of text that are read: about a second
	MaxDepth = 10_000     // of lists and objects inside each other, as in JSON
)

var (
	errBytes = fmt.Errorf("it makes more than %d MiB of data", MaxBytes>>20)
	errSteps = fmt.Errorf("it takes more than %d steps", MaxSteps)
	errDepth = fmt.Errorf("its values nest deeper than %d levels", MaxDepth)
)

// Now is the name of the result of now() in an environment. Without it now() is the time of its first call in an evaluation.
const Now = "now()"

// IsReserved reports whether a name is a function or a word of the language.
func IsReserved(name string) bool {
	return functions[name] != nil || slices.Contains(loops, name) || slices.Contains(words, name)
}

var words = []string{
	"true", "false", "nil", "not", "and", "or", "in", "let", "if", "else", "matches", "contains", "startsWith", "endsWith",
}

// Program is a compiled expression. It is safe for concurrent use.
type Program struct{ tree *parser.Tree }

// Compile compiles an expression over the names, and ${NAME} for the environment variables that getenv returns. In a literal, a
// variable stands for its text. It checks the types that are known, and for a condition that the value can be a boolean.
func Compile(code string, names types.Map, condition bool, getenv func(string) (string, bool)) (*Program, error) {
	config := conf.CreateNew()
	expr.Env(names)(config)
	if condition {
		expr.AsBool()(config)
	}
	for name := range config.Builtins {
		if _, known := functions[name]; !known && !slices.Contains(loops, name) {
			config.Disabled[name] = true
			delete(config.Builtins, name)
		}
	}
	vars := &variables{getenv: getenv}
	config.Visitors = append(config.Visitors, vars)
	tree, err := checker.ParseCheck(marked(code), config)
	if vars.err != nil {
		return nil, vars.err
	}
	if err != nil {
		return nil, errors.New(asWritten(err.Error()))
	}
	return &Program{tree}, nil
}

// Element returns the type of the elements of the list that the expression computes, any if it is not known.
func (p *Program) Element() (types.Type, error) {
	switch n := p.tree.Node.Nature(); {
	case n.IsUnknown(nil):
		return types.Any, nil
	case !n.IsArray():
		return nil, fmt.Errorf("want a list, got %s", n)
	default:
		return element{n.Elem(nil)}, nil
	}
}

// element is a type that the checker has found.
type element struct{ nature nature.Nature }

func (e element) Nature() nature.Nature   { return e.nature }
func (e element) Equal(t types.Type) bool { return e.String() == t.String() }
func (e element) String() string          { return e.nature.String() }

// Run evaluates the expression. Its value consists of nil, bool, int, float64, json.Number for a number that neither holds,
// string, []any, map[string]any and times. A long evaluation fails with ctx's cause when ctx is done.
func (p *Program) Run(ctx context.Context, env map[string]any) (v any, err error) {
	defer caught(&err, p.tree.Source)
	r := start(env)
	r.ended = func() error { return context.Cause(ctx) }
	return r.eval(p.tree.Node), nil
}

// True evaluates a condition. A value that is missing is false.
func (p *Program) True(ctx context.Context, env map[string]any) (bool, error) {
	v, err := p.Run(ctx, env)
	if err != nil || v == nil {
		return false, err
	}
	yes, ok := v.(bool)
	if !ok {
		return false, fmt.Errorf("want a boolean, got %s", typeName(v))
	}
	return yes, nil
}

// Encode encodes a value of an expression as JSON, within the same limits as an evaluation.
func Encode(v any) (raw json.RawMessage, err error) {
	defer caught(&err, file.Source{})
	return start(nil).encode(nil, v, 0), nil
}

func start(env map[string]any) *evaluation {
	return &evaluation{env: env, steps: MaxSteps, bytes: MaxBytes, ended: func() error { return nil }}
}

// failure is the panic of an evaluation.
type failure struct {
	error
	at ast.Node // nil for the whole expression
}

// caught turns a failure into an error.
func caught(err *error, source file.Source) {
	switch r := recover().(type) {
	case nil:
	case failure:
		if *err = r.error; r.at != nil {
			bound := &file.Error{Location: r.at.Location(), Message: r.Error()}
			*err = errors.New(asWritten(bound.Bind(source).Error()))
		}
	default:
		panic(r)
	}
}

// The parser does not know ${NAME}. It gets a name of the same length instead.
var (
	written = regexp.MustCompile(`\$\$\{|\$\{[^}]*\}?`)
	name    = regexp.MustCompile(`^\$\{[A-Za-z_][A-Za-z0-9_]*\}$`)
	mark    = regexp.MustCompile(`ꟺꟷ([A-Za-z_][A-Za-z0-9_]*)ꟻ`)
)

func marked(code string) string {
	return written.ReplaceAllStringFunc(code, func(v string) string {
		if v == "$${" {
			return "${"
		}
		if !name.MatchString(v) {
			return v
		}
		return "ꟺꟷ" + v[2:len(v)-1] + "ꟻ"
	})
}

func asWritten(text string) string { return mark.ReplaceAllString(text, "$${$1}") }

// variables replaces variables by their values, after parsing.
type variables struct {
	getenv func(string) (string, bool)
	err    error
}

// Visit replaces a name or a literal that has variables.
func (vs *variables) Visit(node *ast.Node) {
	var text string
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		text = n.Value
	case *ast.StringNode:
		text = n.Value
	}
	if !mark.MatchString(text) {
		return
	}
	ast.Patch(node, &ast.ConstantNode{Value: mark.ReplaceAllStringFunc(text, func(v string) string {
		name := strings.TrimSuffix(strings.TrimPrefix(v, "ꟺꟷ"), "ꟻ")
		value, _ := vs.getenv(name)
		if value == "" && vs.err == nil {
			vs.err = fmt.Errorf("the environment variable %s is not set", name)
		}
		return value
	})})
}
