package storagetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

func testThread(t *testing.T, f *fixture) {
	thread := &runtime.Thread{
		Project: "project", User: "ann", ID: "main", ConversationID: "conversation", LastEventID: 7,
		State: object("state"), Title: "A title", Metadata: object("metadata"), CreatedAt: at(1), UpdatedAt: at(2),
	}
	f.put(t, thread)
	check := func() {
		t.Helper()
		got, err := f.Thread(t.Context(), thread.Key)
		equal(t, "Thread", got, err, *thread)
		got, err = f.ThreadByID(t.Context(), "project", "ann", "main")
		equal(t, "ThreadByID", got, err, *thread)
		got, err = f.ThreadByConversation(t.Context(), "project", "conversation")
		equal(t, "ThreadByConversation", got, err, *thread)
		f.commit(t, nil, func(tx runtime.Tx) error {
			got, err := tx.LockThread(thread.Key)
			equal(t, "LockThread", got, err, *thread)
			return err
		})
	}
	check()
	thread.LastEventID, thread.State, thread.Title, thread.Metadata, thread.UpdatedAt = 8, nil, "", nil, at(3)
	f.put(t, thread)
	check()
	f.refuse(t, &runtime.Thread{Project: "project", User: "ann", ID: "main", ConversationID: "another"})
}

func testRun(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	run := &runtime.Run{
		ThreadKey: thread.Key, ID: "run", Project: "project", User: "ann", Agent: "echo", WorkflowID: "flow",
		Status: runtime.Running, Input: object("input"), Definition: object("definition"),
		InputQuery: "a question", OutputSummary: new("an answer"),
		Error:          &agui.OutputError{Code: "c", Message: "m", Retryable: true, Details: json.RawMessage(`{"a":1}`)},
		Usage:          []agui.TokenUsage{{Provider: "p", Model: "m", InputTokens: 1, OutputTokens: 2, TotalTokens: 3}},
		ContextItemIDs: []string{"one", "two"}, Metadata: object("metadata"), ParentRun: "parent", Background: true,
		Generation: 2, Attempt: 3, Answered: true, Owner: "instance-1", ClosedEvent: 9,
		CreatedAt: at(1), QueuedAt: at(2), StartedAt: new(at(3)), FinishedAt: new(at(4)),
		ThreadID: "main", ConversationID: thread.ConversationID,
	}
	f.put(t, run)
	check := func() {
		t.Helper()
		got, err := f.Run(t.Context(), run.Key)
		equal(t, "Run", got, err, *run)
		got, err = f.LastRun(t.Context(), thread.Key)
		equal(t, "LastRun", got, err, *run)
		list, err := f.RunsByName(t.Context(), "project", "ann", "run")
		equal(t, "RunsByName", list, err, []runtime.Run{*run})
		list, _, err = f.Runs(t.Context(), runtime.RunFilter{Project: "project", Limit: 10})
		equal(t, "Runs", list, err, []runtime.Run{*run})
	}
	check()
	run.Status, run.OutputSummary, run.Error, run.Usage, run.ContextItemIDs = runtime.Queued, nil, nil, nil, nil
	run.Metadata, run.ParentRun, run.Background, run.Answered, run.Owner = nil, "", false, false, ""
	run.StartedAt, run.FinishedAt = nil, nil
	f.put(t, run)
	check()
}

func testRunInput(t *testing.T, f *fixture) {
	run := runOf(f.newThread(t, "ann", "main"), "run", runtime.Queued)
	run.Input, run.Definition = object("input"), object("definition")
	f.put(t, run)
	update := *run
	update.Input, update.Definition, update.Status = nil, nil, runtime.Running
	f.put(t, &update)
	run.Status = runtime.Running
	got, err := f.Run(t.Context(), run.Key)
	equal(t, "Run", got, err, *run)
}

func testSpanStepNode(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	run := f.newRun(t, thread, "run", runtime.Running)
	spans := []runtime.Span{
		{RunKey: run.Key, N: 1, ThreadKey: thread.Key, RunID: "run", Generation: 1, First: 1, Last: 5, State: object("s")},
		{RunKey: run.Key, N: 2, ThreadKey: thread.Key, RunID: "again", Generation: 2, First: 6},
	}
	steps := []runtime.Step{
		{
			RunKey: run.Key, Number: 1, ID: "s1", Generation: 1, NodeID: "node", Name: "node", Execution: 1,
			Status: runtime.Failed, Input: "in", Output: new("out"), Error: &agui.OutputError{Code: "c", Message: "m"},
			StartedAt: at(1), CompletedAt: new(at(2)),
		},
		{RunKey: run.Key, Number: 2, ID: "s2", NodeID: "node", Name: "node#2", Status: runtime.Waiting, StartedAt: at(3)},
	}
	nodes := []runtime.Node{
		{
			RunKey: run.Key, NodeID: "a", Status: runtime.Completed, Progress: 0.25, Messages: []string{"m", "ü"},
			Output: object("out"), Error: &agui.OutputError{Code: "c", Message: "m"}, StartedAt: new(at(1)),
			CompletedAt: new(at(2)),
		},
		{RunKey: run.Key, NodeID: "b", Status: runtime.Pending},
	}
	f.put(t, &spans[0], &spans[1], &steps[0], &steps[1], &nodes[0], &nodes[1])
	check := func() {
		t.Helper()
		gotSpans, err := f.Spans(t.Context(), run.Key)
		equal(t, "Spans", gotSpans, err, spans)
		gotSpan, err := f.SpanAfter(t.Context(), thread.Key, 1)
		equal(t, "SpanAfter", gotSpan, err, spans[1])
		gotSteps, total, err := f.Steps(t.Context(), run.Key, 0, 10)
		equal(t, "Steps", gotSteps, err, steps)
		equal(t, "total", total, err, 2)
		gotNodes, err := f.Nodes(t.Context(), run.Key)
		equal(t, "Nodes", gotNodes, err, nodes)
	}
	check()
	open, err := f.OpenSteps(t.Context(), run.Key)
	equal(t, "OpenSteps", open, err, steps[1:])
	spans[1].Last, spans[1].State = 9, object("t")
	steps[0].Error, steps[0].Output, steps[1].Status, steps[1].CompletedAt = nil, nil, runtime.Completed, new(at(9))
	nodes[0].Output, nodes[0].Error, nodes[0].Messages, nodes[1].Progress = nil, nil, nil, 1
	f.put(t, &spans[1], &steps[0], &steps[1], &nodes[0], &nodes[1])
	check()
	_, err = f.SpanAfter(t.Context(), thread.Key, 6)
	if !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("SpanAfter the last: %v", err)
	}
}

func testMessage(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	run := f.newRun(t, thread, "run", runtime.Running)
	m := &runtime.Message{
		ThreadKey: thread.Key, RunKey: run.Key, Seq: 1, EventID: 4, State: runtime.MessageConsumed,
		ContextItemIDs: []string{"one"}, CreatedAt: at(1),
		Day: time.Date(2026, 2, 28, 0, 0, 0, 0, time.UTC),
		Message: agui.Message{
			ID: "m1", Role: agui.RoleAssistant, Content: "hi <b>&", Name: "n", EncryptedValue: "e", SubagentRunID: "s",
			ToolCalls: []agui.ToolCall{{ID: "c1", Name: "f", Arguments: `{"a": 1}`}},
			Metadata:  json.RawMessage(`{"a":"<b>"}`), Extra: json.RawMessage(`{"x":[1]}`),
		},
	}
	f.put(t, m)
	check := func() {
		t.Helper()
		got, err := f.Messages(t.Context(), thread.Key, 0, 10)
		if len(got) == 1 && m.Key == 0 {
			m.Key = got[0].Key
		}
		equal(t, "Messages", got, err, []runtime.Message{*m})
	}
	check()
	m.Content, m.ToolCalls, m.Metadata, m.Extra, m.ContextItemIDs, m.RunKey = "bye", nil, nil, nil, nil, 0
	m.Day = time.Time{}
	f.put(t, m)
	check()
	m.Content = "again" // the row is the one with the same id
	f.put(t, m)
	check()
}

func testMemoInterruptKey(t *testing.T, f *fixture) {
	run := f.newRun(t, f.newThread(t, "ann", "main"), "run", runtime.Running)
	memos := []runtime.Memo{
		{RunKey: run.Key, Generation: 1, Step: 1, Name: "ask", N: 1, CallID: "call", Done: true, Output: object("o")},
		{RunKey: run.Key, Generation: 1, Step: 1, Name: "ask", N: 2},
	}
	other := runtime.Memo{RunKey: run.Key, Generation: 2, Step: 1, Name: "ask", N: 1}
	interrupts := []runtime.Interrupt{
		{
			ID: "z", RunKey: run.Key, Step: 3, Name: "ask", N: 1, Body: object("b"), Status: "resolved",
			Payload: object("p"), ExpiresAt: new(at(9)), CreatedAt: at(1),
		},
		{ID: "a", RunKey: run.Key, Frontend: true, Status: "open", CreatedAt: at(1)},
	}
	key := runtime.IdempotencyKey{
		Scope: "scope", BodyHash: "hash", RunKey: run.Key, Status: 202, Answer: object("a"), CreatedAt: at(5),
	}
	f.put(t, &memos[0], &memos[1], &other, &interrupts[0], &interrupts[1], &key)
	check := func() {
		t.Helper()
		gotMemos, err := f.Memos(t.Context(), run.Key, 1)
		equal(t, "Memos", gotMemos, err, memos)
		gotInterrupts, err := f.Interrupts(t.Context(), run.Key)
		equal(t, "Interrupts", gotInterrupts, err, interrupts)
		gotKey, err := f.IdempotencyKey(t.Context(), "scope")
		equal(t, "IdempotencyKey", gotKey, err, key)
	}
	check()
	memos[1].Done, memos[1].Output, memos[1].CallID = true, object("p"), "call2"
	interrupts[1].Status, interrupts[1].Payload = "resolved", object("q")
	key.BodyHash, key.Answer = "hash2", nil
	f.put(t, &memos[1], &interrupts[1], &key)
	check()
}

func testNotFound(t *testing.T, f *fixture) {
	ctx := t.Context()
	for what, read := range map[string]func() error{
		"Thread":               func() error { _, err := f.Thread(ctx, 99); return err },
		"ThreadByID":           func() error { _, err := f.ThreadByID(ctx, "p", "u", "t"); return err },
		"ThreadByConversation": func() error { _, err := f.ThreadByConversation(ctx, "p", "c"); return err },
		"LatestThread":         func() error { _, err := f.LatestThread(ctx, "p", "u"); return err },
		"ListedThread":         func() error { _, err := f.ListedThread(ctx, 99); return err },
		"HistoryDay":           func() error { _, err := f.HistoryDay(ctx, 99, time.Now()); return err },
		"Run":                  func() error { _, err := f.Run(ctx, 99); return err },
		"LastRun":              func() error { _, err := f.LastRun(ctx, 99); return err },
		"SpanAfter":            func() error { _, err := f.SpanAfter(ctx, 99, 0); return err },
		"IdempotencyKey":       func() error { _, err := f.IdempotencyKey(ctx, "s"); return err },
		"LastEventID":          func() error { _, err := f.LastEventID(ctx, 99); return err },
	} {
		if err := read(); !errors.Is(err, runtime.ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", what, err)
		}
	}
	if list, err := f.RunsByName(ctx, "p", "", "r"); err != nil || len(list) != 0 {
		t.Errorf("RunsByName: %v, %v", list, err)
	}
	if list, err := f.Events(ctx, 99, 0, 10); err != nil || len(list) != 0 {
		t.Errorf("Events: %v, %v", list, err)
	}
}

// testManyRows puts numbers of rows of which some are no power of two.
func testManyRows(t *testing.T, f *fixture) {
	run := f.newRun(t, f.newThread(t, "ann", "main"), "run", runtime.Running)
	want := 0
	for _, n := range []int{1, 2, 3, 31, 32, 33, 100} {
		var rows []runtime.Row
		for range n {
			want++
			rows = append(rows, &runtime.Step{RunKey: run.Key, Number: want, ID: fmt.Sprint(want), StartedAt: at(want)})
		}
		f.put(t, rows...)
		f.put(t, rows...)
	}
	steps, total, err := f.Steps(t.Context(), run.Key, 0, 1000)
	equal(t, "total", total, err, want)
	for i, step := range steps {
		if step.Number != i+1 || step.ID != fmt.Sprint(i+1) || !step.StartedAt.Equal(at(i+1)) {
			t.Fatalf("step %d: %+v", i+1, step)
		}
	}
}

func testPutTwice(t *testing.T, f *fixture) {
	run := f.newRun(t, f.newThread(t, "ann", "main"), "run", runtime.Running)
	node := func(id string, progress float64) *runtime.Node {
		return &runtime.Node{RunKey: run.Key, NodeID: id, Progress: progress}
	}
	f.put(t, node("a", 0.1), node("b", 0.2), node("a", 0.3), node("c", 0.4), node("b", 0.5))
	nodes, err := f.Nodes(t.Context(), run.Key)
	equal(t, "Nodes", nodes, err, []runtime.Node{*node("a", 0.3), *node("b", 0.5), *node("c", 0.4)})
}

func testText(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	kept := []string{"", "ünï \U0001f600 \u2028", "'; DROP TABLE runs; --", "\\ \" % _ \r\n\t\x01", strings.Repeat("x", 1<<20)}
	for i, text := range kept {
		run := runOf(thread, fmt.Sprint("run", i), runtime.Queued)
		run.InputQuery, run.OutputSummary, run.ContextItemIDs = text, &text, []string{text}
		run.Input = json.RawMessage(`{"nul":"\u0000"}`)
		f.put(t, run)
		got, err := f.Run(t.Context(), run.Key)
		equal(t, "Run", got, err, *run)
	}
	for _, text := range []string{"a\x00b", "\xff", "\xed\xa0\x80"} {
		run := runOf(thread, "refused", runtime.Queued)
		run.InputQuery = text
		f.refuse(t, run)
		run.InputQuery, run.OutputSummary = "", &text
		f.refuse(t, run)
		f.refuse(t, &runtime.Node{RunKey: 1, NodeID: text})
	}
	long := time.Date(9999, 12, 31, 23, 59, 59, 999_000_000, time.UTC)
	thread.UpdatedAt = long
	f.put(t, thread)
	got, err := f.Thread(t.Context(), thread.Key)
	equal(t, "UpdatedAt", got.UpdatedAt, err, long)
}
