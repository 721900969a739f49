package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
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

func TestThreadRunsOneAtATime(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	b := open(t, runtime.Config{}, gated(gate))
	first := b.start("main", "gated", "1")
	second := b.start("main", "gated", "2")
	if second.Status != runtime.Queued {
		t.Errorf("the second run is %s", second.Status)
	}
	_, err := b.StartRun(context.Background(), local, runtime.StartRequest{ThreadID: "main", Messages: user("3"), Multitask: runtime.RejectRun})
	if code(err) != "thread_busy" {
		t.Errorf("reject: %v", err)
	}
	gate <- struct{}{}
	b.wait(first.RunID, runtime.Completed)
	b.wait(second.RunID, runtime.Running)
	gate <- struct{}{}
	b.wait(second.RunID, runtime.Completed)
	checkLog(t, b.log("main"))
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
	if _, err := b.Cancel(t.Context(), local, cancelled.RunID); err != nil {
		t.Fatal(err)
	}
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

func TestCancelOfAQueuedRunWritesNothing(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	b := open(t, runtime.Config{}, gated(gate))
	first := b.start("main", "gated", "1")
	second := b.start("main", "gated", "2")
	cur, err := b.ReadRun(context.Background(), second)
	if err != nil {
		t.Fatal(err)
	}
	defer cur.Close()
	if _, err := b.Cancel(context.Background(), local, second.RunID); err != nil {
		t.Fatal(err)
	}
	recs, err := cur.Next(context.Background())
	if err != nil || len(recs) != 2 || recs[0].ID != 0 || !recs[1].Terminal() {
		t.Errorf("who waits for a run that never ran gets %v, %v", recs, err)
	}
	if _, err := cur.Next(context.Background()); !errors.Is(err, io.EOF) {
		t.Errorf("then %v", err)
	}
	gate <- struct{}{}
	b.wait(first.RunID, runtime.Completed)
	for _, r := range b.log("main") {
		if r.Event.Common().RunID == second.RunID {
			t.Errorf("event %d is of the run that never ran", r.ID)
		}
	}
}

func TestInterruptAndRollback(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{}, 4)
	stateful := agent{"stateful", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if err := run.State(map[string]any{run.Input.Query: true}); err != nil {
			return agui.WorkerOutput{}, err
		}
		if err := say(run, "heard ", run.Input.Query); err != nil {
			return agui.WorkerOutput{}, err
		}
		if run.Input.Query == "slow" {
			entered <- struct{}{}
			return agui.WorkerOutput{}, hang(ctx)
		}
		return agui.WorkerOutput{}, nil
	}}
	b := open(t, runtime.Config{}, stateful)
	b.wait(b.start("main", "stateful", "first").RunID, runtime.Completed)
	slow := b.start("main", "stateful", "slow")
	<-entered
	next, err := b.StartRun(context.Background(), local, runtime.StartRequest{ThreadID: "main", Messages: user("third"), Multitask: runtime.RollbackRuns})
	if err != nil {
		t.Fatal(err)
	}
	b.wait(slow.RunID, runtime.Cancelled)
	b.wait(next.RunID, runtime.Completed)
	checkLog(t, b.log("main"))
	th, err := b.Thread(context.Background(), local, "main")
	if err != nil {
		t.Fatal(err)
	}
	if string(th.State) != `{"first":true,"third":true}` {
		t.Errorf("state %s", th.State)
	}
	msgs, err := b.store.Messages(context.Background(), th.Key, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, m := range msgs {
		said = append(said, m.Content)
	}
	if got := fmt.Sprint(said); got != "[first heard first third heard third]" {
		t.Errorf("messages %s", got)
	}
}

func TestRewindHidesWhatFollows(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, hello)
	b.wait(b.start("main", "hello", "one").RunID, runtime.Completed)
	th, _ := b.Thread(context.Background(), local, "main")
	msgs, _ := b.store.Messages(context.Background(), th.Key, 0, 100)
	s, err := b.StartRun(context.Background(), local, runtime.StartRequest{ThreadID: "main", RewindTo: msgs[0].ID})
	if err != nil {
		t.Fatal(err)
	}
	b.wait(s.RunID, runtime.Completed)
	checkLog(t, b.log("main"))
	msgs, _ = b.store.Messages(context.Background(), th.Key, 0, 100)
	if len(msgs) != 2 || msgs[1].Content != "hello one" || msgs[1].Seq != 3 {
		t.Errorf("messages %+v", msgs)
	}
}

func TestFrontendToolEndsTheSpanAndGoesOn(t *testing.T) {
	t.Parallel()
	worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		out, err := run.CallTool(ctx, "pick", map[string]any{"of": 3})
		return agui.WorkerOutput{Answer: "picked " + out.ResultSummary}, err
	}}
	b := open(t, runtime.Config{}, worker)
	ctx := context.Background()
	pick := []agui.Tool{{Name: "pick"}}
	s, err := b.StartRun(ctx, local, runtime.StartRequest{Agent: "worker", ThreadID: "main", RunID: "r1", Messages: user("go"), Tools: pick})
	if err != nil {
		t.Fatal(err)
	}
	b.wait(s.RunID, runtime.Waiting)
	recs := b.log("main")
	end := recs[len(recs)-1].Event.(agui.RunFinished)
	if end.Outcome.Type != agui.OutcomeSuccess || len(end.Outcome.PendingToolCallIDs) != 1 {
		t.Fatalf("outcome %+v", end.Outcome)
	}
	answer := agui.Message{ID: "a", Role: agui.RoleTool, ToolCallID: end.Outcome.PendingToolCallIDs[0], Content: "two"}
	again, err := b.StartRun(ctx, local, runtime.StartRequest{Agent: "worker", ThreadID: "main", RunID: "r2", Messages: []agui.Message{answer}, Tools: pick})
	if err != nil {
		t.Fatal(err)
	}
	run := b.wait("r2", runtime.Completed)
	if again.RunKey != s.RunKey || run.ID != "r1" || *run.OutputSummary != "picked two" {
		t.Errorf("%+v went on as %+v, output %q", s, again, *run.OutputSummary)
	}
	recs = b.log("main")
	checkLog(t, recs)
	for _, r := range recs[len(recs)-3:] {
		if r.Event.Common().RunID != "r2" {
			t.Errorf("event %d echoes %q", r.ID, r.Event.Common().RunID)
		}
	}
	if ids := resultIDs(recs); !slices.Equal(ids, []string{"a"}) {
		t.Errorf("the log has results with the ids %q, want the client's", ids)
	}
	cur, err := b.ReadRun(ctx, again)
	if err != nil {
		t.Fatal(err)
	}
	defer cur.Close()
	for {
		recs, err := cur.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if ids := resultIDs(recs); len(ids) > 0 {
			t.Errorf("the client that brought the result is shown it again: %q", ids)
		}
	}
}

func resultIDs(recs []*runtime.Record) []string {
	var ids []string
	for _, r := range recs {
		if res, ok := r.Event.(agui.ToolCallResult); ok {
			ids = append(ids, res.MessageID)
		}
	}
	return ids
}

func TestUnansweredFrontendCallGivesWay(t *testing.T) {
	t.Parallel()
	worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if run.Input.Query != "go" {
			return agui.WorkerOutput{Answer: "fine"}, nil
		}
		_, err := run.CallTool(ctx, "pick", nil)
		return agui.WorkerOutput{}, err
	}}
	b := open(t, runtime.Config{}, worker)
	ctx := context.Background()
	s, err := b.StartRun(ctx, local, runtime.StartRequest{Agent: "worker", ThreadID: "main", Messages: user("go"), Tools: []agui.Tool{{Name: "pick"}}})
	if err != nil {
		t.Fatal(err)
	}
	b.wait(s.RunID, runtime.Waiting)
	next := b.start("main", "worker", "never mind")
	b.wait(next.RunID, runtime.Completed)
	b.wait(s.RunID, runtime.Cancelled)
	checkLog(t, b.log("main"))
}

func TestOpenQuestionRefusesANewRun(t *testing.T) {
	t.Parallel()
	asker := agent{"asker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if _, err := run.Ask(ctx, agui.Interrupt{Message: "?"}); err != nil {
			return agui.WorkerOutput{}, err
		}
		msgs, err := run.Next(ctx)
		if err != nil || len(msgs) != 1 {
			return agui.WorkerOutput{}, fmt.Errorf("%v, %w", msgs, err)
		}
		return agui.WorkerOutput{Answer: "with " + msgs[0].Content}, nil
	}}
	b := open(t, runtime.Config{}, asker)
	s := b.start("main", "asker", "x")
	b.wait(s.RunID, runtime.Waiting)
	ctx := context.Background()
	_, err := b.StartRun(ctx, local, runtime.StartRequest{ThreadID: "main", Messages: user("y")})
	if code(err) != "thread_waiting" {
		t.Errorf("a new run: %v", err)
	}
	if _, err := b.Resume(ctx, local, s.RunID, []agui.ResumeEntry{{InterruptID: "no", Status: "resolved"}}); code(err) != "unknown_interrupt" {
		t.Errorf("an unknown answer: %v", err)
	}
	if _, err := b.Append(ctx, local, s.RunID, runtime.AppendRequest{Content: "hint"}); err != nil {
		t.Errorf("append to a waiting run: %v", err)
	}
	asked, _ := b.Interrupts(ctx, local, s.RunID)
	answer := []agui.ResumeEntry{{InterruptID: asked[0].ID, Status: "cancelled"}}
	if _, err := b.Resume(ctx, local, s.RunID, answer); err != nil {
		t.Fatal(err)
	}
	b.wait(s.RunID, runtime.Completed)
	if _, err := b.Resume(ctx, local, s.RunID, answer); code(err) != "already_answered" {
		t.Errorf("answered twice: %v", err)
	}
	checkLog(t, b.log("main"))
	if run := b.wait(s.RunID, runtime.Completed); run.Generation != 1 || *run.OutputSummary != "with hint" {
		t.Errorf("generation %d, output %q", run.Generation, *run.OutputSummary)
	}
}

func TestNextTakesAppendedMessages(t *testing.T) {
	t.Parallel()
	asked, told := make(chan struct{}), make(chan struct{})
	worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		close(asked)
		<-told
		msgs, err := run.Next(ctx)
		if err != nil || len(msgs) != 1 {
			return agui.WorkerOutput{}, fmt.Errorf("%v, %w", msgs, err)
		}
		return agui.WorkerOutput{Answer: "and " + msgs[0].Content}, nil
	}}
	b := open(t, runtime.Config{}, worker)
	s := b.start("main", "worker", "x")
	<-asked
	if _, err := b.Append(context.Background(), local, s.RunID, runtime.AppendRequest{Content: "more"}); err != nil {
		t.Fatal(err)
	}
	close(told)
	run := b.wait(s.RunID, runtime.Completed)
	if run.Generation != 1 || *run.OutputSummary != "and more" {
		t.Errorf("generation %d, output %q", run.Generation, *run.OutputSummary)
	}
	checkLog(t, b.log("main"))
}

func TestNeighboursAreNotFound(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, hello)
	s := b.start("main", "hello", "x")
	b.wait(s.RunID, runtime.Completed)
	other := runtime.MustCaller("default", "other", runtime.RoleUser)
	ctx := context.Background()
	_, err1 := b.Run(ctx, other, s.RunID)
	_, err2 := b.Cancel(ctx, other, s.RunID)
	_, err3 := b.Append(ctx, other, s.RunID, runtime.AppendRequest{Content: "x"})
	_, err4 := b.Thread(ctx, other, "main")
	_, err5 := b.Thread(ctx, other, s.ConversationID)
	for i, err := range []error{err1, err2, err3, err4, err5, b.Delete(ctx, other, s.RunID)} {
		if code(err) != "not_found" {
			t.Errorf("%d: %v", i+1, err)
		}
	}
}

func TestDeletedRunLeavesAGapThatReadersMeet(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, hello)
	first := b.start("main", "hello", "one")
	b.wait(first.RunID, runtime.Completed)
	second := b.start("main", "hello", "two")
	b.wait(second.RunID, runtime.Completed)
	before := b.log("main")
	if err := b.Delete(context.Background(), local, first.RunID); err != nil {
		t.Fatal(err)
	}
	th, _ := b.Thread(context.Background(), local, "main")
	cur, err := b.Read(context.Background(), th, 3, false)
	if err != nil {
		t.Fatal(err)
	}
	defer cur.Close()
	recs, err := cur.Next(context.Background())
	if err != nil || len(recs) != 3 || recs[0].ID != 0 || recs[1].ID != 0 || recs[2].ID != int64(len(before)/2) {
		t.Fatalf("%v, %v", recs, err)
	}
	recs, err = cur.Next(context.Background())
	if err != nil || recs[0].ID != int64(len(before)/2)+1 {
		t.Errorf("behind the gap: %v, %v", recs, err)
	}
}

var picks = agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	if run.Input.Query != "pick" {
		return agui.WorkerOutput{Answer: "no pick"}, nil
	}
	out, err := run.CallTool(ctx, "pick", map[string]any{})
	if err != nil {
		return agui.WorkerOutput{}, err
	}
	return agui.WorkerOutput{Answer: "picked " + out.ResultSummary}, nil
}}

var pickTool = []agui.Tool{{Name: "pick", Parameters: []byte(`{"type":"object"}`)}}

// pending returns a run's open interrupts.
func pending(b *bench, run string) string {
	b.t.Helper()
	b.wait(run, runtime.Waiting)
	ins, err := b.Interrupts(context.Background(), local, run)
	if err != nil || len(ins) != 1 {
		b.t.Fatalf("interrupts %v, %v", ins, err)
	}
	return ins[0].ID
}

func TestClientResendsItsToolMessages(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, picks)
	s, err := b.StartRun(context.Background(), local, runtime.StartRequest{Agent: "worker", ThreadID: "main", Messages: user("pick"), Tools: pickTool})
	if err != nil {
		t.Fatal(err)
	}
	id := pending(b, s.RunID)
	answer := agui.Message{ID: "m1", Role: agui.RoleTool, ToolCallID: id, Content: "red"}
	if _, err := b.StartRun(context.Background(), local, runtime.StartRequest{ThreadID: "main", Tools: pickTool, Messages: []agui.Message{answer}}); err != nil {
		t.Fatal(err)
	}
	b.wait(s.RunID, runtime.Completed)
	if _, err := b.StartRun(context.Background(), local, runtime.StartRequest{ThreadID: "main", Messages: []agui.Message{
		answer, {ID: "m3", Role: agui.RoleUser, Content: "go on"},
	}}); err != nil {
		t.Errorf("the history with the client's own tool message: %v", err)
	}
}

func TestCancelOfAnAnsweredRunKeepsTheAnswer(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	b := open(t, runtime.Config{Limits: runtime.Limits{Runs: 1}}, picks, gated(gate))
	s, err := b.StartRun(context.Background(), local, runtime.StartRequest{Agent: "worker", ThreadID: "main", Messages: user("pick"), Tools: pickTool})
	if err != nil {
		t.Fatal(err)
	}
	id := pending(b, s.RunID)
	other := b.start("other", "gated", "x")
	b.wait(other.RunID, runtime.Running)
	if _, err := b.Resume(context.Background(), local, s.RunID, []agui.ResumeEntry{{InterruptID: id, Status: "resolved", Payload: []byte(`"red"`)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Cancel(context.Background(), local, s.RunID); err != nil {
		t.Fatal(err)
	}
	gate <- struct{}{}
	b.wait(other.RunID, runtime.Completed)
	checkLog(t, b.log("main"))
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
	s, err := b.StartRun(context.Background(), local, runtime.StartRequest{Agent: "worker", ThreadID: "main", Messages: user("pick"), Tools: pickTool})
	if err != nil {
		t.Fatal(err)
	}
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
	if _, err := b.Cancel(t.Context(), local, discarded.RunID); err != nil {
		t.Fatal(err)
	}
	cur, err := b.ReadRun(t.Context(), discarded)
	if err != nil {
		t.Fatal(err)
	}
	defer cur.Close()
	recs, err := cur.Next(t.Context())
	if err != nil || len(recs) != 2 || recs[0].ID != 0 || !recs[1].Terminal() {
		t.Errorf("got %v, %v; want a span without ids", recs, err)
	}
	b.wait(next.RunID, runtime.Queued)
}
