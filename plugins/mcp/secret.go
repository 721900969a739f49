package mcp

import (
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// secrets lists texts that errors and questions must not contain: values of headers, their last words (a token after Bearer), credentials
// in the URL, long segments of its path, which often are keys, and long environment values of a program. The longest come
// first, because one can be a part of another.
func secrets(cfg *Config) []string {
	var list []string
	for v := range maps.Values(cfg.Headers) {
		list = append(list, v, v[strings.LastIndexByte(v, ' ')+1:])
	}
	if u, err := url.Parse(cfg.URL); err == nil {
		password, _ := u.User.Password()
		list = append(list, password)
		for _, values := range u.Query() {
			list = append(list, values...)
		}
		for segment := range strings.SplitSeq(u.EscapedPath(), "/") {
			if len(segment) >= 16 {
				list = append(list, segment)
			}
		}
	}
	for v := range maps.Values(cfg.Env) {
		if len(v) >= 8 {
			list = append(list, v)
		}
	}
	for _, v := range list { // as in links
		list = append(list, url.QueryEscape(v), url.PathEscape(v))
	}
	list = slices.DeleteFunc(list, func(s string) bool { return len(s) < 4 })
	slices.SortFunc(list, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(list)
}

// shown removes secrets from text.
func (s *Server) shown(text string) string {
	for _, secret := range s.secret {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return text
}

var jsonText = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// shownJSON removes secrets from the texts in a JSON value.
func (s *Server) shownJSON(raw json.RawMessage) json.RawMessage {
	return jsonText.ReplaceAllFunc(raw, func(quoted []byte) []byte {
		said := text(quoted)
		if shown := s.shown(said); shown != said {
			return encoded(shown)
		}
		return quoted
	})
}

// redact returns err's text without secrets. The result does not wrap err.
func (s *Server) redact(err error) error {
	if err == nil || len(s.secret) == 0 {
		return err
	}
	return errors.New(s.shown(err.Error()))
}
