package decide_test

import (
	"errors"
	"testing"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
)

// A command about a thread of another project changes nothing, whatever key it has.
func TestCommand_StaysInItsProject(t *testing.T) {
	for name, of := range map[string]func(project string) decide.Command{
		"append": func(p string) decide.Command {
			return &decide.Append{Thread: 1, Run: 2, Project: p, Limits: decide.Limits{InboxBytes: 100}}
		},
		"resume": func(p string) decide.Command {
			return &decide.Resume{Thread: 1, Run: 3, Project: p, Replies: []decide.Reply{{Interrupt: "i", Output: []byte("{}")}}}
		},
		"cancel":          func(p string) decide.Command { return &decide.Cancel{Thread: 1, Run: 4, Project: p} },
		"event":           func(p string) decide.Command { return &decide.SendEvent{Thread: 1, Run: 4, Project: p, Name: "a"} },
		"rename":          func(p string) decide.Command { return &decide.Patch{Thread: 1, Project: p, Title: new("x")} },
		"delete a run":    func(p string) decide.Command { return &decide.Delete{Thread: 1, Run: 2, Project: p} },
		"delete a thread": func(p string) decide.Command { return &decide.Delete{Thread: 1, Project: p, Limit: 1} },
	} {
		for project, there := range map[string]bool{"p1": true, "p2": false} {
			v := &data.View{
				Exists: true, Thread: data.ThreadHead{Key: 1, Project: "p1"},
				Runs:  []data.RunHead{{Key: 2, ThreadKey: 1, Project: "p1", Status: data.Completed}},
				Asked: []data.Asked{{RunKey: 3, ID: "i", Status: data.InterruptOpen}},
			}
			if name == "resume" {
				v.Runs = append(v.Runs, data.RunHead{Key: 3, ThreadKey: 1, Project: "p1", Status: data.Waiting})
			}
			if name == "cancel" || name == "event" {
				v.Runs = append(v.Runs, data.RunHead{Key: 4, ThreadKey: 1, Project: "p1", Status: data.Queued})
			}
			out := decide.Decide(v, of(project))
			if there != (out.Refused == nil) || there != (len(out.Rows) > 0) || !there && !errors.Is(out.Refused, decide.ErrThreadNotFound) {
				t.Errorf("%s in %s: %d rows, %v", name, project, len(out.Rows), out.Refused)
			}
		}
	}
}
