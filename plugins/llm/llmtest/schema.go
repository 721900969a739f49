package llmtest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// schemaOf returns the schema of a tool's parameters, nil if it is no object.
func schemaOf(raw json.RawMessage) (s map[string]any) {
	_ = json.Unmarshal(raw, &s) // another value is no schema
	return s
}

// oddity returns the first complaint of check about a schema or a schema in it. at is its place.
func oddity(v any, at string, check func(s map[string]any, at string) string) string {
	s, ok := v.(map[string]any)
	if !ok {
		return ""
	}
	if said := check(s, at); said != "" {
		return said
	}
	for _, name := range slices.Sorted(maps.Keys(s)) {
		switch inner := s[name].(type) {
		case map[string]any:
			in := map[string]any{"": inner}
			if slices.Contains([]string{"properties", "$defs", "definitions"}, name) {
				in = inner
			} else if !slices.Contains([]string{"items", "additionalProperties", "not"}, name) {
				continue
			}
			for _, key := range slices.Sorted(maps.Keys(in)) {
				if said := oddity(in[key], strings.TrimSuffix(at+"."+name+"."+key, "."), check); said != "" {
					return said
				}
			}
		case []any:
			if !slices.Contains([]string{"anyOf", "oneOf", "allOf", "prefixItems"}, name) {
				continue
			}
			for _, each := range inner {
				if said := oddity(each, at+"."+name, check); said != "" {
					return said
				}
			}
		}
	}
	return ""
}

var jsonTypes = []string{"object", "array", "string", "number", "integer", "boolean", "null"}

// invalid returns why s is no JSON Schema.
func invalid(s map[string]any) string {
	types, several := s["type"].([]any)
	if !several && s["type"] != nil {
		types = []any{s["type"]}
	}
	for _, t := range types {
		if word, _ := t.(string); !slices.Contains(jsonTypes, word) {
			return "'" + word + "' is not valid under any of the given schemas"
		}
	}
	for _, name := range []string{"exclusiveMinimum", "exclusiveMaximum", "minimum", "maximum"} {
		if _, flag := s[name].(bool); flag {
			return "True is not of type 'number'"
		}
	}
	if values, there := s["enum"]; there {
		if list, _ := values.([]any); len(list) == 0 {
			return "[] should be non-empty"
		}
	}
	if _, tuple := s["items"].([]any); tuple {
		return "items is not of type 'object', 'boolean'"
	}
	if _, ok := s["properties"].(map[string]any); !ok && s["properties"] != nil {
		return "properties is not of type 'object'"
	}
	return ""
}

// itemless reports whether s is an array without a schema of its items.
func itemless(s map[string]any) bool {
	several, _ := s["type"].([]any)
	array := s["type"] == "array" || slices.Contains(several, any("array"))
	return array && s["items"] == nil && s["prefixItems"] == nil
}

// root reports whether s has one of the members.
func root(s map[string]any, members ...string) bool {
	return slices.ContainsFunc(members, func(name string) bool { return s[name] != nil })
}
