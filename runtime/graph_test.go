package runtime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/graph"
	"github.com/batonrun/baton/storage"
)

func TestExpressionsAreCheckedAtStart(t *testing.T) {
	t.Parallel()
	db, err := storage.Open(t.Context(), storage.Config{URL: "sqlite:" + t.TempDir() + "/baton.db", Migrate: true})
	must(t, err)
	defer db.Close()
	for expr, want := range map[string]string{
		`nodes.a.answer == "x"`:                       "",
		`nodes.c.status == "SKIPPED" and query != ""`: "", // the nodes that a needed node needs have ended, too
		`nodes.a.output.deep.down[0] == 1`:            "",
		`state.whatever.there?.is in ["a"]`:           "",
		`nodes["a"].answer contains "x"`:              "",
		`nodes.a.answr == "x"`:                        "answr",
		`nodes.mistyped.answer == "x"`:                "mistyped",
		`nodes.sibling.answer == "x"`:                 "sibling", // no node waits for it
		`nodes.self.answer == "x"`:                    "self",
		`querry == "x"`:                               "querry",
		`nodes.a.answer`:                              "bool",
		`nodes.a.answer > 1`:                          "mismatched",
	} {
		reg := new(host.Registry)
		err := reg.Add(answering("worker", strings.ToUpper), plugins.Workflow{Name: "flow", Nodes: []plugins.Node{
			{ID: "c", Agent: "worker"},
			{ID: "a", Agent: "worker", Needs: []string{"c"}},
			{ID: "sibling", Agent: "worker"},
			{ID: "self", Agent: "worker", Needs: []string{"a"}, When: expr},
		}})
		must(t, err)
		_, err = runtime.New(runtime.Config{Store: db, Registry: reg})
		if (want == "") != (err == nil) || want != "" && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", expr, err, want)
		}
	}
}

func TestExpressions_FailTheirRun(t *testing.T) {
	t.Parallel()
	bad := func(name, when, input string) plugins.Workflow {
		return plugins.Workflow{Name: name, Nodes: []plugins.Node{{ID: "a", Agent: "worker", When: when, Input: input}}}
	}
	b := open(t, runtime.Config{}, answering("worker", strings.ToUpper),
		bad("flag", `state.flag`, ""), bad("bytes", "", `replace(query, "x", state.text)`), bad("steps", `all(1..1000000, count(1..100, # > 0) > 0)`, ""), bad("value", "", `{"out": int(state.text)}`), bad("encoded", "", `1 / 0`))
	for _, test := range []struct{ workflow, flag, code string }{
		{"flag", `true`, ""}, {"flag", `null`, ""}, {"flag", `7`, "bad_condition"}, {"steps", `1`, "bad_condition"}, {"bytes", `1`, "bad_input"}, {"value", `1`, "bad_input"}, {"encoded", `1`, "bad_input"},
	} {
		s := b.request(runtime.StartRequest{
			WorkflowID: test.workflow, Messages: user(strings.Repeat("x", 1000)), State: []byte(`{"flag":` + test.flag + `,"text":"` + strings.Repeat("y", 20_000) + `"}`),
		})
		run := b.wait(s.RunID, runtime.Failed, runtime.Completed)
		if test.code == "" != (run.Error == nil) || run.Error != nil && (run.Error.Code != test.code || strings.Contains(run.Error.Message, "yyy")) {
			t.Errorf("%s: %+v", test.workflow, run.Error)
		}
	}
}

// A person approves the id that the tool gets.
func TestExpressions_KeepIntegers(t *testing.T) {
	t.Setenv("BATON_TEST_SECRET", "s3cr3t")
	args := make(chan string, 1)
	pay := tool{plugins.Info{Name: "pay"}, func(_ context.Context, c *plugins.Call) (agui.ToolOutput, error) {
		args <- string(c.Args)
		return agui.ToolOutput{ResultSummary: "paid"}, nil
	}}
	b := open(t, runtime.Config{}, pay, plugins.Workflow{Name: "flow", Nodes: []plugins.Node{
		{ID: "a", Tool: "pay", Approval: true, When: `state.id == 9007199254740993 and "${BATON_TEST_SECRET}" != query`, Input: `{"id": state.id, "text": string(state.n)}`},
	}})
	s := b.request(runtime.StartRequest{WorkflowID: "flow", Messages: user("x"), State: []byte(`{"id":9007199254740993,"n":1234567}`)})
	b.wait(s.RunID, runtime.Waiting)
	const want = `{"id":9007199254740993,"text":"1234567"}`
	asked, err := b.Runs.Interrupts(t.Context(), local, s.RunID)
	if err != nil || len(asked) != 1 || !strings.Contains(fmt.Sprintf("%+s", asked[0].Metadata), want) {
		t.Fatalf("%v, the approval shows %+v", err, asked)
	}
	if _, err := b.Resume(t.Context(), local, s.RunID, []agui.ResumeEntry{{InterruptID: asked[0].ID, Status: "resolved", Payload: []byte(`{"approved":true}`)}}); err != nil {
		t.Fatal(err)
	}
	run := b.wait(s.RunID, runtime.Completed)
	if got := <-args; got != want {
		t.Errorf("the tool gets %s, want %s", got, want)
	}
	definition, err := b.Runs.Workflow(t.Context(), local, run.ID)
	if text := fmt.Sprintf("%+v", definition); err != nil || !strings.Contains(text, "${BATON_TEST_SECRET}") || strings.Contains(text, "s3cr3t") {
		t.Errorf("%v, the definition is %s", err, text)
	}
}

// The expressions of a map, and those that see it, are checked with the types that schemas say.
func TestExpressions_OfMapsAreChecked(t *testing.T) {
	t.Parallel()
	schema := func(properties string) json.RawMessage {
		return json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{` + properties + `}}`)
	}
	act := func(context.Context, *plugins.Call) (agui.ToolOutput, error) { return agui.ToolOutput{}, nil }
	plan := tool{plugins.Info{Name: "plan", Output: schema(`"topics":{"type":"array","items":` + string(schema(`"id":{},"url":{}`)) + `},"name":{"type":"object","properties":{}}`)}, act}
	read := tool{plugins.Info{Name: "read", Output: schema(`"text":{}`)}, act}
	for _, test := range []struct {
		m           plugins.Map
		input, when string
		want        string
	}{
		{plugins.Map{Over: "p.output.topics", As: "topic", Key: "topic.id"}, `{url: topic.url}`, `r.items[0].text == 1 and r.output[0].text == 1 and r.errors[0].code == "x"`, ""},
		{plugins.Map{Over: "state.topics"}, `{url: item.url.deep}`, `nodes.r.items[0].text == 1`, ""},
		{plugins.Map{Over: `map(p.output.topics, #.id)`}, `{n: item.n}`, ``, ""},
		{plugins.Map{Over: "p.output.topics"}, `{url: item.uri}`, ``, "uri"},
		{plugins.Map{Over: "p.output.topics", Key: "item.key"}, ``, ``, "map: key"},
		{plugins.Map{Over: "p.output.topics"}, ``, `r.items[0].texts == 1`, "texts"},
		{plugins.Map{Over: "p.output.topics"}, ``, `r.errors[0].text == "x"`, "text"},
		{plugins.Map{Over: "p.output.topics"}, ``, `r.output.text == 1`, "text"},
		{plugins.Map{Over: "p.output.name"}, ``, ``, "want a list"},
		{plugins.Map{Over: "query"}, ``, ``, "want a list"},
		{plugins.Map{Over: "[1]", As: "state"}, ``, ``, "cannot be called state"},
		{plugins.Map{Over: "[1]", As: "p"}, ``, ``, "cannot be called p"},
		{plugins.Map{Over: "[1]", As: "filter"}, ``, ``, "cannot be called filter"},
		{plugins.Map{Over: "[1]"}, ``, `p.items == 1`, "items"}, // p has no map
	} {
		reg := new(host.Registry)
		must(t, reg.Add(plan, read, plugins.Workflow{Name: "flow", Nodes: []plugins.Node{
			{ID: "p", Tool: "plan"}, {ID: "r", Tool: "read", Needs: []string{"p"}, Map: &test.m, Input: test.input}, {ID: "end", Tool: "read", Needs: []string{"r"}, When: test.when},
		}}))
		_, err := graph.Compile(reg)
		if (test.want == "") != (err == nil) || test.want != "" && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v %s %s: %v, want %q", test.m, test.input, test.when, err, test.want)
		}
	}
	for _, m := range []plugins.Map{{}, {Over: "[1]", As: "a-b"}, {Over: "[1]", Max: 101}, {Over: "[1]", OnError: "go on"}} {
		if err := new(host.Registry).Add(plugins.Workflow{Name: "flow", Nodes: []plugins.Node{{ID: "r", Tool: "read", Map: &m}}}); err == nil {
			t.Errorf("a workflow has the map %+v", m)
		}
	}
}

// The error of a failed node is not that of its siblings.
func TestSiblingsOfAFailedNodeAreCancelled(t *testing.T) {
	t.Parallel()
	writing := make(chan struct{})
	sibling := agent{"sibling", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if _, err := run.Text().Write([]byte("half")); err != nil {
			return agui.WorkerOutput{}, err
		}
		close(writing)
		return agui.WorkerOutput{}, hang(ctx)
	}}
	bad := agent{"bad", func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
		<-writing
		return agui.WorkerOutput{}, &plugins.Error{Code: "sick", Message: "I am ill"}
	}}
	b := open(t, runtime.Config{}, sibling, bad, plugins.Workflow{Name: "flow", Nodes: []plugins.Node{
		{ID: "a", Agent: "sibling"}, {ID: "b", Agent: "bad"}, {ID: "c", Agent: "bad", Needs: []string{"a"}},
	}})
	s := b.startWorkflow("main", "flow", "x")
	if run := b.wait(s.RunID, runtime.Failed); run.Error.Code != "sick" {
		t.Errorf("error %+v", run.Error)
	}
	recs := b.log("main")
	checkLog(t, recs)
	for _, r := range recs {
		if end, ok := r.Event.(agui.TextMessageEnd); ok && (end.Output.Status != agui.StatusPartialSuccess || end.Output.Error != nil) {
			t.Errorf("the sibling's message ends as %+v", end.Output)
		}
	}
}

func TestAgentsCallEachOtherOnlySoDeep(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, agent{"mirror", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		_, err := run.CallAgent(ctx, "mirror", run.Input.Query)
		return agui.WorkerOutput{}, err
	}})
	s := b.start("main", "mirror", "x")
	if run := b.wait(s.RunID, runtime.Failed); run.Error.Code != "too_deep" {
		t.Errorf("error %+v", run.Error)
	}
	checkLog(t, b.log("main"))
}
