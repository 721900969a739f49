package mcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"strings"

	"github.com/batonrun/baton/plugins/problem"
)

func secrets(cfg *Config) *problem.Secrets {
	var urls []*url.URL
	if u, err := url.Parse(cfg.URL); err == nil {
		urls = append(urls, u)
	}
	return problem.NewSecrets(cfg.Headers, cfg.Env, urls...)
}

// redact returns err's text without secrets. The result does not wrap err.
func (s *Server) redact(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(s.secrets.Hide(err.Error()))
}

// clip cuts s after n bytes.
func clip(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// text returns a JSON string's text, or the JSON of another value.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// truth reads a flag.
func truth(raw json.RawMessage) bool {
	switch strings.ToLower(text(raw)) {
	case "true", "1", "yes":
		return true
	}
	return false
}

func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// elements returns the elements of a list, or a single value as one.
func elements(raw json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	switch {
	case !given(raw):
		return nil
	case json.Unmarshal(raw, &list) == nil:
		return list
	}
	return []json.RawMessage{raw}
}

func value(raw []byte) (v any) {
	in := json.NewDecoder(bytes.NewReader(raw))
	in.UseNumber()
	if in.Decode(&v) != nil {
		return nil
	}
	return v
}

func compact(raw json.RawMessage) json.RawMessage {
	var short bytes.Buffer
	if json.Compact(&short, raw) != nil {
		return raw
	}
	return short.Bytes()
}

// decoded decodes base64 of any alphabet, with or without padding and white space, also in a data: URL, whose type it returns.
func decoded(said string) (data []byte, mime string, ok bool) {
	if rest, is := strings.CutPrefix(said, "data:"); is {
		var head string
		head, said, _ = strings.Cut(rest, ",")
		mime, _, _ = strings.Cut(head, ";")
	}
	said = strings.TrimRight(strings.Join(strings.Fields(said), ""), "=")
	data, err := base64.RawStdEncoding.DecodeString(strings.NewReplacer("-", "+", "_", "/").Replace(said))
	return data, mime, err == nil && len(data) > 0
}

// encoded returns v as JSON, which always exists for our types.
func encoded(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return raw
}

// word returns the text of a JSON value, "" for none.
func word(raw json.RawMessage) string {
	if !given(raw) {
		return ""
	}
	return text(raw)
}
