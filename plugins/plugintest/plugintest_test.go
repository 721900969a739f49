package plugintest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/echo"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/plugins/tools"
	"github.com/batonrun/baton/runtime/agui"
)

type agent func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error)

func (agent) Info() plugins.Info { return plugins.Info{Name: "worker"} }

func (a agent) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	return a(ctx, run)
}

type child struct{ agent }

func (child) Info() plugins.Info { return plugins.Info{Name: "child"} }

type tool struct {
	info plugins.Info
	call func(ctx context.Context, call *plugins.Call) (agui.ToolOutput, error)
}

func (t tool) Info() plugins.Info { return t.info }

func (t tool) Call(ctx context.Context, call *plugins.Call) (agui.ToolOutput, error) {
	return t.call(ctx, call)
}

func say(run *plugins.Run, text string) error {
	w := run.Text()
	if _, err := io.WriteString(w, text); err != nil {
		return err
	}
	return w.Close()
}

// recorder is a testing.TB that records failures.
type recorder struct {
	testing.TB
	failed string
}

func (r *recorder) Errorf(format string, args ...any) { r.failed += fmt.Sprintf(format, args...) }
func (r *recorder) Fatalf(format string, args ...any) { r.failed += fmt.Sprintf(format, args...) }

func TestRun_FailsOnIllegalEvent(t *testing.T) {
	for _, ev := range []agui.Event{agui.StepFinished{StepName: "none"}, agui.RunFinished{}} {
		rec := &recorder{TB: t}
		plugintest.Run(rec, agent(func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			_ = run.Emit(ev)
			return agui.WorkerOutput{}, nil
		}), plugintest.Config{})
		if !strings.Contains(rec.failed, string(ev.Type())) {
			t.Errorf("%s: failed with %q", ev.Type(), rec.failed)
		}
	}
}

func TestRun_FailsOnOtherRequestAtSamePlace(t *testing.T) {
	rec, calls := &recorder{TB: t}, 0
	plugintest.Run(rec, agent(func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		calls++
		_, err := run.CallTool(ctx, "gone", map[string]int{"n": calls})
		return agui.WorkerOutput{}, err
	}), plugintest.Config{CrashAfter: 1})
	if !strings.Contains(rec.failed, "tool:gone#1 was recorded with another request: ") {
		t.Errorf("failed with %q", rec.failed)
	}
}

func TestReplay_FindsRepeatedWork(t *testing.T) {
	twice := agent(func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if err := say(run, "outside of a Do"); err != nil {
			return agui.WorkerOutput{}, err
		}
		return agui.WorkerOutput{Answer: "a"}, run.Do(ctx, "d", nil, func(context.Context) error {
			return run.State(map[string]int{"n": 1})
		})
	})
	rec := &recorder{TB: t}
	plugintest.Replay(rec, twice, plugintest.Config{})
	if !strings.Contains(rec.failed, "a crash before record 1") && !strings.Contains(rec.failed, "a crash after record 1") {
		t.Errorf("failed with %q", rec.failed)
	}
}

func TestReplay_IgnoresInterruptedMessages(t *testing.T) {
	plugintest.Replay(t, agent(func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		w := run.Text()
		if _, err := io.WriteString(w, "one "); err != nil {
			return agui.WorkerOutput{}, err
		}
		if err := run.Do(ctx, "d", nil, func(context.Context) error { return run.Progress(0.5, "") }); err != nil {
			return agui.WorkerOutput{}, err
		}
		if _, err := io.WriteString(w, "two"); err != nil {
			return agui.WorkerOutput{}, err
		}
		return agui.WorkerOutput{}, w.Close()
	}), plugintest.Config{})
}

func TestRun_CompletesInput(t *testing.T) {
	for _, cfg := range []plugintest.Config{
		{Input: plugins.Input{Query: "hi"}},
		{Messages: []agui.Message{{ID: "1", Role: "user", Content: "no"}, {ID: "2", Role: "user", Content: "hi"}}},
	} {
		res := plugintest.Run(t, agent(func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			in := run.Input
			last, more, err := run.Messages(ctx, 1)
			if in.Query != "hi" || in.Node != "worker" || in.Execution != 1 || in.RunID == "" || err != nil || len(last) != 1 || last[0].Content != "hi" || more != (len(cfg.Messages) > 1) {
				t.Errorf("input %+v, messages %+v, %v, %v", in, last, more, err)
			}
			return agui.WorkerOutput{Answer: "ho"}, nil
		}), cfg)
		if m := res.Messages(); m[len(m)-2].Content != "hi" || m[len(m)-1].Content != "ho" {
			t.Errorf("messages %+v", m)
		}
	}
}

func TestRun_AnswersClientTools(t *testing.T) {
	a := agent(func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		out, err := run.CallTool(ctx, "pick_color", nil)
		return agui.WorkerOutput{Answer: out.Status + " " + out.ResultSummary}, err
	})
	in := plugins.Input{Tools: []agui.Tool{{Name: "pick_color"}}}
	for want, answers := range map[string][]plugins.Answer{
		"":                                     {},
		"success red":                          {{Payload: []byte(`"red"`)}},
		"success 7":                            {{Payload: []byte(`7`)}},
		"failure the client declined the call": {{Cancelled: true}},
	} {
		res := plugintest.Run(t, a, plugintest.Config{Input: in, Answers: answers})
		if res.Text() != want || (want == "") != errors.Is(res.Err, plugins.ErrWaiting) {
			t.Errorf("got %q, %v, want %q", res.Text(), res.Err, want)
		}
		for _, once := range []string{"TOOL_CALL_START", "TOOL_CALL_END"} {
			if n := strings.Count(res.Log(), once); n != 1 {
				t.Errorf("%d times %s in\n%s", n, once, res.Log())
			}
		}
	}
}

func TestRun_ToolFailureIsResult(t *testing.T) {
	failing := func(name string, err error) plugins.Tool {
		return tool{plugins.Info{Name: name}, func(context.Context, *plugins.Call) (agui.ToolOutput, error) { return agui.ToolOutput{}, err }}
	}
	panics := tool{plugins.Info{Name: "panics"}, func(context.Context, *plugins.Call) (agui.ToolOutput, error) { panic("boom") }}
	slow := tool{plugins.Info{Name: "slow", Timeout: time.Second}, func(ctx context.Context, _ *plugins.Call) (agui.ToolOutput, error) {
		<-ctx.Done()
		return agui.ToolOutput{}, ctx.Err()
	}}
	synctest.Test(t, func(t *testing.T) {
		plugintest.Run(t, agent(func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			for name, want := range map[string]string{
				"plain": "tool_failed", "coded": "no_money", "panics": "tool_failed", "slow": "timeout", "gone": "unknown_tool",
			} {
				out, err := run.CallTool(ctx, name, nil)
				if err != nil || out.Status != agui.StatusFailure || out.Error == nil || out.Error.Code != want {
					t.Errorf("%s: %+v, %v, want %s", name, out, err, want)
				}
			}
			return agui.WorkerOutput{}, nil
		}), plugintest.Config{Tools: []plugins.Tool{
			failing("plain", errors.New("x")), failing("coded", &plugins.Error{Code: "no_money"}), panics, slow,
		}})
	})
}

func TestRun_SubAgentsWriteInTurn(t *testing.T) {
	speaker := child{func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		w := run.Text()
		if err := echo.Stream(ctx, w, run.Input.Query, time.Second); err != nil {
			return agui.WorkerOutput{}, err
		}
		return agui.WorkerOutput{}, w.Close()
	}}
	cfg := plugintest.Config{Agents: []plugins.Agent{speaker, named{speaker, "other"}}}
	both := agent(func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		for _, name := range []string{"child", "other"} {
			run.Go(func() error { _, err := run.CallAgent(ctx, name, "one two three"); return err })
		}
		return agui.WorkerOutput{}, nil
	})
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		res := plugintest.Run(t, both, cfg)
		if res.Text() != "one two three\none two three" || time.Since(start) != 4*time.Second || res.Err != nil {
			t.Errorf("%q after %s, %v", res.Text(), time.Since(start), res.Err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 1500*time.Millisecond, plugins.ErrCancelled)
		defer cancel()
		res, err := plugintest.Execute(ctx, both, cfg)
		if err != nil || res.Text() != "one two" || !errors.Is(res.Err, plugins.ErrCancelled) {
			t.Errorf("%v, %q, %v", err, res.Text(), res.Err)
		}
	})
}

type named struct {
	plugins.Agent
	name string
}

func (n named) Info() plugins.Info { return plugins.Info{Name: n.name} }

func TestExecute_CancelledRunKeepsText(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	res, err := plugintest.Execute(ctx, agent(func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		_, _ = io.WriteString(run.Text(), "half")
		cancel(plugins.ErrCancelled)
		return agui.WorkerOutput{}, run.Progress(1, "refused")
	}), plugintest.Config{})
	if err != nil || !errors.Is(res.Err, plugins.ErrCancelled) || res.Text() != "half" {
		t.Errorf("%v, %v, %q", err, res.Err, res.Text())
	}
	if last := res.Events[len(res.Events)-1].(agui.RunFinished); last.Outcome.Type != agui.OutcomeCancelled {
		t.Errorf("ended as %+v", last)
	}
}

func TestReplay_InsideSubAgent(t *testing.T) {
	inner := child{func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		for _, name := range []string{"one", "two"} {
			if err := run.Do(ctx, name, nil, func(context.Context) error { return say(run, name) }); err != nil {
				return agui.WorkerOutput{}, err
			}
		}
		return agui.WorkerOutput{}, nil
	}}
	plugintest.Replay(t, agent(func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		first, err := run.CallAgent(ctx, "child", "")
		if err != nil {
			return agui.WorkerOutput{}, err
		}
		second, err := run.CallAgent(ctx, "child", "")
		return agui.WorkerOutput{Answer: first.Answer + second.Answer}, err
	}), plugintest.Config{Agents: []plugins.Agent{inner}})
}

func TestReplay_ToolInDo(t *testing.T) {
	a := plugins.AgentFunc("nested", func(ctx context.Context, run *plugins.Run) error {
		return run.Do(ctx, "outer", nil, func(ctx context.Context) error {
			_, err := run.CallTool(ctx, "calculator", map[string]any{"expression": "1+1"})
			return err
		})
	})
	plugintest.Replay(t, a, plugintest.Config{Tools: []plugins.Tool{tools.Calculator{}}})
}

// In a bubble a worker that reads the clock in a Do finds the same times in each run.
func TestReplay_HasAClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := agent(func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			var at [2]time.Time
			for i := range at {
				if err := run.Do(ctx, fmt.Sprint(i), &at[i], func(context.Context) error {
					at[i] = time.Now()
					return nil
				}); err != nil {
					return agui.WorkerOutput{}, err
				}
			}
			return agui.WorkerOutput{Answer: fmt.Sprint(at)}, nil
		})
		plugintest.Replay(t, clock, plugintest.Config{})
	})
}

// A failure of Replay names the line that differs, not only all that is left.
func TestReplay_NamesFirstDifference(t *testing.T) {
	for got, want := range map[string]string{
		"a\nb": `line 2 from "c" to "b"`, "a": `line 2 from "c" to nothing`, "a\nc\nd": `line 3 from nothing to "d"`,
	} {
		if s := plugintest.FirstDifference(got, "a\nc"); s != want {
			t.Errorf("%q: %s, want %s", got, s, want)
		}
	}
}

func TestRun_Remembers(t *testing.T) {
	remembers := agent(func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		texts, err := run.Recall(ctx, []string{"a", "b"})
		if err != nil {
			return agui.WorkerOutput{}, err
		}
		for _, key := range []string{"a", "c"} { // the first text of a key stays
			if err := run.Remember("", key, run.Input.Query); err != nil {
				return agui.WorkerOutput{}, err
			}
		}
		return agui.WorkerOutput{Answer: fmt.Sprint(texts)}, nil
	})
	first := plugintest.Run(t, remembers, plugintest.Config{Input: plugins.Input{Query: "one"}, CrashAfter: 1})
	cfg := plugintest.Config{Input: plugins.Input{Query: "two"}, Remembered: first.Remembered}
	second := plugintest.Run(t, remembers, cfg)
	if first.Output.Answer != "map[]" || second.Output.Answer != "map[a:one]" || fmt.Sprint(second.Remembered) != "map[a:one c:one]" {
		t.Errorf("the worker recalls %q, then %q, and remembers %v", first.Output.Answer, second.Output.Answer, second.Remembered)
	}
	called := plugintest.Run(t, agent(func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		return run.CallAgent(ctx, "child", "three")
	}), plugintest.Config{Agents: []plugins.Agent{child{remembers}}, Remembered: first.Remembered})
	if called.Output.Answer != "map[]" || fmt.Sprint(called.Remembered) != "map[a:one c:one]" {
		t.Errorf("a called worker recalls %q, and remembers %v", called.Output.Answer, called.Remembered)
	}
}

// external is an agent in another program, with a guard of its output.
type external struct{ agent }

func (external) Info() plugins.Info {
	allow := func(context.Context, plugins.Subject) (plugins.Verdict, error) {
		return plugins.Verdict{Verdict: plugins.Allow}, nil
	}
	return plugins.Info{Name: "worker", External: true, Guards: plugins.Guards{Output: []plugins.Guard{{Name: "g", Check: allow}}}}
}

func TestUsage_HasNoWordsOfAnotherProgram(t *testing.T) {
	res := plugintest.Run(t, external{func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{Answer: "done"}, run.Usage(ctx, agui.TokenUsage{Provider: "any", Model: "text", InputTokens: 1})
	}}, plugintest.Config{Input: plugins.Input{Query: "hi"}})
	if len(res.Usage) != 1 || res.Usage[0].Provider+res.Usage[0].Model != "" || res.Usage[0].InputTokens != 1 {
		t.Errorf("the usage is %+v", res.Usage)
	}
}
