package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

var rollEverything = os.Getenv("ROLL") != ""

// undone is a store that rolls every transaction with ops or rows back once before it lets it through.
type undone struct {
	runtime.Store
	done atomic.Int64 // the last batch that was rolled back
}

func (u *undone) Commit(ctx context.Context, n int64, evs []runtime.StoredEvent, apply func(runtime.Tx) error) error {
	if apply == nil || u.done.Swap(n) == n {
		return u.Store.Commit(ctx, n, evs, apply)
	}
	return u.Store.Commit(ctx, n, evs, func(tx runtime.Tx) error {
		if err := apply(tx); err != nil {
			return err
		}
		return fmt.Errorf("rolled back: %w", runtime.ErrUnavailable)
	})
}

// injectStore puts a store between the bench and its own, and starts the runtime anew.
func (b *bench) injectStore(s runtime.Store) {
	b.t.Helper()
	if err := b.Shutdown(context.Background()); err != nil {
		b.t.Fatal(err)
	}
	b.cfg.Store = s
	var err error
	if b.Runtime, err = runtime.New(b.cfg); err != nil {
		b.t.Fatal(err)
	}
	if err := b.Start(context.Background()); err != nil {
		b.t.Fatal(err)
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

func pending(b *bench, run string) string {
	b.t.Helper()
	b.wait(run, runtime.Waiting)
	ins, err := b.Interrupts(context.Background(), local, run)
	if err != nil || len(ins) != 1 {
		b.t.Fatalf("interrupts %v, %v", ins, err)
	}
	return ins[0].ID
}

func TestReviewAnswerSurvivesRollback(t *testing.T) {
	b := open(t, runtime.Config{}, picks)
	b.injectStore(&undone{Store: b.store})
	s, err := b.StartRun(context.Background(), local, runtime.StartRequest{Agent: "worker", ThreadID: "main", Messages: user("pick"), Tools: pickTool})
	if err != nil {
		t.Fatal(err)
	}
	id := pending(b, s.RunID)
	again, err := b.StartRun(context.Background(), local, runtime.StartRequest{ThreadID: "main", RunID: "r2", Tools: pickTool, Messages: []agui.Message{
		{ID: "m1", Role: agui.RoleTool, ToolCallID: id, Content: "red"},
		{ID: "m2", Role: agui.RoleUser, Content: "and this"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if again.RunKey != s.RunKey {
		t.Errorf("the answer has started another run")
	}
	if r := b.wait(s.RunID, runtime.Completed, runtime.Cancelled); r.Status != runtime.Completed {
		t.Errorf("run is %s", r.Status)
	}
	checkLog(t, b.log("main"))
}

func TestReviewClientResendsItsToolMessages(t *testing.T) {
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

func TestReviewAnsweredQueuedThenCancelled(t *testing.T) {
	gate := make(chan struct{})
	b := open(t, runtime.Config{Runs: 1}, picks, gated(gate))
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

func TestReviewToolNode(t *testing.T) {
	fails := tool{plugins.Info{Name: "fails"}, func(context.Context, *plugins.Call) (agui.ToolOutput, error) {
		return agui.ToolOutput{Status: agui.StatusFailure, ResultSummary: "no luck"}, nil
	}}
	flow := plugins.Workflow{Name: "flow", Nodes: []plugins.Node{{ID: "a", Tool: "fails", Input: `{"x": 1}`}}}
	b := open(t, runtime.Config{}, fails, flow)
	s := b.startWorkflow("main", "flow", "hello")
	b.wait(s.RunID, runtime.Failed)
	checkLog(t, b.log("main"))
}

func TestReviewToolNodeWithPlainQuery(t *testing.T) {
	fine := tool{plugins.Info{Name: "fine"}, func(context.Context, *plugins.Call) (agui.ToolOutput, error) {
		return agui.ToolOutput{ResultSummary: "fine"}, nil
	}}
	flow := plugins.Workflow{Name: "flow", Nodes: []plugins.Node{{ID: "a", Tool: "fine"}}}
	b := open(t, runtime.Config{}, fine, flow)
	s := b.startWorkflow("main", "flow", "hello")
	b.wait(s.RunID, runtime.Failed)
	checkLog(t, b.log("main"))
}

func TestReviewBadHints(t *testing.T) {
	bad := agent{"bad", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{Answer: "x", UIHints: []byte(`{nope`)}, nil
	}}
	b := open(t, runtime.Config{}, bad)
	s := b.start("main", "bad", "hello")
	b.wait(s.RunID, runtime.Failed)
	checkLog(t, b.log("main"))
}

func TestReviewBadToolHints(t *testing.T) {
	fine := tool{plugins.Info{Name: "fine"}, func(context.Context, *plugins.Call) (agui.ToolOutput, error) {
		return agui.ToolOutput{ResultSummary: "fine", UIHints: []byte(`{nope`)}, nil
	}}
	flow := plugins.Workflow{Name: "flow", Nodes: []plugins.Node{{ID: "a", Tool: "fine", Input: `{"x": 1}`}}}
	b := open(t, runtime.Config{}, fine, flow)
	s := b.startWorkflow("main", "flow", "hello")
	b.wait(s.RunID, runtime.Failed, runtime.Completed)
	checkLog(t, b.log("main"))
}

func TestReviewHugeText(t *testing.T) {
	chunk := strings.Repeat("x", 1<<20)
	huge := agent{"huge", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		w := run.Text(agui.RoleAssistant, "")
		for range 9 {
			if _, err := w.Write([]byte(chunk)); err != nil {
				return agui.WorkerOutput{}, err
			}
		}
		return agui.WorkerOutput{}, w.Close()
	}}
	b := open(t, runtime.Config{}, huge, hello)
	s := b.start("main", "huge", "x")
	deadline := time.Now().Add(20 * time.Second)
	for {
		r, err := b.Run(context.Background(), local, s.RunID)
		if err != nil {
			t.Fatal(err)
		}
		if r.Status.Final() {
			t.Logf("%s %+v", r.Status, r.Error)
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("run is %s", r.Status)
		}
		<-tick()
	}
	checkLog(t, b.log("main"))
	b.wait(b.start("main", "hello", "again").RunID, runtime.Completed)
}

func TestReviewUnclaimableRunFails(t *testing.T) {
	gate := make(chan struct{})
	b := open(t, runtime.Config{}, gated(gate), hello)
	first := b.start("main", "gated", "1")
	second, err := b.StartRun(context.Background(), local, runtime.StartRequest{Agent: "hello", ThreadID: "main", Messages: user(strings.Repeat("\x01", 2_000_000))})
	if err != nil {
		if code(err) == "messages_too_large" {
			gate <- struct{}{}
			b.wait(first.RunID, runtime.Completed)
			return
		}
		t.Fatal(err)
	}
	gate <- struct{}{}
	b.wait(first.RunID, runtime.Completed)
	deadline := time.Now().Add(10 * time.Second)
	for {
		r, _ := b.Run(context.Background(), local, second.RunID)
		if r.Status.Final() {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("run is %s", r.Status)
		}
		<-tick()
	}
	checkLog(t, b.log("main"))
}

// 9 messages of 1 MiB wait for a restart.
func TestReviewManyAppendsThenRestart(t *testing.T) {
	gate := make(chan struct{})
	b := open(t, runtime.Config{}, gated(gate), hello)
	done := b.start("main", "hello", "1")
	b.wait(done.RunID, runtime.Completed)
	first := b.start("main", "gated", "2")
	for range 9 {
		if _, err := b.Append(context.Background(), local, done.RunID, runtime.AppendRequest{Content: strings.Repeat("y", 1<<20)}); err != nil {
			t.Fatal(err)
		}
	}
	gate <- struct{}{}
	b.wait(first.RunID, runtime.Completed)
	deadline := time.Now().Add(20 * time.Second)
	for {
		r, _ := b.Run(context.Background(), local, done.RunID)
		if r.Status.Final() {
			t.Logf("%s %+v", r.Status, r.Error)
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("run is %s", r.Status)
		}
		<-tick()
	}
	checkLog(t, b.log("main"))
}

func TestReviewHeldEndKeepsItsRow(t *testing.T) {
	worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		err := run.Do(ctx, "one", nil, func(context.Context) error {
			if err := run.Emit(agui.ActivitySnapshot{MessageID: "a1", ActivityType: "PLAN", Content: []byte(`{}`)}); err != nil {
				return err
			}
			_ = run.Emit(agui.RunFinished{})
			return nil
		})
		return agui.WorkerOutput{Answer: "x"}, err
	}}
	b := open(t, runtime.Config{}, worker)
	s := b.start("main", "worker", "x")
	b.wait(s.RunID, runtime.Completed)
	msgs, _, err := b.Messages(context.Background(), local, s.RunID, 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(msgs, func(m runtime.Message) bool { return m.ID == "a1" }) {
		t.Errorf("the log has a message that the rows have not: %+v", msgs)
	}
}

func TestReviewResumeAfterCrashWithTheLogsEnd(t *testing.T) {
	entered := make(chan struct{}, 2)
	worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if err := run.Do(ctx, "say", nil, func(context.Context) error { return say(run, "hi ", "there") }); err != nil {
			return agui.WorkerOutput{}, err
		}
		entered <- struct{}{}
		return agui.WorkerOutput{}, hang(ctx)
	}}
	b := open(t, runtime.Config{}, worker)
	s := b.start("main", "worker", "x")
	<-entered
	b.crash()
	<-entered
	th, err := b.Thread(context.Background(), local, "main")
	if err != nil {
		t.Fatal(err)
	}
	cur, err := b.Read(context.Background(), th, 4, false)
	if err != nil {
		t.Fatalf("a reader goes on behind its last event: %v", err)
	}
	cur.Close()
	if _, err := b.Cancel(context.Background(), local, s.RunID); err != nil {
		t.Fatal(err)
	}
}

func TestReviewCrashedAskThenFailureWithdraws(t *testing.T) {
	asked, fail := make(chan struct{}, 1), make(chan struct{}, 1)
	asks := agent{"asks", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		_, err := run.Ask(ctx, agui.Interrupt{Message: "ok?"})
		return agui.WorkerOutput{}, err
	}}
	fails := agent{"fails", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		asked <- struct{}{}
		select {
		case <-fail:
			return agui.WorkerOutput{}, errors.New("boom")
		case <-ctx.Done():
			return agui.WorkerOutput{}, ctx.Err()
		}
	}}
	flow := plugins.Workflow{Name: "flow", Nodes: []plugins.Node{{ID: "a", Agent: "asks"}, {ID: "b", Agent: "fails"}}}
	b := open(t, runtime.Config{}, asks, fails, flow)
	s := b.startWorkflow("main", "flow", "x")
	<-asked
	for {
		ins, _ := b.Interrupts(context.Background(), local, s.RunID)
		if len(ins) == 1 {
			break
		}
		<-tick()
	}
	for {
		n, _ := b.Nodes(context.Background(), local, s.RunID)
		if len(n) == 2 && (n[0].Status == runtime.Waiting || n[1].Status == runtime.Waiting) {
			break
		}
		<-tick()
	}
	b.crash()
	<-asked
	fail <- struct{}{}
	b.wait(s.RunID, runtime.Failed)
	if ins, err := b.Interrupts(context.Background(), local, s.RunID); err != nil || len(ins) != 0 {
		t.Errorf("a failed run still asks %v, %v", ins, err)
	}
}

func TestReviewAnswerWithPartsIsTaken(t *testing.T) {
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
		{ID: "m3", Role: agui.RoleUser},
	}}); err != nil {
		t.Fatal(err)
	}
	if r := b.wait(s.RunID, runtime.Completed, runtime.Failed); r.Status != runtime.Completed {
		t.Errorf("run is %s: %+v", r.Status, r.Error)
	}
	checkLog(t, b.log("main"))
}

func TestReviewRollbackStateSurvivesACrash(t *testing.T) {
	states := make(chan string, 4)
	worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if run.Input.Query == "first" {
			if err := run.State(map[string]any{"n": 1}); err != nil {
				return agui.WorkerOutput{}, err
			}
		}
		states <- string(run.Input.State)
		return agui.WorkerOutput{}, hang(ctx)
	}}
	b := open(t, runtime.Config{}, worker)
	b.start("main", "worker", "first")
	<-states
	s, err := b.StartRun(context.Background(), local, runtime.StartRequest{ThreadID: "main", Messages: user("second"), Multitask: runtime.RollbackRuns})
	if err != nil {
		t.Fatal(err)
	}
	if st := <-states; st != "{}" {
		t.Errorf("state %s", st)
	}
	b.crash()
	if st := <-states; st != "{}" {
		t.Errorf("after the crash: state %s", st)
	}
	if _, err := b.Cancel(context.Background(), local, s.RunID); err != nil {
		t.Fatal(err)
	}
}
