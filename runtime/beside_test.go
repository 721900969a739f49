package runtime_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

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
	th, err := b.Threads.Get(b.t.Context(), local, "main")
	must(b.t, err)
	s, err := b.Logs.Snapshot(b.t.Context(), th)
	must(b.t, err)
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
				all, err := y.Threads.List(t.Context(), local, runtime.ThreadFilter{Limit: 10})
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
		if all, err := y.Threads.List(t.Context(), local, runtime.ThreadFilter{Limit: 10}); err != nil || len(all.Rows) != 1 {
			t.Errorf("written %v: %d threads, %v", written, len(all.Rows), err)
		}
	}
}

// reader opens a cursor at the start of the thread main.
func (b *bench) reader(follow bool) *runtime.Cursor {
	b.t.Helper()
	th, err := b.Threads.Get(b.t.Context(), local, "main")
	must(b.t, err)
	cur, err := b.Logs.Read(b.t.Context(), th, 0, follow)
	must(b.t, err)
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
		must(t, err)
		all = append(all, recs...)
	}
	return all
}

func (b *bench) run(s runtime.Started) runtime.Run {
	b.t.Helper()
	run, err := b.Runs.Get(b.t.Context(), local, s.RunID)
	must(b.t, err)
	return run
}
