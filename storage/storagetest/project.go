package storagetest

import (
	"errors"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/data"
)

// testForeignKeys reads rows by key in their own project and in another.
func testForeignKeys(t *testing.T, f *fixture) {
	ctx := t.Context()
	thread := f.newThread(t, "ann", "main")
	run := f.newRun(t, thread, "run", data.Completed)
	day := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	said := message(run, "m", 1, data.MessageConsumed)
	said.Day = day
	f.put(t, said,
		&data.Step{RunKey: run.Key, Number: 1, Status: data.Completed, StartedAt: at(1)},
		&data.Node{RunKey: run.Key, NodeID: "node", Status: data.Completed})
	for project, want := range map[string]int{thread.Project: 1, "elsewhere": 0, "": 0} {
		count := func(what string, n int, err error) {
			t.Helper()
			if n != want || err != nil {
				t.Errorf("%s in %q: %d, %v", what, project, n, err)
			}
		}
		steps, total, err := Parts(f.ByProject().Steps(ctx, project, run.Key, "", 0, 10))
		count("steps", len(steps), err)
		count("all steps", total, err)
		nodes, err := f.ByProject().NodeStates(ctx, project, run.Key)
		count("nodes", len(nodes), err)
		messages, total, err := Parts(f.ByProject().RunMessages(ctx, project, run.Key, 0, 10))
		count("messages", len(messages), err)
		count("all messages", total, err)
		messages, err = rowsOf(f.ByProject().MessagesBefore(ctx, project, thread.Key, 0, true, 10))
		count("messages of the thread", len(messages), err)
		messages, err = rowsOf(f.ByProject().History(ctx, project, thread.Key, day, 0, 10))
		count("a day", len(messages), err)
		for what, err := range map[string]error{
			"the latest day": second(f.ByProject().HistoryDay(ctx, project, thread.Key, day.AddDate(0, 0, 1))),
			"the thread":     second(f.ByProject().ListedThread(ctx, project, thread.Key)),
		} {
			if want == 1 && err != nil || want == 0 && !errors.Is(err, data.ErrNotFound) {
				t.Errorf("%s in %q: %v", what, project, err)
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }
