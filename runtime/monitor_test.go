package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// lookout is a monitor with frames for a test.
type lookout struct {
	t *testing.T
	*runtime.Monitor
	view runtime.View
}

func (b *bench) watch(c runtime.Caller, q runtime.MonitorQuery) *lookout {
	m := b.Monitor(c, q)
	b.t.Cleanup(m.Close)
	return &lookout{b.t, m, q.View}
}

// frame is a notice in the form of a stream of server-sent events.
func frame(n *runtime.Notice, v runtime.View) string {
	return fmt.Sprintf("id: %s\nevent: %s\ndata: %s\n\n", n.ID(), n.Type(v), n.JSON(v))
}

// until returns the frames up to the first that holds part; the next call continues behind them.
func (l *lookout) until(part string) (frames []string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		notices, err := l.Next(ctx)
		if err != nil {
			l.t.Fatalf("%v before %s in %q", err, part, frames)
		}
		for _, n := range notices {
			frames = append(frames, frame(n, l.view))
			if strings.Contains(frames[len(frames)-1], part) {
				return frames
			}
		}
	}
}

// all returns the frames that are there.
func (l *lookout) all() (frames []string) {
	l.t.Helper()
	for {
		notices, err := l.Next(expired)
		if errors.Is(err, context.Canceled) {
			return frames
		}
		must(l.t, err)
		for _, n := range notices {
			frames = append(frames, frame(n, l.view))
		}
	}
}

var expired = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// running returns the agents that are running now. Every user of the project sees them.
func (b *bench) running() (names []string) {
	m := b.Monitor(runtime.MustCaller(local.Project(), "neighbour", runtime.RoleUser), runtime.MonitorQuery{View: runtime.AGUIView})
	defer m.Close()
	for _, a := range m.Agents() {
		if a.Status == "running" {
			names = append(names, a.Name)
		}
	}
	return names
}

// expect waits until exactly these agents are running.
func (b *bench) expect(names ...string) {
	b.t.Helper()
	deadline := time.Now().Add(patience)
	for !cmp.Equal(b.running(), names) {
		if time.Now().After(deadline) {
			b.t.Fatalf("running are %q, want %q", b.running(), names)
		}
		<-tick()
	}
}

// summaries returns the contents of EventsView frames, without ids and times.
func summaries(frames []string) (all []string) {
	for _, f := range frames {
		var d map[string]any
		_, event, _ := strings.Cut(f, "event: ")
		event, data, _ := strings.Cut(event, "\ndata: ")
		if json.Unmarshal([]byte(data), &d) != nil {
			return append(all, "not JSON: "+f)
		}
		var s strings.Builder
		s.WriteString(event + " " + d["agent"].(string))
		for _, name := range []string{"text", "tool", "result", "error"} {
			if v, ok := d[name]; ok {
				fmt.Fprint(&s, " ", v)
			}
		}
		if v, ok := d["args"]; ok {
			s.WriteString(" " + string(mustJSON(v)))
		}
		all = append(all, s.String())
	}
	return all
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// release is an agent named worker, which works until the test releases it, or the run is taken away.
func release(gone <-chan struct{}) agent {
	return agent{"worker", func(ctx context.Context, _ *plugins.Run) (agui.WorkerOutput, error) {
		select {
		case <-gone:
			return agui.WorkerOutput{Answer: "worker"}, nil
		case <-ctx.Done():
			return agui.WorkerOutput{}, context.Cause(ctx)
		}
	}}
}

func TestEachExecutionEndsOnce(t *testing.T) {
	t.Parallel()
	fails := 0
	b := open(t, runtime.Config{},
		agent{"good", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			return agui.WorkerOutput{}, say(run, "hi")
		}},
		agent{"flaky", func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
			if fails++; fails == 1 {
				return agui.WorkerOutput{}, &plugins.Error{Message: "try again", Retryable: true}
			}
			return agui.WorkerOutput{Answer: "at last"}, nil
		}},
		agent{"lead", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			if _, err := run.CallAgent(ctx, "good", "x"); err != nil {
				return agui.WorkerOutput{}, err
			}
			_, err := run.CallAgent(ctx, "bad", "x")
			return agui.WorkerOutput{}, err
		}},
		agent{"bad", func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
			return agui.WorkerOutput{}, &plugins.Error{Message: "no luck"}
		}},
		agent{"stepper", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			err := errors.Join(run.Emit(agui.StepStarted{StepName: "inner"}), run.Emit(agui.StepFinished{StepName: "inner"}))
			return agui.WorkerOutput{Answer: "ok"}, err
		}},
		agent{"relay", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) { // a remote agent's report
			far := agui.Base{SubagentRunID: "far", Metadata: json.RawMessage(`{"name":"good"}`)}
			err := errors.Join(run.Emit(agui.SubagentStarted{Base: far, Name: "good"}), run.Emit(agui.SubagentFinished{Base: far}))
			return agui.WorkerOutput{Answer: "ok"}, err
		}},
		tool{plugins.Info{Name: "hammer"}, func(context.Context, *plugins.Call) (agui.ToolOutput, error) {
			return agui.ToolOutput{}, &plugins.Error{Message: "bent"}
		}},
		plugins.Workflow{Name: "retry", Nodes: []plugins.Node{
			{ID: "n", Agent: "flaky", Retry: plugins.Retry{Retries: 1, Initial: time.Millisecond}},
		}},
		plugins.Workflow{Name: "nail", Nodes: []plugins.Node{{ID: "n", Tool: "hammer", Input: `query`}}})
	for name, want := range map[string][]string{
		"good":    {"token good hi", "agent_complete good"},
		"lead":    {"token good hi", "agent_complete good", "error bad no luck", "error lead no luck"},
		"stepper": {"token stepper ok", "agent_complete stepper"},
		"relay":   {"token relay ok", "agent_complete relay"},
		"retry":   {"error flaky try again", "token flaky at last", "agent_complete flaky"},
		"nail": {
			`tool_call_start hammer hammer {"arguments":"x"}`, "tool_call_end hammer hammer the arguments are not JSON",
			"error nail the arguments are not JSON",
		},
	} {
		got := summaries(b.see(name))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		b.expect()
	}
}

// see runs an agent or a workflow and returns its frames of EventsView.
func (b *bench) see(name string) []string {
	b.t.Helper()
	events, runs := b.watch(local, runtime.MonitorQuery{}), b.watch(local, runtime.MonitorQuery{View: runtime.AGUIView})
	req := runtime.StartRequest{Agent: name, Messages: user("x")}
	if _, ok := b.Plugins().Workflow(name); ok {
		req.Agent, req.WorkflowID = "", name
	}
	if _, err := b.StartRun(context.Background(), local, req); err != nil {
		b.t.Fatal(err)
	}
	runs.until(`"duration_ms"`)
	return events.all()
}

// waiting is an agent that asks before it answers.
var waiting = agent{"asker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	_, err := run.Ask(ctx, agui.Interrupt{Message: "may I?"})
	return agui.WorkerOutput{Answer: "thanks"}, err
}}

func TestWaitingIsIdle(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	sub := agent{"sub", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		return run.CallAgent(ctx, "asker", "x")
	}}
	b := open(t, runtime.Config{}, waiting, sub, release(gone),
		plugins.Workflow{Name: "both", Nodes: []plugins.Node{{ID: "a", Agent: "asker"}, {ID: "s", Agent: "sub"}, {ID: "w", Agent: "worker"}}})
	w, runs := b.watch(local, runtime.MonitorQuery{}), b.watch(local, runtime.MonitorQuery{View: runtime.AGUIView})
	s := b.startWorkflow("main", "both", "x")
	b.expect("worker") // while the other runs wait
	close(gone)
	runs.until(`"duration_ms"`) // of the run until it waits
	b.expect()
	if diff := cmp.Diff([]string{"token worker worker", "agent_complete worker"}, summaries(w.all())); diff != "" {
		t.Error(diff)
	}
	open, err := b.Runs.Interrupts(context.Background(), local, s.RunID)
	must(t, err)
	var entries []agui.ResumeEntry
	for _, in := range open {
		entries = append(entries, agui.ResumeEntry{InterruptID: in.ID, Status: "resolved"})
	}
	if _, err := b.Resume(context.Background(), local, s.RunID, entries); err != nil {
		t.Fatal(err)
	}
	runs.until(`"duration_ms"`)
	b.expect()
	got := summaries(w.all())
	for _, want := range []string{"agent_complete asker", "agent_complete sub"} {
		n := 0
		for _, s := range got {
			if s == want {
				n++
			}
		}
		if more := map[string]int{"agent_complete asker": 2, "agent_complete sub": 1}; n != more[want] {
			t.Errorf("%d × %s in %q", n, want, got)
		}
	}
}

func TestCutShortIsIdleAndToldOnce(t *testing.T) {
	t.Parallel()
	never := make(chan struct{})
	stubborn := make(chan struct{})
	defer close(stubborn)
	deaf := agent{"deaf", func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
		<-stubborn // it ignores its context
		return agui.WorkerOutput{}, nil
	}}
	boss := agent{"boss", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		return run.CallAgent(ctx, "worker", "x")
	}}
	fail := make(chan struct{})
	failing := agent{"failing", func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
		<-fail
		return agui.WorkerOutput{}, &plugins.Error{Message: "no luck"}
	}}
	b := open(t, runtime.Config{Limits: runtime.Limits{Grace: time.Millisecond}}, release(never), deaf, boss, failing,
		plugins.Workflow{Name: "all", Nodes: []plugins.Node{{ID: "d", Agent: "deaf"}, {ID: "b", Agent: "boss"}}},
		plugins.Workflow{Name: "one", Nodes: []plugins.Node{{ID: "f", Agent: "failing"}, {ID: "b", Agent: "boss"}}},
		plugins.Workflow{Name: "late", Nodes: []plugins.Node{{ID: "d", Agent: "deaf", Timeout: time.Millisecond}}})

	w, runs := b.watch(local, runtime.MonitorQuery{}), b.watch(local, runtime.MonitorQuery{View: runtime.AGUIView})
	s := b.startWorkflow("main", "all", "x")
	b.expect("boss", "deaf", "worker")
	if _, err := b.Cancel(context.Background(), local, s.RunID); err != nil {
		t.Fatal(err)
	}
	b.expect()
	check := func(want ...string) {
		t.Helper()
		runs.until(`"duration_ms"`)
		got := summaries(w.all())
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	check("error boss Run cancelled", "error deaf Run cancelled", "error worker Run cancelled")

	b.startWorkflow("main", "one", "x")
	b.expect("boss", "failing", "worker")
	close(fail)
	check("error boss no luck", "error failing no luck", "error worker no luck")
	b.expect()

	b.startWorkflow("main", "late", "x")
	check("error deaf The agent did not end in time")
	b.expect() // although the abandoned goroutine still runs
}

func TestCancelledWhileItWaits(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, waiting)
	w := b.watch(local, runtime.MonitorQuery{})
	s := b.start("main", "asker", "x")
	b.wait(s.RunID, runtime.Waiting)
	if _, err := b.Cancel(context.Background(), local, s.RunID); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"error asker Run cancelled"}, summaries(w.until("error"))); diff != "" {
		t.Error(diff)
	}
	b.expect()
}

func TestRestartGoesOnUnderANewEpoch(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*bench){
		"stop":  func(b *bench) { b.down(); b.up() },
		"crash": (*bench).crash,
	} {
		t.Run(name, func(t *testing.T) {
			gone := make(chan struct{})
			boss := agent{"boss", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
				return run.CallAgent(ctx, "worker", "x")
			}}
			b := open(t, runtime.Config{Limits: runtime.Limits{Drain: time.Millisecond}}, boss, release(gone))
			w := b.watch(local, runtime.MonitorQuery{View: runtime.AGUIView})
			s := b.start("main", "boss", "x")
			b.expect("boss", "worker")
			old := w.ID()
			end(b)
			if diff := cmp.Diff([]string{"boss", "worker"}, b.running()); diff != "" {
				t.Error(diff)
			}
			again := b.watch(local, runtime.MonitorQuery{After: old})
			if again.Resumed() || strings.Split(old, "-")[0] == strings.Split(again.ID(), "-")[0] {
				t.Errorf("behind %s the new process goes on at %s", old, again.ID())
			}
			close(gone)
			b.wait(s.RunID, runtime.Completed)
			if got := summaries(again.until("agent_complete\ndata: {\"agent\":\"boss\"")); len(got) < 3 {
				t.Errorf("got %q", got)
			}
			b.expect()
		})
	}
}

// The items that the crash left open are ended first, with their author's name.
func TestRecoveredRunEndsInItsOwnName(t *testing.T) {
	t.Parallel()
	half, again := make(chan struct{}), make(chan struct{})
	writer := agent{"writer", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if _, err := io.WriteString(run.Text(), "cut sho"); err != nil {
			return agui.WorkerOutput{}, err
		}
		if err := run.Do(ctx, "flush", nil, func(context.Context) error { return nil }); err != nil {
			return agui.WorkerOutput{}, err
		}
		select {
		case half <- struct{}{}:
			return agui.WorkerOutput{}, hang(ctx)
		case <-again:
			return agui.WorkerOutput{}, nil
		}
	}}
	b := open(t, runtime.Config{}, writer, plugins.Workflow{Name: "flow", Nodes: []plugins.Node{{ID: "n", Agent: "writer"}}})
	b.startWorkflow("main", "flow", "x")
	<-half
	b.crash()
	w := b.watch(local, runtime.MonitorQuery{View: runtime.AGUIView})
	close(again)
	frames := w.until("RUN_FINISHED")
	if last := frames[len(frames)-1]; !strings.Contains(last, `"agent":"flow"`) {
		t.Errorf("the run ends with %s", last)
	}
}

// Removed events are replayed to no reader, not even to one that resumes from before them, whichever server has removed them.
func TestMonitorsForgetWhatIsRemoved(t *testing.T) {
	t.Parallel()
	worker := answering("worker", func(q string) string { return q })
	t.Run("at the server of the viewer", func(t *testing.T) {
		b := open(t, runtime.Config{}, worker)
		removedIsForgotten(t, b, b)
	})
	t.Run("at another one", func(t *testing.T) {
		x, y := servers(t, runtime.Config{}, worker)
		removedIsForgotten(t, x, y)
	})
}

// removedIsForgotten checks that a viewer of y does not see again what x has removed.
func removedIsForgotten(t *testing.T, x, y *bench) {
	t.Helper()
	admin := runtime.MustCaller("default", "boss", runtime.RoleAdmin)
	say := func(thread, text string) string {
		t.Helper()
		s, err := x.StartRun(t.Context(), local, runtime.StartRequest{Agent: "worker", ThreadID: thread, Messages: user(text)})
		must(t, err)
		x.wait(s.RunID, runtime.Completed)
		return s.RunID
	}
	for _, view := range []runtime.View{runtime.EventsView, runtime.AGUIView} {
		before := y.watch(admin, runtime.MonitorQuery{View: view})
		from := before.ID()
		run := say("kept", "first secret")
		say("gone", "second secret")
		before.until("second secret")
		say("kept", "what stays")
		before.until("what stays")
		must(t, x.Delete(t.Context(), admin, run))
		if err := x.DeleteThread(t.Context(), admin, "gone"); err == nil { // another user has a thread of that name
			t.Error("an admin has deleted its own")
		}
		must(t, x.DeleteThread(t.Context(), local, "gone"))
		seen := strings.Join(y.watch(admin, runtime.MonitorQuery{View: view, After: from}).until("what stays"), "")
		if strings.Contains(seen, "secret") {
			t.Errorf("who comes back sees %s", seen)
		}
	}
}

// A monitor knows what executes at other servers when it is opened, and shows what follows there and here, each run once.
func TestCluster_MonitorsShowAllServers(t *testing.T) {
	t.Parallel()
	ends := make(chan struct{}, 10)
	worker := agent{"worker", func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
		<-ends
		return agui.WorkerOutput{Answer: "worker"}, nil
	}}
	lead := agent{"lead", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		_, err := run.CallAgent(ctx, "worker", "go")
		return agui.WorkerOutput{Answer: "lead"}, err
	}}
	flow := plugins.Workflow{Name: "flow", Nodes: []plugins.Node{{ID: "node", Agent: "lead"}}}
	x, y := servers(t, runtime.Config{}, lead, worker, flow)
	x.startWorkflow("main", "flow", "go")
	y.expect("lead", "worker")
	w := y.watch(local, runtime.MonitorQuery{View: runtime.EventsView})
	want := []string{"token worker worker", "agent_complete worker", "token lead lead", "agent_complete lead"}
	for i, next := range []*bench{y, x, nil} {
		ends <- struct{}{}
		if diff := cmp.Diff(want, summaries(w.until(`{"agent":"lead","duration_ms"`))); diff != "" {
			t.Errorf("run %d: %s", i, diff)
		}
		y.expect()
		if next != nil {
			next.start("main", "lead", "go")
			x.expect("lead", "worker")
			y.expect("lead", "worker")
		}
	}
	if more := w.all(); len(more) > 0 {
		t.Errorf("%q", more)
	}
}
