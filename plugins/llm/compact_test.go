package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/runtime/agui"
)

// A conversation that is longer than the context loses its oldest turns, once and each with its calls and results.
func TestContext_DropsOldestTurns(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		turns, fits int    // how many turns before the last there are, and the context has
		want        string // the turns that are kept, or the code of the failure
	}{
		{6, 5, "2"}, {6, 2, "2"}, {6, 1, "0"}, {1, 0, "0"}, {0, -1, "context_too_long"},
	} {
		m := &model{replies: []reply{asks("", "echo {}"), says("done")}}
		m.fail = func(n int) error {
			if strings.Count(m.request(n), "human: q") <= test.fits {
				return nil
			}
			return &llm.Error{Code: "context_too_long", Message: "Too long"}
		}
		a := newAgent(t, llm.Config{Model: m, System: "Be brief.", Tools: []string{"*"}})
		cfg := plugintest.Config{Messages: thread(test.turns), Tools: []plugins.Tool{echo("echo")}}
		res := plugintest.Run(t, a, cfg)
		if failed := (*plugins.Error)(nil); errors.As(res.Err, &failed) {
			if failed.Code != test.want || m.calls() > 2 {
				t.Errorf("%+v: %v after %d calls", test, failed, m.calls())
			}
			continue
		}
		prompt := m.request(m.calls())
		kept := strings.Count(prompt, "human: q")
		if fmt.Sprint(kept) != test.want || m.calls() > 4 || strings.Count(prompt, "files_read gave text") != kept || strings.Count(prompt, "files_read{}") != kept ||
			!strings.Contains(prompt, "system: Be brief.") || !strings.Contains(prompt, "human: and now?") {
			t.Errorf("%+v: after %d calls, %s", test, m.calls(), prompt)
		}
		dropped := 0
		for _, c := range compactions(t, res.Events) {
			dropped += c.Dropped
		}
		if dropped != test.turns-kept {
			t.Errorf("%+v: the log shows %s", test, shown(res.Events))
		}
		plugintest.Replay(t, a, cfg)
	}
}

// Turns that are dropped in mid-turn are summarised once, also when the answer is repeated after a crash.
func TestContext_SummarisesDroppedTurns(t *testing.T) {
	t.Parallel()
	m := &model{}
	summaries := 0
	m.fail = func(n int) error {
		if strings.Count(m.request(n), "human: q") > 3 {
			return &llm.Error{Code: "context_too_long", Message: "Too long"}
		}
		return nil
	}
	m.next = func() reply {
		switch prompt := m.request(m.calls()); {
		case strings.Contains(prompt, "Sum up this conversation"):
			summaries++
			if !strings.Contains(prompt, "answer 0") || strings.Contains(prompt, "answer 5") {
				t.Errorf("what is summarised: %s", prompt)
			}
			return says("they spoke of q")
		case !strings.Contains(prompt, "summed up:\nthey spoke of q") || !strings.Contains(prompt, "Be brief.") || !strings.Contains(prompt, "and now?"):
			t.Errorf("a prompt without the summary: %s", prompt)
			return says("done")
		case strings.Contains(prompt, "again"):
			return says("done")
		}
		return asks("", `echo {"text":"again"}`)
	}
	a := newAgent(t, llm.Config{Model: m, System: "Be brief.", Tools: []string{"*"}, Summarise: true})
	cfg := plugintest.Config{Messages: thread(6), Tools: []plugins.Tool{echo("echo")}}
	res := plugintest.Run(t, a, cfg)
	if res.Err != nil || summaries != 1 || m.calls() != 4 {
		t.Errorf("%v after %d calls, %d summaries", res.Err, m.calls(), summaries)
	}
	for key := range res.Remembered { // guards' keys, which begin otherwise, cannot be written by the ids of messages
		if !strings.HasPrefix(key, "summary ") {
			t.Errorf("a summary is remembered as %q", key)
		}
	}
	done := compactions(t, res.Events)
	if len(done) != 1 || !done[0].Summarised || done[0].Dropped == 0 {
		t.Errorf("the log shows %+v", done)
	}
	if total := res.Usage[0].TotalTokens; total != 3*15 {
		t.Errorf("%d tokens were used", total)
	}
	summaries = 0
	plugintest.Replay(t, a, cfg)
	if want := 2*res.Records + 1 + 2; summaries != want { // one in each run, and another one if it crashes before or after its usage; later it is remembered
		t.Errorf("%d summaries, want %d", summaries, want)
	}
}

// A turn that overflows the context by the model's own texts ends, as there is nothing to shorten.
func TestContext_OwnWordsOverflow(t *testing.T) {
	t.Parallel()
	m := &model{}
	m.next = func() reply {
		return asks(strings.Repeat("word ", 400), fmt.Sprintf(`echo {"n":%d,"text":%q}`, m.calls(), strings.Repeat("x", 2000)))
	}
	m.fail = func(n int) error {
		if tokens := (len(m.request(n)) + 3) / 4; tokens > 8000 {
			return &llm.Error{Code: "context_too_long", Message: "Too long"}
		}
		return nil
	}
	short := tool{plugins.Info{Name: "echo"}, func(context.Context, *plugins.Call) (string, error) { return "ok", nil }}
	a := newAgent(t, llm.Config{Model: m, Tools: []string{"echo"}, ContextTokens: 8000, Steps: 100, Summarise: true})
	cfg := plugintest.Config{Input: ask("go"), Tools: []plugins.Tool{short}}
	res := plugintest.Run(t, a, cfg)
	if failed := (*plugins.Error)(nil); !errors.As(res.Err, &failed) || failed.Code != "context_too_long" || m.calls() > 20 {
		t.Errorf("%v after %d calls", res.Err, m.calls())
	}
}

// A long result is read on, and the log has it whole.
func TestResult_IsReadOn(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := 1; i <= 20_000; i++ {
		fmt.Fprintf(&text, "row %d\n", i)
	}
	text.WriteString(strings.Repeat("ü", 1000) + "\nlast Needle")
	list := tool{plugins.Info{Name: "list"}, func(context.Context, *plugins.Call) (string, error) { return text.String(), nil }}
	noted := regexp.MustCompile(`\d+ of \d+ bytes left out; read_result with id "([^"]+)" reads them`)
	read := func(arguments string) func(string) string {
		return func(id string) string { return `read_result ` + strings.ReplaceAll(arguments, "ID", id) }
	}
	for _, test := range []struct {
		call func(id string) string
		want string
	}{
		{read(`{"id":"ID","from":10001,"lines":2}`), "Lines, from line 10001 to line 10002 of 20005:\n10001: row 10001\n10002: row 10002\n"},
		{read(`{"id":"ID","find":"needle"}`), "Lines with \"needle\", from line 1 to line 20005 of 20005:\n20005: last Needle\n"},
		{read(`{"id":"ID","from":20001,"lines":1}`), "20001: " + strings.Repeat("ü", 250) + "\n"},
		{read(`{"id":"ID","from":99999}`), "No lines from line 20006 on; the result has 20005 lines"},
		{read(`{"id":"other"}`), `There is no shortened result with the id \"other\"`},
		{read(`{"id":3}`), "invalid_arguments"},
	} {
		m := &model{}
		m.next = func() reply {
			if m.calls() == 1 {
				return asks("", "list {}")
			}
			id := noted.FindStringSubmatch(m.request(2))
			if id == nil {
				t.Fatalf("the result has no note: %s", clip(m.request(2)))
			}
			if m.calls() == 2 {
				return asks("", test.call(id[1]))
			}
			return says("done")
		}
		a := newAgent(t, llm.Config{Model: m, Tools: []string{"list"}, ResultTokens: 2000})
		cfg := plugintest.Config{Input: ask("go"), Tools: []plugins.Tool{list}}
		res := plugintest.Run(t, a, cfg)
		if res.Err != nil || !strings.Contains(m.request(3), test.want) || len(m.request(3)) > 3*8000+2000 {
			t.Errorf("%v: got %s\nwant %s", res.Err, clip(m.request(3)), test.want)
		}
		if n := len(m.asked[0].Options.Tools); n != 1 || len(m.asked[1].Options.Tools) != 2 {
			t.Errorf("%d tools are offered at first", n)
		}
		whole := false
		for _, ev := range res.Events {
			r, ok := ev.(agui.ToolCallResult)
			whole = whole || ok && r.Content == text.String()
		}
		if !whole {
			t.Error("the log does not have the whole result")
		}
	}
}

func clip(s string) string { return s[max(len(s)-1000, 0):] }

// soak is whether a test may take long.
var soak = os.Getenv("BATON_SOAK") != ""

// An agent with a window of 8,000 tokens makes sixty calls of a tool that returns 200 kB, or 2 MB in a soak. A prompt that is not
// compacted begins with the whole one before.
func TestContext_LongTurnStaysInTheWindow(t *testing.T) {
	t.Parallel()
	const window, calls = 8000, 60
	lines := 10_000
	if soak {
		lines = 100_000
	}
	m := &model{}
	for n := range calls {
		m.replies = append(m.replies, asks("", fmt.Sprintf(`dump {"n":%d}`, n)))
	}
	m.replies = append(m.replies, says("done"))
	var before string
	var equal float64
	extended := 0
	m.fail = func(n int) error {
		prompt := m.request(n)
		if tokens := (len(prompt) + 3) / 4; tokens > window {
			t.Errorf("prompt %d has %d tokens", n, tokens)
		}
		same := 0
		for line := range strings.Lines(prompt) {
			if strings.Contains(before, line) {
				same += len(line)
			}
		}
		equal += float64(same) / float64(len(prompt))
		if strings.HasPrefix(prompt, before) {
			extended++
		}
		before = prompt
		return nil
	}
	dump := tool{plugins.Info{Name: "dump"}, func(_ context.Context, c *plugins.Call) (string, error) {
		return strings.Repeat(string(c.Args)+" is a line\n", lines), nil
	}}
	a := newAgent(t, llm.Config{Model: m, Tools: []string{"dump"}, ContextTokens: window, Steps: 100})
	cfg := plugintest.Config{Input: ask("go"), Tools: []plugins.Tool{dump}}
	res := plugintest.Run(t, a, cfg)
	if res.Err != nil || res.Output.Answer != "done" || m.calls() != calls+1 {
		t.Errorf("%+v, %v after %d calls", res.Output, res.Err, m.calls())
	}
	if equal/float64(calls) < 0.8 {
		t.Errorf("%.0f %% of a prompt is equal to the one before", 100*equal/float64(calls))
	}
	n := len(compactions(t, res.Events))
	if n == 0 || n > calls/4 || extended+n != calls+1 {
		t.Errorf("the prompt was compacted %d times, and %d times begins with the one before", n, extended)
	}
}

// A turn whose prompts are compacted goes on after a crash at each of its records.
func TestContext_CompactionSurvivesCrashes(t *testing.T) {
	t.Parallel()
	m := &model{}
	for n := range 14 {
		m.replies = append(m.replies, asks("", fmt.Sprintf(`dump {"n":%d}`, n)))
	}
	m.replies = append(m.replies, says("done"))
	prompts := make(map[int]string) // by the number of answers before
	ids := regexp.MustCompile(`message-\d+`)
	m.fail = func(n int) error {
		prompt := ids.ReplaceAllString(m.request(n), "message")
		if tokens := (len(prompt) + 3) / 4; tokens > 2000 {
			t.Errorf("a prompt has %d tokens", tokens)
		}
		before := strings.Count(prompt, "ai: ")
		if was := prompts[before]; was != "" && was != prompt {
			t.Errorf("after a crash the prompt after %d answers is\n%s\nwithout it\n%s", before, clip(prompt), clip(was))
		}
		prompts[before] = prompt
		return nil
	}
	lines := 1000
	if soak {
		lines = 100_000 // 2 MB
	}
	dump := tool{plugins.Info{Name: "dump"}, func(_ context.Context, c *plugins.Call) (string, error) {
		return strings.Repeat(string(c.Args)+" is a line\n", lines), nil
	}}
	a := newAgent(t, llm.Config{Model: m, Tools: []string{"dump"}, ContextTokens: 2000})
	cfg := plugintest.Config{Input: ask("go"), Tools: []plugins.Tool{dump}}
	if res := plugintest.Run(t, a, cfg); len(compactions(t, res.Events)) < 2 {
		t.Errorf("the prompt was compacted %d times", len(compactions(t, res.Events)))
	}
	plugintest.Replay(t, a, cfg)
}

// compactions returns the compactions in the log.
func compactions(t *testing.T, events []agui.Event) (list []agui.Compaction) {
	t.Helper()
	for _, ev := range events {
		if e, ok := ev.(agui.Custom); ok && e.Name == agui.CompactedEvent {
			var c agui.Compaction
			if err := json.Unmarshal(e.Value, &c); err != nil {
				t.Fatal(err)
			}
			list = append(list, c)
		}
	}
	return list
}

// Results that are short by themselves are shortened, too, when there are many.
func TestContext_ManyShortResults(t *testing.T) {
	t.Parallel()
	m := &model{}
	for n := range 40 {
		m.replies = append(m.replies, asks("", fmt.Sprintf(`dump {"n":%d}`, n)))
	}
	m.replies = append(m.replies, says("done"))
	m.fail = func(n int) error {
		if tokens := (len(m.request(n)) + 3) / 4; tokens > 8000 {
			return &llm.Error{Code: "context_too_long", Message: "Too long"}
		}
		return nil
	}
	dump := tool{plugins.Info{Name: "dump"}, func(_ context.Context, c *plugins.Call) (string, error) {
		return strings.Repeat(string(c.Args)+" is a line\n", 80), nil
	}}
	a := newAgent(t, llm.Config{Model: m, Tools: []string{"dump"}, ContextTokens: 8000, Steps: 100})
	res := plugintest.Run(t, a, plugintest.Config{Input: ask("go"), Tools: []plugins.Tool{dump}})
	if res.Err != nil || m.calls() != 41 {
		t.Errorf("%v after %d calls", res.Err, m.calls())
	}
}
