package graph

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/expression"
)

// MaxBytes limits the inputs of a map's items, and their outputs, which can be the result of the run.
const MaxBytes = 4 << 20

// Item is an item of a node's map, as it is recorded when the node begins.
type Item struct {
	data.Item
	Input string            `json:"input"`
	Error *agui.OutputError `json:"error,omitempty"` // of the input's expression; the item is not executed
}

// Ended is the end of an item: its output or its error.
type Ended struct {
	Output json.RawMessage   `json:"output,omitempty"`
	Error  *agui.OutputError `json:"error,omitempty"`
}

// Whole reports whether the node is the whole of a map, which has no worker of its own.
func (n *Node) Whole() bool { return n.Map != nil && n.Item == nil }

// Of returns the node for an item of its map. The map's approval is not the item's.
func (n *Node) Of(it *Item) *Node {
	one := *n
	one.Item, one.Approval = it, false
	return &one
}

// StepName returns the name of the node's steps.
func (n *Node) StepName() string {
	if n.Item == nil {
		return n.ID
	}
	return fmt.Sprintf("%s[%d]", n.ID, n.Item.Index)
}

// AtOnce returns how many executions of the node there can be at once.
func (n *Node) AtOnce() int {
	if n.Map == nil {
		return 1
	}
	return cmp.Or(n.Map.Max, plugins.DefaultMax)
}

// Tolerates reports whether the node goes on after its item has failed with an error.
func (n *Node) Tolerates(e *agui.OutputError) bool {
	return n.Item != nil && !slices.Contains(ofRun, e.Code) && (n.Map.OnError == plugins.CollectErrors || n.Map.OnError == plugins.SkipErrors)
}

// Over compiles the list of a map, and returns the names available to the key and the input of an item.
func (n Names) Over(m *plugins.Map) (*expression.Program, Names, error) {
	program, err := n.compile(m.Over, false)
	if err != nil {
		return nil, n, err
	}
	typ, err := program.Element()
	if err != nil {
		return nil, n, err
	}
	as := cmp.Or(m.As, "item")
	if n.all[as] != nil || expression.IsReserved(as) {
		return nil, n, fmt.Errorf("the item cannot be called %s, which means something else", as)
	}
	inner := maps.Clone(n.all)
	inner[as] = typ
	return program, Names{all: inner, own: inner}, nil
}

// Items evaluates the list of a node's map, with the key and the input of each item.
func (n *Node) Items(ctx context.Context, env func() map[string]any) ([]Item, error) {
	scope := env()
	v, err := n.over.Run(ctx, scope)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	values, ok := v.([]any)
	switch {
	case err != nil:
		return nil, n.badMap("bad_map", "the list failed: %s", firstLine(err))
	case !ok:
		return nil, n.badMap("bad_map", "the value of over is no list")
	case len(values) > plugins.MaxItems:
		return nil, n.badMap("too_many_items", "the list has %d items, and a map may have %d", len(values), plugins.MaxItems)
	}
	items, seen, size := make([]Item, len(values)), make(map[string]bool), 0
	for i, value := range values {
		scope[cmp.Or(n.Map.As, "item")] = value
		it := &items[i]
		if it.Item, err = n.identify(ctx, i, scope); err != nil {
			return nil, err
		}
		if seen[it.Key] {
			return nil, n.badMap("equal_keys", "two items have the key %.100q", it.Key)
		}
		seen[it.Key] = true
		if it.Input, err = n.inputOf(ctx, value, scope); err != nil {
			shown, ok := errors.AsType[*plugins.Error](err)
			if !ok {
				return nil, err
			}
			if it.Error = (&agui.OutputError{Code: shown.Code, Message: shown.Message}); !n.Of(it).Tolerates(it.Error) {
				return nil, err
			}
		}
		if size += len(it.Input); size > MaxBytes {
			return nil, n.badMap("map_too_large", "the inputs of its items have more than %d bytes", MaxBytes)
		}
	}
	return items, nil
}

func (n *Node) badMap(code, format string, args ...any) error {
	return &plugins.Error{Code: code, Message: fmt.Sprintf("Node %s: ", n.ID) + fmt.Sprintf(format, args...)}
}

// identify returns the index and the key of an item.
func (n *Node) identify(ctx context.Context, i int, scope map[string]any) (data.Item, error) {
	it := data.Item{Index: i, Key: fmt.Sprint(i)}
	if n.key == nil {
		return it, nil
	}
	v, err := n.key.Run(ctx, scope)
	if err != nil && ctx.Err() != nil {
		return it, context.Cause(ctx)
	}
	if err != nil {
		return it, n.badMap("bad_map", "the key of item %d failed: %s", i, firstLine(err))
	}
	switch v := v.(type) {
	case string:
		it.Key = v
	case int, float64, json.Number:
		raw, err := expression.Encode(v)
		if it.Key = string(raw); err != nil {
			return it, n.badMap("bad_map", "the key of item %d failed: %s", i, firstLine(err))
		}
	default:
		return it, n.badMap("bad_map", "the key of item %d is neither a string nor a number", i)
	}
	if len(it.Key) > maxKey {
		return it, n.badMap("bad_map", "the key of item %d has more than %d bytes", i, maxKey)
	}
	return it, nil
}

// maxKey limits the bytes of an item's key.
const maxKey = 1 << 10

// inputOf returns the input of an item: the value of the mapping, or the item itself.
func (n *Node) inputOf(ctx context.Context, value any, scope map[string]any) (string, error) {
	if n.input != nil {
		return n.text(ctx, n.input, scope, "input mapping")
	}
	if s, ok := value.(string); ok {
		return s, nil
	}
	raw, err := expression.Encode(value)
	if err != nil {
		return "", &plugins.Error{Code: "bad_input", Message: fmt.Sprintf("Node %s: an item is no input: %s", n.ID, firstLine(err))}
	}
	return string(raw), nil
}

// mapOutput is the output of a map. Its members are those of a WorkerOutput, and the errors.
type mapOutput struct {
	Status string            `json:"status"`
	Answer string            `json:"answer"`
	Result []json.RawMessage `json:"result"`
	Errors []itemError       `json:"errors"`
}

// itemError is an item that has failed.
type itemError struct {
	data.Item
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Output returns the output of a node with items that have all ended.
func (n *Node) Output(items []*Node, ended []*Ended) json.RawMessage {
	out := mapOutput{Status: agui.StatusSuccess, Result: []json.RawMessage{}, Errors: []itemError{}}
	var answers []string
	for i, e := range ended {
		if e.Error == nil {
			out.Result = append(out.Result, Result(e.Output))
			if a := Answer(e.Output); a != "" {
				answers = append(answers, a)
			}
			continue
		}
		out.Status = agui.StatusPartialSuccess
		out.Errors = append(out.Errors, itemError{items[i].Item.Item, e.Error.Code, e.Error.Message})
		if n.Map.OnError == plugins.CollectErrors {
			out.Result = append(out.Result, json.RawMessage("null"))
		}
	}
	out.Answer = strings.Join(answers, "\n\n")
	return data.MustJSON(out)
}

// errorsOf returns the errors in the output of a map.
func errorsOf(output json.RawMessage) any {
	var o struct {
		Errors json.RawMessage `json:"errors"`
	}
	_ = json.Unmarshal(output, &o)
	list, _ := expression.Decode(o.Errors) // nil for a node that was skipped
	return list
}

// Unfold returns the items of the node as nodes.
func (n *Node) Unfold(items []Item) []*Node {
	list := make([]*Node, len(items))
	for i := range items {
		list[i] = n.Of(&items[i])
	}
	return list
}

// Width returns how many executions of the graph's nodes there can be at once.
func (g *Graph) Width() (n int) {
	for _, node := range g.Nodes {
		n += node.AtOnce()
	}
	return n
}
