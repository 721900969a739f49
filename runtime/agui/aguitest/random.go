// Package aguitest makes event streams for tests and fuzzing.
package aguitest

import (
	"encoding/json"
	"strconv"

	"github.com/batonrun/baton/runtime/agui"
)

// Random returns the events that data spells out, two bytes each. They draw on few ids, so that many
// streams are nearly legal, and few are: pass them through Legal.
func Random(data []byte) []agui.Event {
	var events []agui.Event
	for i := 0; i+1 < len(data); i += 2 {
		events = append(events, event(data[i], data[i+1]))
	}
	return events
}

// Legal returns the events that v accepts, followed by v's own closers and a terminal event.
func Legal(v *agui.Verifier, events []agui.Event) []agui.Event {
	legal := take(v, nil, agui.RunStarted{})
	for _, ev := range events {
		legal = take(v, legal, ev)
	}
	if !v.Started() {
		return legal
	}
	for _, ev := range append(v.Closers(), agui.RunFinished{}) {
		legal = take(v, legal, ev)
	}
	return legal
}

func take(v *agui.Verifier, list []agui.Event, ev agui.Event) []agui.Event {
	if v.Add(ev) != nil {
		return list
	}
	return append(list, ev)
}

// event returns the event of a kind; arg chooses its ids, its owner and its content.
func event(kind, arg byte) agui.Event {
	id := strconv.Itoa(int(arg & 3))
	sub := "s" + strconv.Itoa(int(arg>>2&1))
	var b agui.Base
	if arg&0x30 == 0x10 {
		b.SubagentRunID = sub
	}
	if arg&0xc0 == 0xc0 {
		b.Agent, b.Metadata = "a"+id, json.RawMessage(`{"k`+id+`":`+id+`}`)
	}
	delta := string(rune('a' + arg>>3))
	switch kind % 32 {
	case 0:
		return agui.TextMessageStart{Base: b, MessageID: "m" + id, Role: agui.RoleAssistant, Stage: delta}
	case 1, 2, 3:
		return agui.TextMessageContent{Base: b, MessageID: "m" + id, Delta: delta}
	case 4:
		return agui.TextMessageEnd{Base: b, MessageID: "m" + id, Output: &agui.WorkerOutput{Status: agui.StatusSuccess, Answer: delta}}
	case 5:
		return agui.ToolCallStart{Base: b, ToolCallID: "c" + strconv.Itoa(int(arg&15)), ToolCallName: "t"}
	case 6:
		return agui.ToolCallStart{Base: b, ToolCallID: "c" + id, ToolCallName: "t", ParentMessageID: "m" + delta[:1]}
	case 7:
		return agui.ToolCallStart{Base: b, ToolCallID: "c" + strconv.Itoa(int(arg>>4)), ToolCallName: "t", ParentMessageID: "m" + id}
	case 8, 9:
		return agui.ToolCallArgs{Base: b, ToolCallID: "c" + id, Delta: delta}
	case 10:
		return agui.ToolCallEnd{Base: b, ToolCallID: "c" + id}
	case 11, 12:
		return agui.ToolCallResult{Base: b, MessageID: "t" + strconv.Itoa(int(arg)), ToolCallID: "c" + id, Content: delta}
	case 13:
		return agui.StepStarted{Base: b, StepName: "p" + id}
	case 14:
		return agui.StepFinished{Base: b, StepName: "p" + id}
	case 15:
		b.SubagentRunID = sub
		return agui.SubagentStarted{Base: b, Name: "n" + sub}
	case 16:
		b.SubagentRunID = "s1"
		return agui.SubagentStarted{Base: b, Name: "ns1", ParentSubagentRunID: "s0"}
	case 17:
		b.SubagentRunID, b.Metadata = sub, json.RawMessage(`{"name":"n`+sub+`"}`)
		return agui.SubagentFinished{Base: b}
	case 18:
		return agui.ReasoningStart{Base: b, MessageID: "r" + id}
	case 19:
		return agui.ReasoningMessageStart{Base: b, MessageID: "r" + id}
	case 20, 21:
		return agui.ReasoningMessageContent{Base: b, MessageID: "r" + id, Delta: delta}
	case 22:
		return agui.ReasoningMessageEnd{Base: b, MessageID: "r" + id}
	case 23:
		return agui.ReasoningEnd{Base: b, MessageID: "r" + id}
	case 24:
		return agui.StateSnapshot{Base: b, Snapshot: json.RawMessage(`{"n":` + id + `,"l":[]}`)}
	case 25:
		op := []string{"add", "replace", "remove", "test"}[arg&3]
		return agui.StateDelta{Base: b, Delta: json.RawMessage(`[{"op":"` + op + `","path":"/n","value":` + id + `}]`)}
	case 26:
		return agui.ActivitySnapshot{Base: b, MessageID: "v" + id, ActivityType: "plan", Content: json.RawMessage(`{"n":` + id + `}`), Replace: replace(arg)}
	case 27:
		return agui.ActivityDelta{Base: b, MessageID: "v" + id, ActivityType: "plan", Patch: json.RawMessage(`[{"op":"add","path":"/x","value":1}]`)}
	case 28:
		return agui.MessagesSnapshot{Base: b, Messages: history(arg)}
	case 29:
		return agui.ReasoningEncryptedValue{Base: b, Subtype: []string{"message", "tool-call"}[arg&1], EntityID: "mrct"[arg>>1&3:arg>>1&3+1] + id, EncryptedValue: delta}
	case 30:
		return agui.RunStarted{Input: &agui.RunAgentInput{Messages: history(arg)}}
	}
	if arg&1 == 0 {
		return agui.RunFinished{}
	}
	return agui.RunError{Message: "boom"}
}

func replace(arg byte) *bool {
	if arg&8 == 0 {
		return nil
	}
	v := arg&4 == 0
	return &v
}

// history returns messages under the ids that event uses.
func history(arg byte) []agui.Message {
	all := []agui.Message{
		{ID: "u" + strconv.Itoa(int(arg)), Role: agui.RoleUser, Content: "hi"},
		{ID: "m0", Role: agui.RoleAssistant, Content: "x", ToolCalls: []agui.ToolCall{{ID: "c0", Name: "t", Arguments: "{}"}}},
		{ID: "m1", Role: agui.RoleAssistant, SubagentRunID: "s0", Content: "y"},
		{ID: "r0", Role: agui.RoleReasoning, Content: "hm"},
		{ID: "v0", Role: agui.RoleActivity, ActivityType: "plan", Parts: json.RawMessage(`{"n":9}`)},
		{ID: "m2", Role: agui.RoleUser, Parts: json.RawMessage(`[{"type":"text","text":"z"}]`)},
	}
	var list []agui.Message
	for i, m := range all {
		if arg>>i&1 == 1 {
			list = append(list, m)
		}
	}
	return list
}
