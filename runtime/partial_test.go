package runtime_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// counter counts what workers do.
type counter struct {
	mu   sync.Mutex
	done map[string]int
}

func (l *counter) add(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done[what]++
}

func (l *counter) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprint(l.done)
}

// questioner asks what its query says, and does something once before and once behind the answer.
func questioner(l *counter, q agui.Interrupt) agent {
	return agent{"questioner", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		about := run.Input.Query
		do := func(what string) error {
			return run.Do(ctx, what, nil, func(context.Context) error { l.add(what + " " + about); return nil })
		}
		if err := do("before"); err != nil {
			return agui.WorkerOutput{}, err
		}
		q := q
		q.Message = about
		a, err := run.Ask(ctx, q)
		if err != nil {
			return agui.WorkerOutput{}, err
		}
		return agui.WorkerOutput{Answer: about + "=" + string(a.Payload)}, do("behind")
	}}
}

// Three open questions are answered one by one, in any order, over restarts, and by different ways: of parallel nodes, of sub-agents of one
// worker, and of one step's calls. The others stay open under their ids, and nothing that was recorded is done again.
func TestAnswers_OneByOne(t *testing.T) {
	t.Parallel()
	topics := []string{"a", "b", "c"}
	each := func(_ *plugins.Run, ask func(topic string) (string, error)) (agui.WorkerOutput, error) {
		got, errs := make([]string, len(topics)), make([]error, len(topics))
		var all sync.WaitGroup
		for i, topic := range topics {
			all.Go(func() { got[i], errs[i] = ask(topic) })
		}
		all.Wait()
		for _, err := range errs {
			if err != nil {
				return agui.WorkerOutput{}, err
			}
		}
		return agui.WorkerOutput{Answer: strings.Join(got, " ")}, nil
	}
	boss := agent{"boss", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		return each(run, func(topic string) (string, error) {
			out, err := run.CallAgent(run.Branch(ctx, topic), "questioner", topic)
			return out.Answer, err
		})
	}}
	var flow plugins.Workflow
	flow.Name = "flow"
	for _, topic := range topics {
		flow.Nodes = append(flow.Nodes, plugins.Node{ID: topic, Agent: "questioner", Input: "'" + topic + "'"})
	}
	flow.Nodes = append(flow.Nodes, plugins.Node{ID: "join", Agent: "echo", Needs: topics, Input: "nodes.a.answer + ' ' + nodes.b.answer + ' ' + nodes.c.answer"})
	echo := answering("echo", func(q string) string { return q })
	for name, start := range map[string]func(b *bench) runtime.Started{
		"sub-agents": func(b *bench) runtime.Started { return b.start("main", "boss", "go") },
		"nodes":      func(b *bench) runtime.Started { return b.startWorkflow("main", "flow", "go") },
	} {
		t.Run(name, func(t *testing.T) {
			l := &counter{done: make(map[string]int)}
			b := open(t, runtime.Config{}, boss, flow, echo, questioner(l, agui.Interrupt{}))
			s := start(b)
			b.wait(s.RunID, runtime.Waiting)
			open := questionsIn(b.log("main"))
			if len(open) != 3 {
				t.Fatalf("it asks %v", open)
			}
			for _, topic := range []string{"b", "c", "a"} {
				b.restart()
				i := slices.IndexFunc(open, func(in agui.Interrupt) bool { return in.Message == topic })
				answer := []agui.ResumeEntry{{InterruptID: open[i].ID, Status: "resolved", Payload: []byte(`"` + topic + `!"`)}}
				if _, err := b.Resume(context.Background(), local, s.RunID, answer); err != nil {
					t.Fatal(err)
				}
				left := slices.Delete(slices.Clone(open), i, i+1)
				if len(left) == 0 {
					break
				}
				b.wait(s.RunID, runtime.Waiting)
				if open = questionsIn(b.log("main")); fmt.Sprint(idsOf(open)) != fmt.Sprint(idsOf(left)) {
					t.Fatalf("behind the answer to %s it asks %v, want %v", topic, idsOf(open), idsOf(left))
				}
			}
			recs := b.log("main")
			checkLog(t, recs)
			if run := b.wait(s.RunID, runtime.Completed); *run.OutputSummary != `a="a!" b="b!" c="c!"` {
				t.Errorf("its output is %s", *run.OutputSummary)
			}
			if got, want := l.String(), "map[before a:1 before b:1 before c:1 behind a:1 behind b:1 behind c:1]"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func idsOf(list []agui.Interrupt) (ids []string) {
	for _, in := range list {
		ids = append(ids, in.ID)
	}
	slices.Sort(ids)
	return ids
}

// An answer that comes while the run goes on with another one begins the next span; a process that dies in between loses neither.
func TestAnswers_WhileTheRunGoesOn(t *testing.T) {
	t.Parallel()
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprint("crash ", crash), func(t *testing.T) {
			working, goOn := make(chan bool, 9), make(chan bool)
			slow := agent{"slow", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
				a, err := run.Ask(ctx, agui.Interrupt{Message: "slow"})
				if err != nil {
					return agui.WorkerOutput{}, err
				}
				working <- true
				select {
				case <-goOn:
				case <-ctx.Done():
					return agui.WorkerOutput{}, ctx.Err()
				}
				return agui.WorkerOutput{Answer: string(a.Payload)}, nil
			}}
			fast := agent{"fast", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
				a, err := run.Ask(ctx, agui.Interrupt{Message: "fast"})
				return agui.WorkerOutput{Answer: string(a.Payload)}, err
			}}
			flow := plugins.Workflow{Name: "flow", Nodes: []plugins.Node{
				{ID: "a", Agent: "slow"},
				{ID: "b", Agent: "fast"},
				{ID: "join", Agent: "echo", Needs: []string{"a", "b"}, Input: "nodes.a.answer + nodes.b.answer"},
			}}
			b := open(t, runtime.Config{}, slow, fast, flow, answering("echo", func(q string) string { return q }))
			s := b.startWorkflow("main", "flow", "go")
			b.wait(s.RunID, runtime.Waiting)
			open := questionsIn(b.log("main"))
			answer := func(topic string) {
				t.Helper()
				i := slices.IndexFunc(open, func(in agui.Interrupt) bool { return in.Message == topic })
				if _, err := b.Resume(context.Background(), local, s.RunID, []agui.ResumeEntry{{InterruptID: open[i].ID, Status: "resolved", Payload: []byte("1")}}); err != nil {
					t.Fatal(err)
				}
			}
			answer("slow")
			<-working
			answer("fast")
			if crash {
				b.crash()
				<-working
			}
			close(goOn)
			if run := b.wait(s.RunID, runtime.Completed); *run.OutputSummary != "11" {
				t.Errorf("its output is %s", *run.OutputSummary)
			}
			recs := b.log("main")
			checkLog(t, recs)
			var spans []int
			for _, rec := range recs {
				if begun, ok := rec.Event.(agui.RunStarted); ok {
					spans = append(spans, len(begun.Input.Resume))
				}
			}
			if !slices.Equal(spans, []int{0, 1, 1}) {
				t.Errorf("the spans begin with so many answers: %v", spans)
			}
		})
	}
}

// A question that expires beside an open one is answered alone, and a cancel ends what is half answered.
func TestAnswers_ExpiryBesideAnOpenQuestion(t *testing.T) {
	t.Parallel()
	l := &counter{done: make(map[string]int)}
	lasting := agent{"lasting", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		_, err := run.Ask(ctx, agui.Interrupt{Message: "lasting"})
		return agui.WorkerOutput{}, err
	}}
	brief := questioner(l, agui.Interrupt{ExpiresAt: time.Now().Add(time.Millisecond).UTC().Format(time.RFC3339Nano)})
	flow := plugins.Workflow{Name: "flow", Nodes: []plugins.Node{{ID: "a", Agent: "questioner"}, {ID: "b", Agent: "lasting"}}}
	b := open(t, runtime.Config{}, lasting, brief, flow)
	s := b.startWorkflow("main", "flow", "go")
	for behind := false; !behind; behind = strings.Contains(l.String(), "behind") {
		<-tick()
	}
	b.wait(s.RunID, runtime.Waiting)
	recs := b.log("main")
	checkLog(t, recs)
	if open := questionsIn(recs); len(open) != 1 || open[0].Message != "lasting" {
		t.Errorf("it asks %v", open)
	}
	if _, err := b.Cancel(context.Background(), local, s.RunID); err != nil {
		t.Fatal(err)
	}
	checkLog(t, b.log("main"))
}
