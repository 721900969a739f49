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

// Only the result of a patch counts: if the state is within its limit before and after, the patch is accepted.
func TestStateThatShrinksIsTaken(t *testing.T) {
	t.Parallel()
	half := strings.Repeat("x", 5<<19)
	errs := make(chan error, 3)
	b := open(t, runtime.Config{}, agent{"patcher", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		errs <- run.State(json.RawMessage(`{"doc":"` + half + `"}`))
		errs <- run.State(json.RawMessage(`{"doc":"y` + half[1:] + `"}`)) // as large as before: 2.5 of 4 MiB
		full, _ := json.Marshal(map[string]string{"doc": strings.Repeat("x", 4<<20-20), "k": ""})
		if err := run.Emit(agui.StateSnapshot{Snapshot: full}); err != nil {
			return agui.WorkerOutput{}, err
		}
		errs <- run.State(json.RawMessage(`{"doc":null}`)) // leaves an empty state
		return agui.WorkerOutput{}, nil
	}})
	b.wait(b.start("main", "patcher", "x").RunID, runtime.Completed, runtime.Failed)
	for i, what := range []string{"a document", "another as large in its place", "the removal of all"} {
		if err := <-errs; err != nil {
			t.Errorf("%d: %s is refused: %v", i, what, err)
		}
	}
}

// An operator may lower the limit: a thread's state above it can be reduced step by step.
func TestStateAboveALoweredLimitShrinks(t *testing.T) {
	t.Parallel()
	large := json.RawMessage(`{"x":"` + strings.Repeat("x", 4000) + `"}`)
	errs := make(chan error, 3)
	b := open(t, runtime.Config{}, agent{"first", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{}, run.Emit(agui.StateSnapshot{Snapshot: large})
	}}, agent{"then", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		for _, n := range []int{4000, 3000, 3500} {
			errs <- run.Emit(agui.StateSnapshot{Snapshot: json.RawMessage(`{"x":"` + strings.Repeat("y", n) + `"}`)})
		}
		return agui.WorkerOutput{}, nil
	}})
	b.wait(b.start("main", "first", "x").RunID, runtime.Completed)
	b.cfg.StateBytes = 1000
	b.down()
	b.up()
	b.wait(b.start("main", "then", "x").RunID, runtime.Completed)
	for i, want := range []string{"state_too_large", "", "state_too_large"} {
		if err := <-errs; codeOf(err) != want {
			t.Errorf("snapshot %d: %v, want %q", i+1, err, want)
		}
	}
}

// A patch re-encodes the names of the object it changes, which may take more bytes: the limit applies to the result.
func TestStateWhoseNamesGrowIsBound(t *testing.T) {
	t.Parallel()
	const most = 64 << 10
	errs := make(chan error, 2)
	b := open(t, runtime.Config{Limits: runtime.Limits{StateBytes: most}}, agent{"namer", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		errs <- run.Emit(agui.StateSnapshot{Snapshot: json.RawMessage(`{"` + strings.Repeat(`\b`, 20<<10) + `":1}`)})
		errs <- run.Emit(agui.StateDelta{Delta: json.RawMessage(`[{"op":"add","path":"/a","value":1}]`)})
		return agui.WorkerOutput{}, nil
	}})
	b.wait(b.start("main", "namer", "x").RunID, runtime.Completed)
	if err := <-errs; err != nil {
		t.Fatalf("40 of 64 KiB: %v", err)
	}
	if err := <-errs; codeOf(err) != "state_too_large" {
		t.Errorf("a patch that makes them 120 KiB: %v", err)
	}
	th, err := b.Thread(t.Context(), local, "main")
	if err != nil || len(th.State) > most {
		t.Errorf("the thread's state has %d bytes of %d, %v", len(th.State), most, err)
	}
}
