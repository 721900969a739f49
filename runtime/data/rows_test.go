package data_test

import (
	"encoding/json"
	"testing"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

func TestContentHash_IsOfTextAndSources(t *testing.T) {
	image := func(text, url string) agui.Message {
		return agui.Message{Role: agui.RoleUser, Parts: json.RawMessage(
			`[{"type":"text","text":"` + text + `"},{"type":"image","source":{"type":"url","value":"` + url + `"}}]`)}
	}
	said := agui.Message{ID: "u1", Role: agui.RoleUser, Content: "look"}
	for name, test := range map[string]struct {
		a, b agui.Message
		same bool
	}{
		"another id":          {said, agui.Message{ID: "u2", Role: agui.RoleUser, Content: "look"}, true},
		"surrounding space":   {said, agui.Message{Role: agui.RoleUser, Content: " look\u00a0\n"}, true},
		"as a part":           {said, agui.Message{Role: agui.RoleUser, Parts: json.RawMessage(`[{"type":"text","text":"look"}]`)}, true},
		"another text":        {said, agui.Message{Role: agui.RoleUser, Content: "Look"}, false},
		"with an image":       {said, image("look", "a"), false},
		"the same image":      {image("look", "a"), image("look", "a"), true},
		"another image":       {image("look", "a"), image("look", "b"), false},
		"an image in words":   {image("", `a`), agui.Message{Role: agui.RoleUser, Content: "\x00\"url\" \"\" \"\" \"a\""}, false},
		"an empty message":    {agui.Message{Role: agui.RoleUser}, agui.Message{Role: agui.RoleUser, Content: " "}, true},
		"a message of agents": {agui.Message{Role: agui.RoleUser}, agui.Message{Role: agui.RoleAssistant}, false},
	} {
		a, b := data.ContentHash(&test.a), data.ContentHash(&test.b)
		if (a == b) != test.same {
			t.Errorf("%s: %x and %x", name, a, b)
		}
		if a == 0 {
			t.Errorf("%s: the hash is 0", name)
		}
	}
}
