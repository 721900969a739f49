package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/runtime/agui"
)

// Structured is the Config.Output for an answer with key points and suggested actions. People see the member answer, which comes
// first, so that it can be streamed.
const Structured = `{"type":"object","properties":{` +
	`"answer":{"type":"string","description":"The answer to the person who asked, in Markdown"},` +
	`"key_points":{"type":"array","items":{"type":"string"},"description":"What matters most of it, in a few short sentences"},` +
	`"suggested_actions":{"type":"array","items":{"type":"string"},"description":"What the person may want to do next"},` +
	`"result_type":{"type":"string","description":"What kind of result it is, in one lower-case word such as text, list, table, code or report"}` +
	`},"required":["answer","key_points","suggested_actions","result_type"],"additionalProperties":false}`

// maxRepairs limits how often an answer that violates its schema is requested again.
const maxRepairs = 2

// form is the form of an agent's answers.
type form struct {
	schema     *jsonschema.Schema
	structured bool // it is Structured
}

// newForm compiles a schema.
func newForm(raw json.RawMessage) (*form, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, errors.New("the schema is not JSON")
	}
	if object, ok := doc.(map[string]any); !ok || object["type"] != "object" { // providers accept no other
		return nil, errors.New("the schema's type must be object")
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource("output.json", doc); err != nil {
		return nil, err
	}
	schema, err := c.Compile("output.json")
	if err != nil {
		return nil, fmt.Errorf("the schema is invalid: %w", err)
	}
	return &form{schema, string(raw) == Structured}, nil
}

// noLoader prevents schemas from loading files and addresses.
type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New("a schema refers to nothing outside of it")
}

// member returns the reader of the member that people see, or nil if they see the whole text.
func (f *form) member() *member {
	if f == nil || !f.structured {
		return nil
	}
	return new(member)
}

// brokenError describes how an answer violates the schema.
type brokenError struct {
	text string
	why  error
}

func (e *brokenError) Error() string {
	return "The answer does not satisfy its schema: " + e.why.Error()
}

// repair returns a request for a corrected answer.
func (e *brokenError) repair() []llms.MessageContent {
	return []llms.MessageContent{
		llms.TextParts(llms.ChatMessageTypeAI, e.text),
		llms.TextParts(llms.ChatMessageTypeHuman, e.Error()+". Answer again, with one JSON object that satisfies it and nothing else."),
	}
}

// structure parses the JSON of an answer and ends its text with the output. A refusal needs no key points.
func (t *turn) structure(resp *Response, ans *answer) error {
	if resp.Finish == "content_filter" {
		if t.a.form.structured {
			return nil
		}
		return &Error{Code: "content_filter", Message: "The model refused to answer: " + clip(resp.Text, maxErrors)}
	}
	out, err := t.a.form.parse(ans.Text)
	if err != nil {
		return &brokenError{ans.Text, err}
	}
	ans.Output = out
	return t.run.Conclude(*out)
}

// parse parses an output from a text with a JSON object, which can be in a code fence.
func (f *form) parse(text string) (*agui.WorkerOutput, error) {
	object := strings.TrimSpace(text)
	if from, to := strings.IndexByte(object, '{'), strings.LastIndexByte(object, '}'); from >= 0 && to > from {
		object = object[from : to+1]
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(object))
	if err != nil {
		return nil, errors.New("it is not JSON")
	}
	if err := f.schema.Validate(doc); err != nil {
		return nil, errors.New(violations(err))
	}
	if !f.structured {
		return &agui.WorkerOutput{Status: agui.StatusSuccess, Answer: text, Result: json.RawMessage(object)}, nil
	}
	var out agui.WorkerOutput
	if err := json.Unmarshal([]byte(object), &out); err != nil {
		return nil, err
	}
	out.Status = agui.StatusSuccess
	return &out, nil
}

// maxErrors limits the description of an answer's errors, in bytes.
const maxErrors = 2000

// violations describes all violations of a schema in one line.
func violations(err error) string {
	var all []string
	for line := range strings.Lines(err.Error()) {
		if what, ok := strings.CutPrefix(strings.TrimSpace(line), "- "); ok {
			all = append(all, what)
		}
	}
	return clip(strings.Join(all, "; "), maxErrors)
}

// member extracts the string member answer from a streamed object as soon as it is readable.
type member struct {
	rest string // not yet readable
	in   bool   // rest starts inside the string
	over bool
}

const memberName = `"answer"`

// next returns the new text of the member in the next piece.
func (m *member) next(piece string) string {
	if m.over {
		return ""
	}
	m.rest += piece
	if !m.in {
		i := strings.Index(m.rest, memberName)
		if i < 0 {
			m.rest = m.rest[max(0, len(m.rest)-len(memberName)):]
			return ""
		}
		value := strings.TrimLeft(m.rest[i+len(memberName):], ": \t\r\n")
		if value == "" {
			m.rest = memberName // the blanks after it can be endless
			return ""
		}
		if m.rest, m.in = value[1:], true; value[0] != '"' {
			m.over = true
			return ""
		}
	}
	return m.read()
}

// read returns the complete characters.
func (m *member) read() string {
	var text strings.Builder
	for m.rest != "" {
		switch c := m.rest[0]; {
		case c == '"':
			m.over = true
			return text.String()
		case c != '\\':
			n := strings.IndexAny(m.rest, `"\`)
			if n < 0 {
				n = len(m.rest)
			}
			text.WriteString(m.rest[:n])
			m.rest = m.rest[n:]
		default:
			n := escape(m.rest)
			if n == 0 {
				return text.String()
			}
			var s string
			if json.Unmarshal([]byte(`"`+m.rest[:n]+`"`), &s) != nil {
				s = string(utf8.RuneError)
			}
			text.WriteString(s)
			m.rest = m.rest[n:]
		}
	}
	return text.String()
}

// escape returns the length of the escape sequence at the start of s, 0 if it is incomplete. A surrogate pair is one
// sequence.
func escape(s string) int {
	switch {
	case len(s) < 2:
		return 0
	case s[1] != 'u':
		return 2
	case len(s) < 6:
		return 0
	}
	var r rune
	if _, err := fmt.Sscanf(s[2:6], "%04x", &r); err != nil || !utf16.IsSurrogate(r) {
		return 6
	}
	switch {
	case len(s) >= 12 && s[6] == '\\':
		return 12
	case len(s) > 6 && s[6] != '\\', len(s) >= 12:
		return 6
	}
	return 0
}
