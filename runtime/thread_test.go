package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

func code(err error) string {
	if e, ok := errors.AsType[*runtime.Error](err); ok {
		return e.Code
	}
	return fmt.Sprint(err)
}

func user(content string) []agui.Message {
	return []agui.Message{{Role: agui.RoleUser, Content: content}}
}

// askedRuns is a store that counts the runs that commits are asked about.
type askedRuns struct {
	runtime.Store
	asks atomic.Int64
}

func (a *askedRuns) Commit(ctx context.Context, n int64, b *data.Batch) error {
	for _, ask := range b.Asks {
		a.asks.Add(int64(len(ask.Runs)))
	}
	return a.Store.Commit(ctx, n, b)
}

// A cancel of a run that is over does not reach the commit queue, as no limit holds it back.
func TestCancel_OfAnEndedRunCommitsNothing(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{}, 1)
	b := open(t, runtime.Config{}, gated(gate))
	gate <- struct{}{}
	done := b.start("done", "gated", "1")
	b.wait(done.RunID, runtime.Completed)
	cancelled := b.start("main", "gated", "2")
	b.cancel(cancelled.RunID)
	a := &askedRuns{Store: b.store}
	b.injectStore(a)
	if again, err := b.Cancel(t.Context(), local, cancelled.RunID); err != nil || again.Status != runtime.Cancelled {
		t.Errorf("again: %s, %v", again.Status, err)
	}
	if _, err := b.Cancel(t.Context(), local, done.RunID); code(err) != "invalid_state" {
		t.Errorf("a completed run: %v", err)
	}
	if _, err := b.Cancel(t.Context(), local, "unknown"); code(err) != "not_found" {
		t.Errorf("an unknown run: %v", err)
	}
	if n := a.asks.Load(); n != 0 {
		t.Errorf("commits were asked about %d runs", n)
	}
}

var pickTool = []agui.Tool{{Name: "pick", Parameters: []byte(`{"type":"object"}`)}}

// pending returns a run's open interrupts.
func pending(b *bench, run string) string {
	b.t.Helper()
	b.wait(run, runtime.Waiting)
	ins, err := b.Runs.Interrupts(context.Background(), local, run)
	if err != nil || len(ins) != 1 {
		b.t.Fatalf("interrupts %v, %v", ins, err)
	}
	return ins[0].ID
}

func TestMessageWithPartsIsTakenWithAnAnswer(t *testing.T) {
	t.Parallel()
	worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if _, err := run.CallTool(ctx, "pick", map[string]any{}); err != nil {
			return agui.WorkerOutput{}, err
		}
		msgs, err := run.Next(ctx)
		return agui.WorkerOutput{Answer: fmt.Sprint("got ", len(msgs))}, err
	}}
	b := open(t, runtime.Config{}, worker)
	s := b.request(runtime.StartRequest{Agent: "worker", ThreadID: "main", Messages: user("pick"), Tools: pickTool})
	id := pending(b, s.RunID)
	if _, err := b.StartRun(context.Background(), local, runtime.StartRequest{ThreadID: "main", Tools: pickTool, Messages: []agui.Message{
		{ID: "m1", Role: agui.RoleTool, ToolCallID: id, Content: "red"},
		{ID: "m2", Role: agui.RoleUser, Parts: []byte(`[{"type":"text","text":"look"},{"type":"binary","mimeType":"image/png","url":"http://x/y.png"}]`)},
	}}); err != nil {
		t.Fatal(err)
	}
	if r := b.wait(s.RunID, runtime.Completed, runtime.Failed); r.Status != runtime.Completed {
		t.Errorf("run is %s: %+v", r.Status, r.Error)
	}
	checkLog(t, b.log("main"))
}

// A new reader of a run that was cancelled before it began gets that outcome, and does not wait for the runs behind
// it.
func TestReaderOfADiscardedRunWaitsForNoOther(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	b := open(t, runtime.Config{Limits: runtime.Limits{Runs: 1}}, hello, agent{"holder", func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
		<-release
		return agui.WorkerOutput{}, nil
	}})
	defer close(release)
	b.start("other", "holder", "go")
	discarded, next := b.start("main", "hello", "second"), b.start("main", "hello", "third")
	b.cancel(discarded.RunID)
	cur, err := b.Logs.ReadRun(t.Context(), discarded)
	must(t, err)
	defer cur.Close()
	recs, err := cur.Next(t.Context())
	if err != nil || len(recs) != 2 || recs[0].ID != 0 || !recs[1].Terminal() {
		t.Errorf("got %v, %v; want a span without ids", recs, err)
	}
	b.wait(next.RunID, runtime.Queued)
}
