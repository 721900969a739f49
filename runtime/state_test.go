package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

func codeOf(err error) string {
	if e, ok := errors.AsType[*plugins.Error](err); ok {
		return e.Code
	}
	return ""
}

// A patch that copies can enlarge the state as much as one that adds: a thread's state stays within its limit, so
// that its thread can be rewound.
func TestStateThatCopiesIsBound(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 3<<20)
	errs := make(chan error, 1)
	b := open(t, runtime.Config{},
		agent{"copier", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			if err := run.Emit(agui.StateDelta{Delta: json.RawMessage(`[{"op":"add","path":"/a","value":"` + text + `"}]`)}); err != nil {
				return agui.WorkerOutput{}, err
			}
			errs <- run.Emit(agui.StateDelta{Delta: json.RawMessage(`[{"op":"copy","from":"/a","path":"/b"},{"op":"copy","from":"/a","path":"/c"}]`)})
			return agui.WorkerOutput{}, nil
		}},
		agent{"quiet", func(context.Context, *plugins.Run) (agui.WorkerOutput, error) { return agui.WorkerOutput{}, nil }})
	start := func(agent, id, rewind string) runtime.Run {
		s := b.request(runtime.StartRequest{
			Agent: agent, ThreadID: "main", RewindTo: rewind, Messages: []agui.Message{{ID: id, Role: agui.RoleUser, Content: "x"}},
		})
		return b.wait(s.RunID, runtime.Completed, runtime.Failed)
	}
	start("copier", "u1", "")
	if err := <-errs; codeOf(err) != "state_too_large" {
		t.Errorf("a state of 4 MiB at most was made one of 9: %v", err)
	}
	th, err := b.Thread(t.Context(), local, "main")
	if err != nil || len(th.State) > 4<<20 {
		t.Errorf("the thread's state has %d bytes, %v", len(th.State), err)
	}
	if run := start("quiet", "u2", "u1"); run.Status != runtime.Completed {
		t.Errorf("a run that rewinds the thread is %s: %+v", run.Status, run.Error)
	}
}
