package wire

import (
	"errors"
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime"
)

// TestElementsAreCounted sends small bodies that become large when they are decoded.
func TestElementsAreCounted(t *testing.T) {
	t.Parallel()
	list := func(n int, element string) string { return "[" + strings.Repeat(element+",", n-1) + element + "]" }
	for name, test := range map[string]struct {
		body string
		ok   bool
	}{
		"few":                 {`{"tools":` + list(1000, "{}") + `}`, true},
		"many tools":          {`{"tools":` + list(100_000, "{}") + `}`, false},
		"many answers":        {`{"resume":` + list(100_000, "{}") + `}`, false},
		"many messages":       {`{"messages":` + list(100_000, `{}`) + `}`, false},
		"many names":          {`{"contextItemIds":` + list(100_000, `""`) + `}`, false},
		"many calls":          {`{"messages":[{"toolCalls":` + list(100_000, "{}") + `}]}`, false},
		"many parts":          {`{"messages":[{"content":` + list(100_000, "{}") + `}]}`, false},
		"some calls of many":  {`{"messages":` + list(900, `{"toolCalls":[{},{}]}`) + `}`, false},
		"two lists":           {`{"tools":` + list(900, "{}") + `,"messages":` + list(900, "{}") + `}`, false},
		"real messages":       {`{"messages":` + list(40_000, `{"id":"0123456789","role":"user","content":""}`) + `}`, true},
		"too many of them":    {`{"messages":` + list(60_000, `{"id":"0123456789","role":"user","content":""}`) + `}`, false},
		"a real state":        {`{"state":{"a":{"b":` + list(100_000, "0.12345678901") + `}}}`, true},
		"a crowded state":     {`{"state":{"a":{"b":` + list(100_000, "{}") + `}}}`, false},
		"crowded metadata":    {`{"messages":[{"metadata":{"a":{"b":` + list(100_000, "{}") + `}}}]}`, false},
		"crowded arguments":   {`{"arguments":{"x":` + list(100_000, "0") + `}}`, false},
		"crowded members":     {`{"forwardedProps":` + list(100_000, `{"":0}`) + `}`, false},
		"members of no known": {`{"a":0` + strings.Repeat(`,"a":0`, maxMembers) + `}`, false},
	} {
		_, err := members([]byte(test.body))
		if refusal, _ := errors.AsType[*runtime.Error](err); (err == nil) != test.ok || !test.ok && refusal.Code != "too_many_elements" {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := Scan([]byte(list(100_000, "{}"))); err == nil {
		t.Error("Scan takes what becomes large")
	}
}

// A decoded request is as large as its body, or as that many messages.
func TestDecoded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 10<<10)
	for body, objects := range map[string]int{
		`{"messages":[{"id":"1","content":"x"},` + "\n" + `{"id":"2","toolCalls":[{"id":"3"} , {"id":"4"}]}]}`: 4,
		`{"messages":[],"state":{"a":{"b":{}},"c":[[{}],{}]}}`:                                                 2,
		`{"content":"[{},{},{}]\"[{},{}"}`:                                                                     0,
		`{"messages":[{"content":"` + long + `"},{}]}`:                                                         0,
	} {
		if got, want := Decoded([]byte(body)), max(len(body), objects<<10); got != want {
			t.Errorf("%.60s: got %d, want %d", body, got, want)
		}
	}
	if got := Decoded([]byte(strings.Repeat("[{}", 100_000))); got > 50<<20 {
		t.Errorf("more objects than any request may have come to %d", got)
	}
}
