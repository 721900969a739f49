package fold_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/fold"
)

// Every event that stays in memory counts, with a fixed cost for small ones.
func TestFold_GrownCountsAllThatStays(t *testing.T) {
	const mega = 1 << 20
	large := strings.Repeat("x", mega)
	object := json.RawMessage(`{"x":"` + large + `"}`)
	message := []agui.Event{agui.TextMessageStart{MessageID: "m"}}
	call := []agui.Event{agui.ToolCallStart{ToolCallID: "c", ToolCallName: "n"}}
	for name, ev := range map[string]struct {
		before []agui.Event
		ev     agui.Event
		want   int
	}{
		"a message's name":                {nil, agui.TextMessageStart{MessageID: "n", Name: large}, mega},
		"a message's id":                  {nil, agui.ReasoningMessageStart{MessageID: large}, mega},
		"a text":                          {message, agui.TextMessageContent{MessageID: "m", Delta: large}, mega},
		"metadata":                        {message, agui.TextMessageContent{Base: agui.Base{Metadata: object}, MessageID: "m", Delta: "x"}, mega},
		"an output":                       {message, agui.TextMessageEnd{MessageID: "m", Output: &agui.WorkerOutput{Answer: large}}, mega - 1<<10}, // its opener is gone
		"a call's name":                   {nil, agui.ToolCallStart{ToolCallID: "c", ToolCallName: large}, mega},
		"a call's name anew":              {call, agui.ToolCallStart{ToolCallID: "c", ToolCallName: large}, mega},
		"arguments":                       {call, agui.ToolCallArgs{ToolCallID: "c", Delta: large}, mega},
		"a result":                        {call, agui.ToolCallResult{MessageID: "r", ToolCallID: "c", Content: large}, mega},
		"a result's metadata":             {call, agui.ToolCallResult{Base: agui.Base{Metadata: object}, MessageID: "r", ToolCallID: "c"}, mega},
		"an encrypted value of a message": {message, agui.ReasoningEncryptedValue{Subtype: "message", EntityID: "m", EncryptedValue: large}, mega},
		"an encrypted value of a call":    {call, agui.ReasoningEncryptedValue{Subtype: "tool-call", EntityID: "c", EncryptedValue: large}, mega},
		"an activity":                     {nil, agui.ActivitySnapshot{MessageID: "a", Content: object}, mega},
		"a step's name":                   {nil, agui.StepStarted{StepName: large}, mega},
		"a sub-agent's description":       {nil, agui.SubagentStarted{Base: agui.Base{SubagentRunID: "s"}, Description: large}, mega},
		"a provider's own event":          {nil, agui.ReasoningStart{Base: agui.Base{RawEvent: object}, MessageID: "m"}, mega},
		"what is small":                   {nil, agui.TextMessageStart{MessageID: "n"}, 1 << 10},
		"a user's message":                {nil, agui.RunStarted{Input: &agui.RunAgentInput{Messages: []agui.Message{{ID: "u", Role: agui.RoleUser, Content: large}}}}, 0},
		"what nobody keeps":               {nil, agui.Custom{Base: agui.Base{Metadata: object}, Name: "n"}, 0},
	} {
		f := fold.New(nil, nil)
		apply(t, f, ev.before...)
		before := f.Grown()
		apply(t, f, ev.ev)
		if got := f.Grown() - before; got < ev.want || got > ev.want+4<<10 {
			t.Errorf("%s grows it by %d, want about %d", name, got, ev.want)
		}
	}
}

// Ended entities no longer count, since a run may open many in turn. Messages given to New count like new ones.
func TestFold_GrownDropsEndedEntities(t *testing.T) {
	f := fold.New(nil, nil)
	for i := range 100 {
		name := fmt.Sprint("step ", i)
		apply(t, f, agui.StepStarted{StepName: name}, agui.StepFinished{StepName: name})
	}
	apply(t, f, agui.ReasoningStart{MessageID: "m"}, agui.RunError{})
	if f.Grown() != 0 {
		t.Errorf("%d bytes count on", f.Grown())
	}
	apply(t, f,
		agui.TextMessageStart{MessageID: "m"}, agui.TextMessageContent{MessageID: "m", Delta: "some text"}, agui.TextMessageEnd{MessageID: "m"},
		agui.ToolCallStart{ToolCallID: "c", ToolCallName: "n", ParentMessageID: "m"}, agui.ToolCallArgs{ToolCallID: "c", Delta: "{}"}, agui.ToolCallEnd{ToolCallID: "c"},
	)
	if again := fold.New(nil, f.Messages()); again.Grown() != f.Grown() {
		t.Errorf("it has grown by %d, and with its messages begins at %d", f.Grown(), again.Grown())
	}
}
