package runtime_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// connecting is a toolbox whose tools are not known yet.
type connecting struct{ name string }

func (c connecting) Info() plugins.Info     { return plugins.Info{Name: c.name} }
func (connecting) Tools() []plugins.Tool    { return nil }
func (connecting) Settled() <-chan struct{} { return make(chan struct{}) }

// A client's tool cannot have a name of the server's: of a tool, of an agent, which agents call as a tool, or one of a toolbox.
func TestClientTools_HaveNoNameOfTheServers(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	b := open(t, runtime.Config{}, pay(&calls), clerk, connecting{"slow"})
	for name, want := range map[string]string{"pay": "invalid_tool", "clerk": "invalid_tool", "slow.any": "invalid_tool", "other.any": "", "slow": ""} {
		_, err := b.StartRun(t.Context(), local, runtime.StartRequest{Agent: "clerk", Messages: user("hi"), Tools: []agui.Tool{{Name: name}}})
		if code := code(err); err == nil && want != "" || err != nil && code != want {
			t.Errorf("a client's tool %s: %v, want %q", name, err, want)
		}
	}
}

// A tool that the server has since the run began is not called in the place of the client's, whose schema the call breaks.
func TestClientTools_AreNotReplaced(t *testing.T) {
	t.Parallel()
	asks := agent{"asks", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if _, err := run.Ask(ctx, agui.Interrupt{Message: "?"}); err != nil {
			return agui.WorkerOutput{}, err
		}
		out, err := run.CallTool(ctx, "pay", map[string]any{"euros": 5})
		return agui.WorkerOutput{Answer: out.ResultSummary}, err
	}}
	b := open(t, runtime.Config{}, asks)
	s := b.request(runtime.StartRequest{Agent: "asks", ThreadID: "main", Messages: user("go"), Tools: []agui.Tool{
		{Name: "pay", Parameters: []byte(`{"type":"object","required":["cents"]}`)},
	}})
	b.wait(s.RunID, runtime.Waiting)
	var calls atomic.Int64
	reg := new(host.Registry)
	must(t, reg.Add(asks, pay(&calls)))
	must(t, b.Replace(t.Context(), reg))
	asked, err := b.Runs.Interrupts(t.Context(), local, s.RunID)
	if err != nil || len(asked) != 1 {
		t.Fatal(asked, err)
	}
	if _, err := b.Resume(t.Context(), local, s.RunID, []agui.ResumeEntry{{InterruptID: asked[0].ID, Status: "resolved", Payload: []byte(`1`)}}); err != nil {
		t.Fatal(err)
	}
	if run := b.wait(s.RunID, runtime.Completed); !strings.Contains(*run.OutputSummary, "cents") || calls.Load() != 0 {
		t.Errorf("the call ended with %q; the server's tool was called %d times", *run.OutputSummary, calls.Load())
	}
}

// An agent gets the images of a client's answer, as it gets those of its own tools' results.
func TestClientTools_ReturnImages(t *testing.T) {
	t.Parallel()
	const picture = `[{"type":"text","text":"a dot"},{"type":"image","source":{"type":"data","value":"aGk=","mimeType":"image/png"}}]`
	got := make(chan string, 1)
	b := open(t, runtime.Config{}, agent{"looks", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		out, err := run.CallTool(ctx, "camera", map[string]any{})
		if err == nil {
			got <- out.ResultSummary + string(out.Parts)
		}
		return agui.WorkerOutput{}, err
	}})
	req := runtime.StartRequest{Agent: "looks", ThreadID: "main", Messages: user("go"), Tools: []agui.Tool{{Name: "camera"}}}
	s := b.request(req)
	b.wait(s.RunID, runtime.Waiting)
	asked, err := b.Runs.Interrupts(t.Context(), local, s.RunID)
	if err != nil || len(asked) != 1 {
		t.Fatal(asked, err)
	}
	req.Messages = []agui.Message{{ID: "m", Role: agui.RoleTool, ToolCallID: asked[0].ID, Parts: []byte(picture)}}
	if s, err = b.StartRun(t.Context(), local, req); err != nil {
		t.Fatal(err)
	}
	b.wait(s.RunID, runtime.Completed)
	if out := <-got; out != "a dot"+picture {
		t.Errorf("the agent got %s", out)
	}
}
