package openapi

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
)

// member is one member of an object's schema.
type member struct {
	name     string
	schema   *jsonschema.Schema
	required bool
}

// must returns a member that is always present.
func must(name string, schema *jsonschema.Schema) member {
	return member{name: name, schema: schema, required: true}
}

// may returns a member that may be absent.
func may(name string, schema *jsonschema.Schema) member { return member{name: name, schema: schema} }

// object returns the schema of an object with members; other members are allowed.
func object(about string, members ...member) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Description: about}
	for _, m := range members {
		if s.Properties == nil {
			s.Properties = make(map[string]*jsonschema.Schema, len(members))
		}
		s.Properties[m.name] = m.schema
		s.PropertyOrder = append(s.PropertyOrder, m.name)
		if m.required {
			s.Required = append(s.Required, m.name)
		}
	}
	return s
}

// anything returns the schema of any value. It always has a description: without one it would be the schema true, which
// generators cannot read.
func anything(about string) *jsonschema.Schema {
	return &jsonschema.Schema{Description: cmp.Or(about, "Any JSON value.")}
}

func text(about string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Description: about}
}

func moment(about string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Format: "date-time", Description: about}
}

// name returns the schema of a thread's or a run's name that a client chooses.
func name(about string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", MinLength: new(1), MaxLength: new(200), Description: about}
}

func flag(about string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "boolean", Description: about}
}

// count returns the schema of an integer from 0 on.
func count(about string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "integer", Minimum: new(0.0), Description: about}
}

// within returns the schema of an integer from least to most with a default.
func within(least, most, unsaid int, about string) *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "integer", Minimum: new(float64(least)), Maximum: new(float64(most)),
		Default: raw(fmt.Sprint(unsaid)), Description: about,
	}
}

func list(items *jsonschema.Schema, about string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "array", Items: items, Description: about}
}

// nonempty makes a list have at least one item.
func nonempty(s *jsonschema.Schema) *jsonschema.Schema {
	s.MinItems = new(1)
	return s
}

// choice returns the schema of one of some strings.
func choice[S ~string](about string, values ...S) *jsonschema.Schema {
	s := text(about)
	for _, v := range values {
		s.Enum = append(s.Enum, string(v))
	}
	return s
}

// constant returns the schema of one string.
func constant[S ~string](value S) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Const: new(any(string(value)))}
}

// mapOf returns the schema of an object with members of any name.
func mapOf(values *jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", AdditionalProperties: values}
}

// either returns a schema that accepts any of several.
func either(about string, schemas ...*jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: schemas, Description: about}
}

func orNull(s *jsonschema.Schema) *jsonschema.Schema {
	if s.Type != "" && s.Enum == nil {
		s = s.CloneSchemas()
		s.Type, s.Types = "", []string{s.Type, "null"}
		return s
	}
	about := s.Description
	return either(about, undescribed(s), &jsonschema.Schema{Type: "null"})
}

// ref returns a reference to a named schema.
func ref(name string) *jsonschema.Schema {
	return &jsonschema.Schema{Ref: "#/components/schemas/" + name}
}

// as returns a reference with a description.
func as(name, about string) *jsonschema.Schema {
	s := ref(name)
	s.Description = about
	return s
}

func raw(text string) json.RawMessage { return json.RawMessage(text) }
