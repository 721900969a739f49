package runtime_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// history returns all messages of main's days, oldest first.
func (b *bench) history(page int) (all []agui.Message) {
	b.t.Helper()
	ctx := context.Background()
	var before *time.Time
	for {
		h, err := b.Threads.History(ctx, local, "main", before)
		must(b.t, err)
		var day []agui.Message
		for after := int64(0); ; {
			msgs, err := b.Threads.HistoryMessages(ctx, h, after, page)
			must(b.t, err)
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
	b.appended(s.RunID, "yesterday")
	b.exec(`UPDATE messages SET created_at = created_at - 86400000, day = day - 1 WHERE state = 'queued'`)
	asks, err := b.Runs.Interrupts(ctx, local, s.RunID)
	if err != nil || len(asks) != 1 {
		t.Fatalf("%v, %v", asks, err)
	}
	if _, err := b.Resume(ctx, local, s.RunID, []agui.ResumeEntry{{InterruptID: asks[0].ID, Status: "resolved"}}); err != nil {
		t.Fatal(err)
	}
	b.wait(s.RunID, runtime.Completed)
	b.log("main")
	var got []string
	for _, m := range b.history(2) {
		got = append(got, m.Content)
	}
	if diff := cmp.Diff([]string{"go", "which?", "yesterday", "done"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// exec changes the database directly, without the runtime.
func (b *bench) exec(statement string) {
	b.t.Helper()
	driver, url := "postgres", b.path
	if filepath.IsAbs(url) {
		driver, url = "sqlite", "file:"+url+"?_pragma=busy_timeout(10000)"
	}
	db, err := sql.Open(driver, url)
	must(b.t, err)
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
