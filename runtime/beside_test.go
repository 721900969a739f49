package runtime_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// Two runtimes on one PostgreSQL: what a client of one must see of the runs of the other.

// dictated writes the words that it gets, until it is cancelled or words is closed.
type dictated struct{ words chan string }

func (k dictated) agent() agent {
	return agent{"dictated", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		text := run.Text()
		for {
			select {
			case word, more := <-k.words:
				if !more {
					return agui.WorkerOutput{Status: agui.StatusSuccess, Answer: "said"}, text.Close()
				}
				if _, err := io.WriteString(text, word); err != nil {
					return agui.WorkerOutput{}, err
				}
			case <-ctx.Done():
				return agui.WorkerOutput{}, context.Cause(ctx)
			}
		}
	}}
}

// contents returns the texts of the thread's messages.
func (b *bench) contents(thread string) (all []string) {
	b.t.Helper()
	for _, m := range b.snapshot(thread).Messages {
		all = append(all, m.Content)
	}
	return all
}

func (b *bench) snapshot(thread string) runtime.Snapshot {
	b.t.Helper()
	th, err := b.Thread(b.t.Context(), local, thread)
	if err != nil {
		b.t.Fatal(err)
	}
	s, err := b.Snapshot(b.t.Context(), th)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func TestBeside_CancelsARunOfAnother(t *testing.T) {
	k := dictated{make(chan string)}
	x, y := servers(t, runtime.Config{Audit: true}, k.agent())
	s := x.start("main", "dictated", "go")
	k.words <- "one "
	got, err := y.Cancel(t.Context(), local, s.RunID)
	if err != nil || got.Status != runtime.Cancelled {
		t.Fatalf("%s, %v", got.Status, err)
	}
	for _, b := range []*bench{x, y} {
		recs := b.log("main")
		if last := recs[len(recs)-1]; !last.Terminal() || last.ID != got.ClosedEvent {
			t.Errorf("the log ends with %d, %s; the run with %d", last.ID, last.Event.Type(), got.ClosedEvent)
		}
		checkLog(t, recs)
	}
	if again, err := y.Cancel(t.Context(), local, s.RunID); err != nil || again.Status != runtime.Cancelled {
		t.Errorf("again: %s, %v", again.Status, err)
	}
	cancelled := slices.DeleteFunc(y.audited(runtime.MustCaller("default", "root", runtime.RoleAdmin)), func(entry string) bool { return !strings.Contains(entry, "cancel") })
	if len(cancelled) != 1 || !strings.Contains(cancelled[0], local.User()) {
		t.Errorf("audit %q", cancelled)
	}
}

// A run that restarts, rolls back or deletes needs the end of one that another server executes.
func TestBeside_EndsARunOfAnother(t *testing.T) {
	k := dictated{make(chan string)}
	x, y := servers(t, runtime.Config{}, k.agent())
	for _, how := range []runtime.Multitask{runtime.InterruptRuns, runtime.RollbackRuns} {
		thread := string(how)
		first := x.start(thread, "dictated", "first")
		k.words <- "one"
		next, err := y.StartRun(t.Context(), local, runtime.StartRequest{
			Agent: "dictated", ThreadID: thread, Multitask: how, Messages: []agui.Message{{Role: agui.RoleUser, Content: "second"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		y.wait(first.RunID, runtime.Cancelled)
		y.wait(next.RunID, runtime.Running)
		k.words <- "two"
		th, err := y.Thread(t.Context(), local, thread)
		if err != nil {
			t.Fatal(err)
		}
		if err := y.DeleteThread(t.Context(), local, thread); err != nil {
			t.Fatal(err)
		}
		for _, b := range []*bench{x, y} {
			if _, err := b.Thread(t.Context(), local, thread); !errors.Is(err, runtime.ErrThreadNotFound) {
				t.Errorf("%s: the thread is there: %v", how, err)
			}
			if cur, err := b.Read(t.Context(), th, 0, true); err == nil {
				recs, err := cur.Next(t.Context())
				if !errors.Is(err, io.EOF) {
					t.Errorf("%s: a viewer of the deleted thread gets %d events, %v", how, len(recs), err)
				}
				cur.Close()
			}
		}
	}
}

func TestBeside_DeletesTheDataOfAUser(t *testing.T) {
	k := dictated{make(chan string)}
	x, y := servers(t, runtime.Config{}, k.agent())
	x.start("a", "dictated", "go")
	y.start("b", "dictated", "go")
	if err := y.DeleteUser(t.Context(), local, local.User()); err != nil {
		t.Fatal(err)
	}
	if left, err := x.Threads(t.Context(), local, runtime.ThreadFilter{Limit: 10}); err != nil || len(left.Rows) > 0 {
		t.Errorf("%d threads are left, %v", len(left.Rows), err)
	}
}

// deaf does not hear what other servers ask.
type deaf struct {
	runtime.Store
	deaf atomic.Bool
}

func (d *deaf) CancelAsks(ctx context.Context, instance string) ([]data.CancelAsk, error) {
	if d.deaf.Load() {
		return nil, runtime.ErrUnavailable
	}
	return d.Store.CancelAsks(ctx, instance)
}

// A cancellation that the owner does not confirm is no success, and takes place once an owner is there.
func TestBeside_UnconfirmedCancelHasAnUnknownOutcome(t *testing.T) {
	k := dictated{make(chan string)}
	x, y := servers(t, runtime.Config{}, k.agent())
	d := &deaf{Store: x.store}
	x.injectStore(d)
	y.cfg.Patience = time.Second
	y.down()
	y.up()
	s := x.start("main", "dictated", "go")
	k.words <- "one "
	d.deaf.Store(true)
	_, err := y.Cancel(t.Context(), local, s.RunID)
	refusal, _ := errors.AsType[*runtime.Error](err)
	if refusal == nil || refusal.Code != "outcome_unknown" {
		t.Errorf("cancel: %v", err)
	}
	if run := y.wait(s.RunID, runtime.Running, runtime.Cancelled); run.Status != runtime.Running {
		t.Errorf("it is %s", run.Status)
	}
	d.deaf.Store(false)
	y.wait(s.RunID, runtime.Cancelled)
}

// The worker of a run gets at its next safe boundary what was appended on another server.
func TestBeside_AppendsToARunOfAnother(t *testing.T) {
	got := make(chan string, 1)
	listener := agent{"listener", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		for {
			msgs, err := run.Next(ctx)
			if err != nil {
				return agui.WorkerOutput{}, err
			}
			if len(msgs) > 0 {
				got <- msgs[0].Content
				return agui.WorkerOutput{Status: agui.StatusSuccess}, nil
			}
			<-tick()
		}
	}}
	x, y := servers(t, runtime.Config{}, listener)
	s := x.start("main", "listener", "go")
	if _, err := y.Append(t.Context(), local, s.RunID, runtime.AppendRequest{Content: "more"}); err != nil {
		t.Fatal(err)
	}
	if text := <-got; text != "more" {
		t.Errorf("the worker got %q", text)
	}
	if run := y.wait(s.RunID, runtime.Completed); run.Generation != 1 {
		t.Errorf("the run was restarted: generation %d", run.Generation)
	}
	if !slices.Contains(y.contents("main"), "more") {
		t.Error("the message is not in the thread")
	}
}

// One request that is sent to both servers at once starts one run.
func TestBeside_OneKeyStartsOneRun(t *testing.T) {
	k := dictated{make(chan string)}
	x, y := servers(t, runtime.Config{}, k.agent())
	close(k.words)
	for i := range 5 {
		key := &runtime.Idempotency{Scope: string(rune('a' + i)), BodyHash: "same"}
		started := make(chan runtime.Started, 2)
		for _, b := range []*bench{x, y} {
			go func() {
				s, err := b.StartRun(t.Context(), local, runtime.StartRequest{
					Agent: "dictated", Idempotency: key, Messages: []agui.Message{{Role: agui.RoleUser, Content: "go"}},
				})
				if err != nil {
					t.Error(err)
				}
				started <- s
			}()
		}
		if a, b := <-started, <-started; a.RunID != b.RunID || a.ThreadID != b.ThreadID {
			t.Errorf("two runs: %s and %s", a.RunID, b.RunID)
		}
	}
}
