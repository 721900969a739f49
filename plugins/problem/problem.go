// Package problem reads the descriptions in the error responses of other servers, and hides the credentials that servers repeat.
package problem

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
)

// MaxSentence limits the result of Sentence, in bytes.
const MaxSentence = 1000

// members of a response that can have its description, in the order of preference.
var members = []string{"error_description", "message", "error_message", "msg", "status_msg", "base_resp", "detail", "details", "errors", "error", "title", "reason"}

// depth limits how far a description is searched in objects, lists and JSON texts.
const depth = 6

// Sentence returns the description of an error in a response's body, in one line of at most MaxSentence bytes: from JSON of
// the usual forms (OpenAI's, Google's, FastAPI's, RFC 9457's, JSON-RPC's and their like), from the title of a web page, or
// the text itself. It returns "" if there is none. It calls redact, which removes secrets, before it cuts the sentence.
func Sentence(body []byte, redact func(string) string) string {
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\ufeff")))
	switch {
	case bytes.HasPrefix(body, []byte("<")):
		return line(redact(title(body)))
	case json.Valid(body):
		return line(redact(find(body, depth)))
	}
	return line(redact(string(body)))
}

// Quote returns the Sentence of a body, or JSON without one as it is.
func Quote(body []byte, redact func(string) string) string {
	s := Sentence(body, redact)
	if s == "" && len(body) > len("{}") && json.Valid(body) {
		return line(redact(string(body)))
	}
	return s
}

// find returns the description in a JSON value.
func find(value json.RawMessage, depth int) string {
	value = bytes.TrimSpace(value)
	if depth == 0 || len(value) == 0 {
		return ""
	}
	switch value[0] {
	case '"':
		return text(value, depth)
	case '[':
		return first(value, depth)
	case '{':
		return member(value, depth)
	}
	return ""
}

// text returns the description in a JSON string, which can be JSON again: some gateways pass a provider's response on as text.
func text(value json.RawMessage, depth int) string {
	var s string
	if json.Unmarshal(value, &s) != nil {
		return ""
	}
	inner := strings.TrimSpace(s)
	if (strings.HasPrefix(inner, "{") || strings.HasPrefix(inner, "[")) && json.Valid([]byte(inner)) {
		if found := find([]byte(inner), depth-1); found != "" {
			return found
		}
	}
	return s
}

func first(value json.RawMessage, depth int) string {
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil {
		return ""
	}
	for _, v := range list {
		if found := find(v, depth-1); found != "" {
			return found
		}
	}
	return ""
}

// member returns the description in an object: an error's own object says more than the members beside it, and the object that a gateway
// quotes of its provider more than the gateway's own words.
func member(value json.RawMessage, depth int) string {
	var object map[string]json.RawMessage
	if json.Unmarshal(value, &object) != nil {
		return ""
	}
	var metadata struct {
		Raw json.RawMessage `json:"raw"`
	}
	if json.Unmarshal(object["metadata"], &metadata) == nil {
		if found := find(metadata.Raw, depth-1); found != "" {
			return found
		}
	}
	if nested := bytes.TrimSpace(object["error"]); len(nested) > 0 && nested[0] == '{' {
		if found := find(nested, depth-1); found != "" {
			return found
		}
	}
	for _, name := range members {
		found := find(object[name], depth-1)
		if found == "" {
			continue
		}
		return place(object["loc"]) + found
	}
	return ""
}

// place returns where a value was wrong, as FastAPI names it: a list of members and positions.
func place(loc json.RawMessage) string {
	var path []any
	if json.Unmarshal(loc, &path) != nil || len(path) == 0 {
		return ""
	}
	b, err := json.Marshal(path)
	if err != nil {
		return ""
	}
	return strings.NewReplacer(`"`, "", "[", "", "]", "", ",", ".").Replace(string(b)) + ": "
}

var titled = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)

func title(page []byte) string {
	if found := titled.FindSubmatch(page); found != nil {
		return string(found[1])
	}
	return ""
}

// line returns s as one line of valid UTF-8.
func line(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "")), " ")
	if len(s) > MaxSentence {
		s = strings.ToValidUTF8(s[:MaxSentence-len("…")], "") + "…"
	}
	return s
}
