package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/sim/memory"
)

// crash starts a second runtime on the database, which fences the first one as after a crash, and waits until the
// first one has noticed.
func (b *bench) crash() {
	b.t.Helper()
	old, store := b.Runtime, b.store
	if !filepath.IsAbs(b.path) { // nobody waits for its lease
		b.exec("UPDATE instances SET process = process || '0' WHERE NOT fenced")
	}
	b.up()
	for in, err := b.store.Members().Instance(b.t.Context(), old.Member.Instance); in.End == ""; in, err = b.store.Members().Instance(b.t.Context(), old.Member.Instance) {
		must(b.t, err)
		<-tick() // it has committed while it was fenced, as no process does that has ended: the next watch fences it
	}
	agent := b.cfg.Registry.Agents()[0].Info().Name
	if _, err := old.StartRun(context.Background(), local, runtime.StartRequest{Agent: agent}); err == nil {
		b.t.Fatal("a fenced instance has started a run")
	}
	<-old.Member.Fenced()
	b.t.Cleanup(func() {
		_ = old.Shutdown(context.Background())
		_ = store.Close()
	})
}

func say(run *plugins.Run, words ...string) error {
	w := run.Text()
	for _, s := range words {
		if _, err := io.WriteString(w, s); err != nil {
			return err
		}
	}
	return w.Close()
}

// hang waits until the run is taken from its worker.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// texts returns the messages' texts.
func texts(msgs []runtime.Message) string {
	list := make([]string, len(msgs))
	for i := range msgs {
		list[i] = msgs[i].Text()
	}
	return strings.Join(list, ", ")
}

func TestFailureAfterACrashWithdrawsQuestions(t *testing.T) {
	t.Parallel()
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
		ins, _ := b.Runs.Interrupts(context.Background(), local, s.RunID)
		if len(ins) == 1 {
			break
		}
		<-tick()
	}
	for {
		n, _ := b.Runs.Nodes(context.Background(), local, s.RunID)
		if len(n) == 2 && (n[0].Status == runtime.Waiting || n[1].Status == runtime.Waiting) {
			break
		}
		<-tick()
	}
	b.crash()
	<-asked
	fail <- struct{}{}
	b.wait(s.RunID, runtime.Failed)
	if ins, err := b.Runs.Interrupts(context.Background(), local, s.RunID); err != nil || len(ins) != 0 {
		t.Errorf("a failed run still asks %v, %v", ins, err)
	}
}

func TestCompletedNodeForgivesCrashes(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{}, 1)
	var hung sync.Map
	worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if _, again := hung.LoadOrStore(run.Input.Node, true); !again {
			entered <- struct{}{}
			return agui.WorkerOutput{}, hang(ctx)
		}
		return agui.WorkerOutput{Answer: "done"}, nil
	}}
	b := open(t, runtime.Config{Limits: runtime.Limits{MaxAttempts: 1}}, worker, plugins.Workflow{Name: "flow", Nodes: []plugins.Node{
		{ID: "a", Agent: "worker"}, {ID: "b", Agent: "worker", Needs: []string{"a"}}, {ID: "c", Agent: "worker", Needs: []string{"b"}},
	}})
	s := b.startWorkflow("main", "flow", "x")
	for before := range 3 {
		<-entered
		b.until("the nodes before are not stored", func() bool {
			nodes, err := b.Runs.Nodes(t.Context(), local, s.RunID)
			nodes = slices.DeleteFunc(nodes, func(n runtime.Node) bool { return n.Status != runtime.Completed })
			return err == nil && len(nodes) == before
		})
		b.crash()
	}
	b.wait(s.RunID, runtime.Completed)
}

// mortal is a store that another instance takes over after a number of commits.
type mortal struct {
	runtime.Store
	left atomic.Int64
}

func (m *mortal) Commit(ctx context.Context, n int64, batch *data.Batch) error {
	if m.left.Add(-1) < 0 {
		return runtime.ErrFenced
	}
	return m.Store.Commit(ctx, n, batch)
}

// lives crashes a run after each of its commits in turn, until it ends without a crash. drive brings the run to its
// end.
func lives(t *testing.T, b *bench, what runtime.StartRequest, drive func(k int, run runtime.Run)) {
	t.Helper()
	for k := int64(1); ; k++ {
		m := &mortal{Store: b.store}
		m.left.Store(1 << 40)
		b.injectStore(m)
		m.left.Store(k)
		what.ThreadID, what.Messages = fmt.Sprint(what.Agent, what.WorkflowID, k), user("x")
		s := b.request(what)
		crashed := false
		for ; ; <-tick() {
			if m.left.Load() < 0 && !crashed {
				<-b.Member.Fenced()
				b.crash()
				crashed = true
			}
			run, err := b.Runs.Get(context.Background(), local, s.RunID)
			must(t, err)
			drive(int(k), run)
			if run.Status.Final() {
				break
			}
		}
		recs := b.log(what.ThreadID)
		checkLog(t, recs)
		if t.Failed() {
			for _, r := range recs {
				t.Logf("%d %s", r.ID, r.Event.AppendJSON(nil, agui.Stored))
			}
			return
		}
		if m.left.Load() >= 0 {
			return
		}
	}
}

// slowBox is a toolbox with one tool, which comes late.
type slowBox struct {
	settled chan struct{}
	tool    tool
}

func (*slowBox) Info() plugins.Info         { return plugins.Info{Name: "slow"} }
func (b *slowBox) Settled() <-chan struct{} { return b.settled }

func (b *slowBox) Tools() []plugins.Tool {
	select {
	case <-b.settled:
		return []plugins.Tool{b.tool}
	default:
		return nil
	}
}

// A call that had begun waits for its tool, which alone says whether the call may be made again, however long the tool's server takes to
// start.
func TestCrash_BegunCallWaitsForItsTool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := memory.New(time.Now)
		worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			out, err := run.CallTool(ctx, "slow.get", nil)
			return agui.WorkerOutput{Answer: out.ResultSummary}, err
		}}
		start := func(settles time.Duration, call func(context.Context, *plugins.Call) (agui.ToolOutput, error)) *runtime.Runtime {
			box := &slowBox{make(chan struct{}), tool{plugins.Info{Name: "slow.get", Idempotent: true}, call}}
			time.AfterFunc(settles, func() { close(box.settled) })
			reg := new(host.Registry)
			must(t, reg.Add(worker, box))
			rt, err := runtime.New(runtime.Config{Store: db.Open(), Registry: reg, Log: slog.New(slog.DiscardHandler)})
			if err == nil {
				err = rt.Start(t.Context())
			}
			must(t, err)
			return rt
		}
		began := make(chan struct{})
		first := start(0, func(ctx context.Context, _ *plugins.Call) (agui.ToolOutput, error) {
			close(began)
			return agui.ToolOutput{}, hang(ctx)
		})
		s, err := first.StartRun(t.Context(), local, runtime.StartRequest{Agent: "worker", Messages: user("go")})
		must(t, err)
		<-began
		second := start(time.Minute, func(context.Context, *plugins.Call) (agui.ToolOutput, error) {
			return agui.ToolOutput{ResultSummary: "got it"}, nil
		})
		<-first.Member.Fenced()
		<-time.After(2 * time.Minute)
		run, err := second.Runs.Get(t.Context(), local, s.RunID)
		if err != nil || run.Status != runtime.Completed || run.OutputSummary == nil || *run.OutputSummary != "got it" {
			t.Errorf("the run is %s: %+v, %v", run.Status, run.Error, err)
		}
		for _, rt := range []*runtime.Runtime{first, second} {
			if err := rt.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}
