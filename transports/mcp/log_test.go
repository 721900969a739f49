package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// puppet is an agent that executes a test's commands, and reports when it is done.
type puppet struct {
	acts chan func(*plugins.Run) error
	done chan error
}

func newPuppet() puppet {
	return puppet{make(chan func(*plugins.Run) error), make(chan error)}
}

func (puppet) Info() plugins.Info { return plugins.Info{Name: "puppet"} }

func (p puppet) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	for {
		select {
		case act, ok := <-p.acts:
			if !ok {
				return agui.WorkerOutput{}, nil
			}
			p.done <- act(run)
		case <-ctx.Done():
			return agui.WorkerOutput{}, context.Cause(ctx)
		}
	}
}

func (p puppet) act(t *testing.T, act func(*plugins.Run) error) {
	t.Helper()
	p.acts <- act
	if err := <-p.done; err != nil {
		t.Fatal(err)
	}
}

// odd is an agent that emits rare events.
type odd struct{}

func (odd) Info() plugins.Info { return plugins.Info{Name: "odd"} }

func (odd) Run(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	for _, ev := range []agui.Event{
		agui.ActivitySnapshot{MessageID: "a", ActivityType: "plan", Content: json.RawMessage(`{"steps":[]}`)},
		agui.ActivityDelta{MessageID: "a", ActivityType: "plan", Patch: json.RawMessage(`[{"op":"add","path":"/steps/-","value":1}]`)},
		agui.Custom{Name: "mine", Value: json.RawMessage(`null`)},
		agui.Custom{Name: "source-url", Value: json.RawMessage(`{"url":"https://example.com"}`)},
		agui.Raw{Event: json.RawMessage(`{"x":1}`), Source: "llm"},
		agui.StateSnapshot{Snapshot: json.RawMessage(`{"deep":{"a":[1]}}`)},
		agui.StateDelta{Delta: json.RawMessage(`[{"op":"replace","path":"/deep/a/0","value":null}]`)},
		agui.ReasoningStart{MessageID: "r"},
		agui.ReasoningMessageStart{MessageID: "r"},
		agui.ReasoningMessageContent{MessageID: "r", Delta: "hm"},
		agui.ReasoningMessageEnd{MessageID: "r"},
		agui.ReasoningEncryptedValue{Subtype: "message", EntityID: "r", EncryptedValue: "x"},
		agui.ReasoningEnd{MessageID: "r"},
		agui.StepStarted{StepName: "inner"},
		agui.StepFinished{StepName: "inner"},
	} {
		if err := run.Emit(ev); err != nil {
			return agui.WorkerOutput{}, fmt.Errorf("%s: %w", ev.Type(), err)
		}
	}
	return agui.WorkerOutput{Answer: "odd"}, nil
}

// image is a user's message with parts of each kind.
func image() []agui.Message {
	return []agui.Message{
		{Role: agui.RoleSystem, Content: "be brief"},
		{ID: "asked", Role: agui.RoleAssistant, ToolCalls: []agui.ToolCall{{ID: "c", Name: "look", Arguments: "{}"}}},
		{Role: agui.RoleTool, ToolCallID: "c", Parts: json.RawMessage(`[{"type":"text","text":"a"},{"type":"text","text":"b"}]`)},
		{Role: agui.RoleUser, Parts: json.RawMessage(`[{"type":"text","text":"what is it?"},` +
			`{"type":"image","source":{"type":"data","value":"AAAA","mimeType":"image/png"}},` +
			`{"type":"image","source":{"type":"url","value":"https://example.com/x.png"}},` +
			`{"type":"document","source":{"type":"file","value":"file-1","provider":"x"}},` +
			`{"type":"binary","mimeType":"audio/wav","data":"AAAA","filename":"a.wav"}]`)},
	}
}

func TestEveryAnswerFitsItsSchema(t *testing.T) {
	t.Parallel()
	p := newPuppet()
	s := serve(t, p, odd{})
	c := s.overHTTP()
	start := func(req runtime.StartRequest) started {
		r, err := s.Runtime.StartRun(t.Context(), ann, req)
		must(t, err)
		return started{r.ThreadID, r.RunID, r.ConversationID, string(r.Status)}
	}
	frontend := user("scripted", `{"do": [{"tool": "pick", "args": {"of": 2}}]}`)
	frontend.Tools = []agui.Tool{{Name: "pick", Description: "picks", Parameters: json.RawMessage(`{"type":"object"}`)}}
	workflow := user("", "cats")
	workflow.WorkflowID = "demo"

	running := start(user("puppet", "go"))
	p.act(t, func(run *plugins.Run) error {
		return run.Emit(agui.TextMessageStart{MessageID: "m", Role: agui.RoleAssistant})
	})
	queued := start(runtime.StartRequest{Agent: "echo", ThreadID: running.ThreadID, Messages: []agui.Message{{Role: agui.RoleUser, Content: "later"}}})
	cancelled := c.script(`{"say": "one"}, {"tool": "sleep", "args": {"ms": 60000}}`)
	never := start(runtime.StartRequest{Agent: "echo", ThreadID: running.ThreadID, Messages: []agui.Message{{Role: agui.RoleUser, Content: "never"}}})
	s.Eventually("the tool is called", func() bool {
		return like(types(c.events(cancelled.is("limit", 500)).Data), "RUN_STARTED…TOOL_CALL_END")
	})
	for _, r := range []started{cancelled, never} {
		c.call("cancel_agent_run", args{"run_id": r.RunID})
	}
	for _, kind := range []struct {
		name    string
		run     started
		status  runtime.Status
		types   string // of the whole log, with…for any
		ends    string // of the snapshot
		nothing bool
	}{
		{
			"steps, a tool and a failed one", c.script(`{"reason": "let me see"}, {"say": "a b"}, {"tool": "calculator", "args": {"expression": "6*7"}}, {"tool": "fail", "args": {"message": "no"}}, {"state": {"n": 1}}, {"progress": 0.5}, {"say": "done"}`), runtime.Completed,
			"RUN_STARTED REASONING_MESSAGE_START…STATE_DELTA…RUN_FINISHED", "MESSAGES_SNAPSHOT RUN_FINISHED", false,
		},
		{"a workflow", start(workflow), runtime.Completed, "RUN_STARTED…RUN_FINISHED", "RUN_FINISHED", false},
		{"what no other emits", start(user("odd", "x")), runtime.Completed, "RUN_STARTED CUSTOM STATE_SNAPSHOT STATE_DELTA REASONING_MESSAGE_START…RUN_FINISHED", "MESSAGES_SNAPSHOT RUN_FINISHED", false},
		{"parts", start(runtime.StartRequest{Agent: "echo", Messages: image()}), runtime.Completed, "RUN_STARTED…RUN_FINISHED", "RUN_FINISHED", false},
		{"a failure", c.script(`{"say": "oh"}, {"fail": "boom", "code": "x"}`), runtime.Failed, "RUN_STARTED…RUN_ERROR", "RUN_ERROR", false},
		{"a panic", c.script(`{"panic": "boom"}`), runtime.Failed, "RUN_STARTED…RUN_ERROR", "RUN_ERROR", false},
		{"a question", c.script(`{"ask": {"message": "Deploy?", "schema": {"type": "boolean"}}}`), runtime.Waiting, "RUN_STARTED…RUN_FINISHED", "RUN_FINISHED", false},
		{"a frontend call", start(frontend), runtime.Waiting, "RUN_STARTED…TOOL_CALL_END…RUN_FINISHED", "RUN_FINISHED", false},
		{"cancelled", cancelled, runtime.Cancelled, "RUN_STARTED…TOOL_CALL_RESULT…RUN_ERROR", "RUN_ERROR", false},
		{"cancelled before it began", never, runtime.Cancelled, "", "", true},
		{"queued", queued, runtime.Queued, "", "", true},
		{"running", running, runtime.Running, "RUN_STARTED TEXT_MESSAGE_START", "TEXT_MESSAGE_START", false},
	} {
		t.Run(kind.name, func(t *testing.T) {
			s.await(kind.run, kind.status)
			all := c.events(kind.run.is("limit", 500))
			if got := types(all.Data); !like(got, kind.types) {
				t.Errorf("the log is %s", got)
			}
			if all.PageInfo.Next != nil || *all.PageInfo.Self != "0" {
				t.Errorf("page_info %+v", all.PageInfo)
			}
			snap := c.snapshot(kind.run)
			switch got := types(snap.Events); {
			case kind.nothing:
				if snap.AfterEventID != 0 || len(snap.Events) != 0 {
					t.Errorf("the snapshot is %+v", snap)
				}
			case !strings.HasPrefix(got, "RUN_STARTED STATE_SNAPSHOT MESSAGES_SNAPSHOT") || !strings.HasSuffix(got, kind.ends):
				t.Errorf("the snapshot is %s", got)
			}
			if rest := c.events(kind.run.is("after_event_id", snap.AfterEventID)); len(rest.Data) != 0 {
				t.Errorf("%s behind the snapshot", types(rest.Data))
			}
			sameOverREST(t, s, c, kind.run, *all.PageInfo.Self)
		})
	}
	c.call("list_agent_runs", args{"limit": 500})
	close(p.acts)
	s.await(queued, runtime.Completed)
}

// like reports whether text is as the pattern says, in which … stands for anything.
func like(text, pattern string) bool {
	first, rest, more := strings.Cut(pattern, "…")
	text, ok := strings.CutPrefix(text, first)
	for ok && more {
		first, rest, more = strings.Cut(rest, "…")
		if !more {
			return strings.HasSuffix(text, first)
		}
		_, text, ok = strings.Cut(text, first)
	}
	return ok && text == ""
}

// sameOverREST checks that the routes answer like the tools.
func sameOverREST(t *testing.T, s *server, c client, r started, after string) {
	t.Helper()
	path := "/api/v1/conversations/" + r.ConversationID + "/agent-runs/" + url.PathEscape(r.RunID)
	cursor, err := strconv.Atoi(after)
	must(t, err)
	for _, twin := range []struct{ route, tool string }{
		{path + "/events?limit=500&after_event_id=" + after, c.call("get_agent_run_events", r.is("limit", 500, "after_event_id", cursor))},
		{path + "/snapshot", c.call("get_agent_run_snapshot", r.is())},
	} {
		if status, body := s.get(twin.route); status != http.StatusOK || !sameJSON(t, body, twin.tool) {
			t.Errorf("%s: %d %s, want %s", twin.route, status, body, twin.tool)
		}
	}
}

func TestPageHoldsAHundredEventsUnlessTold(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.overHTTP()
	r := c.script(`{"tokens": 150}`)
	s.await(r, runtime.Completed)
	first := c.events(r.is())
	if len(first.Data) != 100 || first.PageInfo.Next == nil {
		t.Fatalf("%d events, next %v", len(first.Data), first.PageInfo.Next)
	}
	cursor, err := strconv.Atoi(*first.PageInfo.Next)
	must(t, err)
	if rest := c.events(r.is("after_event_id", cursor)); len(rest.Data) != 54 || rest.PageInfo.Next != nil {
		t.Errorf("%d events, next %v", len(rest.Data), rest.PageInfo.Next)
	}
}

func TestPageOfVeryLargeEventsEndsEarly(t *testing.T) {
	t.Parallel()
	p := newPuppet()
	s := serve(t, p)
	r := decode[started](t, s.overHTTP().call("start_agent_run", args{"agent": "puppet", "content": "go"}))
	const size = 3 << 19
	for range 3 {
		p.act(t, func(run *plugins.Run) error {
			return run.Emit(agui.Custom{Name: "file", Value: json.RawMessage(`"` + strings.Repeat("x", size) + `"`)})
		})
	}
	close(p.acts)
	s.await(r, runtime.Completed)
	path := "/api/v1/conversations/" + r.ConversationID + "/agent-runs/" + r.RunID + "/events?after_event_id="
	_, body := s.get(path + "0")
	first := decode[page](t, body)
	_, body = s.get(path + *first.PageInfo.Next)
	second := decode[page](t, body)
	if got := types(first.Data) + "; " + types(second.Data); got != "RUN_STARTED CUSTOM CUSTOM; CUSTOM RUN_FINISHED" || second.PageInfo.Next != nil {
		t.Errorf("got %s", got)
	}
	a := s.do("POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_agent_run_events","arguments":`+
		`{"conversation_id":"`+r.ConversationID+`","run_id":"`+r.RunID+`","after_event_id":`+*first.PageInfo.Next+`}}}`)
	if len(a.body) > size+2000 || !strings.Contains(a.body, "too large for text") {
		t.Errorf("the tool's answer has %d bytes", len(a.body))
	}
}

// viewer is a client's view of a run's events: the text of its messages.
type viewer map[string]string

func (v viewer) see(list []entry) {
	for _, e := range list {
		var ev struct {
			Type, MessageID, Delta, Content string
			Messages                        []struct {
				ID      string
				Content any
			}
		}
		_ = json.Unmarshal(e.Event, &ev)
		switch ev.Type {
		case "MESSAGES_SNAPSHOT":
			clear(v)
			for _, m := range ev.Messages {
				v[m.ID], _ = m.Content.(string)
			}
		case "TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT":
			v[ev.MessageID] += ev.Delta
		case "TOOL_CALL_RESULT":
			v[ev.MessageID] = ev.Content
		}
	}
}

func TestReadingOnAfterASnapshotLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	p := newPuppet()
	s := serve(t, p)
	c := s.overHTTP()
	r := decode[started](t, c.call("start_agent_run", args{"agent": "puppet", "content": "go"}))
	emit := func(ev agui.Event) func(*plugins.Run) error {
		return func(run *plugins.Run) error { return run.Emit(ev) }
	}
	var snaps []snapshot
	for _, act := range []func(*plugins.Run) error{
		func(*plugins.Run) error { return nil },
		emit(agui.ReasoningStart{MessageID: "r"}),
		emit(agui.ReasoningMessageStart{MessageID: "r"}),
		emit(agui.ReasoningMessageContent{MessageID: "r", Delta: "hm"}),
		emit(agui.ReasoningMessageContent{MessageID: "r", Delta: "m"}),
		emit(agui.ReasoningMessageEnd{MessageID: "r"}),
		emit(agui.ReasoningEnd{MessageID: "r"}),
		emit(agui.TextMessageStart{MessageID: "m", Role: agui.RoleAssistant}),
		emit(agui.TextMessageContent{MessageID: "m", Delta: "one "}),
		emit(agui.TextMessageContent{MessageID: "m", Delta: "two "}),
		func(run *plugins.Run) error { return run.Progress(0.5, "half") },
		func(run *plugins.Run) error { return run.State(map[string]int{"n": 1}) },
		emit(agui.TextMessageContent{MessageID: "m", Delta: "three"}),
		emit(agui.TextMessageEnd{MessageID: "m"}),
		func(run *plugins.Run) error {
			_, err := run.CallTool(context.WithoutCancel(t.Context()), "calculator", map[string]string{"expression": "1+1"})
			return err
		},
		emit(agui.TextMessageStart{MessageID: "n", Role: agui.RoleAssistant}),
		emit(agui.TextMessageContent{MessageID: "n", Delta: "end"}),
	} {
		p.act(t, act)
		snaps = append(snaps, c.snapshot(r))
	}
	close(p.acts)
	s.await(r, runtime.Completed)
	snaps = append(snaps, c.snapshot(r))

	all := c.events(r.is("limit", 500)).Data
	whole := viewer{}
	whole.see(snaps[len(snaps)-1].Events)
	for i, snap := range snaps {
		rest := c.events(r.is("limit", 500, "after_event_id", snap.AfterEventID)).Data
		want := []entry{}
		for _, e := range all {
			if *e.EventID > snap.AfterEventID {
				want = append(want, e)
			}
		}
		if diff := cmp.Diff(want, rest); diff != "" {
			t.Errorf("behind snapshot %d (-want +got):\n%s", i, diff)
		}
		v := viewer{}
		v.see(snap.Events)
		v.see(rest)
		if diff := cmp.Diff(whole, v); diff != "" {
			t.Errorf("who begins with snapshot %d sees (-whole +seen):\n%s", i, diff)
		}
		for _, e := range snap.Events {
			if e.EventID != nil && *e.EventID > snap.AfterEventID {
				t.Errorf("snapshot %d shows event %d, which is behind it", i, *e.EventID)
			}
		}
	}
}
