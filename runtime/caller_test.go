package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/attach"
)

// unread is a file that fails the test when it is read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("a file of nobody is read")
	return 0, io.EOF
}

// Every method that takes a Caller refuses the zero Caller.
func TestNobodySeesAndDoesNothing(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	var nobody runtime.Caller
	files := attach.New(attach.Config{}) // stores nothing, and panics when it should
	b := open(t, runtime.Config{Attachments: files}, answering("echo", strings.ToUpper))
	monitor, watch := b.Monitor(nobody, runtime.MonitorQuery{}), b.Watch(nobody)
	defer monitor.Close()
	defer watch.Close()
	s := b.start("main", "echo", "x")
	b.wait(s.RunID, runtime.Completed)
	left, leave := context.WithCancelCause(ctx)
	leave(runtime.ErrNobody) // a reader without access receives this error
	cases := map[string]func() error{
		"Run":        func() error { _, err := b.Run(ctx, nobody, s.RunID); return err },
		"Runs":       func() error { _, err := b.Runs(ctx, nobody, runtime.RunFilter{}); return err },
		"Questions":  func() error { _, err := b.Questions(ctx, nobody, runtime.QuestionFilter{}); return err },
		"Statistics": func() error { _, err := b.Statistics(ctx, nobody, runtime.LastHour); return err },
		"Standing":   func() error { _, err := b.Standing(ctx, nobody); return err },
		"Servers":    func() error { _, err := b.Servers(nobody); return err },
		"Budgets":    func() error { _, err := b.Budgets(nobody); return err },
		"Usage":      func() error { _, err := b.Usage(ctx, nobody, runtime.UsageFilter{}); return err },
		"ModelCalls": func() error { _, err := b.ModelCalls(ctx, nobody, s.RunID, "", 10); return err },
		"ModelCall":  func() error { _, _, _, err := b.ModelCall(ctx, nobody, s.RunID, s.RunID); return err },
		"OpenResult": func() error { _, _, err := b.OpenResult(ctx, nobody, s.RunID, "call"); return err },
		"Rerun": func() error {
			if _, err := b.Rerun(ctx, nobody, local, s.RunID, runtime.RerunRequest{}); !errors.Is(err, runtime.ErrNobody) {
				return fmt.Errorf("for what a caller may read: %w", err)
			}
			_, err := b.Rerun(ctx, local, nobody, s.RunID, runtime.RerunRequest{})
			return err
		},
		"Views":      func() error { _, err := b.Views(ctx, nobody); return err },
		"PutViews":   func() error { return b.PutViews(ctx, nobody, nil) },
		"Steps":      func() error { _, err := b.Steps(ctx, nobody, s.RunID, 0, 10); return err },
		"Nodes":      func() error { _, err := b.Nodes(ctx, nobody, s.RunID); return err },
		"Messages":   func() error { _, err := b.Messages(ctx, nobody, s.RunID, 0, 10); return err },
		"Interrupts": func() error { _, err := b.Interrupts(ctx, nobody, s.RunID); return err },
		"InterruptsOf": func() error {
			run, err := b.Run(ctx, local, s.RunID)
			if err != nil {
				return err
			}
			_, err = b.InterruptsOf(ctx, nobody, &run)
			return err
		},
		"Thread": func() error { _, err := b.Thread(ctx, nobody, s.ConversationID); return err },
		"ThreadAsListed": func() error {
			_, err := b.ThreadAsListed(ctx, nobody, s.ConversationID)
			return err
		},
		"ThreadsOfAll": func() error { _, err := b.ThreadsOfAll(ctx, nobody, runtime.ThreadFilter{}); return err },
		"Users":        func() error { _, err := b.Users(ctx, nobody, runtime.UserFilter{}); return err },
		"Workflow":     func() error { _, err := b.Workflow(ctx, nobody, "run"); return err },
		"Threads":      func() error { _, err := b.Threads(ctx, nobody, runtime.ThreadFilter{}); return err },
		"History":      func() error { _, err := b.History(ctx, nobody, "", nil); return err },
		"AuditOf":      func() error { _, err := b.AuditOf(ctx, nobody, runtime.AuditFilter{}); return err },
		"StartRun":     func() error { _, err := b.StartRun(ctx, nobody, runtime.StartRequest{Agent: "echo"}); return err },
		"Append": func() error {
			_, err := b.Append(ctx, nobody, s.RunID, runtime.AppendRequest{Content: "x"})
			return err
		},
		"Resume":           func() error { _, err := b.Resume(ctx, nobody, s.RunID, nil); return err },
		"ResumeOnce":       func() error { _, err := b.ResumeOnce(ctx, nobody, s.RunID, nil, nil); return err },
		"Cancel":           func() error { _, err := b.Cancel(ctx, nobody, s.RunID); return err },
		"CancelTurn":       func() error { return b.CancelTurn(ctx, nobody, s) },
		"CancelUnanswered": func() error { return b.CancelUnanswered(ctx, nobody, s) },
		"Delete":           func() error { return b.Delete(ctx, nobody, s.RunID) },
		"UpdateThread": func() error {
			_, err := b.UpdateThread(ctx, nobody, s.ConversationID, runtime.ThreadPatch{})
			return err
		},
		"DeleteThread": func() error { return b.DeleteThread(ctx, nobody, s.ConversationID) },
		"DeleteUser":   func() error { return b.DeleteUser(ctx, nobody, local.User()) },
		"AddAttachment": func() error {
			_, err := b.AddAttachment(ctx, nobody, runtime.Upload{Filename: "a.txt", Body: unread{t}})
			return err
		},
		"AttachmentURL": func() error {
			_, err := b.AttachmentURL(ctx, nobody, "default", "agent-inputs/local/a.txt")
			return err
		},
		"Watch": func() error { return watch.Next(left) },
		"Monitor": func() error {
			if agents := monitor.Agents(); len(agents) > 0 {
				return fmt.Errorf("it is told of %v", agents)
			}
			_, err := monitor.Next(left)
			return err
		},
		"Offered": func() error {
			if agents := b.Offered(nobody).Agents(); len(agents) > 0 {
				return fmt.Errorf("it is offered %v", agents)
			}
			return runtime.ErrNobody
		},
	}
	for name, ask := range cases {
		if err := ask(); !errors.Is(err, runtime.ErrNobody) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for m := range reflect.TypeFor[*runtime.Runtime]().Methods() {
		for in := range m.Type.Ins() {
			if in == reflect.TypeFor[runtime.Caller]() && cases[m.Name] == nil {
				t.Errorf("%s is not asked by nobody", m.Name)
			}
		}
	}
}

func TestRolesAreThoseOfTheList(t *testing.T) {
	t.Parallel()
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
