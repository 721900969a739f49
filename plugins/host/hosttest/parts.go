package hosttest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// painter is a tool with a structured result.
type painter struct{}

func (painter) Info() plugins.Info { return plugins.Info{Name: "paint"} }

const painted = `[{"type":"text","text":"a dot"},{"type":"image","source":{"type":"data","value":"aGk=","mimeType":"image/png"}}]`

func (painter) Call(_ context.Context, call *plugins.Call) (agui.ToolOutput, error) {
	call.Report(0.5, "half a dot")
	return agui.ToolOutput{ResultSummary: "a dot", Parts: json.RawMessage(painted)}, nil
}

func testParts(t *testing.T, s *suite) {
	agent := worker{"painter", func(ctx context.Context, run *plugins.Run) (string, error) {
		out, err := run.CallTool(ctx, "paint", nil)
		if err != nil {
			return "", err
		}
		answer, err := run.Ask(ctx, agui.Interrupt{Message: "Nice?"}) // replays the record
		return fmt.Sprintf("%s %s", out.Parts, answer.Payload), err
	}}
	got := s.run(t, Case{Agent: agent, Plugins: []plugins.Plugin{painter{}}, Answer: func(agui.Interrupt) plugins.Answer {
		return plugins.Answer{Payload: json.RawMessage("1")}
	}})
	if got.Answer != painted+" 1" || got.Code != "" {
		t.Errorf("got %q, %s", got.Answer, got.Code)
	}
	var shown, half bool
	for _, ev := range got.Events {
		switch e := ev.(type) {
		case agui.ToolCallResult:
			shown = string(e.Parts) == painted && e.Output != nil && e.Output.Parts == nil
		case agui.Custom:
			half = e.Name == agui.ProgressEvent && string(e.Value) == `{"nodeId":"painter","progress":0.5,"message":"half a dot"}`
		default:
		}
	}
	if !shown || !half {
		t.Errorf("parts shown: %v, progress told: %v", shown, half)
	}
}

// testOwnScopes crashes a worker inside a step and a sub-agent that it emitted itself. Replayed, it opens them again.
func testOwnScopes(t *testing.T, s *suite) {
	times := 0
	s.check("done", Case{}, func(ctx context.Context, run *plugins.Run) (string, error) {
		times++
		sub := agui.Base{SubagentRunID: fmt.Sprint("sub-agent ", times)}
		for _, ev := range []agui.Event{
			agui.StepStarted{StepName: "inner"}, agui.SubagentStarted{Base: sub, Name: "critic"}, agui.StepStarted{Base: sub, StepName: "read"},
		} {
			if err := run.Emit(ev); err != nil {
				return "", err
			}
		}
		if err := run.Do(ctx, "stored", nil, func(context.Context) error { return nil }); err != nil {
			return "", err
		}
		if times == 1 {
			return "", s.die(ctx)
		}
		for _, ev := range []agui.Event{
			agui.StepFinished{Base: sub, StepName: "read"},
			agui.SubagentFinished{Base: agui.Base{SubagentRunID: sub.SubagentRunID, Metadata: json.RawMessage(`{"name":"critic"}`)}},
			agui.StepFinished{StepName: "inner"},
		} {
			if err := run.Emit(ev); err != nil {
				return "", err
			}
		}
		return "done", nil
	})
}
