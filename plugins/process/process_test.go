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
	t.Cleanup(func() { _ = a.Close(context.Background()) })
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
	t.Parallel()
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
			[]any{"event", "paid"},
			[]any{"sleep", 3600},
			[]any{"event", "paid", 60},
			[]any{"next"},
			[]any{"usage", map[string]any{"provider": "p", "model": "m", "inputTokens": 3, "outputTokens": 4}},
			[]any{"emit", map[string]any{"type": "CUSTOM", "name": "mine", "value": 1}},
			[]any{"branches", "a", "b", "c"},
			[]any{"print", "no message"},
		),
		Tools:   []plugins.Tool{tools.Calculator{}},
		Answers: []plugins.Answer{{Payload: json.RawMessage(`{"yes":true}`)}},
		Next:    [][]agui.Message{{{ID: "n", Role: agui.RoleUser, Content: "more"}}},
		Events:  []plugintest.Event{{Name: "paid", Payload: json.RawMessage(`{"n":1}`), After: time.Hour}},
	})
	if res.Err != nil {
		t.Fatal(res.Err, res.Log())
	}
	want := `did null did {"rows":3} success 6 2 4 answer {"yes":true} got {"n":1} expired next more A B C`
	if res.Output.Answer != want || res.Text() != "one two \ninside \n"+want {
		t.Errorf("answer:\n%s\nwant:\n%s\ntext:\n%s", res.Output.Answer, want, res.Text())
	}
	if len(res.Usage) != 1 || res.Usage[0].TotalTokens != 7 || string(res.State()) != `{"n":1}` || res.Output.KeyPoints[0] != "told" {
		t.Errorf("usage %v, state %s, output %+v", res.Usage, res.State(), res.Output)
	}
}

func TestAgent_Replays(t *testing.T) {
	t.Parallel()
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
			[]any{"sleep", 60},
			[]any{"event", "paid"},
			[]any{"ask", "Deploy?"},
		),
		Tools:   []plugins.Tool{tools.Calculator{}},
		Answers: []plugins.Answer{{Payload: json.RawMessage(`true`)}},
		Events:  []plugintest.Event{{Name: "paid", Payload: json.RawMessage("1"), After: time.Minute}},
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
	t.Parallel()
	for name, command := range languages(t) {
		t.Run(name, func(t *testing.T) { errorsAreItsOwn(t, started(t, command)) })
	}
}

// What is no JSON is an error of the run that has it, wherever it stands; a run that catches the error goes on.
func TestAgent_InvalidValues(t *testing.T) {
	t.Parallel()
	for name, command := range languages(t) {
		t.Run(name, func(t *testing.T) {
			a := started(t, command)
			for _, what := range []string{"number", "cycle", "object", "throws", "generator"} {
				for _, where := range []string{"do", "tool", "state", "answer"} {
					if what == "generator" && (where == "tool" || where == "state") || what == "throws" && name == "python" {
						continue
					}
					res, err := plugintest.Execute(t.Context(), a, plugintest.Config{Input: steps([]any{"bad", what, where})})
					if _, died := errors.AsType[*plugins.Interrupted](res.Err); err != nil || res.Err == nil || died {
						t.Errorf("%s in %s: %v, ended with %v", what, where, err, res.Err)
					}
				}
				if what != "throws" || name != "python" {
					res := plugintest.Run(t, a, plugintest.Config{Input: steps([]any{"bad", what, "do", "caught"}, []any{"do", "next", []any{}, 1})})
					if res.Err != nil || res.Text() != "caught did 1" {
						t.Errorf("%s caught: %q, %v", what, res.Text(), res.Err)
					}
				}
			}
		})
	}
}

// A value is on replay what it was.
func TestAgent_ValuesGoThroughJSON(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"python": "[1, 2] awaited", "typescript": "string awaited"} {
		res := plugintest.Run(t, started(t, languages(t)[name]), plugintest.Config{Input: steps([]any{"typed"})})
		if res.Err != nil || res.Text() != want {
			t.Errorf("%s: %q, %v", name, res.Text(), res.Err)
		}
	}
}

// What an agent and its children read and print is no message.
func TestAgent_KeepsItsPipes(t *testing.T) {
	t.Parallel()
	for name, command := range languages(t) {
		t.Run(name, func(t *testing.T) {
			var out buffer
			a, err := process.NewAgent(process.Config{Info: plugins.Info{Name: "scorer"}, Command: command, Log: slog.New(slog.NewTextHandler(&out, nil))})
			if err != nil {
				t.Fatal(err)
			}
			res := plugintest.Run(t, settled(t, a), plugintest.Config{Input: steps([]any{"loose"}, []any{"do", "next", []any{}, 1})})
			_ = a.Close(t.Context())
			if res.Err != nil || res.Text() != "read '' did 1" {
				t.Errorf("%q, %v", res.Text(), res.Err)
			}
			if log := out.String(); !strings.Contains(log, "no line feedhalf") || strings.Contains(log, "invalid line") {
				t.Errorf("logged is %s", log)
			}
		})
	}
}

// JavaScript splits strings in the middle of surrogate pairs.
func TestAgent_SplitCharacters(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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

// A program is replaced by its code as it is now, unless that cannot be started. A run that executes ends in the old process.
func TestAgent_Renew(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "agent.sh")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	says := func(word string) string { // the id of the first run is 2
		return hello + `read b; echo '{"id":2,"result":"` + word + ` '$$'"}'; read c; echo '{"id":3,"result":"` + word + ` '$$'"}'; cat >/dev/null`
	}
	write(says("old"))
	a, err := process.NewAgent(process.Config{Info: plugins.Info{Name: "sh"}, Command: []string{"/bin/sh", script}})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close(t.Context())
	first := plugintest.Run(t, settled(t, a), plugintest.Config{}).Text()
	write("exit 3")
	if err := a.Renew(); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("broken code: %v", err)
	}
	if got := plugintest.Run(t, a, plugintest.Config{}).Text(); got != first || !strings.HasPrefix(got, "old ") {
		t.Errorf("behind broken code: %q after %q", got, first)
	}
	write(says("new"))
	if err := a.Renew(); err != nil {
		t.Fatal(err)
	}
	if got := plugintest.Run(t, a, plugintest.Config{}).Text(); !strings.HasPrefix(got, "new ") {
		t.Errorf("behind new code: %q", got)
	}
}

// The end of a program with several runs counts for none of them. A run that was interrupted twice gets a process of its own, where it does.
func TestAgent_GetsAProcessOfItsOwn(t *testing.T) {
	t.Parallel()
	a := python(t)
	ended := func(in plugins.Input) *plugins.Interrupted {
		res, _ := plugintest.Execute(t.Context(), a, plugintest.Config{Input: in})
		why, ok := errors.AsType[*plugins.Interrupted](res.Err)
		if !ok {
			t.Errorf("it ends with %v", res.Err)
			return new(plugins.Interrupted)
		}
		return why
	}
	var neighbour sync.WaitGroup
	waits := func(began func()) *watcher {
		host := &watcher{saw: func(string) { began() }}
		return host
	}
	begun, over := make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	neighbour.Go(func() {
		_, err := plugins.Execute(ctx, a, waits(sync.OnceFunc(func() { close(begun) })), steps([]any{"wait"}))
		over <- err
	})
	<-begun
	alone := steps([]any{"exit", 3})
	alone.Interruptions = 2
	if why := ended(alone); !why.Counts {
		t.Error("the end of its own process does not count")
	}
	select {
	case err := <-over:
		t.Errorf("the neighbour has ended with it: %v", err)
	default:
	}
	if why := ended(steps([]any{"exit", 3})); why.Counts {
		t.Error("an end in company counts")
	}
	if why, ok := errors.AsType[*plugins.Interrupted](<-over); !ok || why.Counts {
		t.Errorf("the neighbour: %+v", why)
	}
	neighbour.Wait()
}

// A program that is stopped is replaced, and one that blocks or computes is not.
func TestAgent_Hangs(t *testing.T) {
	for name, command := range languages(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := process.NewAgent(process.Config{Info: plugins.Info{Name: "scorer"}, Command: command, Alive: 200 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = a.Close(context.Background()) })
			if res := plugintest.Run(t, settled(t, a), plugintest.Config{Input: steps([]any{"block", 1.5}, []any{"say", "done"})}); res.Err != nil {
				t.Errorf("one that blocks: %v", res.Err)
			}
			res := plugintest.Run(t, a, plugintest.Config{Input: steps([]any{"stop"})})
			if why, ok := errors.AsType[*plugins.Interrupted](res.Err); !ok || !why.Counts || !strings.Contains(why.Reason, "hangs") {
				t.Errorf("one that is stopped: %v", res.Err)
			}
			if res := plugintest.Run(t, a, plugintest.Config{Input: steps([]any{"say", "again"})}); res.Err != nil {
				t.Errorf("the next one: %v", res.Err)
			}
		})
	}
}

// A program that has not promised to say that it lives is not asked.
func TestAgent_SilentWithoutPromise(t *testing.T) {
	t.Parallel()
	a, err := process.NewAgent(process.Config{
		Info: plugins.Info{Name: "sh"}, Command: []string{"/bin/sh", "-c", hello + `read b; sleep 0.3; echo '{"id":2,"result":"well"}'; cat >/dev/null`}, Alive: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close(t.Context())
	if res := plugintest.Run(t, settled(t, a), plugintest.Config{}); res.Text() != "well" {
		t.Errorf("%q, %v", res.Text(), res.Err)
	}
}

func TestAgent_CancelReturnsAtOnce(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
	var log strings.Builder
	told := make(chan struct{})
	a, err := process.NewAgent(process.Config{
		Info: plugins.Info{Name: "scorer"}, Command: []string{"python3", "testdata/agent.py"}, Stop: 50 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(io.MultiWriter(&log, warned(told)), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close(t.Context())
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
	t.Parallel()
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
	t.Parallel()
	for name, command := range languages(t) {
		t.Run(name, func(t *testing.T) {
			res := plugintest.Run(t, started(t, command), plugintest.Config{Input: steps([]any{"flood", 2_000})})
			if res.Err != nil || len(res.Text()) < 2_000_000 {
				t.Errorf("%d bytes, %v", len(res.Text()), res.Err)
			}
		})
	}
}
