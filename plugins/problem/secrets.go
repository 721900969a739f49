package problem

import (
	"bytes"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Secrets removes from what another server says the values that it got from its configuration.
type Secrets struct {
	values      []string // all values that could be a secret
	credentials []string // the values that certainly are one
}

// NewSecrets returns the secrets of a server with these headers, these variables of its environment, and these URLs.
func NewSecrets(headers, env map[string]string, urls ...*url.URL) *Secrets {
	s := new(Secrets)
	for name, v := range headers {
		word := v[strings.LastIndexByte(v, ' ')+1:] // a token after Bearer
		s.add(name, v, 4)
		s.add(name, word, 4)
	}
	for name, v := range env {
		s.add(name, v, leastSecret)
	}
	for _, u := range urls {
		password, _ := u.User.Password()
		s.add("password", password, 4)
		for name, values := range u.Query() {
			for _, v := range values {
				s.add(name, v, 4)
			}
		}
		for segment := range strings.SplitSeq(u.EscapedPath(), "/") { // the addresses of some services contain a key
			name := ""
			if len(segment) >= 20 && strings.ContainsAny(segment, "0123456789") {
				name = "key"
			}
			s.add(name, segment, 16)
		}
	}
	for _, list := range []*[]string{&s.values, &s.credentials} { // the longest first, because one can be a part of another
		slices.SortFunc(*list, func(a, b string) int { return len(b) - len(a) })
		*list = slices.Compact(*list)
	}
	return s
}

// leastSecret is the length from which a value is removed from results, where a short one could be any word.
const leastSecret = 8

var secretName = regexp.MustCompile(`(?i)auth|token|key|secret|pass|pwd|credential|cookie|session|signature`)

func (s *Secrets) add(name, value string, least int) {
	if len(value) < least {
		return
	}
	s.values = append(s.values, value, url.QueryEscape(value), url.PathEscape(value)) // also as in links
	if len(value) >= leastSecret && secretName.MatchString(name) {
		s.credentials = append(s.credentials, value)
	}
}

// Hide removes all values from a text that explains something to people, such as an error.
func (s *Secrets) Hide(text string) string { return hide(text, s.values) }

func hide(text string, list []string) string {
	for _, secret := range list {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return text
}

// HideJSON removes all values from the texts in a JSON value.
func (s *Secrets) HideJSON(raw json.RawMessage) json.RawMessage { return hideJSON(raw, s.values) }

// HideCredentials removes the credentials, as they are written in the configuration, from the texts in JSON that is a server's data. It leaves
// other values, such as a directory or the name of a tenant, of which the data can be full.
func (s *Secrets) HideCredentials(raw json.RawMessage) json.RawMessage {
	for _, secret := range s.credentials {
		quoted, _ := json.Marshal(secret)
		if bytes.Contains(raw, []byte(secret)) || bytes.Contains(raw, quoted[1:len(quoted)-1]) {
			return hideJSON(raw, s.credentials)
		}
	}
	return raw
}

var jsonText = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

func hideJSON(raw json.RawMessage, list []string) json.RawMessage {
	return jsonText.ReplaceAllFunc(raw, func(quoted []byte) []byte {
		var said string
		if json.Unmarshal(quoted, &said) != nil {
			return quoted
		}
		hidden := hide(said, list)
		if hidden == said {
			return quoted
		}
		quoted, _ = json.Marshal(hidden) // a string always has JSON
		return quoted
	})
}
