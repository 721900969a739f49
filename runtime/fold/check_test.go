package fold_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/fold"
)

// Each change to a complete message rewrites its row, so its size is bounded.
func TestFold_BoundsChangedMessages(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	object := json.RawMessage(`{"x":"` + large[:60<<10] + `"}`)
	text := []agui.Event{agui.TextMessageStart{MessageID: "m"}, agui.TextMessageContent{MessageID: "m", Delta: large}, agui.TextMessageEnd{MessageID: "m"}}
	thought := []agui.Event{agui.ReasoningMessageStart{MessageID: "m"}, agui.ReasoningMessageContent{MessageID: "m", Delta: large}}
	activity := []agui.Event{agui.ActivitySnapshot{MessageID: "a", Content: json.RawMessage(`{"x":"` + large + `"}`)}}
	noted := []agui.Event{text[0], agui.TextMessageContent{Base: agui.Base{Metadata: object}, MessageID: "m", Delta: "x"}}
	keep := false
	for name, tt := range map[string]struct {
		before []agui.Event
		ev     agui.Event
	}{
		"a text again":             {text, text[0]},
		"reasoning again":          {thought, thought[0]},
		"a call of a long text":    {text, agui.ToolCallStart{ToolCallID: "c", ToolCallName: "n", ParentMessageID: "m"}},
		"an encrypted value":       {text, agui.ReasoningEncryptedValue{Subtype: "message", EntityID: "m", EncryptedValue: "x"}},
		"an activity's metadata":   {activity, agui.ActivitySnapshot{MessageID: "a", Replace: &keep}},
		"a patch of an activity":   {activity, agui.ActivityDelta{MessageID: "a", Patch: json.RawMessage(`[{"op":"remove","path":"/x"}]`)}},
		"metadata of fragments":    {noted, noted[1]},
		"a result of a taken name": {append(text[:3:3], agui.ToolCallStart{ToolCallID: "c", ToolCallName: "n"}), agui.ToolCallResult{MessageID: "m", ToolCallID: "c"}},
	} {
		f := fold.New(nil, nil)
		for _, ev := range tt.before {
			if err := f.Check(ev); err != nil {
				t.Errorf("%s: %s: %v", name, ev.Type(), err)
			}
			apply(t, f, ev)
		}
		if f.Check(tt.ev) == nil {
			t.Errorf("%s may go on", name)
		}
	}
}

// A patch must not cost more than a snapshot.
func TestPatched_BoundsWork(t *testing.T) {
	repeat := func(op string, n int) string { return "[" + strings.TrimSuffix(strings.Repeat(op+",", n), ",") + "]" }
	long := `{"a":[` + strings.Repeat("1,", 100_000) + `1]}`
	deep := strings.Repeat(`{"a":`, 5000) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat("}", 5000)
	for name, tt := range map[string]struct{ state, patch string }{
		"copies that double":            {`{"a":["x"]}`, repeat(`{"op":"copy","from":"/a","path":"/a/-"}`, 100)},
		"moves of a long array":         {long, repeat(`{"op":"add","path":"/a/0","value":1}`, 1000)},
		"tests of a long array":         {long, repeat(`{"op":"test","path":"/a","value":`+long[5:len(long)-1]+`}`, 200)},
		"a path through many levels":    {deep, `[{"op":"add","path":"` + strings.Repeat("/a", 5000) + `","value":1}]`},
		"more operations than it may":   {`{}`, repeat(`{"op":"add","path":"/a","value":1}`, agui.MaxOperations+1)},
		"more levels than can be read":  {`{}`, `[{"op":"add","path":"/a","value":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}]`},
		"levels that are copied deeper": {`{"a":` + deepest(9_000) + `}`, `[{"op":"copy","from":"/a","path":"/a` + strings.Repeat("/0", 2000) + `"}]`},
	} {
		if _, err := fold.Patched(json.RawMessage(tt.state), json.RawMessage(tt.patch)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, _, err := fold.MergePatch(json.RawMessage(deep), json.RawMessage(strings.Repeat(`{"a":`, 4999)+"1"+strings.Repeat("}", 4999))); err == nil {
		t.Error("a merge through many levels: no error")
	}
	// Ordinary patches stay far below the bound.
	for name, tt := range map[string]struct{ state, patch string }{
		"many operations": {`{"a":[` + strings.Repeat("1,", 10_000) + `1]}`, repeat(`{"op":"add","path":"/a/0","value":1}`, 1000)},
		"a large state":   {`{"a":{"b":{"c":"` + strings.Repeat("x", 4<<20-100) + `"}}}`, `[{"op":"add","path":"/a/b/d","value":1}]`},
	} {
		if _, err := fold.Patched(json.RawMessage(tt.state), json.RawMessage(tt.patch)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func deepest(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func TestPatched_IsRFC6902(t *testing.T) {
	for _, tt := range []struct{ state, patch, want string }{
		{`{"a":1,"b":2}`, `[{"op":"remove","path":"/a"},{"op":"add","path":"/a","value":3}]`, `{"b":2,"a":3}`},
		{`{"a":1,"b":2}`, `[{"op":"replace","path":"/a","value":{"x":[ 1 ]}},{"op":"add","path":"/a/x/0","value":0}]`, `{"a":{"x":[0,1]},"b":2}`},
		{`{"a":[1,2,3]}`, `[{"op":"move","from":"/a/0","path":"/a/2"},{"op":"remove","path":"/a/0"},{"op":"copy","from":"/a","path":"/b"}]`, `{"a":[3,1],"b":[3,1]}`},
		{`{"~/":{"":1}}`, `[{"op":"test","path":"/~0~1/","value":1},{"op":"replace","path":"/~0~1/","value":2}]`, `{"~/":{"":2}}`},
		{`{"a":"\u00e9","b":{"x":1,"y":[]}}`, `[{"op":"test","path":"/a","value":"é"},{"op":"test","path":"/b","value":{"y":[],"x":1}}]`, `{"a":"\u00e9","b":{"x":1,"y":[]}}`},
		{`{"a":1,"a":2}`, `[{"op":"remove","path":"/a"}]`, `{}`},
		{`{"a":[1]}`, `[{"op":"remove","path":"/a/0"}]`, `{"a":[]}`},
		{`{}`, `[{"op":"copy","from":"","path":"/a"},{"op":"add","path":"","value":[]},{"op":"add","path":"/-","value":null}]`, `[null]`},
		{`{"a":1}`, `[{"op":"test","path":"/a","value":1.0}]`, `{"a":1}`},
		{`{"a":1}`, `[{"op":"test","path":"/a","value":2}]`, ""},
		{`{"a":1}`, `[{"op":"replace","path":"/b","value":1}]`, ""},
		{`{"a":1}`, `[{"op":"add","path":"/a/b","value":1}]`, ""},
		{`{"a":{"b":1}}`, `[{"op":"move","from":"/a","path":"/a/b"}]`, ""},
		{`{"a":[1]}`, `[{"op":"add","path":"/a/2","value":1}]`, ""},
		{`{"a":[1]}`, `[{"op":"add","path":"/a/+1","value":1}]`, ""},
		{`{"a":[1]}`, `[{"op":"remove","path":"/a/-"}]`, ""},
		{`{"a":1}`, `[{"op":"add","path":"a","value":1}]`, ""},
	} {
		next, err := fold.Patched(json.RawMessage(tt.state), json.RawMessage(tt.patch))
		if (err != nil) != (tt.want == "") || string(next) != tt.want {
			t.Errorf("%s + %s: got %s, %v; want %s", tt.state, tt.patch, next, err, tt.want)
		}
	}
}

// A merge with more operations than a patch may have becomes a snapshot.
func TestMergePatch_OfManyMembersIsASnapshot(t *testing.T) {
	many := map[string]int{}
	for i := range agui.MaxOperations + 1 {
		many[fmt.Sprint("k", i)] = i
	}
	patch, _ := json.Marshal(many)
	next, ev, err := fold.MergePatch(json.RawMessage(`{"a":1}`), patch)
	if err != nil {
		t.Fatal(err)
	}
	if snapshot, ok := ev.(agui.StateSnapshot); !ok || string(snapshot.Snapshot) != string(next) {
		t.Errorf("got a %s", ev.Type())
	}
}

// The end of a run writes all incomplete messages at once.
func TestFold_BoundsIncompleteMessages(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	for name, open := range map[string]func(id string) (begin, more, end agui.Event){
		"text": func(id string) (begin, more, end agui.Event) {
			return agui.TextMessageStart{MessageID: id}, agui.TextMessageContent{MessageID: id, Delta: large}, agui.TextMessageEnd{MessageID: id}
		},
		"reasoning": func(id string) (begin, more, end agui.Event) {
			return agui.ReasoningMessageStart{MessageID: id}, agui.ReasoningMessageContent{MessageID: id, Delta: large}, agui.ReasoningMessageEnd{MessageID: id}
		},
		"arguments": func(id string) (begin, more, end agui.Event) {
			return agui.ToolCallStart{ToolCallID: id}, agui.ToolCallArgs{ToolCallID: id, Delta: large}, agui.ToolCallEnd{ToolCallID: id}
		},
	} {
		f := fold.New(nil, nil)
		apply := func(ev agui.Event) {
			t.Helper()
			if err := f.Check(ev); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if _, err := f.Apply(ev); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		for i := range 2 { // messages count together until they are complete
			var more, end [2]agui.Event
			for j := range 2 {
				var begin agui.Event
				begin, more[j], end[j] = open(fmt.Sprint(i, j))
				apply(begin)
			}
			for j := range 15 {
				apply(more[j%2])
			}
			if i == 1 { // the bound also holds after a snapshot replaced the messages
				apply(agui.MessagesSnapshot{Messages: f.Messages()})
			}
			if err := f.Check(more[1]); err == nil && (i == 0 || name != "arguments") { // snapshots have no open arguments
				t.Errorf("%s: 16 MiB and more are open", name)
			}
			apply(end[0])
			apply(more[1])
			apply(end[1])
		}
	}
}
