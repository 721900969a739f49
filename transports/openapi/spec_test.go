package openapi_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/batonrun/baton/transports/openapi"
)

type object = map[string]any

// spec is the document as a client decodes it.
type spec struct {
	doc     object
	schemas *jsonschema.Compiler
}

// fetch returns the document as it is served.
func fetch(t *testing.T) *spec {
	t.Helper()
	doc := decode(t, get(t, "/openapi.json").body).(object)
	return &spec{doc, compiler(t, doc)}
}

// closed returns the document without room for undescribed members, so that each of them becomes an error.
func (s *spec) closed(t *testing.T) *spec {
	t.Helper()
	doc := closed(s.doc).(object)
	return &spec{doc, compiler(t, doc)}
}

func closed(v any) any {
	switch v := v.(type) {
	case object:
		out := make(object, len(v))
		for name, val := range v {
			out[name] = closed(val)
		}
		if _, ok := v["additionalProperties"]; !ok && v["type"] == "object" && v["properties"] != nil {
			out["additionalProperties"] = false
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, val := range v {
			out[i] = closed(val)
		}
		return out
	}
	return v
}

func compiler(t *testing.T, doc object) *jsonschema.Compiler {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	must(t, c.AddResource("baton:openapi", doc))
	return c
}

// schema returns the schema at a place of the document.
func (s *spec) schema(t *testing.T, path ...string) *jsonschema.Schema {
	t.Helper()
	schema, err := s.schemas.Compile("baton:openapi#" + pointer(path...))
	must(t, err)
	return schema
}

// component returns a named schema.
func (s *spec) component(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	return s.schema(t, "components", "schemas", name)
}

// pointer returns a JSON pointer in its form for a URL.
func pointer(path ...string) string {
	var b strings.Builder
	for _, name := range path {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(name)))
	}
	return b.String()
}

// at returns the value at a place of the document, and follows references.
func (s *spec) at(path ...string) any {
	var v any = s.doc
	for _, name := range path {
		m, ok := v.(object)
		if !ok {
			return nil
		}
		v = s.resolve(m[name])
	}
	return v
}

func (s *spec) resolve(v any) any {
	m, _ := v.(object)
	ref, ok := m["$ref"].(string)
	if !ok {
		return v
	}
	return s.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
}

// operation is one method of one path.
type operation struct {
	method, path string
	object
}

func (s *spec) operations() []operation {
	var list []operation
	for path, item := range s.doc["paths"].(object) {
		for method, op := range item.(object) {
			list = append(list, operation{method, path, op.(object)})
		}
	}
	return list
}

// walk calls f for every object of the document.
func walk(v any, f func(object)) {
	switch v := v.(type) {
	case object:
		f(v)
		for _, val := range v {
			walk(val, f)
		}
	case []any:
		for _, val := range v {
			walk(val, f)
		}
	}
}

func decode(t *testing.T, text []byte) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	must(t, err)
	return text
}

// got is an answer of the transport without a server.
type got struct {
	status int
	header func(string) string
	body   []byte
}

// mount adds the transport's routes to an app.
func mount(app *fiber.App, t *openapi.Transport) {
	for _, r := range t.Routes() {
		app.Get(r.Path, r.Public)
	}
}

// get sends a request to the transport without a server. Header holds pairs of name and value.
func get(t *testing.T, path string, header ...string) got {
	t.Helper()
	app := fiber.New()
	mount(app, openapi.New("v1.2.3", true))
	req := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := app.Test(req, -1)
	must(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	return got{resp.StatusCode, resp.Header.Get, body}
}
