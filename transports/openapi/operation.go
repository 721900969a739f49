package openapi

import (
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// describer collects the document, area by area.
type describer struct {
	doc     document
	schemas schemas
	tag     string // of the operations that are added now
}

// area begins a group of operations.
func (d *describer) area(name, about string) {
	d.tag = name
	d.doc.Tags = append(d.doc.Tags, tag{name, about})
}

// add adds an operation: "GET /path". It fills in the parts that follow from method, path and body: the path's parameters, the
// errors of every such request, and the common rules.
func (d *describer) add(route string, op operation) {
	method, path, _ := strings.Cut(route, " ")
	op.Tags = []string{d.tag}
	op.Parameters = append(pathParameters(path), op.Parameters...)
	refused := answers{"403": usual("Forbidden"), "421": usual("Misdirected"), "500": usual("Internal")}
	if op.Socket == nil {
		maps.Copy(refused, refusalsOf(method, path, &op))
	}
	if strings.HasPrefix(path, "/api/") || method == "POST" {
		refused["401"] = usual("Unauthorized")
	}
	if op.Security == nil && method == "GET" && op.streams() {
		op.Security = ticketed
	}
	maps.Copy(refused, op.Answers)
	op.Answers = refused
	item, ok := d.doc.Paths.get(path)
	if !ok {
		item = new(ordered[*operation])
		d.doc.Paths.add(path, item)
	}
	item.add(strings.ToLower(method), &op)
}

// streams reports whether an operation answers with a stream.
func (op *operation) streams() bool {
	if op.Socket != nil {
		return true
	}
	success := op.Answers["200"]
	return success != nil && success.Content[asStream].Schema != nil
}

// refusalsOf returns the errors of a plain request that follow from its parts.
func refusalsOf(method, path string, op *operation) answers {
	refused := make(answers)
	switch {
	case strings.Contains(path, "{agent}"):
		refused["404"] = usual("AgentNotFound")
	case strings.Contains(path, "{thread_id}"):
		refused["404"] = usual("ThreadNotFound")
	case strings.Contains(path, "{"):
		refused["404"] = usual("NotFound")
	case slices.ContainsFunc(op.Parameters, func(p parameter) bool { return p.Name == projectParam.Name }):
		refused["404"] = usual("ProjectNotFound")
	}
	if len(op.Parameters) > 0 || op.Body != nil {
		refused["400"] = usual("Invalid")
	}
	if op.Body != nil {
		refused["413"], refused["415"] = usual("TooLarge"), usual("UnsupportedMediaType")
	}
	if strings.HasPrefix(path, "/api/") || method != "GET" {
		refused["503"] = usual("Unavailable")
	}
	return refused
}

// The parameters that paths have, by name.
var inPath = map[string]parameter{
	"projectId":       {Description: "The project. `default`, unless the server has accounts.", Example: "default"},
	"runId":           {Description: "The run, by the name its client gave it or by a later name it got with an answer."},
	"run_id":          {Description: "The run, by the name its client gave it or by a later name it got with an answer."},
	"thread_id":       {Description: "The thread, by your own name for it or by its `conversationId`. Percent-encode characters that a path cannot contain.", Example: "main"},
	"conversation_id": {Description: "The thread, by its `conversationId` or by your own name for it."},
	"part":            {Description: "`messages`, `events` or `state`.", Example: "messages"},
	"user":            {Description: "The user.", Example: "alice"},
	"agent":           {Description: "The agent or workflow.", Example: "echo"},
	"callId":          {Description: "The call's id: of a model call as listed, of a tool call the `toolCallId` of its result."},
	"name":            {Description: "The event's name: 1 to 100 letters, digits and `_ - . :`. It begins with a letter, a digit or `_`.", Example: "paid"},
	"keyId":           {Description: "The key's id.", Example: "abcdefgh23456"},
	"tool":            {Description: "The tool.", Example: "calculator"},
	"file":            {Description: "A file of the page.", Example: "page.css"},
}

// pathParameters declares the parameters of a path's template.
func pathParameters(path string) []parameter {
	var list []parameter
	for segment := range strings.SplitSeq(path, "/") {
		name, ok := strings.CutPrefix(segment, "{")
		if !ok {
			continue
		}
		p := inPath[strings.TrimSuffix(name, "}")]
		p.Name, p.In, p.Required, p.Schema = strings.TrimSuffix(name, "}"), "path", true, text("")
		list = append(list, p)
	}
	return list
}

func query(name string, schema *jsonschema.Schema) parameter {
	return parameter{Name: name, In: "query", Description: schema.Description, Schema: undescribed(schema)}
}

func inHeader(name string, schema *jsonschema.Schema) parameter {
	return parameter{Name: name, In: "header", Description: schema.Description, Schema: undescribed(schema)}
}

func (p parameter) required() parameter {
	p.Required = true
	return p
}

// undescribed returns the schema of a member with its own description.
func undescribed(s *jsonschema.Schema) *jsonschema.Schema {
	s = s.CloneSchemas()
	s.Description = ""
	return s
}
