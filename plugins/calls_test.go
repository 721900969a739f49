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

func TestDo_RunsOnceDespiteCrashes(t *testing.T) {
	done := map[string]int{}
	a := agent(func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		var price struct {
			Amount int
			Unit   string
		}
		err := run.Do(ctx, "price", &price, func(context.Context) error {
			done["price"]++
			price.Amount, price.Unit = 7, "€"
			return nil
		})
		for range 2 {
			err = errors.Join(err, run.Do(ctx, "count", nil, func(context.Context) error {
				done["count"]++
				return nil
			}))
		}
		return agui.WorkerOutput{Answer: fmt.Sprint(price.Amount, price.Unit)}, err
	})
	for crash := range 4 {
		clear(done)
		res := plugintest.Run(t, a, plugintest.Config{CrashAfter: crash})
		if res.Err != nil || res.Output.Answer != "7€" {
			t.Errorf("crash after %d: %+v, %v", crash, res.Output, res.Err)
		}
		if done["price"] != 1 || done["count"] != 2 {
			t.Errorf("crash after %d: done %v", crash, done)
		}
	}
}

func TestDo_RepeatsAfterFailure(t *testing.T) {
	boom := errors.New("boom")
	calls := 0
	check(t, func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		again := func(context.Context) error {
			if calls++; calls == 1 {
				return boom
			}
			return nil
		}
		if err := run.Do(ctx, "first", nil, again); !errors.Is(err, boom) {
			t.Errorf("got %v, want boom", err)
		}
		return agui.WorkerOutput{}, run.Do(ctx, "first", nil, again)
	}, plugintest.Config{}, "")
}

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

func TestCallAgent_WaitsWithItsParent(t *testing.T) {
	asked := 0
	child := named{name: "child", agent: func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		err := run.Do(ctx, "explain", nil, func(context.Context) error {
			asked++
			say(t, run, "I must ask")
			return nil
		})
		if err != nil {
			return agui.WorkerOutput{}, err
		}
		answer, err := run.Ask(ctx, agui.Interrupt{Message: "Sure?"})
		return agui.WorkerOutput{Answer: string(answer.Payload)}, err
	}}
	a := agent(func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		out, err := run.CallAgent(ctx, "child", "")
		return agui.WorkerOutput{Answer: "child said " + out.Answer}, err
	})
	cfg := plugintest.Config{Agents: []plugins.Agent{child}, Answers: []plugins.Answer{{Payload: []byte("true")}}}
	res := plugintest.Run(t, a, cfg)
	if res.Err != nil || res.Output.Answer != "child said true" || asked != 1 {
		t.Errorf("%+v, %v, asked %d times", res.Output, res.Err, asked)
	}
	if len(res.Questions) != 1 || res.Questions[0].SubagentRunID == "" || res.Questions[0].Message != "Sure?" {
		t.Errorf("questions %+v", res.Questions)
	}
	plugintest.Replay(t, a, cfg)
}

func TestAsk_ReplaysAnswers(t *testing.T) {
	calls := 0
	a := agent(func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		calls++
		first, err := run.Ask(ctx, agui.Interrupt{Message: "First?"})
		if err != nil {
			return agui.WorkerOutput{}, err
		}
		second, err := run.Ask(ctx, agui.Interrupt{Message: "Second?"})
		if err != nil {
			return agui.WorkerOutput{}, err
		}
		return agui.WorkerOutput{Answer: fmt.Sprint(string(first.Payload), second.Cancelled)}, nil
	})
	res := plugintest.Run(t, a, plugintest.Config{Answers: []plugins.Answer{{Payload: []byte(`"yes"`)}, {Cancelled: true}}})
	if res.Output.Answer != `"yes" true` && res.Output.Answer != `"yes"true` || calls != 3 || res.Err != nil {
		t.Errorf("%+v after %d calls, %v", res.Output, calls, res.Err)
	}
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
