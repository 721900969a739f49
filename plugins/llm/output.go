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

// outputSchema is the schema of a structured answer. The answer comes first, so that it can be streamed.
var outputSchema = json.RawMessage(`{"type":"object","properties":{` +
	`"answer":{"type":"string","description":"The answer to the person who asked, in Markdown"},` +
	`"key_points":{"type":"array","items":{"type":"string"},"description":"What matters most of it, in a few short sentences"},` +
	`"suggested_actions":{"type":"array","items":{"type":"string"},"description":"What the person may want to do next"},` +
	`"result_type":{"type":"string","description":"What kind of result it is, in one lower-case word such as text, list, table, code or report"}` +
	`},"required":["answer","key_points","suggested_actions","result_type"],"additionalProperties":false}`)

// brokenError describes how an answer violates the schema.
type brokenError struct {
	text string
	why  error
}

func (e *brokenError) Error() string {
	return "the answer does not satisfy its schema: " + e.why.Error()
}

// repair returns a request for a corrected answer.
func (e *brokenError) repair() []llms.MessageContent {
	return []llms.MessageContent{
		llms.TextParts(llms.ChatMessageTypeAI, e.text),
		llms.TextParts(llms.ChatMessageTypeHuman, e.Error()+". Answer again, with one JSON object that satisfies it and nothing else."),
	}
}

// structure parses a structured answer and ends its text with it.
func (t *turn) structure(ans *answer) error {
	out, err := structured(ans.Text)
	if err != nil {
		return &brokenError{ans.Text, err}
	}
	ans.Output = out
	return t.run.Conclude(*out)
}

// settle uses the text of an answer that is still broken.
func (t *turn) settle(ans *answer, broken *brokenError) error {
	ans.Output = &agui.WorkerOutput{Status: agui.StatusPartialSuccess, Answer: broken.text}
	return nil
}

// structured parses an output from a text with a JSON object, which can be in a code fence.
func structured(text string) (*agui.WorkerOutput, error) {
	text = strings.TrimSpace(text)
	if from, to := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}'); from >= 0 && to > from {
		text = text[from : to+1]
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("it is not JSON")
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
