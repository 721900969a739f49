package runtime_test

import (
	"context"
	"io"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// The messages of parallel workers are in the order in which they began, for a follower and for a new reader, during
// the run and after it.
func TestMessagesStandInTheOrderTheyBegan(t *testing.T) {
	t.Parallel()
	began, over := make(chan struct{}), make(chan struct{})
	var b *bench
	var at runtime.Snapshot
	slow := agent{"slow", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		why := run.Reason()
		if _, err := io.WriteString(why, "because"); err != nil {
			return agui.WorkerOutput{}, err
		}
		close(began)
		<-over
		return agui.WorkerOutput{}, why.Close()
	}}
	fast := agent{"fast", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		defer close(over)
		<-began
		if _, err := run.CallTool(ctx, "add", nil); err != nil {
			return agui.WorkerOutput{}, err
		}
		th, err := b.Threads.Get(ctx, local, "main")
		if err != nil {
			return agui.WorkerOutput{}, err
		}
		at, err = b.Logs.Snapshot(ctx, th)
		return agui.WorkerOutput{}, err
	}}
	pair := plugins.Workflow{Name: "pair", Nodes: []plugins.Node{{ID: "slow", Agent: "slow"}, {ID: "fast", Agent: "fast"}}}
	b = open(t, runtime.Config{}, append(rich()[:1], slow, fast, pair)...)
	b.wait(b.startWorkflow("main", "pair", "go").RunID, runtime.Completed)
	th := b.found("main")
	end, err := b.Logs.Snapshot(t.Context(), th)
	must(t, err)
	want := []agui.Role{agui.RoleUser, agui.RoleReasoning, agui.RoleAssistant, agui.RoleTool}
	for when, s := range map[string]runtime.Snapshot{"at work": at, "at rest": end} {
		var got []agui.Role
		for _, m := range s.Messages {
			got = append(got, m.Role)
		}
		if diff := cmp.Diff(want, got[:min(len(got), len(want))]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
}

// Reading from a run's snapshot on leaves no gap and repeats no event.
func TestRunEventsGoOnBehindARunSnapshot(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, rich()...)
	ctx := t.Context()
	first := b.start("main", "rich", "one")
	b.wait(first.RunID, runtime.Completed)
	b.wait(b.start("main", "rich", "two").RunID, runtime.Completed)
	b.appended(first.RunID, "three")
	b.log("main")
	run, err := b.Runs.Get(ctx, local, first.RunID)
	must(t, err)
	var want []int64
	for _, r := range b.log("main") {
		if r.Event.Common().RunID == first.RunID {
			want = append(want, r.ID)
		}
	}
	everything := func(*runtime.Record) bool { return true }
	for limit := 1; limit < 9; limit++ {
		for _, most := range []int{0, 1, 3, 100} {
			var got, back []int64
			for q := (runtime.EventQuery{Limit: limit, Admit: everything, Most: most}); ; {
				recs, next, err := b.Logs.RunEvents(ctx, &run, q)
				must(t, err)
				for _, r := range recs {
					got = append(got, r.ID)
				}
				if q.After = next; next == 0 {
					break
				}
			}
			for q := (runtime.EventQuery{Back: true, Limit: limit, Admit: everything, Most: most}); ; {
				recs, prev, err := b.Logs.RunEvents(ctx, &run, q)
				must(t, err)
				var page []int64
				for _, r := range recs {
					page = append(page, r.ID)
				}
				back = append(page, back...)
				if q.Before = prev; prev == 0 {
					break
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("pages of %d that look at %d (-log +pages):\n%s", limit, most, diff)
			}
			if diff := cmp.Diff(want, back); diff != "" {
				t.Errorf("pages of %d that look at %d, backwards (-log +pages):\n%s", limit, most, diff)
			}
		}
	}
	s, err := b.Logs.RunSnapshot(ctx, &run)
	must(t, err)
	if s.After != want[len(want)-1] || s.Ended == nil || s.Ended.ID != s.After || s.Started == nil || s.Started.Event.Type() != agui.TypeRunStarted {
		t.Errorf("the snapshot is of event %d, ended by %+v", s.After, s.Ended)
	}
	if recs, next, err := b.Logs.RunEvents(ctx, &run, runtime.EventQuery{After: s.After, Limit: 10, Admit: everything}); len(recs) != 0 || next != 0 || err != nil {
		t.Errorf("behind the snapshot: %v, %v, %v", recs, next, err)
	}
}

// Pages are cut between messages: the results of a message's calls stay with it, wherever they were written.
func TestPagesOfMessagesKeepCallsAndResultsTogether(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, hello)
	call := func(id string) []agui.ToolCall { return []agui.ToolCall{{ID: id, Name: "look"}} }
	b.wait(b.ask("first", runtime.StartRequest{},
		said("1", "one"),
		agui.Message{ID: "2", Role: agui.RoleAssistant, ToolCalls: append(call("a"), call("b")...)},
		agui.Message{ID: "3", Role: agui.RoleAssistant, ToolCalls: call("c")},
		agui.Message{ID: "4", Role: agui.RoleTool, ToolCallID: "a", Content: "of a"},
		agui.Message{ID: "5", Role: agui.RoleTool, ToolCallID: "c", Content: "of c"},
		agui.Message{ID: "6", Role: agui.RoleTool, ToolCallID: "b", Content: "of b"},
		said("7", "two"),
	).RunID, runtime.Completed)
	th := b.found("main")
	for _, hidden := range []bool{false, true} {
		for limit := 1; limit < 9; limit++ {
			var got []string
			for before, pages := "", 0; ; pages++ {
				s, err := b.Logs.Messages(t.Context(), th, runtime.MessageFilter{Before: before, Hidden: hidden, Limit: limit})
				if err != nil || pages > 10 {
					t.Fatalf("%d pages, %v", pages, err)
				}
				if len(s.Messages) == 0 {
					break
				}
				before = s.Messages[0].ID
				var page []string
				for _, m := range s.Messages {
					page = append(page, m.ID)
				}
				got = append(page, got...)
			}
			if len(got) != 8 || !slices.Equal(got[:7], []string{"1", "2", "4", "6", "3", "5", "7"}) {
				t.Errorf("hidden %t, %d a page: %q", hidden, limit, got)
			}
		}
	}
}
