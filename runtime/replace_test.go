package runtime_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// version is an agent with several versions, which returns its version once the test allows it.
type version struct {
	name, says string
	limit      int
	entered    chan struct{} // nil does not wait
	leave      chan struct{}
	startErr   error
	started    atomic.Int64
	closed     atomic.Bool
}

func (v *version) Info() plugins.Info {
	return plugins.Info{Name: v.name, Concurrency: v.limit}
}

func (v *version) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	if v.entered != nil {
		v.entered <- struct{}{}
		select {
		case <-v.leave:
		case <-ctx.Done():
		}
	}
	out, err := run.CallTool(ctx, "which", nil)
	return agui.WorkerOutput{Answer: v.says + " " + out.ResultSummary}, err
}

func (v *version) Start(context.Context) error {
	v.started.Add(1)
	return v.startErr
}

func (v *version) Close(context.Context) error {
	if v.closed.Swap(true) {
		return errors.New("closed twice")
	}
	return nil
}

// endless closes when it must.
type endless struct{ agent }

func (endless) Close(ctx context.Context) error { <-ctx.Done(); return nil }

func TestShutdown_WaitsForPluginsNoLongerThanForRuns(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{Limits: runtime.Limits{Drain: 1, Grace: 1}}, endless{hello})
	if err := b.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func which(says string) tool {
	return tool{plugins.Info{Name: "which"}, func(context.Context, *plugins.Call) (agui.ToolOutput, error) {
		return agui.ToolOutput{ResultSummary: says}, nil
	}}
}

func registry(t *testing.T, list ...plugins.Plugin) *host.Registry {
	t.Helper()
	reg := new(host.Registry)
	must(t, errors.Join(reg.Add(list...), reg.Validate()))
	return reg
}

// TestRepeatsAreAnsweredWhenTheirAgentIsGone repeats requests by key and by runId for an agent that is not offered
// any more.
func TestRepeatsAreAnsweredWhenTheirAgentIsGone(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, &version{name: "worker", says: "first"}, which("one"))
	request := func(name, key, body string) runtime.StartRequest {
		req := runtime.StartRequest{Agent: "worker", ThreadID: "main", RunID: name, BodyHash: body, Messages: []agui.Message{said("", "go")}}
		if key != "" {
			req.Idempotency = &runtime.Idempotency{Scope: key, BodyHash: body}
		}
		return req
	}
	ask := func(req runtime.StartRequest) (string, error) {
		s, err := b.StartRun(t.Context(), local, req)
		return s.RunID, err
	}
	byKey, err := ask(request("", "k", "h"))
	_, nameErr := ask(request("named", "", "h"))
	must(t, errors.Join(err, nameErr))
	b.wait(byKey, runtime.Completed)
	b.wait("named", runtime.Completed)
	must(t, b.Replace(t.Context(), registry(t, which("one"))))
	again, err := b.StartRun(t.Context(), local, request("", "k", "h"))
	if err != nil || again.RunID != byKey || !again.Replayed || len(again.Messages) != 2 {
		t.Errorf("by its key: %+v, %v", again, err)
	}
	if got, err := ask(request("named", "", "h")); err != nil || got != "named" {
		t.Errorf("by its name: %q, %v", got, err)
	}
	for want, req := range map[string]runtime.StartRequest{
		"idempotency_mismatch": request("", "k", "other"), "run_exists": request("named", "", "other"),
		"unknown_agent": request("other", "new", "h"),
	} {
		_, err := ask(req)
		if refusal, ok := errors.AsType[*runtime.Error](err); !ok || refusal.Code != want {
			t.Errorf("want %s, got %v", want, err)
		}
	}
	if list, err := b.Threads.List(t.Context(), local, runtime.ThreadFilter{Count: true}); err != nil || list.Total != 1 {
		t.Errorf("%d threads, %v", list.Total, err)
	}
}

// answer returns the run's answer.
func (b *bench) answer(run string) string {
	b.t.Helper()
	if out := b.wait(run, runtime.Completed).OutputSummary; out != nil {
		return *out
	}
	return ""
}

// resume answers all open interrupts of a run with a payload, without a restart.
func (b *bench) resume(run, payload string) {
	b.t.Helper()
	asked, err := b.Runs.Interrupts(context.Background(), local, run)
	var answers []agui.ResumeEntry
	for _, in := range asked {
		answers = append(answers, agui.ResumeEntry{InterruptID: in.ID, Status: "resolved", Payload: []byte(payload)})
	}
	_, answerErr := b.Resume(context.Background(), local, run, answers)
	must(b.t, errors.Join(err, answerErr))
}

func TestReplaceDisturbsNoRun(t *testing.T) {
	t.Parallel()
	first := &version{name: "worker", says: "first", entered: make(chan struct{}), leave: make(chan struct{})}
	both := &version{name: "both", says: "both"}
	second := &version{name: "worker", says: "second"}
	b := open(t, runtime.Config{}, first, both, which("one"))
	running := b.start("a", "worker", "go")
	<-first.entered
	queued := b.start("a", "worker", "go") // its turn comes when the first has ended
	must(t, b.Replace(t.Context(), registry(t, second, both, which("two"))))
	if got := b.answer(b.start("b", "worker", "go").RunID); got != "second two" {
		t.Errorf("a run started after it answers %q", got)
	}
	if first.closed.Load() {
		t.Error("a plugin is closed under its run")
	}
	close(first.leave)
	if got := b.answer(running.RunID); got != "first one" {
		t.Errorf("a run that was at work answers %q", got)
	}
	if got := b.answer(queued.RunID); got != "second two" {
		t.Errorf("a run that was queued answers %q", got)
	}
	for deadline := time.Now().Add(patience); !first.closed.Load(); <-tick() {
		if time.Now().After(deadline) {
			t.Fatal("the plugin that is gone was not closed")
		}
	}
	if second.closed.Load() || both.closed.Load() {
		t.Error("a plugin in force was closed")
	}
	b.down()
	if !second.closed.Load() || !both.closed.Load() {
		t.Error("plugins are left open at the end")
	}
}

func TestReplaceThatFailsChangesNothing(t *testing.T) {
	t.Parallel()
	worker := &version{name: "worker", says: "first"}
	b := open(t, runtime.Config{}, worker, which("one"))
	before := b.Plugins()
	comes, ill := &version{name: "comes"}, &version{name: "ill", startErr: errors.New("cannot start")}
	bad := plugins.Workflow{Name: "bad", Nodes: []plugins.Node{{ID: "n", Agent: "worker", When: "nonsense +"}}}
	for want, reg := range map[string]*host.Registry{
		"cannot start": registry(t, worker, comes, ill),
		"nonsense":     registry(t, worker, bad),
	} {
		if err := b.Replace(t.Context(), reg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Replace = %v, want %q", err, want)
		}
	}
	if b.Plugins() != before || worker.closed.Load() || !comes.closed.Load() || ill.closed.Load() {
		t.Error("something has changed, or is left open")
	}
	if got := b.answer(b.start("a", "worker", "go").RunID); got != "first one" {
		t.Errorf("a run answers %q", got)
	}
	ended := b.Runtime
	b.down()
	if err := ended.Replace(t.Context(), registry(t)); !errors.Is(err, runtime.ErrStopping) {
		t.Errorf("after the end: %v", err)
	}
}

func TestWaitingRunMeetsWhatIsOfferedThen(t *testing.T) {
	t.Parallel()
	asks := func(says string) agent {
		return agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			_, err := run.Ask(ctx, agui.Interrupt{Message: "Sure?"})
			return agui.WorkerOutput{Answer: says}, err
		}}
	}
	b := open(t, runtime.Config{}, asks("first"))
	stays, goes := b.start("a", "worker", "go"), b.start("b", "worker", "go")
	b.wait(stays.RunID, runtime.Waiting)
	b.wait(goes.RunID, runtime.Waiting)
	must(t, b.Replace(t.Context(), registry(t, asks("second"))))
	b.resume(stays.RunID, `true`)
	if got := b.answer(stays.RunID); got != "second" {
		t.Errorf("the run answers %q", got)
	}
	must(t, b.Replace(t.Context(), registry(t)))
	b.resume(goes.RunID, `true`)
	if run := b.wait(goes.RunID, runtime.Failed); run.Error == nil || run.Error.Code != "agent_gone" {
		t.Errorf("the run fails with %+v", run.Error)
	}
}

func TestPluginThatIsOfferedAgainIsNotClosedUnderItsServer(t *testing.T) {
	t.Parallel()
	busy := &version{name: "busy", says: "busy", entered: make(chan struct{}), leave: make(chan struct{})}
	back := &version{name: "back", says: "back"}
	b := open(t, runtime.Config{}, busy, back, which("one"))
	run := b.start("a", "busy", "go")
	<-busy.entered
	for _, reg := range []*host.Registry{registry(t, which("two")), registry(t, back, which("three"))} {
		must(t, b.Replace(t.Context(), reg))
	}
	close(busy.leave)
	b.wait(run.RunID, runtime.Completed)
	for deadline := time.Now().Add(patience); !busy.closed.Load(); <-tick() {
		if time.Now().After(deadline) {
			t.Fatal("the plugin that is gone was not closed")
		}
	}
	if back.started.Load() != 1 || back.closed.Load() {
		t.Errorf("it was started %d times, closed %v", back.started.Load(), back.closed.Load())
	}
	if got := b.answer(b.start("b", "back", "go").RunID); got != "back three" {
		t.Errorf("a run answers %q", got)
	}
}

func TestAnswerToAnApprovalCountsAlsoWhenNoneIsAskedForAnyMore(t *testing.T) {
	t.Parallel()
	calls := make(chan string, 9)
	pay := func(approval bool) tool {
		return tool{plugins.Info{Name: "pay", Approval: approval}, func(_ context.Context, c *plugins.Call) (agui.ToolOutput, error) {
			calls <- string(c.Args)
			return agui.ToolOutput{ResultSummary: "paid"}, nil
		}}
	}
	payer := agent{"payer", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		out, err := run.CallTool(ctx, "pay", map[string]int{"euros": 100})
		return agui.WorkerOutput{Answer: out.Status}, err
	}}
	b := open(t, runtime.Config{}, payer, pay(true))
	denied, edited := b.start("a", "payer", "go"), b.start("b", "payer", "go")
	b.wait(denied.RunID, runtime.Waiting)
	b.wait(edited.RunID, runtime.Waiting)
	must(t, b.Replace(t.Context(), registry(t, payer, pay(false))))
	b.resume(denied.RunID, `{"approved":false}`)
	if got := b.answer(denied.RunID); got != agui.StatusFailure || len(calls) != 0 {
		t.Errorf("a call that was denied: %s, called %d times", got, len(calls))
	}
	b.resume(edited.RunID, `{"approved":true,"editedArgs":{"euros":1}}`)
	if got := b.answer(edited.RunID); got != agui.StatusSuccess || <-calls != `{"euros":1}` {
		t.Errorf("a call that was approved: %s, or other arguments", got)
	}
}

func TestMonitorLearnsOfOtherAgents(t *testing.T) {
	t.Parallel()
	busy := &version{name: "busy", entered: make(chan struct{}), leave: make(chan struct{})}
	b := open(t, runtime.Config{}, busy, which(""))
	run := b.start("a", "busy", "go")
	<-busy.entered
	b.expect("busy")
	m := b.Monitor(local, runtime.MonitorQuery{View: runtime.AGUIView})
	defer m.Close()
	must(t, b.Replace(t.Context(), registry(t, answering("another", strings.ToUpper), busy, which(""))))
	if _, err := m.Next(t.Context()); !errors.Is(err, runtime.ErrLagged) {
		t.Errorf("an open monitor is told %v", err)
	}
	again := b.Monitor(local, runtime.MonitorQuery{View: runtime.AGUIView, After: m.ID()})
	defer again.Close()
	want := []runtime.AgentStatus{{Name: "another", Status: "idle"}, {Name: "busy", Status: "running"}}
	if got := again.Agents(); again.Resumed() || !slices.Equal(got, want) {
		t.Errorf("resumed %v, agents %v, want %v", again.Resumed(), got, want)
	}
	close(busy.leave)
	b.wait(run.RunID, runtime.Completed)
	b.expect()
}

func TestNodeIsApproved(t *testing.T) {
	t.Parallel()
	worker := answering("worker", strings.ToUpper)
	flow := plugins.Workflow{Name: "flow", Nodes: []plugins.Node{
		{ID: "plan", Agent: "worker", Approval: true},
		{ID: "send", Tool: "echo", Needs: []string{"plan"}, Input: `{"text": plan.answer}`, When: `plan.status == "success"`, Approval: true},
		{ID: "never", Agent: "worker", Needs: []string{"send"}, When: `send.status != "success"`},
		{ID: "end", Agent: "worker", Needs: []string{"never", "send"}, Input: `never.status + send.answer`},
		{ID: "skipped", Agent: "worker", Needs: []string{"never"}},
	}}
	calls := make(chan string, 9)
	echo := tool{plugins.Info{Name: "echo"}, func(_ context.Context, c *plugins.Call) (agui.ToolOutput, error) {
		calls <- string(c.Args)
		return agui.ToolOutput{ResultSummary: string(c.Args)}, nil
	}}
	b := open(t, runtime.Config{}, worker, echo, flow)
	s := b.startWorkflow("a", "flow", "go")
	b.reply(s.RunID, always(`{"approved": true}`))
	b.reply(s.RunID, always(`{"approved": true, "editedArgs": {"text": "GONE"}}`))
	b.wait(s.RunID, runtime.Completed)
	if got := b.log("a"); !strings.Contains(finalText(got), `SKIPPED{"TEXT":"GONE"}`) {
		t.Errorf("the last node says %q", finalText(got))
	}
	nodes, err := b.Runs.Nodes(t.Context(), local, s.RunID)
	if err != nil || len(nodes) != 5 || nodes[4].Status != runtime.Skipped {
		t.Errorf("a node that needs only a skipped one: %+v, %v", nodes, err)
	}
	if len(calls) != 1 || <-calls != `{"text":"GONE"}` {
		t.Error("the tool was not called once, with what was approved")
	}
	checkLog(t, b.log("a"))
	s = b.startWorkflow("b", "flow", "go")
	b.reply(s.RunID, always(`{"approved": false}`))
	if run := b.wait(s.RunID, runtime.Failed); run.Error == nil || run.Error.Code != "denied" {
		t.Errorf("the run fails with %+v", run.Error)
	}
}

// finalText returns the last message's text in the log.
func finalText(recs []*runtime.Record) string {
	for _, r := range slices.Backward(recs) {
		if e, ok := r.Event.(agui.TextMessageEnd); ok && e.Output != nil {
			return e.Output.Answer
		}
	}
	return ""
}
