package config

import (
	"log/slog"
	"reflect"
	"strings"
	"time"
)

// Schema returns the JSON Schema of each setting and section of settings in a file, for editors.
func Schema() map[string]any {
	all := map[string]any{}
	def := reflect.ValueOf(Default())
	for _, s := range settings() {
		if s.secret {
			continue
		}
		leaf := schemaOf(s.typ)
		if v := def.FieldByIndex(s.index); !v.IsZero() && s.typ.Kind() != reflect.Slice {
			leaf["default"] = text(v)
		}
		if s.key == retentionOfProjects {
			days := map[string]any{}
			for _, what := range []string{"runs", "events", "attachments", "audit"} {
				days[what] = map[string]any{"type": "integer"}
			}
			leaf = map[string]any{"type": []string{"object", "array", "null"}, "items": leaf["items"], "additionalProperties": map[string]any{
				"type": "object", "properties": days, "additionalProperties": false,
			}}
		}
		section, name, nested := strings.Cut(s.key, ".")
		if !nested {
			all[section] = leaf
			continue
		}
		sub, ok := all[section].(map[string]any)
		if !ok {
			sub = map[string]any{"type": []string{"object", "null"}, "properties": map[string]any{}, "additionalProperties": false}
			all[section] = sub
		}
		sub["properties"].(map[string]any)[name] = leaf
	}
	return all
}

func schemaOf(t reflect.Type) map[string]any {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return map[string]any{"type": "string", "pattern": `^[0-9.]+(ns|us|µs|ms|s|m|h)`}
	case reflect.TypeFor[slog.Level]():
		return map[string]any{"type": "string", "examples": []string{"debug", "info", "warn", "error"}}
	case reflect.TypeFor[Size]():
		return map[string]any{"type": []string{"string", "integer"}}
	}
	switch t.Kind() {
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int:
		return map[string]any{"type": "integer"}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": map[string]any{"type": "string"}}
	}
	return map[string]any{"type": "string"}
}

// text returns a default in the form of a file.
func text(v reflect.Value) any {
	switch v := v.Interface().(type) {
	case time.Duration:
		return v.String()
	case Size:
		return v.String()
	case slog.Level:
		return strings.ToLower(v.String())
	default:
		return v
	}
}
