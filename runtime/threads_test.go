package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
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
	list, err := b.Threads(context.Background(), local, runtime.ThreadFilter{Count: true})
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
	before, err := b.Thread(ctx, local, "a")
	if err != nil || string(before.Metadata) != `{"a":[1]}` {
		t.Fatalf("%+v, %v", before, err)
	}
	for _, p := range []runtime.ThreadPatch{{}, {Title: new("")}, {Metadata: new(json.RawMessage("null"))}} {
		if _, err := b.UpdateThread(ctx, local, "a", p); err != nil {
			t.Error(err)
		}
	}
	after, err := b.Thread(ctx, local, "a")
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

func TestDeletedThreadIsGone(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	kept := make(chan *plugins.Run, 2)
	release := make(chan struct{})
	stubborn := agent{"stubborn", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if err := say(run, "working"); err != nil {
			return agui.WorkerOutput{}, err
		}
		kept <- run
		<-release // even after its context is done
		return agui.WorkerOutput{}, say(run, "too late")
	}}
	b := open(t, runtime.Config{}, stubborn, answering("echo", strings.ToUpper))
	defer close(release)
	req := runtime.StartRequest{
		Agent: "stubborn", ThreadID: "main", RunID: "r1", Messages: user("go"), BodyHash: "h",
		Idempotency: &runtime.Idempotency{Scope: "s", BodyHash: "h"},
	}
	first, err := b.StartRun(ctx, local, req)
	if err != nil {
		t.Fatal(err)
	}
	queued := b.start("main", "echo", "later")
	b.wait(b.start("other", "echo", "x").RunID, runtime.Completed)
	th, err := b.Thread(ctx, local, "main")
	if err != nil {
		t.Fatal(err)
	}
	worker := <-kept
	ended := make(chan error, 3)
	watch := func(next func(context.Context) ([]*runtime.Record, error)) {
		go func() { // ends with the thread
			for {
				if _, err := next(ctx); err != nil {
					ended <- err
					return
				}
			}
		}()
	}
	follower, err := b.Read(ctx, th, 0, true)
	if err != nil {
		t.Fatal(err)
	}
	defer follower.Close()
	watch(follower.Next)
	for _, s := range []runtime.Started{first, queued} {
		cur, err := b.ReadRun(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		defer cur.Close()
		watch(cur.Next)
	}
	idle, err := b.Read(ctx, th, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()

	if err := b.DeleteThread(ctx, local, "main"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := <-ended; !errors.Is(err, io.EOF) {
			t.Errorf("a reader ended with %v", err)
		}
	}
	if recs, err := idle.Next(ctx); !errors.Is(err, io.EOF) || !idle.Ended() {
		t.Errorf("a reader that was behind got %v, %v", recs, err)
	}
	if err := worker.Emit(agui.Custom{Name: "late", Value: []byte("1")}); err == nil {
		t.Error("the worker of the deleted run still writes")
	}
	for what, err := range map[string]error{
		"read":   func() error { _, err := b.Read(ctx, th, 0, true); return err }(),
		"thread": func() error { _, err := b.Thread(ctx, local, "main"); return err }(),
		"conv":   func() error { _, err := b.Thread(ctx, local, first.ConversationID); return err }(),
		"run":    func() error { _, err := b.Run(ctx, local, "r1"); return err }(),
		"queued": func() error { _, err := b.Run(ctx, local, queued.RunID); return err }(),
		"append": func() error { _, err := b.Append(ctx, local, "r1", runtime.AppendRequest{Content: "x"}); return err }(),
		"cancel": func() error { _, err := b.Cancel(ctx, local, "r1"); return err }(),
		"rename": func() error { _, err := b.UpdateThread(ctx, local, "main", runtime.ThreadPatch{}); return err }(),
		"delete": b.DeleteThread(ctx, local, "main"),
	} {
		if code(err) != "not_found" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if diff := cmp.Diff([]string{`other "" echo COMPLETED`}, b.titles()); diff != "" {
		t.Error(diff)
	}

	// The same request, with the same names and the same Idempotency-Key, is a new one.
	again, err := b.StartRun(ctx, local, req)
	if err != nil || again.Replayed || again.RunKey == first.RunKey || again.ConversationID == first.ConversationID || again.After != 0 {
		t.Fatalf("%+v, %v", again, err)
	}
	<-kept
	if _, err := b.Cancel(ctx, local, "r1"); err != nil {
		t.Fatal(err)
	}
	checkLog(t, b.log("main"))
}

func TestWaitingThreadIsDeleted(t *testing.T) {
	t.Parallel()
	asker := agent{"asker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		_, err := run.Ask(ctx, agui.Interrupt{Message: "Deploy?"})
		return agui.WorkerOutput{Answer: "done"}, err
	}}
	b := open(t, runtime.Config{}, asker)
	s := b.start("main", "asker", "go")
	b.wait(s.RunID, runtime.Waiting)
	if err := b.DeleteThread(context.Background(), local, "main"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Run(context.Background(), local, s.RunID); code(err) != "not_found" {
		t.Errorf("its run: %v", err)
	}
	b.wait(b.start("main", "asker", "anew").RunID, runtime.Waiting) // no earlier run blocks it
	checkLog(t, b.log("main")[:1])
}

func TestRolesWhoMayChangeAThread(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := open(t, runtime.Config{}, answering("echo", strings.ToUpper))
	s := b.start("main", "echo", "x")
	b.wait(s.RunID, runtime.Completed)
	as := func(role runtime.Role) runtime.Caller {
		return runtime.MustCaller(local.Project(), "ann", role)
	}
	for role, want := range map[runtime.Role]string{runtime.RoleUser: "not_found", runtime.RoleViewer: "forbidden"} {
		if _, err := b.UpdateThread(ctx, as(role), s.ConversationID, runtime.ThreadPatch{}); code(err) != want {
			t.Errorf("%s renames: %v", role, err)
		}
		if err := b.DeleteThread(ctx, as(role), s.ConversationID); code(err) != want {
			t.Errorf("%s deletes: %v", role, err)
		}
	}
	if err := b.DeleteThread(ctx, as(runtime.RoleAdmin), "main"); code(err) != "not_found" {
		t.Errorf("another's name: %v", err)
	}
	if list, err := b.Threads(ctx, as(runtime.RoleAdmin), runtime.ThreadFilter{Count: true}); len(list.Rows) != 0 || list.Total != 0 || err != nil {
		t.Errorf("an admin's own threads: %v, %v", list, err)
	}
	if _, err := b.UpdateThread(ctx, as(runtime.RoleOperator), s.ConversationID, runtime.ThreadPatch{}); err != nil {
		t.Error(err)
	}
	if err := b.DeleteThread(ctx, as(runtime.RoleOperator), s.ConversationID); code(err) != "forbidden" {
		t.Errorf("an operator deletes: %v", err)
	}
	if err := b.DeleteThread(ctx, as(runtime.RoleAdmin), s.ConversationID); err != nil {
		t.Error(err)
	}
}

// A thread with more rows than one transaction removes is deleted completely, even if its runs are started meanwhile.
func TestLongThreadIsDeletedUnderFire(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	talker := agent{"talker", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		for i := range 1100 {
			if err := say(run, fmt.Sprint(i)); err != nil {
				return agui.WorkerOutput{}, err
			}
		}
		return agui.WorkerOutput{}, nil
	}}
	b := open(t, runtime.Config{}, talker, answering("echo", strings.ToUpper))
	first := b.start("main", "talker", "x")
	b.wait(first.RunID, runtime.Completed)
	fired := make(chan struct{})
	go func() { // ends with the last start
		defer close(fired)
		for range 20 {
			if _, err := b.StartRun(ctx, local, runtime.StartRequest{Agent: "echo", ThreadID: "main", Messages: user("again")}); err != nil {
				t.Error(err)
			}
		}
	}()
	err := b.DeleteThread(ctx, local, "main")
	<-fired
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Thread(ctx, local, first.ConversationID); code(err) != "not_found" {
		t.Errorf("the conversation: %v", err)
	}
	last := b.start("main", "echo", "last")
	b.wait(last.RunID, runtime.Completed)
	checkLog(t, b.log("main"))
}

// After its runs were deleted one by one, a thread has no run that could name the next one's agent.
func TestThreadWithoutRunsNeedsAnAgent(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := open(t, runtime.Config{}, answering("echo", strings.ToUpper))
	s := b.start("main", "echo", "x")
	b.wait(s.RunID, runtime.Completed)
	if err := b.Delete(ctx, local, s.RunID); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`main ""  `}, b.titles()); diff != "" {
		t.Error(diff)
	}
	if _, err := b.StartRun(ctx, local, runtime.StartRequest{ThreadID: "main", Messages: user("y")}); code(err) != "missing_agent" {
		t.Errorf("got %v", err)
	}
	b.wait(b.start("main", "echo", "y").RunID, runtime.Completed)
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

func TestLostAnswersOfADeletionRepeatNothing(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, hello)
	f := &faulty{}
	b.inject(f)
	for i := range 5 {
		s := b.start("main", "hello", "x")
		b.wait(s.RunID, runtime.Completed)
		f.after.Store(int64(1 + i%3))
		if err := b.DeleteThread(context.Background(), local, "main"); err != nil {
			t.Fatal(err)
		}
		if all := b.titles(); all != nil {
			t.Errorf("left are %q", all)
		}
	}
}

// A caller with a role for the threads of others lists all of them with their users; a user lists only its own.
func TestThreadsOfAllUsers(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{Accounts: true}, answering("echo", func(q string) string { return q }))
	for _, name := range []string{"ann", "bob", "ann"} {
		who := runtime.MustCaller(local.Project(), name, runtime.RoleUser)
		s, err := b.StartRun(t.Context(), who, runtime.StartRequest{Agent: "echo", Messages: user("x")})
		if err != nil {
			t.Fatal(err)
		}
		for run, err := b.Run(t.Context(), who, s.RunID); run.Status != runtime.Completed; run, err = b.Run(t.Context(), who, s.RunID) {
			if err != nil {
				t.Fatal(err)
			}
			<-tick()
		}
	}
	for _, test := range []struct {
		who  runtime.Caller
		want map[string]int
	}{
		{runtime.MustCaller(local.Project(), "vic", runtime.RoleViewer), map[string]int{"ann": 2, "bob": 1}},
		{runtime.MustCaller(local.Project(), "ann", runtime.RoleUser), map[string]int{"ann": 2}},
		{runtime.MustCaller("elsewhere", "eve", runtime.RoleAdmin), map[string]int{}},
	} {
		list, err := b.ThreadsOfAll(t.Context(), test.who, runtime.ThreadFilter{})
		got := make(map[string]int)
		for i := range list.Rows {
			got[list.Rows[i].User]++
		}
		if !maps.Equal(got, test.want) || err != nil {
			t.Errorf("%v sees threads of %v, %v", test.who, got, err)
		}
		users, err := b.Users(t.Context(), test.who, runtime.UserFilter{})
		if test.who.Role() == runtime.RoleUser {
			if err == nil {
				t.Error("a user is told who else there is")
			}
			continue
		}
		clear(got)
		for _, u := range users.Rows {
			got[u.User] = u.Threads
		}
		if !maps.Equal(got, test.want) || err != nil {
			t.Errorf("%v sees the users %v, %v", test.who, got, err)
		}
	}
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
