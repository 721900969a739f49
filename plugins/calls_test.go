package plugins_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/runtime/agui"
)

func TestDo_EndsItsTextBeforeTheRecord(t *testing.T) {
	a := agent(func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		err := run.Do(ctx, "answer", nil, func(context.Context) error {
			w := run.Text()
			for _, part := range []string{"5", " \xe2\x82", "\xac"} {
				if _, err := io.WriteString(w, part); err != nil {
					return err
				}
			}
			return w.Close()
		})
		return agui.WorkerOutput{KeyPoints: []string{"k"}}, err
	})
	for crash := range 2 {
		res := check(t, a, plugintest.Config{CrashAfter: crash}, `+1 "5" " " "€" -1(success 5 €)`)
		if got := res.Output.Answer; got != "5 €" {
			t.Errorf("crash after %d: answer %q", crash, got)
		}
	}
	plugintest.Replay(t, a, plugintest.Config{})
}

func TestDo_StartsItsOwnMessage(t *testing.T) {
	a := agent(func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		early, late := run.Text(), run.Text()
		if _, err := io.WriteString(early, "a"); err != nil {
			return agui.WorkerOutput{}, err
		}
		err := run.Do(ctx, "middle", nil, func(context.Context) error {
			_, err := io.WriteString(early, "b")
			return err
		})
		if err != nil {
			return agui.WorkerOutput{}, err
		}
		if err := run.Do(ctx, "silent", nil, func(context.Context) error { return nil }); err != nil {
			return agui.WorkerOutput{}, err
		}
		if _, err := io.WriteString(early, "c"); err != nil {
			return agui.WorkerOutput{}, err
		}
		return agui.WorkerOutput{Answer: "done"}, errors.Join(early.Close(), late.Close())
	})
	check(t, a, plugintest.Config{}, `+1 "a" -1(success a) +2 "b" -2(success b) +3 "c" -3(success done)`)
}

func TestDo_PreservesOpenMessage(t *testing.T) {
	check(t, func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		w := run.Text()
		_, _ = io.WriteString(w, "a")
		err := run.Do(ctx, "silent", nil, func(context.Context) error { return run.Progress(0.5, "") })
		_, _ = io.WriteString(w, "b")
		return agui.WorkerOutput{}, errors.Join(err, w.Close())
	}, plugintest.Config{}, `+1 "a" CUSTOM "b" -1(success ab)`)
}

func TestDo_ReplayedTextIsParentOfCall(t *testing.T) {
	noop := tool(func(context.Context, *plugins.Call) (agui.ToolOutput, error) { return agui.ToolOutput{}, nil })
	a := agent(func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		err := run.Do(ctx, "llm", nil, func(context.Context) error {
			say(t, run, "let me look")
			return nil
		})
		if err != nil {
			return agui.WorkerOutput{}, err
		}
		_, err = run.CallTool(ctx, "tool", nil)
		return agui.WorkerOutput{}, err
	})
	for crash := range 3 {
		res := check(t, a, plugintest.Config{Tools: []plugins.Tool{noop}, CrashAfter: crash},
			`+1 "let me look" -1(success let me look) TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END TOOL_CALL_RESULT`)
		for _, ev := range res.Events {
			if start, ok := ev.(agui.ToolCallStart); ok && start.ParentMessageID != "message-1" {
				t.Errorf("crash after %d: the call's parent is %q", crash, start.ParentMessageID)
			}
		}
	}
}

func TestCallTool_PassesArguments(t *testing.T) {
	var got []string
	record := tool(func(_ context.Context, call *plugins.Call) (agui.ToolOutput, error) {
		got = append(got, string(call.Args))
		return agui.ToolOutput{ResultSummary: "ok"}, nil
	})
	res := plugintest.Run(t, agent(func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		out, err := run.CallTool(ctx, "tool", nil)
		if out.ResultSummary != "ok" || out.Status != agui.StatusSuccess || out.ToolName != "tool" {
			t.Errorf("output %+v", out)
		}
		_, err2 := run.CallTool(ctx, "tool", map[string]int{"n": 1})
		if _, err := run.CallTool(ctx, "tool", func() {}); err == nil {
			t.Error("arguments that are not JSON were accepted")
		}
		return agui.WorkerOutput{}, errors.Join(err, err2)
	}), plugintest.Config{Tools: []plugins.Tool{record}})
	if want := `[{} {"n":1}]`; fmt.Sprint(got) != want || res.Err != nil {
		t.Errorf("args %v, want %s; %v", got, want, res.Err)
	}
}

func TestCallAgent_EndsOpenMessage(t *testing.T) {
	child := named{name: "child", agent: func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		say(t, run, "re: "+run.Input.Query)
		return agui.WorkerOutput{Answer: "fine"}, nil
	}}
	a := agent(func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		w := run.Text()
		_, _ = io.WriteString(w, "a")
		out, err := run.CallAgent(ctx, "child", "how?")
		_, _ = io.WriteString(w, out.Answer)
		return agui.WorkerOutput{Answer: "done"}, errors.Join(err, w.Close())
	})
	check(t, a, plugintest.Config{Agents: []plugins.Agent{child}}, `+1 "a" -1(success a) SUBAGENT_STARTED `+
		`+2 "re: how?" -2(success fine) SUBAGENT_FINISHED +3 "fine" -3(success done)`)
}

func TestNext_ReturnsAppendedMessages(t *testing.T) {
	a := agent(func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		w := run.Text()
		_, _ = io.WriteString(w, "a")
		for {
			messages, err := run.Next(ctx)
			if err != nil || messages == nil {
				return agui.WorkerOutput{Answer: "done"}, errors.Join(err, w.Close())
			}
			for _, m := range messages {
				_, _ = io.WriteString(w, strings.ToUpper(m.Content))
			}
		}
	})
	check(t, a, plugintest.Config{Next: [][]agui.Message{{{Content: "b"}}}},
		`+1 "a" -1(success a) +next-1 "b" -next-1(success b) +2 "B" -2(success B) +3 "done" -3(success done)`)
}
