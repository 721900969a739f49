package openapi

import (
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
	errs  []error
}

func newSchemas() schemas {
	return schemas{
		named: make(map[string]*jsonschema.Schema),
		types: map[reflect.Type]*jsonschema.Schema{
			reflect.TypeFor[json.RawMessage]():  anything(""),
			reflect.TypeFor[time.Time]():        {Type: "string", Format: "date-time"},
			reflect.TypeFor[runtime.Status]():   choice("", statuses...),
			reflect.TypeFor[agui.Role]():        choice("", roles...),
			reflect.TypeFor[agui.OutcomeType](): choice("", agui.OutcomeSuccess, agui.OutcomeInterrupt, agui.OutcomeCancelled),
		},
	}
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

// infer names the schema of a Go type, so that other types refer to it. The members of more replace or describe those of the
// type.
func infer[T any](s *schemas, name, about string, more ...member) {
	t := reflect.TypeFor[T]()
	schema, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: s.types})
	if err != nil {
		s.errs = append(s.errs, err)
		return
	}
	honest(schema)
	schema.Description = about
	for _, m := range more {
		old := schema.Properties[m.name]
		if old == nil {
			s.errs = append(s.errs, fmt.Errorf("%s has no member %q", name, m.name))
			continue
		}
		if !m.describes {
			*old = *m.schema
		}
		old.Description = m.schema.Description
	}
	s.name(name, schema)
	s.types[t] = ref(name)
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
		*s = *orNull(&jsonschema.Schema{Ref: s.Ref, Type: strings.Join(s.Types[1:], ""), Enum: s.Enum})
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
