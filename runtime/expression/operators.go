package expression

import (
	"encoding/json"
	"math"
	"math/big"
	"reflect"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm/runtime"
)

func (r *evaluation) binary(n *ast.BinaryNode) any {
	switch n.Operator {
	case "and", "&&":
		if !r.truth(n.Left) {
			return false
		}
		return r.either(n.Right)
	case "or", "||":
		if r.truth(n.Left) {
			return true
		}
		return r.either(n.Right)
	case "??":
		if v := r.eval(n.Left); v != nil {
			return v
		}
		return r.eval(n.Right)
	}
	a, b := r.eval(n.Left), r.eval(n.Right)
	switch n.Operator {
	case "==":
		return r.equal(a, b, 0)
	case "!=":
		return !r.equal(a, b, 0)
	case "<":
		return r.compare(n, a, b) < 0
	case "<=":
		return r.compare(n, a, b) <= 0
	case ">":
		return r.compare(n, b, a) < 0
	case ">=":
		return r.compare(n, b, a) <= 0
	case "in":
		return r.in(n, a, b)
	case "..":
		return r.span(n, a, b)
	case "matches", "contains", "startsWith", "endsWith":
		return r.search(n, a, b)
	}
	if s, ok := a.(string); ok && n.Operator == "+" {
		if t, ok := b.(string); ok {
			r.grow(len(s) + len(t))
			return s + t
		}
	}
	return r.arithmetic(n, n.Operator, a, b)
}

// integer returns an integer of any size.
func integer(v any) (*big.Int, bool) {
	switch v := v.(type) {
	case int:
		return big.NewInt(int64(v)), true
	case json.Number:
		if len(v) <= maxDigits {
			return new(big.Int).SetString(string(v), 10)
		}
	}
	return nil, false
}

// digits returns the steps that it takes to read a number, 0 for what is read already.
func digits(v any) int {
	if n, ok := v.(json.Number); ok {
		return len(n)
	}
	return 0
}

// maxDigits limits the numbers that are computed with.
const maxDigits = 1 << 10

// float returns a number as a float64.
func float(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	}
	return 0, false
}

// arithmetic computes with numbers: integers exactly, in any size, other numbers as float64.
func (r *evaluation) arithmetic(n ast.Node, op string, a, b any) any {
	x, whole := integer(a)
	y, both := integer(b)
	f, isNumber := float(a)
	g, areNumbers := float(b)
	switch {
	case !isNumber || !areNumbers:
		switch op { // times and durations
		case "+":
			return r.foreign(n, mismatch(op, a, b), func() any { return runtime.Add(a, b) })
		case "-":
			return r.foreign(n, mismatch(op, a, b), func() any { return runtime.Subtract(a, b) })
		case "*":
			return r.foreign(n, mismatch(op, a, b), func() any { return runtime.Multiply(a, b) })
		case "/":
			return r.foreign(n, mismatch(op, a, b), func() any { return runtime.Divide(a, b) })
		}
		return fail(n, "%s", mismatch(op, a, b))
	case op == "/":
		return f / g
	case op == "**" || op == "^":
		return math.Pow(f, g)
	case op == "%":
		if !whole || !both || y.Sign() == 0 {
			fail(n, "%s", mismatch(op, a, b))
		}
		return number(x.Rem(x, y).String())
	}
	if whole && both {
		switch op {
		case "+":
			x.Add(x, y)
		case "-":
			x.Sub(x, y)
		default:
			x.Mul(x, y)
		}
		if x.IsInt64() {
			return int(x.Int64())
		}
		r.grow(x.BitLen()/3 + 1)
		return number(x.String())
	}
	switch op {
	case "+":
		return f + g
	case "-":
		return f - g
	}
	return f * g
}

func mismatch(op string, a, b any) string {
	return "invalid operation: " + typeName(a) + " " + op + " " + typeName(b)
}

// exact returns a number for a comparison, nil for another value.
func exact(v any) *big.Float {
	if f, ok := v.(float64); ok && !math.IsNaN(f) {
		return big.NewFloat(f)
	}
	if i, ok := integer(v); ok {
		return new(big.Float).SetInt(i)
	}
	return nil
}

// compare orders numbers, texts and times. A comparison with NaN is false.
func (r *evaluation) compare(n ast.Node, a, b any) int {
	r.spend(1 + digits(a) + digits(b))
	if x, ok := a.(int); ok {
		if y, ok := b.(int); ok {
			switch {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return 0
		}
	}
	if x, ok := a.(string); ok {
		if y, ok := b.(string); ok {
			r.read(x[:min(len(x), len(y))])
			return strings.Compare(x, y)
		}
	}
	if x, y := exact(a), exact(b); x != nil && y != nil {
		return x.Cmp(y)
	}
	_, number := float(a)
	if _, also := float(b); number && also {
		return 1
	}
	less := func(a, b any) bool {
		return r.foreign(n, mismatch("<", a, b), func() any { return runtime.Less(a, b) }).(bool)
	}
	switch {
	case less(a, b):
		return -1
	case less(b, a):
		return 1
	}
	return 0
}

// equal compares values in depth.
func (r *evaluation) equal(a, b any, depth int) bool {
	r.spend(1 + digits(a) + digits(b))
	switch x := a.(type) {
	case string:
		y, ok := b.(string)
		if !ok || len(x) != len(y) {
			return false
		}
		r.read(x)
		return x == y
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		depth = enter(depth)
		for i := range x {
			if !r.equal(x[i], y[i], depth) {
				return false
			}
		}
		return true
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		depth = enter(depth)
		for name, v := range x {
			if w, ok := y[name]; !ok || !r.equal(v, w, depth) {
				return false
			}
		}
		return true
	case int:
		if y, ok := b.(int); ok {
			return x == y
		}
	case nil:
		return b == nil
	}
	if x, y := exact(a), exact(b); x != nil && y != nil {
		return x.Cmp(y) == 0
	}
	if reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.TypeOf(a).Comparable() {
		return runtime.Equal(a, b)
	}
	return false
}

func (r *evaluation) in(n ast.Node, a, list any) bool {
	switch list := list.(type) {
	case nil:
		return false
	case []any:
		for _, v := range list {
			if r.equal(v, a, 0) {
				return true
			}
		}
		return false
	case map[string]any:
		name, ok := a.(string)
		_, there := list[name]
		return ok && there
	}
	fail(n, "%s", mismatch("in", a, list))
	return false
}

// span returns the integers from a to b.
func (r *evaluation) span(n ast.Node, a, b any) any {
	from, ok := index(a)
	to, also := index(b)
	if !ok || !also {
		fail(n, "%s", mismatch("..", a, b))
	}
	if to < from {
		return []any{}
	}
	size := to - from + 1
	if size < 0 || size > r.bytes/ofElement {
		panic(failure{errBytes, nil})
	}
	r.grow(size * ofElement)
	list := make([]any, size)
	for i := range list {
		list[i] = from + i
	}
	return list
}

// search looks for a text in another. nil has none.
func (r *evaluation) search(n *ast.BinaryNode, a, b any) bool {
	if a == nil || b == nil {
		return false
	}
	text, ok := a.(string)
	part, also := b.(string)
	if !ok || !also {
		fail(n, "%s", mismatch(n.Operator, a, b))
	}
	r.read(text)
	switch n.Operator {
	case "contains":
		return strings.Contains(text, part)
	case "startsWith":
		return strings.HasPrefix(text, part)
	case "endsWith":
		return strings.HasSuffix(text, part)
	}
	if len(part) > maxPattern {
		fail(n, "a regular expression has more than %d bytes", maxPattern)
	}
	parsed, err := syntax.Parse(part, syntax.Perl)
	if err != nil {
		fail(n, "no regular expression")
	}
	size := Instructions(parsed)
	r.grow(size * ofMember)
	r.spend(len(text)/8*size + size) // the automaton looks at each byte with each of its states
	return regexp.MustCompile(part).MatchString(text)
}

const maxPattern = 4 << 10 // bytes

// Instructions estimates the compiled size of a regular expression. Parse limits repetitions to 1000.
func Instructions(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)/8
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += Instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Max, re.Min, 1)
	}
	return n
}

// number returns the value of a number in JSON: an int, or else a float64 if it is no integer and in its range, or else its text.
func number(text string) any {
	if i, err := strconv.ParseInt(text, 10, strconv.IntSize); err == nil {
		return int(i)
	}
	if strings.ContainsAny(text, ".eE") {
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return f
		}
	}
	return json.Number(text)
}
