package expression

import (
	"slices"

	"github.com/expr-lang/expr/ast"
)

// loops are the functions with a predicate.
var loops = []string{
	"all", "none", "any", "one", "filter", "map", "find", "findIndex", "findLast", "findLastIndex", "count", "sum", "groupBy", "sortBy", "reduce",
}

// loop calls a function with a predicate.
func (r *evaluation) loop(n *ast.BuiltinNode) any {
	c := &call{r, n, []any{r.eval(n.Arguments[0])}}
	l := &loop{list: c.list(0)}
	var predicate ast.Node
	if len(n.Arguments) > 1 {
		predicate = n.Arguments[1]
	}
	if n.Name == "sortBy" || n.Name == "reduce" {
		for _, arg := range n.Arguments[2:] {
			c.args = append(c.args, r.eval(arg))
		}
	}
	r.loops = append(r.loops, l)
	defer func() { r.loops = r.loops[:len(r.loops)-1] }()
	value := func(i int) any {
		l.index = i
		if predicate == nil {
			return l.list[i]
		}
		return r.eval(predicate)
	}
	holds := func(i int) bool {
		yes, ok := value(i).(bool)
		if !ok {
			fail(n, "want a boolean in %s", n.Name)
		}
		return yes
	}
	switch n.Name {
	case "all", "none", "any":
		for i := range l.list {
			if holds(i) != (n.Name == "all") {
				return n.Name == "any"
			}
		}
		return n.Name != "any"
	case "one", "count":
		count := 0
		for i := range l.list {
			if holds(i) {
				count++
			}
		}
		if n.Name == "one" {
			return count == 1
		}
		return count
	case "find", "findIndex", "findLast", "findLastIndex":
		for i := range l.list {
			if n.Name == "findLast" || n.Name == "findLastIndex" {
				i = len(l.list) - 1 - i
			}
			if holds(i) {
				if n.Name == "find" || n.Name == "findLast" {
					return l.list[i]
				}
				return i
			}
		}
		return nil
	case "filter":
		list := []any{}
		for i, v := range l.list {
			if holds(i) {
				r.grow(ofElement)
				list = append(list, v)
			}
		}
		return list
	case "map", "sortBy":
		r.grow(2 * len(l.list) * ofElement)
		values := make([]any, len(l.list))
		for i := range l.list {
			values[i] = value(i)
		}
		if n.Name == "map" {
			return values
		}
		order := c.order(1)
		places := make([]int, len(values))
		for i := range places {
			places[i] = i
		}
		slices.SortStableFunc(places, func(i, j int) int { return order(values[i], values[j]) })
		list := make([]any, len(values))
		for i, place := range places {
			list[i] = l.list[place]
		}
		return list
	case "sum":
		var sum any = 0
		for i := range l.list {
			sum = r.arithmetic(n, "+", sum, value(i))
		}
		return sum
	case "groupBy":
		groups := make(map[any][]any)
		for i, v := range l.list {
			key := value(i)
			switch k := key.(type) {
			case nil, bool, int, float64:
			case string:
				r.read(k)
			default:
				fail(n, "cannot group by %s", typeName(key))
			}
			r.grow(ofMember)
			groups[key] = append(groups[key], v)
		}
		return named(groups)
	case "reduce":
		start := 0
		if len(c.args) > 1 {
			l.acc = c.args[1]
		} else if start = 1; len(l.list) == 0 {
			fail(n, "reduce of empty array with no initial value")
		} else {
			l.acc = l.list[0]
		}
		for i := start; i < len(l.list); i++ {
			l.acc = value(i)
		}
		return l.acc
	}
	return fail(n, "there is no function %s", n.Name)
}

// named returns groups as an object if all of their keys are texts.
func named(groups map[any][]any) any {
	object := make(map[string]any, len(groups))
	for key, list := range groups {
		name, ok := key.(string)
		if !ok {
			return groups
		}
		object[name] = list
	}
	return object
}
