package runtime_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// faulty is a store with commits that fail on demand: before anything was written, or after everything was.
type faulty struct {
	runtime.Store
	before atomic.Pointer[error]
	after  atomic.Int64                  // how many more commits lose their answer
	refuse string                        // payloads with this text fail as invalid data
	silent atomic.Pointer[chan struct{}] // writes block without an answer until it is closed
	late   atomic.Pointer[chan struct{}] // writes are written, and block without an answer until it is closed
}

func (f *faulty) Commit(ctx context.Context, n int64, batch *data.Batch) error {
	if silent := f.silent.Load(); silent != nil {
		<-*silent
	}
	if err := f.before.Load(); err != nil {
		return *err
	}
	for i := range batch.Events {
		if f.refuse != "" && strings.Contains(string(batch.Events[i].Payload), f.refuse) {
			return errors.New("invalid byte sequence")
		}
	}
	err := f.Store.Commit(ctx, n, batch)
	if late := f.late.Load(); late != nil {
		<-*late
	}
	if err == nil && f.after.Add(-1) >= 0 {
		return fmt.Errorf("answer lost: %w", runtime.ErrUnavailable)
	}
	return err
}

// inject puts f between the bench and its store, and starts the runtime anew.
func (b *bench) inject(f *faulty) {
	b.t.Helper()
	f.Store = b.store
	b.injectStore(f)
}

// While the database does not answer, every request fails with outcome_unknown, and takes effect completely
// afterwards.
func TestRequestsDoNotWaitForASilentDatabase(t *testing.T) {
	t.Parallel()
	worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if run.Input.RunID == "before" {
			return agui.WorkerOutput{}, hang(ctx)
		}
		return agui.WorkerOutput{Answer: "here"}, nil
	}}
	b := open(t, runtime.Config{Limits: runtime.Limits{Runs: 2}, Patience: 2 * time.Second, Heartbeat: 20 * time.Millisecond}, worker)
	f := &faulty{}
	b.inject(f)
	start := func(thread, run string) error {
		_, err := b.StartRun(t.Context(), local, runtime.StartRequest{
			Agent: "worker", ThreadID: thread, RunID: run, Multitask: runtime.InterruptRuns, BodyHash: run,
			Messages: []agui.Message{{Role: agui.RoleUser, Content: "go"}},
		})
		return err
	}
	code := func(err error) string {
		refusal, ok := errors.AsType[*runtime.Error](err)
		if !ok {
			t.Fatal(err)
		}
		return refusal.Code
	}
	begin := func(run string) { // also on a slow machine
		for err := start("main", run); err != nil; err = start("main", run) {
			if c := code(err); c != "outcome_unknown" && c != "unavailable" {
				t.Fatal(err)
			}
		}
	}
	begin("before")
	b.wait("before", runtime.Running)
	for round := range 2 {
		silent := make(chan struct{})
		f.silent.Store(&silent)
		beside := make(chan error)
		go func() { beside <- start(fmt.Sprint("beside", round), fmt.Sprint("beside", round)) }()
		asked := 0
		for _, err := range []error{start("main", fmt.Sprint("instead", round)), <-beside} {
			if c := code(err); c == "outcome_unknown" {
				asked++
			} else if c != "unavailable" {
				t.Errorf("while the database was silent: %q", c)
			}
		}
		if asked == 0 {
			t.Error("nobody was told that the outcome is not known")
		}
		if c := code(start("main", "late")); c != "unavailable" {
			t.Errorf("once it is known to be silent: %q", c)
		}
		f.silent.Store(nil)
		close(silent)
		for b.Ready(t.Context()) != nil {
			<-tick()
		}
	}
	for i := range 4 { // all slots are free, and the replaced run is over
		begin(fmt.Sprint("after", i))
		b.wait(fmt.Sprint("after", i), runtime.Completed)
	}
	b.wait("before", runtime.Cancelled)
}

// Requests that begin one thread while the database does not answer all take effect later, although the first changes the state for which the
// others were prepared.
func TestRequestsThatMeetInASilentDatabaseTakeEffect(t *testing.T) {
	t.Parallel()
	worker := agent{"worker", func(context.Context, *plugins.Run) (agui.WorkerOutput, error) { return agui.WorkerOutput{}, nil }}
	b := open(t, runtime.Config{Patience: 2 * time.Second, Heartbeat: 20 * time.Millisecond}, worker)
	f := &faulty{}
	b.inject(f)
	silent := make(chan struct{})
	f.silent.Store(&silent)
	late := make(chan string, 3)
	var begun sync.WaitGroup
	for i := range 3 {
		run := fmt.Sprint("run", i)
		begun.Go(func() {
			_, err := b.StartRun(t.Context(), local, runtime.StartRequest{
				Agent: "worker", ThreadID: "main", RunID: run, Messages: user("go"), Late: func(s runtime.Started) { late <- s.RunID },
			})
			if refusal, ok := errors.AsType[*runtime.Error](err); !ok || refusal.Code != "outcome_unknown" {
				t.Errorf("%s: %v, want outcome_unknown", run, err)
			}
		})
	}
	begun.Wait()
	f.silent.Store(nil)
	close(silent)
	for range 3 {
		b.wait(<-late, runtime.Completed)
	}
	if runs, err := rows(b.Runs.List(t.Context(), local, runtime.RunFilter{Limit: 10})); err != nil || len(runs) != 3 {
		t.Errorf("%d runs, %v", len(runs), err)
	}
}

// A damaged database does not recover by itself: a request learns that instead of outcome_unknown.
func TestRequests_NameADamagedDatabase(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{Patience: 100 * time.Millisecond}, agent{"worker", func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{Answer: "here"}, nil
	}})
	f := &faulty{}
	b.inject(f)
	damaged := fmt.Errorf("commit: %w", data.ErrDamaged)
	f.before.Store(&damaged)
	for _, thread := range []string{"first", "second"} {
		_, err := b.StartRun(t.Context(), local, runtime.StartRequest{
			Agent: "worker", ThreadID: thread, RunID: thread, Messages: []agui.Message{{Role: agui.RoleUser, Content: "go"}},
		})
		if refusal, ok := errors.AsType[*runtime.Error](err); !ok || refusal.Code != "database_damaged" {
			t.Errorf("%s: %v", thread, err)
		}
	}
	f.before.Store(nil)
	for b.Ready(t.Context()) != nil {
		<-tick()
	}
	b.wait("first", runtime.Completed)
}

func TestRefusedDataFailsOnlyItsRun(t *testing.T) {
	t.Parallel()
	poison := agent{"poison", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		w := run.Text()
		for i := range 300 {
			s := "fine "
			if i == 150 {
				s = "POISON "
			}
			if _, err := io.WriteString(w, s); err != nil {
				return agui.WorkerOutput{}, err
			}
		}
		return agui.WorkerOutput{}, hang(ctx)
	}}
	b := open(t, runtime.Config{}, poison, tokens)
	b.inject(&faulty{refuse: "POISON"})
	bad := b.start("bad", "poison", "x")
	var good []runtime.Started
	for i := range 10 {
		good = append(good, b.start(fmt.Sprint("good", i), "tokens", "x"))
	}
	run := b.wait(bad.RunID, runtime.Failed)
	if run.Error == nil || run.Error.Code != "storage_error" {
		t.Errorf("error %+v", run.Error)
	}
	checkLog(t, b.log("bad"))
	for i, s := range good {
		b.wait(s.RunID, runtime.Completed)
		checkLog(t, b.log(fmt.Sprint("good", i)))
	}
	b.wait(b.start("bad", "tokens", "again").RunID, runtime.Completed)
	checkLog(t, b.log("bad"))
}

// A run whose events are refused may be gone: another server has taken it over, ended and deleted it. Nothing is left to fail, and the
// server that executed it gives its slot on.
func TestRefusedData_OfADeletedRunFailsNothing(t *testing.T) {
	t.Parallel()
	k := dictated{make(chan string)}
	b := open(t, runtime.Config{}, k.agent())
	b.inject(&faulty{refuse: "POISON"})
	s := b.start("main", "dictated", "go")
	k.words <- "one "
	b.exec(fmt.Sprintf("DELETE FROM runs WHERE key = %d", s.RunKey))
	k.words <- "POISON"
	b.until("the run is still executed", func() bool { return b.Stats().Running == 0 })
}

// undone is a store that rolls every transaction with decisions back once, and then lets it through.
type undone struct {
	runtime.Store
	why  error        // default runtime.ErrUnavailable
	done atomic.Int64 // the last batch that was rolled back
}

func (u *undone) Commit(ctx context.Context, n int64, batch *data.Batch) error {
	if len(batch.Asks) == 0 || u.done.Swap(n) == n {
		return u.Store.Commit(ctx, n, batch)
	}
	undone := *batch
	undone.Decide = func(i int, v *data.View) data.Changes {
		c := batch.Decide(i, v)
		if i == len(batch.Asks)-1 {
			c.Refused = fmt.Errorf("rolled back: %w", cmp.Or(u.why, runtime.ErrUnavailable))
		}
		return c
	}
	return u.Store.Commit(ctx, n, &undone)
}

// injectStore puts a store between the bench and its own, and starts the runtime anew.
func (b *bench) injectStore(s runtime.Store) {
	b.t.Helper()
	must(b.t, b.Shutdown(context.Background()))
	b.cfg.Store = s
	var err error
	if b.Runtime, err = runtime.New(b.cfg); err != nil {
		b.t.Fatal(err)
	}
	must(b.t, b.Start(context.Background()))
}

// unshown is a store that writes commits but does not answer them while it is held.
type unshown struct {
	runtime.Store
	held  atomic.Bool
	shown chan struct{}
}

func (u *unshown) Commit(ctx context.Context, n int64, batch *data.Batch) error {
	err := u.Store.Commit(ctx, n, batch)
	if u.held.Load() {
		<-u.shown
	}
	return err
}

// A reader that has received a run's end does not receive it again as the next event.
func TestLatestIsTheEndOfWhatIsStored(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	b := open(t, runtime.Config{}, gated(gate))
	store := &unshown{Store: b.store, shown: make(chan struct{})}
	b.injectStore(store)
	s := b.start("main", "gated", "x")
	th := b.found("main")
	held, err := b.Logs.Read(t.Context(), th, 0, true)
	must(t, err)
	defer held.Close()
	store.held.Store(true)
	close(gate)
	for ; ; <-tick() { // until the end is stored
		run, err := b.Runs.Get(t.Context(), local, s.RunID)
		must(t, err)
		if run.Status.Final() {
			last, err := b.store.LastEventID(t.Context(), th.Key)
			must(t, err)
			cur, err := b.Logs.Read(t.Context(), th, runtime.Latest, true)
			must(t, err)
			if cur.After() != last {
				t.Errorf("latest is %d, the log's end is %d", cur.After(), last)
			}
			cur.Close()
			end, err := b.Logs.LastEventOf(t.Context(), &run)
			if err != nil || end == nil || end.ID != last || end.Type != agui.TypeRunFinished {
				t.Errorf("the last event of the ended run is %+v, %v; the log's end is %d", end, err, last)
			}
			break
		}
		select {
		case store.shown <- struct{}{}:
		default:
		}
	}
	store.held.Store(false)
	close(store.shown)
	b.log("main")
}
