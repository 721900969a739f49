package plugins_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/runtime/agui"
)

func TestExecute_ReturnsPanicError(t *testing.T) {
	for name, a := range map[string]agent{
		"Run": func(context.Context, *plugins.Run) (agui.WorkerOutput, error) { panic("boom") },
		"Go": func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			run.Go(func() error { panic("boom") })
			return agui.WorkerOutput{}, nil
		},
		"Do": func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			return agui.WorkerOutput{}, run.Do(ctx, "d", nil, func(context.Context) error { panic("boom") })
		},
	} {
		res := plugintest.Run(t, a, plugintest.Config{})
		p, ok := errors.AsType[*plugins.PanicError](res.Err)
		if !ok || p.Value != "boom" || !strings.Contains(string(p.Stack), "run_test.go") {
			t.Errorf("%s: ended with %v, want a PanicError with its stack", name, res.Err)
		}
		if got := res.Events[len(res.Events)-1].Type(); got != agui.TypeRunError {
			t.Errorf("%s: the last event is %s", name, got)
		}
	}
}

func TestGo_StepWaits(t *testing.T) {
	returned := make(chan struct{})
	check(t, func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		run.Go(func() error {
			<-returned
			run.Go(func() error { return run.Progress(1, "late") })
			return nil
		})
		defer close(returned)
		return agui.WorkerOutput{Answer: "a"}, nil
	}, plugintest.Config{}, `CUSTOM +1 "a" -1(success a)`)
}

func TestGo_ErrorFailsStep(t *testing.T) {
	inner, outer := errors.New("inner"), errors.New("outer")
	for want, returned := range map[error]error{inner: nil, outer: outer} {
		res := plugintest.Run(t, agent(func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			run.Go(func() error { return inner })
			run.Go(func() error { return nil })
			return agui.WorkerOutput{}, returned
		}), plugintest.Config{})
		if !errors.Is(res.Err, want) {
			t.Errorf("returned %v: ended with %v, want %v", returned, res.Err, want)
		}
	}
}

func TestRun_MethodsFailAfterTheEnd(t *testing.T) {
	var kept *plugins.Run
	var text, reason io.WriteCloser
	var ctx context.Context
	res := check(t, func(c context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		kept, ctx = run, c
		text, reason = run.Text(), run.Reason()
		_, _ = io.WriteString(text, "x")
		return agui.WorkerOutput{}, nil
	}, plugintest.Config{}, `+1 "x" -1(success x)`)

	if err := context.Cause(ctx); !errors.Is(err, plugins.ErrEnded) {
		t.Errorf("the context's cause is %v", err)
	}
	before := res.Log()
	bg := context.Background()
	kept.Go(func() error { t.Error("Go called fn"); return nil })
	for name, call := range map[string]func() error{
		"Text":      func() error { _, err := io.WriteString(text, "y"); return err },
		"new Text":  func() error { _, err := io.WriteString(kept.Text(), "y"); return err },
		"empty":     func() error { _, err := io.WriteString(kept.Text(), ""); return err },
		"Close":     func() error { return text.Close() },
		"Reason":    func() error { _, err := reason.Write([]byte("y")); return err },
		"State":     func() error { return kept.State(map[string]int{"n": 1}) },
		"Progress":  func() error { return kept.Progress(1, "") },
		"Emit":      func() error { return kept.Emit(agui.Custom{Name: "x", Value: []byte("1")}) },
		"Emit text": func() error { return kept.Emit(agui.TextMessageStart{MessageID: "x", Role: "assistant"}) },
		"CallTool":  func() error { _, err := kept.CallTool(bg, "t", nil); return err },
		"CallAgent": func() error { _, err := kept.CallAgent(bg, "a", ""); return err },
		"Ask":       func() error { _, err := kept.Ask(bg, agui.Interrupt{}); return err },
		"Next":      func() error { _, err := kept.Next(bg); return err },
		"Usage":     func() error { return kept.Usage(bg, agui.TokenUsage{InputTokens: 1}) },
		"Do": func() error {
			return kept.Do(bg, "d", nil, func(context.Context) error { t.Error("Do called fn"); return nil })
		},
	} {
		if err := call(); !errors.Is(err, plugins.ErrEnded) {
			t.Errorf("%s: %v, want ErrEnded", name, err)
		}
	}
	if after := res.Log(); after != before {
		t.Errorf("the log has changed to\n%s", after)
	}
}

func TestExecute_WaitingEndsOpenMessage(t *testing.T) {
	res := check(t, func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		_, _ = io.WriteString(run.Text(), "before")
		_, err := run.CallTool(ctx, "pick_color", nil)
		return agui.WorkerOutput{}, err
	}, plugintest.Config{Input: plugins.Input{Tools: []agui.Tool{{Name: "pick_color"}}}},
		`+1 "before" TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END -1(success before)`)
	if !errors.Is(res.Err, plugins.ErrWaiting) {
		t.Errorf("ended with %v, want ErrWaiting", res.Err)
	}
}

func TestExecute_IgnoredQuestionStillWaits(t *testing.T) {
	res := plugintest.Run(t, agent(func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		_, _ = run.Ask(ctx, agui.Interrupt{})
		return agui.WorkerOutput{Answer: "done"}, nil
	}), plugintest.Config{})
	if !errors.Is(res.Err, plugins.ErrWaiting) || res.Text() != "" {
		t.Errorf("ended with %v and %q, want to wait", res.Err, res.Text())
	}
}

func TestExecute_FailureBeatsWaiting(t *testing.T) {
	boom := errors.New("boom")
	res := plugintest.Run(t, agent(func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		run.Go(func() error { return boom })
		_, err := run.Ask(ctx, agui.Interrupt{})
		return agui.WorkerOutput{}, err
	}), plugintest.Config{})
	if !errors.Is(res.Err, boom) {
		t.Errorf("ended with %v, want boom", res.Err)
	}
}

// An output that says it failed is a failure, in either spelling, and a status that does not exist is one too: of agents and tools.
func TestOutput_StatusDecides(t *testing.T) {
	for _, test := range []struct{ status, code, tool string }{
		{"", "", "success"},
		{"success", "", "success"},
		{"partial_success", "", "failure"},
		{"failed", "agent_failed", "failure"},
		{"failure", "agent_failed", "failure"},
		{"FAILED", "bad_output", "failure"},
		{"ok", "bad_output", "failure"},
	} {
		res := plugintest.Run(t, agent(func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
			return agui.WorkerOutput{Status: test.status, Answer: "done"}, nil
		}), plugintest.Config{})
		failed, _ := errors.AsType[*plugins.Error](res.Err)
		if (res.Err != nil) != (test.code != "") || failed != nil && failed.Code != test.code {
			t.Errorf("an agent's status %q: %v, want %q", test.status, res.Err, test.code)
		}
		out := agui.ToolOutput{Status: test.status}
		if out.Settle(); out.Status != test.tool {
			t.Errorf("a tool's status %q is %q, want %q", test.status, out.Status, test.tool)
		}
	}
	said := agent(func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{Status: "failed", Error: &agui.OutputError{Code: "no_room", Message: "No room", Retryable: true}}, nil
	})
	if err, ok := errors.AsType[*plugins.Error](plugintest.Run(t, said, plugintest.Config{}).Err); !ok || *err != (plugins.Error{Code: "no_room", Message: "No room", Retryable: true}) {
		t.Errorf("ended with %v, want the output's error", err)
	}
}

func TestProgress_NamesTheNode(t *testing.T) {
	res := check(t, func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{}, errors.Join(run.Progress(0.5, "half"), run.Progress(7, ""))
	}, plugintest.Config{Input: plugins.Input{Node: "plan"}}, `CUSTOM CUSTOM`)
	for i, want := range []string{
		`{"nodeId":"plan","progress":0.5,"message":"half"}`,
		`{"nodeId":"plan","progress":1,"message":""}`,
	} {
		ev := res.Events[i+1].(agui.Custom)
		if ev.Name != agui.ProgressEvent || string(ev.Value) != want {
			t.Errorf("got %s %s, want %s", ev.Name, ev.Value, want)
		}
	}
}

func TestState_MergesPatch(t *testing.T) {
	res := plugintest.Run(t, agent(func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if err := run.State(func() {}); err == nil {
			t.Error("a patch that is not JSON was accepted")
		}
		return agui.WorkerOutput{}, run.State(map[string]any{"a": nil, "b": map[string]int{"d": 3}})
	}), plugintest.Config{Input: plugins.Input{State: []byte(`{"a":1,"b":{"c":2}}`)}})
	if got, want := string(res.State()), `{"b":{"c":2,"d":3}}`; got != want {
		t.Errorf("state %s, want %s", got, want)
	}
}

func TestRun_MethodsAreConcurrent(t *testing.T) {
	noop := tool(func(context.Context, *plugins.Call) (agui.ToolOutput, error) { return agui.ToolOutput{}, nil })
	res := plugintest.Run(t, agent(func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		var wg sync.WaitGroup
		for _, name := range []string{"a", "b", "c", "d"} {
			wg.Go(func() {
				w := run.Text()
				for range 20 {
					_, _ = io.WriteString(w, name)
				}
				_ = w.Close()
			})
			run.Go(func() error {
				return run.Do(ctx, name, nil, func(context.Context) error {
					say(t, run, "in "+name)
					return errors.Join(run.State(map[string]int{name: 1}), run.Progress(0.5, name))
				})
			})
		}
		_, err := run.CallTool(ctx, "tool", nil)
		wg.Wait()
		return agui.WorkerOutput{}, err
	}), plugintest.Config{Tools: []plugins.Tool{noop}})
	if got := strings.Count(strings.ReplaceAll(res.Text(), "\n", ""), "in "); got != 4 {
		t.Errorf("%d messages of the four Dos, want 4", got)
	}
	if res.Err != nil {
		t.Error(res.Err)
	}
}
