package process_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/plugins/process"
	"github.com/batonrun/baton/plugins/tools"
	"github.com/batonrun/baton/runtime/agui"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// python returns the agent of testdata/agent.py, started.
func python(t *testing.T) *process.Agent {
	t.Helper()
	return started(t, []string{"python3", "testdata/agent.py"})
}

func started(t *testing.T, command []string) *process.Agent {
	t.Helper()
	a, err := process.NewAgent(process.Config{Info: plugins.Info{Name: "scorer"}, Command: command, Stop: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return settled(t, a)
}

// steps returns a query for testdata/agent.py.
func steps(steps ...[]any) plugins.Input {
	raw, err := json.Marshal(steps)
	if err != nil {
		panic(err)
	}
	return plugins.Input{Query: string(raw)}
}

func TestAgent_DoesAllThatGoCan(t *testing.T) {
	for name, command := range languages(t) {
		t.Run(name, func(t *testing.T) { doesWhatOneInGoCan(t, started(t, command)) })
	}
}

func doesWhatOneInGoCan(t *testing.T, a *process.Agent) {
	t.Helper()
	if got := a.Info().Description; got != "Does what it is told." {
		t.Errorf("description %q", got)
	}
	res := plugintest.Run(t, a, plugintest.Config{
		Input: steps(
			[]any{"do", "begin", []any{[]any{"reason", "let me see"}, []any{"say", "one two"}}, nil},
			[]any{"state", map[string]any{"n": 1}},
			[]any{"progress", 0.5, "half"},
			[]any{"do", "work", []any{[]any{"say", "inside"}}, map[string]any{"rows": 3}},
			[]any{"tool", "calculator", map[string]any{"expression": "2*3"}},
			[]any{"tools", []any{"calculator", map[string]any{"expression": "1+1"}}, []any{"calculator", map[string]any{"expression": "2+2"}}},
			[]any{"ask", "Deploy?"},
			[]any{"next"},
			[]any{"usage", map[string]any{"provider": "p", "model": "m", "inputTokens": 3, "outputTokens": 4}},
			[]any{"emit", map[string]any{"type": "CUSTOM", "name": "mine", "value": 1}},
			[]any{"branches", "a", "b", "c"},
			[]any{"print", "no message"},
		),
		Tools:   []plugins.Tool{tools.Calculator{}},
		Answers: []plugins.Answer{{Payload: json.RawMessage(`{"yes":true}`)}},
		Next:    [][]agui.Message{{{ID: "n", Role: agui.RoleUser, Content: "more"}}},
	})
	if res.Err != nil {
		t.Fatal(res.Err, res.Log())
	}
	want := `did null did {"rows":3} success 6 2 4 answer {"yes":true} next more A B C`
	if res.Output.Answer != want || res.Text() != "one two \ninside \n"+want {
		t.Errorf("answer:\n%s\nwant:\n%s\ntext:\n%s", res.Output.Answer, want, res.Text())
	}
	if len(res.Usage) != 1 || res.Usage[0].TotalTokens != 7 || string(res.State()) != `{"n":1}` || res.Output.KeyPoints[0] != "told" {
		t.Errorf("usage %v, state %s, output %+v", res.Usage, res.State(), res.Output)
	}
}

func TestAgent_Replays(t *testing.T) {
	for name, command := range languages(t) {
		t.Run(name, func(t *testing.T) { isSafeToCallAgain(t, started(t, command)) })
	}
}

func isSafeToCallAgain(t *testing.T, a *process.Agent) {
	t.Helper()
	plugintest.Replay(t, a, plugintest.Config{
		Input: steps(
			[]any{"do", "first", []any{[]any{"say", "a"}}, 1},
			[]any{"do", "outer", []any{[]any{"do", "inner", []any{}, 2}, []any{"tool", "calculator", map[string]any{"expression": "1+1"}}}, 3},
			[]any{"tool", "calculator", map[string]any{"expression": "2*3"}},
			[]any{"branches", "a", "b"},
			[]any{"ask", "Deploy?"},
		),
		Tools:   []plugins.Tool{tools.Calculator{}},
		Answers: []plugins.Answer{{Payload: json.RawMessage(`true`)}},
	})
}

func TestAgent_EnvironmentIsMinimal(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "secret")
	res := plugintest.Run(t, python(t), plugintest.Config{Input: steps([]any{"env"})})
	if !strings.Contains(res.Text(), "PATH") || strings.Contains(res.Text(), "OPENAI") {
		t.Errorf("environment: %s", res.Text())
	}
}

func TestAgent_Errors(t *testing.T) {
	for name, command := range languages(t) {
		t.Run(name, func(t *testing.T) { errorsAreItsOwn(t, started(t, command)) })
	}
}

// Python writes NaN, which JSON does not have. Ignoring such a line would leave the run hanging until its timeout.
func TestAgent_InvalidNumbers(t *testing.T) {
	a := started(t, []string{"python3", "testdata/agent.py"})
	for _, where := range []string{"do", "tool", "state", "answer"} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		res, err := plugintest.Execute(ctx, a, plugintest.Config{Input: steps([]any{"nan", where})})
		cancel()
		if err != nil || res.Err == nil || errors.Is(res.Err, context.DeadlineExceeded) || !strings.Contains(res.Err.Error(), "JSON") {
			t.Errorf("%s: %v, ended with %v", where, err, res.Err)
		}
	}
	res := plugintest.Run(t, a, plugintest.Config{Input: steps([]any{"say", "still there"})})
	if res.Err != nil {
		t.Error(res.Err)
	}
}

// JavaScript splits strings in the middle of surrogate pairs.
func TestAgent_SplitCharacters(t *testing.T) {
	res := plugintest.Run(t, started(t, []string{"node", typescript(t)}), plugintest.Config{Input: steps([]any{"units", "a😀b😁"})})
	if res.Err != nil || res.Text() != "a😀b😁" {
		t.Errorf("%q, %v", res.Text(), res.Err)
	}
}

func errorsAreItsOwn(t *testing.T, a *process.Agent) {
	t.Helper()
	for _, test := range []struct {
		step  []any
		want  string
		shown bool
	}{
		{[]any{"fail", "no rows", "empty"}, "no rows", true},
		{[]any{"bug", "index out of range"}, "index out of range", false},
		{[]any{"do", "x", []any{[]any{"fail", "no rows", "empty"}}, 1}, "no rows", true},
		{[]any{"emit", map[string]any{"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}}, "not for a worker", false},
	} {
		res, err := plugintest.Execute(t.Context(), a, plugintest.Config{Input: steps(test.step)})
		if res.Err == nil || !strings.Contains(res.Err.Error(), test.want) {
			t.Errorf("%v: %v (%v)", test.step, res.Err, err)
			continue
		}
		var shown *plugins.Error
		if is := errors.As(res.Err, &shown); is && test.shown && (shown.Code != "empty" || !shown.Retryable) || test.shown && !is {
			t.Errorf("%v: %#v", test.step, res.Err)
		}
	}
}

func TestAgent_RestartsAfterCrash(t *testing.T) {
	a := python(t)
	mark := filepath.Join(t.TempDir(), "mark")
	res := plugintest.Run(t, a, plugintest.Config{Input: steps([]any{"say", "before"}, []any{"append", mark}, []any{"exit", 3})})
	var why *plugins.Interrupted
	if !errors.As(res.Err, &why) || !why.Counts || !strings.Contains(why.Reason, "exit status 3") {
		t.Fatalf("ended with %v", res.Err)
	}
	if !strings.Contains(res.Log(), "before") {
		t.Errorf("its earlier text is lost:\n%s", res.Log())
	}
	res = plugintest.Run(t, a, plugintest.Config{Input: steps([]any{"say", "again"})})
	if res.Err != nil || !strings.Contains(res.Text(), "again") {
		t.Errorf("after the crash: %v", res.Err)
	}
	if got, err := os.ReadFile(mark); err != nil || string(got) != "x" {
		t.Errorf("the step was made %q times, %v", got, err)
	}
}

func TestAgent_CancelReturnsAtOnce(t *testing.T) {
	for name, command := range languages(t) {
		t.Run(name, func(t *testing.T) {
			a := started(t, command)
			for _, step := range []string{"wait", "hang"} { // one ends when cancelled, the other does not
				ctx, cancel := context.WithCancelCause(t.Context())
				host := &watcher{saw: func(text string) {
					if strings.Contains(text, "ing ") {
						cancel(plugins.ErrCancelled)
					}
				}}
				_, err := plugins.Execute(ctx, a, host, steps([]any{step}))
				if !errors.Is(err, plugins.ErrCancelled) {
					t.Errorf("%s: %v", step, err)
				}
				if host.late {
					t.Errorf("%s: it emitted after it had returned", step)
				}
			}
			// The hanging one has its own process from now on.
			for range 3 {
				res := plugintest.Run(t, a, plugintest.Config{Input: steps([]any{"say", "well"})})
				if res.Err != nil {
					t.Fatal(res.Err)
				}
			}
		})
	}
}

// The log names a run whose program does not end it.
func TestAgent_HangIsLogged(t *testing.T) {
	var log strings.Builder
	told := make(chan struct{})
	a, err := process.NewAgent(process.Config{
		Info: plugins.Info{Name: "scorer"}, Command: []string{"python3", "testdata/agent.py"}, Stop: 50 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(io.MultiWriter(&log, warned(told)), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	settled(t, a)
	ctx, cancel := context.WithCancelCause(t.Context())
	host := &watcher{saw: func(text string) {
		if strings.Contains(text, "ing ") {
			cancel(plugins.ErrCancelled)
		}
	}}
	in := steps([]any{"hang"})
	in.RunID, in.ThreadID = "r1", "t1"
	_, _ = plugins.Execute(ctx, a, host, in)
	<-told
	if got := log.String(); !strings.Contains(got, "run=r1 thread=t1") {
		t.Errorf("logged is %s", got)
	}
}

// warned is closed by a log line about a hanging program.
type warned chan struct{}

func (w warned) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("does not end a cancelled run")) {
		close(w)
	}
	return len(line), nil
}

func TestAgent_RunsShareProgram(t *testing.T) {
	for name, command := range languages(t) {
		t.Run(name, func(t *testing.T) {
			a := started(t, command)
			var runs sync.WaitGroup
			for n := range 50 {
				runs.Go(func() {
					res, err := plugintest.Execute(t.Context(), a, plugintest.Config{
						Input: steps([]any{"say", fmt.Sprintf("run %d", n)}, []any{"do", "x", []any{}, n}),
					})
					got := res.Text() + res.Output.Answer
					if want := fmt.Sprintf("run %d did %d", n, n); err != nil || res.Err != nil || got != want {
						t.Errorf("run %d: %q, %v, %v", n, got, res.Err, err)
					}
				})
			}
			runs.Wait()
		})
	}
}

func TestAgent_FloodWaitsForLog(t *testing.T) {
	for name, command := range languages(t) {
		t.Run(name, func(t *testing.T) {
			res := plugintest.Run(t, started(t, command), plugintest.Config{Input: steps([]any{"flood", 2_000})})
			if res.Err != nil || len(res.Text()) < 2_000_000 {
				t.Errorf("%d bytes, %v", len(res.Text()), res.Err)
			}
		})
	}
}
