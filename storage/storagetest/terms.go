package storagetest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// testRunsByTerms finds runs by their texts, tags and metadata.
func testRunsByTerms(t *testing.T, f *fixture) {
	thread := f.threadOf(t, "ann", "Night work")
	thread.Title = "Über den Wolken"
	other, foreign := f.threadOf(t, "bob", "main"), f.threadOf(t, "ann", "elsewhere")
	foreign.Project = "elsewhere"
	f.put(t, thread, other, foreign)
	put := func(thread *data.Thread, id string, created int, change func(*data.Run)) int64 {
		run := f.runOf(t, thread, id, data.Completed)
		run.CreatedAt, run.FinishedAt = at(created), new(at(created))
		change(run)
		rows := []data.Row{run, named(run)}
		if run.Status != data.Queued {
			rows = append(rows, data.EndOf(&run.RunHead))
		}
		f.put(t, rows...)
		return run.Key
	}
	says := func(text string) func(*data.Run) { return func(r *data.Run) { r.InputQuery = text } }
	a := put(thread, "alpha", 1, says("Please DEPLOY it"))
	b := put(other, "beta", 2, func(r *data.Run) { r.InputQuery, r.OutputSummary = "nothing", new("Everything is deployed") })
	c := put(other, "deploy", 3, says("天気予報 is something"))
	d := put(other, "delta", 4, func(r *data.Run) {
		r.Status, r.Error = data.Failed, &agui.OutputError{Code: "tool_failed", Message: "could not deploy"}
	})
	e := put(other, "epsilon", 5, func(r *data.Run) {
		r.Status, r.FinishedAt, r.Metadata = data.Queued, nil, json.RawMessage(`{"tags": ["red", "it's \\ 'x'"], "env": "prod & \"test\"", "n": 3}`)
	})
	g := put(thread, "gamma", 6, func(r *data.Run) { r.Metadata = json.RawMessage(`{"tags": ["red"], "env": "prod"}`) })
	put(foreign, "foreign", 7, func(r *data.Run) {
		r.InputQuery, r.Metadata = "deploy", json.RawMessage(`{"tags": ["red"], "env": "prod"}`)
	})
	large := put(other, "large", 8, says("first "+strings.Repeat("all ", 20_000)+"last"))
	f.rollUp(t)
	many := []data.Status{data.Completed, data.Failed}
	cases := []termsCase{
		{data.RunFilter{Text: "deploy"}, []int64{d, c, b, a}},
		{data.RunFilter{Text: "deploy", Oldest: true}, []int64{a, b, c, d}},
		{data.RunFilter{Text: "deploy", User: "ann"}, []int64{a}},
		{data.RunFilter{Text: "deploy", Statuses: []data.Status{data.Failed}}, []int64{d}},
		{data.RunFilter{Text: "deploy", Statuses: many, User: "bob", Since: at(2), Until: at(4)}, []int64{c, b}},
		{data.RunFilter{Text: "deploy", Since: at(100)}, nil},
		{data.RunFilter{Text: "deploy", Until: at(2)}, []int64{a}},
		{data.RunFilter{Text: "deploy", ThreadKey: other.Key}, []int64{d, c, b}},
		{data.RunFilter{Text: "deploy", Agent: "echo", Oldest: true}, []int64{a, b, c, d}},
		{data.RunFilter{Text: "deploy", WorkflowID: "flow"}, nil},
		{data.RunFilter{Text: "deploy it"}, []int64{a}},
		{data.RunFilter{Text: "IT depl"}, []int64{a}},
		{data.RunFilter{Text: "it's deploy"}, nil},
		{data.RunFilter{Text: "über wolk"}, []int64{g, a}},
		{data.RunFilter{Text: "night"}, []int64{g, a}},
		{data.RunFilter{Text: "BETA"}, []int64{b}},
		{data.RunFilter{Text: "tool_failed"}, []int64{d}},
		{data.RunFilter{Text: "天気"}, []int64{c}},
		{data.RunFilter{Text: "予"}, []int64{c}},
		{data.RunFilter{Text: "first"}, []int64{large}},
		{data.RunFilter{Text: "last"}, nil},
		{data.RunFilter{Text: "no such thing"}, nil},
		{data.RunFilter{Text: `!'"*\`}, nil},
		{data.RunFilter{Text: "foreign"}, nil},
		{data.RunFilter{Tags: []string{"red"}}, []int64{g, e}},
		{data.RunFilter{Tags: []string{"red", `it's \ 'x'`}}, []int64{e}},
		{data.RunFilter{Tags: []string{"red"}, Statuses: []data.Status{data.Queued}}, []int64{e}},
		{data.RunFilter{Tags: []string{"red"}, Text: "night", User: "ann"}, []int64{g}},
		{data.RunFilter{Metadata: map[string]string{"env": "prod"}}, []int64{g}},
		{data.RunFilter{Metadata: map[string]string{"env": `prod & "test"`, "n": "3"}, Tags: []string{"red"}}, []int64{e}},
		{data.RunFilter{Metadata: map[string]string{"tags": "red"}}, nil},
		{data.RunFilter{Text: "gamma", Tags: []string{"red"}, Metadata: map[string]string{"env": "prod"}}, []int64{g}},
		{data.RunFilter{Text: "gamma", Tags: []string{"blue"}, Oldest: true}, nil},
		{data.RunFilter{Text: "gamma", Metadata: map[string]string{"env": "test"}}, nil},
	}
	for _, test := range cases {
		test.check(t, f)
	}
	f.put(t, &data.Delete{ThreadKey: other.Key, RunKey: c, Limit: 1000}, &data.Delete{ThreadKey: other.Key, RunKey: b, Limit: 1000})
	termsCase{data.RunFilter{Text: "deploy"}, []int64{d, a}}.check(t, f)
	again := put(other, "deploy", 9, says(""))
	termsCase{data.RunFilter{Text: "deploy"}, []int64{again, d, a}}.check(t, f)
	f.rollUp(t)
	termsCase{data.RunFilter{Text: "deploy"}, []int64{again, d, a}}.check(t, f)
}

type termsCase struct {
	filter data.RunFilter
	want   []int64
}

// check reads the list as one page and as pages of one run.
func (c termsCase) check(t *testing.T, f *fixture) {
	t.Helper()
	for _, c.filter.Limit = range []int{10, 1} {
		filter, got := c.filter, []int64(nil)
		filter.Project, filter.Count = "project", true
		for more := true; more; {
			p, err := f.ByProject().Runs(t.Context(), filter)
			if err != nil {
				t.Fatalf("%+v: %v", filter, err)
			}
			if !p.Counted || p.Total != len(c.want) {
				t.Errorf("%+v counts %d runs (%v), want %d", filter, p.Total, p.Counted, len(c.want))
			}
			for _, key := range keys(p.Rows) {
				got, filter.BeforeKey = append(got, key), key
			}
			more = p.More
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v lists %v, want %v", c.filter, got, c.want)
		}
	}
}

// testRunsTermsFollow finds a run by its input as soon as it is stored, and by its answer once its end was counted.
func testRunsTermsFollow(t *testing.T, f *fixture) {
	run := f.runOf(t, f.newThread(t, "ann", "main"), "run", data.Queued)
	run.InputQuery = "question"
	f.put(t, run, named(run))
	find := func(text string, want ...int64) {
		t.Helper()
		termsCase{data.RunFilter{Text: text}, want}.check(t, f)
	}
	find("question", run.Key)
	for _, answer := range []string{"first", "second"} {
		run.Status, run.FinishedAt = data.Completed, new(at(1))
		f.put(t, &run.RunHead, &data.RunResult{Key: run.Key, OutputSummary: &answer}, data.EndOf(&run.RunHead))
		f.rollUp(t)
		find(answer, run.Key)
		find("question", run.Key)
	}
	find("first")
}
