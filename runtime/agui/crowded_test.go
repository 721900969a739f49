package agui_test

import (
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime/agui"
)

func TestCrowded(t *testing.T) {
	list := func(n int, element string) string { return "[" + strings.Repeat(element+",", n-1) + element + "]" }
	for name, test := range map[string]struct {
		text string
		want bool
	}{
		"nothing":             {"", false},
		"few":                 {list(10_000, "{}"), false},
		"objects":             {list(100_000, "{}"), true},
		"digits":              {list(100_000, "1"), true},
		"members":             {`{"a":` + list(100_000, `{"b":0}`) + `}`, true},
		"vectors":             {list(150_000, "-0.0123456789012345"), false},
		"very many numbers":   {list(400_000, "-0.0123456789012345"), true},
		"what a string holds": {`"` + strings.Repeat("[{,\\\"", 1_000_000) + `"`, false},
		"an open string":      {`"` + strings.Repeat("[", 1_000_000), false},
	} {
		if got := agui.Crowded([]byte(test.text)); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
