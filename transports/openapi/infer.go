package openapi

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// schemas are the document's named schemas. Those of Go types are inferred, so that they match the encoding; the functions below
// make the others.
type schemas struct {
	named map[string]*jsonschema.Schema
	types map[reflect.Type]*jsonschema.Schema // how other types refer to a type that has a name
	texts map[string]map[string]string        // the comments of types and members, by their names; "" is the type's own
	errs  []error
}

func newSchemas() schemas {
	s := schemas{
		named: make(map[string]*jsonschema.Schema),
		types: map[reflect.Type]*jsonschema.Schema{
			reflect.TypeFor[json.RawMessage]():  anything(""),
			reflect.TypeFor[time.Time]():        {Type: "string", Format: "date-time"},
			reflect.TypeFor[runtime.Status]():   choice("", statuses...),
			reflect.TypeFor[agui.Role]():        choice("", roles...),
			reflect.TypeFor[agui.OutcomeType](): choice("", agui.OutcomeSuccess, agui.OutcomeInterrupt, agui.OutcomeCancelled),
		},
	}
	if err := json.Unmarshal(textsJSON, &s.texts); err != nil {
		s.errs = append(s.errs, err)
	}
	return s
}

var (
	statuses = []runtime.Status{runtime.Queued, runtime.Running, runtime.Waiting, runtime.Completed, runtime.Failed, runtime.Cancelled}
	roles    = []agui.Role{ // text roles first
		agui.RoleUser, agui.RoleAssistant, agui.RoleSystem, agui.RoleDeveloper,
		agui.RoleTool, agui.RoleReasoning, agui.RoleActivity,
	}
)

// name gives a schema a name.
func (s *schemas) name(name string, schema *jsonschema.Schema) {
	if s.named[name] != nil {
		s.errs = append(s.errs, fmt.Errorf("two schemas have the name %s", name))
	}
	s.named[name] = schema
}

// infer names the schema of a Go type, so that other types refer to it. The type's comments describe it and its members, and tags
// of its fields restrict them: enum has the values, type and format are those of JSON Schema. The members in more replace those of
// the type; one without a description keeps the text of the comment.
func infer[T any](s *schemas, name string, more ...member) {
	t := reflect.TypeFor[T]()
	schema, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: s.types})
	if err != nil {
		s.errs = append(s.errs, err)
		return
	}
	schema.Description = s.texts[typeName(t)][""]
	s.describe(t, schema)
	honest(schema)
	for _, m := range more {
		old := schema.Properties[m.name]
		if old == nil {
			s.errs = append(s.errs, fmt.Errorf("%s has no member %q", name, m.name))
			continue
		}
		about := cmp.Or(m.schema.Description, old.Description)
		*old = *m.schema
		old.Description = about
	}
	s.name(name, schema)
	s.types[t] = ref(name)
}

//go:generate go test -run TestTextsAreThoseOfTheTypes -update .

//go:embed texts.json
var textsJSON []byte

// typeName returns a type's name with its package, without its parameters.
func typeName(t reflect.Type) string {
	name, _, _ := strings.Cut(t.String(), "[")
	return name
}

// describe applies the comments and tags of a type's fields to its schema.
func (s *schemas) describe(t reflect.Type, schema *jsonschema.Schema) {
	for f := range t.Fields() {
		if f.Anonymous {
			s.describe(f.Type, schema)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		p := schema.Properties[name]
		if p == nil {
			continue
		}
		if typ := f.Tag.Get("type"); typ != "" {
			p.Type, p.Description = typ, ""
		}
		if values := f.Tag.Get("enum"); values != "" {
			p.Enum = nil
			for v := range strings.SplitSeq(values, ",") {
				p.Enum = append(p.Enum, v)
			}
		}
		if typ := f.Type; p.Properties != nil {
			if typ.Kind() == reflect.Pointer {
				typ = typ.Elem()
			}
			s.describe(typ, p)
			p.Description = s.texts[typeName(typ)][""]
		}
		p.Format = cmp.Or(f.Tag.Get("format"), p.Format)
		p.Description = cmp.Or(s.texts[typeName(t)][name], p.Description)
	}
}

// known makes other types refer to T by a name that is defined elsewhere.
func known[T any](s *schemas, name string) { s.types[reflect.TypeFor[T]()] = ref(name) }

// honest corrects an inferred schema: slices and optional members are never null, a nullable reference or choice is one or
// null, null is the last type, and unknown members are allowed.
func honest(s *jsonschema.Schema) {
	s.AdditionalProperties = nil
	if s.Items != nil {
		s.Type, s.Types = "array", nil
		honest(s.Items)
	}
	if s.Types != nil && (s.Ref != "" || s.Enum != nil) {
		*s = *orNull(&jsonschema.Schema{Ref: s.Ref, Type: strings.Join(s.Types[1:], ""), Enum: s.Enum, Description: s.Description})
	}
	for name, p := range s.Properties {
		if !slices.Contains(s.Required, name) && slices.Contains(p.Types, "null") {
			p.Type = strings.Join(p.Types[1:], "") // of null and one other, or of null alone beside a reference
			p.Types = nil
		}
		honest(p)
	}
	if len(s.Types) > 1 && s.Types[0] == "null" {
		s.Types = append(slices.Clone(s.Types[1:]), "null")
	}
}

// err joins the errors of inference.
func (s *schemas) err() error { return errors.Join(s.errs...) }
