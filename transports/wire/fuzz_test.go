package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/batonrun/baton/transports/wire"
)

// FuzzAnswers checks that messages and answers to a run are taken or refused as the client's mistake, and that
// accepted texts can be stored.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		`{"content": "x"}`, `{"content": "x", "contextItemIds": ["a", ""]}`, `{"content": " "}`, `{"content": 7}`, `{"content": "\u0000"}`,
		`{"resume": [{"interruptId": "i", "status": "resolved", "payload": {"a": [1]}}]}`, `{"resume": []}`, `{"resume": [null]}`,
		`{"resume": [{"interruptId": "i", "status": "cancelled"}, {"interruptId": "i", "status": "cancelled"}]}`, `null`, `[[[[`, "{\"content\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		msg, err := wire.DecodeAppend(body)
		mistake(t, err)
		storable(t, msg)
		entries, err := wire.DecodeResume(body)
		mistake(t, err)
		storable(t, entries)
	})
}

func storable(t *testing.T, v any) {
	t.Helper()
	if _, err := json.Marshal(v); err != nil {
		t.Errorf("what was taken cannot be encoded: %v", err)
	}
}
