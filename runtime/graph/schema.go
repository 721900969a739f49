package graph

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/fit"
)

const (
	maxSchema = 256 << 10 // bytes of a schema, or of all that a request brings
	maxKept   = 16        // schemas of a client's tools, compiled
	maxSteps  = 50_000    // of checking the arguments of one call; each goes one deeper at most, see steps.go
)

// FitArgs checks a call's arguments against its tool's schema and returns them as they fit it: see package fit. Its error is
// for the caller. A tool that its toolbox has added later is compiled here; if its schema is invalid, the tool checks its own
// arguments.
func (s *Set) FitArgs(tool plugins.Tool, args json.RawMessage) (json.RawMessage, error) {
	info := tool.Info()
	known := s.schemas[string(info.Parameters)]
	if known == nil && len(info.Parameters) > 0 {
		known, _ = compileParameters(info.Parameters)
	}
	return known.fitArgs(args)
}

// ClientTools caches the compiled schemas of a client's tools, which are untrusted. Its zero value is ready to use. It
// is safe for concurrent use.
type ClientTools struct {
	mu      sync.Mutex         // guards schemas
	schemas map[string]*Schema // by text of the parameters; nil for an invalid schema, whose tool checks its own arguments
}

// Fit is FitArgs for a client's tool.
func (c *ClientTools) Fit(parameters, args json.RawMessage) (json.RawMessage, error) {
	c.mu.Lock()
	known, ok := c.schemas[string(parameters)]
	if !ok {
		if len(parameters) > 0 {
			known, _ = compileParameters(parameters)
		}
		if c.schemas == nil || len(c.schemas) == maxKept {
			c.schemas = make(map[string]*Schema)
		}
		c.schemas[string(parameters)] = known
	}
	c.mu.Unlock()
	return known.fitArgs(args)
}

// CheckClientTools compiles the tools' parameters and returns the index of the first tool that fails. The error's text is for the
// client. The limits of one schema apply to all of them together.
func CheckClientTools(tools []agui.Tool) (int, error) {
	left := newRoom()
	for i := range tools {
		if len(tools[i].Parameters) == 0 {
			continue
		}
		if _, err := compileSchema(tools[i].Parameters, &left, nil); err != nil {
			return i, err
		}
	}
	return 0, nil
}

// fitArgs validates a call's arguments, and changes them if that makes them fit. A nil schema accepts any object.
func (s *Schema) fitArgs(args json.RawMessage) (json.RawMessage, error) {
	v, err := argsOf(args)
	if err == nil {
		err = s.check(args, v)
	}
	if err == nil {
		return args, nil
	}
	if _, ok := errors.AsType[*Misfit](err); ok {
		if mended, ok := s.mend(v); ok {
			return mended, nil
		}
		err = fmt.Errorf("the arguments do not fit the tool's parameters: %w", err)
	}
	return nil, err
}

// argsOf decodes arguments.
func argsOf(args json.RawMessage) (any, error) {
	if agui.Crowded(args) { // even from our own agents: a message's text may have become a tool's arguments
		return nil, errors.New("the arguments hold more values than they may for their size")
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(args))
	if err != nil {
		return nil, errors.New("the arguments are not JSON")
	}
	if _, ok := v.(map[string]any); !ok {
		return nil, errors.New("the arguments are not an object")
	}
	return v, nil
}

// mend changes v so that it fits. All validations share the steps of one.
func (s *Schema) mend(v any) (json.RawMessage, bool) {
	s.mu.Lock()
	s.left = maxSteps
	args, err := fit.Mend(v, func(v any) error {
		if err := checkCost(v, 0); err != nil || s.left < 0 {
			return cmp.Or(err, errSteps)
		}
		return s.root.Validate(v)
	})
	s.mu.Unlock()
	if err == nil {
		_, err = argsOf(args)
	}
	return args, err == nil
}

// Schema is a compiled JSON Schema. It may come from a stranger, and a short schema can keep a validator busy for years, so each check
// has a limited number of steps. It is safe for concurrent use.
type Schema struct {
	root *jsonschema.Schema
	room *room // set during compilation

	mu   sync.Mutex // guards left, and is held during a check
	left int        // of the current check
}

// CompileSchema compiles a JSON Schema. It never loads another document. The error's text is for the schema's author.
func CompileSchema(raw json.RawMessage) (*Schema, error) {
	left := newRoom()
	return compileSchema(raw, &left, nil)
}

// compileParameters compiles a tool's parameters, of which those with a default are not required.
func compileParameters(raw json.RawMessage) (*Schema, error) {
	left := newRoom()
	return compileSchema(raw, &left, fit.Loosen)
}

// Check validates a JSON value. The error's text is for its sender.
func (s *Schema) Check(value json.RawMessage) error {
	if agui.Crowded(value) {
		return errors.New("it holds more values than it may for its size")
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return errors.New("it is not JSON")
	}
	return s.check(value, v)
}

// Fits validates a JSON value against a schema. An invalid schema accepts any value, because a question with an invalid schema is refused when
// a worker asks it.
func Fits(schema, value json.RawMessage) error {
	s, _ := CompileSchema(schema)
	return s.Check(value)
}

// check validates v, the decoded text. It refuses duplicate members: v has the last one, and another reader of the text may use the
// first.
func (s *Schema) check(text json.RawMessage, v any) error {
	if err := checkCost(v, 0); err != nil {
		return err
	}
	if agui.CountMembers(text) != members(v) {
		return errTwice
	}
	if s == nil {
		return nil
	}
	return s.validate(v)
}

func (s *Schema) validate(v any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = maxSteps
	err := s.root.Validate(v)
	if s.left < 0 {
		return errSteps
	}
	return firstCause(err)
}

// firstCause reduces a validator's error to one innermost cause, because there may be very many.
func firstCause(err error) error {
	if invalid := (*jsonschema.SchemaValidationError)(nil); errors.As(err, &invalid) {
		err = invalid.Err
	}
	if failed := (*jsonschema.ValidationError)(nil); errors.As(err, &failed) {
		for len(failed.Causes) > 0 {
			failed = failed.Causes[len(failed.Causes)-1]
		}
		return &Misfit{Place: pointer(failed.InstanceLocation), Why: lastLine(failed.Error())}
	}
	return err
}

// Misfit is the place at which a value does not fit a schema.
type Misfit struct {
	Place string // a JSON pointer into the value, "" for the whole value
	Why   string
}

func (m *Misfit) Error() string { return m.Why }

// pointer writes member names and indices as a JSON pointer.
func pointer(path []string) string {
	var p strings.Builder
	for _, name := range path {
		p.WriteString("/" + escapePointer.Replace(name))
	}
	return p.String()
}

var escapePointer = strings.NewReplacer("~", "~0", "/", "~1")

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return strings.TrimPrefix(strings.TrimSpace(s[strings.LastIndexByte(s, '\n')+1:]), "- ")
}

// room is the remaining budget for compiling schemas.
type room struct {
	bytes, parts, instructions int // instructions of regular expressions
}

func newRoom() room { return room{bytes: maxSchema, parts: maxParts, instructions: maxPatterns} }

func compileSchema(raw json.RawMessage, left *room, loosen func(doc any)) (*Schema, error) {
	if left.bytes -= len(raw); left.bytes < 0 {
		return nil, errSchema
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, errors.New("it is not JSON")
	}
	if err := checkCost(doc, 0); err != nil {
		return nil, err
	}
	if left.parts -= parts(doc); left.parts < 0 {
		return nil, errParts
	}
	if loosen != nil {
		loosen(doc)
	}
	const name = "schema:///"
	s := &Schema{room: left}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(s.compile)
	if err := c.AddResource(name, doc); err != nil {
		return nil, firstCause(err)
	}
	root, err := c.Compile(name)
	if err != nil {
		return nil, firstCause(err)
	}
	s.root, s.room = root, nil
	if err := s.count(reflect.ValueOf(root), make(map[*jsonschema.Schema]bool), make(map[*jsonschema.Schema]bool)); err != nil {
		return nil, err
	}
	return s, nil
}

// noLoader prevents schemas from loading files and addresses.
type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New("a schema refers to nothing outside of it")
}
