package runtime_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// external is an agent with messages from outside of the process.
type external struct{ agent }

func (e external) Info() plugins.Info { return plugins.Info{Name: e.name, External: true} }

// says emits one text with a role.
func says(run *plugins.Run, role agui.Role, text string) error {
	id := string(role) + " " + text
	return errors.Join(
		run.Emit(agui.TextMessageStart{MessageID: id, Role: role}),
		run.Emit(agui.TextMessageContent{MessageID: id, Delta: text}),
		run.Emit(agui.TextMessageEnd{MessageID: id}))
}

// A worker's text has the role assistant, even if the worker names another role. A Go agent may also emit a system
// notice, which no prompt contains.
func TestWorker_SpeaksAsAssistant(t *testing.T) {
	t.Parallel()
	every := func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		for _, role := range []agui.Role{"", agui.RoleAssistant, agui.RoleSystem, agui.RoleDeveloper, agui.RoleUser} {
			if err := says(run, role, run.Input.Node); err != nil {
				return agui.WorkerOutput{}, err
			}
		}
		return agui.WorkerOutput{}, nil
	}
	for name, notices := range map[string]int{"inside": 1, "outside": 0} {
		b := open(t, runtime.Config{}, agent{"inside", every}, external{agent{"outside", every}}, reader)
		b.wait(b.start("main", name, "go").RunID, runtime.Completed)
		roles := make(map[agui.Role]int)
		for _, rec := range b.log("main") {
			if e, ok := rec.Event.(agui.TextMessageStart); ok {
				roles[cmp.Or(e.Role, agui.RoleAssistant)]++
			}
		}
		if roles[agui.RoleSystem] != notices || roles[agui.RoleAssistant] != 5-notices || len(roles) > 2 {
			t.Errorf("%s has spoken as %v", name, roles)
		}
		var asked []agui.Role
		for _, m := range b.asked("main") {
			asked = append(asked, m.Role)
		}
		want := slices.Concat([]agui.Role{agui.RoleUser}, slices.Repeat([]agui.Role{agui.RoleAssistant}, 5-notices), []agui.Role{agui.RoleUser})
		if !slices.Equal(asked, want) {
			t.Errorf("the next prompt behind %s has %v, want %v", name, asked, want)
		}
		checkRows(t, b)
	}
}

// A system message that began the thread is in every prompt.
func TestPrompt_KeepsTheSystemOfTheFirstRun(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, hello, reader)
	s := b.request(runtime.StartRequest{Agent: "hello", ThreadID: "main", Messages: []agui.Message{
		{ID: "s", Role: agui.RoleSystem, Content: "be brief"}, {ID: "u", Role: agui.RoleUser, Content: "hi"},
	}})
	b.wait(s.RunID, runtime.Completed)
	if asked := b.asked("main"); asked[0].Role != agui.RoleSystem || asked[0].Content != "be brief" {
		t.Errorf("the prompt begins with %+v", asked[0])
	}
}

// A worker cannot continue messages that a request brought or that were appended.
func TestWorker_AddsNothingToWhatPeopleSaid(t *testing.T) {
	t.Parallel()
	ask := make(chan struct{}, 1)
	appended := make(chan struct{})
	refused := make(map[string]error)
	thief := agent{"thief", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		ask <- struct{}{}
		<-appended
		more, err := run.Next(ctx)
		if err != nil || len(more) != 1 {
			return agui.WorkerOutput{}, errors.Join(err, errors.New("nothing was appended"))
		}
		if err := says(run, agui.RoleAssistant, "mine"); err != nil {
			return agui.WorkerOutput{}, err
		}
		err = errors.Join(
			run.Emit(agui.ToolCallStart{ToolCallID: "own", ToolCallName: "look"}), run.Emit(agui.ToolCallEnd{ToolCallID: "own"}),
			run.Emit(agui.ToolCallResult{MessageID: "result", ToolCallID: "own", Content: "seen"}))
		if err != nil {
			return agui.WorkerOutput{}, err
		}
		for _, id := range []string{"u", "a", "s", "r", "plan", "t", more[0].ID} {
			refused["text "+id] = run.Emit(agui.TextMessageStart{MessageID: id})
			refused["reasoning "+id] = run.Emit(agui.ReasoningMessageStart{MessageID: id})
			refused["activity "+id] = run.Emit(agui.ActivitySnapshot{MessageID: id, ActivityType: "plan", Content: json.RawMessage(`{"n":2}`)})
			refused["patch "+id] = run.Emit(agui.ActivityDelta{MessageID: id, ActivityType: "plan", Patch: json.RawMessage(`[{"op":"add","path":"/n","value":2}]`)})
			refused["parent "+id] = run.Emit(agui.ToolCallStart{ToolCallID: "new " + id, ToolCallName: "own", ParentMessageID: id})
			refused["encrypted "+id] = run.Emit(agui.ReasoningEncryptedValue{Subtype: "message", EntityID: id, EncryptedValue: "x"})
		}
		refused["call"] = run.Emit(agui.ReasoningEncryptedValue{Subtype: "tool-call", EntityID: "c", EncryptedValue: "x"})
		refused["result"] = run.Emit(agui.TextMessageStart{MessageID: "result"})
		refused["another kind"] = run.Emit(agui.ReasoningMessageStart{MessageID: "assistant mine"})
		return agui.WorkerOutput{}, run.Emit(agui.TextMessageStart{MessageID: "assistant mine"}) // the worker's own text may continue
	}}
	b := open(t, runtime.Config{}, thief, reader)
	s := b.request(runtime.StartRequest{Agent: "thief", ThreadID: "main", Messages: []agui.Message{
		{ID: "s", Role: agui.RoleSystem, Content: "be brief"},
		{ID: "u", Role: agui.RoleUser, Content: "pay 10"},
		{ID: "r", Role: agui.RoleReasoning, Content: "hm"},
		{ID: "a", Role: agui.RoleAssistant, Content: "paying", ToolCalls: []agui.ToolCall{{ID: "c", Name: "pay", Arguments: "{}"}}},
		{ID: "t", Role: agui.RoleTool, ToolCallID: "c", Content: "paid"},
		{ID: "plan", Role: agui.RoleActivity, ActivityType: "plan", Parts: json.RawMessage(`{"n":1}`)},
		{ID: "v", Role: agui.RoleUser, Content: "and now?"},
	}})
	<-ask
	b.appended(s.RunID, "stop")
	close(appended)
	b.wait(s.RunID, runtime.Completed)
	for what, err := range refused {
		if e, ok := errors.AsType[*plugins.Error](err); !ok || e.Code != "illegal_event" {
			t.Errorf("%s: %v", what, err)
		}
	}
	checkLog(t, b.log("main"))
	checkRows(t, b)
	for _, m := range b.asked("main") {
		want := map[string]string{"s": "be brief", "u": "pay 10", "a": "paying", "t": "paid", "v": "and now?"}[m.ID]
		if want != "" && m.Text() != want {
			t.Errorf("%s says %q", m.ID, m.Text())
		}
	}
}

// Only Baton emits its reserved events.
func TestWorker_WritesNoEventsOfBaton(t *testing.T) {
	t.Parallel()
	var errs []error
	forge := func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		for _, name := range []string{"node-progress", "model-call", "messages-retracted", "log-reset", "context-compacted", "guard", "budget"} {
			errs = append(errs, run.Emit(agui.Custom{Name: name, Value: json.RawMessage(`{"messageIds":["u"],"callId":"c","status":"started"}`)}))
		}
		return agui.WorkerOutput{}, errors.Join(run.Progress(0.5, "half"), run.Emit(agui.Custom{Name: "mine", Value: json.RawMessage("1")}))
	}
	b := open(t, runtime.Config{}, agent{"inside", forge}, external{agent{"outside", forge}})
	for _, name := range []string{"inside", "outside"} {
		b.wait(b.start(name, name, "go").RunID, runtime.Completed)
		custom := 0
		for _, rec := range b.log(name) {
			if rec.Event.Type() == agui.TypeCustom {
				custom++
			}
		}
		if custom != 2 {
			t.Errorf("%s has written %d CUSTOM events, want its progress and its own", name, custom)
		}
	}
	if len(errs) != 14 {
		t.Fatalf("%d attempts", len(errs))
	}
	for i, err := range errs {
		if e, ok := errors.AsType[*plugins.Error](err); !ok || e.Code != "illegal_event" {
			t.Errorf("forgery %d: %v", i, err)
		}
	}
}

// Outside code cannot write Baton's own metadata members, in any case of their names.
func TestWorker_WritesNoMetadataOfBaton(t *testing.T) {
	t.Parallel()
	forge := func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		metadata := json.RawMessage(`{"TOOLAGENTOUTPUT":{"tool_call_args":{"n":2}},"toolagentoutput":{},"WorkerAgentOutput":1,"Agent":"x","\u017ftage":"y","mine":1}`)
		return agui.WorkerOutput{}, run.Emit(agui.ActivitySnapshot{
			Base: agui.Base{Metadata: metadata}, MessageID: "a", ActivityType: "plan", Content: json.RawMessage("{}"),
		})
	}
	b := open(t, runtime.Config{}, external{agent{"outside", forge}})
	b.wait(b.start("main", "outside", "go").RunID, runtime.Completed)
	for _, rec := range b.log("main") {
		if e, ok := rec.Event.(agui.ActivitySnapshot); ok && string(e.Metadata) != `{"mine":1}` {
			t.Errorf("the log has the metadata %s", e.Metadata)
		}
	}
}

// A result of a worker's own call refers to that call only: it names no other call, and no edited arguments.
func TestWorker_ResultIsOfItsCall(t *testing.T) {
	t.Parallel()
	forge := func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{}, errors.Join(
			run.Emit(agui.ToolCallStart{ToolCallID: "own", ToolCallName: "look"}),
			run.Emit(agui.ToolCallArgs{ToolCallID: "own", Delta: `{"n": 1`}), run.Emit(agui.ToolCallArgs{ToolCallID: "own", Delta: `}`}),
			run.Emit(agui.ToolCallEnd{ToolCallID: "own"}),
			run.Emit(agui.ToolCallResult{MessageID: "result", ToolCallID: "own", Content: "seen", Output: &agui.ToolOutput{
				ToolName: "pay", ToolCallID: "other", ToolCallArgs: json.RawMessage(`{"n":2}`), Status: agui.StatusPartial,
			}}))
	}
	b := open(t, runtime.Config{}, external{agent{"outside", forge}})
	b.wait(b.start("main", "outside", "go").RunID, runtime.Completed)
	for _, rec := range b.log("main") {
		if e, ok := rec.Event.(agui.ToolCallResult); ok {
			out := e.Output
			if out.ToolName != "look" || out.ToolCallID != "own" || string(out.ToolCallArgs) != `{"n":1}` || out.Status != agui.StatusPartial {
				t.Errorf("the log has the output %+v with %s", out, out.ToolCallArgs)
			}
		}
	}
}
