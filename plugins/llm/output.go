package llm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/runtime/agui"
)

// outputSchema is what a structured answer must satisfy. The answer comes first, so that it is shown while it is made.
var outputSchema = json.RawMessage(`{"type":"object","properties":{` +
	`"answer":{"type":"string","description":"The answer to the person who asked, in Markdown"},` +
	`"key_points":{"type":"array","items":{"type":"string"},"description":"What matters most of it, in a few short sentences"},` +
	`"suggested_actions":{"type":"array","items":{"type":"string"},"description":"What the person may want to do next"},` +
	`"result_type":{"type":"string","description":"What kind of result it is, in one lower-case word such as text, list, table, code or report"}` +
	`},"required":["answer","key_points","suggested_actions","result_type"],"additionalProperties":false}`)

// brokenError says why an answer is not what the schema asks for.
type brokenError struct {
	text string
	why  error
}

func (e *brokenError) Error() string {
	return "the answer does not satisfy its schema: " + e.why.Error()
}

// repair asks for the answer again.
func (e *brokenError) repair() []llms.MessageContent {
	return []llms.MessageContent{
		llms.TextParts(llms.ChatMessageTypeAI, e.text),
		llms.TextParts(llms.ChatMessageTypeHuman, e.Error()+". Answer again, with one JSON object that satisfies it and nothing else."),
	}
}

// structure reads a structured answer and ends its text with it.
func (t *turn) structure(ans *answer) error {
	out, err := structured(ans.Text)
	if err != nil {
		return &brokenError{ans.Text, err}
	}
	ans.Output = out
	return t.run.Conclude(*out)
}

// settle takes an answer that stayed broken for its text.
func (t *turn) settle(ans *answer, broken *brokenError) error {
	ans.Output = &agui.WorkerOutput{Status: agui.StatusPartialSuccess, Answer: broken.text}
	return nil
}

// structured reads an output out of a text: the object itself, or one that stands in a fence.
func structured(text string) (*agui.WorkerOutput, error) {
	text = strings.TrimSpace(text)
	if from, to := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}'); from >= 0 && to > from {
		text = text[from : to+1]
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("it is no JSON")
	}
	schema, err := compiled(outputSchema)
	if err != nil {
		return nil, err
	}
	if err := schema.Validate(doc); err != nil {
		lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
		return nil, fmt.Errorf("%s", strings.TrimPrefix(strings.TrimSpace(lines[len(lines)-1]), "- "))
	}
	var out agui.WorkerOutput
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return nil, err
	}
	out.Status = agui.StatusSuccess
	return &out, nil
}

func compiled(raw json.RawMessage) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("output.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("output.json")
}

// member takes the string member answer out of an object that comes piece by piece, as soon as it can be read.
type member struct {
	rest string // what could not be read yet
	in   bool   // rest begins inside of the string
	over bool
}

const memberName = `"answer"`

// next returns what the next piece adds to the member.
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
			m.rest = memberName // the blanks behind it may go on without end
			return ""
		}
		if m.rest, m.in = value[1:], true; value[0] != '"' {
			m.over = true
			return ""
		}
	}
	return m.read()
}

// read returns the characters that are complete.
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

// escape is how long the escape sequence is that s begins with, 0 while it is not complete. The two halves of one
// character are one.
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
