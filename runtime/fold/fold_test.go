package fold_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/agui/aguitest"
	"github.com/batonrun/baton/runtime/fold"
)

// apply applies events and returns the ids that the last one changed.
func apply(t *testing.T, f *fold.Fold, events ...agui.Event) (changed []string) {
	t.Helper()
	for _, ev := range events {
		var err error
		if changed, err = f.Apply(ev); err != nil {
			t.Fatalf("%s: %v", ev.Type(), err)
		}
	}
	return changed
}

// dump returns the messages as JSON lines.
func dump(list []agui.Message) string {
	var out strings.Builder
	for _, m := range list {
		line, _ := m.MarshalJSON()
		out.Write(append(line, '\n'))
	}
	return out.String()
}

func same(t *testing.T, what, got, want string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestFold_Text(t *testing.T) {
	f := fold.New(nil, nil)
	b := agui.Base{Agent: "writer", Metadata: json.RawMessage(`{"k":1,"l":1}`)}
	apply(t, f,
		agui.RunStarted{Input: &agui.RunAgentInput{Messages: []agui.Message{{ID: "u", Role: agui.RoleUser, Content: "hi"}}}},
		agui.TextMessageStart{Base: b, MessageID: "m", Stage: "draft"},
		agui.TextMessageContent{MessageID: "m", Delta: "hel"},
		agui.TextMessageContent{Base: agui.Base{Metadata: json.RawMessage(`{"k":2}`)}, MessageID: "m", Delta: "lo"},
	)
	if got := f.Text("m"); got != "hello" {
		t.Errorf("Text = %q", got)
	}
	want := []agui.Event{agui.TextMessageStart{Base: agui.Base{Agent: "writer"}, MessageID: "m", Stage: "draft"}}
	if diff := cmp.Diff(want, f.Open()); diff != "" {
		t.Errorf("Open (-want +got):\n%s", diff)
	}
	changed := apply(t, f, agui.TextMessageEnd{MessageID: "m", Output: &agui.WorkerOutput{Answer: "hello"}})
	if diff := cmp.Diff([]string{"m"}, changed); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	same(t, "messages", dump(f.Messages()), `{"id":"u","role":"user","content":"hi"}
{"id":"m","role":"assistant","content":"hello","metadata":{"agent":"writer","stage":"draft","k":2,"l":1,"workerAgentOutput":{"status":"success","answer":"hello"}}}
`)
	if len(f.Open()) != 0 {
		t.Errorf("open after the end: %v", f.Open())
	}
}

// A reopening event must not repeat agent or stage if the message's own metadata has changed them.
func TestOpen_KeepsChangedMetadata(t *testing.T) {
	f := fold.New(nil, nil)
	mine := agui.Base{Agent: "writer", Metadata: json.RawMessage(`{"agent":"mine","stage":"final"}`)}
	apply(t, f,
		agui.TextMessageStart{Base: agui.Base{Agent: "writer"}, MessageID: "m", Stage: "draft"},
		agui.TextMessageContent{Base: mine, MessageID: "m", Delta: "x"},
		agui.ToolCallStart{Base: mine, ToolCallID: "c", ToolCallName: "look", ParentMessageID: "m"},
	)
	want := []agui.Event{
		agui.TextMessageStart{MessageID: "m"},
		agui.ToolCallStart{ToolCallID: "c", ToolCallName: "look", ParentMessageID: "m"},
	}
	if diff := cmp.Diff(want, f.Open()); diff != "" {
		t.Errorf("Open (-want +got):\n%s", diff)
	}
}

func TestFold_ToolCalls(t *testing.T) {
	f := fold.New(nil, []agui.Message{{ID: "u", Role: agui.RoleUser, Content: "hi"}})
	apply(t, f,
		agui.TextMessageStart{MessageID: "m"},
		agui.TextMessageEnd{MessageID: "m"},
		agui.ToolCallStart{ToolCallID: "c1", ToolCallName: "a", ParentMessageID: "m"},
		agui.ToolCallStart{ToolCallID: "c2", ToolCallName: "b", ParentMessageID: "m"},
		agui.ToolCallArgs{ToolCallID: "c1", Delta: "{"},
		agui.ToolCallArgs{ToolCallID: "c2", Delta: "[]"},
	)
	if changed := apply(t, f, agui.ToolCallEnd{ToolCallID: "c2"}); changed != nil {
		t.Errorf("a message with another call open was reported: %v", changed)
	}
	want := []agui.Event{
		agui.ToolCallStart{ToolCallID: "c1", ToolCallName: "a", ParentMessageID: "m"},
		agui.ToolCallArgs{ToolCallID: "c1", Delta: "{"},
	}
	if diff := cmp.Diff(want, f.Open()); diff != "" {
		t.Errorf("Open (-want +got):\n%s", diff)
	}
	apply(t, f, agui.ToolCallArgs{ToolCallID: "c1", Delta: "}"})
	if diff := cmp.Diff([]string{"m"}, apply(t, f, agui.ToolCallEnd{ToolCallID: "c1"})); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	apply(t, f,
		agui.ToolCallStart{ToolCallID: "c3", ToolCallName: "c"},
		agui.ToolCallArgs{ToolCallID: "c3", Delta: "{}"},
		agui.ToolCallEnd{ToolCallID: "c3"},
		agui.ToolCallStart{ToolCallID: "c4", ToolCallName: "d", ParentMessageID: "new"},
		agui.ToolCallArgs{ToolCallID: "c4", Delta: "{}"},
		agui.ToolCallEnd{ToolCallID: "c4"},
		agui.ToolCallStart{ToolCallID: "c5", ToolCallName: "e", ParentMessageID: "u"},
		agui.ToolCallArgs{ToolCallID: "c5", Delta: "{}"},
		agui.ToolCallEnd{ToolCallID: "c5"},
		agui.ToolCallResult{MessageID: "r1", ToolCallID: "c1", Content: "one", Output: &agui.ToolOutput{ToolName: "a", ToolCallID: "c1", ResultSummary: "one"}},
		agui.ToolCallResult{MessageID: "r2", ToolCallID: "c2", Parts: json.RawMessage(`[]`)},
		agui.ToolCallResult{MessageID: "r9", ToolCallID: "c9", Content: "nobody's"},
	)
	same(t, "messages", dump(f.Messages()), `{"id":"u","role":"user","content":"hi"}
{"id":"m","role":"assistant","toolCalls":[{"id":"c1","type":"function","function":{"name":"a","arguments":"{}"}},{"id":"c2","type":"function","function":{"name":"b","arguments":"[]"}}]}
{"id":"r1","role":"tool","content":"one","toolCallId":"c1","metadata":{"toolAgentOutput":{"tool_name":"a","tool_call_id":"c1","status":"success","result_summary":"one"}}}
{"id":"r2","role":"tool","content":[],"toolCallId":"c2"}
{"id":"c3","role":"assistant","toolCalls":[{"id":"c3","type":"function","function":{"name":"c","arguments":"{}"}}]}
{"id":"new","role":"assistant","toolCalls":[{"id":"c4","type":"function","function":{"name":"d","arguments":"{}"}}]}
{"id":"c5","role":"assistant","toolCalls":[{"id":"c5","type":"function","function":{"name":"e","arguments":"{}"}}]}
{"id":"r9","role":"tool","content":"nobody's","toolCallId":"c9"}
`)
	if _, err := f.Apply(agui.ToolCallResult{MessageID: "r1", ToolCallID: "c3"}); err == nil {
		t.Error("a result under a message id that is taken was accepted")
	}
}

func TestOpen_SplitsLongArguments(t *testing.T) {
	f := fold.New(nil, nil)
	long := `"` + strings.Repeat("aé€😀", 400_000) + `"`
	apply(t, f,
		agui.ToolCallStart{ToolCallID: "c", ToolCallName: "a"},
		agui.ToolCallArgs{ToolCallID: "c", Delta: long[:1_500_001]},
		agui.ToolCallArgs{ToolCallID: "c", Delta: long[1_500_001:]},
	)
	var got strings.Builder
	for _, ev := range f.Open()[1:] {
		delta := ev.(agui.ToolCallArgs).Delta
		if len(delta) > 1<<20 || !utf8.ValidString(delta) {
			t.Errorf("a delta has %d bytes", len(delta))
		}
		got.WriteString(delta)
	}
	if got.String() != long {
		t.Errorf("got %d bytes, want %d", len(got.String()), len(long))
	}
}

func TestFold_State(t *testing.T) {
	f := fold.New(nil, nil)
	same(t, "first state", string(f.State()), `{}`)
	apply(t, f,
		agui.StateSnapshot{Snapshot: json.RawMessage("{\n\"b\": \"<&>\", \"a\": [1]}")},
		agui.StateDelta{Delta: json.RawMessage(`[{"op":"add","path":"/a/-","value":{"x":"<"}},{"op":"test","path":"/b","value":"<&>"}]`)},
	)
	want := `{"b":"<&>","a":[1,{"x":"<"}]}`
	same(t, "state", string(f.State()), want)
	for _, bad := range []string{
		`[{"op":"remove","path":"/none"}]`,
		`[{"op":"add","path":"/c","value":1},{"op":"test","path":"/b","value":"other"}]`,
		`[{"op":"add","path":"/a/-1","value":1}]`,
		`[{"op":"add","path":"/a/9","value":1}]`,
		`{}`,
	} {
		if _, err := f.Apply(agui.StateDelta{Delta: json.RawMessage(bad)}); err == nil {
			t.Errorf("%s was applied", bad)
		}
		same(t, "state after "+bad, string(f.State()), want)
	}
	if _, err := f.Apply(agui.StateSnapshot{Snapshot: json.RawMessage(`{`)}); err == nil {
		t.Error("an invalid snapshot was applied")
	}
}

func TestFold_MessagesSnapshot(t *testing.T) {
	f := fold.New(nil, []agui.Message{
		{ID: "a", Role: agui.RoleAssistant, Content: "a"},
		{ID: "r", Role: agui.RoleReasoning, Content: "r"},
		{ID: "v", Role: agui.RoleActivity, ActivityType: "plan", Parts: json.RawMessage(`{}`)},
		{ID: "b", Role: agui.RoleUser, Content: "b"},
	})
	changed := apply(t, f, agui.MessagesSnapshot{Messages: []agui.Message{
		{ID: "c", Role: agui.RoleUser, Content: "c"},
		{ID: "b", Role: agui.RoleUser, Content: "new"},
	}})
	if diff := cmp.Diff([]string{"c", "b", "a"}, changed); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	same(t, "messages", dump(f.Messages()), `{"id":"r","role":"reasoning","content":"r"}
{"id":"v","role":"activity","content":{},"activityType":"plan"}
{"id":"b","role":"user","content":"new"}
{"id":"c","role":"user","content":"c"}
`)
	all := agui.Base{Metadata: json.RawMessage(`{"@ag-ui/client":{"authoritativeActivityTypes":null}}`)}
	apply(t, f, agui.MessagesSnapshot{Base: all, Messages: []agui.Message{{ID: "r2", Role: agui.RoleReasoning}}})
	same(t, "messages", dump(f.Messages()), `{"id":"r2","role":"reasoning","content":""}
`)
}

func TestFold_SnapshotWhileOpen(t *testing.T) {
	f := fold.New(nil, nil)
	apply(t, f,
		agui.TextMessageStart{MessageID: "m"},
		agui.TextMessageContent{MessageID: "m", Delta: "x"},
		agui.ToolCallStart{ToolCallID: "c", ToolCallName: "t", ParentMessageID: "m"},
		agui.MessagesSnapshot{Messages: []agui.Message{{
			ID: "m", Role: agui.RoleAssistant, Content: "y",
			ToolCalls: []agui.ToolCall{{ID: "c", Name: "t", Arguments: "{"}},
		}}},
		agui.TextMessageContent{MessageID: "m", Delta: "z"},
		agui.ToolCallArgs{ToolCallID: "c", Delta: "}"},
		agui.ToolCallEnd{ToolCallID: "c"},
	)
	if diff := cmp.Diff([]string{"m"}, apply(t, f, agui.TextMessageEnd{MessageID: "m"})); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	same(t, "messages", dump(f.Messages()),
		`{"id":"m","role":"assistant","content":"yz","toolCalls":[{"id":"c","type":"function","function":{"name":"t","arguments":"{}"}}]}`+"\n")
}

func TestFold_Activity(t *testing.T) {
	f := fold.New(nil, nil)
	no := false
	apply(t, f,
		agui.ActivitySnapshot{MessageID: "v", ActivityType: "plan", Content: json.RawMessage(`{"n":1}`)},
		agui.ActivitySnapshot{MessageID: "v", ActivityType: "other", Content: json.RawMessage(`{}`), Replace: &no},
	)
	if diff := cmp.Diff([]string{"v"}, apply(t, f, agui.ActivityDelta{MessageID: "v", ActivityType: "plan2", Patch: json.RawMessage(`[{"op":"replace","path":"/n","value":2}]`)})); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	apply(t, f, // an activity has no text
		agui.TextMessageStart{MessageID: "v"},
		agui.TextMessageContent{MessageID: "v", Delta: "x"},
		agui.TextMessageEnd{MessageID: "v"},
	)
	same(t, "messages", dump(f.Messages()), `{"id":"v","role":"activity","content":{"n":2},"activityType":"plan2"}`+"\n")
	if _, err := f.Apply(agui.ActivityDelta{MessageID: "none", Patch: json.RawMessage(`[]`)}); err == nil {
		t.Error("a delta of no activity was applied")
	}
}

func TestFold_EncryptedValues(t *testing.T) {
	f := fold.New(nil, []agui.Message{{ID: "m", Role: agui.RoleAssistant, ToolCalls: []agui.ToolCall{{ID: "c", Name: "t"}}}})
	before := f.Messages()
	if diff := cmp.Diff([]string{"m"}, apply(t, f, agui.ReasoningEncryptedValue{Subtype: "tool-call", EntityID: "c", EncryptedValue: "x"})); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	apply(t, f, agui.ReasoningEncryptedValue{Subtype: "message", EntityID: "m", EncryptedValue: "y"})
	same(t, "messages", dump(f.Messages()),
		`{"id":"m","role":"assistant","toolCalls":[{"id":"c","type":"function","function":{"name":"t","arguments":""},"encryptedValue":"x"}],"encryptedValue":"y"}`+"\n")
	same(t, "messages given out before", dump(before),
		`{"id":"m","role":"assistant","toolCalls":[{"id":"c","type":"function","function":{"name":"t","arguments":""}}]}`+"\n")
}

func TestFold_RunErrorCompletesOpenMessages(t *testing.T) {
	f := fold.New(nil, nil)
	apply(t, f,
		agui.RunStarted{},
		agui.TextMessageStart{MessageID: "m"},
		agui.ToolCallStart{ToolCallID: "c", ToolCallName: "t"},
		agui.ToolCallArgs{ToolCallID: "c", Delta: "{"},
		agui.TextMessageContent{MessageID: "m", Delta: "half"},
	)
	if diff := cmp.Diff([]string{"m", "c"}, apply(t, f, agui.RunError{})); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	same(t, "messages", dump(f.Messages()), `{"id":"m","role":"assistant","content":"half"}
{"id":"c","role":"assistant","toolCalls":[{"id":"c","type":"function","function":{"name":"t","arguments":"{"}}]}
`)
}

// FuzzFold compares a stream folded at once with one folded in two halves, joined by a client's snapshot.
func FuzzFold(f *testing.F) {
	f.Add([]byte{0, 0, 1, 8, 1, 16, 4, 0, 5, 2, 8, 2, 10, 2, 11, 2, 24, 1, 25, 1}, uint8(5))
	f.Add([]byte{28, 255, 19, 0, 20, 9, 15, 0, 13, 0x10, 26, 1, 27, 1, 31, 1, 30, 63}, uint8(6))
	f.Fuzz(func(t *testing.T, data []byte, cut uint8) {
		data = data[:min(len(data), 1024)]
		var v agui.Verifier
		once := fold.New(nil, nil)
		var events []agui.Event
		for _, ev := range aguitest.Legal(&v, aguitest.Random(data)) {
			before := dump(once.Messages()) + string(once.State())
			if _, err := once.Apply(ev); err != nil {
				if after := dump(once.Messages()) + string(once.State()); after != before {
					t.Fatalf("%s failed (%v) and changed\n%s\nto\n%s", ev.Type(), err, before, after)
				}
				continue
			}
			events = append(events, ev)
		}
		half := min(int(cut), len(events))
		first := fold.New(nil, nil)
		apply(t, first, events[:half]...)
		second := fold.New(first.State(), first.Messages())
		apply(t, second, first.Open()...)
		if diff := cmp.Diff(first.Open(), second.Open(), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("open after %d events (-first +second):\n%s", half, diff)
		}
		apply(t, second, events[half:]...)
		same(t, "messages", dump(second.Messages()), dump(once.Messages()))
		same(t, "state", string(second.State()), string(once.State()))
		if len(once.Open()) != 0 {
			t.Fatalf("open after the end: %v", once.Open())
		}
	})
}

func BenchmarkContent(b *testing.B) {
	f := fold.New(nil, nil)
	if _, err := f.Apply(agui.TextMessageStart{MessageID: "m"}); err != nil {
		b.Fatal(err)
	}
	var ev agui.Event = agui.TextMessageContent{Base: agui.Base{Agent: "a"}, MessageID: "m", Delta: " token"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Apply(ev); err != nil {
			b.Fatal(err)
		}
	}
}
