package wire_test

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/batonrun/baton/transports/wire"
)

// FuzzDay checks that a day is taken when it is written as days are and exists, and only then.
func FuzzDay(f *testing.F) {
	for _, seed := range []string{"", "2024-01-15", "2024-02-30", "0000-01-01", "9999-12-31", "2024-1-5", "2024-01-15T00:00:00Z", "-001-01-01", "２024-01-15"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, day string) {
		got, err := wire.Day("before", day)
		mistake(t, err)
		if err == nil && day != "" && got.Format(time.DateOnly) != day {
			t.Errorf("%q means %v", day, got)
		}
		if (got == nil) != (err != nil || day == "") {
			t.Errorf("%q gives %v and %v", day, got, err)
		}
	})
}

// FuzzEventCursor checks that the id and the limit of a page are taken when they are numbers that can be meant,
// and only then.
func FuzzEventCursor(f *testing.F) {
	for _, seed := range []string{"", "0", "7", "-1", "+7", "007", "9223372036854775807", "9223372036854775808", "1e2", "0x7", "1_000", " 7", "7.0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := wire.EventCursor(text)
		mistake(t, err)
		if want, bad := strconv.ParseUint(text, 10, 63); text != "" && (bad == nil) != (err == nil) || err == nil && id != int64(want) {
			t.Errorf("%q is the event %d, %v", text, id, err)
		}
		n, err := wire.EventLimit(text)
		mistake(t, err)
		if err == nil && (n < 1 || n > wire.MaxLimit) {
			t.Errorf("%q is the limit %d", text, n)
		}
	})
}

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
