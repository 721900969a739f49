package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/runtime/agui"
)

func ask(query string) plugins.Input { return plugins.Input{Query: query} }

func TestAgent_CallsToolsUntilAnswer(t *testing.T) {
	t.Parallel()
	m := &model{replies: []reply{
		asks("Let me see.", `files_read {"path": "a"}`, `add {"x":1}`),
		asks("", `add {"x":2}`),
		says("It is three."),
	}}
	m.replies[0].pieces = append([]llm.Piece{{Reasoning: "hm"}, {Reasoning: "m"}}, m.replies[0].pieces...)
	m.replies[0].resp.Parts = []llms.ContentPart{
		llm.Carried{Origin: "p", Data: json.RawMessage(`"signature"`)},
		llms.TextPart("Let me "),
		llm.Carried{Origin: "p", Data: json.RawMessage(`2`)},
		llms.TextPart("see."), m.replies[0].resp.Calls[1], m.replies[0].resp.Calls[0],
	}
	cfg := plugintest.Config{Input: ask("What is 1 + 2?"), Tools: []plugins.Tool{echo("files.read"), echo("add"), echo("secret")}}
	a := newAgent(t, llm.Config{Model: m, System: "Be brief.", Tools: []string{"add", "files.*"}})
	res := plugintest.Run(t, a, cfg)
	if res.Err != nil || res.Output.Answer != "It is three." || res.Output.Status != agui.StatusSuccess {
		t.Fatalf("%+v, %v", res.Output, res.Err)
	}
	want := "thinks hmm\nassistant Let me see.\ncalls files.read{\"path\": \"a\"} = {\"path\":\"a\"}\ncalls add{\"x\":1} = {\"x\":1}\n" +
		"calls add{\"x\":2} = {\"x\":2}\nassistant It is three."
	if diff := cmp.Diff(want, shown(res.Events)); diff != "" {
		t.Error(diff)
	}
	want = "system: Be brief.\nhuman: What is 1 + 2?\n" +
		"ai: carried \"signature\" | Let me  | carried 2 | see. | add{\"x\":1} | files_read{\"path\": \"a\"}\n" +
		"tool: files_read gave {\"path\":\"a\"}\ntool: add gave {\"x\":1}\n" +
		"ai: add{\"x\":2}\ntool: add gave {\"x\":2}"
	if diff := cmp.Diff(want, m.request(3)); diff != "" {
		t.Error(diff)
	}
	var offered []string
	for _, tool := range m.asked[0].Options.Tools {
		offered = append(offered, tool.Function.Name)
	}
	if diff := cmp.Diff([]string{"add", "files_read"}, offered); diff != "" {
		t.Error(diff)
	}
	last := res.Events[len(res.Events)-1].(agui.RunFinished)
	if want := (agui.FinishMetadata{Provider: "p", Model: "m", InputTokens: 30, OutputTokens: 15, FinishReason: "stop"}); string(last.Metadata) != string(want.JSON()) {
		t.Errorf("the run ends with %s", last.Metadata)
	}
	plugintest.Replay(t, a, cfg)
}

// The calls of one answer belong to one message, with or without text.
func TestAgent_CallsBelongToAnswer(t *testing.T) {
	t.Parallel()
	m := &model{replies: []reply{asks("one", "add {}"), asks("", "add {}", "add {}"), says("done")}}
	res := plugintest.Run(t, newAgent(t, llm.Config{Model: m, Tools: []string{"*"}}), plugintest.Config{Input: ask("go"), Tools: []plugins.Tool{echo("add")}})
	var calls []int
	for _, msg := range res.Messages() {
		if msg.Role == agui.RoleAssistant {
			calls = append(calls, len(msg.ToolCalls))
		}
	}
	if diff := cmp.Diff([]int{1, 2, 0}, calls); diff != "" {
		t.Errorf("%s\n%s", diff, res.Log())
	}
}

func TestAgent_ModelSeesFailures(t *testing.T) {
	t.Parallel()
	m := &model{replies: []reply{asks("", `gone {}`, `add {"x`, `add [1]`, `boom {}`), says("I see.")}}
	boom := tool{plugins.Info{Name: "boom"}, func(context.Context, *plugins.Call) (string, error) {
		return "", &plugins.Error{Code: "no_luck", Message: "No luck", Retryable: true}
	}}
	cfg := plugintest.Config{Input: ask("go"), Tools: []plugins.Tool{echo("add"), boom}}
	a := newAgent(t, llm.Config{Model: m, Tools: []string{"*"}})
	res := plugintest.Run(t, a, cfg)
	if res.Err != nil || res.Output.Answer != "I see." {
		t.Fatalf("%+v, %v", res.Output, res.Err)
	}
	for _, want := range []string{"unknown_tool", "invalid_arguments", "no_luck"} {
		if !strings.Contains(m.request(2), want) {
			t.Errorf("the model does not learn of %s:\n%s", want, m.request(2))
		}
	}
	if strings.Contains(m.request(2), `{"x |`) {
		t.Errorf("broken arguments are sent back:\n%s", m.request(2))
	}
	plugintest.Replay(t, a, cfg)
}

// The model can call only the tools and agents of its agent, under any name.
func TestAgent_CallsOnlyOfferedTools(t *testing.T) {
	t.Parallel()
	called := atomic.Int32{}
	secret := tool{plugins.Info{Name: "files.delete"}, func(context.Context, *plugins.Call) (string, error) {
		called.Add(1)
		return "deleted", nil
	}}
	other := newAgent(t, llm.Config{Name: "other", Model: &model{replies: []reply{says("I was called")}}})
	m := &model{replies: []reply{asks("", `files.delete {"path":"/"}`, `other {"query":"hi"}`, `files.read {}`, "\x1b[2J\x00 {}"), says("I see.")}}
	a := newAgent(t, llm.Config{Model: m, Tools: []string{"files.read"}})
	cfg := plugintest.Config{Input: ask("go"), Tools: []plugins.Tool{secret, echo("files.read")}, Agents: []plugins.Agent{other}}
	res := plugintest.Run(t, a, cfg)
	want := `calls _files_delete{"path":"/"} = unknown_tool` + "\n" + `calls _other{"query":"hi"} = unknown_tool` + "\n" +
		"calls files.read{} = {}\ncalls ___2J_{} = unknown_tool\nassistant I see."
	if diff := cmp.Diff(want, shown(res.Events)); diff != "" || res.Err != nil || called.Load() != 0 {
		t.Errorf("%v, called %d times\n%s", res.Err, called.Load(), diff)
	}
	if got := strings.Count(m.request(2), "unknown_tool"); got != 3 {
		t.Errorf("the model is told of %d refusals:\n%s", got, m.request(2))
	}
	plugintest.Replay(t, a, cfg)
}

// Names with a prefix of a model's training are those of the tools without it, unless a tool has that name.
func TestAgent_IgnoresPrefixOfName(t *testing.T) {
	t.Parallel()
	m := &model{replies: []reply{asks("", `functions.add {"x":1}`, `default_api.files_read {}`, `tools.other {}`, `functions.now {}`), says("I see.")}}
	cfg := plugintest.Config{Input: ask("go"), Tools: []plugins.Tool{echo("add"), echo("files.read"), echo("functions.now"), echo("now")}}
	res := plugintest.Run(t, newAgent(t, llm.Config{Model: m, Tools: []string{"*"}}), cfg)
	want := "calls add{\"x\":1} = {\"x\":1}\ncalls files.read{} = {}\ncalls _tools_other{} = unknown_tool\ncalls functions.now{} = {}\nassistant I see."
	if diff := cmp.Diff(want, shown(res.Events)); diff != "" || res.Err != nil {
		t.Error(res.Err, diff)
	}
}

// If the calls of the complete answer differ from those that were streamed, the answer is retracted and shown again.
func TestAgent_RetractsWrongPieces(t *testing.T) {
	t.Parallel()
	m := &model{replies: []reply{asks("Let me see.", `add {"x":1}`, `add {"x":2}`), says("done")}}
	m.replies[0].pieces = append([]llm.Piece{{Reasoning: "hm"}}, m.replies[0].pieces...)
	m.replies[0].resp.Reasoning = "hm"
	m.replies[0].resp.Calls = m.replies[0].resp.Calls[1:]
	cfg := plugintest.Config{Input: ask("go"), Tools: []plugins.Tool{echo("add")}}
	a := newAgent(t, llm.Config{Model: m, Tools: []string{"*"}})
	res := plugintest.Run(t, a, cfg)
	want := "thinks hm\nassistant Let me see.\ncalls add{\"x\":1} = interrupted\ncalls add{\"x\":2} = interrupted\n"
	got := shown(res.Events)
	if !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "]}\nthinks hm\nassistant Let me see.\ncalls add{\"x\":2} = {\"x\":2}\nassistant done") || res.Err != nil {
		t.Errorf("%v\n%s", res.Err, got)
	}
	plugintest.Replay(t, a, cfg)
}

func TestLimits_EndTurnWithPartialSuccess(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]llm.Config{
		"3 steps":   {Steps: 3},
		"45 tokens": {Tokens: 45},
	} {
		m := &model{replies: []reply{asks("", "add {}"), asks("", "add {}"), asks("", "add {}"), asks("", "add {}")}}
		cfg.Model, cfg.Tools = m, []string{"*"}
		run := plugintest.Config{Input: ask("go"), Tools: []plugins.Tool{echo("add")}}
		res := plugintest.Run(t, newAgent(t, cfg), run)
		if res.Err != nil || m.calls() != 3 || res.Output.Status != agui.StatusPartialSuccess || !strings.Contains(res.Output.Answer, name) {
			t.Errorf("%s: %d calls, %+v, %v", name, m.calls(), res.Output, res.Err)
		}
		if !strings.Contains(shown(res.Events), name) {
			t.Errorf("the user does not see it:\n%s", shown(res.Events))
		}
		plugintest.Replay(t, newAgent(t, cfg), run)
	}
}

func TestAgent_HearsAppendedMessages(t *testing.T) {
	t.Parallel()
	m := &model{replies: []reply{asks("", "add {}"), says("done")}}
	a := newAgent(t, llm.Config{Model: m, Tools: []string{"*"}})
	cfg := plugintest.Config{
		Input: ask("go"), Tools: []plugins.Tool{echo("add")},
		Next: [][]agui.Message{nil, {{Content: "rather left"}}},
	}
	m.replies = append([]reply{m.replies[0]}, m.replies...) // after a user message the model starts over
	res := plugintest.Run(t, a, cfg)
	if res.Err != nil || !strings.HasSuffix(m.request(2), "tool: add gave {}\nhuman: rather left") {
		t.Errorf("%v\n%s", res.Err, m.request(2))
	}
	plugintest.Replay(t, a, cfg)
}

// painter is a tool whose result has an image.
type painter struct{}

func (painter) Info() plugins.Info { return plugins.Info{Name: "paint"} }

func (painter) Call(context.Context, *plugins.Call) (agui.ToolOutput, error) {
	return agui.ToolOutput{ResultSummary: "a dot", Parts: json.RawMessage(
		`[{"type":"text","text":"a dot"},{"type":"image","source":{"type":"data","value":"aGk=","mimeType":"image/png"}}]`)}, nil
}

// The model sees the images of a result behind it, in the turn of the call and in later ones.
func TestAgent_SendsImagesOfResults(t *testing.T) {
	t.Parallel()
	m := &model{replies: []reply{asks("", "paint {}")}}
	m.fail = func(n int) error {
		if n == 2 { // an image is sent as a user message, after which the model starts over
			m.replies[0] = says("nice")
		}
		return nil
	}
	const shown = "tool: paint gave a dot\nhuman: From the result of paint: | image/png \"hi\""
	a := newAgent(t, llm.Config{Model: m, Tools: []string{"*"}})
	first := []agui.Message{{ID: "u", Role: agui.RoleUser, Content: "go"}}
	res := plugintest.Run(t, a, plugintest.Config{Messages: first, Tools: []plugins.Tool{painter{}}})
	if res.Err != nil || !strings.HasSuffix(m.request(2), shown) {
		t.Errorf("%v\n%s", res.Err, m.request(2))
	}
	thread := append(res.Messages(), agui.Message{ID: "v", Role: agui.RoleUser, Content: "again"})
	res = plugintest.Run(t, a, plugintest.Config{Messages: thread, Tools: []plugins.Tool{painter{}}})
	if res.Err != nil || !strings.Contains(m.request(3), shown+"\nai: nice\nhuman: again") {
		t.Errorf("%v\n%s", res.Err, m.request(3))
	}
}

// failing fails the first n calls with err.
func failing(n int, err error) func(int) error {
	return func(call int) error {
		if call <= n {
			return err
		}
		return nil
	}
}

func TestRetries_WaitAsAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		busy := &llm.Error{Code: "rate_limited", Message: "Slow down", Retryable: true, RetryAfter: 20 * time.Second}
		m := &model{replies: []reply{says("done")}, fail: failing(2, busy)}
		from := time.Now()
		res := plugintest.Run(t, newAgent(t, llm.Config{Model: m}), plugintest.Config{Input: ask("go")})
		if res.Err != nil || res.Output.Answer != "done" || m.calls() != 3 || time.Since(from) != 40*time.Second {
			t.Errorf("%+v, %v after %d calls and %v", res.Output, res.Err, m.calls(), time.Since(from))
		}
	})
}

func TestRetries_AreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			err   *llm.Error
			calls int
		}{
			{&llm.Error{Code: "model_overloaded", Message: "Busy", Retryable: true}, 4},
			{&llm.Error{Code: "rate_limited", Message: "Come back tomorrow", Retryable: true, RetryAfter: 24 * time.Hour}, 1},
			{&llm.Error{Code: "invalid_api_key", Message: "The key sk-1 is wrong"}, 1},
			{&llm.Error{Code: "permission_denied", Message: "Key sk-1 of acme has no access"}, 1},
			{&llm.Error{Code: "quota_exceeded", Message: "Buy credits for acme"}, 1},
			{&llm.Error{Code: "model_not_found", Status: 403, Message: "Project acme has no such model"}, 1},
		} {
			m, log := &model{fail: failing(99, test.err)}, new(strings.Builder)
			res := plugintest.Run(t, newAgent(t, llm.Config{Model: m, Log: slog.New(slog.NewTextHandler(log, nil))}), plugintest.Config{Input: ask("go")})
			got, ok := errors.AsType[*plugins.Error](res.Err)
			if logged := strings.Contains(log.String(), test.err.Message); logged { // for operators alone
				if all := res.Log() + res.Err.Error(); strings.Contains(all, "sk-1") || strings.Contains(all, "acme") {
					t.Errorf("users read %s", all)
				}
				test.err = &llm.Error{Code: test.err.Code, Message: "The model's provider refuses this server's account; the server's log tells its operator why"}
			} else if strings.Contains(test.err.Message, "sk-1") || strings.Contains(test.err.Message, "acme") {
				t.Errorf("operators do not read %s", test.err.Message)
			}
			if !ok || got.Code != test.err.Code || got.Message != test.err.Message || got.Retryable != test.err.Retryable || m.calls() != test.calls {
				t.Errorf("%s: %v after %d calls", test.err.Code, res.Err, m.calls())
			}
		}
	})
}

// The output of a failed attempt is retracted, and its usage counts.
func TestRetries_UseNewMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &model{replies: []reply{asks("half a", `add {"x":1}`), says("done")}}
		tries := 0
		m.replies[0].hold = func(context.Context) error {
			if tries++; tries == 1 {
				return &llm.Error{Code: "model_overloaded", Message: "Cut", Retryable: true}
			}
			return nil
		}
		res := plugintest.Run(t, newAgent(t, llm.Config{Model: m, Tools: []string{"*"}}), plugintest.Config{Input: ask("go"), Tools: []plugins.Tool{echo("add")}})
		want := "assistant half a\ncalls add{\"x\":1} = interrupted\nmessages-retracted {\"messageIds\":[\"message-1\",\"message-4\"]}\nassistant half a\ncalls add{\"x\":1} = {\"x\":1}\nassistant done"
		if diff := cmp.Diff(want, shown(res.Events)); diff != "" || res.Err != nil {
			t.Error(res.Err, diff)
		}
		if len(res.Usage) != 1 || res.Usage[0].TotalTokens != 45 {
			t.Errorf("usage %+v", res.Usage)
		}
	})
}

func TestFallback_AnswersAfterFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gone := &model{fail: failing(99, &llm.Error{Code: "model_not_found", Message: "No such model"})}
		m := &model{replies: []reply{says("done")}}
		res := plugintest.Run(t, newAgent(t, llm.Config{Model: gone, Fallbacks: []llms.Model{gone, m}}), plugintest.Config{Input: ask("go")})
		if res.Err != nil || res.Output.Answer != "done" || gone.calls() != 2 || m.calls() != 1 {
			t.Errorf("%+v, %v", res.Output, res.Err)
		}
	})
}

func TestAgent_CancelClosesStream(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	var closed atomic.Bool
	m := &model{replies: []reply{says("half")}}
	m.replies[0].hold = func(ctx context.Context) error {
		cancel(plugins.ErrCancelled)
		<-ctx.Done()
		closed.Store(true)
		return context.Cause(ctx)
	}
	res, err := plugintest.Execute(ctx, newAgent(t, llm.Config{Model: m}), plugintest.Config{Input: ask("go")})
	if err != nil || !errors.Is(res.Err, plugins.ErrCancelled) || !closed.Load() || m.calls() != 1 {
		t.Errorf("%v, %v after %d calls", err, res.Err, m.calls())
	}
}

const structured = `{"answer":"It is \"three\".\n\ud83d\ude00","key_points":["1 + 2"],"suggested_actions":["ask on"],"result_type":"text"}`

func TestOutput_Structured(t *testing.T) {
	t.Parallel()
	r := reply{resp: llm.Response{Text: structured, Finish: "stop", Usage: usage}}
	for _, c := range []byte(structured) {
		r.pieces = append(r.pieces, llm.Piece{Text: string(c)})
	}
	m := &model{replies: []reply{r}}
	a := newAgent(t, llm.Config{Model: m, Output: json.RawMessage(llm.Structured)})
	res := plugintest.Run(t, a, plugintest.Config{Input: ask("go")})
	want := agui.WorkerOutput{
		Status: agui.StatusSuccess, Answer: "It is \"three\".\n😀", KeyPoints: []string{"1 + 2"},
		SuggestedActions: []string{"ask on"}, ResultType: "text",
	}
	if diff := cmp.Diff(want, res.Output); diff != "" || res.Err != nil {
		t.Fatal(res.Err, diff)
	}
	if got := shown(res.Events); got != "assistant "+want.Answer {
		t.Errorf("shown: %q", got)
	}
	for _, ev := range res.Events {
		if end, ok := ev.(agui.TextMessageEnd); ok {
			if diff := cmp.Diff(&want, end.Output); diff != "" {
				t.Error(diff)
			}
		}
	}
	if m.asked[0].Schema == nil || !strings.Contains(m.request(1), `"suggested_actions"`) { // not all providers support a schema
		t.Error("no schema is asked for")
	}
	plugintest.Replay(t, a, plugintest.Config{Input: ask("go")})
}

// An answer that breaks its schema is retracted, and requested again with the error, twice. The third is the failure.
func TestOutput_RepairsTwice(t *testing.T) {
	t.Parallel()
	const city = `{"type":"object","properties":{"city":{"type":"string"},"km":{"type":"integer"}},"required":["city"],"additionalProperties":false}`
	for _, c := range []struct {
		schema  string
		answers []string
		want    agui.WorkerOutput
		code    string
		shown   string
	}{
		{llm.Structured, []string{`{"answer":"half"}`, "```json\n" + structured + "\n```"}, agui.WorkerOutput{
			Status: agui.StatusSuccess, Answer: "It is \"three\".\n😀", KeyPoints: []string{"1 + 2"}, SuggestedActions: []string{"ask on"}, ResultType: "text",
		}, "", "assistant half (failed)\nmessages-retracted {\"messageIds\":[\"message-1\"]}\nassistant It is \"three\".\n😀"},
		{city, []string{`{"km":"far"}`, "no object", `{"city":"Oslo"}`}, agui.WorkerOutput{
			Status: agui.StatusSuccess, Answer: `{"city":"Oslo"}`, Result: json.RawMessage(`{"city":"Oslo"}`),
		}, "", "assistant {\"km\":\"far\"} (failed)\nmessages-retracted {\"messageIds\":[\"message-3\"]}\nassistant no object (failed)\n" +
			"messages-retracted {\"messageIds\":[\"message-3\"]}\nassistant {\"city\":\"Oslo\"}"},
		{city, []string{"a", "b", "c"}, agui.WorkerOutput{}, "bad_output", ""},
	} {
		m := &model{replies: []reply{{}}}
		m.fail = func(n int) error { // a repair is requested in a user's message, so each reply is the first
			m.replies[0] = says(c.answers[n-1])
			return nil
		}
		a := newAgent(t, llm.Config{Model: m, Output: json.RawMessage(c.schema)})
		res := plugintest.Run(t, a, plugintest.Config{Input: ask("go")})
		if m.calls() != len(c.answers) {
			t.Errorf("%q: %d calls", c.answers, m.calls())
		}
		if c.code != "" {
			failed, ok := errors.AsType[*plugins.Error](res.Err)
			if !ok || failed.Code != c.code || failed.Message != "The answer does not satisfy its schema: it is not JSON" {
				t.Errorf("%q: %v", c.answers, res.Err)
			}
			if got := shown(res.Events); strings.Count(got, "messages-retracted") != 3 {
				t.Errorf("shown: %q", got)
			}
			continue
		}
		if diff := cmp.Diff(c.want, res.Output); diff != "" || res.Err != nil {
			t.Errorf("%q: %v %s", c.answers, res.Err, diff)
		}
		if got := shown(res.Events); got != c.shown {
			t.Errorf("shown: %q", got)
		}
		if c.schema == city && !strings.Contains(m.request(2), "at '': missing property 'city'; at '/km': got string, want integer") {
			t.Errorf("the repair is requested with %s", m.request(2))
		}
		if len(res.Usage) != 1 || res.Usage[0].TotalTokens != int64(15*len(c.answers)) {
			t.Errorf("%q: usage %+v", c.answers, res.Usage)
		}
		plugintest.Replay(t, newAgent(t, llm.Config{Model: &model{replies: []reply{says(c.answers[len(c.answers)-1])}}, Output: json.RawMessage(c.schema)}), plugintest.Config{Input: ask("go")})
	}
	for _, schema := range []string{`{`, `{"type":"array"}`, `{"type":"object","required":5}`, `{"type":"object","$ref":"file:///etc/passwd"}`} {
		if _, err := llm.New(llm.Config{Name: "a", Model: &model{}, Output: json.RawMessage(schema)}); err == nil {
			t.Errorf("%s is accepted", schema)
		}
	}
}

// A refusal is text and needs no key points. It is no object either.
func TestOutput_Refusal(t *testing.T) {
	t.Parallel()
	m := &model{replies: []reply{says("I will not.")}}
	m.replies[0].resp.Finish = "content_filter"
	res := plugintest.Run(t, newAgent(t, llm.Config{Model: m, Output: json.RawMessage(llm.Structured)}), plugintest.Config{Input: ask("go")})
	if res.Err != nil || res.Output.Answer != "I will not." || m.calls() != 1 || shown(res.Events) != "assistant I will not." {
		t.Errorf("%+v, %v after %d calls: %s", res.Output, res.Err, m.calls(), shown(res.Events))
	}
	res = plugintest.Run(t, newAgent(t, llm.Config{Model: m, Output: json.RawMessage(`{"type":"object"}`)}), plugintest.Config{Input: ask("go")})
	if failed, ok := errors.AsType[*plugins.Error](res.Err); !ok || failed.Code != "content_filter" || failed.Message != "The model refused to answer: I will not." {
		t.Errorf("with a schema: %v", res.Err)
	}
}

func TestAgent_TruncatedAnswerIsPartial(t *testing.T) {
	t.Parallel()
	m := &model{replies: []reply{says("as far as")}}
	m.replies[0].resp.Finish = "length"
	res := plugintest.Run(t, newAgent(t, llm.Config{Model: m}), plugintest.Config{Input: ask("go")})
	if res.Err != nil || res.Output.Status != agui.StatusPartialSuccess || res.Output.Answer != "as far as" {
		t.Errorf("%+v, %v", res.Output, res.Err)
	}
}

// An endless answer is not retried and uses bounded memory.
func TestAgent_EndlessAnswerFails(t *testing.T) {
	t.Parallel()
	much := strings.Repeat("much ", 50_000)
	for name, p := range map[string]llm.Piece{
		"text": {Text: much}, "reasoning": {Reasoning: much}, "arguments": {Call: &llm.CallPiece{Arguments: much}},
	} {
		m := &model{replies: []reply{asks("", "add {}")}}
		for range 100 {
			m.replies[0].pieces = append(m.replies[0].pieces, p)
		}
		res := plugintest.Run(t, newAgent(t, llm.Config{Model: m, Tools: []string{"add"}}), plugintest.Config{Input: ask("go"), Tools: []plugins.Tool{echo("add")}})
		if e, ok := errors.AsType[*plugins.Error](res.Err); !ok || e.Code != "answer_too_large" || m.calls() != 1 {
			t.Errorf("%s: %v after %d calls", name, res.Err, m.calls())
		}
	}
}

func TestAgent_RefusalFails(t *testing.T) {
	t.Parallel()
	m := &model{replies: []reply{{resp: llm.Response{Finish: "content_filter", Usage: usage}}}}
	res := plugintest.Run(t, newAgent(t, llm.Config{Model: m}), plugintest.Config{Input: ask("go")})
	if e, ok := errors.AsType[*plugins.Error](res.Err); !ok || e.Code != "content_filter" || len(res.Usage) != 1 {
		t.Errorf("%v, usage %v", res.Err, res.Usage)
	}
}

// cutOff is a llms.Model whose connection breaks once, with the error text of langchaingo's Anthropic.
type cutOff struct {
	plain
	asked int
}

func (c *cutOff) GenerateContent(ctx context.Context, msgs []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	if c.asked++; c.asked == 1 {
		return nil, fmt.Errorf("anthropic: failed to create message: issue scanning response: %w", io.ErrUnexpectedEOF)
	}
	return c.plain.GenerateContent(ctx, msgs, options...)
}

func TestPlainModel_RetriesLostConnection(t *testing.T) {
	t.Parallel()
	m := &cutOff{}
	res := plugintest.Run(t, newAgent(t, llm.Config{Model: m, Tools: []string{"add"}}), plugintest.Config{Input: ask("go"), Tools: []plugins.Tool{echo("add")}})
	if res.Err != nil || m.asked != 3 {
		t.Errorf("asked %d times: %v", m.asked, res.Err)
	}
}

// plain is a llms.Model that streams like langchaingo's OpenAI: pieces of calls are JSON on the text callback.
type plain struct{ chunks []string }

func (p *plain) GenerateContent(ctx context.Context, msgs []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	var opts llms.CallOptions
	for _, o := range options {
		o(&opts)
	}
	if msgs[len(msgs)-1].Role == llms.ChatMessageTypeTool {
		return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: "done", StopReason: "stop"}}}, nil
	}
	for _, c := range p.chunks {
		if err := opts.StreamingFunc(ctx, []byte(c)); err != nil {
			return nil, err
		}
	}
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{{
		Content: "let me see", StopReason: "tool_calls",
		ToolCalls:      []llms.ToolCall{{ID: "c1", FunctionCall: &llms.FunctionCall{Name: "add", Arguments: `{"x":1}`}}},
		GenerationInfo: map[string]any{"PromptTokens": 3, "CompletionTokens": 4, "TotalTokens": 7},
	}}}, nil
}

func (p *plain) Call(context.Context, string, ...llms.CallOption) (string, error) {
	return "", errors.New("not called")
}

func TestPlainModel_Streams(t *testing.T) {
	t.Parallel()
	p := &plain{chunks: []string{
		"let me", "", " see", `[{"id":"c1","type":"function","function":{"name":"add","arguments":""}}]`, `[{"function":{"arguments":"{\"x\":1}"}}]`,
	}}
	res := plugintest.Run(t, newAgent(t, llm.Config{Model: p, Tools: []string{"add"}}), plugintest.Config{Input: ask("go"), Tools: []plugins.Tool{echo("add")}})
	want := "assistant let me see\ncalls add{\"x\":1} = {\"x\":1}\nassistant done"
	if diff := cmp.Diff(want, shown(res.Events)); diff != "" || res.Err != nil {
		t.Error(res.Err, diff)
	}
	if len(res.Usage) == 0 || res.Usage[0].TotalTokens <= 7 { // the model counts the last of two calls
		t.Errorf("usage %+v", res.Usage)
	}
}

// Models that never report usage get an estimate.
func TestUsage_EstimatesMissingCounts(t *testing.T) {
	t.Parallel()
	uncounted := func(r reply) reply {
		r.resp.Usage = agui.TokenUsage{Provider: "p", Model: "m"}
		return r
	}
	whole := uncounted(says(strings.Repeat("words ", 400)))
	whole.pieces = nil // the answer is not streamed
	for name, c := range map[string]struct {
		replies     []reply
		input, made int64
	}{
		"an answer in pieces": {[]reply{uncounted(says(strings.Repeat("words ", 400)))}, 1000, 600},
		"an answer at once":   {[]reply{whole}, 1000, 600},
		"a call of a tool":    {[]reply{uncounted(asks("", `add {"x":1}`)), says("done")}, 1000, 3},
	} {
		a := newAgent(t, llm.Config{Model: &model{replies: c.replies}, Tools: []string{"add"}})
		res := plugintest.Run(t, a, plugintest.Config{Input: ask(strings.Repeat("word", 1000)), Tools: []plugins.Tool{echo("add")}})
		if res.Err != nil || len(res.Usage) != 1 {
			t.Fatalf("%s: %v, usage %+v", name, res.Err, res.Usage)
		}
		if u := res.Usage[0]; u.InputTokens < c.input || u.OutputTokens < c.made || u.TotalTokens != u.InputTokens+u.OutputTokens {
			t.Errorf("%s: usage %+v, want %d and %d at least", name, u, c.input, c.made)
		}
	}
	m := &model{replies: []reply{uncounted(says("they spoke of q"))}}
	res := plugintest.Run(t, newAgent(t, llm.Config{Model: m, History: 200, Summarise: true}), plugintest.Config{Messages: thread(6)})
	if m.calls() != 2 || res.Usage[0].OutputTokens != 2*4 {
		t.Errorf("a summary and an answer: %d calls, usage %+v", m.calls(), res.Usage)
	}
}
