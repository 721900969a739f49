package wire

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/batonrun/baton/runtime"
)

// FuzzMembers checks that a body's members are what encoding/json says they are, and that what it does not take is
// refused.
func FuzzMembers(f *testing.F) {
	for _, seed := range []string{
		`{}`, ` { "a" : 1 , "b":[1,-0.5e+7,{"c":null}],"a":true} `, `{"a\u0062":"\ud800\"\\\/\b\f\n\r\t"}`, `{"a":01}`, `{"a":1.}`,
		`{"a":-}`, `{"a":1e}`, `{"a":.5}`, `{"a":tru}`, `{"a":nulll}`, `{"a" 1}`, `{"a":1,}`, `{,}`, `{"a":[1,]}`, `[{"a":1}]`, `"a"`, `1`,
		``, "\xef\xbb\xbf{}", "{\"a\":\"\xff\"}", "{\"a\":\"\x1f\"}", `{"a":"\x"}`, `{"a":"\u12g4"}`, `{"a":"`, `{"a":"\`, `{"":{}}`, `{"a":1e999}`,
		`{} {}`, "{\"\u2028\":\"\u00e9\"}", strings.Repeat("[", 300), `{"a":` + strings.Repeat("[", 255) + strings.Repeat("]", 255) + `}`, "{\v}", `{'a':1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		all, err := members(body)
		var want map[string]json.RawMessage
		legal := utf8.Valid(body) && json.Unmarshal(body, &want) == nil && want != nil && Scan(body) == nil
		if legal != (err == nil) {
			t.Fatalf("%q: %v, but encoding/json says %v", body, err, legal)
		}
		if refusal, ok := errors.AsType[*runtime.Error](err); err != nil && (!ok || refusal.Detail == "") {
			t.Fatalf("%q: %#v", body, err)
		}
		got := make(map[string]json.RawMessage)
		for _, m := range all {
			got[m.name] = m.value
		}
		if err == nil && !maps.EqualFunc(got, want, func(a, b json.RawMessage) bool { return string(a) == string(b) }) {
			t.Fatalf("%q: got %s, want %s", body, got, want)
		}
	})
}
