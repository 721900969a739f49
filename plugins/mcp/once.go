package mcp

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/batonrun/baton/runtime/agui"
)

// shown is the content of a result, to find what the server says again in its texts and its structured content.
type shown struct {
	values   map[string]bool   // the simple values in content, as JSON
	lines    string            // all texts, between line ends
	searched int               // bytes of lines
	pictures map[string]string // labels of parts with data, by its base64
}

func newShown(content []json.RawMessage, parts []agui.Part, texts []string) *shown {
	s := &shown{values: map[string]bool{}, lines: "\n" + strings.Join(texts, "\n") + "\n", pictures: map[string]string{}}
	for _, c := range content {
		each(value(c), func(leaf any) bool {
			s.values[string(encoded(leaf))] = true
			return true
		})
	}
	for i := range parts {
		if src := parts[i].Source; src != nil && src.Type == "data" {
			s.pictures[strings.TrimRight(src.Value, "=")] = texts[i]
		}
	}
	return s
}

// each calls f with the texts, numbers and other simple values in a JSON value, until f returns false. It reports whether f never did.
func each(v any, f func(leaf any) bool) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			if !each(member, f) {
				return false
			}
		}
		return len(v) > 0 || f(v)
	case []any:
		return !slices.ContainsFunc(v, func(element any) bool { return !each(element, f) }) && (len(v) > 0 || f(v))
	}
	return f(v)
}

// maxSearched limits the work for a result, in bytes: the lines are searched for each text in structured content.
const maxSearched = 256 << 20

// repeats reports whether all of a structured content stands in the content: its texts as whole lines, other values as members.
func (s *shown) repeats(structured json.RawMessage) bool {
	return each(value(structured), func(leaf any) bool {
		if s.values[string(encoded(leaf))] {
			return true
		}
		text, ok := leaf.(string)
		text = strings.TrimSpace(text)
		s.searched += len(s.lines)
		return ok && text != "" && s.searched < maxSearched && strings.Contains(s.lines, "\n"+text+"\n")
	})
}

// coded matches base64 of any alphabet in a text or in JSON, also in lines of 60 to 76 characters, as mail and certificates have it.
var coded = regexp.MustCompile(strings.ReplaceAll(`(?:(?:X{60,76}(?:\r?\n|(?:\\r)?\\n))+X{1,76}|X{16,})={0,2}`, "X", `(?:[A-Za-z0-9+/_-]|\\/)`))

var alphabet = strings.NewReplacer("-", "+", "_", "/", `\/`, "/", "=", "", "\r", "", "\n", "", `\r`, "", `\n`, "")

// once returns a text or JSON with the labels of pictures in place of their data.
func (s *shown) once(text string) string {
	if len(s.pictures) == 0 {
		return text
	}
	return coded.ReplaceAllStringFunc(text, func(data string) string {
		label, ok := s.pictures[alphabet.Replace(data)]
		if !ok {
			return data
		}
		return strings.Trim(string(encoded(label)), `"`)
	})
}

// fence matches JSON in a block of Markdown.
var fence = regexp.MustCompile("(?s)^\\s*```(?:json)?\\s*\n(.*)```\\s*$")

// says reports whether texts are a JSON value, or the value that a server wraps because structured content must be an object: one text is
// all of it, or each is an element of a list.
func says(texts []string, structured json.RawMessage) bool {
	whole := value(structured)
	if whole == nil {
		return false
	}
	var inner any
	if wrapped, ok := whole.(map[string]any); ok && len(wrapped) == 1 {
		inner = wrapped["result"]
	}
	is := func(text string, v any) bool {
		return v != nil && (text == v || reflect.DeepEqual(value([]byte(fence.ReplaceAllString(text, "$1"))), v))
	}
	if slices.ContainsFunc(texts, func(text string) bool { return is(text, inner) || is(text, whole) }) {
		return true
	}
	list, ok := inner.([]any)
	if !ok || len(list) != len(texts) {
		return false
	}
	for i, text := range texts {
		if !is(text, list[i]) {
			return false
		}
	}
	return len(list) > 0
}
