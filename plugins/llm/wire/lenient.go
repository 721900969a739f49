package wire

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/batonrun/baton/plugins/problem"
)

// The types below are members of events that decode from any JSON: values that they cannot use are empty.

// Word is a short text such as an id, an index or a reason. Numbers are read as written.
type Word string

// UnmarshalJSON never fails.
func (w *Word) UnmarshalJSON(data []byte) error {
	switch *w = ""; data[0] {
	case '"':
		*w = Word(unquote(data))
	case 'n', '{', '[':
	default:
		*w = Word(strings.TrimSuffix(string(data), ".0"))
	}
	return nil
}

// Count is a count.
type Count int64

// UnmarshalJSON never fails.
func (n *Count) UnmarshalJSON(data []byte) error {
	f, err := strconv.ParseFloat(strings.Trim(string(data), `"`), 64)
	if *n = 0; err == nil && f > 0 && f < 1e15 {
		*n = Count(f)
	}
	return nil
}

// Text is a text, the texts of a list of parts, or that of an object. Half of a character is kept for Answer, which joins it
// with the next piece.
type Text string

// UnmarshalJSON never fails.
func (t *Text) UnmarshalJSON(data []byte) error {
	var c Content
	err := c.UnmarshalJSON(data)
	*t = Text(c.Text + c.Reasoning)
	return err
}

// String returns t without halves of characters.
func (t Text) String() string {
	var h half
	return h.join(string(t))
}

// Content is the content of a message: a text, or a list of parts of which some are reasoning.
type Content struct{ Text, Reasoning string }

// UnmarshalJSON never fails.
func (c *Content) UnmarshalJSON(data []byte) error {
	var texts contentTexts
	texts.add(data, false, 8)
	*c = Content{texts.text.String(), texts.reasoning.String()}
	return nil
}

// contentTexts are the texts of a Content while it is read.
type contentTexts struct{ text, reasoning strings.Builder }

// part is a part of a content.
type part struct {
	Type       Word            `json:"type"`
	Text       json.RawMessage `json:"text"`
	Content    json.RawMessage `json:"content"`
	Thinking   json.RawMessage `json:"thinking"`
	Reasoning  json.RawMessage `json:"reasoning"`
	Summary    json.RawMessage `json:"summary"`
	OutputText json.RawMessage `json:"output_text"`
	Refusal    json.RawMessage `json:"refusal"`
	Message    json.RawMessage `json:"message"` // of an error
}

func (c *contentTexts) add(data json.RawMessage, thought bool, depth int) {
	if len(data) == 0 || depth == 0 {
		return
	}
	switch data[0] {
	case '"':
		if s := unquote(data); thought {
			c.reasoning.WriteString(s)
		} else {
			c.text.WriteString(s)
		}
	case '[':
		for _, v := range elements(data) {
			c.add(v, thought, depth-1)
		}
	case '{':
		var p part
		_ = json.Unmarshal(data, &p) // members of other types stay empty
		thought = thought || strings.HasPrefix(string(p.Type), "thinking") || strings.HasPrefix(string(p.Type), "reasoning")
		for _, v := range []json.RawMessage{p.Thinking, p.Reasoning, p.Summary} {
			c.add(v, true, depth-1)
		}
		for _, v := range []json.RawMessage{p.Text, p.Content, p.OutputText, p.Refusal, p.Message} {
			c.add(v, thought, depth-1)
		}
	}
}

// Args are the arguments of a call: a piece of JSON in a string, or directly JSON.
type Args struct {
	Text  string
	Whole bool // directly JSON
}

// UnmarshalJSON never fails.
func (a *Args) UnmarshalJSON(data []byte) error {
	switch *a = (Args{}); data[0] {
	case '"':
		a.Text = unquote(data)
	case 'n': // null
	default: // what is no object is refused with the model's words
		*a = Args{string(data), true}
	}
	return nil
}

// Input has the arguments of a call under the names that servers have for them.
type Input struct {
	Arguments  Args `json:"arguments"`
	Parameters Args `json:"parameters"`
	Args       Args `json:"args"`
	Input      Args `json:"input"`
}

// Given returns the arguments.
func (i *Input) Given() Args {
	all := []Args{i.Arguments, i.Parameters, i.Args, i.Input}
	return all[max(0, slices.IndexFunc(all, func(a Args) bool { return a.Text != "" }))]
}

// List is a list, or its only element.
type List[T any] []T

// UnmarshalJSON never fails.
func (l *List[T]) UnmarshalJSON(data []byte) error {
	*l = nil
	list := []json.RawMessage{data}
	switch data[0] {
	case '[':
		list = elements(data)
	case '{':
	default:
		return nil
	}
	for _, raw := range list {
		var v T
		_ = json.Unmarshal(raw, &v) // members of other types stay empty
		*l = append(*l, v)
	}
	return nil
}

func elements(data []byte) (list []json.RawMessage) {
	_ = json.Unmarshal(data, &list) // is a list: the caller has looked
	return list
}

// trouble has the members by which an event describes an error, in the forms of many servers.
type trouble struct {
	Error   json.RawMessage `json:"error"`
	Object  Word            `json:"object"`
	Type    Word            `json:"type"`
	Errors  json.RawMessage `json:"errors"`
	Detail  json.RawMessage `json:"detail"`
	Msg     json.RawMessage `json:"msg"`
	Message json.RawMessage `json:"message"`
}

// Failed returns the failure that an event describes, or nil. An event with content of an answer does so only by its error
// member.
func (a *Answer) Failed(object []byte, content bool) error {
	if content && !bytes.Contains(object, []byte(`"error"`)) {
		return nil
	}
	var t trouble
	_ = json.Unmarshal(object, &t) // members of other types stay empty
	failed := !content && (t.Object == "error" || t.Type == "error")
	switch string(t.Error) {
	case "", "null", "false", `""`, "{}", "[]", "0":
	default:
		failed = true
	}
	for _, said := range []json.RawMessage{t.Errors, t.Detail, t.Msg, t.Message} {
		failed = failed || !content && len(said) > 0 && said[0] != '{' && problem.Sentence(said, strings.TrimSpace) != ""
	}
	if !failed {
		return nil
	}
	return a.endpoint.Fault(0, object)
}

// surrogates matches characters outside the basic plane in a JSON string, and what could look like them. Its group is half of one alone.
var surrogates = regexp.MustCompile(`(?:\\\\)+|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u([dD][89a-fA-F]..)`)

// unquote returns the text of a JSON string. A half of a character, of which the other is in another piece, is in the form of three bytes
// that UTF-8 would have for it.
func unquote(data []byte) string {
	var s string
	if !bytes.Contains(data, []byte(`\u`)) {
		_ = json.Unmarshal(data, &s) // is a string: the decoder has looked
		return s
	}
	var text []byte
	from, end := 1, len(data)-1
	for _, found := range append(surrogates.FindAllSubmatchIndex(data, -1), []int{end, end, end, end}) {
		if found[2] < 0 {
			continue
		}
		_ = json.Unmarshal(slices.Concat([]byte{'"'}, data[from:found[0]], []byte{'"'}), &s)
		text = append(text, s...)
		if r, err := strconv.ParseUint(string(data[found[2]:found[3]]), 16, 16); err == nil {
			text = append(text, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
		}
		from = found[1]
	}
	return string(text)
}

// half joins the halves of characters over the pieces of a text.
type half string

// join returns s without halves, and keeps one at its end for the next piece.
func (h *half) join(s string) string {
	s = string(*h) + s
	*h = ""
	if n := len(s) - 3; n >= 0 && surrogate(s[n:])&^0x3FF == 0xD800 {
		*h, s = half(s[n:]), s[:n]
	}
	if utf8.ValidString(s) {
		return s
	}
	var joined strings.Builder
	for s != "" {
		r, n := utf8.DecodeRuneInString(s)
		if first := surrogate(s); first > 0 {
			n = 3
			if r = utf16.DecodeRune(first, surrogate(s[n:])); r != utf8.RuneError {
				n = 6
			}
		}
		joined.WriteRune(r)
		s = s[n:]
	}
	return joined.String()
}

// surrogate returns the half of a character at the beginning of s, 0 if there is none.
func surrogate(s string) rune {
	if len(s) < 3 || s[0] != 0xED || s[1] < 0xA0 {
		return 0
	}
	return 0xD000 | rune(s[1]&0x3F)<<6 | rune(s[2]&0x3F)
}
