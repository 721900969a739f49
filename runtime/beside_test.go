package runtime_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// Two runtimes on one PostgreSQL: a client of one must see the runs of the other.

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
				if word == "state" {
					if err := run.State(map[string]int{"n": 1}); err != nil {
						return agui.WorkerOutput{}, err
					}
					continue
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

// contents returns the texts of the messages of the thread main.
func (b *bench) contents() (all []string) {
	b.t.Helper()
	for _, m := range b.snapshot().Messages {
		all = append(all, m.Content)
	}
	return all
}

func (b *bench) snapshot() runtime.Snapshot {
	b.t.Helper()
	th, err := b.Thread(b.t.Context(), local, "main")
	if err != nil {
		b.t.Fatal(err)
	}
	s, err := b.Snapshot(b.t.Context(), th)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// The worker of a run gets messages that were appended on another server at its next safe boundary.
func TestBeside_AppendsToARunOfAnother(t *testing.T) {
	t.Parallel()
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
	if !slices.Contains(y.contents(), "more") {
		t.Error("the message is not in the thread")
	}
}

// One request that is sent to both servers at once starts one run.
func TestBeside_OneKeyStartsOneRun(t *testing.T) {
	t.Parallel()
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

// A client that does not learn from a server whether its request was stored repeats it at another one. That starts one run, whether the
// first server has written it without an answer, or writes it later.
func TestBeside_OneKeyStartsOneRunAfterAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	k := dictated{make(chan string)}
	close(k.words)
	for _, written := range []bool{false, true} {
		x, y := servers(t, runtime.Config{}, k.agent())
		x.cfg.Patience = 200 * time.Millisecond
		f := new(faulty)
		x.inject(f)
		request := runtime.StartRequest{
			Agent: "dictated", Idempotency: &runtime.Idempotency{Scope: "key", BodyHash: "same"}, Messages: []agui.Message{{Role: agui.RoleUser, Content: "go"}},
		}
		blocked := make(chan struct{})
		if written {
			f.late.Store(&blocked)
			f.after.Store(1)
		} else {
			f.silent.Store(&blocked)
		}
		_, err := x.StartRun(t.Context(), local, request)
		if refusal, _ := errors.AsType[*runtime.Error](err); refusal == nil || refusal.Code != "outcome_unknown" {
			t.Errorf("written %v: the first request is answered with %v", written, err)
		}
		if written { // perhaps after the answer
			y.until("the first request is written", func() bool {
				all, err := y.Threads(t.Context(), local, runtime.ThreadFilter{Limit: 10})
				return err == nil && len(all.Rows) == 1
			})
		}
		second, err := y.StartRun(t.Context(), local, request)
		if err != nil || second.Replayed != written {
			t.Errorf("written %v: the second request is answered with %+v, %v", written, second, err)
		}
		f.silent.Store(nil)
		f.late.Store(nil)
		close(blocked)
		var third runtime.Started
		x.until("the first server answers", func() bool { // also behind a commit that takes longer than its patience
			third, err = x.StartRun(t.Context(), local, request)
			refusal, _ := errors.AsType[*runtime.Error](err)
			return refusal == nil || refusal.Kind != runtime.KindUnavailable
		})
		if err != nil || third.RunID != second.RunID || !third.Replayed {
			t.Errorf("written %v: the third request is answered with %+v, %v, the second with %s", written, third, err, second.RunID)
		}
		y.wait(second.RunID, runtime.Completed)
		if all, err := y.Threads(t.Context(), local, runtime.ThreadFilter{Limit: 10}); err != nil || len(all.Rows) != 1 {
			t.Errorf("written %v: %d threads, %v", written, len(all.Rows), err)
		}
	}
}

// reader opens a cursor of the thread main.
func (b *bench) reader(after int64, follow bool) *runtime.Cursor {
	b.t.Helper()
	th, err := b.Thread(b.t.Context(), local, "main")
	if err != nil {
		b.t.Fatal(err)
	}
	cur, err := b.Read(b.t.Context(), th, after, follow)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(cur.Close)
	return cur
}

// until reads up to the event of an id, or with 0 to the end.
func until(t *testing.T, cur interface {
	Next(context.Context) ([]*runtime.Record, error)
}, id int64,
) (all []*runtime.Record) {
	t.Helper()
	for id == 0 || len(all) == 0 || all[len(all)-1].ID < id {
		recs, err := cur.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, recs...)
	}
	return all
}

func TestBeside_ViewersGetTheWholeLog(t *testing.T) {
	t.Parallel()
	k := dictated{make(chan string)}
	x, y := servers(t, runtime.Config{}, k.agent())
	s := x.start("main", "dictated", "go")
	k.words <- "one "
	viewers := []*runtime.Cursor{x.reader(0, false), y.reader(0, false), y.reader(0, true)}
	run := y.run(s)
	joined, err := y.JoinRun(t.Context(), &run, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer joined.Close()
	first := until(t, viewers[1], 4)
	if viewers[1].Ended() || !viewers[1].Waits() {
		t.Error("a viewer's log has ended while the run is executed on another server")
	}
	k.words <- "two "
	k.words <- "three "
	resumed := y.reader(first[len(first)-1].ID, false) // of one who was cut off on the other server
	close(k.words)
	want := until(t, viewers[0], 0)
	checkLog(t, want)
	if !want[len(want)-1].Terminal() {
		t.Error("the log ends before the run")
	}
	checkLog(t, append(slices.Clone(first), until(t, viewers[1], 0)...))
	checkLog(t, append(slices.Clone(first), until(t, resumed, 0)...))
	last := want[len(want)-1].ID
	for what, recs := range map[string][]*runtime.Record{
		"a follower": until(t, viewers[2], last), "the run": until(t, joined, 0), "a late viewer": until(t, y.reader(0, false), 0),
	} {
		recs = slices.DeleteFunc(recs, func(r *runtime.Record) bool { return r.ID == 0 }) // the state of a reader that has none
		if len(recs) != len(want) || recs[len(recs)-1].ID != last {
			t.Errorf("%s gets %d events, want %d", what, len(recs), len(want))
		}
	}
	for _, b := range []*bench{x, y} {
		if cur := b.reader(last, false); !cur.Ended() {
			t.Error("the log has not ended")
		}
		if cur := b.reader(runtime.Latest, true); cur.After() != last || !cur.Waits() {
			t.Errorf("a follower begins at %d, want %d", cur.After(), last)
		}
	}

	y.start("main", "dictated", "again") // closed words end it at once
	if recs := until(t, viewers[2], last+1); recs[0].ID != last+1 {
		t.Errorf("the follower goes on with %d, want %d", recs[0].ID, last+1)
	}
	again := until(t, x.reader(last, false), 0)
	if n := len(again); n == 0 || !again[n-1].Terminal() {
		t.Errorf("the first server shows %d events of the run on the other", n)
	}
}

func (b *bench) run(s runtime.Started) runtime.Run {
	b.t.Helper()
	run, err := b.Run(b.t.Context(), local, s.RunID)
	if err != nil {
		b.t.Fatal(err)
	}
	return run
}

func TestBeside_SnapshotsAreEqual(t *testing.T) {
	t.Parallel()
	k := dictated{make(chan string)}
	x, y := servers(t, runtime.Config{}, k.agent())
	s := x.start("main", "dictated", "go")
	k.words <- "one "
	k.words <- "state"
	k.words <- "two"
	k.words <- "state" // the one before is emitted
	compare := func() {
		t.Helper()
		a := x.snapshot() // waits until all is stored
		b := y.snapshot()
		if a.After != b.After || a.RunID != b.RunID || a.Running != b.Running || string(a.State) != string(b.State) {
			t.Errorf("%d %s %v %s, and %d %s %v %s", a.After, a.RunID, a.Running, a.State, b.After, b.RunID, b.Running, b.State)
		}
		if diff := cmp.Diff(a.Messages, b.Messages); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(a.Open, b.Open); diff != "" {
			t.Error(diff)
		}
	}
	compare()
	run := y.run(s)
	of, err := y.RunSnapshot(t.Context(), &run)
	if err != nil || of.Started == nil || !of.Running || len(of.Messages) != 2 {
		t.Errorf("of the run: %+v, %v", of, err)
	}
	close(k.words)
	y.wait(s.RunID, runtime.Completed)
	compare()
}

// A server shows events and messages from memory only while the database has the same.
func TestBeside_MemoryIsNotOutdated(t *testing.T) {
	t.Parallel()
	k := dictated{make(chan string)}
	x, y := servers(t, runtime.Config{}, k.agent())
	first := x.start("main", "dictated", "first")
	watches := []*runtime.Cursor{x.reader(0, true), y.reader(0, true)} // so that what is in memory stays there
	close(k.words)
	x.wait(first.RunID, runtime.Completed)
	end := int64(len(until(t, watches[0], x.run(first).ClosedEvent)))
	until(t, watches[1], end)
	for _, b := range []*bench{x, y} {
		if got := b.contents(); !slices.Contains(got, "first") {
			t.Errorf("messages %q", got)
		}
	}
	second := y.start("main", "dictated", "second")
	y.wait(second.RunID, runtime.Completed)
	for _, b := range []*bench{x, y} {
		if got := b.contents(); !slices.Contains(got, "second") {
			t.Errorf("messages %q", got)
		}
	}
	if err := y.Delete(t.Context(), local, first.RunID); err != nil {
		t.Fatal(err)
	}
	for _, b := range []*bench{x, y} {
		if got := b.contents(); slices.Contains(got, "first") {
			t.Errorf("messages %q after the run was deleted", got)
		}
		recs := until(t, b.reader(0, false), 0)
		if c, ok := recs[0].Event.(agui.Custom); !ok || c.Name != "log-reset" {
			t.Errorf("the log begins with %s of the deleted run", recs[0].Event.Type())
		}
	}
}

// Runs that servers start in turn are in the order of their requests: in lists, and as the thread's last run, whose agent is the default.
func TestBeside_RunsAreInTheOrderOfTheirRequests(t *testing.T) {
	t.Parallel()
	other := hello
	other.name = "other"
	x, y := servers(t, runtime.Config{}, hello, other)
	var want []string
	for i := range 6 {
		b, next := x, y
		if i%2 == 1 {
			b, next = y, x
		}
		named := []string{"hello", "other"}[i/2%2]
		for _, s := range []struct {
			b     *bench
			agent string
		}{{b, named}, {next, ""}} {
			started := s.b.start("main", s.agent, "go")
			if run := x.wait(started.RunID, runtime.Completed); run.Agent != named {
				t.Errorf("run %d has the agent %s, want %s", len(want), run.Agent, named)
			}
			want = append(want, started.RunID)
		}
	}
	th, err := x.Thread(t.Context(), local, "main")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []runtime.RunFilter{{ThreadKey: th.Key}, {Text: "go"}, {}} {
		f.Limit, f.Oldest = 100, true
		page, err := y.Runs(t.Context(), local, f)
		var got []string
		for _, run := range page.Rows {
			got = append(got, run.ID)
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%+v: %v %s", f, err, diff)
		}
	}
}
