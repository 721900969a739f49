// Package wire is the JSON of Baton's requests and answers: it decodes and checks requests, and encodes runs, steps, nodes and
// messages. All transports use it, so that everything has one form. It knows nothing of HTTP: it reads bytes and returns structs.
//
// A known member of the wrong type is refused with a sentence that names it; unknown members are ignored, and null means
// absent.
package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"github.com/batonrun/baton/runtime"
)

// Encode returns v as JSON without escapes of <, > and &: no answer is part of a page, and escaped markup would grow sixfold.
func Encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), err
}

// Separators is how many of the two characters there are in text of which Encode makes six bytes each, and which others leave at three:
// U+2028 and U+2029.
func Separators(text []byte) int {
	return bytes.Count(text, []byte("\u2028")) + bytes.Count(text, []byte("\u2029"))
}

// Unescape decodes a path parameter. Routers leave it percent-encoded; it is decoded exactly once, so that a name may contain a
// slash or a percent sign. An invalid one becomes empty.
func Unescape(param string) string {
	s, err := url.PathUnescape(param)
	if err != nil {
		return ""
	}
	return s
}

// Refuse returns an error of a request's content.
func Refuse(code, format string, args ...any) error {
	return &runtime.Error{Kind: runtime.KindInvalid, Code: code, Detail: fmt.Sprintf(format, args...)}
}

// refuseMember refuses a request because of one member of its body.
func refuseMember(name, code, format string, args ...any) error {
	return &runtime.Error{Kind: runtime.KindInvalid, Code: code, Detail: fmt.Sprintf(format, args...), Place: "/" + name}
}

// The error codes of the Decode functions.
const (
	codeJSON    = "invalid_json"
	codeRequest = "invalid_request"
)

// stamp is a time as answers show it: in UTC, to the millisecond that databases keep, so that an answer
// given before a row was stored equals one read back from it.
func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func stampOrNull(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	s := stamp(*t)
	return &s
}

// orNull is null for an empty name.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// list is a slice that is encoded as [] when it is empty.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// Moment is the time in a parameter, zero for none.
func Moment(name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		err = Refuse("invalid_request", "%s must be a time like 2024-01-15T10:00:00Z", name)
	}
	return at, err
}
