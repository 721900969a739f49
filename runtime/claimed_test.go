package runtime_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// decided is a store that records the changes of decisions.
type decided struct {
	runtime.Store

	mu      sync.Mutex // guards the field below
	changes []data.Changes
}

func (d *decided) Commit(ctx context.Context, n int64, batch *data.Batch) error {
	kept := *batch
	kept.Decide = func(i int, v *data.View) data.Changes {
		ch := batch.Decide(i, v)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.changes = append(d.changes, ch)
		return ch
	}
	return d.Store.Commit(ctx, n, &kept)
}

// with returns the changes that hold a row of the type.
func with[R data.Row](d *decided) (list []data.Changes) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, ch := range d.changes {
		if slices.ContainsFunc(ch.Rows, func(row data.Row) bool { _, ok := row.(R); return ok }) {
			list = append(list, ch)
		}
	}
	return list
}

func kindsOf(events []data.StoredEvent) (kinds []agui.Type) {
	for i := range events {
		kinds = append(kinds, events[i].Kind)
	}
	return kinds
}

// One commit begins the run of an agent and its step, and another ends both. The thread's state is written only when a run has changed
// it.
func TestStepBeginsAndEndsWithItsRun(t *testing.T) {
	t.Parallel()
	quiet := agent{"quiet", func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{Answer: "yes"}, nil
	}}
	sets := agent{"sets", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{}, run.State(map[string]any{"asked": run.Input.Query})
	}}
	b := open(t, runtime.Config{}, quiet, sets)
	d := &decided{Store: b.store}
	b.injectStore(d)
	for i, name := range []string{"quiet", "sets", "sets", "quiet"} {
		s := b.start("main", name, "go")
		b.wait(s.RunID, runtime.Completed)
		claims := with[*data.Span](d)
		if len(claims) != i+1 {
			t.Fatalf("%d claims of %d runs", len(claims), i+1)
		}
		kinds := kindsOf(claims[i].Events)
		if want := []agui.Type{agui.TypeRunStarted, agui.TypeStepStarted}; !slices.Equal(kinds, want) {
			t.Errorf("the claim of run %d writes %v, want %v", i, kinds, want)
		}
		if steps := with[*data.Step](d); len(steps) != 2*(i+1) || len(steps[2*i].Events) != len(kinds) {
			t.Errorf("after run %d there are %d commands with steps, want its claim and its end", i, len(steps))
		} else if end := kindsOf(steps[2*i+1].Events); !slices.Equal(end[len(end)-2:], []agui.Type{agui.TypeStepFinished, agui.TypeRunFinished}) {
			t.Errorf("run %d ends with %v", i, end)
		}
		page, err := b.store.ByProject().Steps(t.Context(), local.Project(), s.RunKey, "", 0, 10)
		if steps := page.Rows; err != nil || len(steps) != 1 || steps[0].Input != "go" || steps[0].Status != runtime.Completed {
			t.Errorf("the steps of run %d: %+v, %v", i, page, err)
		}
	}
	if n := len(with[*data.ThreadState](d)); n != 1 {
		t.Errorf("the state was written %d times, want once", n)
	}
	th, err := b.store.ByProject().ThreadByID(t.Context(), "default", "local", "main")
	if err != nil || string(th.State) != `{"asked":"go"}` {
		t.Errorf("the state is %s, %v", th.State, err)
	}
}
