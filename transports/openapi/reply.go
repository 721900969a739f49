package openapi

import (
	"embed"
	"maps"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/batonrun/baton/transports"
)

const (
	asJSON   = "application/json"
	asStream = "text/event-stream"
)

// accept returns a JSON body, with the names of examples.
func accept(schema *jsonschema.Schema, examples ...string) *body {
	return &body{Required: true, Content: map[string]media{asJSON: content(schema, examples)}}
}

// optional marks a body as optional.
func optional(b *body) *body {
	b.Required = false
	return b
}

// reply returns a JSON answer, with the names of examples.
func reply(about string, schema *jsonschema.Schema, examples ...string) *answer {
	return &answer{Description: about, Content: map[string]media{asJSON: content(schema, examples)}}
}

// stream returns an answer that is an event stream, with the schema of its frames and the name of an example.
func stream(about string, frame *jsonschema.Schema, example string) *answer {
	text := &jsonschema.Schema{Type: "string", ContentMediaType: asStream, ContentSchema: frame}
	return &answer{Description: about, Content: map[string]media{asStream: {Schema: text, Example: sample(example + ".sse")}}}
}

// beside marks a stream as an alternative to JSON of another status, so that generators use the JSON alone.
func (a *answer) beside() *answer {
	m := a.Content[asStream]
	return &answer{Description: a.Description, Stream: &m}
}

func nothing(about string) *answer { return &answer{Description: about} }

// and adds an alternative answer of the same status.
func (a *answer) and(other *answer) *answer {
	maps.Copy(a.Content, other.Content)
	return a
}

func content(schema *jsonschema.Schema, names []string) media {
	if len(names) == 0 {
		return media{Schema: schema}
	}
	if len(names) == 1 {
		return media{Schema: schema, Example: raw(sample(names[0] + ".json"))}
	}
	examples := new(ordered[example])
	for _, name := range names {
		examples.add(name, example{Value: raw(sample(name + ".json"))})
	}
	return media{Schema: schema, Examples: examples}
}

//go:embed examples
var examples embed.FS

// sample returns the text of an example.
func sample(name string) string {
	text, err := examples.ReadFile("examples/" + name)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// usual returns an answer that many operations share.
func usual(name string) *answer { return &answer{Ref: "#/components/responses/" + name} }

// refuse returns an error answer, with an example of each detail by its code.
func refuse(about string, codes ...string) *answer {
	examples := new(ordered[example])
	for code := range slices.Chunk(codes, 2) {
		examples.add(code[0], example{Value: transports.Problem{Code: code[0], Detail: code[1]}})
	}
	return &answer{Description: about, Content: map[string]media{asJSON: {Schema: ref("Problem"), Examples: examples}}}
}
