package runtime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// states returns the states of a run's nodes as words, by their ids.
func (b *bench) states(run string) (words []string) {
	b.t.Helper()
	nodes, err := b.Runs.Nodes(b.t.Context(), local, run)
	must(b.t, err)
	for _, n := range nodes {
		words = append(words, fmt.Sprintf("%s %s", n.NodeID, n.Status))
	}
	return words
}

// flaky returns an agent that fails its first execution, in any process.
func flaky(name string) agent {
	return agent{name, func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if run.Input.Execution == 1 {
			return agui.WorkerOutput{}, &plugins.Error{Code: "busy", Message: "Busy", Retryable: true}
		}
		return agui.WorkerOutput{Answer: strings.ToUpper(run.Input.Query)}, nil
	}}
}

// A wait of a node is for one time, over the death of its server and a retry of the node.
func TestNodeWait_IsComputedOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, path string) {
		t.Parallel()
		b := openAt(t, path, runtime.Config{}, flaky("worker"), plugins.Workflow{Name: "flow", Nodes: []plugins.Node{
			{ID: "pause", Wait: plugins.NodeWait{For: 4 * time.Second}},
			{
				ID: "send", Agent: "worker", Needs: []string{"pause"}, When: "pause.status == 'success' and pause.output == nil",
				Wait: plugins.NodeWait{Until: `now() + duration("3s")`}, Retry: plugins.Retry{Retries: 1, Initial: time.Millisecond},
			},
		}})
		began := time.Now()
		s := b.startWorkflow("main", "flow", "go")
		run := b.wait(s.RunID, runtime.Waiting)
		wait := b.Logs.WaitOf(t.Context(), &run)
		if !run.Parked() || wait == nil || wait.Reason != "time" {
			t.Errorf("it waits for %+v", wait)
		}
		if got := b.states(s.RunID); !slices.Equal(got, []string{"pause WAITING", "send PENDING"}) {
			t.Errorf("the nodes are %v", got)
		}
		b.crash()
		now := b.wait(s.RunID, runtime.Waiting)
		if again := b.Logs.WaitOf(t.Context(), &now); again == nil || !again.Until.Equal(wait.Until) {
			t.Errorf("after a crash it waits for %+v", again)
		}
		run = b.wait(s.RunID, runtime.Completed)
		if took := time.Since(began); took < 7*time.Second || *run.OutputSummary != "GO" {
			t.Errorf("it took %s, and says %q", took, *run.OutputSummary)
		}
		log := b.log("main")
		checkLog(t, log)
		if got := customs(log); !slices.Equal(got, []string{agui.ParkedEvent, agui.WokenEvent, agui.ParkedEvent, agui.WokenEvent}) {
			t.Errorf("the log has %q", got)
		}
	})
}

// A wait that cannot be computed, or is too long, fails its run. A short one does not park.
// A node waits for an event over the death of its server, and has its payload, or the status expired.
func TestNodeWait_ForAnEvent(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, path string) {
		t.Parallel()
		echo := answering("echo", func(q string) string { return q })
		b := openAt(t, path, runtime.Config{}, echo, plugins.Workflow{Name: "flow", Nodes: []plugins.Node{
			{ID: "paid", Wait: plugins.NodeWait{Event: "paid"}},
			{ID: "sent", Wait: plugins.NodeWait{Event: "sent", Within: 3 * time.Second}, Needs: []string{"paid"}},
			{ID: "shown", Agent: "echo", Needs: []string{"sent"}, Input: "string(paid.output.amount) + paid.status + sent.status + (sent.output == nil ? '' : '!')"},
		}})
		s := b.startWorkflow("main", "flow", "go")
		run := b.wait(s.RunID, runtime.Waiting)
		if wait := b.Logs.WaitOf(t.Context(), &run); wait == nil || wait.Reason != "event" || wait.Name != "paid" {
			t.Errorf("it waits for %+v", wait)
		}
		b.crash()
		b.sent(s.RunID, "paid", `{"amount": 7}`, true)
		if run := b.wait(s.RunID, runtime.Completed); *run.OutputSummary != "7successexpired" {
			t.Errorf("it says %q", *run.OutputSummary)
		}
		checkLog(t, b.log("main"))
	})
}

func TestNodeWait_Limits(t *testing.T) {
	t.Parallel()
	wait := func(name string, w plugins.NodeWait) plugins.Workflow {
		return plugins.Workflow{Name: name, Nodes: []plugins.Node{{ID: "pause", Wait: w}}}
	}
	b := open(t, runtime.Config{}, wait("long", plugins.NodeWait{For: 366 * 24 * time.Hour}), wait("bad", plugins.NodeWait{Until: "query"}), wait("short", plugins.NodeWait{For: time.Millisecond}))
	for name, code := range map[string]string{"long": "wait_too_long", "bad": "bad_wait", "short": ""} {
		run := b.wait(b.startWorkflow(name, name, "go").RunID, runtime.Failed, runtime.Completed)
		if code == "" != (run.Error == nil) || run.Error != nil && run.Error.Code != code {
			t.Errorf("%s: %+v", name, run.Error)
		}
		checkLog(t, b.log(name))
	}
}

// The approval of a call comes behind the wait, with the arguments that were computed before it.
func TestNodeWait_ComesBeforeApproval(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, refund, plugins.Workflow{Name: "flow", Nodes: []plugins.Node{
		{ID: "pay", Tool: "refund", Input: `{"euros": 7}`, Wait: plugins.NodeWait{For: 3 * time.Second}, Approval: true},
	}})
	s := b.startWorkflow("main", "flow", "go")
	if run := b.wait(s.RunID, runtime.Waiting); !run.Parked() {
		t.Error("it asks before it has waited")
	}
	for asked := false; !asked; <-tick() {
		open, err := b.Runs.Interrupts(t.Context(), local, s.RunID)
		must(t, err)
		asked = len(open) > 0
	}
	b.wait(s.RunID, runtime.Waiting)
	b.reply(s.RunID, always(`{"approved": true}`))
	b.wait(s.RunID, runtime.Completed)
	checkLog(t, b.log("main"))
}

// rounds returns the steps of a run as words, in their order.
func (b *bench) rounds(run string) (words []string) {
	b.t.Helper()
	steps, err := rows(b.Runs.Steps(b.t.Context(), local, run, "", 0, 100))
	must(b.t, err)
	for _, st := range steps {
		words = append(words, fmt.Sprintf("%s %d.%d %s", st.NodeID, st.Round, st.Execution, st.Status))
	}
	return words
}

// A node sees its last output in each round. A crash goes on in the round, and a retry keeps it.
func TestNodeRepeat_GoesOnInItsRound(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, path string) {
		t.Parallel()
		reached, blocks := make(chan struct{}), true // in the second round of the first process
		writer := agent{"writer", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			q := run.Input.Query
			if len(q) == 3 && blocks {
				blocks = false
				close(reached)
				<-ctx.Done()
				return agui.WorkerOutput{}, context.Cause(ctx)
			}
			if len(q) > 2 && run.Input.Execution == 1 {
				return agui.WorkerOutput{}, &plugins.Error{Code: "busy", Message: "Busy"}
			}
			return agui.WorkerOutput{Answer: q + "x"}, nil
		}}
		b := openAt(t, path, runtime.Config{}, writer, answering("echo", strings.ToUpper), plugins.Workflow{Name: "flow", Nodes: []plugins.Node{
			{
				ID: "draft", Agent: "writer", Input: `draft.output == nil ? query : draft.answer`, Repeat: plugins.Repeat{Until: "len(draft.answer) == 5 and draft.round == 3"},
				Retry: plugins.Retry{Retries: 1, On: []string{"busy"}, Initial: time.Millisecond},
			},
			{ID: "shown", Agent: "echo", Needs: []string{"draft"}, Input: `draft.answer + draft.status + string(draft.round)`},
		}})
		s := b.startWorkflow("main", "flow", "go")
		<-reached
		b.crash()
		run := b.wait(s.RunID, runtime.Completed)
		if got := *run.OutputSummary; got != "GOXXXSUCCESS3" {
			t.Errorf("the answer is %q", got)
		}
		want := []string{"draft 1.1 COMPLETED", "draft 2.1 FAILED", "draft 2.2 COMPLETED", "draft 3.1 FAILED", "draft 3.2 COMPLETED", "shown 0.1 COMPLETED"}
		if got := b.rounds(s.RunID); !slices.Equal(got, want) {
			t.Errorf("the steps are %v", got)
		}
		nodes, err := b.Runs.Nodes(t.Context(), local, s.RunID)
		if err != nil || nodes[0].Round != 3 || nodes[1].Round != 0 {
			t.Errorf("the nodes are %+v, %v", nodes, err)
		}
		checkLog(t, b.log("main"))
	})
}

func TestNodeRepeat_EndsAtMax(t *testing.T) {
	t.Parallel()
	flow := func(name string, r plugins.Repeat) plugins.Workflow {
		return plugins.Workflow{Name: name, Nodes: []plugins.Node{
			{ID: "a", Tool: "note", Input: `{"round": a.round}`, Repeat: r},
			{ID: "b", Agent: "echo", Needs: []string{"a"}, Input: `a.answer + a.status`},
		}}
	}
	note := tool{plugins.Info{Name: "note"}, func(_ context.Context, c *plugins.Call) (agui.ToolOutput, error) {
		return agui.ToolOutput{ResultSummary: string(c.Args)}, nil
	}}
	b := open(t, runtime.Config{}, note, answering("echo", func(q string) string { return q }),
		flow("partial", plugins.Repeat{Until: "false", Max: 2}), flow("fail", plugins.Repeat{Until: "false", Max: 2, Fail: true}), flow("bad", plugins.Repeat{Until: "state.x"}))
	for name, want := range map[string]string{"partial": `{"round":2}partial_success`, "fail": "repeat_max", "bad": "bad_condition"} {
		s := b.request(runtime.StartRequest{WorkflowID: name, ThreadID: name, Messages: user("go"), State: []byte(`{"x":7}`)})
		run := b.wait(s.RunID, runtime.Failed, runtime.Completed)
		if run.Error != nil && run.Error.Code != want || run.Error == nil && *run.OutputSummary != want {
			t.Errorf("%s: %+v %v", name, run.Error, run.OutputSummary)
		}
		checkLog(t, b.log(name))
	}
}

// A run goes on behind a failure that a node catches, also after a crash. Failures that are not the node's fail it all the same.
func TestNodeFailure_IsCaught(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, path string) {
		t.Parallel()
		fails := func(name, code string) agent {
			return agent{name, func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
				return agui.WorkerOutput{}, &plugins.Error{Code: code, Message: "No luck"}
			}}
		}
		entered, first := make(chan struct{}), true
		undo := agent{"undo", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			if first {
				first = false
				close(entered)
				<-ctx.Done()
			}
			return agui.WorkerOutput{Answer: run.Input.Query}, context.Cause(ctx)
		}}
		b := openAt(t, path, runtime.Config{}, fails("seller", "sold_out"), fails("spender", "budget_exceeded"), undo, hello,
			plugins.Workflow{Name: "flow", Nodes: []plugins.Node{
				{ID: "sell", Agent: "seller", ContinueOnError: true},
				{ID: "odd", Agent: "hello", Input: "1 / 0", ContinueOnError: true},
				{ID: "thanks", Agent: "hello", Needs: []string{"sell"}, When: "sell.status == 'success'"},
				{
					ID: "sorry", Agent: "undo", Needs: []string{"sell", "odd"}, When: "sell.status == 'failed'",
					Input: "join([sell.error.code, sell.error.message, nodes.sell.status, odd.error.code], ' ')",
				},
			}},
			plugins.Workflow{Name: "spent", Nodes: []plugins.Node{{ID: "spend", Agent: "spender", ContinueOnError: true}}})
		s := b.startWorkflow("main", "flow", "go")
		<-entered
		b.crash()
		run := b.wait(s.RunID, runtime.Completed)
		if got, want := *run.OutputSummary, "sold_out No luck FAILED bad_input"; got != want {
			t.Errorf("the answer is %q, want %q", got, want)
		}
		if got := b.states(s.RunID); !slices.Equal(got, []string{"odd FAILED", "sell FAILED", "sorry COMPLETED", "thanks SKIPPED"}) {
			t.Errorf("the nodes are %v", got)
		}
		checkLog(t, b.log("main"))
		spent := b.wait(b.startWorkflow("spent", "spent", "go").RunID, runtime.Failed)
		if spent.Error.Code != "budget_exceeded" {
			t.Errorf("%+v", spent.Error)
		}
	})
}

// The answer to the question of a node is its output. A declined one has the effect that the node says.
func TestNodeAsk_HasTheAnswer(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, path string) {
		t.Parallel()
		ask := func(name string, a plugins.Ask, catches bool) plugins.Workflow {
			a.Schema = json.RawMessage(`{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`)
			return plugins.Workflow{Name: name, Nodes: []plugins.Node{
				{ID: "sure", Ask: &a, Approver: plugins.Approver{Message: "'How many ' + query + '?'"}, ContinueOnError: catches},
				{ID: "shown", Agent: "echo", Needs: []string{"sure"}, Input: "{output: sure.output, status: sure.status}"},
				{ID: "by", Agent: "echo", Needs: []string{"shown"}, Input: "shown.answer + sure.by"},
			}}
		}
		b := openAt(t, path, runtime.Config{}, answering("echo", func(q string) string { return q }), ask("fail", plugins.Ask{}, false),
			ask("skip", plugins.Ask{Skip: true}, false), ask("output", plugins.Ask{Output: "{n: 1}"}, false), ask("caught", plugins.Ask{}, true))
		ann := runtime.MustCaller("default", "ann", runtime.RoleOperator)
		for _, c := range []struct{ workflow, payload, want string }{
			{"fail", `{"n":3}`, `{"output":{"n":3},"status":"success"}ann`},
			{"fail", "", "unanswered"},
			{"skip", "", ""},
			{"output", "", `{"output":{"n":1},"status":"success"}`},
			{"caught", "", `{"output":null,"status":"failed"}`},
		} {
			thread := c.workflow + c.payload
			s := b.startWorkflow(thread, c.workflow, "apples")
			b.wait(s.RunID, runtime.Waiting)
			asked, err := b.Runs.Interrupts(t.Context(), local, s.RunID)
			must(t, err)
			if len(asked) != 1 || asked[0].Message != "How many apples?" || asked[0].Reason != "input_required" || asked[0].ResponseSchema == nil {
				t.Fatalf("%s asks %+v", c.workflow, asked)
			}
			entry := agui.ResumeEntry{InterruptID: asked[0].ID, Status: "resolved", Payload: json.RawMessage(`{"n":"many"}`)}
			if _, err := b.Resume(t.Context(), ann, s.RunID, []agui.ResumeEntry{entry}); code(err) != "invalid_answer" {
				t.Errorf("%s: an answer that does not fit: %v", c.workflow, err)
			}
			entry.Payload = json.RawMessage(c.payload)
			if c.payload == "" {
				entry.Status, entry.Payload = "cancelled", nil
			}
			_, err = b.Resume(t.Context(), ann, s.RunID, []agui.ResumeEntry{entry})
			must(t, err)
			run := b.wait(s.RunID, runtime.Completed, runtime.Failed)
			if run.Error != nil && run.Error.Code != c.want || run.Error == nil && *run.OutputSummary != c.want {
				t.Errorf("%s %s: %+v %q", c.workflow, c.payload, run.Error, *run.OutputSummary)
			}
			checkLog(t, b.log(thread))
		}
	})
}

// A wait of one node ends while another one asks: the question stays, and expires on its own.
func TestNodeAsk_BesideAWait(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, answering("echo", func(q string) string { return q }), plugins.Workflow{Name: "flow", Nodes: []plugins.Node{
		{ID: "sure", Ask: &plugins.Ask{Output: "'nobody'"}, Approver: plugins.Approver{Message: "'Sure?'", Expires: 8 * time.Second}},
		{ID: "pause", Wait: plugins.NodeWait{For: 3 * time.Second}},
		{ID: "paused", Agent: "echo", Needs: []string{"pause"}},
		{ID: "shown", Agent: "echo", Needs: []string{"sure", "paused"}, Input: "sure.output"},
	}})
	s := b.startWorkflow("main", "flow", "go")
	for !slices.Contains(b.states(s.RunID), "paused COMPLETED") {
		<-tick()
	}
	if run := b.wait(s.RunID, runtime.Waiting); run.Parked() {
		t.Error("it is parked though it asks")
	}
	if got := b.states(s.RunID); !slices.Equal(got, []string{"pause COMPLETED", "paused COMPLETED", "shown PENDING", "sure WAITING"}) {
		t.Errorf("the nodes are %v", got)
	}
	if run := b.wait(s.RunID, runtime.Completed); *run.OutputSummary != "nobody" {
		t.Errorf("the answer is %q", *run.OutputSummary)
	}
	log := b.log("main")
	checkLog(t, log)
	asked := make(map[string]bool)
	for _, r := range log {
		if end, ok := r.Event.(agui.RunFinished); ok && end.Outcome.Type == agui.OutcomeInterrupt {
			asked[end.Outcome.Interrupts[0].ID] = true
		}
	}
	if len(asked) != 1 {
		t.Errorf("it asks %d questions", len(asked))
	}
}
