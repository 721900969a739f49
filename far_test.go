package baton_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/remote"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// refunds is an agent with a call that needs an approval, and its tool.
type refunds struct{}

func (refunds) Info() plugins.Info { return plugins.Info{Name: "clerk"} }

func (refunds) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	out, err := run.CallTool(ctx, "refund", map[string]int{"euros": 5})
	return agui.WorkerOutput{Answer: out.ResultSummary}, err
}

type refund struct{}

func (refund) Info() plugins.Info { return plugins.Info{Name: "refund", Approval: true} }

func (refund) Call(context.Context, *plugins.Call) (agui.ToolOutput, error) {
	return agui.ToolOutput{ResultSummary: "refunded"}, nil
}

// An approval of another Baton is a question about a call that stays open, and the other's result is the result.
func TestRemote_ApprovalOfAnotherBaton(t *testing.T) {
	t.Parallel()
	there := open(t, baton.Config{Listen: "127.0.0.1:0", Plugins: []plugins.Plugin{refunds{}, refund{}}})
	far, err := remote.New(remote.Config{Name: "far", URL: there.URL() + "/api/v1/agui/clerk"})
	must(t, err)
	rt := open(t, baton.Config{Listen: "127.0.0.1:0", Plugins: []plugins.Plugin{far}}).Runtime()
	who := runtime.MustCaller("default", "local", runtime.RoleUser)
	started, err := rt.StartRun(t.Context(), who, runtime.StartRequest{
		Agent: "far", ThreadID: "main", Messages: []agui.Message{{Role: agui.RoleUser, Content: "go"}},
	})
	must(t, err)
	call := []string{"call refund", "args {\"euros\":5}", "end"}
	if got := callsIn(t, rt, who); !slices.Equal(got, call) {
		t.Fatalf("before the answer: %q", got)
	}
	asked, err := rt.Runs.Interrupts(t.Context(), who, started.RunID)
	if err != nil || len(asked) != 1 || asked[0].ToolCallID == "" {
		t.Fatal(asked, err)
	}
	answer := agui.ResumeEntry{InterruptID: asked[0].ID, Status: "resolved", Payload: json.RawMessage(`{"approved":true}`)}
	if _, err := rt.Resume(t.Context(), who, started.RunID, []agui.ResumeEntry{answer}); err != nil {
		t.Fatal(err)
	}
	if got, want := callsIn(t, rt, who), slices.Concat(call, []string{"success refunded"}); !slices.Equal(got, want) {
		t.Errorf("after the answer: %q, want %q", got, want)
	}
}

// callsIn returns the events of calls in the log of the thread main, once no run is executing.
func callsIn(t *testing.T, rt *runtime.Runtime, who runtime.Caller) (list []string) {
	t.Helper()
	th, err := rt.Threads.Get(t.Context(), who, "main")
	must(t, err)
	cur, err := rt.Logs.Read(t.Context(), th, 0, false)
	must(t, err)
	defer cur.Close()
	for {
		recs, err := cur.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return list
		}
		must(t, err)
		for _, r := range recs {
			switch e := r.Event.(type) {
			case agui.ToolCallStart:
				list = append(list, "call "+e.ToolCallName)
			case agui.ToolCallArgs:
				list = append(list, "args "+e.Delta)
			case agui.ToolCallEnd:
				list = append(list, "end")
			case agui.ToolCallResult:
				list = append(list, e.Output.Status+" "+e.Content)
			}
		}
	}
}
