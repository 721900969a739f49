package plugins_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/runtime/agui"
)

// guardedAgent is an agent with guards.
type guardedAgent struct {
	agent
	guards plugins.Guards
}

func (a guardedAgent) Info() plugins.Info { return plugins.Info{Name: "guarded", Guards: a.guards} }

// helper is another agent, which has a model's answer in a Do.
type helper struct{ agent }

func (helper) Info() plugins.Info { return plugins.Info{Name: "helper"} }

// rules is a tool that decides about calls by their number.
type rules struct{}

func (rules) Info() plugins.Info { return plugins.Info{Name: "rules"} }

func (rules) Call(_ context.Context, call *plugins.Call) (agui.ToolOutput, error) {
	var s struct {
		Tool string
		Args struct{ N int }
	}
	if err := json.Unmarshal(call.Args, &s); err != nil {
		return agui.ToolOutput{}, err
	}
	return agui.ToolOutput{ResultSummary: []string{
		`{"verdict":"allow"}`, `{"verdict":"refuse","reason":"not one"}`, `{"verdict":"rewrite","args":{"n":7}}`, `{"verdict":"ask","reason":"Three?"}`,
	}[s.Args.N]}, nil
}

type twice struct{}

func (twice) Info() plugins.Info { return plugins.Info{Name: "twice", Idempotent: true} }

func (twice) Call(_ context.Context, call *plugins.Call) (agui.ToolOutput, error) {
	return agui.ToolOutput{ResultSummary: "called with " + string(call.Args)}, nil
}

// Verdicts of all kinds are the same after a crash at any record, for texts inside and outside of a Do.
func TestGuards_AreReplayed(t *testing.T) {
	asks := 0
	moderator := helper{agent(func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		var text string
		err := run.Do(ctx, "model", &text, func(ctx context.Context) error {
			asks++
			if _, err := fmt.Fprint(run.Text(), "hidden"); err != nil {
				return err
			}
			text = `{"verdict":"rewrite","text":"SAFE"}`
			return run.Usage(ctx, agui.TokenUsage{Provider: "p", Model: "m", InputTokens: 1})
		})
		return agui.WorkerOutput{Answer: text}, err
	})}
	worker := agent(func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		var calls []plugins.ToolCall
		if err := run.Do(ctx, "model", &calls, func(ctx context.Context) error {
			if _, err := fmt.Fprint(run.Text(), "asked ", run.Input.Query); err != nil {
				return err
			}
			calls = nil
			for n := range 4 {
				args := fmt.Sprintf(`{"n":%d}`, n)
				call, err := run.Announce(ctx, "twice")
				if err != nil {
					return err
				}
				if _, err := call.WriteString(args); err != nil {
					return err
				}
				calls = append(calls, plugins.ToolCall{Name: "twice", ID: call.ID, Args: json.RawMessage(args)})
			}
			return nil
		}); err != nil {
			return agui.WorkerOutput{}, err
		}
		outs, err := run.CallTools(ctx, calls...)
		if err != nil {
			return agui.WorkerOutput{}, err
		}
		more, err := run.Next(ctx)
		if err != nil {
			return agui.WorkerOutput{}, err
		}
		said := []string{more[0].Content}
		for _, out := range outs {
			said = append(said, out.ResultSummary)
		}
		return agui.WorkerOutput{}, run.Do(ctx, "answer", nil, func(context.Context) error {
			_, err := fmt.Fprint(run.Text(), strings.Join(said, "; "))
			return err
		})
	})
	shout := plugins.Guard{Name: "shout", Check: func(_ context.Context, s plugins.Subject) (plugins.Verdict, error) {
		return plugins.Verdict{Verdict: plugins.Rewrite, Text: s.Output + "!"}, nil
	}}
	person := plugins.Guard{Name: "person", Check: func(_ context.Context, s plugins.Subject) (plugins.Verdict, error) {
		return plugins.Verdict{Verdict: plugins.AskPerson}, nil
	}}
	a := guardedAgent{worker, plugins.Guards{
		Input: []plugins.Guard{{Agent: "helper"}}, Tool: []plugins.Guard{{Tool: "rules"}}, Output: []plugins.Guard{person, shout},
	}}
	cfg := plugintest.Config{
		Input: plugins.Input{Query: "bad"},
		Next:  [][]agui.Message{{{Content: "worse"}}}, Tools: []plugins.Tool{rules{}, twice{}}, Agents: []plugins.Agent{moderator},
		Answer: func(agui.Interrupt) plugins.Answer {
			return plugins.Answer{Payload: json.RawMessage(`{"approved":true}`)}
		},
	}
	asks = 0
	res := plugintest.Run(t, a, cfg)
	want := `SAFE; called with {"n":0}; not one; called with {"n":7}; called with {"n":3}!`
	if res.Err != nil || res.Output.Answer != want || asks != 2 {
		t.Fatalf("%+v, %v; the guard was asked %d times\n%s", res.Output, res.Err, asks, res.Log())
	}
	if log := res.Log(); strings.Contains(log, "hidden") || strings.Contains(log, `"delta":"asked SAFE"`) {
		t.Errorf("the log is\n%s", log)
	}
	if len(res.Usage) != 1 || res.Usage[0].InputTokens != 2 {
		t.Errorf("usage %+v", res.Usage)
	}
	plugintest.Replay(t, a, cfg)
}
