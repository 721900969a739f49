package prompts

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// A copy of a message in a prompt is removed with the message's run: an image of it, or the rest of a long result.
func TestPrompts_CopiesBelongToTheirMessages(t *testing.T) {
	t.Parallel()
	image := agui.Message{ID: "image", Role: agui.RoleUser, Parts: json.RawMessage(`[{"type":"text","text":"see"},{"type":"image","source":{"type":"url","value":"http://x/y"}}]`)}
	text := agui.Message{ID: "text", Role: agui.RoleUser, Content: "long"}
	shortened := agui.Message{ID: "text", Role: agui.RoleUser, Content: "lo"}
	run := new(data.Run)
	run.Key, run.ThreadKey = 2, 9
	p := New(run)
	p.Learn(&data.Message{Message: image, RunKey: 1, Seq: 1})
	p.Learn(&data.Message{Message: text, RunKey: 1, Seq: 2})
	_, rows := p.sent(&plugins.Prompt{System: []string{"Be brief."}, Messages: []plugins.PromptMessage{
		{Message: image}, {Message: text}, {Message: shortened, Changes: []plugins.PromptChange{{Kind: "cut"}}}, {Message: agui.Message{Role: agui.RoleUser, Content: "new"}},
	}})
	got := make(map[string]int64)
	for _, row := range rows {
		piece := row.(*data.PromptPiece)
		for _, what := range []string{"see", `"lo"`, "long", "new", "brief"} {
			if strings.Contains(string(piece.Body), what) {
				got[what] = piece.RunKey
			}
		}
	}
	if want := map[string]int64{"see": 1, `"lo"`: 1, "new": 2, "brief": 2}; !maps.Equal(got, want) {
		t.Errorf("the pieces belong to %v, want %v", got, want)
	}
}

// A prompt that was changed in very many places lists the first ones.
func TestPromptChanges_AreBounded(t *testing.T) {
	t.Parallel()
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
		text := Changes(changes)
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
