package declared

import (
	"encoding/json"
	"reflect"
	"slices"
	"time"
)

// Schema returns the JSON Schema of each section, for editors. It accepts the same form as Load, which also checks
// references and expressions.
func Schema() map[string]any {
	all := properties(reflect.TypeFor[file]())
	const box = `^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`
	for section, names := range map[string]string{"agents": properName.String(), "mcp": box, "tools": box, "workflows": properName.String()} {
		s := all[section].(map[string]any)
		s["type"] = []string{"object", "null"} // a section with comments only
		s["propertyNames"] = map[string]any{"pattern": names}
	}
	return all
}

func properties(t reflect.Type) map[string]any {
	all := map[string]any{}
	for _, m := range shapeOf(t) {
		s := schemaOf(m.typ)
		if m.doc != "" {
			s["description"] = m.doc
		}
		if m.enum != nil {
			s["enum"] = m.enum
		}
		all[m.name] = s
	}
	return all
}

func schemaOf(t reflect.Type) map[string]any {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return map[string]any{"type": "string", "pattern": `^([0-9]+d|([0-9]+d|\+)?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`}
	case reflect.TypeFor[*Output]():
		return map[string]any{"oneOf": []map[string]any{
			{"enum": []string{"text", "structured"}},
			{"type": "object", "required": []string{"schema"}, "additionalProperties": false, "properties": map[string]any{"schema": map[string]any{
				"type": []string{"string", "object"}, "description": "A file with the JSON Schema of the answer, relative to the server's working directory, or the schema itself. Its type is object.",
			}}},
		}}
	case reflect.TypeFor[*Approval]():
		return map[string]any{"oneOf": []map[string]any{{"enum": []string{"required"}}, schemaOf(reflect.TypeFor[Approver]())}}
	case reflect.TypeFor[*Retry]():
		return map[string]any{"oneOf": []map[string]any{schemaOf(reflect.TypeFor[int]()), schemaOf(t.Elem())}}
	case reflect.TypeFor[json.RawMessage]():
		return map[string]any{"type": []string{"string", "object"}}
	case reflect.TypeFor[*Input]():
		return map[string]any{"type": []string{"string", "number", "boolean", "object", "array"}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Struct:
		s := map[string]any{"type": "object", "properties": properties(t), "additionalProperties": false}
		if keys := required(t); keys != nil {
			s["required"] = keys
		}
		if one := alternatives(t); one != nil {
			s["oneOf"] = one
		}
		return s
	case reflect.Map:
		if t.Elem().Kind() == reflect.String {
			return map[string]any{"type": "object", "additionalProperties": map[string]any{"type": []string{"string", "number", "boolean"}}}
		}
		return map[string]any{"type": "object", "additionalProperties": schemaOf(t.Elem())}
	case reflect.Slice:
		if t.Elem() == reflect.TypeFor[*Guard]() {
			return map[string]any{"oneOf": []any{schemaOf(t.Elem()), map[string]any{"type": "array", "items": schemaOf(t.Elem())}}}
		}
		return map[string]any{"type": "array", "items": schemaOf(t.Elem())}
	case reflect.Int:
		return map[string]any{"type": "integer", "minimum": 0}
	case reflect.Float64:
		return map[string]any{"type": "number", "minimum": 0, "maximum": maxAmount}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	}
	return map[string]any{"type": "string"}
}

// required returns the keys that a declaration must have.
func required(t reflect.Type) []string {
	switch t {
	case reflect.TypeFor[Model]():
		return []string{"provider"}
	case reflect.TypeFor[Tools]():
		return []string{"command"}
	case reflect.TypeFor[Ask]():
		return []string{"message"}
	case reflect.TypeFor[Retry]():
		return []string{"max"}
	case reflect.TypeFor[Repeat]():
		return []string{"until"}
	case reflect.TypeFor[Prices]():
		return []string{"currency"}
	case reflect.TypeFor[Budget]():
		return []string{"scope", "unit", "limit"}
	}
	return nil
}

// alternatives returns schemas for the keys of which a declaration has exactly one.
func alternatives(t reflect.Type) (one []map[string]any) {
	keys := map[reflect.Type][]string{
		reflect.TypeFor[Agent]():  {"provider", "agui", "command"},
		reflect.TypeFor[Server](): {"command", "url"},
		reflect.TypeFor[Node]():   {"agent", "tool", "ask"},
		reflect.TypeFor[Else]():   {"fail", "skip", "output"},
		reflect.TypeFor[Wait]():   {"for", "until", "event"},
		reflect.TypeFor[Guard]():  {"agent", "tool", "expr"},
	}
	for _, key := range keys[t] {
		one = append(one, map[string]any{"required": []string{key}})
	}
	if t == reflect.TypeFor[Node]() {
		one = append(one, map[string]any{"required": []string{"wait"}, "not": map[string]any{"anyOf": slices.Clone(one)}})
	}
	return one
}
