package storagetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

func testThread(t *testing.T, f *fixture) {
	thread := f.threadOf(t, "ann", "main")
	thread.ConversationID, thread.LastEventID, thread.LastSeq, thread.State = "conversation", 7, 3, object("state")
	thread.Title, thread.Metadata, thread.CreatedAt, thread.UpdatedAt = "A title", object("metadata"), at(1), at(2)
	f.put(t, thread)
	check := func() {
		t.Helper()
		got, err := f.Thread(t.Context(), thread.Key)
		equal(t, "Thread", got, err, *thread)
		got, err = f.ByProject().ThreadByID(t.Context(), "project", "ann", "main")
		equal(t, "ThreadByID", got, err, *thread)
		got, err = f.ByProject().ThreadByConversation(t.Context(), "project", "conversation")
		equal(t, "ThreadByConversation", got, err, *thread)
		equal(t, "View", f.views(t, data.Ask{Thread: thread.Key})[0].Thread, nil, thread.ThreadHead)
	}
	check()
	thread.LastEventID, thread.LastSeq, thread.UpdatedAt = 8, 4, at(3)
	f.put(t, &thread.ThreadHead)
	check()
	thread.State = object("another")
	f.put(t, &data.ThreadState{Key: thread.Key, State: thread.State})
	check()
	thread.State = nil
	f.put(t, &data.ThreadState{Key: thread.Key})
	check()
	for _, patch := range []data.ThreadPatch{
		{Title: new("Another title")},
		{Metadata: object("more")},
		{Title: new("")},
		{},
		{Archived: new(true)},
		{Title: new("Both"), Metadata: json.RawMessage("null")},
		{Archived: new(false)},
	} {
		if patch.Title != nil {
			thread.Title = *patch.Title
		}
		if patch.Metadata != nil {
			if thread.Metadata = patch.Metadata; string(thread.Metadata) == "null" {
				thread.Metadata = nil
			}
		}
		if patch.Archived != nil {
			thread.Archived = *patch.Archived
		}
		patch.Key = thread.Key
		f.put(t, &patch)
		check()
	}
	// A batch may also change the row that it inserts.
	thread = f.threadOf(t, "ann", "other")
	thread.ConversationID = "another"
	changed := *thread
	changed.LastEventID, changed.LastSeq, changed.UpdatedAt = 5, 6, at(7)
	changed.Title, changed.State, changed.Metadata, changed.Archived = "A title", object("state"), object("metadata"), true
	f.put(t, thread, &data.ThreadPatch{Key: thread.Key, Title: new("no")}, &changed.ThreadHead,
		&data.ThreadState{Key: thread.Key, State: changed.State}, &data.ThreadPatch{Key: thread.Key, Metadata: changed.Metadata},
		&data.ThreadPatch{Key: thread.Key, Archived: new(true)},
		&data.ThreadPatch{Key: thread.Key, Title: &changed.Title})
	got, err := f.Thread(t.Context(), thread.Key)
	equal(t, "Thread", got, err, changed)
}

func fullRun(t *testing.T, f *fixture, thread *data.Thread) *data.Run {
	t.Helper()
	run := f.runOf(t, thread, "run", data.Running)
	run.WorkflowID, run.Input, run.Definition = "flow", object("input"), object("definition")
	run.InputQuery, run.OutputSummary = "a question", new("an answer")
	run.Error = &agui.OutputError{Code: "c", Message: "m", Retryable: true, Details: json.RawMessage(`{"a":1}`)}
	run.Usage = []agui.TokenUsage{{Provider: "p", Model: "m", InputTokens: 1, OutputTokens: 2, TotalTokens: 3}}
	run.ContextItemIDs, run.Metadata, run.ParentRun = []string{"one", "two"}, object("metadata"), "parent"
	run.Generation, run.Attempt, run.Spans, run.SpanName, run.Turn, run.Answered = 2, 3, 4, "later", 5, true
	run.Owner, run.Replaces, run.RollBack, run.ClosedEvent = "instance-1", []data.Replaced{{RunKey: 6, Generation: 7}}, true, 9
	run.CreatedAt, run.QueuedAt, run.StartedAt, run.FinishedAt = at(1), at(2), new(at(3)), new(at(4))
	return run
}

func testRun(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	run := fullRun(t, f, thread)
	f.put(t, run, named(run))
	check := func() {
		t.Helper()
		got, err := f.Run(t.Context(), run.Key)
		equal(t, "Run", got, err, *run)
		small := *run
		small.Input, small.Definition = nil, nil
		got, err = f.LastRun(t.Context(), thread.Key)
		equal(t, "LastRun", got, err, small)
		list, err := f.ByProject().RunsByName(t.Context(), "project", "ann", "run")
		equal(t, "RunsByName", list, err, []data.Run{small})
		list, _, err = Parts(f.ByProject().Runs(t.Context(), data.RunFilter{Project: "project", Limit: 10}))
		listed := *run
		listed.Input, listed.Definition, listed.Metadata = nil, nil, nil
		equal(t, "Runs", list, err, []data.Run{listed})
		heads, err := f.OpenRuns(t.Context(), thread.Key)
		equal(t, "OpenRuns", heads, err, []data.RunHead{run.RunHead})
		equal(t, "View", f.views(t, data.Ask{Thread: thread.Key})[0].Runs, nil, []data.RunHead{run.RunHead})
	}
	check()
	run.Status, run.Generation, run.Attempt, run.Spans, run.SpanName, run.Turn = data.Queued, 3, 0, 5, "", 6
	run.Answered, run.Owner, run.Replaces, run.RollBack, run.ClosedEvent, run.Error = false, "", nil, false, 10, nil
	run.QueuedAt, run.StartedAt, run.FinishedAt = at(5), nil, nil
	head := run.RunHead
	head.Project, head.User, head.ID, head.Agent, head.WorkflowID, head.CreatedAt = "no", "no", "no", "no", "no", at(9)
	f.put(t, &head) // this does not change those members
	check()
	run.Attempt = 4
	f.put(t, &run.RunHead)
	check()
	run.Attempt = 2
	f.put(t, &data.RunCrashes{Key: run.Key, Attempt: 2})
	check()
	run.Attempt = 0
	f.put(t, &data.RunCrashes{Key: run.Key})
	check()
	run.OutputSummary, run.Usage = new("another"), nil
	f.put(t, &data.RunResult{Key: run.Key, OutputSummary: run.OutputSummary})
	check()
	run.OutputSummary = nil
	f.put(t, &data.RunResult{Key: run.Key})
	check()
}

// testHead changes a run in the batch that inserts it, and in another.
func testHead(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	run := fullRun(t, f, thread)
	run.StartedAt, run.Attempt = nil, 0
	want := *run
	want.Attempt, want.StartedAt, want.OutputSummary, want.Usage = 1, new(at(7)), new("sum"), nil
	result := &data.RunResult{Key: run.Key, OutputSummary: want.OutputSummary}
	queued := run.RunHead
	queued.Status = data.Queued
	f.put(t, run, &queued, result, &want.RunHead)
	if run.Attempt != 0 || run.Status != data.Running {
		t.Error("the row that was given has changed")
	}
	got, err := f.Run(t.Context(), run.Key)
	equal(t, "Run", got, err, want)

	tried := want.RunHead
	tried.Attempt = 5
	f.put(t, &data.RunCrashes{Key: run.Key}, &tried)
	got, err = f.Run(t.Context(), run.Key)
	equal(t, "attempts of a head behind RunCrashes", got.Attempt, err, 5)
	f.put(t, &tried, &data.RunCrashes{Key: run.Key})
	got, err = f.Run(t.Context(), run.Key)
	equal(t, "attempts of a head before RunCrashes", got.Attempt, err, 0)
}

func testSpanStepNode(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	run := f.newRun(t, thread, "run", data.Running)
	spans := []data.Span{
		{RunKey: run.Key, N: 1, ThreadKey: thread.Key, RunID: "run", Generation: 1, First: 1, Last: 5, State: object("s")},
		{RunKey: run.Key, N: 2, ThreadKey: thread.Key, RunID: "again", Generation: 2, First: 6},
	}
	steps := []data.Step{
		{
			RunKey: run.Key, Number: 1, ID: "s1", Generation: 1, NodeID: "node", Name: "node", Execution: 1, Round: 3,
			Status: data.Failed, Input: "in", Output: new("out"), Error: &agui.OutputError{Code: "c", Message: "m"},
			StartedAt: at(1), CompletedAt: new(at(2)),
		},
		{RunKey: run.Key, Number: 2, ID: "s2", NodeID: "b", Name: "b[3]", Item: &data.Item{Index: 3, Key: "ü"}, Status: data.Waiting, StartedAt: at(3)},
	}
	nodes := []data.Node{
		{
			RunKey: run.Key, NodeID: "a", Status: data.Completed, Round: 3, Progress: 0.25, Messages: []string{"m", "ü"},
			Output: object("out"), Error: &agui.OutputError{Code: "c", Message: "m"}, StartedAt: new(at(1)),
			CompletedAt: new(at(2)),
		},
		{RunKey: run.Key, NodeID: "b", Status: data.Waiting, Map: &data.MapProgress{Items: 5, Done: 2, Failed: 1}, StartedAt: new(at(3))},
	}
	f.put(t, &spans[0], &spans[1], &steps[0], &steps[1], &nodes[0], &nodes[1])
	check := func() {
		t.Helper()
		gotSpans, err := f.Spans(t.Context(), run.Key)
		equal(t, "Spans", gotSpans, err, spans)
		gotSpan, err := f.SpanAfter(t.Context(), thread.Key, 1)
		equal(t, "SpanAfter", gotSpan, err, spans[1])
		gotSteps, total, err := Parts(f.ByProject().Steps(t.Context(), run.Project, run.Key, "", 0, 10))
		equal(t, "Steps", gotSteps, err, steps)
		equal(t, "total", total, err, 2)
		gotNodes, err := f.Nodes(t.Context(), run.Key)
		equal(t, "Nodes", gotNodes, err, nodes)
	}
	check()
	spans[1].Last = 9
	steps[0].Error, steps[0].Output, steps[1].Status, steps[1].CompletedAt = nil, nil, data.Completed, new(at(9))
	nodes[0].Output, nodes[0].Error, nodes[0].Messages, nodes[1].Progress = nil, nil, nil, 1
	f.put(t, &data.SpanEnd{RunKey: run.Key, N: 2, Last: 9}, &steps[0], &steps[1], &nodes[0], &nodes[1])
	check()
	f.refuse(t, &spans[1])
	spans = append(spans, data.Span{RunKey: run.Key, N: 3, ThreadKey: thread.Key, RunID: "run", First: 10})
	third := spans[2]
	spans[2].Last = 12
	f.put(t, &third, &data.SpanEnd{RunKey: run.Key, N: 3, Last: 12}) // begun and ended in one batch
	check()
	_, err := f.SpanAfter(t.Context(), thread.Key, 10)
	if !errors.Is(err, data.ErrNotFound) {
		t.Errorf("SpanAfter the last: %v", err)
	}
}

func testMessage(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	run := f.newRun(t, thread, "run", data.Running)
	m := &data.Message{
		ThreadKey: thread.Key, RunKey: run.Key, Seq: 1, EventID: 4, State: data.MessageConsumed,
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
		equal(t, "Messages", got, err, []data.Message{*m})
	}
	check()
	m.Content, m.ToolCalls, m.Metadata, m.Extra, m.ContextItemIDs, m.RunKey = "bye", nil, nil, nil, nil, 0
	m.Day = time.Time{}
	f.put(t, m)
	check()
	m.Content = "again" // the row is the one with the same id
	f.put(t, m)
	check()
	late := *m
	late.CreatedAt = at(9)
	f.put(t, &late)
	check()

	first, second := *m, *m
	first.ID, second.ID = "m2", "m2"
	second.CreatedAt, second.Content = at(9), "changed"
	f.put(t, &first, &second)
	got, err := f.MessagesByID(t.Context(), thread.Key, []string{"m2"})
	if err != nil || len(got) != 1 || !got[0].CreatedAt.Equal(at(1)) || got[0].Content != "changed" {
		t.Errorf("a message put twice in a batch: %+v, %v", got, err)
	}
	first.ID, first.CreatedAt = "m3", time.Time{}
	f.put(t, &first)
	got, err = f.MessagesByID(t.Context(), thread.Key, []string{"m3"})
	if err != nil || len(got) != 1 || time.Since(got[0].CreatedAt).Abs() > time.Minute {
		t.Errorf("a message without a time: %+v, %v", got, err)
	}
}

func testMemoInterrupt(t *testing.T, f *fixture) {
	run := f.newRun(t, f.newThread(t, "ann", "main"), "run", data.Running)
	memos := []data.Memo{
		{
			RunKey: run.Key, Generation: 1, Step: 1, Place: "tool:t#1", Tool: "t", Hash: "h", CallID: "call",
			Begun: true, Done: true, Output: object("o"), Event: 7,
		},
		{RunKey: run.Key, Generation: 1, Step: 1, Place: "tool:t#2"},
	}
	other := data.Memo{RunKey: run.Key, Generation: 2, Step: 1, Place: "tool:t#1"}
	interrupts := []data.Interrupt{
		{
			ID: "z", RunKey: run.Key, Step: 3, Place: "ask#1", Body: object("b"), Status: data.InterruptResolved,
			Payload: object("p"), ExpiresAt: new(at(9)), CreatedAt: at(1),
		},
		{ID: "a", RunKey: run.Key, Frontend: true, Status: data.InterruptOpen, CreatedAt: at(1)},
	}
	f.put(t, &memos[0], &memos[1], &other, &interrupts[0], &interrupts[1])
	check := func() {
		t.Helper()
		gotMemos, err := f.Memos(t.Context(), run.Key, 1)
		equal(t, "Memos", gotMemos, err, memos)
		gotInterrupts, err := f.Interrupts(t.Context(), run.Key)
		equal(t, "Interrupts", gotInterrupts, err, interrupts)
	}
	check()
	memos[1].Done, memos[1].Output, memos[1].CallID = true, object("p"), "call2"
	interrupts[1].Status, interrupts[1].Payload = data.InterruptResolved, object("q")
	f.put(t, &memos[1], &interrupts[1])
	check()
}

func testNotFound(t *testing.T, f *fixture) {
	ctx := t.Context()
	for what, read := range map[string]func() error{
		"Thread":               func() error { _, err := f.Thread(ctx, 99); return err },
		"ThreadByID":           func() error { _, err := f.ByProject().ThreadByID(ctx, "p", "u", "t"); return err },
		"ThreadByConversation": func() error { _, err := f.ByProject().ThreadByConversation(ctx, "p", "c"); return err },
		"LatestThread":         func() error { _, err := f.ByProject().LatestThread(ctx, "p", "u"); return err },
		"ListedThread":         func() error { _, err := f.ByProject().ListedThread(ctx, "p", 99); return err },
		"HistoryDay":           func() error { _, err := f.ByProject().HistoryDay(ctx, "p", 99, time.Now()); return err },
		"Run":                  func() error { _, err := f.Run(ctx, 99); return err },
		"LastRun":              func() error { _, err := f.LastRun(ctx, 99); return err },
		"SpanAfter":            func() error { _, err := f.SpanAfter(ctx, 99, 0); return err },
		"LastEventID":          func() error { _, err := f.LastEventID(ctx, 99); return err },
	} {
		if err := read(); !errors.Is(err, data.ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", what, err)
		}
	}
	if list, err := f.ByProject().RunsByName(ctx, "p", "", "r"); err != nil || len(list) != 0 {
		t.Errorf("RunsByName: %v, %v", list, err)
	}
	if list, err := f.Events(ctx, 99, 0, 10); err != nil || len(list) != 0 {
		t.Errorf("Events: %v, %v", list, err)
	}
}

// testManyRows puts batches with different numbers of rows, some not a power of two.
func testManyRows(t *testing.T, f *fixture) {
	run := f.newRun(t, f.newThread(t, "ann", "main"), "run", data.Running)
	want := 0
	for _, n := range []int{1, 2, 3, 31, 32, 33, 100} {
		var rows []data.Row
		for range n {
			want++
			rows = append(rows, &data.Step{RunKey: run.Key, Number: want, ID: fmt.Sprint(want), StartedAt: at(want)})
		}
		f.put(t, rows...)
		f.put(t, rows...)
	}
	steps, total, err := Parts(f.ByProject().Steps(t.Context(), run.Project, run.Key, "", 0, 1000))
	equal(t, "total", total, err, want)
	for i, step := range steps {
		if step.Number != i+1 || step.ID != fmt.Sprint(i+1) || !step.StartedAt.Equal(at(i+1)) {
			t.Fatalf("step %d: %+v", i+1, step)
		}
	}
}

func testPutTwice(t *testing.T, f *fixture) {
	run := f.newRun(t, f.newThread(t, "ann", "main"), "run", data.Running)
	node := func(id string, progress float64) *data.Node {
		return &data.Node{RunKey: run.Key, NodeID: id, Progress: progress}
	}
	f.put(t, node("a", 0.1), node("b", 0.2), node("a", 0.3), node("c", 0.4), node("b", 0.5))
	nodes, err := f.Nodes(t.Context(), run.Key)
	equal(t, "Nodes", nodes, err, []data.Node{*node("a", 0.3), *node("b", 0.5), *node("c", 0.4)})
}

// testLargeRows writes rows that are large together, and reads them again.
func testLargeRows(t *testing.T, f *fixture) {
	const n, size = 30, 1 << 20
	state := json.RawMessage(`{"x":"` + strings.Repeat("x", size) + `"}`)
	var all []*data.Thread
	var runs []*data.Run
	var rows []data.Row
	for i := range n {
		thread := f.threadOf(t, "ann", fmt.Sprint(i))
		thread.State = state
		run := f.runOf(t, thread, fmt.Sprint("run ", i), data.Running)
		run.Input = state
		all, runs = append(all, thread), append(runs, run)
		rows = append(rows, thread, run, message(run, "m", 0, data.MessageQueued))
	}
	f.put(t, rows...)
	for i, want := range all {
		got, err := f.Thread(t.Context(), want.Key)
		if err != nil || got.ID != want.ID || !bytes.Equal(got.State, want.State) {
			t.Errorf("thread %s has a state of %d bytes, %v", got.ID, len(got.State), err)
		}
		run, err := f.Run(t.Context(), runs[i].Key)
		if err != nil || run.ID != runs[i].ID || !bytes.Equal(run.Input, state) {
			t.Errorf("run %s has an input of %d bytes, %v", run.ID, len(run.Input), err)
		}
		queued, err := f.Queued(t.Context(), runs[i].Key)
		equal(t, "Queued", len(queued), err, 1)
	}
}

// testOrder proves that the rows of a batch take effect one after the other, in whatever order they are written.
func testOrder(t *testing.T, f *fixture) {
	run := f.newRun(t, f.newThread(t, "ann", "main"), "run", data.Running)
	queued := func(id string) *data.Message { return message(run, id, 0, data.MessageQueued) }
	hide := &data.Hide{ThreadKey: run.ThreadKey, RunKey: run.Key, Queued: true}
	asked := func(id string) *data.Interrupt {
		return &data.Interrupt{ID: id, RunKey: run.Key, Place: "ask#1", Status: data.InterruptOpen, CreatedAt: at(0)}
	}
	memo := func(id string) *data.Memo { return &data.Memo{RunKey: run.Key, Generation: 1, Place: id} }
	answer := func(id string) *data.Answer {
		return &data.Answer{RunKey: run.Key, Generation: 1, ID: id, Place: id, Payload: object("p"), Output: object("o")}
	}
	withdraw := &data.Withdraw{RunKey: run.Key}
	f.put(t, queued("there"), asked("there"), asked("there, then put"), memo("there, then put"))
	f.put(t,
		queued("put, then hidden"), hide, queued("hidden, then put"),
		asked("put, then withdrawn"), asked("put, then answered"), memo("put, then answered"),
		answer("put, then answered"), answer("there, then put"), withdraw,
		asked("there, then put"), memo("there, then put"), asked("withdrawn, then put"),
	)
	got, err := f.Queued(t.Context(), run.Key)
	equal(t, "Queued", ids(got), err, []string{"hidden, then put"})
	interrupts, err := f.Interrupts(t.Context(), run.Key)
	statuses := make(map[string]string)
	for _, in := range interrupts {
		statuses[in.ID] = in.Status
	}
	equal(t, "Interrupts", statuses, err, map[string]string{
		"there": data.InterruptCancelled, "there, then put": data.InterruptOpen,
		"put, then withdrawn": data.InterruptCancelled, "put, then answered": data.InterruptResolved,
		"withdrawn, then put": data.InterruptOpen,
	})
	memos, err := f.Memos(t.Context(), run.Key, 1)
	done := make(map[string]bool)
	for _, m := range memos {
		done[m.Place] = m.Done
	}
	equal(t, "Memos", done, err, map[string]bool{"put, then answered": true, "there, then put": false})
}

func testText(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	kept := []string{"", "ünï \U0001f600 \u2028", "'; DROP TABLE runs; --", "\\ \" % _ \r\n\t\x01", strings.Repeat("x", 1<<20)}
	for i, text := range kept {
		run := f.runOf(t, thread, fmt.Sprint("run", i), data.Queued)
		run.InputQuery, run.OutputSummary, run.ContextItemIDs = text, &text, []string{text}
		run.Input = json.RawMessage(`{"nul":"\u0000"}`)
		f.put(t, run)
		got, err := f.Run(t.Context(), run.Key)
		equal(t, "Run", got, err, *run)
	}
	for _, text := range []string{"a\x00b", "\xff", "\xed\xa0\x80"} {
		run := f.runOf(t, thread, "refused", data.Queued)
		run.InputQuery = text
		f.refuse(t, run)
		run.InputQuery, run.OutputSummary = "", &text
		f.refuse(t, run)
		f.refuse(t, &data.Node{RunKey: 1, NodeID: text})
	}
	long := time.Date(9999, 12, 31, 23, 59, 59, 999_000_000, time.UTC)
	thread.UpdatedAt = long
	f.put(t, &thread.ThreadHead)
	got, err := f.Thread(t.Context(), thread.Key)
	equal(t, "UpdatedAt", got.UpdatedAt, err, long)
}
