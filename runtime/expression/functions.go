package expression

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
)

func (r *evaluation) builtin(n *ast.BuiltinNode) any {
	if slices.Contains(loops, n.Name) {
		return r.loop(n)
	}
	args := make([]any, len(n.Arguments))
	for i, arg := range n.Arguments {
		args[i] = r.eval(arg)
		if text, ok := args[i].(string); ok {
			r.read(text)
		}
	}
	fn, ok := functions[n.Name]
	if !ok {
		fail(n, "there is no function %s", n.Name)
	}
	return fn(&call{r, n, args})
}

// call is a call of a function.
type call struct {
	*evaluation
	node *ast.BuiltinNode
	args []any
}

// bad fails for an argument of a wrong type or value.
func (c *call) bad() any {
	types := make([]string, len(c.args))
	for i, arg := range c.args {
		types[i] = typeName(arg)
	}
	return fail(c.node, "invalid argument for %s (type %s)", c.node.Name, strings.Join(types, ", "))
}

// text returns an argument, or otherwise a text if it is absent.
func (c *call) text(i int, otherwise string) string {
	if i >= len(c.args) {
		return otherwise
	}
	s, ok := c.args[i].(string)
	if !ok {
		c.bad()
	}
	return s
}

func (c *call) int(i, otherwise int) int {
	if i >= len(c.args) {
		return otherwise
	}
	v, ok := index(c.args[i])
	if !ok {
		c.bad()
	}
	return v
}

func (c *call) list(i int) []any {
	list, ok := c.args[i].([]any)
	if !ok {
		c.bad()
	}
	c.spend(len(list) / 8)
	return list
}

// made counts a list of texts.
func (c *call) made(texts []string) any {
	list := make([]any, len(texts))
	for i, text := range texts {
		list[i] = text
	}
	return list
}

// names returns the sorted names of an object's members.
func (c *call) names() (map[string]any, []string) {
	object, ok := c.args[0].(map[string]any)
	if !ok {
		c.bad()
	}
	c.grow(len(object) * ofMember)
	return object, slices.Sorted(maps.Keys(object))
}

// functions are the functions of the language without a predicate. Each counts what it makes before it does so.
var functions = map[string]func(c *call) any{
	"len":  func(c *call) any { return c.length(c.node, c.args[0]) },
	"type": func(c *call) any { return typeName(c.args[0]) },
	"abs": func(c *call) any {
		if f, ok := c.args[0].(float64); ok {
			return math.Abs(f)
		}
		if c.compare(c.node, c.args[0], 0) < 0 {
			return c.arithmetic(c.node, "-", 0, c.args[0])
		}
		return c.args[0]
	},
	"ceil":  func(c *call) any { return c.rounded(math.Ceil) },
	"floor": func(c *call) any { return c.rounded(math.Floor) },
	"round": func(c *call) any { return c.rounded(math.Round) },
	"int":   integral,
	"float": func(c *call) any {
		f, ok := float(c.args[0])
		if s, isText := c.args[0].(string); isText {
			parsed, err := strconv.ParseFloat(s, 64)
			f, ok = parsed, err == nil
		}
		if !ok {
			c.bad()
		}
		return f
	},
	"string": func(c *call) any {
		switch v := c.args[0].(type) {
		case string:
			return v
		case nil:
			return "<nil>"
		}
		return string(c.encode(nil, c.args[0], 0))
	},

	"trim": func(c *call) any {
		if len(c.args) == 1 {
			return strings.TrimSpace(c.text(0, ""))
		}
		c.spend(len(c.text(0, "")) * len(c.text(1, "")) >> 10)
		return strings.Trim(c.text(0, ""), c.text(1, ""))
	},
	"trimPrefix":  func(c *call) any { return strings.TrimPrefix(c.text(0, ""), c.text(1, " ")) },
	"trimSuffix":  func(c *call) any { return strings.TrimSuffix(c.text(0, ""), c.text(1, " ")) },
	"hasPrefix":   func(c *call) any { return strings.HasPrefix(c.text(0, ""), c.text(1, "")) },
	"hasSuffix":   func(c *call) any { return strings.HasSuffix(c.text(0, ""), c.text(1, "")) },
	"indexOf":     func(c *call) any { return strings.Index(c.text(0, ""), c.text(1, "")) },
	"lastIndexOf": func(c *call) any { return strings.LastIndex(c.text(0, ""), c.text(1, "")) },
	"upper":       func(c *call) any { c.grow(2 * len(c.text(0, ""))); return strings.ToUpper(c.text(0, "")) },
	"lower":       func(c *call) any { c.grow(2 * len(c.text(0, ""))); return strings.ToLower(c.text(0, "")) },
	"split": func(c *call) any {
		return c.split(strings.SplitN)
	},
	"splitAfter": func(c *call) any {
		return c.split(strings.SplitAfterN)
	},
	"replace": func(c *call) any {
		text, old, with, most := c.text(0, ""), c.text(1, ""), c.text(2, ""), c.int(3, -1)
		n := strings.Count(text, old)
		if most >= 0 {
			n = min(n, most)
		}
		c.product(n, len(with))
		c.grow(len(text))
		return strings.Replace(text, old, with, n)
	},
	"repeat": func(c *call) any {
		text, n := c.text(0, ""), c.int(1, 0)
		if n < 0 {
			c.bad()
		}
		c.product(len(text), n)
		return strings.Repeat(text, n)
	},
	"join": func(c *call) any {
		list, glue := c.list(0), c.text(1, "")
		texts := make([]string, len(list))
		c.grow(len(list) * ofElement)
		for i, v := range list {
			text, ok := v.(string)
			if !ok {
				c.bad()
			}
			c.grow(len(text) + len(glue))
			texts[i] = text
		}
		return strings.Join(texts, glue)
	},
	"toJSON": func(c *call) any {
		text := c.encode(nil, c.args[0], 0)
		c.grow(len(text))
		return string(c.indented(text))
	},
	"fromJSON": func(c *call) any {
		text := c.text(0, "")
		c.product(strings.Count(text, ",")+strings.Count(text, "[")+strings.Count(text, "{"), ofMember)
		c.grow(len(text))
		v, err := Decode([]byte(text))
		if err != nil {
			c.bad()
		}
		return v
	},
	"toBase64": func(c *call) any {
		c.grow(len(c.text(0, ""))/3*4 + 4)
		return base64.StdEncoding.EncodeToString([]byte(c.text(0, "")))
	},
	"fromBase64": func(c *call) any {
		c.grow(len(c.text(0, "")))
		text, err := base64.StdEncoding.DecodeString(c.text(0, ""))
		if err != nil {
			c.bad()
		}
		return string(text)
	},

	"first": func(c *call) any { return c.element(0) },
	"last":  func(c *call) any { return c.element(-1) },
	"get": func(c *call) any {
		switch of := c.args[0].(type) {
		case map[string]any:
			if name, ok := c.args[1].(string); ok {
				return of[name]
			}
		case []any:
			return c.element(c.int(1, 0))
		}
		return nil
	},
	"take": func(c *call) any { list := c.list(0); return list[:min(max(c.int(1, 0), 0), len(list))] },
	"keys": func(c *call) any { _, names := c.names(); return c.made(names) },
	"values": func(c *call) any {
		object, names := c.names()
		list := make([]any, len(names))
		for i, name := range names {
			list[i] = object[name]
		}
		return list
	},
	"toPairs": func(c *call) any {
		object, names := c.names()
		c.grow(len(names) * ofMember)
		list := make([]any, len(names))
		for i, name := range names {
			list[i] = []any{name, object[name]}
		}
		return list
	},
	"fromPairs": func(c *call) any {
		list := c.list(0)
		c.grow(len(list) * ofMember)
		object := make(map[string]any, len(list))
		for _, v := range list {
			pair, ok := v.([]any)
			if !ok || len(pair) != 2 {
				return c.bad()
			}
			name, ok := pair[0].(string)
			if !ok {
				return c.bad()
			}
			object[name] = pair[1]
		}
		return object
	},
	"reverse": func(c *call) any {
		c.grow(len(c.list(0)) * ofElement)
		list := slices.Clone(c.list(0))
		slices.Reverse(list)
		return list
	},
	"uniq": func(c *call) any {
		c.grow(len(c.list(0)) * ofElement)
		list := []any{}
		for _, v := range c.list(0) {
			if !slices.ContainsFunc(list, func(w any) bool { return c.equal(v, w, 0) }) {
				list = append(list, v)
			}
		}
		return list
	},
	"concat": func(c *call) any {
		list := []any{}
		for i := range c.args {
			c.grow(len(c.list(i)) * ofElement)
			list = append(list, c.list(i)...)
		}
		return list
	},
	"flatten": func(c *call) any {
		list := []any{}
		c.leaves(c.list(0), 0, func(v any) { c.grow(ofElement); list = append(list, v) })
		return list
	},
	"sort": func(c *call) any {
		list := c.list(0)
		c.grow(len(list) * ofElement)
		c.spend(len(list) * bits.Len(uint(len(list))))
		list = slices.Clone(list)
		slices.SortStableFunc(list, c.order(1))
		return list
	},

	"max": func(c *call) any { return c.extreme(1) },
	"min": func(c *call) any { return c.extreme(-1) },
	"mean": func(c *call) any {
		sum, list := 0.0, c.floats()
		for _, f := range list {
			sum += f
		}
		return sum / float64(max(len(list), 1))
	},
	"median": func(c *call) any {
		list := c.floats()
		slices.Sort(list)
		switch n := len(list); {
		case n == 0:
			return 0.0
		case n%2 == 1:
			return list[n/2]
		default:
			return (list[n/2-1] + list[n/2]) / 2
		}
	},

	"now": func(c *call) any {
		if at, ok := c.env[Now].(time.Time); ok {
			return at
		}
		if c.now.IsZero() {
			c.now = time.Now()
		}
		return c.now
	},
	"duration": library, "date": library, "timezone": library,
	"bitand": library, "bitor": library, "bitxor": library, "bitnand": library, "bitshl": library, "bitshr": library, "bitushr": library, "bitnot": library,
}

// library calls a function of the library whose result is small.
func library(c *call) any {
	fn := builtin.Builtins[builtin.Index[c.node.Name]].Func
	for _, arg := range c.args {
		if s, ok := arg.(string); ok {
			c.grow(4 * len(s)) // errors quote it
		}
	}
	return c.foreign(c.node, "invalid argument for "+c.node.Name, func() any {
		v, err := fn(c.args...)
		if err != nil {
			panic(err)
		}
		return v
	})
}

// product counts n times size bytes.
func (c *call) product(n, size int) {
	if size > 0 && n > c.bytes/size {
		panic(failure{errBytes, nil})
	}
	c.grow(n * size)
}

// rounded rounds a number. An integer stays as it is.
func (c *call) rounded(round func(float64) float64) any {
	if f, ok := c.args[0].(float64); ok {
		return round(f)
	}
	if _, ok := integer(c.args[0]); !ok {
		c.bad()
	}
	return c.args[0]
}

func integral(c *call) any {
	switch v := c.args[0].(type) {
	case float64:
		if math.Abs(v) < 1<<63 {
			return int(v)
		}
	case string:
		if i, ok := integer(json.Number(v)); ok {
			return number(i.String())
		}
	default:
		if _, ok := integer(v); ok {
			return v
		}
	}
	return c.bad()
}

func (c *call) split(split func(s, sep string, n int) []string) any {
	text, at, most := c.text(0, ""), c.text(1, ""), c.int(2, -1)
	n := strings.Count(text, at) + 1
	if most >= 0 {
		n = min(n, most)
	}
	c.product(n, 2*ofElement)
	return c.made(split(text, at, n))
}

// element returns an element of a list, from its end if i is negative, and nil if there is none.
func (c *call) element(i int) any {
	list, _ := c.args[0].([]any)
	if i < 0 {
		i += len(list)
	}
	if i < 0 || i >= len(list) {
		return nil
	}
	return list[i]
}

// leaves visits the elements of a list, and of the lists in it.
func (c *call) leaves(list []any, depth int, visit func(v any)) {
	depth = enter(depth)
	for _, v := range list {
		c.spend(1)
		if inner, ok := v.([]any); ok {
			c.leaves(inner, depth, visit)
		} else {
			visit(v)
		}
	}
}

// extreme returns the greatest of all numbers for 1, the least for -1, nil if there is none.
func (c *call) extreme(sign int) (found any) {
	c.leaves(c.args, 0, func(v any) {
		if _, ok := float(v); !ok {
			c.bad()
		}
		if found == nil || c.compare(c.node, v, found)*sign > 0 {
			found = v
		}
	})
	return found
}

func (c *call) floats() (list []float64) {
	c.leaves(c.args, 0, func(v any) {
		f, ok := float(v)
		if !ok {
			c.bad()
		}
		c.grow(ofElement)
		list = append(list, f)
	})
	return list
}

// order returns the comparison for a sort: asc, the default, or desc.
func (c *call) order(i int) func(a, b any) int {
	order := c.text(i, "asc")
	if order != "asc" && order != "desc" {
		fail(c.node, "want the order asc or desc")
	}
	return func(a, b any) int {
		if order == "desc" {
			a, b = b, a
		}
		return c.compare(c.node, a, b)
	}
}

// indented adds line breaks to JSON, as the library does.
func (c *call) indented(text []byte) []byte {
	var to []byte
	depth, quoted := 0, false
	line := func() {
		c.grow(1 + 2*depth)
		to = append(append(to, '\n'), strings.Repeat("  ", depth)...)
	}
	for i := 0; i < len(text); i++ {
		b := text[i]
		if quoted || b == '"' {
			if b == '"' {
				quoted = !quoted
			}
			to = append(to, b)
			if b == '\\' {
				i++
				to = append(to, text[i])
			}
			continue
		}
		switch b {
		case '[', '{':
			if to = append(to, b); text[i+1] != ']' && text[i+1] != '}' {
				depth++
				line()
			}
		case ']', '}':
			if last := text[i-1]; last != '[' && last != '{' {
				depth--
				line()
			}
			to = append(to, b)
		case ',':
			to = append(to, b)
			line()
		case ':':
			to = append(to, ':', ' ')
		default:
			to = append(to, b)
		}
	}
	return to
}
