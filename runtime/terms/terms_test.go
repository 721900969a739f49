package terms_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/terms"
)

// words returns the terms of a run's input, without their scope.
func words(text string) (list []string) {
	none := terms.Of(&data.Run{})
	all := terms.Of(&data.Run{InputQuery: text})
	for _, term := range all[len(none)/2 : len(all)/2] {
		list = append(list, term[scope:])
	}
	return list
}

// scope is how long the beginning of a term is that says whose it is.
const scope = 17

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

// Each term is one of the run's project or of its user, so an index of terms never has those of two tenants beside each other.
func TestOf_BeginsWithTheScope(t *testing.T) {
	scopes := func(project, user string) (of []string) {
		for _, f := range []data.RunFilter{{Project: project}, {Project: project, User: user}} {
			s, _ := terms.For(&f)
			of = append(of, s.Whole[0][:scope])
		}
		return of
	}
	answer := "天気 and more"
	list := terms.Of(&data.Run{
		RunHead:  data.RunHead{ID: "run", Project: "p", User: "ann", WorkflowID: "echo", ThreadKey: 7, Error: &agui.OutputError{Code: "c", Message: "m"}},
		ThreadID: "t", ThreadTitle: "title", InputQuery: "words", OutputSummary: &answer, Metadata: json.RawMessage(`{"tags": ["red"], "env": "prod"}`),
	})
	of := scopes("p", "ann")
	for i, term := range list {
		if !strings.HasPrefix(term, of[i*2/len(list)]) {
			t.Errorf("the term %q begins with neither scope of %q", term, of)
		}
	}
	all := slices.Concat(of, scopes("p", "ben")[1:], scopes("q", "ann"))
	if slices.Sort(all); len(slices.Compact(all)) != 5 {
		t.Errorf("of two users and two projects the scopes are %q", all)
	}
	for _, f := range []data.RunFilter{{Text: "wor"}, {Text: "two wor", Tags: []string{"red"}}, {Text: "天"}, {Agent: "echo", Metadata: map[string]string{"env": "prod"}}, {ThreadKey: 7, Text: "x"}} {
		for i, user := range []string{"", "ann"} {
			f.Project, f.User = "p", user
			s, _ := terms.For(&f)
			for _, term := range slices.Concat(s.Whole, s.Begun) {
				if !strings.HasPrefix(term, of[i]) {
					t.Errorf("%+v searches for %q, outside its scope", f, term)
				}
			}
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
		"metadata": terms.Of(&data.Run{Metadata: metadata}),
	} {
		if len(got) > 1000 || slices.Contains(got, "beyond") {
			t.Errorf("%s has %d terms", what, len(got))
		}
	}
}

func TestSearch_Finds(t *testing.T) {
	answer := "Die Straße wurde gesperrt"
	run := terms.Of(&data.Run{
		RunHead: data.RunHead{
			ID: "0b55a9e2-77ce-4f7c", Project: "p", User: "ann", WorkflowID: "echo", ThreadKey: 7,
			Error: &agui.OutputError{Code: "tool_failed", Message: "connection refused"},
		},
		ThreadID: "Night-work", ThreadTitle: "Wolken 天気予報", InputQuery: "Please deploy it, sedan", OutputSummary: &answer,
		Metadata: json.RawMessage(`{"tags": ["red", "blue green", 3], "env": "prod", "n": 1.5, "on": true, "deep": {"a": 1}, "none": null}`),
	})
	for _, test := range []struct {
		filter data.RunFilter
		want   bool
	}{
		{data.RunFilter{Text: "deploy"}, true},
		{data.RunFilter{Text: "DEPL"}, true},
		{data.RunFilter{Text: "depl please"}, false},
		{data.RunFilter{Text: "refused, please; dep"}, true},
		{data.RunFilter{Text: "eploy"}, false},
		{data.RunFilter{Text: "sed refused"}, false}, // which ends with the first word
		{data.RunFilter{Text: "d"}, false},
		{data.RunFilter{Text: "straße"}, true},
		{data.RunFilter{Text: "wolken"}, true},
		{data.RunFilter{Text: "天気"}, true},
		{data.RunFilter{Text: "天気予報"}, true},
		{data.RunFilter{Text: "気"}, true},
		{data.RunFilter{Text: "報"}, true},
		{data.RunFilter{Text: "天予"}, false},
		{data.RunFilter{Text: "報 deploy"}, true},
		{data.RunFilter{Text: "night-work"}, true},
		{data.RunFilter{Text: "0b55a9e2-77ce"}, true},
		{data.RunFilter{Text: "tool_failed"}, true},
		{data.RunFilter{Text: "' OR \"*"}, false},
		{data.RunFilter{Tags: []string{"red"}}, true},
		{data.RunFilter{Tags: []string{"red", "blue green"}}, true},
		{data.RunFilter{Tags: []string{"red", "blue"}}, false},
		{data.RunFilter{Tags: []string{"3"}}, false},
		{data.RunFilter{Metadata: map[string]string{"env": "prod", "n": "1.5", "on": "true"}}, true},
		{data.RunFilter{Metadata: map[string]string{"env": "test"}}, false},
		{data.RunFilter{Metadata: map[string]string{"deep": "a"}}, false},
		{data.RunFilter{Text: "deploy", User: "ann", Agent: "echo", ThreadKey: 7, Tags: []string{"red"}}, true},
		{data.RunFilter{Text: "deploy", User: "bob"}, false},
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
		if s, ok := terms.For(&data.RunFilter{Project: "p", Text: text}); ok {
			t.Errorf("%q searches for %+v", text, s)
		}
	}
}
