package runtime_test

import (
	"context"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// appended appends a message to a run.
func (b *bench) appended(run, content string) {
	b.t.Helper()
	if _, err := b.Append(context.Background(), local, run, runtime.AppendRequest{Content: content}); err != nil {
		b.t.Fatal(err)
	}
}

// replace starts a run that replaces the thread's runs.
func (b *bench) replace(thread string, how runtime.Multitask) runtime.Started {
	b.t.Helper()
	s, err := b.StartRun(context.Background(), local, runtime.StartRequest{
		Agent: "hello", ThreadID: thread, Messages: user("instead"), Multitask: how,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func TestRollbackOfARunThatNeverStartedKeepsTheState(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	stateful := agent{"stateful", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{}, run.State(map[string]any{"kept": 1})
	}}
	b := open(t, runtime.Config{Limits: runtime.Limits{RunsPerAgent: 1}}, stateful, gated(gate), hello)
	b.wait(b.start("main", "stateful", "x").RunID, runtime.Completed)
	busy := b.start("other", "gated", "x") // takes the only slot
	never := b.start("main", "gated", "x")
	if never.Status != runtime.Queued {
		t.Fatalf("the run is %s", never.Status)
	}
	s := b.replace("main", runtime.RollbackRuns)
	b.wait(s.RunID, runtime.Completed)
	b.wait(never.RunID, runtime.Cancelled)
	th, err := b.Thread(context.Background(), local, "main")
	if err != nil {
		t.Fatal(err)
	}
	if string(th.State) != `{"kept":1}` {
		t.Errorf("state %s", th.State)
	}
	close(gate)
	b.wait(busy.RunID, runtime.Completed)
	checkLog(t, b.log("main"))
}

// An accepted request replaces the runs that it names, also if the server crashes right after it.
func TestReplacementSurvivesACrash(t *testing.T) {
	t.Parallel()
	for _, how := range []runtime.Multitask{runtime.InterruptRuns, runtime.RollbackRuns} {
		entered := make(chan struct{}, 2)
		slow := agent{"slow", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			if err := run.State(map[string]any{"slow": 1}); err != nil {
				return agui.WorkerOutput{}, err
			}
			if err := say(run, "slowly"); err != nil {
				return agui.WorkerOutput{}, err
			}
			entered <- struct{}{}
			return agui.WorkerOutput{}, hang(ctx)
		}}
		b := open(t, runtime.Config{}, slow, hello)
		m := &mortal{Store: b.store}
		m.left.Store(1 << 40)
		b.injectStore(m)
		s := b.start("main", "slow", "x")
		<-entered
		b.stored("main", 5)
		m.left.Store(1) // fail at the request, and not at the cancellation
		_, err := b.StartRun(context.Background(), local, runtime.StartRequest{
			Agent: "hello", ThreadID: "main", RunID: "instead", Messages: user("instead"), Multitask: how,
		})
		_ = err // the request may fail because the server is gone
		<-b.Fenced()
		b.crash()
		b.wait(s.RunID, runtime.Cancelled)
		b.wait("instead", runtime.Completed)
		checkLog(t, b.log("main"))
		th, err := b.Thread(context.Background(), local, "main")
		if err != nil {
			t.Fatal(err)
		}
		want := map[runtime.Multitask]string{runtime.InterruptRuns: `{"slow":1}`, runtime.RollbackRuns: `{}`}[how]
		if string(th.State) != want {
			t.Errorf("%s: state %s, want %s", how, th.State, want)
		}
	}
}

// stored waits until the thread's log has that many events.
func (b *bench) stored(thread string, n int64) {
	b.t.Helper()
	th, err := b.Thread(context.Background(), local, thread)
	if err != nil {
		b.t.Fatal(err)
	}
	for last := int64(0); last < n; {
		<-tick()
		if last, err = b.store.LastEventID(context.Background(), th.Key); err != nil {
			b.t.Fatal(err)
		}
	}
}

func TestQueuedRunsOfAThreadAreCapped(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	b := open(t, runtime.Config{QueuePerThread: 3}, gated(gate), hello)
	b.start("main", "gated", "x")
	for range 3 {
		b.start("main", "hello", "x")
	}
	_, err := b.StartRun(context.Background(), local, runtime.StartRequest{Agent: "hello", ThreadID: "main", Messages: user("x")})
	if code(err) != "queue_full" {
		t.Errorf("got %v", err)
	}
	b.wait(b.start("other", "hello", "x").RunID, runtime.Completed)
	close(gate)
	b.log("main")
}
