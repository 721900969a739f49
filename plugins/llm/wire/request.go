package wire

import (
	"encoding/json"

	"github.com/tmc/langchaingo/llms"
)

// Tool is a tool that a model can call.
type Tool struct {
	Name, Description string
	Parameters        json.RawMessage // JSON Schema of an object
	Strict            bool
}

// functions returns the functions among the tools of options.
func functions(o llms.CallOptions) (list []Tool) {
	for _, t := range o.Tools {
		if t.Function == nil {
			continue
		}
		tool := Tool{t.Function.Name, t.Function.Description, json.RawMessage(`{"type":"object","properties":{}}`), t.Function.Strict}
		if data, err := json.Marshal(t.Function.Parameters); err == nil && t.Function.Parameters != nil {
			tool.Parameters = data
		}
		list = append(list, tool)
	}
	return list
}

// Choice returns the tool choice: auto, none, required, or the name of a tool.
func Choice(o llms.CallOptions) (mode, name string) {
	switch c := o.ToolChoice.(type) {
	case string:
		if c == "any" {
			return "required", ""
		}
		return c, ""
	case llms.ToolChoice:
		if c.Function != nil {
			return "required", c.Function.Name
		}
		return c.Type, ""
	case *llms.ToolChoice:
		if c != nil && c.Function != nil {
			return "required", c.Function.Name
		}
	}
	return "", ""
}

// Number returns a pointer to n, nil for 0, which means unset in options.
func Number[T comparable](n T) *T {
	var zero T
	if n == zero {
		return nil
	}
	return &n
}
