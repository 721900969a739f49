package runtime_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/tail"
)

// editing is a thread with a question u1 and its answer; u1 is edited under its id while no slot is free.
func editing(t *testing.T) (b *bench, release func(), edit string) {
	t.Helper()
	gate := make(chan struct{})
	b = open(t, runtime.Config{Limits: runtime.Limits{Runs: 1}}, gated(gate), hello)
	b.wait(b.ask("first", runtime.StartRequest{Edits: true}, said("u1", "question")).RunID, runtime.Completed)
	busy := b.start("other", "gated", "go")
	b.wait(busy.RunID, runtime.Running)
	s := b.ask("edit", runtime.StartRequest{Edits: true}, said("u1", "edited"))
	if s.Status != runtime.Queued {
		t.Fatalf("the edit is %s", s.Status)
	}
	return b, func() { close(gate) }, s.RunID
}

func said(id, text string) agui.Message {
	return agui.Message{ID: id, Role: agui.RoleUser, Content: text}
}

// ask starts a run of the agent hello on the thread main.
func (b *bench) ask(run string, req runtime.StartRequest, msgs ...agui.Message) runtime.Started {
	b.t.Helper()
	req.Agent, req.ThreadID, req.RunID, req.Messages = "hello", "main", run, msgs
	return b.request(req)
}

// shows checks the messages that a new reader of the thread main receives.
func (b *bench) shows(want ...string) {
	b.t.Helper()
	th := b.found("main")
	snap, err := b.Logs.Snapshot(context.Background(), th)
	must(b.t, err)
	var got []string
	for _, m := range snap.Messages {
		got = append(got, m.Content)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("the thread shows (-want +got):\n%s", diff)
	}
	rows, err := b.store.Messages(context.Background(), th.Key, 0, 100)
	must(b.t, err)
	if diff := cmp.Diff(tail.Contents(rows), snap.Messages); diff != "" {
		b.t.Errorf("the thread shows other messages than its rows (-rows +shown):\n%s", diff)
	}
}

// A list repeats messages that are in memory, hidden ones and calls among them, and the thread takes only the new one.
func TestListRepeatsMessagesInMemory(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, hello)
	b.wait(b.ask("first", runtime.StartRequest{}, said("u1", "one"),
		agui.Message{ID: "a1", Role: agui.RoleAssistant, ToolCalls: []agui.ToolCall{{ID: "c1", Name: "look", Arguments: "{}"}}},
		agui.Message{ID: "r1", Role: agui.RoleTool, ToolCallID: "c1", Content: "seen"}, said("u2", "two")).RunID, runtime.Completed)
	b.wait(b.ask("second", runtime.StartRequest{}, said("u3", "three")).RunID, runtime.Completed)
	b.wait(b.ask("third", runtime.StartRequest{RewindTo: "u2"}, said("u4", "four")).RunID, runtime.Completed)
	b.shows("one", "", "seen", "two", "four", "hello four") // which reads them into memory
	b.wait(b.ask("fourth", runtime.StartRequest{}, said("u1", "one"), said("u2", "two"), said("u3", "three"),
		agui.Message{ID: "c1", Role: agui.RoleTool, ToolCallID: "c1", Content: "seen"}, said("u4", "four"), said("u5", "five")).RunID, runtime.Completed)
	b.shows("one", "", "seen", "two", "four", "hello four", "five", "hello five")
	b.wait(b.ask("fifth", runtime.StartRequest{}, said("u1", "one"), said("u5", "other")).RunID, runtime.Completed) // gets a new id
	b.shows("one", "", "seen", "two", "four", "hello four", "five", "hello five", "other", "hello other")
}

func TestEditThatNeverBeginsLeavesTheThreadAsItWas(t *testing.T) {
	t.Parallel()
	for name, discard := range map[string]func(b *bench, edit string){
		"cancelled": func(b *bench, edit string) {
			if _, err := b.Cancel(context.Background(), local, edit); err != nil {
				b.t.Fatal(err)
			}
		},
		"interrupted": func(b *bench, _ string) {
			b.ask("next", runtime.StartRequest{Multitask: runtime.InterruptRuns}, said("u2", "next"))
		},
		"rolled back": func(b *bench, _ string) {
			b.ask("next", runtime.StartRequest{Multitask: runtime.RollbackRuns}, said("u2", "next"))
		},
		"deleted": func(b *bench, edit string) {
			if _, err := b.Cancel(context.Background(), local, edit); err != nil {
				b.t.Fatal(err)
			}
			must(b.t, b.Delete(context.Background(), local, edit))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, release, edit := editing(t)
			discard(b, edit)
			if run, err := b.Runs.Get(context.Background(), local, edit); !errors.Is(err, runtime.ErrRunNotFound) && run.Status != runtime.Cancelled {
				t.Errorf("the edit is %s, %v", run.Status, err)
			}
			release()
			want := []string{"question", "hello question"}
			if _, err := b.Runs.Get(context.Background(), local, "next"); err == nil {
				b.wait("next", runtime.Completed)
				want = append(want, "next", "hello next")
			}
			b.shows(want...)
			checkLog(t, b.log("main"))
			checkRows(t, b)
			b.wait(b.ask("again", runtime.StartRequest{Edits: true}, said("u1", "edited again")).RunID, runtime.Completed)
			b.shows("edited again", "hello edited again")
		})
	}
}

func TestQueuedEditOutlivesACrash(t *testing.T) {
	t.Parallel()
	b, release, edit := editing(t)
	b.crash()
	b.shows("question", "hello question")
	release()
	b.wait(edit, runtime.Completed)
	b.shows("edited", "hello edited")
	checkLog(t, b.log("main"))
}

func TestEditOutlivesACrashOfItsRun(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	b := open(t, runtime.Config{}, gated(gate), hello)
	b.wait(b.ask("first", runtime.StartRequest{Edits: true}, said("u1", "question")).RunID, runtime.Completed)
	b.request(runtime.StartRequest{
		Agent: "gated", ThreadID: "main", RunID: "edit", Edits: true, Messages: []agui.Message{said("u1", "edited")},
	})
	b.wait("edit", runtime.Running)
	b.crash()
	close(gate)
	b.wait("edit", runtime.Completed)
	b.shows("edited", "echo edited")
	checkLog(t, b.log("main"))
}

// The second execution of an edit's run does not apply the edit again.
func TestEditIsTakenOnce(t *testing.T) {
	t.Parallel()
	b, release, edit := editing(t)
	release()
	b.wait(edit, runtime.Completed)
	b.wait(b.ask("second", runtime.StartRequest{Edits: true}, said("u1", "edited twice")).RunID, runtime.Completed)
	b.appended(edit, "more")
	b.wait(edit, runtime.Completed)
	recs := b.log("main")
	checkLog(t, recs)
	b.shows("edited twice", "hello edited twice", "more", "hello more")
	edited := slices.DeleteFunc(recs, func(r *runtime.Record) bool {
		begin, ok := r.Event.(agui.RunStarted)
		return !ok || !slices.ContainsFunc(begin.Input.Messages, func(m agui.Message) bool { return m.Content == "edited" })
	})
	if len(edited) != 1 {
		t.Errorf("%d spans begin with the edit", len(edited))
	}
}

// An edit counts towards the limits of a request like its other new messages.
func TestEditMayNotBeTooLarge(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{MessageBytes: 100}, hello)
	b.wait(b.ask("first", runtime.StartRequest{Edits: true}, said("u1", "question")).RunID, runtime.Completed)
	_, err := b.StartRun(context.Background(), local, runtime.StartRequest{
		Agent: "hello", ThreadID: "main", Edits: true, Messages: []agui.Message{said("u1", string(make([]byte, 100)))},
	})
	var refusal *runtime.Error
	if !errors.As(err, &refusal) || refusal.Code != "messages_too_large" {
		t.Errorf("got %v", err)
	}
	b.shows("question", "hello question")
}
