package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// adder adds its arguments after an approval.
func adder(approval bool) tool {
	return tool{
		plugins.Info{
			Name: "add.up", Approval: approval, Projects: []string{"default"},
			Parameters: json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a"]}`),
		},
		func(ctx context.Context, c *plugins.Call) (agui.ToolOutput, error) {
			var args struct{ A, B int64 }
			if err := json.Unmarshal(c.Args, &args); err != nil {
				return agui.ToolOutput{}, err
			}
			if args.A < 0 {
				<-ctx.Done()
				return agui.ToolOutput{}, ctx.Err()
			}
			sum, err := json.Marshal(args.A + args.B)
			return agui.ToolOutput{ResultSummary: string(sum)}, err
		},
	}
}

// startTool starts a run of the tool add.up.
func (b *bench) startTool(thread, args string) runtime.Started {
	b.t.Helper()
	return b.request(runtime.StartRequest{Tool: "add.up", ThreadID: thread, Messages: user(args)})
}

// TestARunMayBeOneCallOfATool runs tools that succeed, fail, ask and hang.
func TestARunMayBeOneCallOfATool(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, adder(false), answering("echo", func(q string) string { return q }))
	s := b.startTool("main", ` {"a": 9007199254740993, "b": 1}`)
	run := b.wait(s.RunID, runtime.Completed)
	if run.WorkflowID != "tool:add.up" || run.Agent != "" || *run.OutputSummary != "9007199254740994" {
		t.Errorf("got %+v with %v", run.RunHead, *run.OutputSummary)
	}
	recs := b.log("main")
	checkLog(t, recs)
	var result agui.ToolCallResult
	for _, r := range recs {
		if ev, ok := r.Event.(agui.ToolCallResult); ok {
			result = ev
		}
	}
	if result.Content != "9007199254740994" || result.Output == nil || result.Output.ToolName != "add.up" || string(result.Output.ToolCallArgs) != `{"a":9007199254740993,"b":1}` {
		t.Errorf("the result is %+v with %+v", result, result.Output)
	}

	for args, code := range map[string]string{`{}`: "invalid_arguments", `{"a": "x"}`: "invalid_arguments", `[1]`: "invalid_arguments"} {
		s := b.startTool("wrong", args)
		if run := b.wait(s.RunID, runtime.Failed); run.Error == nil || run.Error.Code != code {
			t.Errorf("%s: %+v", args, run.Error)
		}
	}

	s = b.startTool("hangs", `{"a": -1}`)
	b.wait(s.RunID, runtime.Running)
	if run, err := b.Cancel(context.Background(), local, s.RunID); err != nil || run.Status != runtime.Cancelled {
		t.Errorf("cancelled: %+v, %v", run.Status, err)
	}

	// A later run on the thread is a run of the tool only if its request names the tool.
	_, err := b.StartRun(context.Background(), local, runtime.StartRequest{ThreadID: "main", Messages: []agui.Message{{Role: agui.RoleUser, Content: "x"}}})
	if refusal, ok := errors.AsType[*runtime.Error](err); !ok || refusal.Code != "missing_agent" {
		t.Errorf("without an agent: %v", err)
	}
	b.start("main", "echo", "hello")
	if _, err := b.Append(context.Background(), local, s.RunID, runtime.AppendRequest{Content: "{}"}); err == nil {
		t.Error("a cancelled run has taken a message")
	}
}

// TestARunOfAToolGoesOnceMore appends another set of arguments.
func TestARunOfAToolGoesOnceMore(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, adder(false))
	s := b.startTool("main", `{"a": 1}`)
	b.wait(s.RunID, runtime.Completed)
	b.appended(s.RunID, `{"a": 5}`)
	b.log("main")
	if run := b.wait(s.RunID, runtime.Completed); run.Generation != 2 || *run.OutputSummary != "5" {
		t.Errorf("generation %d has %q", run.Generation, *run.OutputSummary)
	}
}

// A run of a tool that needs an approval fails if it is denied. Approvals are those of TestApproval_TellsWhatWasExecuted.
func TestARunOfAToolIsDenied(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, adder(true))
	s := b.startTool("main", `{"a": 1}`)
	b.reply(s.RunID, always(decline))
	if run := b.wait(s.RunID, runtime.Failed); run.Error == nil || run.Error.Code != "denied" {
		t.Errorf("the run failed with %+v", run.Error)
	}
	checkLog(t, b.log("main"))
}

// TestToolsThatCannotBeRun starts runs of tools that do not exist.
func TestToolsThatCannotBeRun(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, adder(false), answering("echo", func(q string) string { return q }))
	elsewhere := runtime.MustCaller("other", "local", runtime.RoleAdmin)
	for _, c := range []struct {
		who  runtime.Caller
		req  runtime.StartRequest
		code string
	}{
		{local, runtime.StartRequest{Tool: "none"}, "unknown_tool"},
		{local, runtime.StartRequest{Tool: "echo"}, "unknown_tool"},
		{elsewhere, runtime.StartRequest{Tool: "add.up"}, "unknown_tool"},
		{local, runtime.StartRequest{Tool: "add.up", Agent: "echo"}, "invalid_request"},
		{local, runtime.StartRequest{WorkflowID: "tool:add.up"}, "unknown_workflow"},
		{local, runtime.StartRequest{Agent: "tool:add.up"}, "unknown_agent"},
	} {
		_, err := b.StartRun(context.Background(), c.who, c.req)
		if refusal, ok := errors.AsType[*runtime.Error](err); !ok || refusal.Code != c.code {
			t.Errorf("%+v: %v, want %s", c.req, err, c.code)
		}
	}
}
