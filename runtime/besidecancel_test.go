package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

func TestBeside_CancelsARunOfAnother(t *testing.T) {
	t.Parallel()
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

// A server that deletes a user's data asks for the end of all runs before it waits for one.
func TestBeside_DeletionCancelsRunsTogether(t *testing.T) {
	t.Parallel()
	const n = 5
	k := dictated{make(chan string)}
	x, y := servers(t, runtime.Config{}, k.agent())
	d := &deaf{Store: x.store}
	x.injectStore(d)
	d.deaf.Store(true)
	owner := ""
	for i := range n {
		s := x.start(fmt.Sprint("thread ", i), "dictated", "go")
		owner = x.wait(s.RunID, runtime.Running).Owner
	}
	deleted := make(chan error, 1)
	go func() { deleted <- y.DeleteUser(t.Context(), local, local.User()) }()
	y.until("all runs are asked to end", func() bool {
		asks, err := y.store.CancelAsks(t.Context(), owner)
		return err == nil && len(asks) == n
	})
	d.deaf.Store(false)
	if err := <-deleted; err != nil {
		t.Fatal(err)
	}
	if left, err := x.Threads.List(t.Context(), local, runtime.ThreadFilter{Limit: 10}); err != nil || len(left.Rows) > 0 {
		t.Errorf("%d threads are left, %v", len(left.Rows), err)
	}
}

// deaf does not hear the requests of other servers.
type deaf struct {
	runtime.Store
	deaf    atomic.Bool
	commits atomic.Int64
}

func (d *deaf) Commit(ctx context.Context, n int64, b *data.Batch) error {
	d.commits.Add(1)
	return d.Store.Commit(ctx, n, b)
}

func (d *deaf) CancelAsks(ctx context.Context, instance string) ([]data.CancelAsk, error) {
	if d.deaf.Load() {
		return nil, runtime.ErrUnavailable
	}
	return d.Store.CancelAsks(ctx, instance)
}

// A cancellation that the owner does not confirm is no success, and takes place once an owner is there.
func TestBeside_UnconfirmedCancelHasAnUnknownOutcome(t *testing.T) {
	t.Parallel()
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

// A server that waits for the end of a run that is to make room does not ask for that all the time.
func TestBeside_AsksOnceForRoom(t *testing.T) {
	t.Parallel()
	k := dictated{make(chan string)}
	x, y := servers(t, runtime.Config{}, k.agent())
	owner, waits := &deaf{Store: x.store}, &deaf{Store: y.store}
	x.injectStore(owner)
	y.injectStore(waits)
	x.start("main", "dictated", "go")
	k.words <- "one "
	owner.deaf.Store(true)
	s, err := y.StartRun(t.Context(), local, runtime.StartRequest{
		ThreadID: "main", Agent: "dictated", Multitask: runtime.InterruptRuns, Messages: []agui.Message{{Role: agui.RoleUser, Content: "now"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	before := waits.commits.Load()
	<-time.After(500 * time.Millisecond)
	if n := waits.commits.Load() - before; n > 10 {
		t.Errorf("%d commits in half a second", n)
	}
	owner.deaf.Store(false)
	y.until("the run takes its turn", func() bool { run := y.run(s); return run.Status == runtime.Running })
	close(k.words)
	y.wait(s.RunID, runtime.Completed)
}

// A stream waits for a queued run, which is cancelled on another server while that server executes the run before.
func TestBeside_CancelledBeforeItsFirstEvent(t *testing.T) {
	t.Parallel()
	k := dictated{make(chan string)}
	x, y := servers(t, runtime.Config{}, k.agent())
	x.start("main", "dictated", "first")
	k.words <- "one"
	queued := []runtime.Started{y.start("main", "dictated", "second"), x.start("main", "dictated", "third")}
	for i, b := range []*bench{y, x} {
		other := []*bench{x, y}[i]
		cur, err := b.Logs.ReadRun(t.Context(), queued[i])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Cancel(t.Context(), local, queued[i].RunID); err != nil {
			t.Fatal(err)
		}
		recs := until(t, cur, 0)
		if len(recs) != 2 || recs[0].ID != 0 || !recs[1].Terminal() {
			t.Errorf("%d records, want a span without ids", len(recs))
		}
		cur.Close()
	}
	close(k.words)
}
