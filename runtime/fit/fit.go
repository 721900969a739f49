// Package fit makes a tool's arguments fit its schema where a model's meaning is clear, so that a check of them is not stricter
// than the tool itself. It is a package of its own because the engine and the tools of package transports/mcp share it.
package fit

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// maxChanges limits the changes of one value.
const maxChanges = 16

// Mend changes v, a value of [jsonschema.UnmarshalJSON], where validate finds that it does not fit: it drops a member that is null,
// and decodes a text with JSON of the type that is wanted. It returns the JSON of a value that fits then, or the error of the
// first validation.
func Mend(v any, validate func(v any) error) (json.RawMessage, error) {
	first := validate(v)
	err := first
	left := maxChanges
	for _, decodes := range []bool{false, true} { // what fits without its nulls is as it was meant
		for changed := true; changed && err != nil && left > 0; {
			invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
			if !ok {
				return nil, first
			}
			changed = false
			for _, leaf := range leaves(invalid, nil) {
				var did bool
				if v, did = change(v, leaf.InstanceLocation, leaf.ErrorKind, decodes); did {
					changed = true
					left--
				}
				if left == 0 {
					break
				}
			}
			err = validate(v)
		}
	}
	if err != nil {
		return nil, first
	}
	return encode(v)
}

// leaves appends the innermost causes of an error.
func leaves(e *jsonschema.ValidationError, list []*jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(e.Causes) == 0 {
		return append(list, e)
	}
	for _, cause := range e.Causes {
		list = leaves(cause, list)
	}
	return list
}

// change changes the value at a place inside v, for which a keyword of the schema has refused it: it drops a null or, with
// decodes, decodes a text.
func change(v any, place []string, refused jsonschema.ErrorKind, decodes bool) (any, bool) {
	if len(place) == 0 {
		text, ok := v.(string)
		if !ok || !decodes {
			return v, false
		}
		decoded, ok := decode(text, refused)
		if !ok {
			return v, false
		}
		return decoded, true
	}
	switch parent := v.(type) {
	case map[string]any:
		inner, ok := parent[place[0]]
		if !ok {
			return v, false
		}
		if inner == nil && len(place) == 1 {
			delete(parent, place[0])
			return v, true
		}
		parent[place[0]], ok = change(inner, place[1:], refused, decodes)
		return v, ok
	case []any:
		if i, err := strconv.Atoi(place[0]); err == nil && i >= 0 && i < len(parent) {
			var ok bool
			parent[i], ok = change(parent[i], place[1:], refused, decodes)
			return v, ok
		}
	}
	return v, false
}

// decode decodes a text that has JSON of a wanted type.
func decode(text string, refused jsonschema.ErrorKind) (any, bool) {
	wanted, ok := refused.(*kind.Type)
	if !ok {
		return nil, false
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, false
	}
	got := ""
	switch v.(type) {
	case map[string]any:
		got = "object"
	case []any:
		got = "array"
	case bool:
		got = "boolean"
	case json.Number:
		got = "number"
	}
	return v, slices.Contains(wanted.Want, got) || got == "number" && slices.Contains(wanted.Want, "integer")
}

// encode returns a value as JSON with the digits of its numbers.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// Loosen removes from a schema, as [jsonschema.UnmarshalJSON] returns it, the requirement of members with a default, which a
// tool takes for absent ones. It changes the schema in place.
func Loosen(schema any) { loosen(schema, nil) }

func loosen(schema any, outer map[string]bool) {
	s, ok := schema.(map[string]any)
	if !ok {
		if list, ok := schema.([]any); ok {
			for _, one := range list {
				loosen(one, nil)
			}
		}
		return
	}
	defaults := maps.Clone(outer)
	if defaults == nil {
		defaults = map[string]bool{}
	}
	collect(s, defaults, 0)
	if required, ok := s["required"].([]any); ok {
		s["required"] = slices.DeleteFunc(required, func(name any) bool {
			text, ok := name.(string)
			return ok && defaults[text]
		})
	}
	for keyword, inner := range s {
		switch keyword {
		case "enum", "const", "default", "examples", "required":
		case "oneOf", "not", "if": // what fits more of these fits less of the whole
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
			if named, ok := inner.(map[string]any); ok {
				for _, one := range named {
					loosen(one, nil)
				}
			}
		case "allOf", "anyOf":
			if list, ok := inner.([]any); ok {
				for _, one := range list {
					loosen(one, defaults)
				}
			}
		case "then", "else":
			loosen(inner, defaults)
		default:
			loosen(inner, nil)
		}
	}
}

// maxNested limits how deep in allOf, anyOf and oneOf properties are searched.
const maxNested = 4

// collect adds the properties that have a default.
func collect(s map[string]any, defaults map[string]bool, depth int) {
	if properties, ok := s["properties"].(map[string]any); ok {
		for name, property := range properties {
			if p, ok := property.(map[string]any); ok {
				if _, ok := p["default"]; ok {
					defaults[name] = true
				}
			}
		}
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := s[keyword].([]any)
		for _, one := range list {
			if inner, ok := one.(map[string]any); ok && depth < maxNested {
				collect(inner, defaults, depth+1)
			}
		}
	}
}
