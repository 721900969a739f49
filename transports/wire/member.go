package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// request reads the members of a request's object; err is the first refusal.
type request struct {
	all    []member
	values map[string]json.RawMessage // of two with the same name the last counts
	err    error
}

// read begins to read body, which must hold an object.
func read(body []byte) request {
	all, err := members(body)
	r := request{all, make(map[string]json.RawMessage, len(all)), err}
	for _, m := range all {
		r.values[m.name] = m.value
	}
	return r
}

// has returns a member that is there and not null.
func (r *request) has(name string) (json.RawMessage, bool) {
	val, ok := r.values[name]
	return val, ok && string(val) != "null"
}

// into decodes a member into dst, or notes that it must be a kind of another sort. It reports whether the
// member is there.
func (r *request) into(dst any, name, kind string) bool {
	val, ok := r.has(name)
	if !ok || r.err != nil {
		return false
	}
	if json.Unmarshal(val, dst) != nil {
		r.err = refuseMember(name, codeRequest, "%s must be %s", name, kind)
	}
	return r.err == nil
}

// text returns a member that must be a string, "" when it is absent.
func (r *request) text(name string) (s string) {
	r.into(&s, name, "a string")
	return s
}

// name returns a member that must be a string and not empty when it is there.
func (r *request) name(name string) string {
	var s string
	if r.into(&s, name, "a string") && s == "" {
		r.err = refuseMember(name, "invalid_name", "%s must be 1 to 200 characters without control characters", name)
	}
	return s
}

// object returns a member that must be an object, nil when it is absent.
func (r *request) object(name string) json.RawMessage {
	val, ok := r.has(name)
	if !ok || r.err != nil {
		return nil
	}
	if val[0] != '{' {
		r.err = refuseMember(name, codeRequest, "%s must be an object", name)
		return nil
	}
	return bytes.Clone(val) // the body is not retained, the value may be
}

// texts returns a member that must be an array of strings.
func (r *request) texts(name string) []string {
	var vals []*string // a null among them stays nil, where a string would read as empty
	if !r.into(&vals, name, "an array of strings") {
		return nil
	}
	texts := make([]string, len(vals))
	for i, val := range vals {
		if val == nil {
			r.err = refuseMember(fmt.Sprintf("%s/%d", name, i), codeRequest, "%s[%d] must be a string", name, i)
			return nil
		}
		texts[i] = *val
	}
	return texts
}
