package expression

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm/runtime"
)

// evaluation is one evaluation of a program.
type evaluation struct {
	env          map[string]any
	steps, bytes int          // left
	now          time.Time    // see Now; zero before the first call
	ended        func() error // the reason why the value is not needed any more
	vars         []variable
	loops        []*loop
	short        bool // the optional chain under evaluation has found nil
}

type variable struct {
	name  string
	value any
}

// loop is the state of a function with a predicate.
type loop struct {
	list  []any
	index int
	acc   any
}

// Costs in bytes.
const (
	ofElement = 24
	ofMember  = 64
)

// between is the number of steps between two looks at the context.
const between = 10_000

// spend counts steps.
func (r *evaluation) spend(steps int) {
	before := r.steps
	if r.steps -= steps; r.steps < 0 {
		panic(failure{errSteps, nil})
	}
	if before/between == r.steps/between {
		return
	}
	if err := r.ended(); err != nil {
		panic(failure{err, nil})
	}
}

// read counts the reading of a text.
func (r *evaluation) read(text string) { r.spend(len(text) >> 10) }

// grow counts bytes before they are made.
func (r *evaluation) grow(bytes int) {
	if bytes < 0 || bytes > r.bytes {
		panic(failure{errBytes, nil})
	}
	r.bytes -= bytes
	r.spend(bytes >> 10)
}

// enter returns the depth inside a list or object.
func enter(depth int) int {
	if depth == MaxDepth {
		panic(failure{errDepth, nil})
	}
	return depth + 1
}

func fail(at ast.Node, format string, args ...any) any {
	panic(failure{fmt.Errorf(format, args...), at})
}

func (r *evaluation) eval(node ast.Node) any {
	r.spend(1)
	switch n := node.(type) {
	case *ast.NilNode:
		return nil
	case *ast.BoolNode:
		return n.Value
	case *ast.IntegerNode:
		return n.Value
	case *ast.FloatNode:
		return n.Value
	case *ast.StringNode:
		return n.Value
	case *ast.BytesNode:
		return n.Value
	case *ast.ConstantNode:
		return n.Value
	case *ast.IdentifierNode:
		return r.lookup(n.Value)
	case *ast.PointerNode:
		return r.pointer(n)
	case *ast.UnaryNode:
		return r.unary(n)
	case *ast.BinaryNode:
		return r.binary(n)
	case *ast.ChainNode:
		v := r.eval(n.Node)
		if r.short {
			r.short, v = false, nil
		}
		return v
	case *ast.MemberNode:
		return r.member(n)
	case *ast.SliceNode:
		return r.slice(n)
	case *ast.CallNode:
		return r.call(n)
	case *ast.BuiltinNode:
		return r.builtin(n)
	case *ast.PredicateNode:
		return r.eval(n.Node)
	case *ast.ConditionalNode:
		if r.truth(n.Cond) {
			return r.eval(n.Exp1)
		}
		return r.eval(n.Exp2)
	case *ast.VariableDeclaratorNode:
		r.vars = append(r.vars, variable{n.Name, r.eval(n.Value)})
		v := r.eval(n.Expr)
		r.vars = r.vars[:len(r.vars)-1]
		return v
	case *ast.SequenceNode:
		var v any
		for _, part := range n.Nodes {
			v = r.eval(part)
		}
		return v
	case *ast.ArrayNode:
		r.grow((len(n.Nodes) + 2) * ofElement)
		list := make([]any, len(n.Nodes))
		for i, element := range n.Nodes {
			list[i] = r.eval(element)
		}
		return list
	case *ast.MapNode:
		r.grow((len(n.Pairs) + 1) * ofMember)
		object := make(map[string]any, len(n.Pairs))
		for _, p := range n.Pairs {
			pair := p.(*ast.PairNode)
			key := r.eval(pair.Key)
			name, ok := key.(string)
			if !ok {
				fail(pair.Key, "want a text as a key, got %s", typeName(key))
			}
			object[name] = r.eval(pair.Value)
		}
		return object
	}
	return fail(node, "%T is not supported", node)
}

func (r *evaluation) lookup(name string) any {
	for _, v := range slices.Backward(r.vars) {
		if v.name == name {
			return v.value
		}
	}
	if name == "$env" {
		return r.env
	}
	return r.env[name]
}

func (r *evaluation) pointer(n *ast.PointerNode) any {
	l := r.loops[len(r.loops)-1]
	switch n.Name {
	case "acc":
		return l.acc
	case "index":
		return l.index
	}
	return l.list[l.index]
}

// truth evaluates an operand that has to be a boolean.
func (r *evaluation) truth(n ast.Node) bool {
	v := r.eval(n)
	yes, ok := v.(bool)
	if !ok {
		fail(n, "want a boolean, got %s", typeName(v))
	}
	return yes
}

// either evaluates the last operand of a condition: a boolean, or nil for a value that is missing.
func (r *evaluation) either(n ast.Node) any {
	v := r.eval(n)
	if _, ok := v.(bool); !ok && v != nil {
		fail(n, "want a boolean, got %s", typeName(v))
	}
	return v
}

func (r *evaluation) unary(n *ast.UnaryNode) any {
	switch n.Operator {
	case "!", "not":
		return !r.truth(n.Node)
	case "-":
		return r.arithmetic(n, "-", 0, r.eval(n.Node))
	}
	return r.eval(n.Node)
}

func (r *evaluation) member(n *ast.MemberNode) any {
	base := r.eval(n.Node)
	if r.short || n.Optional && base == nil {
		r.short = true
		return nil
	}
	return r.fetch(n, base, r.eval(n.Property))
}

// fetch returns a member or an element.
func (r *evaluation) fetch(n *ast.MemberNode, base, property any) any {
	switch base := base.(type) {
	case map[string]any:
		if name, ok := property.(string); ok || property == nil {
			return base[name]
		}
	case []any:
		if i, ok := index(property); ok {
			if i < 0 {
				i += len(base)
			}
			if i < 0 || i >= len(base) {
				fail(n, "index out of range (array length is %d)", len(base))
			}
			return base[i]
		}
	case nil, bool, int, float64, json.Number, string:
	default: // a time, or an object with other keys
		return r.foreign(n, "cannot fetch "+propertyName(n)+" from "+typeName(base), func() any { return runtime.Fetch(base, property) })
	}
	return fail(n, "cannot fetch %s from %s", propertyName(n), typeName(base))
}

// index returns a number as an index, without its fraction.
func index(v any) (int, bool) {
	f, isFloat := v.(float64)
	if isFloat && math.Abs(f) < 1<<53 {
		return int(f), true
	}
	i, ok := v.(int)
	return i, ok
}

// propertyName returns a property as the code has it.
func propertyName(n *ast.MemberNode) string {
	if s, ok := n.Property.(*ast.StringNode); ok {
		return s.Value
	}
	return "an element"
}

func (r *evaluation) slice(n *ast.SliceNode) any {
	base := r.eval(n.Node)
	if r.short {
		return nil
	}
	length := 0
	switch base := base.(type) {
	case string:
		length = len(base)
	case []any:
		length = len(base)
	default:
		fail(n, "cannot slice %s", typeName(base))
	}
	limit := func(n ast.Node, none int) int {
		if n == nil {
			return none
		}
		v := r.eval(n)
		i, ok := index(v)
		if !ok {
			fail(n, "want an integer, got %s", typeName(v))
		}
		if i < 0 {
			i += length
		}
		return min(max(i, 0), length)
	}
	to := limit(n.To, length)
	from := min(limit(n.From, 0), to)
	if text, ok := base.(string); ok {
		return text[from:to]
	}
	return base.([]any)[from:to]
}

// call calls a method of a time or a duration: there are no other functions with a value.
func (r *evaluation) call(n *ast.CallNode) any {
	callee := r.eval(n.Callee)
	if r.short {
		return nil
	}
	fn := reflect.ValueOf(callee)
	if fn.Kind() != reflect.Func || fn.Type().NumIn() != len(n.Arguments) || fn.Type().NumOut() == 0 {
		fail(n, "cannot call %s with %d arguments", typeName(callee), len(n.Arguments))
	}
	in := make([]reflect.Value, len(n.Arguments))
	for i, arg := range n.Arguments {
		v := r.eval(arg)
		if text, ok := v.(string); ok { // a layout gives up to three times its length
			r.grow(3 * len(text))
		}
		if in[i] = reflect.ValueOf(v); !in[i].IsValid() || !in[i].CanConvert(fn.Type().In(i)) {
			fail(arg, "want %s, got %s", fn.Type().In(i), typeName(v))
		}
		in[i] = in[i].Convert(fn.Type().In(i))
	}
	return r.foreign(n, "the call failed", func() any {
		out := fn.Call(in)
		if err, ok := reflect.TypeAssert[error](out[len(out)-1]); ok && len(out) > 1 {
			panic(err)
		}
		return out[0].Interface()
	})
}

// foreign calls code of the library, whose errors can have values in them, and converts its result.
func (r *evaluation) foreign(n ast.Node, failed string, fn func() any) any {
	v := func() (v any) {
		defer func() {
			if err := recover(); err != nil {
				panic(failure{errors.New(failed), n})
			}
		}()
		return fn()
	}()
	switch v.(type) {
	case nil, bool, int, float64, string, []any, map[string]any, time.Time, time.Duration, time.Month, time.Weekday:
		return v
	}
	switch at := reflect.ValueOf(v); {
	case at.CanInt():
		return int(at.Int())
	case at.CanUint():
		return int(at.Uint())
	case at.CanFloat():
		return at.Float()
	}
	return v
}

// typeName returns the type of a value as errors and the function type have it.
func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "nil"
	case int:
		return "int"
	case json.Number:
		return "int"
	case []any:
		return "array"
	case map[string]any:
		return "map"
	case float64:
		return "float"
	}
	return fmt.Sprintf("%T", v)
}

// length returns the number of characters of a text, or of elements or members.
func (r *evaluation) length(n ast.Node, v any) int {
	switch v := v.(type) {
	case string:
		r.read(v)
		return utf8.RuneCountInString(v)
	case []any:
		return len(v)
	case map[string]any:
		return len(v)
	}
	if at := reflect.ValueOf(v); at.Kind() == reflect.Map || at.Kind() == reflect.Slice {
		return at.Len()
	}
	fail(n, "%s has no length", typeName(v))
	return 0
}
