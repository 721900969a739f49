package runtime_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/fold"
)

// history returns all messages of main's days, oldest first.
func (b *bench) history(page int) (all []agui.Message) {
	b.t.Helper()
	ctx := context.Background()
	var before *time.Time
	for {
		h, err := b.History(ctx, local, "main", before)
		if err != nil {
			b.t.Fatal(err)
		}
		var day []agui.Message
		for after := int64(0); ; {
			msgs, err := b.HistoryMessages(ctx, h, after, page)
			if err != nil {
				b.t.Fatal(err)
			}
			for i := range msgs.Rows {
				m := &msgs.Rows[i]
				if m.Seq <= after {
					b.t.Errorf("seq %d follows %d", m.Seq, after)
				}
				after = m.Seq
				day = append(day, m.Message)
			}
			if !msgs.More {
				break
			}
		}
		all = append(day, all...)
		if !h.HasMore {
			return all
		}
		before = &h.Day
	}
}

// foldedHistory returns the history of main that its log alone yields.
func (b *bench) foldedHistory() (all []agui.Message) {
	b.t.Helper()
	folded := fold.New(nil, nil)
	for _, r := range b.log("main") {
		if _, err := folded.Apply(r.Event); err != nil {
			b.t.Fatalf("record %d: %v", r.ID, err)
		}
	}
	for _, m := range folded.Messages() {
		if m.Role != agui.RoleReasoning && m.Role != agui.RoleActivity && !cutShort(m) {
			all = append(all, m)
		}
	}
	return all
}

// cutShort reports whether a crash has ended the message.
func cutShort(m agui.Message) bool {
	var metadata struct {
		Output agui.WorkerOutput `json:"workerAgentOutput"`
	}
	_ = json.Unmarshal(m.Metadata, &metadata)
	return metadata.Output.Error != nil && metadata.Output.Error.Code == "interrupted"
}

func (b *bench) checkHistory(what string, want int) {
	b.t.Helper()
	folded := b.foldedHistory()
	if diff := cmp.Diff(folded, b.history(2)); diff != "" {
		b.t.Errorf("after %s (-log +history):\n%s", what, diff)
	}
	if len(folded) != want {
		b.t.Errorf("after %s the log has %d messages, want %d", what, len(folded), want)
	}
}

func TestHistoryIsWhatTheLogFoldsTo(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	crashes, half := 0, make(chan struct{}, 1)
	crasher := agent{"crasher", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if crashes++; crashes > 1 {
			return agui.WorkerOutput{}, say(run, "whole")
		}
		w := run.Message(agui.RoleAssistant, "draft")
		if _, err := io.WriteString(w, "cut sho"); err != nil {
			return agui.WorkerOutput{}, err
		}
		_, _ = run.CallTool(ctx, "no such tool", nil)
		if _, err := io.WriteString(run.Text(), "again cut sho"); err != nil {
			return agui.WorkerOutput{}, err
		}
		_ = run.Do(ctx, "flush", nil, func(context.Context) error { return nil })
		half <- struct{}{}
		return agui.WorkerOutput{}, hang(ctx)
	}}
	asker := agent{"asker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if err := run.Do(ctx, "intro", nil, func(context.Context) error { return say(run, "which?") }); err != nil {
			return agui.WorkerOutput{}, err
		}
		out, err := run.CallTool(ctx, "pick", map[string]any{"of": 3})
		if err != nil {
			return agui.WorkerOutput{}, err
		}
		a, err := run.Ask(ctx, agui.Interrupt{Message: "sure?"})
		return agui.WorkerOutput{Answer: out.ResultSummary + string(a.Payload)}, err
	}}
	writing := make(chan struct{}, 1)
	hanger := agent{"hanger", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if _, err := io.WriteString(run.Text(), "partly"); err != nil {
			return agui.WorkerOutput{}, err
		}
		writing <- struct{}{}
		return agui.WorkerOutput{}, hang(ctx)
	}}
	b := open(t, runtime.Config{}, append(rich(), crasher, asker, hanger)...)

	s := b.start("main", "rich", "one")
	b.wait(s.RunID, runtime.Completed)
	if _, err := b.Append(ctx, local, s.RunID, runtime.AppendRequest{Content: "two", ContextItemIDs: []string{"c"}}); err != nil {
		t.Fatal(err)
	}
	b.log("main")
	said := len(b.foldedHistory())
	if said < 10 {
		t.Fatalf("a rich run leaves %d messages", said)
	}
	b.checkHistory("a run with tools, reasoning and activities", said)

	s = b.start("main", "crasher", "go")
	<-half
	b.crash()
	b.wait(s.RunID, runtime.Completed)
	b.log("main")
	crashed := len(b.foldedHistory())
	b.checkHistory("a crash", crashed)

	s, err := b.StartRun(ctx, local, runtime.StartRequest{Agent: "asker", ThreadID: "main", Tools: []agui.Tool{{Name: "pick"}}, Messages: []agui.Message{
		{ID: "parts", Role: agui.RoleUser, Metadata: []byte(`{"attachments":[{"path":"p"}]}`), Parts: []byte(`[{"type":"text","text":"look"},{"type":"image","source":{"type":"url","value":"http://x/y.png"}}]`)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	b.wait(s.RunID, runtime.Waiting)
	b.checkHistory("a span that ends to wait", crashed+2)
	if _, err := b.StartRun(ctx, local, runtime.StartRequest{Agent: "asker", ThreadID: "main", Tools: []agui.Tool{{Name: "pick"}}, Messages: []agui.Message{
		{ID: "picked", Role: agui.RoleTool, ToolCallID: pending(b, s.RunID), Content: "red"},
	}}); err != nil {
		t.Fatal(err)
	}
	asked := b.wait(s.RunID, runtime.Waiting)
	questions, err := b.Interrupts(ctx, local, asked.ID)
	for err == nil && (len(questions) != 1 || questions[0].Message != "sure?") {
		<-tick()
		questions, err = b.Interrupts(ctx, local, asked.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Resume(ctx, local, s.RunID, []agui.ResumeEntry{{InterruptID: questions[0].ID, Status: "resolved", Payload: []byte(`"yes"`)}}); err != nil {
		t.Fatal(err)
	}
	b.wait(s.RunID, runtime.Completed)
	answered := len(b.foldedHistory())
	b.checkHistory("answers", answered)

	s = b.start("main", "hanger", "write")
	<-writing
	if _, err := b.Append(ctx, local, s.RunID, runtime.AppendRequest{Content: "never taken by the worker"}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Cancel(ctx, local, s.RunID); err != nil {
		t.Fatal(err)
	}
	b.checkHistory("a cancel", answered+3)

	s = b.start("main", "hanger", "to be rolled back")
	<-writing
	again, err := b.StartRun(ctx, local, runtime.StartRequest{Agent: "rich", ThreadID: "main", Messages: user("instead"), Multitask: runtime.RollbackRuns})
	if err != nil {
		t.Fatal(err)
	}
	b.wait(again.RunID, runtime.Completed)
	b.log("main")
	back := len(b.foldedHistory())
	b.checkHistory("a rollback", back)

	s, err = b.StartRun(ctx, local, runtime.StartRequest{Agent: "rich", ThreadID: "main", RewindTo: "parts", Messages: user("otherwise")})
	if err != nil {
		t.Fatal(err)
	}
	b.wait(s.RunID, runtime.Completed)
	b.log("main")
	if rewound := len(b.foldedHistory()); rewound >= back {
		t.Errorf("%d messages after a rewind of %d", rewound, back)
	}
	b.checkHistory("a rewind", len(b.foldedHistory()))
	checkLog(t, b.log("main"))
}

func TestHistoryOfTheLatestThread(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := open(t, runtime.Config{}, answering("echo", func(q string) string { return q }))
	if h, err := b.History(ctx, local, "", nil); err != nil || h.Thread.Key != 0 || !h.Day.IsZero() || h.HasMore {
		t.Errorf("of nobody: %+v, %v", h, err)
	}
	for _, name := range []string{"first", "second"} {
		b.wait(b.start(name, "echo", "x").RunID, runtime.Completed)
	}
	h, err := b.History(ctx, local, "", nil)
	if err != nil || h.Thread.ID != "second" || h.HasMore {
		t.Errorf("%+v, %v", h, err)
	}
	if age := time.Since(h.Day); age < 0 || age > 25*time.Hour {
		t.Errorf("the day is %v", h.Day)
	}
	if older, err := b.History(ctx, local, "first", &h.Day); err != nil || !older.Day.IsZero() || older.Thread.ID != "first" {
		t.Errorf("before the first day: %+v, %v", older, err)
	}
	for _, c := range []runtime.Caller{runtime.MustCaller("default", "bob", runtime.RoleUser), runtime.MustCaller("other", "local", runtime.RoleAdmin), {}} {
		if _, err := b.History(ctx, c, h.Thread.ConversationID, nil); code(err) != "not_found" && (c != runtime.Caller{} || !errors.Is(err, runtime.ErrNobody)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	viewer := runtime.MustCaller("default", "bob", runtime.RoleViewer)
	if seen, err := b.History(ctx, viewer, h.Thread.ConversationID, nil); err != nil || seen.Day.IsZero() {
		t.Errorf("a viewer: %+v, %v", seen, err)
	}
}

// A message that was accepted on one day and consumed on the next is at its position in the log.
func TestSeqsRiseOverTheDays(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	asker := agent{"asker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if err := run.Do(ctx, "intro", nil, func(context.Context) error { return say(run, "which?") }); err != nil {
			return agui.WorkerOutput{}, err
		}
		if _, err := run.Ask(ctx, agui.Interrupt{Message: "sure?"}); err != nil {
			return agui.WorkerOutput{}, err
		}
		_, err := run.Next(ctx)
		return agui.WorkerOutput{Answer: "done"}, err
	}}
	b := open(t, runtime.Config{}, asker)
	s := b.start("main", "asker", "go")
	b.wait(s.RunID, runtime.Waiting)
	if _, err := b.Append(ctx, local, s.RunID, runtime.AppendRequest{Content: "yesterday"}); err != nil {
		t.Fatal(err)
	}
	b.exec(`UPDATE messages SET created_at = created_at - 86400000, day = day - 1 WHERE state = 'queued'`)
	asks, err := b.Interrupts(ctx, local, s.RunID)
	if err != nil || len(asks) != 1 {
		t.Fatalf("%v, %v", asks, err)
	}
	if _, err := b.Resume(ctx, local, s.RunID, []agui.ResumeEntry{{InterruptID: asks[0].ID, Status: "resolved"}}); err != nil {
		t.Fatal(err)
	}
	b.wait(s.RunID, runtime.Completed)
	b.log("main")
	b.checkHistory("a message that had to wait", len(b.foldedHistory()))
}

// exec changes the database directly, without the runtime.
func (b *bench) exec(statement string) {
	b.t.Helper()
	driver, url := "postgres", b.path
	if filepath.IsAbs(url) {
		driver, url = "sqlite", "file:"+url+"?_pragma=busy_timeout(10000)"
	}
	db, err := sql.Open(driver, url)
	if err != nil {
		b.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		b.t.Fatal(err)
	}
}

// The length of contextItemIds and of interrupt ids is limited, for all characters.
func TestIDsOfContextAndQuestionsAreShort(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{Limits: runtime.Limits{FrameBytes: 6 << 20}}, answering("worker", func(string) string { return "done" }))
	s := b.start("main", "worker", "x")
	b.wait(s.RunID, runtime.Completed)
	for name, ids := range map[string][]string{
		"long": {strings.Repeat("<", 257)}, "many": slices.Repeat([]string{"x"}, 1001),
	} {
		_, err := b.Append(t.Context(), local, s.RunID, runtime.AppendRequest{Content: "two", ContextItemIDs: ids})
		checkKind(t, name, err, runtime.KindInvalid)
		_, err = b.StartRun(t.Context(), local, runtime.StartRequest{Agent: "worker", ThreadID: "other", Messages: user("x"), ContextItemIDs: ids})
		checkKind(t, name, err, runtime.KindInvalid)
	}
	_, err := b.Append(t.Context(), local, s.RunID, runtime.AppendRequest{
		Content: strings.Repeat("\x01", 1<<20), ContextItemIDs: slices.Repeat([]string{strings.Repeat("\x01", 256)}, 1000),
	})
	checkKind(t, "a message of which no event can tell", err, runtime.KindTooLarge)
	_, err = b.Resume(t.Context(), local, s.RunID, []agui.ResumeEntry{{InterruptID: "a\x00b", Status: "resolved"}})
	checkKind(t, "an interruptId", err, runtime.KindInvalid)
}

// checkKind checks that err is a refusal of that kind with that code.
func checkKind(t *testing.T, name string, err error, want runtime.Kind) {
	t.Helper()
	if refused, ok := errors.AsType[*runtime.Error](err); !ok || refused.Kind != want {
		t.Errorf("%s: got %v", name, err)
	}
}
