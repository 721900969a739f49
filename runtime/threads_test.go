package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// titles returns the caller's listed threads, each with its title and the status of its run.
func (b *bench) titles() (all []string) {
	b.t.Helper()
	list, err := b.Threads.List(context.Background(), local, runtime.ThreadFilter{Count: true})
	if err != nil || list.Total != len(list.Rows) {
		b.t.Fatalf("%d of %d threads, %v", len(list.Rows), list.Total, err)
	}
	for _, th := range list.Rows {
		all = append(all, fmt.Sprintf("%s %q %s %s", th.ID, th.Title, th.Agent, th.Status))
	}
	return all
}

func TestRenameKeepsTheThreadsPlace(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	gate := make(chan struct{})
	b := open(t, runtime.Config{}, gated(gate), answering("echo", strings.ToUpper))
	for _, name := range []string{"a", "b", "c"} {
		b.wait(b.start(name, "echo", "x").RunID, runtime.Completed)
	}
	s := b.start("a", "gated", "y")
	th, err := b.UpdateThread(ctx, local, "b", runtime.ThreadPatch{Title: new("my title")})
	if err != nil || th.Title != "my title" || th.Agent != "echo" || th.Status != runtime.Completed {
		t.Errorf("%+v, %v", th, err)
	}
	if diff := cmp.Diff([]string{`c "" echo COMPLETED`, `b "my title" echo COMPLETED`, `a "" gated RUNNING`}, b.titles()); diff != "" {
		t.Error(diff)
	}
	// The update and the run do not overwrite each other's changes.
	if _, err := b.UpdateThread(ctx, local, s.ConversationID, runtime.ThreadPatch{
		Title: new("meanwhile"), Metadata: new(json.RawMessage(` {"a": [1]}`)),
	}); err != nil {
		t.Fatal(err)
	}
	close(gate)
	b.wait(s.RunID, runtime.Completed)
	b.log("a")
	if diff := cmp.Diff([]string{`a "meanwhile" gated COMPLETED`, `c "" echo COMPLETED`, `b "my title" echo COMPLETED`}, b.titles()); diff != "" {
		t.Error(diff)
	}
	before, err := b.Threads.Get(ctx, local, "a")
	if err != nil || string(before.Metadata) != `{"a":[1]}` {
		t.Fatalf("%+v, %v", before, err)
	}
	for _, p := range []runtime.ThreadPatch{{}, {Title: new("")}, {Metadata: new(json.RawMessage("null"))}} {
		if _, err := b.UpdateThread(ctx, local, "a", p); err != nil {
			t.Error(err)
		}
	}
	after, err := b.Threads.Get(ctx, local, "a")
	before.Title, before.Metadata = "", nil
	if diff := cmp.Diff(before.Thread, after.Thread); diff != "" || err != nil {
		t.Errorf("%v, %s", err, diff)
	}
}

func TestThreadHoldsNoMoreThanItCan(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, answering("echo", strings.ToUpper))
	b.wait(b.start("main", "echo", "x").RunID, runtime.Completed)
	for want, p := range map[string]runtime.ThreadPatch{
		"invalid_title":      {Title: new(strings.Repeat("ü", 201))},
		"metadata_too_large": {Metadata: new(json.RawMessage(`{"a":"` + strings.Repeat("x", 64<<10) + `"}`))},
		"invalid_request":    {Metadata: new(json.RawMessage(`[1]`))},
		"":                   {Title: new(strings.Repeat("ü", 200)), Metadata: new(json.RawMessage(`{"nul":"\u0000"}`))},
	} {
		if _, err := b.UpdateThread(context.Background(), local, "main", p); (err != nil || want != "") && code(err) != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for _, title := range []string{"a\x00b", "two\nlines", "\xff"} {
		if _, err := b.UpdateThread(context.Background(), local, "main", runtime.ThreadPatch{Title: &title}); code(err) != "invalid_title" {
			t.Errorf("%q: %v", title, err)
		}
	}
}

// After its runs were deleted one by one, a thread has no run that could name the next one's agent.
func TestThreadWithoutRunsNeedsAnAgent(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := open(t, runtime.Config{}, answering("echo", strings.ToUpper))
	s := b.start("main", "echo", "x")
	b.wait(s.RunID, runtime.Completed)
	must(t, b.Delete(ctx, local, s.RunID))
	if diff := cmp.Diff([]string{`main ""  `}, b.titles()); diff != "" {
		t.Error(diff)
	}
	if _, err := b.StartRun(ctx, local, runtime.StartRequest{ThreadID: "main", Messages: user("y")}); code(err) != "missing_agent" {
		t.Errorf("got %v", err)
	}
	b.wait(b.start("main", "echo", "y").RunID, runtime.Completed)
}

// With several bad names, the refusal always names the same one.
func TestFirstBadNameIsTold(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{})
	for range 50 {
		_, err := b.StartRun(t.Context(), local, runtime.StartRequest{ThreadID: "\a", RunID: "\a", ParentRunID: "\a", RewindTo: "\a"})
		refusal, ok := errors.AsType[*runtime.Error](err)
		if !ok || refusal.Code != "invalid_name" || !strings.HasPrefix(refusal.Detail, "threadId ") {
			t.Fatalf("refused with %v", err)
		}
	}
}

// fencing is a store that fences its instance after a number of commits.
type fencing struct {
	runtime.Store
	left atomic.Int64
	with error // the error of further commits
}

func (f *fencing) Commit(ctx context.Context, n int64, batch *data.Batch) error {
	if f.left.Add(-1) < 0 {
		return f.with
	}
	return f.Store.Commit(ctx, n, batch)
}

// The next instance completes an interrupted deletion before it serves requests, unless the thread was used since:
// the deletion's request has received its error.
func TestDeletionThatBreaksOff(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	talker := agent{"talker", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		for i := range 1100 {
			if err := say(run, fmt.Sprint(i)); err != nil {
				return agui.WorkerOutput{}, err
			}
		}
		return agui.WorkerOutput{}, nil
	}}
	for _, test := range []struct {
		name string
		with error
		used bool
		want []string
	}{
		{"as the instance is fenced", runtime.ErrFenced, false, nil},
		{"as the database refuses a part", errors.New("no such part"), false, nil},
		{"and the thread is used since", errors.New("no such part"), true, []string{`main "" echo COMPLETED`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := open(t, runtime.Config{}, talker, answering("echo", strings.ToUpper))
			b.wait(b.start("main", "talker", "x").RunID, runtime.Completed)
			f := &fencing{Store: b.store, with: test.with}
			f.left.Store(1 << 30)
			b.injectStore(f)
			f.left.Store(2) // two of its parts succeed
			if err := b.DeleteThread(ctx, local, "main"); err == nil {
				t.Fatal("the thread is deleted")
			}
			f.left.Store(1 << 30)
			if test.used {
				b.wait(b.start("main", "echo", "more").RunID, runtime.Completed)
			}
			b.restart()
			if diff := cmp.Diff(test.want, b.titles()); diff != "" {
				t.Error(diff)
			}
			b.wait(b.start("main", "echo", "anew").RunID, runtime.Completed)
			if !test.used { // otherwise the log begins where it was cut
				checkLog(t, b.log("main"))
			}
		})
	}
}
