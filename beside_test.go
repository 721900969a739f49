package baton_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// lateBox is a toolbox whose tool comes after the server's start.
type lateBox struct {
	settled chan struct{}
	asked   chan struct{} // has an element after somebody waits
}

func (l *lateBox) Info() plugins.Info { return plugins.Info{Name: "late"} }

func (l *lateBox) Settled() <-chan struct{} {
	select {
	case l.asked <- struct{}{}:
	default:
	}
	return l.settled
}

func (l *lateBox) Tools() []plugins.Tool {
	select {
	case <-l.settled:
		return []plugins.Tool{lateTool{}}
	default:
		return nil
	}
}

type lateTool struct{}

func (lateTool) Info() plugins.Info { return plugins.Info{Name: "late.get"} }

func (lateTool) Call(context.Context, *plugins.Call) (agui.ToolOutput, error) {
	return agui.ToolOutput{ResultSummary: "got it"}, nil
}

// A run that begins before a tool server has answered still has its tools.
func TestStart_FirstRunSeesTools(t *testing.T) {
	t.Parallel()
	list := plugins.AgentFunc("list", func(_ context.Context, run *plugins.Run) error {
		for _, info := range run.Tools("late.*") {
			_, _ = run.Text().Write([]byte(info.Name))
		}
		return nil
	})
	call := plugins.AgentFunc("call", func(ctx context.Context, run *plugins.Run) error {
		out, err := run.CallTool(ctx, "late.get", nil)
		_, _ = run.Text().Write([]byte(out.ResultSummary))
		return err
	})
	for agent, want := range map[string]string{"list": "late.get", "call": "got it", "flow": "got it"} {
		box := &lateBox{settled: make(chan struct{}), asked: make(chan struct{}, 1)}
		s := open(t, baton.Config{Listen: "127.0.0.1:0", Plugins: []plugins.Plugin{box, list, call, plugins.Workflow{
			Name: "flow", Nodes: []plugins.Node{{ID: "a", Tool: "late.get"}},
		}}})
		go func() { // ends with the run
			<-box.asked
			close(box.settled)
		}()
		field := "agent"
		if agent == "flow" {
			field = "workflowId"
		}
		res := send(t, http.MethodPost, s.URL()+"/api/v1/agent/runs", `{"`+field+`":"`+agent+`","content":"x"}`, "Accept", "text/event-stream")
		body := answer(t, res)
		if !strings.Contains(body, want) {
			t.Errorf("%s: no %q in %s", agent, want, body)
		}
	}
}
