package openapi_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The meta schema comes from the OpenAPI Initiative; see testdata/README.md.
func TestDocumentIsOpenAPI(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/openapi-3.1-schema.json")
	must(t, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	must(t, c.AddResource("baton:meta", decode(t, text)))
	meta, err := c.Compile("baton:meta")
	must(t, err)
	doc := fetch(t).doc
	if err := meta.Validate(doc); err != nil {
		t.Error(err)
	}
	doc["info"].(object)["title"] = 1
	if meta.Validate(doc) == nil {
		t.Error("the meta schema admits anything")
	}
}

func TestEverySchemaCompiles(t *testing.T) {
	t.Parallel()
	s := fetch(t)
	for name := range s.at("components", "schemas").(object) {
		s.component(t, name)
	}
	for _, op := range s.operations() {
		at := []string{"paths", op.path, op.method}
		for status, answer := range op.object["responses"].(object) {
			if answer.(object)["$ref"] == nil {
				s.contents(t, answer, append(at, "responses", status, "content"))
			}
		}
		s.contents(t, op.object["requestBody"], append(at, "requestBody", "content"))
	}
	for name, answer := range s.at("components", "responses").(object) {
		s.contents(t, answer, []string{"components", "responses", name, "content"})
	}
}

// contents compiles the schemas of a body and validates its examples.
func (s *spec) contents(t *testing.T, body any, at []string) {
	t.Helper()
	b, _ := body.(object)
	content, _ := b["content"].(object)
	for kind, m := range content {
		media := m.(object)
		schema := s.schema(t, slices.Concat(at, []string{kind, "schema"})...)
		examples, _ := media["examples"].(object)
		values := []any{media["example"]}
		for _, e := range examples {
			values = append(values, e.(object)["value"])
		}
		for _, v := range values {
			switch text, isText := v.(string); {
			case v == nil:
			case kind == asStream && isText:
				validate(t, schema, v, strings.Join(at, " "))
				schema := s.schema(t, slices.Concat(at, []string{kind, "schema", "contentSchema"})...)
				for _, f := range frames(t, text) {
					validate(t, schema, f, strings.Join(at, " "))
				}
			default:
				validate(t, schema, v, strings.Join(at, " "))
			}
		}
	}
}

func validate(t *testing.T, schema *jsonschema.Schema, v any, what string) {
	t.Helper()
	if err := schema.Validate(v); err != nil {
		t.Errorf("%s: %s\n%v", what, encode(t, v), err)
	}
}

func TestEveryReferenceLeadsSomewhere(t *testing.T) {
	t.Parallel()
	s := fetch(t)
	used := make(map[string]bool)
	walk(s.doc, func(o object) {
		ref, ok := o["$ref"].(string)
		if !ok {
			return
		}
		used[ref] = true
		if s.resolve(o) == nil {
			t.Errorf("nothing is at %s", ref)
		}
	})
	for _, kind := range []string{"schemas", "responses"} {
		for name := range s.at("components", kind).(object) {
			if !used["#/components/"+kind+"/"+name] {
				t.Errorf("nothing refers to %s", name)
			}
		}
	}
}

func TestEveryExampleIsShown(t *testing.T) {
	t.Parallel()
	shown := make(map[string]bool)
	prose := ""
	walk(fetch(t).doc, func(o object) {
		if about, ok := o["description"].(string); ok {
			prose += about
		}
		for _, name := range []string{"example", "value"} {
			shown[string(encode(t, o[name]))] = true
		}
	})
	entries, err := os.ReadDir("examples")
	must(t, err)
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join("examples", e.Name()))
		must(t, err)
		var v any = string(text)
		if filepath.Ext(e.Name()) == ".json" {
			v = decode(t, text)
		}
		if filepath.Ext(e.Name()) == ".txt" && strings.Contains(prose, string(text)) {
			continue
		}
		if !shown[string(encode(t, v))] {
			t.Errorf("%s is nowhere", e.Name())
		}
	}
}

func TestEveryOperationIsDescribed(t *testing.T) {
	t.Parallel()
	s := fetch(t)
	tags := make(map[any]bool)
	for _, tag := range s.doc["tags"].([]any) {
		tags[tag.(object)["name"]] = true
	}
	ids := make(map[any]bool)
	for _, op := range s.operations() {
		id := op.object["operationId"]
		if ids[id] || id == "" {
			t.Errorf("%s %s: the operationId %v is not its own", op.method, op.path, id)
		}
		ids[id] = true
		if op.object["summary"] == "" || strings.HasSuffix(op.object["summary"].(string), ".") {
			t.Errorf("%v: the summary is %q", id, op.object["summary"])
		}
		for _, tag := range op.object["tags"].([]any) {
			if !tags[tag] {
				t.Errorf("%v: there is no tag %v", id, tag)
			}
		}
		s.parameters(t, op)
	}
}

// parameters checks that an operation declares the parameters of its path, and each once.
func (s *spec) parameters(t *testing.T, op operation) {
	t.Helper()
	declared := make(map[string]bool)
	list, _ := op.object["parameters"].([]any)
	for _, p := range list {
		p := p.(object)
		key := p["in"].(string) + " " + p["name"].(string)
		if declared[key] || p["description"] == "" {
			t.Errorf("%s %s: the parameter %s is declared twice or not described", op.method, op.path, key)
		}
		declared[key] = true
	}
	n := 0
	for segment := range strings.SplitSeq(op.path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			n++
			if !declared["path "+strings.TrimSuffix(name, "}")] {
				t.Errorf("%s %s: the parameter %s is not declared", op.method, op.path, segment)
			}
		}
	}
	for key := range declared {
		if strings.HasPrefix(key, "path ") {
			n--
		}
	}
	if n != 0 {
		t.Errorf("%s %s: declares parameters that its path does not have", op.method, op.path)
	}
}

func TestAnswersMayGrow(t *testing.T) {
	t.Parallel()
	walk(fetch(t).doc, func(o object) {
		if o["additionalProperties"] == false {
			t.Errorf("a schema admits no other members: %s", encode(t, o))
		}
	})
}

// Constructs that client generators cannot handle: schemas that are true or false, member names that become equal in
// languages with other spellings, and types that begin with null, which some generators read as only null.
func TestGeneratorsCanReadTheDocument(t *testing.T) {
	t.Parallel()
	s := fetch(t)
	walk(s.doc, func(o object) {
		for _, key := range []string{"items", "not", "schema", "contentSchema"} {
			if _, is := o[key].(bool); is {
				t.Errorf("a schema is %v: %s", o[key], encode(t, o))
			}
		}
		if types, _ := o["type"].([]any); len(types) > 0 && types[0] == "null" {
			t.Errorf("null is the first type: %s", encode(t, o))
		}
		seen := make(map[string]string)
		members, _ := o["properties"].(object)
		for name, schema := range members {
			if _, is := schema.(bool); is {
				t.Errorf("the schema of %s is %v", name, schema)
			}
			plain := strings.ToLower(strings.ReplaceAll(name, "_", ""))
			if seen[plain] != "" {
				t.Errorf("%s and %s are one name: %.200s", name, seen[plain], encode(t, o))
			}
			seen[plain] = name
		}
	})
	if s.doc["security"] == nil {
		t.Error("the document does not say who may ask")
	}
}
