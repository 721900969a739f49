package runtime_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// prompt returns the next prompt of the thread, each message as its text, its call's result or its calls.
func (b *bench) prompt(thread string) []string {
	b.t.Helper()
	calls := make(map[string]string)
	var shown []string
	for _, m := range b.asked(thread) {
		switch {
		case m.Role == agui.RoleTool:
			if calls[m.ToolCallID] == "" {
				b.t.Errorf("the prompt has a result without its call: %+v", m)
			}
			shown = append(shown, calls[m.ToolCallID]+" gave "+m.Content)
			delete(calls, m.ToolCallID)
			continue
		case len(calls) > 0:
			b.t.Errorf("the prompt has calls without a result before %+v: %v", m, calls)
		}
		var text strings.Builder
		text.WriteString(m.Text())
		for _, c := range m.ToolCalls {
			calls[c.ID] = c.Name
			text.WriteString(" [" + c.Name + "]")
		}
		shown = append(shown, strings.TrimSpace(text.String()))
	}
	if len(calls) > 0 {
		b.t.Errorf("the prompt ends with calls without a result: %v", calls)
	}
	return shown
}

// asked returns the messages that the thread's next run of the agent reader receives.
func (b *bench) asked(thread string) []agui.Message {
	b.t.Helper()
	b.wait(b.start(thread, "reader", "and now?").RunID, runtime.Completed)
	return <-prompts
}

// reader stores its prompts in prompts.
var (
	prompts = make(chan []agui.Message, 1)
	reader  = agent{"reader", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		prompts <- thread(ctx, run)
		return agui.WorkerOutput{Answer: "read"}, nil
	}}
)

// For any messages that a client brings or hides, a prompt has no call without a result and no result without its
// call.
func TestPromptLeavesOutHalvesOfCalls(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, reader, hello)
	call := func(id string) []agui.ToolCall { return []agui.ToolCall{{ID: id, Name: id}} }
	for name, c := range map[string]struct {
		bring []agui.Message
		want  string
	}{
		"lost result": {[]agui.Message{
			{ID: "1", Role: agui.RoleUser, Content: "hi"},
			{ID: "2", Role: agui.RoleAssistant, Content: "calling", ToolCalls: call("a")},
			{ID: "3", Role: agui.RoleAssistant, ToolCalls: call("b")},
			{ID: "4", Role: agui.RoleUser, Content: "on"},
		}, "hi; calling; on; hello on; and now?"},
		"lost call": {[]agui.Message{
			{ID: "1", Role: agui.RoleUser, Content: "hi"},
			{ID: "2", Role: agui.RoleTool, ToolCallID: "gone", Content: "result"},
			{ID: "4", Role: agui.RoleUser, Content: "on"},
		}, "hi; on; hello on; and now?"},
		"one of two": {[]agui.Message{
			{ID: "1", Role: agui.RoleAssistant, ToolCalls: append(call("a"), call("b")...)},
			{ID: "2", Role: agui.RoleTool, ToolCallID: "b", Content: "result"},
			{ID: "4", Role: agui.RoleUser, Content: "on"},
		}, "[b]; b gave result; on; hello on; and now?"},
		"doubled call": {[]agui.Message{
			{ID: "1", Role: agui.RoleAssistant, ToolCalls: append(call("a"), call("a")...)},
			{ID: "2", Role: agui.RoleAssistant, Content: "once more", ToolCalls: call("a")},
			{ID: "3", Role: agui.RoleTool, ToolCallID: "a", Content: "result"},
			{ID: "4", Role: agui.RoleUser, Content: "on"},
		}, "[a]; a gave result; once more; on; hello on; and now?"},
		"doubled result": {[]agui.Message{
			{ID: "1", Role: agui.RoleAssistant, ToolCalls: call("a")},
			{ID: "2", Role: agui.RoleTool, ToolCallID: "a", Content: "result"},
			{ID: "3", Role: agui.RoleTool, ToolCallID: "a", Content: "another"},
			{ID: "4", Role: agui.RoleUser, Content: "on"},
		}, "[a]; a gave result; on; hello on; and now?"},
	} {
		s := b.request(runtime.StartRequest{Agent: "hello", ThreadID: name, Messages: c.bring})
		b.wait(s.RunID, runtime.Completed)
		if got := strings.Join(b.prompt(name), "; "); got != c.want {
			t.Errorf("%s: the next run is asked %q, want %q", name, got, c.want)
		}
	}
}

// A worker reads as much of a thread as it asks for, and the client's instructions whatever their age.
func TestRun_ReadsNewestMessages(t *testing.T) {
	t.Parallel()
	type read struct {
		said string
		more bool
	}
	reads := make(chan map[int]read, 1)
	window := agent{"window", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		got := make(map[int]read)
		for _, limit := range []int{2, 1, 4, 6, 0, 3} { // in an order in which some are read and some are kept
			list, more, err := run.Messages(ctx, limit)
			if err != nil {
				return agui.WorkerOutput{}, err
			}
			rows := make([]runtime.Message, len(list))
			for i, m := range list {
				rows[i].Message = m
			}
			got[limit] = read{texts(rows), more}
		}
		reads <- got
		return agui.WorkerOutput{Answer: "read"}, nil
	}}
	b := open(t, runtime.Config{}, window, hello)
	s := b.request(runtime.StartRequest{Agent: "hello", ThreadID: "main", Messages: []agui.Message{
		{ID: "s", Role: agui.RoleSystem, Content: "be brief"},
		{ID: "1", Role: agui.RoleAssistant, Content: "calling", ToolCalls: []agui.ToolCall{{ID: "a", Name: "a"}}},
		{ID: "2", Role: agui.RoleTool, ToolCallID: "a", Content: "result"},
		{ID: "3", Role: agui.RoleUser, Content: "hi"},
	}})
	b.wait(s.RunID, runtime.Completed)
	b.wait(b.start("main", "window", "now").RunID, runtime.Completed)
	all := "be brief, calling, result, hi, hello hi, now"
	want := map[int]read{
		1: {"be brief, now", true},
		2: {"be brief, hello hi, now", true},
		3: {"be brief, hi, hello hi, now", true},
		4: {"be brief, hi, hello hi, now", true}, // without the result, whose call is not there
		6: {all, false},
		0: {all, false},
	}
	if diff := cmp.Diff(want, <-reads, cmp.AllowUnexported(read{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A call in a message has JSON as its arguments, whoever made it without any.
func TestPrompt_CallsHaveArguments(t *testing.T) {
	t.Parallel()
	bare := agent{"bare", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		for _, ev := range []agui.Event{
			agui.ToolCallStart{ToolCallID: "own", ToolCallName: "look"},
			agui.ToolCallEnd{ToolCallID: "own"},
			agui.ToolCallResult{MessageID: "own-result", ToolCallID: "own", Content: "seen", Output: &agui.ToolOutput{Status: agui.StatusSuccess, ResultSummary: "seen"}},
		} {
			if err := run.Emit(ev); err != nil {
				return agui.WorkerOutput{}, err
			}
		}
		_, err := run.CallTool(ctx, "look", nil)
		return agui.WorkerOutput{}, err
	}}
	b := open(t, runtime.Config{}, bare, reader, tool{plugins.Info{Name: "look"}, func(context.Context, *plugins.Call) (agui.ToolOutput, error) { return agui.ToolOutput{}, nil }})
	s := b.request(runtime.StartRequest{Agent: "bare", ThreadID: "main", Messages: []agui.Message{
		{ID: "a", Role: agui.RoleAssistant, ToolCalls: []agui.ToolCall{{ID: "theirs", Name: "look"}}},
		{ID: "b", Role: agui.RoleTool, ToolCallID: "theirs", Content: "seen"},
		{ID: "c", Role: agui.RoleUser, Content: "go"},
	}})
	b.wait(s.RunID, runtime.Completed)
	checkLog(t, b.log("main"))
	n := 0
	for _, m := range b.asked("main") {
		for _, c := range m.ToolCalls {
			if n++; c.Arguments != "{}" {
				t.Errorf("the call %s has the arguments %q", c.ID, c.Arguments)
			}
		}
	}
	if n != 3 {
		t.Errorf("%d calls", n)
	}
}
