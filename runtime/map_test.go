package runtime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// topics is a workflow that reads each topic of the state and reports the answers.
func topics(m plugins.Map, read plugins.Node) plugins.Workflow {
	if m.Over == "" {
		m.Over = "state.topics"
	}
	read.ID, read.Agent, read.Map = "read", "reader", &m
	return plugins.Workflow{Name: "flow", Nodes: []plugins.Node{read, {
		ID: "report", Agent: "reporter", Needs: []string{"read"},
		Input: "string({items: read.items, errors: read.errors, output: len(read.output), status: read.status, answer: nodes.read.answer})",
	}}}
}

var reporter = answering("reporter", func(q string) string { return q })

// mapped starts the workflow over topics.
func (b *bench) mapped(topics string) runtime.Started {
	b.t.Helper()
	return b.request(runtime.StartRequest{WorkflowID: "flow", ThreadID: "main", Messages: user("x"), State: []byte(`{"topics":` + topics + `}`)})
}

// items returns the steps of the map, as their item, execution and status.
func (b *bench) items(run string) (list []string) {
	b.t.Helper()
	steps, err := rows(b.Runs.Steps(b.t.Context(), local, run, "read", 0, 100))
	must(b.t, err)
	for _, st := range steps {
		if st.Item == nil || st.Name != fmt.Sprintf("read[%d]", st.Item.Index) {
			b.t.Fatalf("the step %+v", st)
		}
		list = append(list, fmt.Sprintf("%s#%d %s", st.Item.Key, st.Execution, st.Status))
	}
	slices.Sort(list)
	return list
}

// state returns the state of the map.
func (b *bench) state(run string) string {
	b.t.Helper()
	nodes, err := b.Runs.Nodes(b.t.Context(), local, run)
	must(b.t, err)
	for _, n := range nodes {
		if n.NodeID == "read" && n.Map != nil {
			return fmt.Sprintf("%s %d/%d/%d", n.Status, n.Map.Items, n.Map.Done, n.Map.Failed)
		}
	}
	return ""
}

// A map executes its node for each item, in the order of the list, with at most Max at once. Later nodes see the outputs and the errors.
func TestMap_Outputs(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	now, most := 0, 0
	reader := agent{"reader", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		<-time.After(time.Duration(20-len(run.Input.Query)) * time.Millisecond)
		mu.Lock()
		now--
		mu.Unlock()
		switch q := run.Input.Query; {
		case q == "bad":
			return agui.WorkerOutput{}, &plugins.Error{Code: "sick", Message: "I am ill"}
		case q == "busy" && run.Input.Execution == 1:
			return agui.WorkerOutput{}, &plugins.Error{Message: "later", Retryable: true}
		default:
			out, _ := json.Marshal(map[string]string{"read": q})
			return agui.WorkerOutput{Answer: "read " + q, Result: out}, nil
		}
	}}
	for _, test := range []struct {
		onError, topics, status, state, report string
		steps                                  []string
	}{
		{
			"", `[{"id":"a","url":"one"},{"id":7,"url":"busy"},{"id":"c","url":"three"}]`, "COMPLETED", "COMPLETED 3/3/0",
			`{"answer":"read one\n\nread busy\n\nread three","errors":[],"items":[{"read":"one"},{"read":"busy"},{"read":"three"}],"output":3,"status":"success"}`,
			[]string{"7#1 FAILED", "7#2 COMPLETED", "a#1 COMPLETED", "c#1 COMPLETED"},
		},
		{
			plugins.CollectErrors, `[{"id":"a","url":"one"},{"id":"b","url":"bad"},{"id":"c"},{"id":"d","url":"three"}]`, "COMPLETED", "COMPLETED 4/2/2",
			`{"answer":"read one\n\nread three","errors":[{"code":"sick","index":1,"key":"b","message":"I am ill"},` +
				`{"code":"bad_input","index":2,"key":"c","message":"Node read: the input mapping failed: invalid argument for lower (type nil) (1:1)"}],` +
				`"items":[{"read":"one"},null,null,{"read":"three"}],"output":4,"status":"partial_success"}`,
			[]string{"a#1 COMPLETED", "b#1 FAILED", "d#1 COMPLETED"},
		},
		{
			plugins.SkipErrors, `[{"id":"a","url":"bad"},{"id":"b","url":"one"}]`, "COMPLETED", "COMPLETED 2/1/1",
			`{"answer":"read one","errors":[{"code":"sick","index":0,"key":"a","message":"I am ill"}],"items":[{"read":"one"}],"output":1,"status":"partial_success"}`,
			[]string{"a#1 FAILED", "b#1 COMPLETED"},
		},
		{"", `[]`, "COMPLETED", "COMPLETED 0/0/0", `{"answer":"","errors":[],"items":[],"output":0,"status":"success"}`, nil},
	} {
		b := open(t, runtime.Config{}, reader, reporter, topics(
			plugins.Map{As: "topic", Key: "topic.id", Max: 2, OnError: test.onError},
			plugins.Node{Input: "lower(topic.url)", Retry: plugins.Retry{Retries: 1, Initial: time.Millisecond}}))
		run := b.wait(b.mapped(test.topics).RunID, runtime.Completed)
		if got := *run.OutputSummary; got != test.report {
			t.Errorf("%s: report\n%s, want\n%s", test.topics, got, test.report)
		}
		if got := b.state(run.ID); got != test.state {
			t.Errorf("%s: the node is %q, want %q", test.topics, got, test.state)
		}
		if got := b.items(run.ID); !slices.Equal(got, test.steps) {
			t.Errorf("%s: steps %q, want %q", test.topics, got, test.steps)
		}
		checkLog(t, b.log("main"))
	}
	if most != 2 {
		t.Errorf("%d items at once, want 2", most)
	}
}

// A map that cannot begin fails its run, as does an item of a map that tolerates none. The other items are stopped.
func TestMap_Failures(t *testing.T) {
	t.Parallel()
	good, long := make(chan struct{}), strings.Repeat("x", 1<<20)
	reader := agent{"reader", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		switch run.Input.Query {
		case "bad":
			<-good
			return agui.WorkerOutput{}, &plugins.Error{Code: "sick", Message: "I am ill"}
		case "long":
			return agui.WorkerOutput{Answer: long}, nil
		}
		close(good)
		return agui.WorkerOutput{}, hang(ctx)
	}}
	for _, test := range []struct{ topics, code, state string }{
		{`7`, "bad_map", ""},
		{`null`, "bad_map", ""},
		{`[{"id":1,"url":"x"},{"id":"1","url":"y"}]`, "equal_keys", ""},
		{`[{"id":null}]`, "bad_map", ""},
		{`[` + strings.TrimSuffix(strings.Repeat(`{"id":"x"},`, 101), ",") + `]`, "too_many_items", ""},
		{`[{"id":1,"url":"good"},{"id":2,"url":"bad"},{"id":3,"url":"never"}]`, "sick", "FAILED 3/0/0"},
		{`[{"id":1,"url":7}]`, "bad_input", ""},
		{`[{"id":1,"url":"long"},{"id":2,"url":"long"},{"id":3,"url":"long"},{"id":4,"url":"long"}]`, "map_too_large", "FAILED 4/4/0"},
	} {
		b := open(t, runtime.Config{}, reader, reporter, topics(plugins.Map{As: "topic", Key: "topic.id", Max: 2}, plugins.Node{Input: "lower(topic.url)"}))
		run := b.wait(b.mapped(test.topics).RunID, runtime.Failed)
		if run.Error.Code != test.code {
			t.Errorf("%.40s: %+v, want %s", test.topics, run.Error, test.code)
		}
		if got := b.state(run.ID); got != test.state {
			t.Errorf("%.40s: the node is %q, want %q", test.topics, got, test.state)
		}
		if want := []string{"1#1 CANCELLED", "2#1 FAILED"}; test.code == "sick" && !slices.Equal(b.items(run.ID), want) {
			t.Errorf("steps %q, want %q", b.items(run.ID), want)
		}
		checkLog(t, b.log("main"))
	}
}

// After a crash the list is the recorded one, and only the items are executed that have not ended.
func TestMap_GoesOnAfterACrash(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, path string) {
		t.Parallel()
		var mu sync.Mutex
		calls := make(map[string]int)
		dead, hangs := make(chan struct{}), make(chan struct{}, 10)
		reader := agent{"reader", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			q := run.Input.Query
			mu.Lock()
			calls[q]++
			first := calls[q] == 1
			mu.Unlock()
			if first && (q == "c" || q == "d") {
				if err := run.State(map[string]any{"topics": []string{"other"}}); err != nil {
					return agui.WorkerOutput{}, err
				}
				hangs <- struct{}{}
				<-dead
				return agui.WorkerOutput{}, hang(ctx)
			}
			if q == "b" {
				return agui.WorkerOutput{}, &plugins.Error{Code: "sick", Message: "I am ill"}
			}
			return agui.WorkerOutput{Answer: "read " + q}, nil
		}}
		b := openAt(t, path, runtime.Config{}, reader, reporter, topics(plugins.Map{Max: 2, OnError: plugins.SkipErrors}, plugins.Node{}))
		s := b.mapped(`["a","b","c","d","e"]`)
		<-hangs
		<-hangs
		b.until("two items have ended", func() bool { return b.state(s.RunID) == "RUNNING 5/1/1" })
		b.crash()
		close(dead)
		run := b.wait(s.RunID, runtime.Completed)
		if got := b.state(run.ID); got != "COMPLETED 5/4/1" {
			t.Errorf("the node is %q", got)
		}
		if !strings.Contains(*run.OutputSummary, `"answer":"read a\n\nread c\n\nread d\n\nread e"`) || !strings.Contains(*run.OutputSummary, `"index":1,"key":"1"`) {
			t.Errorf("the report is %s", *run.OutputSummary)
		}
		mu.Lock()
		defer mu.Unlock()
		if got := fmt.Sprint(calls); got != "map[a:1 b:1 c:2 d:2 e:1]" {
			t.Errorf("the items were called %s", got)
		}
		checkLog(t, b.log("main"))
	})
}

// Items ask beside each other and sleep: each answer is taken by itself, and a waiting item keeps its place.
func TestMap_ItemsAskAndSleep(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, path string) {
		t.Parallel()
		reader := agent{"reader", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			if run.Input.Query == "nap" {
				return agui.WorkerOutput{Answer: "slept"}, run.Sleep(ctx, 2500*time.Millisecond)
			}
			a, err := run.Ask(ctx, agui.Interrupt{Message: run.Input.Query})
			return agui.WorkerOutput{Answer: run.Input.Query + string(a.Payload)}, err
		}}
		b := openAt(t, path, runtime.Config{}, reader, reporter, topics(plugins.Map{Max: 3}, plugins.Node{}))
		s := b.mapped(`["a","nap","b","c"]`)
		b.wait(s.RunID, runtime.Waiting)
		asked := func(want string) []agui.Interrupt {
			t.Helper()
			var list []agui.Interrupt
			b.until("the questions "+want, func() bool {
				var err error
				list, err = b.Runs.Interrupts(t.Context(), local, s.RunID)
				must(t, err)
				var names []string
				for _, in := range list {
					names = append(names, in.Message)
				}
				slices.Sort(names)
				return strings.Join(names, "") == want
			})
			return list
		}
		asked("ab")
		b.restart()
		asked("abc") // nap has ended, and made room
		if got := b.state(s.RunID); got != "WAITING 4/1/0" {
			t.Errorf("the node is %q", got)
		}
		for _, in := range asked("abc") {
			_, err := b.Resume(t.Context(), local, s.RunID, []agui.ResumeEntry{{InterruptID: in.ID, Status: "resolved", Payload: []byte("1")}})
			must(t, err)
		}
		run := b.wait(s.RunID, runtime.Completed)
		if !strings.Contains(*run.OutputSummary, `"answer":"a1\n\nslept\n\nb1\n\nc1"`) {
			t.Errorf("the report is %s", *run.OutputSummary)
		}
		checkLog(t, b.log("main"))
	})
}

// One approval stands before all items.
func TestMap_Approval(t *testing.T) {
	t.Parallel()
	for _, approved := range []bool{true, false} {
		var mu sync.Mutex
		calls := 0
		reader := agent{"reader", func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
			mu.Lock()
			defer mu.Unlock()
			calls++
			return agui.WorkerOutput{Answer: "read"}, nil
		}}
		b := open(t, runtime.Config{}, reader, reporter, topics(plugins.Map{}, plugins.Node{
			Approval: true, Approver: plugins.Approver{Message: "'Read ' + string(len(state.topics)) + '?'"},
		}))
		s := b.mapped(`["a","b"]`)
		b.wait(s.RunID, runtime.Waiting)
		b.restart()
		if calls > 0 {
			t.Error("an item is executed before the approval")
		}
		b.reply(s.RunID, func(in agui.Interrupt) string {
			if in.Message != "Read 2?" || !strings.Contains(string(in.Metadata), `\"input\":\"b\"`) {
				t.Errorf("the question is %s %s", in.Message, in.Metadata)
			}
			return fmt.Sprintf(`{"approved":%t}`, approved)
		})
		run := b.wait(s.RunID, runtime.Completed, runtime.Failed)
		if want := map[bool]string{true: "COMPLETED 2/2/0", false: "FAILED 2/0/0"}[approved]; b.state(run.ID) != want {
			t.Errorf("the node is %q, want %q", b.state(run.ID), want)
		}
		if approved != (calls == 2) || !approved && run.Error.Code != "denied" {
			t.Errorf("approved %t: %d calls, %+v", approved, calls, run.Error)
		}
		checkLog(t, b.log("main"))
	}
}

// A cancel stops all items, and nothing begins after it.
func TestMap_Cancel(t *testing.T) {
	t.Parallel()
	began := make(chan struct{}, 10)
	reader := agent{"reader", func(ctx context.Context, _ *plugins.Run) (agui.WorkerOutput, error) {
		began <- struct{}{}
		return agui.WorkerOutput{}, hang(ctx)
	}}
	b := open(t, runtime.Config{}, reader, reporter, topics(plugins.Map{Max: 2, OnError: plugins.CollectErrors}, plugins.Node{}))
	s := b.mapped(`["a","b","c"]`)
	<-began
	<-began
	b.cancel(s.RunID)
	b.wait(s.RunID, runtime.Cancelled)
	if got, steps := b.state(s.RunID), b.items(s.RunID); got != "CANCELLED 3/0/0" || !slices.Equal(steps, []string{"0#1 CANCELLED", "1#1 CANCELLED"}) {
		t.Errorf("the node is %q, the steps %q", got, steps)
	}
	checkLog(t, b.log("main"))
}

// A rerun from a later node keeps a map with its steps; one from the map, and a later generation, execute it anew.
func TestMap_Rerun(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	calls := 0
	reader := agent{"reader", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		mu.Lock()
		defer mu.Unlock()
		calls++
		return agui.WorkerOutput{Answer: run.Input.Query}, nil
	}}
	b := open(t, runtime.Config{}, reader, reporter, topics(plugins.Map{}, plugins.Node{}))
	first := b.wait(b.mapped(`["a","b"]`).RunID, runtime.Completed)
	for from, want := range map[string]int{"report": 2, "read": 4} {
		calls = 2
		req, err := b.Rerun(t.Context(), local, local, first.ID, runtime.RerunRequest{FromNode: from})
		must(t, err)
		run := b.wait(b.request(req).RunID, runtime.Completed)
		if calls != want || *run.OutputSummary != *first.OutputSummary || b.state(run.ID) != "COMPLETED 2/2/0" || len(b.items(run.ID)) != 2 {
			t.Errorf("from %s: %d calls, %s, %s, %q", from, calls, *run.OutputSummary, b.state(run.ID), b.items(run.ID))
		}
	}
	b.appended(first.ID, "again")
	b.wait(first.ID, runtime.Completed)
	b.until("the second generation", func() bool {
		run := b.wait(first.ID, runtime.Queued, runtime.Running, runtime.Completed)
		return run.Generation == 2 && run.Status == runtime.Completed
	})
	if got := b.items(first.ID); len(got) != 4 || b.state(first.ID) != "COMPLETED 2/2/0" {
		t.Errorf("the second generation has %q, %q", b.state(first.ID), got)
	}
}
