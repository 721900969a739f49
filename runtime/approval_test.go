package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// refund is a tool that requires a person's approval and returns its arguments.
var refund = tool{plugins.Info{
	Name: "refund", Approval: true,
	Parameters: []byte(`{"type":"object","properties":{"euros":{"type":"number","maximum":500}},"required":["euros"]}`),
}, func(_ context.Context, call *plugins.Call) (agui.ToolOutput, error) {
	return agui.ToolOutput{ResultSummary: "refunded " + string(call.Args)}, nil
}}

// asksFor is an agent that calls a tool once.
func asksFor(name, tool, args string) agent {
	return agent{name, func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		out, err := run.CallTool(ctx, tool, json.RawMessage(args))
		return agui.WorkerOutput{Answer: out.ResultSummary}, err
	}}
}

// The log, the messages and the steps show the arguments that an approved call ran with, the arguments that the
// approval showed, and the user that changed them.
func TestApproval_TellsWhatWasExecuted(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, refund, asksFor("clerk", "refund", `{"euros": 149.9}`))
	ann := runtime.MustCaller("default", "ann", runtime.RoleOperator)
	for thread, req := range map[string]runtime.StartRequest{
		"agent": {Agent: "clerk", ThreadID: "agent", Messages: user("go")},
		"tool":  {Tool: "refund", ThreadID: "tool", Messages: user(`{"euros": 149.9}`)},
	} {
		s := b.request(req)
		b.wait(s.RunID, runtime.Waiting)
		b.restart()
		asked, err := b.Runs.Interrupts(t.Context(), local, s.RunID)
		must(t, err)
		result := runtime.StartRequest{ThreadID: thread, Messages: []agui.Message{{Role: agui.RoleTool, ToolCallID: asked[0].ID, Content: "refunded"}}}
		if _, err := b.StartRun(t.Context(), local, result); code(err) != "invalid_answer" {
			t.Errorf("%s: a tool message for a call that is not approved yet: %v", thread, err)
		}
		entry := agui.ResumeEntry{
			InterruptID: asked[0].ID, Status: "resolved", Payload: json.RawMessage(`{"approved":true,"editedArgs":{"euros":99.5}}`),
			Metadata: json.RawMessage(`{"by":{"user":"mallory","role":"admin"}}`),
		}
		if _, err := b.Resume(t.Context(), ann, s.RunID, []agui.ResumeEntry{entry}); err != nil {
			t.Fatal(err)
		}
		b.wait(s.RunID, runtime.Completed)
		recs := b.log(thread)
		checkLog(t, recs)
		var asks, made string
		var took []agui.ResumeEntry
		for _, r := range recs {
			switch e := r.Event.(type) {
			case agui.RunStarted:
				took = e.Input.Resume
			case agui.ToolCallArgs:
				asks += e.Delta
			case agui.ToolCallResult:
				made = string(e.Output.ToolCallArgs)
				if e.Content != `refunded {"euros":99.5}` {
					t.Errorf("%s: the call gave %s", thread, e.Content)
				}
			}
		}
		if !strings.Contains(asks, "149.9") || made != `{"euros":99.5}` {
			t.Errorf("%s: the log says that %s was asked and %s was made", thread, asks, made)
		}
		if len(took) != 1 || took[0].InterruptID != entry.InterruptID || took[0].Status != "resolved" || string(took[0].Payload) != string(entry.Payload) {
			t.Fatalf("%s: RUN_STARTED tells of %+v", thread, took)
		}
		var about struct {
			By struct{ User, Role string }
			At time.Time
		}
		if err := json.Unmarshal(took[0].Metadata, &about); err != nil || about.By.User != "ann" || about.By.Role != "operator" || about.At.IsZero() {
			t.Errorf("%s: the answer was given by %s: %v", thread, took[0].Metadata, err)
		}
		msgs, err := rows(b.Runs.Messages(t.Context(), local, s.RunID, 0, 50))
		must(t, err)
		for _, m := range msgs {
			var said struct{ ToolAgentOutput *agui.ToolOutput }
			switch {
			case len(m.ToolCalls) > 0 && !strings.Contains(m.ToolCalls[0].Arguments, "149.9"):
				t.Errorf("%s: the message has the call %s", thread, m.ToolCalls[0].Arguments)
			case m.Role != agui.RoleTool:
			case json.Unmarshal(m.Metadata, &said) != nil || string(said.ToolAgentOutput.ToolCallArgs) != `{"euros":99.5}`:
				t.Errorf("%s: the result's message has %s", thread, m.Metadata)
			}
		}
		steps, err := rows(b.Runs.Steps(t.Context(), local, s.RunID, "", 0, 10))
		must(t, err)
		if thread == "tool" && steps[0].Input != `{"euros":99.5}` {
			t.Errorf("the step was made with %s", steps[0].Input)
		}
	}
}

// An answer that its question does not accept is refused with its place, through each entry point, and the question
// stays open.
func TestAnswer_IsCheckedBeforeItIsTaken(t *testing.T) {
	t.Parallel()
	asks := agent{"asks", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		a, err := run.Ask(ctx, agui.Interrupt{Message: "sure?", ResponseSchema: json.RawMessage(
			`{"type":"object","properties":{"yes":{"type":"boolean"},"why/how":{"type":"string"}},"required":["yes"]}`)})
		return agui.WorkerOutput{Answer: string(a.Payload)}, err
	}}
	guarded := asksFor("helper", "hello", `{"query": "hi"}`)
	careful := agent{"hello", hello.run}
	workflow := plugins.Workflow{Name: "flow", Nodes: []plugins.Node{{ID: "n", Agent: "hello", Approval: true}}}
	b := open(t, runtime.Config{}, refund, asks, asksFor("clerk", "refund", `{"euros": 1}`), approving{careful}, guarded, workflow)
	type wrong struct{ payload, code, place string }
	for agent, c := range map[string]struct {
		wrong []wrong
		right string
	}{
		"asks": {[]wrong{
			{`42`, "invalid_answer", ""},
			{`"yes"`, "invalid_answer", ""},
			{`null`, "invalid_answer", ""},
			{``, "invalid_answer", ""},
			{`{"yes":"maybe"}`, "invalid_answer", "/yes"},
			{`{"yes":true,"why/how":1}`, "invalid_answer", "/why~1how"},
			{`{}`, "invalid_answer", ""},
			{`{"yes":false,"yes":true}`, "invalid_answer", ""},
			{`{"yes":true,"more":[0,{"a":1,"\u0061":2}]}`, "invalid_answer", ""},
		}, `{"yes":true}`},
		"clerk": {[]wrong{
			{`true`, "invalid_answer", ""},
			{`{"approve":true}`, "invalid_answer", ""},
			{`{"approved":"yes"}`, "invalid_answer", "/approved"},
			{`{"approved":true,"editedArgs":"x"}`, "invalid_answer", "/editedArgs"},
			{`{"approved":true,"more":1}`, "invalid_answer", ""},
			{`{"approved":true,"editedArgs":{"euros":501}}`, "invalid_arguments", "/editedArgs/euros"},
			{`{"approved":true,"editedArgs":{}}`, "invalid_arguments", "/editedArgs"},
			{`{"approved":false,"approved":true}`, "invalid_answer", ""},
			{`{"approved":true,"editedArgs":{"euros":501,"euros":2}}`, "invalid_answer", ""},
		}, `{"approved":true,"editedArgs":{"euros":2}}`},
		"helper": {[]wrong{
			{`{"approved":true,"editedArgs":{"query":3}}`, "invalid_arguments", "/editedArgs"},
			{`{"approved":true,"editedArgs":{"Query":"ho"}}`, "invalid_arguments", "/editedArgs"},
		}, `{"approved":true,"editedArgs":{"query":"ho"}}`},
		"flow": {[]wrong{
			{`true`, "invalid_answer", ""},
			{`{"approve":true}`, "invalid_answer", ""},
			{`{"approved":true,"editedArgs":{"query":"ho"}}`, "invalid_arguments", "/editedArgs"},
		}, `{"approved":true}`},
	} {
		req := runtime.StartRequest{Agent: agent, ThreadID: agent, Messages: user("go")}
		if agent == "flow" {
			req.Agent, req.WorkflowID = "", "flow"
		}
		s := b.request(req)
		b.wait(s.RunID, runtime.Waiting)
		asked, err := b.Runs.Interrupts(t.Context(), local, s.RunID)
		must(t, err)
		answer := func(payload string) []agui.ResumeEntry {
			e := agui.ResumeEntry{InterruptID: asked[0].ID, Status: "resolved"}
			if payload != "" {
				e.Payload = json.RawMessage(payload)
			}
			return []agui.ResumeEntry{e}
		}
		for _, w := range c.wrong {
			_, err := b.Resume(t.Context(), local, s.RunID, answer(w.payload))
			_, startErr := b.StartRun(t.Context(), local, runtime.StartRequest{ThreadID: agent, Resume: answer(w.payload)})
			for _, err := range []error{err, startErr} {
				refusal, ok := errors.AsType[*runtime.Error](err)
				if !ok || refusal.Kind != runtime.KindInvalid || refusal.Code != w.code || refusal.Place != "/resume/0/payload"+w.place {
					t.Errorf("%s: %s is answered with %+v", agent, w.payload, err)
				}
			}
		}
		if run := b.wait(s.RunID, runtime.Waiting); run.Spans != 1 {
			t.Errorf("%s: the run has gone on", agent)
		}
		if _, err := b.Resume(t.Context(), local, s.RunID, answer(c.right)); err != nil {
			t.Fatal(err)
		}
		b.wait(s.RunID, runtime.Completed)
	}
}

// approving is an agent that requires a person's approval when it is called as a tool.
type approving struct{ agent }

func (a approving) Info() plugins.Info { return plugins.Info{Name: a.name, Approval: true} }

// A call that is cut short keeps its original arguments: the log of an edited call has them nowhere else.
func TestApproval_TellsWhatWasBegun(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 1)
	slow := tool{refund.info, func(ctx context.Context, _ *plugins.Call) (agui.ToolOutput, error) {
		begun <- struct{}{}
		return agui.ToolOutput{}, hang(ctx)
	}}
	for how, end := range map[string]func(b *bench, run string){
		"cancelled": func(b *bench, run string) {
			b.cancel(run)
		},
		"crashed": func(b *bench, run string) {
			b.crash()
			b.wait(run, runtime.Completed)
		},
	} {
		b := open(t, runtime.Config{}, slow, asksFor("clerk", "refund", `{"euros": 149.9}`))
		s := b.start("main", "clerk", "go")
		b.wait(s.RunID, runtime.Waiting)
		b.resume(s.RunID, `{"approved":true,"editedArgs":{"euros": 99.5}}`)
		<-begun
		end(b, s.RunID)
		results := 0
		for _, r := range b.log("main") {
			if e, ok := r.Event.(agui.ToolCallResult); ok {
				results++
				if e.Output.Status != agui.StatusFailure || string(e.Output.ToolCallArgs) != `{"euros":99.5}` {
					t.Errorf("%s: the call's result is %s", how, r.JSON(agui.Stored))
				}
			}
		}
		if results != 1 {
			t.Errorf("%s: the call has %d results", how, results)
		}
	}
}

// A cancelled answer records nothing else, because its other members were not checked.
func TestAnswer_CancelledHasNoPayload(t *testing.T) {
	t.Parallel()
	told := make(chan plugins.Answer, 1)
	asks := agent{"asks", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		a, err := run.Ask(ctx, agui.Interrupt{Message: "sure?", ResponseSchema: json.RawMessage(`{"type":"boolean"}`)})
		if err == nil {
			told <- a
		}
		return agui.WorkerOutput{}, err
	}}
	b := open(t, runtime.Config{}, asks)
	s := b.start("main", "asks", "go")
	b.wait(s.RunID, runtime.Waiting)
	asked, err := b.Runs.Interrupts(t.Context(), local, s.RunID)
	must(t, err)
	answer := []agui.ResumeEntry{{InterruptID: asked[0].ID, Status: "cancelled", Payload: json.RawMessage(`{"yes":"unchecked"}`)}}
	if _, err := b.Resume(t.Context(), local, s.RunID, answer); err != nil {
		t.Fatal(err)
	}
	b.wait(s.RunID, runtime.Completed)
	if a := <-told; !a.Cancelled || a.Payload != nil {
		t.Errorf("the worker is told %v, %s", a.Cancelled, a.Payload)
	}
	for _, r := range b.log("main") {
		if e, ok := r.Event.(agui.RunStarted); ok && len(e.Input.Resume) > 0 && e.Input.Resume[0].Payload != nil {
			t.Errorf("the span has taken %s", r.JSON(agui.Stored))
		}
	}
}

// The result of a client's tool is stored unchanged, also if it looks like a result of Baton's.
func TestAnswer_OfAClientsToolIsItsResult(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, asksFor("clerk", "track", "{}"))
	for payload, want := range map[string]string{
		`"two"`: "two", `{"status": "shipped", "eta": 3}`: `{"status": "shipped", "eta": 3}`, `{"Status":"failure"}`: `{"Status":"failure"}`,
		`{"status":"success","result_summary":"x"}`: `{"status":"success","result_summary":"x"}`,
	} {
		s := b.request(runtime.StartRequest{Agent: "clerk", Messages: user("go"), Tools: []agui.Tool{{Name: "track"}}})
		b.wait(s.RunID, runtime.Waiting)
		b.resume(s.RunID, payload)
		if got := b.answer(s.RunID); got != want {
			t.Errorf("%s has become %s", payload, got)
		}
	}
}
