package runtime_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// What changes something is in the audit with who has asked for it, once, and nothing else is.
func TestAuditTellsWhoHasAsked(t *testing.T) {
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
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := start("first")
	b.wait(s.RunID, runtime.Waiting)
	start("first") // is there already
	if _, err := b.Cancel(ctx, admin, s.RunID); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Cancel(ctx, admin, s.RunID); err != nil { // which changes nothing
		t.Fatal(err)
	}
	if _, err := b.Append(ctx, local, s.RunID, runtime.AppendRequest{Content: "refused"}); err == nil {
		t.Error("a cancelled run takes a message")
	}
	if err := b.Delete(ctx, admin, s.RunID); err != nil {
		t.Fatal(err)
	}
	second := start("second")
	b.wait(second.RunID, runtime.Waiting)
	if err := b.DeleteThread(ctx, local.From(from), "main"); err != nil {
		t.Fatal(err)
	}
	page, err := b.AuditOf(ctx, admin, runtime.AuditFilter{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range slices.Backward(page.Rows) {
		got = append(got, fmt.Sprintf("%s %s %s of %s: %s %s", a.Actor, a.Action, a.RunID, a.User, a.ThreadID, a.Credential+a.Address+a.Request))
	}
	const place = "of local: main key192.0.2.7request"
	want := []string{
		"local start first " + place, "root cancel first " + place, "root delete first " + place, "local start second " + place,
		"local cancel second " + place, "local delete  " + place,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := b.AuditOf(ctx, runtime.MustCaller(local.Project(), "ann", runtime.RoleOperator), runtime.AuditFilter{}); err == nil {
		t.Error("an operator reads the audit")
	}
}

// All of a user's data goes, also what is at work, and nobody else's.
func TestDeleteUserLeavesNothingOfIt(t *testing.T) {
	ctx := t.Context()
	gate := make(chan struct{})
	defer close(gate)
	b := open(t, runtime.Config{}, gated(gate), answering("echo", func(q string) string { return q }))
	ann := runtime.MustCaller(local.Project(), "ann", runtime.RoleUser)
	elsewhere := runtime.MustCaller("elsewhere", "ann", runtime.RoleUser)
	start := func(who runtime.Caller, thread, agent string, key *runtime.Idempotency) runtime.Started {
		t.Helper()
		s, err := b.StartRun(ctx, who, runtime.StartRequest{Agent: agent, ThreadID: thread, Idempotency: key})
		if err != nil {
			t.Fatal(err)
		}
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
	if err := b.DeleteUser(ctx, ann, "ann"); err != nil {
		t.Fatal(err)
	}
	for who, want := range map[runtime.Caller]int{ann: 0, local: 1, elsewhere: 1} {
		if list, err := b.Threads(ctx, who, runtime.ThreadFilter{}); list.Total != want || err != nil {
			t.Errorf("%s of %s has %d threads, want %d, %v", who.User(), who.Project(), list.Total, want, err)
		}
	}
	if list, err := b.Runs(ctx, ann, runtime.RunFilter{}); list.Total != 0 || err != nil {
		t.Errorf("%d runs are left, %v", list.Total, err)
	}
	if again := start(ann, "at work", "gated", key); again.Replayed || again.RunID == first.RunID {
		t.Errorf("the answer of a deleted run is remembered: %+v", again)
	}
}
