package agui_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/batonrun/baton/runtime/agui"
)

// Strings are scanned eight bytes at a time, so each byte is tested at each position of a piece, beside other special
// ones.
func TestAppendString_EscapesEveryByte(t *testing.T) {
	for _, around := range []string{"x", "é", `"`, `\`, "\n", "\x1f", "\x7f"} {
		for at := range 18 {
			for c := range 256 {
				s := strings.Repeat(around, at) + string([]byte{byte(c)}) + strings.Repeat(around, 17-at)
				text := agui.AppendString(nil, s)
				var got string
				if err := json.Unmarshal(text, &got); err != nil || got != strings.ToValidUTF8(s, "\uFFFD") {
					t.Fatalf("%q becomes %s: %v", s, text, err)
				}
				if !utf8.ValidString(s) {
					continue
				}
				said := agui.TextMessageContent{MessageID: "m", Delta: s}
				ev, err := agui.Decode(said.AppendJSON(nil, agui.Stored))
				if err != nil || ev.(agui.TextMessageContent).Delta != s {
					t.Fatalf("%q is read as %q: %v", s, ev, err)
				}
				// As a member of an object that is skipped over, and copied.
				whole := append(append([]byte(`{"type":"CUSTOM","name":"n","value": {"a":`), text...), `, "b" : [`...)
				whole = append(append(whole, text...), ` ]}}`...)
				ev, err = agui.Decode(whole)
				if err != nil {
					t.Fatalf("%s: %v", whole, err)
				}
				want := `{"a":` + string(text) + `,"b":[` + string(text) + `]}`
				if value := string(ev.(agui.Custom).Value); value != want {
					t.Fatalf("the value of %s is %s", whole, value)
				}
			}
		}
	}
}

// Invalid members are omitted, so that the event stays valid.
func TestAppendJSON_IgnoresInvalidExtra(t *testing.T) {
	for _, extra := range []string{"{\n", "{\"a\":\n}", "{\"a\n\":1}", "[\n1]", "nothing\n", "{\n\"a\":1}"} {
		said := agui.TextMessageEnd{Base: agui.Base{Extra: json.RawMessage(extra)}, MessageID: "m"}
		text := said.AppendJSON(nil, agui.Stored)
		if !json.Valid(text) || bytes.IndexByte(text, '\n') >= 0 {
			t.Errorf("with %q: %s", extra, text)
		}
	}
}
