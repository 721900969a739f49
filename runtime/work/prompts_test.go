package work

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins"
)

// A prompt that was changed in very many places lists the first ones.
func TestPromptChanges_AreBounded(t *testing.T) {
	change := plugins.PromptChange{Kind: plugins.PromptLeftOut, Of: "tool", Why: strings.Repeat("x", 1000)}
	for _, test := range []struct {
		changes, kept int
		last          string
	}{{0, 0, ""}, {60, 60, plugins.PromptLeftOut}, {1000, 63, "cut"}} {
		changes := make([]plugins.PromptChange, test.changes)
		for i := range changes {
			changes[i] = change
		}
		var kept []plugins.PromptChange
		text := listJSON(changes)
		if text != nil {
			if err := json.Unmarshal(text, &kept); err != nil {
				t.Fatal(err)
			}
		}
		if len(kept) != test.kept || len(text) > maxChanges+1000 || len(kept) > 0 && kept[len(kept)-1].Kind != test.last {
			t.Errorf("of %d changes %d are kept in %d bytes", test.changes, len(kept), len(text))
		}
	}
}
