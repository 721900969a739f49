package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// The audit has one entry with its author for every request that changes something, and none for other requests.
func TestAuditTellsWhoHasAsked(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := open(t, runtime.Config{Audit: true}, agent{"asks", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		_, err := run.Ask(ctx, agui.Interrupt{Message: "sure?"})
		return agui.WorkerOutput{}, err
	}})
	from := runtime.Origin{Credential: "key", Address: "192.0.2.7", Request: "request"}
	admin := runtime.MustCaller(local.Project(), "root", runtime.RoleAdmin).From(from)
	start := func(run string) runtime.Started {
		t.Helper()
		s, err := b.StartRun(ctx, local.From(from), runtime.StartRequest{
			Agent: "asks", ThreadID: "main", RunID: run, BodyHash: run,
		})
		must(t, err)
		return s
	}
	s := start("first")
	b.wait(s.RunID, runtime.Waiting)
	start("first") // the run exists already
	if _, err := b.Cancel(ctx, admin, s.RunID); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Cancel(ctx, admin, s.RunID); err != nil { // the cancellation changes nothing
		t.Fatal(err)
	}
	if _, err := b.Append(ctx, local, s.RunID, runtime.AppendRequest{Content: "refused"}); err == nil {
		t.Error("a cancelled run takes a message")
	}
	must(t, b.Delete(ctx, admin, s.RunID))
	second := start("second")
	b.wait(second.RunID, runtime.Waiting)
	must(t, b.DeleteThread(ctx, local.From(from), "main"))
	const place = "of local: main key192.0.2.7request"
	want := []string{
		"local start first " + place, "root cancel first " + place, "root delete first " + place, "local start second " + place,
		"local cancel second " + place, "local delete  " + place,
	}
	if diff := cmp.Diff(want, b.audited(admin)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := b.AuditOf(ctx, runtime.MustCaller(local.Project(), "ann", runtime.RoleOperator), runtime.AuditFilter{}); err == nil {
		t.Error("an operator reads the audit")
	}
}

// audited returns the audit's entries, oldest first.
func (b *bench) audited(admin runtime.Caller) (all []string) {
	b.t.Helper()
	page, err := b.AuditOf(b.t.Context(), admin, runtime.AuditFilter{Limit: 100})
	must(b.t, err)
	for _, a := range slices.Backward(page.Rows) {
		all = append(all, fmt.Sprintf("%s %s %s of %s: %s %s", a.Actor, a.Action, a.RunID, a.User, a.ThreadID, a.Credential+a.Address+a.Request))
	}
	return all
}

// Changes to a user's data have an entry with the acting user, and a repeated request adds none.
func TestAuditTellsOfEachAction(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := open(t, runtime.Config{Audit: true}, agent{"asks", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		_, err := run.Ask(ctx, agui.Interrupt{Message: "sure?"})
		return agui.WorkerOutput{}, err
	}})
	as := func(user string, role runtime.Role) runtime.Caller {
		return runtime.MustCaller(local.Project(), user, role).From(runtime.Origin{Credential: user + "'s key", Address: "192.0.2.7", Request: "request"})
	}
	owner, operator, admin := as("local", runtime.RoleUser), as("olga", runtime.RoleOperator), as("root", runtime.RoleAdmin)
	instead, err := operator.InSteadOf("local", runtime.RoleOperator)
	must(t, err)
	answers := func(run string) []agui.ResumeEntry {
		t.Helper()
		b.wait(run, runtime.Waiting)
		asked, err := b.Runs.Interrupts(ctx, owner, run)
		if err != nil || len(asked) == 0 {
			t.Fatalf("%d questions, %v", len(asked), err)
		}
		return []agui.ResumeEntry{{InterruptID: asked[len(asked)-1].ID, Status: "resolved"}}
	}
	start := func(who runtime.Caller, req runtime.StartRequest) runtime.Started {
		t.Helper()
		req.Agent, req.ThreadID = "asks", "main"
		s, err := b.StartRun(ctx, who, req)
		must(t, err)
		return s
	}
	first := start(owner, runtime.StartRequest{RunID: "first"})
	entries := answers("first")
	key := func(scope string) *runtime.Idempotency { return &runtime.Idempotency{Scope: scope, BodyHash: "x"} }
	title, archived := "new", true
	for range 2 { // the second request changes nothing
		if _, err := b.ResumeOnce(ctx, operator, "first", entries, key("answer")); err != nil {
			t.Fatal(err)
		}
	}
	b.wait("first", runtime.Completed)
	for range 2 {
		if _, err := b.Append(ctx, operator, "first", runtime.AppendRequest{Content: "again", Idempotency: key("append")}); err != nil {
			t.Fatal(err)
		}
	}
	start(owner, runtime.StartRequest{RunID: "more", Resume: answers("first")})
	b.wait("first", runtime.Completed)
	if _, err := b.UpdateThread(ctx, operator, first.ConversationID, runtime.ThreadPatch{Title: &title}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.UpdateThread(ctx, owner, "main", runtime.ThreadPatch{Archived: &archived}); err != nil {
		t.Fatal(err)
	}
	start(instead, runtime.StartRequest{RunID: "second"})
	b.wait("second", runtime.Waiting)
	third := start(owner, runtime.StartRequest{RunID: "third", Multitask: runtime.InterruptRuns})
	b.wait("third", runtime.Waiting)
	must(t, b.CancelTurn(ctx, owner, third, true))
	must(t, b.DeleteUser(ctx, admin, "local"))
	const ofLocal = " of local: main "
	var want []string
	for _, a := range []struct{ actor, did string }{
		{"local", "start first"},
		{"olga", "answer first"},
		{"olga", "append first"},
		{"local", "answer first"},
		{"olga", "update "},
		{"local", "update "},
		{"olga", "start second"},
		{"local", "start third"},
		{"local", "cancel second"},
		{"local", "cancel third"},
		{"root", "delete "},
	} {
		want = append(want, a.actor+" "+a.did+ofLocal+a.actor+"'s key192.0.2.7request")
	}
	if diff := cmp.Diff(want, b.audited(admin)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Deleting a user removes all data of that user, also running runs, and no data of other users.
func TestDeleteUserLeavesNothingOfIt(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	gate := make(chan struct{})
	defer close(gate)
	b := open(t, runtime.Config{}, gated(gate), answering("echo", func(q string) string { return q }))
	ann := runtime.MustCaller(local.Project(), "ann", runtime.RoleUser)
	elsewhere := runtime.MustCaller("elsewhere", "ann", runtime.RoleUser)
	start := func(who runtime.Caller, thread, agent string, key *runtime.Idempotency) runtime.Started {
		t.Helper()
		s, err := b.StartRun(ctx, who, runtime.StartRequest{Agent: agent, ThreadID: thread, Idempotency: key})
		must(t, err)
		return s
	}
	key := &runtime.Idempotency{Scope: "ann's", BodyHash: "x"}
	first := start(ann, "at work", "gated", key)
	for i := range 150 {
		start(ann, fmt.Sprint("thread ", i), "echo", nil)
	}
	start(local, "main", "echo", nil)
	start(elsewhere, "main", "echo", nil)

	for _, who := range []runtime.Caller{local, elsewhere, runtime.MustCaller(local.Project(), "op", runtime.RoleOperator), {}} {
		if err := b.DeleteUser(ctx, who, "ann"); who != elsewhere && err == nil {
			t.Errorf("%s deletes what is ann's", who.User())
		}
	}
	start(elsewhere, "main", "echo", nil)
	must(t, b.DeleteUser(ctx, ann, "ann"))
	for who, want := range map[runtime.Caller]int{ann: 0, local: 1, elsewhere: 1} {
		if list, err := b.Threads.List(ctx, who, runtime.ThreadFilter{Count: true}); list.Total != want || err != nil {
			t.Errorf("%s of %s has %d threads, want %d, %v", who.User(), who.Project(), list.Total, want, err)
		}
	}
	if list, err := b.Runs.List(ctx, ann, runtime.RunFilter{Count: true}); list.Total != 0 || err != nil {
		t.Errorf("%d runs are left, %v", list.Total, err)
	}
	if again := start(ann, "at work", "gated", key); again.Replayed || again.RunID == first.RunID {
		t.Errorf("the answer of a deleted run is remembered: %+v", again)
	}
}

// A user who goes on starting runs does not keep the deletion from ending.
func TestDeleteUser_EndsBesideNewThreads(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, hello)
	b.wait(b.start("before", "hello", "x").RunID, runtime.Completed)
	ctx, stop := context.WithCancel(t.Context())
	var starting sync.WaitGroup
	for range 2 {
		starting.Go(func() {
			for ctx.Err() == nil {
				_, err := b.StartRun(ctx, local, runtime.StartRequest{Agent: "hello", Messages: user("x")})
				if refusal, ok := errors.AsType[*runtime.Error](err); err != nil && ctx.Err() == nil && (!ok || refusal.Code != "queue_full") {
					t.Error(err)
				}
			}
		})
	}
	err := b.DeleteUser(t.Context(), local, local.User())
	stop()
	starting.Wait()
	if err != nil {
		t.Error(err)
	}
	if _, err := b.Threads.Get(t.Context(), local, "before"); !errors.Is(err, runtime.ErrThreadNotFound) {
		t.Errorf("the thread of before: %v", err)
	}
}
