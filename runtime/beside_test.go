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

// reader opens a cursor at the start of the thread main.
func (b *bench) reader(follow bool) *runtime.Cursor {
	b.t.Helper()
	th, err := b.Thread(b.t.Context(), local, "main")
	if err != nil {
		b.t.Fatal(err)
	}
	cur, err := b.Read(b.t.Context(), th, 0, follow)
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

func (b *bench) run(s runtime.Started) runtime.Run {
	b.t.Helper()
	run, err := b.Run(b.t.Context(), local, s.RunID)
	if err != nil {
		b.t.Fatal(err)
	}
	return run
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

// A server shows events and messages from memory only while the database has the same.
func TestBeside_MemoryIsNotOutdated(t *testing.T) {
	t.Parallel()
	k := dictated{make(chan string)}
	x, y := servers(t, runtime.Config{}, k.agent())
	first := x.start("main", "dictated", "first")
	watches := []*runtime.Cursor{x.reader(true), y.reader(true)} // so that what is in memory stays there
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
		recs := until(t, b.reader(false), 0)
		if c, ok := recs[0].Event.(agui.Custom); !ok || c.Name != "log-reset" {
			t.Errorf("the log begins with %s of the deleted run", recs[0].Event.Type())
		}
	}
}
