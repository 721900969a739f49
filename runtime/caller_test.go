package runtime_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime"
)

func TestNobodySeesAndDoesNothing(t *testing.T) {
	ctx := context.Background()
	b := open(t, runtime.Config{}, answering("echo", strings.ToUpper))
	s := b.start("main", "echo", "x")
	b.wait(s.RunID, runtime.Completed)
	var nobody runtime.Caller
	for name, ask := range map[string]func() error{
		"run":         func() error { _, err := b.Run(ctx, nobody, s.RunID); return err },
		"runs":        func() error { _, err := b.Runs(ctx, nobody, runtime.RunFilter{}); return err },
		"questions":   func() error { _, err := b.Questions(ctx, nobody, runtime.QuestionFilter{}); return err },
		"statistics":  func() error { _, err := b.Statistics(ctx, nobody, runtime.LastHour); return err },
		"steps":       func() error { _, err := b.Steps(ctx, nobody, s.RunID, 0, 10); return err },
		"nodes":       func() error { _, err := b.Nodes(ctx, nobody, s.RunID); return err },
		"messages":    func() error { _, err := b.Messages(ctx, nobody, s.RunID, 0, 10); return err },
		"interrupts":  func() error { _, err := b.Interrupts(ctx, nobody, s.RunID); return err },
		"thread":      func() error { _, err := b.Thread(ctx, nobody, s.ConversationID); return err },
		"all threads": func() error { _, err := b.ThreadsOfAll(ctx, nobody, runtime.ThreadFilter{}); return err },
		"users":       func() error { _, err := b.Users(ctx, nobody, runtime.UserFilter{}); return err },
		"workflow":    func() error { _, err := b.Workflow(ctx, nobody, "run"); return err },
		"threads":     func() error { _, err := b.Threads(ctx, nobody, runtime.ThreadFilter{}); return err },
		"history":     func() error { _, err := b.History(ctx, nobody, "", nil); return err },
		"start":       func() error { _, err := b.StartRun(ctx, nobody, runtime.StartRequest{Agent: "echo"}); return err },
		"append": func() error {
			_, err := b.Append(ctx, nobody, s.RunID, runtime.AppendRequest{Content: "x"})
			return err
		},
		"cancel": func() error { _, err := b.Cancel(ctx, nobody, s.RunID); return err },
		"delete": func() error { return b.Delete(ctx, nobody, s.RunID) },
		"rename": func() error {
			_, err := b.UpdateThread(ctx, nobody, s.ConversationID, runtime.ThreadPatch{})
			return err
		},
		"delete a thread": func() error { return b.DeleteThread(ctx, nobody, s.ConversationID) },
	} {
		if err := ask(); !errors.Is(err, runtime.ErrNobody) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRolesAreThoseOfTheList(t *testing.T) {
	for name, want := range map[string]runtime.Role{
		"user": runtime.RoleUser, "viewer": runtime.RoleViewer, "operator": runtime.RoleOperator, "admin": runtime.RoleAdmin,
		"": 0, "Admin": 0, "none": 0, "root": 0, "adminn": 0,
	} {
		if got, err := runtime.ParseRole(name); got != want || (err == nil) != (want != 0) {
			t.Errorf("%q: %v, %v", name, got, err)
		}
	}
	for role := range runtime.Role(10) {
		known := role >= runtime.RoleUser && role <= runtime.RoleAdmin
		if _, err := runtime.NewCaller("p", "u", role); (err == nil) != known {
			t.Errorf("%d: %v", role, err)
		}
		if known == (role.String() == "none") {
			t.Errorf("%d is called %v", role, role)
		}
	}
}
