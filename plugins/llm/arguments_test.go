package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/runtime/agui"
)

// callWith has the model call add with arguments, in one piece or byte by byte, and returns the prompt after it.
func callWith(t *testing.T, arguments, finish string, piecewise bool) (res *plugintest.Result, prompt string) {
	t.Helper()
	m := &model{replies: []reply{asks("", "add "+arguments), says("done")}}
	if m.replies[0].resp.Finish = finish; !piecewise {
		m.replies[0].pieces = nil
	}
	a := newAgent(t, llm.Config{Model: m, Tools: []string{"*"}})
	cfg := plugintest.Config{Input: ask("go"), Tools: []plugins.Tool{echo("add")}}
	res = plugintest.Run(t, a, cfg)
	if res.Err != nil || m.calls() != 2 {
		t.Fatalf("%s: %v after %d calls", arguments, res.Err, m.calls())
	}
	plugintest.Replay(t, a, cfg)
	return res, m.request(2)
}

func TestArguments_AreReadTolerantly(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string]string{
		`{"x":1}`:                         `{"x":1}`,
		" {\"x\": 1}\n":                   `{"x":1}`,
		"\uFEFF{\"x\":1}":                 `{"x":1}`,
		`"{\"x\":1}"`:                     `{"x":1}`,
		`"\"{\\\"x\\\":1}\""`:             `{"x":1}`,
		"```json\n{\"x\":1}\n```":         `{"x":1}`,
		"```\n{\"x\":1}```":               `{"x":1}`,
		`{"x":1,}`:                        `{"x":1}`,
		`{"x":[1,2, ], "y":{"z":"a,}",}}`: `{"x":[1,2],"y":{"z":"a,}"}}`,
		"{\"x\":\"a\nb\tc\x01\"}":         `{"x":"a\nb\tc\u0001"}`,
		`{"x":1}}`:                        `{"x":1}`,
		`{"x":"}"}]}`:                     `{"x":"}"}`,
		`{"x":12345678901234567890}`:      `{"x":12345678901234567890}`,
		`"{\"x\":\"a\\\"b\"}"`:            `{"x":"a\"b"}`,
		``:                                `{}`,
		`null`:                            `{}`,
	} {
		for _, piecewise := range []bool{true, false} {
			res, prompt := callWith(t, arguments, "tool_calls", piecewise)
			var made []string
			for _, msg := range res.Messages() {
				for _, c := range msg.ToolCalls {
					made = append(made, c.Arguments)
				}
			}
			if len(made) == 0 || compact(t, made[len(made)-1]) != want || !strings.HasSuffix(prompt, "tool: add gave "+want) {
				t.Errorf("%q: shown %q\n%s", arguments, made, prompt)
			}
		}
	}
}

func compact(t *testing.T, object string) string {
	t.Helper()
	var v json.RawMessage
	if err := json.Unmarshal([]byte(object), &v); err != nil {
		return object
	}
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// A call with unreadable arguments is not made, and its result quotes the model.
func TestArguments_RefusalsQuoteTheModel(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string]string{
		`{"x":1`:                               "unexpected end of JSON input at byte 6",
		`{"x":1,,}`:                            "invalid character ',' looking for beginning of object key string at byte 8",
		`[1]`:                                  "it is another value",
		`7`:                                    "it is another value",
		`x = 1`:                                "invalid character 'x'",
		`{"x":1}{"y":2}`:                       "invalid character '{' after top-level value at byte 8",
		`{"x":"` + strings.Repeat("y", 10_000): "bytes left out",
	} {
		_, prompt := callWith(t, arguments, "tool_calls", true)
		wrote, _ := json.Marshal("You wrote: " + arguments[:min(len(arguments), 1000)])
		if !strings.Contains(prompt, "invalid_arguments") || !strings.Contains(prompt, want) || !strings.Contains(prompt, strings.Trim(string(wrote), `"`)) || len(prompt) > 4000 {
			t.Errorf("%.30s: %s", arguments, prompt)
		}
	}
}

func TestCall_CutByLimitIsNotMade(t *testing.T) {
	t.Parallel()
	for arguments, cut := range map[string]bool{``: true, `{}`: true, `{"x":`: true, `{"x":1,`: true, `{"x":1}`: false, `"{\"x\":1}"`: false} {
		_, prompt := callWith(t, arguments, "length", true)
		if got := strings.Contains(prompt, "answer_cut") && strings.Contains(prompt, "max_tokens"); got != cut {
			t.Errorf("%s: %s", arguments, prompt)
		}
	}
}

func TestCall_IsNotMadeWithoutItsArguments(t *testing.T) {
	t.Parallel()
	for _, finish := range []string{"content_filter", "interrupted", "max_tokens_exceeded", "other"} {
		for arguments, cut := range map[string]bool{``: true, `{ }`: true, `{"x":1}`: false} {
			_, prompt := callWith(t, arguments, finish, true)
			if got := strings.Contains(prompt, "answer_cut") && strings.Contains(prompt, finish); got != cut {
				t.Errorf("%s, then %s: %s", arguments, finish, prompt)
			}
		}
	}
	for _, value := range []string{`42`, `true`, `[1]`} {
		if _, prompt := callWith(t, value, "tool_calls", true); !strings.Contains(prompt, "invalid_arguments") {
			t.Errorf("%s: %s", value, prompt)
		}
	}
}

// big is a tool with results of a size.
func big(name string, size int) tool {
	return tool{plugins.Info{Name: name}, func(context.Context, *plugins.Call) (string, error) {
		return "<" + strings.Repeat("x", size) + ">", nil
	}}
}

func TestResult_LargerThanContext(t *testing.T) {
	t.Parallel()
	m := &model{replies: []reply{asks("", "big {}", "small {}"), says("done")}}
	limit, refused := 30_000, 0
	size := func() (n int) {
		for _, msg := range m.asked[len(m.asked)-1].Messages {
			for _, p := range msg.Parts {
				if r, ok := p.(llms.ToolCallResponse); ok {
					n += len(r.Content)
				}
			}
		}
		return n
	}
	m.fail = func(int) error {
		if size() <= limit {
			return nil
		}
		refused++
		return &llm.Error{Code: "context_too_long", Message: "Too long"}
	}
	cfg := plugintest.Config{Input: ask("go"), Tools: []plugins.Tool{big("big", 600_000), big("small", 3000)}}
	res := plugintest.Run(t, newAgent(t, llm.Config{Model: m, Tools: []string{"*"}}), cfg)
	prompt := m.request(m.calls())
	if res.Err != nil || res.Output.Answer != "done" || refused == 0 || size() < limit/4 ||
		!strings.Contains(prompt, "bytes left out") || !strings.Contains(prompt, "big gave <xx") || !strings.Contains(prompt, "xx>\ntool: small gave <xx") {
		t.Errorf("%v after %d refusals: %d bytes", res.Err, refused, size())
	}
	var stored int
	for _, ev := range res.Events {
		if r, ok := ev.(agui.ToolCallResult); ok {
			stored = max(stored, len(r.Content))
		}
	}
	if stored < 600_000 {
		t.Errorf("the log has %d bytes of the result", stored)
	}
	limit = 100
	res = plugintest.Run(t, newAgent(t, llm.Config{Model: m, Tools: []string{"*"}}), cfg)
	if failed := (*plugins.Error)(nil); !errors.As(res.Err, &failed) || failed.Code != "context_too_long" || m.calls() > 30 {
		t.Errorf("%v after %d calls", res.Err, m.calls())
	}
}
