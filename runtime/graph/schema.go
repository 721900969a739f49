package graph

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

const (
	maxSchema = 256 << 10 // bytes of a tool's parameters
	maxKept   = 16        // schemas of a client's tools, compiled
	maxSteps  = 50_000    // of checking the arguments of one call; each goes one deeper at most, see steps.go
)

// CheckArgs checks a call's arguments against its tool's schema. Its error is for the caller's eyes. A tool that came to
// its toolbox since is compiled now; if its schema cannot be, the tool itself judges what it is given.
func (s *Set) CheckArgs(tool plugins.Tool, args json.RawMessage) error {
	info := tool.Info()
	known := s.schemas[string(info.Parameters)]
	if known == nil && len(info.Parameters) > 0 {
		known, _ = compileSchema(info.Parameters)
	}
	return known.check(args)
}

// ClientTools are the tools that a client offers: its schemas are a stranger's. Its zero value is ready, and safe for
// concurrent use.
type ClientTools struct {
	mu      sync.Mutex         // guards schemas
	schemas map[string]*schema // by the text of the parameters; nil of what is no schema, which the client judges
}

// Check is CheckArgs for a client's tool.
func (c *ClientTools) Check(parameters, args json.RawMessage) error {
	c.mu.Lock()
	known, ok := c.schemas[string(parameters)]
	if !ok {
		if len(parameters) > 0 {
			known, _ = compileSchema(parameters)
		}
		if c.schemas == nil || len(c.schemas) == maxKept {
			c.schemas = make(map[string]*schema)
		}
		c.schemas[string(parameters)] = known
	}
	c.mu.Unlock()
	return known.check(args)
}

// check says what is wrong with a call's arguments. A nil schema takes any object.
func (s *schema) check(args json.RawMessage) error {
	if agui.Crowded(args) { // whoever has sent them: a message's text, too, becomes a tool's arguments
		return fmt.Errorf("the arguments hold more values than they may for their size")
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(args))
	if err != nil {
		return fmt.Errorf("the arguments are not JSON")
	}
	if _, ok := v.(map[string]any); !ok {
		return fmt.Errorf("the arguments are not an object")
	}
	err = strange(v, 0)
	if err == nil && s != nil {
		err = s.validate(v)
	}
	if err != nil {
		return fmt.Errorf("the arguments do not fit the tool's parameters: %w", err)
	}
	return nil
}

// schema is the schema of a tool's parameters, which may be a stranger's: a short one can have a short text checked for
// years, so each check has a number of steps.
type schema struct {
	root *jsonschema.Schema
	room int // instructions of regular expressions that it may still have, while it is compiled

	mu   sync.Mutex // guards left, and is held during a check
	left int        // steps of the check under way
}

func (s *schema) validate(v any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = maxSteps
	err := s.root.Validate(v)
	if s.left < 0 {
		return errSteps
	}
	if failed := (*jsonschema.ValidationError)(nil); errors.As(err, &failed) {
		for len(failed.Causes) > 0 { // the last is as good as any, and all of them may be many
			failed = failed.Causes[len(failed.Causes)-1]
		}
		return errors.New(lastLine(failed.Error()))
	}
	return err
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return strings.TrimPrefix(strings.TrimSpace(s[strings.LastIndexByte(s, '\n')+1:]), "- ")
}

func compileSchema(raw json.RawMessage) (*schema, error) {
	if len(raw) > maxSchema {
		return nil, fmt.Errorf("a schema may have %d bytes", maxSchema)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err == nil {
		err = strange(doc, 0)
	}
	if err == nil && parts(doc) > maxParts {
		err = errParts
	}
	if err != nil {
		return nil, err
	}
	const name = "tool:///parameters"
	s := &schema{room: maxPatterns}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(s.compile)
	if err := c.AddResource(name, doc); err != nil {
		return nil, err
	}
	if s.root, err = c.Compile(name); err != nil {
		return nil, err
	}
	if err := s.count(reflect.ValueOf(s.root), map[*jsonschema.Schema]bool{}); err != nil {
		return nil, err
	}
	return s, nil
}

// noLoader keeps schemas from naming files and addresses that we would read.
type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New("a schema refers to nothing outside of it")
}
