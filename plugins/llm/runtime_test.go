package llm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// Two approvals of one tool in one turn are two questions with separate answers, also after a restart.
func TestTools_ApprovalsAreSeparate(t *testing.T) {
	t.Parallel()
	gate := tool{plugins.Info{Name: "gate", Approval: true}, func(_ context.Context, call *plugins.Call) (string, error) {
		return "did " + string(call.Args), nil
	}}
	m := &model{replies: []reply{asks("", `gate {"n":1}`, `gate {"n":2}`, `gate {"n":3}`), says("done")}}
	b := open(t, assistant(t, m), gate)
	s := b.start("go")
	b.wait(s.RunID, runtime.Waiting)
	b.crash()
	asked, err := b.Runs.Interrupts(context.Background(), local, s.RunID)
	if err != nil || len(asked) != 3 {
		t.Fatalf("asked %+v, %v", asked, err)
	}
	answers := map[string]string{`{"n":1}`: `{"approved":true}`, `{"n":2}`: `{"approved":false}`, `{"n":3}`: `{"approved":true,"editedArgs":{"n":4}}`}
	var entries []agui.ResumeEntry
	for _, q := range slices.Backward(asked) {
		var shows struct{ Input json.RawMessage }
		if err := json.Unmarshal(q.Metadata, &shows); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, agui.ResumeEntry{InterruptID: q.ID, Status: "resolved", Payload: json.RawMessage(answers[string(shows.Input)])})
	}
	if _, err := b.Resume(context.Background(), local, s.RunID, entries); err != nil {
		t.Fatal(err)
	}
	b.wait(s.RunID, runtime.Completed)
	want := "calls gate{\"n\":1} = did {\"n\":1}\ncalls gate{\"n\":2} = denied\ncalls gate{\"n\":3} = did {\"n\":4}\nassistant done"
	if diff := cmp.Diff(want, shown(b.events())); diff != "" || m.calls() != 2 {
		t.Errorf("%d calls, %s", m.calls(), diff)
	}
	b.wait(b.start("and now?").RunID, runtime.Waiting)
	for _, call := range []int{2, 3} { // the edit is visible in this turn and in later ones
		told := m.request(call)
		if strings.Count(told, "arguments of this call were changed") != 1 || !strings.Contains(told, "were changed to {\"n\":4} before it was made.\ndid {\"n\":4}") {
			t.Errorf("call %d of the model was told\n%s", call, told)
		}
	}
}

// Calls of a client's tool with invalid arguments fail without reaching the client, and also if the schema takes too long
// to check.
func TestClientTools_ArgumentsAreValidated(t *testing.T) {
	t.Parallel()
	m := &model{replies: []reply{
		asks("", `pick {"of": "two"}`, `pick {}`, `slow {"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{}}}}}}}}}}}}}}}}}}}`),
		asks("", `pick {"of": 2}`), says("done"),
	}}
	b := open(t, assistant(t, m))
	s := b.start("go",
		agui.Tool{Name: "pick", Parameters: json.RawMessage(`{"type":"object","properties":{"of":{"type":"integer"}},"required":["of"]}`)},
		agui.Tool{Name: "slow", Parameters: json.RawMessage(`{"$defs":{"n":{"anyOf":[{"properties":{"a":{"$ref":"#/$defs/n"}},"required":["b"]},{"properties":{"a":{"$ref":"#/$defs/n"}},"required":["c"]}]}},"$ref":"#/$defs/n"}`)},
	)
	answer := func(want string) {
		b.wait(s.RunID, runtime.Waiting)
		asked, err := b.Runs.Interrupts(context.Background(), local, s.RunID)
		if err != nil || len(asked) != 1 {
			t.Fatalf("asked %+v, %v", asked, err)
		}
		resume := []agui.ResumeEntry{{InterruptID: asked[0].ID, Status: "resolved", Payload: json.RawMessage(`"` + want + `"`)}}
		if _, err := b.Resume(context.Background(), local, s.RunID, resume); err != nil {
			t.Fatal(err)
		}
	}
	answer("the left one")
	b.wait(s.RunID, runtime.Completed)
	got := m.request(2)
	for _, want := range []string{"got string, want integer", "missing property 'of'", "checking them takes too long"} {
		if !strings.Contains(got, want) {
			t.Errorf("the model does not learn %q:\n%s", want, got)
		}
	}
	if got := m.request(3); !strings.Contains(got, "pick gave the left one") {
		t.Errorf("at last the model gets\n%s", got)
	}
}

// An agent called as a tool writes its own events, its usage counts, and its failure is a result.
func TestTools_IncludeAgents(t *testing.T) {
	t.Parallel()
	m := &model{replies: []reply{asks("", `writer {"query":"a poem"}`, `writer {}`, `broken {"query":"x"}`), says("done")}}
	w := &model{replies: []reply{asks("", "add {}"), says("Roses are red")}}
	writer := newAgent(t, llm.Config{Name: "writer", Description: "writes", Model: w, Tools: []string{"add"}})
	broken := newAgent(t, llm.Config{Name: "broken", Model: &model{fail: failing(99, &llm.Error{Code: "invalid_api_key", Message: "The key is wrong"})}})
	b := open(t, newAgent(t, llm.Config{Model: m, Tools: []string{"writer", "broken"}}), writer, broken, echo("add"))
	s := b.start("go")
	run := b.wait(s.RunID, runtime.Completed)
	if prompt := m.request(2); !strings.Contains(prompt, "writer gave Roses are red") || !strings.Contains(prompt, "invalid_arguments") || !strings.Contains(prompt, "invalid_api_key") {
		t.Errorf("the model is told\n%s", prompt)
	}
	if len(run.Usage) != 1 || run.Usage[0].TotalTokens != 60 || w.request(1) != "human: a poem" {
		t.Errorf("usage %+v, the writer is asked %q", run.Usage, w.request(1))
	}
	b.events()
}

func TestLimits_IncludeCalledAgents(t *testing.T) {
	t.Parallel()
	m := &model{replies: []reply{asks("", `writer {"query":"a poem"}`), says("done")}}
	w := &model{replies: []reply{asks("", "add {}"), says("Roses are red")}}
	writer := newAgent(t, llm.Config{Name: "writer", Model: w, Tools: []string{"add"}})
	b := open(t, newAgent(t, llm.Config{Tokens: 40, Model: m, Tools: []string{"writer"}}), writer, echo("add"))
	run := b.wait(b.start("go").RunID, runtime.Completed)
	if m.calls() != 1 || run.Usage[0].TotalTokens != 45 || !strings.Contains(*run.OutputSummary, "I stopped") {
		t.Errorf("the model was asked %d times, usage %+v, answer %q", m.calls(), run.Usage, *run.OutputSummary)
	}
}

func TestCancel_StopsNestedModelCall(t *testing.T) {
	t.Parallel()
	streaming, closed := make(chan struct{}, 1), make(chan struct{}, 1)
	w := &model{replies: []reply{says("half")}}
	early := agui.TokenUsage{Provider: "p", Model: "w", InputTokens: 700}
	w.replies[0].pieces = append([]llm.Piece{{Usage: &early}}, w.replies[0].pieces...)
	w.replies[0].hold = func(ctx context.Context) error {
		streaming <- struct{}{}
		err := hang(ctx)
		closed <- struct{}{}
		return err
	}
	m := &model{replies: []reply{asks("", `writer {"query":"a poem"}`)}}
	b := open(t, newAgent(t, llm.Config{Model: m, Tools: []string{"writer"}}), newAgent(t, llm.Config{Name: "writer", Model: w}))
	s := b.start("go")
	<-streaming
	if _, err := b.Cancel(context.Background(), local, s.RunID); err != nil {
		t.Fatal(err)
	}
	<-closed
	evs := b.events()
	if end, ok := evs[len(evs)-1].(agui.RunFinished); !ok || end.Outcome.Type != agui.OutcomeCancelled || len(end.Usage) != 2 || end.Usage[1].InputTokens != 700 {
		t.Errorf("the run ends with %+v", evs[len(evs)-1])
	}
	if run := b.wait(s.RunID, runtime.Cancelled); len(run.Usage) != 2 || run.Usage[1].InputTokens != 700 {
		t.Errorf("the run's row has %+v", run.Usage)
	}
	if got := shown(evs); !strings.Contains(got, "assistant half (partial_success)") || !strings.Contains(got, "= cancelled") {
		t.Errorf("shown\n%s", got)
	}
}

// Providers report usage with the complete answer. A user who cancels each run before that is still charged.
func TestUsage_CancelledCallCounts(t *testing.T) {
	t.Parallel()
	streaming := make(chan struct{}, 1)
	m := &model{replies: []reply{says(strings.Repeat("word ", 400))}}
	m.replies[0].resp = llm.Response{}
	m.replies[0].hold = func(ctx context.Context) error {
		streaming <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	b := open(t, newAgent(t, llm.Config{Model: m}))
	s := b.start(strings.Repeat("go on ", 200))
	<-streaming
	if _, err := b.Cancel(context.Background(), local, s.RunID); err != nil {
		t.Fatal(err)
	}
	b.wait(s.RunID, runtime.Cancelled)
	used := func() int64 {
		sums, err := b.Usage(context.Background(), local, runtime.UsageFilter{Since: time.Now(), Until: time.Now()})
		if err != nil || len(sums) > 1 {
			t.Fatal(sums, err)
		}
		for i := range sums {
			return sums[i].Tokens()
		}
		return 0
	}
	for deadline := time.Now().Add(10 * time.Minute); used() == 0 && time.Now().Before(deadline); {
		<-time.After(time.Millisecond)
	}
	if n := used(); n < 700 || n > 1000 {
		t.Errorf("%d tokens are counted, of 1200 bytes of question and 2000 of answer", n)
	}
	before := used()
	b.down(b.Runtime, b.close)
	b.up()
	if n := used(); n != before {
		t.Errorf("%d tokens are counted after a restart, %d before", n, before)
	}
}

// Metrics and traces get the usage that counts for the project.
func TestUsage_ReportedAsCounted(t *testing.T) {
	t.Parallel()
	m := &model{replies: []reply{says(strings.Repeat("word ", 400))}}
	m.replies[0].resp.Usage = agui.TokenUsage{}
	b := open(t, newAgent(t, llm.Config{Model: m}))
	b.down(b.Runtime, b.close)
	calls, counted := make(chan agui.TokenUsage, 1), make(chan agui.TokenUsage, 1)
	b.cfg.Measures.ModelCall = func(c runtime.ModelEnd, _ time.Duration) { calls <- c.Usage }
	b.cfg.Measures.Tokens = func(u agui.TokenUsage) { counted <- u }
	b.up()
	b.wait(b.start("go on").RunID, runtime.Completed)
	if call, tokens := <-calls, <-counted; call != tokens || tokens.OutputTokens < 500 {
		t.Errorf("a call is reported with %+v, and counted with %+v", call, tokens)
	}
}

// A node of a workflow is asked its input. The object of an agent with a schema is that of the node, and the run's result.
func TestAgent_InWorkflow(t *testing.T) {
	t.Parallel()
	first, second := &model{replies: []reply{says(`{"city":"Oslo"}`)}}, &model{replies: []reply{says(`{"city":"Rome"}`)}}
	schema := json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`)
	b := open(t,
		newAgent(t, llm.Config{Name: "first", Model: first, Output: schema}), newAgent(t, llm.Config{Name: "second", Model: second, Output: schema}),
		plugins.Workflow{Name: "flow", Nodes: []plugins.Node{
			{ID: "a", Agent: "first"}, {ID: "b", Agent: "second", Needs: []string{"a"}, Input: `"Not " + a.output.city`},
		}})
	req := runtime.StartRequest{WorkflowID: "flow", ThreadID: "main", Messages: []agui.Message{{Role: agui.RoleUser, Content: "Where?"}}}
	s, err := b.StartRun(t.Context(), local, req)
	if err != nil {
		t.Fatal(err)
	}
	b.wait(s.RunID, runtime.Completed)
	if got := first.request(1); !strings.HasSuffix(got, "human: Where?") {
		t.Errorf("the first node is asked %s", got)
	}
	if got := second.request(1); !strings.HasSuffix(got, "human: Where?\nhuman: Not Oslo") {
		t.Errorf("the second node is asked %s", got)
	}
	evs := b.events()
	if end, _ := evs[len(evs)-1].(agui.RunFinished); string(end.Result) != `{"city":"Rome"}` {
		t.Errorf("the result is %s", end.Result)
	}
}

// While a guard of the output has not decided, nothing of an answer is shown, and text beside calls never is. The next prompt
// has the calls with their results.
func TestAgent_GuardHoldsText(t *testing.T) {
	t.Parallel()
	refuse := plugins.Guard{Name: "g", Check: func(_ context.Context, s plugins.Subject) (plugins.Verdict, error) {
		if s.Output == "fine" {
			return plugins.Verdict{Verdict: plugins.Allow}, nil
		}
		return plugins.Verdict{Verdict: plugins.Refuse, Reason: "no " + s.Output}, nil
	}}
	thinks := says("secret")
	thinks.pieces = append([]llm.Piece{{Reasoning: "hidden"}}, thinks.pieces...)
	m := &model{replies: []reply{asks("beside", `note {"n":1}`), thinks}}
	b := open(t, newAgent(t, llm.Config{Model: m, Tools: []string{"*"}, Guards: plugins.Guards{Output: []plugins.Guard{refuse}}}), echo("note"))
	run := b.wait(b.start("go").RunID, runtime.Failed)
	if run.Error.Code != "guard_refused" || run.Error.Message != "no secret" {
		t.Errorf("the run failed with %+v", run.Error)
	}
	if got := shown(b.events()); strings.Contains(got, "secret\n") || strings.Contains(got, "beside") || strings.Contains(got, "hidden") || !strings.Contains(got, `calls note{"n":1} = {"n":1}`) {
		t.Errorf("shown\n%s", got)
	}
	m.replies = []reply{says("fine")}
	b.wait(b.start("again").RunID, runtime.Completed)
	if got, want := m.request(3), "human: go\nai: note{\"n\":1}\ntool: note gave {\"n\":1}\nhuman: again"; got != want {
		t.Errorf("the next prompt is\n%s\nwant\n%s", got, want)
	}
}

// An agent with a window of 8,000 tokens makes twelve calls of a tool that returns 2 MB, over crashes. Each result is whole in a
// file, on which the model reads on.
func TestResult_LargeOneIsAFile(t *testing.T) {
	t.Parallel()
	const window, calls = 8000, 12
	line := func(n int) string { return fmt.Sprintf("%d is a line\n", n) }
	dump := tool{plugins.Info{Name: "dump", Idempotent: true}, func(_ context.Context, c *plugins.Call) (string, error) {
		var args struct{ N int }
		if err := json.Unmarshal(c.Args, &args); err != nil {
			return "", err
		}
		return strings.Repeat(line(args.N), 2_000_000/len(line(args.N))), nil
	}}
	var made atomic.Int64
	crash := make(chan struct{}, 3)
	noted := regexp.MustCompile(`read_result with id "([^"]+)" reads them`)
	m := &model{}
	m.next = func() reply {
		prompt := m.request(m.calls())
		if tokens := (len(prompt) + 3) / 4; tokens > window {
			t.Errorf("a prompt has %d tokens", tokens)
		}
		n := strings.Count(prompt, "dump{")
		if n > int(made.Swap(int64(n))) && n%4 == 2 {
			crash <- struct{}{}
		}
		switch id := noted.FindAllStringSubmatch(prompt, -1); {
		case n < calls:
			return asks("", fmt.Sprintf(`dump {"n":%d}`, n))
		case !strings.Contains(prompt, "Lines, from line"):
			return asks("", fmt.Sprintf(`read_result {"id":%q,"from":100000,"lines":1}`, id[len(id)-1][1]))
		case !strings.Contains(prompt, "100000: 11 is a line"):
			t.Errorf("the model has read %s", clip(prompt))
		}
		return says("done")
	}
	b := open(t, newAgent(t, llm.Config{Model: m, Tools: []string{"dump"}, ContextTokens: window, Steps: 100}), dump)
	s := b.start("go")
	for range 3 {
		<-crash
		b.crash()
	}
	run := b.wait(s.RunID, runtime.Completed, runtime.Failed)
	if run.Status != runtime.Completed {
		t.Fatalf("the run is %s: %+v", run.Status, run.Error)
	}
	var msgs []runtime.Message
	for more, after := true, int64(0); more; {
		page, err := b.Runs.Messages(t.Context(), local, s.RunID, after, 500)
		if err != nil {
			t.Fatal(err)
		}
		msgs, more = append(msgs, page.Rows...), page.More
		after = msgs[len(msgs)-1].Key
	}
	results := 0
	for i := range msgs {
		r := &msgs[i]
		if r.Role != agui.RoleTool || !strings.Contains(r.Text(), "is a line") || strings.HasPrefix(r.Text(), "Lines") {
			continue
		}
		want := strings.Repeat(line(results), 2_000_000/len(line(results)))
		_, body, err := b.Uploads.OpenResult(t.Context(), local, s.RunID, r.ToolCallID)
		if err != nil {
			t.Fatalf("result %d: %v in %s", results, err, clip(r.Text()))
		}
		got, err := io.ReadAll(body)
		_ = body.Close()
		if err != nil || string(got) != want || len(r.Text()) > 70_000 || !strings.Contains(r.Text(), fmt.Sprintf("has %d bytes", len(want))) {
			t.Errorf("result %d has %d bytes and %d in the log: %v", results, len(got), len(r.Text()), err)
		}
		results++
	}
	if results != calls {
		t.Errorf("%d results, want %d", results, calls)
	}
}
