package scripted_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/plugins/scripted"
	"github.com/batonrun/baton/plugins/tools"
	"github.com/batonrun/baton/runtime/agui"
)

func config(script string) plugintest.Config {
	return plugintest.Config{
		Input: plugins.Input{Query: script},
		Tools: []plugins.Tool{tools.Sleep{}, tools.Calculator{}, tools.Fail{}},
	}
}

func play(t *testing.T, script string) *plugintest.Result {
	t.Helper()
	return plugintest.Run(t, scripted.Agent{}, config(script))
}

// types returns the types of the run's own events, with common prefixes removed.
func types(res *plugintest.Result) string {
	var list []string
	for _, ev := range res.Events[1 : len(res.Events)-1] {
		list = append(list, string(ev.Type()))
	}
	return strings.NewReplacer("TEXT_MESSAGE_", "T_", "REASONING_MESSAGE_", "R_", "TOOL_CALL_", "C_").Replace(strings.Join(list, " "))
}

func TestAgent_RunsOps(t *testing.T) {
	for _, tt := range []struct{ do, types, text, state string }{
		{`{"say": "hello world"}`, "T_START T_CONTENT T_CONTENT T_END", "hello world", "{}"},
		{`{"say": ""}`, "", "", "{}"},
		{`{"tokens": 3}`, "T_START T_CONTENT T_CONTENT T_CONTENT T_END", "000 001 002 ", "{}"},
		{`{"tokens": 2, "size": 1}`, "T_START T_CONTENT T_CONTENT T_END", "  ", "{}"},
		{`{"tokens": 12, "size": 2, "delayMs": 0}`, "T_START" + strings.Repeat(" T_CONTENT", 12) + " T_END", "0 1 2 3 4 5 6 7 8 9 0 1 ", "{}"},
		{`{"reason": "let me"}`, "REASONING_START R_START R_CONTENT R_CONTENT R_END REASONING_END", "", "{}"},
		{`{"tool": "calculator", "args": {"expression": "1+1"}}`, "C_START C_ARGS C_END C_RESULT", "", "{}"},
		{`{"tool": "fail", "args": {"message": "x"}}, {"say": "a"}`, "C_START C_ARGS C_END C_RESULT T_START T_CONTENT T_END", "a", "{}"},
		{`{"state": {"n": 1}}, {"state": {"n": null, "m": [2]}}`, "STATE_DELTA STATE_DELTA", "", `{"m":[2]}`},
		{`{"progress": 0.5, "message": "half"}`, "CUSTOM", "", "{}"},
		{`{"say": "a"}, {"waitMs": 60000}, {"waitUntil": "2020-01-31T09:00:00Z"}, {"say": "b"}`, "T_START T_CONTENT T_END CUSTOM CUSTOM T_START T_CONTENT T_END", "a\nb", "{}"},
		{`{"emitAfterEnd": true}, {"say": "a"}`, "T_START T_CONTENT T_END", "a", "{}"},
	} {
		res := play(t, `{"do": [`+tt.do+`]}`)
		if got := types(res); got != tt.types {
			t.Errorf("%s: events %s\nwant %s", tt.do, got, tt.types)
		}
		if res.Text() != tt.text || string(res.State()) != tt.state || res.Err != nil {
			t.Errorf("%s: text %q, state %s, %v", tt.do, res.Text(), res.State(), res.Err)
		}
		plugintest.Replay(t, scripted.Agent{}, config(`{"do": [`+tt.do+`]}`))
	}
}

func TestAgent_TokensAreExact(t *testing.T) {
	for size, n := range map[int]int{1: 2500, 3: 2500, 4: 2500, 70000: 3} {
		got := 0
		for _, ev := range play(t, fmt.Sprintf(`{"do": [{"tokens": %d, "size": %d}]}`, n, size)).Events {
			if c, ok := ev.(agui.TextMessageContent); ok {
				got++
				if len(c.Delta) != size {
					t.Fatalf("delta of %d characters, want %d", len(c.Delta), size)
				}
			}
		}
		if got != n {
			t.Errorf("%d tokens of size %d, want %d", got, size, n)
		}
	}
}

func TestAgent_DelaysBetweenDeltas(t *testing.T) {
	for _, do := range []string{
		`{"say": "one two three", "delayMs": 5000}`,
		`{"reason": "one two three", "delayMs": 5000}`,
		`{"tokens": 3, "delayMs": 5000}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			play(t, `{"do": [`+do+`]}`)
			if got := time.Since(start); got != 10*time.Second {
				t.Errorf("%s took %s, want 10s", do, got)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(plugins.ErrCancelled) })
			start = time.Now()
			res, err := plugintest.Execute(ctx, scripted.Agent{}, config(`{"do": [`+do+`]}`))
			if err != nil || !errors.Is(res.Err, plugins.ErrCancelled) || time.Since(start) != time.Second {
				t.Errorf("%s: cancelled after %s: %v, %v", do, time.Since(start), res.Err, err)
			}
		})
	}
}

func TestAgent_FailCountsExecutions(t *testing.T) {
	for _, tt := range []struct {
		do        string
		execution int
		fails     bool
	}{
		{`{"fail": "boom"}`, 1, true},
		{`{"fail": "boom"}`, 9, true},
		{`{"fail": "boom", "times": 2}`, 2, true},
		{`{"fail": "boom", "times": 2}`, 3, false},
	} {
		cfg := config(`{"do": [` + tt.do + `, {"say": "a"}]}`)
		cfg.Input.Execution = tt.execution
		res := plugintest.Run(t, scripted.Agent{}, cfg)
		if got := res.Err != nil; got != tt.fails {
			t.Errorf("%s, execution %d: %v", tt.do, tt.execution, res.Err)
		}
	}
	res := play(t, `{"do": [{"fail": "boom", "code": "x", "retryable": true}]}`)
	if got, ok := errors.AsType[*plugins.Error](res.Err); !ok || *got != (plugins.Error{Code: "x", Message: "boom", Retryable: true}) {
		t.Errorf("failed with %#v", res.Err)
	}
}

func TestAgent_Panics(t *testing.T) {
	res := play(t, `{"do": [{"panic": "boom"}]}`)
	if got, ok := errors.AsType[*plugins.PanicError](res.Err); !ok || got.Value != "boom" {
		t.Errorf("ended with %v", res.Err)
	}
}

func TestAgent_WritesAnswer(t *testing.T) {
	for _, tt := range []struct {
		ask    string
		answer plugins.Answer
		reason string
		text   string
	}{
		{`{"message": "Deploy?"}`, plugins.Answer{Payload: json.RawMessage(`true`)}, "confirmation", "answer: true"},
		{`{"message": "Deploy?"}`, plugins.Answer{}, "confirmation", "answer: null"},
		{`{"message": "Deploy?"}`, plugins.Answer{Cancelled: true}, "confirmation", "answer: cancelled"},
		{
			`{"message": "Deploy?", "schema": {"type": "object"}}`,
			plugins.Answer{Payload: json.RawMessage(`{"to": "prod"}`)},
			"input_required", `answer: {"to":"prod"}`,
		},
	} {
		cfg := config(`{"do": [{"say": "before"}, {"ask": ` + tt.ask + `}, {"say": "after"}]}`)
		if res := plugintest.Run(t, scripted.Agent{}, cfg); !errors.Is(res.Err, plugins.ErrWaiting) || res.Text() != "before" {
			t.Errorf("%s: %v, %q", tt.ask, res.Err, res.Text())
		}
		cfg.Answers = []plugins.Answer{tt.answer}
		res := plugintest.Run(t, scripted.Agent{}, cfg)
		if got, want := res.Text(), "before\n"+tt.text+"\nafter"; got != want || res.Questions[0].Reason != tt.reason || res.Err != nil {
			t.Errorf("%s: text %q, questions %+v, %v", tt.ask, got, res.Questions, res.Err)
		}
		plugintest.Replay(t, scripted.Agent{}, cfg)
	}
}

func TestAgent_RunsAppendedMessages(t *testing.T) {
	cfg := config(`{"do": [{"say": "one"}]}`)
	cfg.Next = [][]agui.Message{
		{{Content: `{"do": [{"say": "two"}]}`}, {Content: "three"}},
		{{Content: `{"do": [{"state": {"n": 4}}]}`}},
	}
	res := plugintest.Run(t, scripted.Agent{}, cfg)
	if res.Text() != "one\ntwo\nthree" || string(res.State()) != `{"n":4}` || res.Output.Answer != "three" {
		t.Errorf("%q, %s, %+v", res.Text(), res.State(), res.Output)
	}
	plugintest.Replay(t, scripted.Agent{}, cfg)
}

func TestAgent_EchoesOtherText(t *testing.T) {
	for _, text := range []string{"hello world", `{"do": [`, `{"say": "hello"}`, `["do"]`, `"do"`, "3"} {
		if res := play(t, text); res.Text() != text {
			t.Errorf("%q: said %q", text, res.Text())
		}
	}
}

func TestAgent_RefusesInvalidScript(t *testing.T) {
	for script, want := range map[string]string{
		`{"do": {}}`:                                         "do must be an array",
		`{"do": [], "then": 1}`:                              "only have the member do",
		`{"do": [{"say": "a"}, {"sya": "b"}]}`:               "do[1]: must have one of",
		`{"do": [1]}`:                                        "must be an object",
		`{"do": [null]}`:                                     "must be an object",
		`{"do": [{"say": "a", "reason": "b"}]}`:              "not reason and say",
		`{"do": [{"say": "a", "size": 1}]}`:                  `say has no parameter "size"`,
		`{"do": [{"say": 1}]}`:                               "say cannot be a JSON number",
		`{"do": [{"say": null}]}`:                            "say is null",
		`{"do": [{"say": "a", "delayMs": -1}]}`:              "delayMs must be",
		`{"do": [{"tokens": 0}]}`:                            "tokens must be",
		`{"do": [{"tokens": 1.5}]}`:                          "tokens cannot be",
		`{"do": [{"tokens": 1, "size": 0}]}`:                 "size must be",
		`{"do": [{"tool": ""}]}`:                             "tool is empty",
		`{"do": [{"tool": "a", "args": []}]}`:                "args must be an object",
		`{"do": [{"waitMs": -1}]}`:                           "waitMs must be",
		`{"do": [{"state": [1]}]}`:                           "state must be an object",
		`{"do": [{"progress": 50}]}`:                         "progress must be",
		`{"do": [{"ask": {}}]}`:                              "ask needs a message",
		`{"do": [{"ask": {"message": "a", "schema": "b"}}]}`: "schema must be an object",
		`{"do": [{"ask": {"message": "a", "why": "b"}}]}`:    "why",
		`{"do": [{"fail": "a", "times": -1}]}`:               "times is negative",
	} {
		res := play(t, script)
		got, ok := errors.AsType[*plugins.Error](res.Err)
		if !ok || got.Code != "bad_script" || !strings.Contains(got.Message, want) {
			t.Errorf("%s: %v, want %q", script, res.Err, want)
		}
		if len(res.Events) != 2 {
			t.Errorf("%s: %d events before it failed", script, len(res.Events)-2)
		}
	}
}

// sink is a host that accepts everything.
type sink struct{ plugins.Host }

func (sink) NewID() string         { return "id" }
func (sink) Emit(agui.Event) error { return nil }

func (sink) Do(ctx context.Context, _ plugins.Use, fn func(context.Context) (plugins.Record, error)) (json.RawMessage, error) {
	rec, err := fn(ctx)
	return rec.Output, err
}

func (sink) Next(context.Context, plugins.Use) ([]agui.Message, error) { return nil, nil }

// BenchmarkTokens measures the cost of 1000 tokens before they reach a host.
func BenchmarkTokens(b *testing.B) {
	b.ReportAllocs()
	in := plugins.Input{Query: `{"do": [{"tokens": 1000}]}`, Execution: 1}
	for b.Loop() {
		if _, err := plugins.Execute(b.Context(), scripted.Agent{}, sink{}, in); err != nil {
			b.Fatal(err)
		}
	}
}
