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
