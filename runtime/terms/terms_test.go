package terms_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/model"
	"github.com/batonrun/baton/runtime/terms"
)

// words returns the terms of a run's input.
func words(text string) []string {
	none := terms.Of(&model.Run{})
	all := terms.Of(&model.Run{InputQuery: text})
	return all[len(none):]
}

func TestOf_HasTheWordsOfATextOnce(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", ""},
		{"Please DEPLOY it, please!", "please deploy it"},
		{"user@example.com/a_b-c.d #1", "user example com a b c d 1"},
		{"Über ÜBER u\u0308ber", "über"},
		{"ＡＢＣ１２ ﬁn", "abc12 fin"},
		{"ПРИВЕТ, Ωμέγα", "привет ωμέγα"},
		{"हिन्दी", "हिन्दी"},
		{"한국어 텍스트", "한국어 텍스트"},
		{"東京タワーへ", "東京 京タ タワ ワー ーへ へ"},
		{"go東go", "go 東"},
		{"\x00\xff'\"*&|:\\", ""},
		{strings.Repeat("x", 70) + " " + strings.Repeat("é", 40), strings.Repeat("x", 64) + " " + strings.Repeat("é", 32)},
	} {
		if got := strings.Join(words(test.text), " "); got != test.want {
			t.Errorf("%q has the terms %q, want %q", test.text, got, test.want)
		}
	}
}

func TestOf_IsBounded(t *testing.T) {
	var text strings.Builder
	for i := range 10_000 {
		text.WriteString(string(rune(0x4e00+i)) + " ")
	}
	long := strings.Repeat("a ", 32<<10) + "beyond"
	metadata, _ := json.Marshal(map[string]any{"tags": slices.Repeat([]string{"a", "b"}, 100), "long": strings.Repeat("x", terms.MaxFact+1)})
	for what, got := range map[string][]string{
		"a huge text": words(text.String()), "pairs": words(strings.ReplaceAll(text.String(), " ", "")), "a long text": words(long),
		"metadata": terms.Of(&model.Run{Metadata: metadata})[len(terms.Of(&model.Run{})):],
	} {
		if len(got) > 1000 || slices.Contains(got, "beyond") {
			t.Errorf("%s has %d terms", what, len(got))
		}
	}
}

func TestSearch_Finds(t *testing.T) {
	answer := "Die Straße wurde gesperrt"
	run := terms.Of(&model.Run{
		RunHead: model.RunHead{
			ID: "0b55a9e2-77ce-4f7c", Project: "p", User: "ann", WorkflowID: "echo", ThreadKey: 7,
			Error: &agui.OutputError{Code: "tool_failed", Message: "connection refused"},
		},
		ThreadID: "Night-work", ThreadTitle: "Wolken 天気予報", InputQuery: "Please deploy it", OutputSummary: &answer,
		Metadata: json.RawMessage(`{"tags": ["red", "blue green", 3], "env": "prod", "n": 1.5, "on": true, "deep": {"a": 1}, "none": null}`),
	})
	for _, test := range []struct {
		filter model.RunFilter
		want   bool
	}{
		{model.RunFilter{Text: "deploy"}, true},
		{model.RunFilter{Text: "DEPL"}, true},
		{model.RunFilter{Text: "depl please"}, false},
		{model.RunFilter{Text: "refused, please; dep"}, true},
		{model.RunFilter{Text: "eploy"}, false},
		{model.RunFilter{Text: "d"}, false},
		{model.RunFilter{Text: "straße"}, true},
		{model.RunFilter{Text: "wolken"}, true},
		{model.RunFilter{Text: "天気"}, true},
		{model.RunFilter{Text: "天気予報"}, true},
		{model.RunFilter{Text: "気"}, true},
		{model.RunFilter{Text: "報"}, true},
		{model.RunFilter{Text: "天予"}, false},
		{model.RunFilter{Text: "報 deploy"}, true},
		{model.RunFilter{Text: "night-work"}, true},
		{model.RunFilter{Text: "0b55a9e2-77ce"}, true},
		{model.RunFilter{Text: "tool_failed"}, true},
		{model.RunFilter{Text: "' OR \"*"}, false},
		{model.RunFilter{Tags: []string{"red"}}, true},
		{model.RunFilter{Tags: []string{"red", "blue green"}}, true},
		{model.RunFilter{Tags: []string{"red", "blue"}}, false},
		{model.RunFilter{Tags: []string{"3"}}, false},
		{model.RunFilter{Metadata: map[string]string{"env": "prod", "n": "1.5", "on": "true"}}, true},
		{model.RunFilter{Metadata: map[string]string{"env": "test"}}, false},
		{model.RunFilter{Metadata: map[string]string{"deep": "a"}}, false},
		{model.RunFilter{Text: "deploy", User: "ann", Agent: "echo", ThreadKey: 7, Tags: []string{"red"}}, true},
		{model.RunFilter{Text: "deploy", User: "bob"}, false},
	} {
		test.filter.Project = "p"
		s, ok := terms.For(&test.filter)
		if got := ok && s.Finds(run); got != test.want {
			t.Errorf("%+v finds the run: %v, want %v", test.filter, got, test.want)
		}
		test.filter.Project = "elsewhere"
		if s, ok := terms.For(&test.filter); ok && s.Finds(run) {
			t.Errorf("%+v finds a run of another project", test.filter)
		}
	}
}

func TestFor_HasNoSearchWithoutAWord(t *testing.T) {
	for _, text := range []string{"!?", "#", "\x00"} {
		if s, ok := terms.For(&model.RunFilter{Project: "p", Text: text}); ok {
			t.Errorf("%q searches for %+v", text, s)
		}
	}
}
