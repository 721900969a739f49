package declared

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"go.yaml.in/yaml/v3"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/graph"
)

// maxSchema limits the file of a schema, in bytes.
const maxSchema = 256 << 10

// output decodes the form of an answer: a word, or a mapping with a schema, which is a mapping or the name of a file.
func (r *reader) output(path string, n *yaml.Node) *Output {
	if n.Kind == yaml.ScalarNode {
		switch word := r.expand(path, r.text(path, n)); word {
		case "text":
			return nil
		case "structured":
			return &Output{Structured: true}
		default:
			r.errorf(path, "want text, structured or {schema: file.json}, got %q", word)
			return nil
		}
	}
	o, before := &Output{}, len(r.errs)
	r.pairs(path, n, func(name, at string, val *yaml.Node) {
		if name != "schema" {
			r.unknown(at, name, []string{"schema"})
			return
		}
		if val = r.visit(at, val); val == nil {
			return
		}
		raw, err := r.schema(at, val)
		if err == nil {
			err = checkOutput(raw)
		}
		if err != nil {
			r.errorf(at, "%s", err)
		}
		o.Schema = raw
	})
	if o.Schema == nil && len(r.errs) == before {
		r.errorf(path, "schema is missing")
	}
	return o
}

// schema reads a JSON Schema from a file, or from a mapping.
func (r *reader) schema(path string, n *yaml.Node) (json.RawMessage, error) {
	if n.Kind != yaml.ScalarNode {
		var doc any
		if err := r.resolved(path, n).Decode(&doc); err != nil {
			return nil, err
		}
		return json.Marshal(doc)
	}
	f, err := os.Open(r.expand(path, r.text(path, n)))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxSchema+1))
	if err == nil && len(raw) > maxSchema {
		err = fmt.Errorf("a schema may have %d bytes", maxSchema)
	}
	return raw, err
}

// resolved returns a copy of n without variables in its values.
func (r *reader) resolved(path string, n *yaml.Node) *yaml.Node {
	if n = r.visit(path, n); n == nil {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	}
	if n.Kind == yaml.ScalarNode {
		v := r.value(path, n)
		if n.Style != 0 { // in quotes
			v.Tag = n.Tag
		}
		return v
	}
	all := *n
	all.Content = make([]*yaml.Node, len(n.Content))
	for i, part := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			all.Content[i] = part
			continue
		}
		all.Content[i] = r.resolved(path, part)
	}
	return &all
}

// checkOutput checks the schema of answers.
func checkOutput(raw json.RawMessage) error {
	var object struct {
		Type any `json:"type"`
	}
	if _, err := graph.CompileSchema(raw); err != nil {
		return fmt.Errorf("no JSON Schema that Baton can use: %w", err)
	}
	if json.Unmarshal(raw, &object) != nil || object.Type != "object" {
		return fmt.Errorf("the schema's type must be object")
	}
	return nil
}

// output returns the schema of a node's output, nil if it has none or is not known.
func (c *checker) output(n *plugins.Node) json.RawMessage {
	if n.Tool != "" {
		return c.outputs[":"+n.Tool]
	}
	return c.outputs[n.Agent]
}
