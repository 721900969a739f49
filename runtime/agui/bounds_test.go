package agui_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime/agui"
)

// growers are the events that open something which stays open.
func growers(i int) map[string][]agui.Event {
	id := fmt.Sprint("x", i)
	sub := agui.Base{SubagentRunID: id}
	return map[string][]agui.Event{
		"steps":            {agui.StepStarted{StepName: id}},
		"sub-agents":       {agui.SubagentStarted{Base: sub, Name: "n"}},
		"calls":            {agui.ToolCallStart{ToolCallID: id, ToolCallName: "t"}},
		"unanswered calls": {agui.ToolCallStart{ToolCallID: id, ToolCallName: "t"}, agui.ToolCallEnd{ToolCallID: id}},
		"reasoning":        {agui.ReasoningMessageStart{MessageID: id}},
		"reasoning spans":  {agui.ReasoningStart{MessageID: id}},
	}
}

func TestVerifier_BoundsWhatIsOpen(t *testing.T) {
	for name := range growers(0) {
		t.Run(name, func(t *testing.T) {
			var v agui.Verifier
			legal(t, &v, agui.RunStarted{})
			for i := range bound(name) {
				legal(t, &v, growers(i)[name]...)
			}
			err := v.Add(growers(bound(name))[name][0])
			if err == nil || !strings.Contains(err.Error(), "open, which is all") {
				t.Fatalf("one more: %v", err)
			}
			legal(t, &v, v.Closers()...)
			for _, id := range v.Unanswered() {
				legal(t, &v, agui.ToolCallResult{MessageID: "r" + id, ToolCallID: id})
			}
			legal(t, &v, growers(bound(name))[name]...) // there is room again
		})
	}
}

// Ended entities take no more work, so a run may open any number of steps, calls and sub-agents in turn.
func TestVerifier_ForgetsWhatHasEnded(t *testing.T) {
	var v agui.Verifier
	legal(t, &v, agui.RunStarted{})
	for i := range 3 * agui.MaxOpen {
		id := fmt.Sprint(i)
		sub := agui.Base{SubagentRunID: id}
		done := agui.Base{SubagentRunID: id, Metadata: json.RawMessage(`{"name":"n"}`)}
		legal(t, &v,
			agui.SubagentStarted{Base: sub, Name: "n"}, agui.StepStarted{Base: sub, StepName: "s"},
			agui.ToolCallStart{ToolCallID: id, ToolCallName: "t"}, agui.ToolCallResult{MessageID: "r" + id, ToolCallID: id},
			agui.ToolCallEnd{ToolCallID: id}, agui.StepFinished{Base: sub, StepName: "s"}, agui.SubagentFinished{Base: done})
	}
	if n := len(v.Closers()) + len(v.Unanswered()); n != 0 {
		t.Errorf("%d things are open", n)
	}
}

func TestVerifier_BoundsNames(t *testing.T) {
	long := strings.Repeat("x", 1025)
	for _, ev := range []agui.Event{
		agui.StepStarted{StepName: long},
		agui.SubagentStarted{Base: agui.Base{SubagentRunID: long}, Name: "n"},
		agui.SubagentStarted{Base: agui.Base{SubagentRunID: "s"}, Name: long},
		agui.TextMessageStart{MessageID: long},
		agui.ReasoningStart{MessageID: long},
		agui.ToolCallStart{ToolCallID: long, ToolCallName: "t"},
		agui.ActivitySnapshot{MessageID: long, ActivityType: "t", Content: json.RawMessage(`{}`)},
	} {
		var v agui.Verifier
		legal(t, &v, agui.RunStarted{})
		if err := v.Add(ev); err == nil || !strings.Contains(err.Error(), "1024 bytes") {
			t.Errorf("%s: %v", ev.Type(), err)
		}
	}
	var v agui.Verifier
	legal(t, &v, agui.RunStarted{})
	for i := 0; ; i++ {
		id := fmt.Sprintf("%01024d", i)
		if err := v.Add(agui.ReasoningStart{MessageID: id}); err != nil {
			break
		}
		legal(t, &v, agui.ReasoningEnd{MessageID: id})
		if i > 40_000 {
			t.Fatal("the ids of what has ended grow without end")
		}
	}
}

func TestVerifier_BoundsPatches(t *testing.T) {
	patch := func(n int) json.RawMessage {
		return json.RawMessage("[" + strings.TrimSuffix(strings.Repeat(`{"op":"add","path":"/a","value":1},`, n), ",") + "]")
	}
	var v agui.Verifier
	legal(t, &v, agui.RunStarted{})
	legal(t, &v, agui.StateDelta{Delta: patch(agui.MaxOperations)}, agui.ActivityDelta{MessageID: "a", ActivityType: "plan", Patch: patch(agui.MaxOperations)})
	for _, ev := range []agui.Event{
		agui.StateDelta{Delta: patch(agui.MaxOperations + 1)}, agui.ActivityDelta{MessageID: "a", ActivityType: "plan", Patch: patch(agui.MaxOperations + 1)},
	} {
		if err := v.Add(ev); err == nil {
			t.Errorf("%s: no error", ev.Type())
		}
	}
}

func legal(t *testing.T, v *agui.Verifier, events ...agui.Event) {
	t.Helper()
	for _, ev := range events {
		if err := v.Add(ev); err != nil {
			t.Fatal(err)
		}
	}
}

// bound is how many of a kind may be open at once.
func bound(kind string) int {
	if strings.HasSuffix(kind, "calls") {
		return agui.MaxOpen / 2
	}
	return agui.MaxOpen
}
