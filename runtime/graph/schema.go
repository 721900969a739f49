package graph

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/batonrun/baton/plugins"
)

// CheckArgs checks a call's arguments against its tool's schema. Its error is for the caller's eyes. A tool that came to
// its toolbox since is compiled now; if its schema cannot be, the tool itself judges what it is given.
func (s *Set) CheckArgs(tool plugins.Tool, args json.RawMessage) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(args))
	if err != nil {
		return fmt.Errorf("the arguments are not JSON")
	}
	if _, ok := v.(map[string]any); !ok {
		return fmt.Errorf("the arguments are not an object")
	}
	info := tool.Info()
	schema := s.schemas[string(info.Parameters)]
	if schema == nil && len(info.Parameters) > 0 {
		schema, _ = compileSchema(info.Parameters)
	}
	if schema == nil {
		return nil
	}
	if err := schema.Validate(v); err != nil {
		return fmt.Errorf("the arguments do not fit the tool's parameters: %s", lastLine(err.Error()))
	}
	return nil
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return strings.TrimPrefix(strings.TrimSpace(s[strings.LastIndexByte(s, '\n')+1:]), "- ")
}

func compileSchema(raw json.RawMessage) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("schema.json")
}
