package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/storage/sqlitetest"
)

// guarded is an agent with guards.
type guarded struct {
	agent
	guards plugins.Guards
}

func (g guarded) Info() plugins.Info { return plugins.Info{Name: g.name, Guards: g.guards} }

// clerk pays once if it is told to, streams what it was asked in a Do, and answers with that.
var clerk = agent{"clerk", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	if run.Input.Query == "pay" {
		out, err := run.CallTool(ctx, "pay", json.RawMessage(`{"euros": 5}`))
		return agui.WorkerOutput{Answer: out.ResultSummary}, err
	}
	return agui.WorkerOutput{}, run.Do(ctx, "say", nil, func(context.Context) error { return say(run, "you said ", run.Input.Query) })
}}

// pay is a tool that counts its calls.
func pay(calls *atomic.Int64) tool {
	return tool{plugins.Info{
		Name: "pay", Parameters: []byte(`{"type":"object","properties":{"euros":{"type":"number"}},"required":["euros"]}`),
	}, func(_ context.Context, call *plugins.Call) (agui.ToolOutput, error) {
		calls.Add(1)
		return agui.ToolOutput{ResultSummary: "paid " + string(call.Args)}, nil
	}}
}

// ruled is the expectation of a test of a guard's verdict.
type ruled struct {
	name   string
	guard  plugins.Guard
	answer string // of a person, "" for none
	code   string // of the run's failure, "" for none
	output string // of the run
	prompt string // the messages before the last in the next prompt
	event  string // the guard's
}

// verdict is a guard that always decides the same.
func verdict(v plugins.Verdict) plugins.Guard {
	return plugins.Guard{Name: "g", Check: func(context.Context, plugins.Subject) (plugins.Verdict, error) { return v, nil }}
}

// play runs clerk with guards, answers its question, and checks what the case expects. The server is replaced as by a crash while it waits.
func (c *ruled) play(t *testing.T, path, ask string, guards plugins.Guards, more ...plugins.Plugin) *bench {
	t.Helper()
	b := openAt(t, path, runtime.Config{}, append(more, guarded{clerk, guards}, reader)...)
	s := b.start("main", "clerk", ask)
	if c.answer != "" {
		b.reply(s.RunID, always(c.answer))
	}
	run := b.wait(s.RunID, runtime.Completed, runtime.Failed)
	recs := b.log("main")
	checkLog(t, recs)
	code, output := "", ""
	if run.Error != nil {
		code = run.Error.Code + ": " + run.Error.Message
	}
	if run.OutputSummary != nil {
		output = *run.OutputSummary
	}
	if code != c.code || output != c.output {
		t.Errorf("%s: failed with %q and answered %q, want %q and %q", c.name, code, output, c.code, c.output)
	}
	if got := strings.Join(rulings(recs), "; "); got != c.event {
		t.Errorf("%s: the log has the verdicts %s, want %s", c.name, got, c.event)
	}
	var prompt []string
	for _, m := range b.asked("main") {
		prompt = append(prompt, fmt.Sprintf("%s %s", m.Role, m.Text()))
	}
	if got := strings.Join(prompt[:len(prompt)-1], "; "); got != c.prompt {
		t.Errorf("%s: the next prompt is %s, want %s", c.name, got, c.prompt)
	}
	return b
}

// rulings returns the verdicts in a log.
func rulings(recs []*runtime.Record) (all []string) {
	for _, r := range recs {
		if e, ok := r.Event.(agui.Custom); ok && e.Name == agui.GuardEvent {
			var ruled agui.Ruling
			_ = json.Unmarshal(e.Value, &ruled)
			all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", ruled.Name, ruled.On, ruled.Verdict, ruled.Reason)))
		}
	}
	return all
}

const (
	approve = `{"approved":true}`
	decline = `{"approved":false}`
)

// A refused input never reaches the agent or a later prompt, and a rewritten one replaces what was asked in both.
func TestGuard_Input(t *testing.T) {
	t.Parallel()
	check := func(limit time.Duration, f func(ctx context.Context) (plugins.Verdict, error)) plugins.Guard {
		return plugins.Guard{Name: "g", Timeout: limit, Check: func(ctx context.Context, _ plugins.Subject) (plugins.Verdict, error) { return f(ctx) }}
	}
	const kept = "user bad; assistant you said bad"
	path := sqlitetest.New(t)
	for _, c := range []ruled{
		{"allow", verdict(plugins.Verdict{Verdict: "allow"}), "", "", "you said bad", kept, "g input allow"},
		{"refuse", verdict(plugins.Verdict{Verdict: "refuse", Reason: "no"}), "", "guard_refused: no", "", "", "g input refuse no"},
		{"rewrite", verdict(plugins.Verdict{Verdict: "rewrite", Text: "good"}), "", "", "you said good", "user good; assistant you said good", "g input rewrite"},
		{"yes", verdict(plugins.Verdict{Verdict: "ask", Reason: "may it?"}), approve, "", "you said bad", kept, "g input ask may it?"},
		{"no", verdict(plugins.Verdict{Verdict: "ask"}), decline, "guard_refused: The input was not approved", "", "", "g input ask"},
		{"unknown", verdict(plugins.Verdict{Verdict: "maybe"}), "", "guard_refused: The guard g failed: it returned no verdict", "", "", "g input refuse The guard g failed: it returned no verdict"},
		{"error", check(0, func(context.Context) (plugins.Verdict, error) { return plugins.Verdict{}, errors.New("secret") }), "", "guard_refused: The guard g failed", "", "", "g input refuse The guard g failed"},
		{"panic", check(0, func(context.Context) (plugins.Verdict, error) { panic("secret") }), "", "guard_refused: The guard g failed", "", "", "g input refuse The guard g failed"},
		{"late", check(time.Millisecond, func(ctx context.Context) (plugins.Verdict, error) {
			<-ctx.Done()
			return plugins.Verdict{Verdict: "allow"}, nil
		}), "", "guard_refused: The guard g did not decide in time", "", "", "g input refuse The guard g did not decide in time"},
	} {
		c.play(t, path, "bad", plugins.Guards{Input: []plugins.Guard{c.guard}}).clear()
	}
}

// A refused call is not made, and its result is a failure. A rewritten one is shown like a call that an approver has edited.
func TestGuard_Tool(t *testing.T) {
	t.Parallel()
	path := sqlitetest.New(t)
	for _, c := range []struct {
		ruled
		calls    int64
		executed string
		failure  string // the code of the result
	}{
		{ruled{"allow", verdict(plugins.Verdict{Verdict: "allow"}), "", "", `paid {"euros":5}`, "", "g tool allow"}, 1, `{"euros":5}`, ""},
		{ruled{"refuse", verdict(plugins.Verdict{Verdict: "refuse", Reason: "too much"}), "", "", "too much", "", "g tool refuse too much"}, 0, `{"euros":5}`, "guard_refused"},
		{ruled{"rewrite", verdict(plugins.Verdict{Verdict: "rewrite", Args: json.RawMessage(`{"euros":1}`)}), "", "", `paid {"euros":1}`, "", "g tool rewrite"}, 1, `{"euros":1}`, ""},
		{ruled{"misfit", verdict(plugins.Verdict{Verdict: "rewrite", Args: json.RawMessage(`{"euros":"all"}`)}), "", "", "the arguments do not fit the tool's parameters: at '/euros': got string, want number", "", "g tool rewrite"}, 0, `{"euros":"all"}`, "invalid_arguments"},
		{ruled{"no arguments", verdict(plugins.Verdict{Verdict: "rewrite", Text: "x"}), "", "", "The guard g failed: it rewrites without a new text or new arguments", "", "g tool refuse The guard g failed: it rewrites without a new text or new arguments"}, 0, `{"euros":5}`, "guard_refused"},
		{ruled{"yes", verdict(plugins.Verdict{Verdict: "ask", Reason: "Pay it?"}), approve, "", `paid {"euros":5}`, "", "g tool ask Pay it?"}, 1, `{"euros":5}`, ""},
		{ruled{"edited", verdict(plugins.Verdict{Verdict: "ask"}), `{"approved":true,"editedArgs":{"euros":2}}`, "", `paid {"euros":2}`, "", "g tool ask; g tool ask"}, 1, `{"euros":2}`, ""},
		{ruled{"no", verdict(plugins.Verdict{Verdict: "ask"}), decline, "", "The call was not approved", "", "g tool ask"}, 0, `{"euros":5}`, "denied"},
	} {
		var calls atomic.Int64
		c.prompt = "user pay; assistant ; tool " + c.output + "; assistant " + c.output
		b := c.play(t, path, "pay", plugins.Guards{Tool: []plugins.Guard{c.guard}}, pay(&calls))
		if calls.Load() != c.calls {
			t.Errorf("%s: the tool was called %d times", c.name, calls.Load())
		}
		for _, r := range b.log("main") {
			switch e := r.Event.(type) {
			case agui.ToolCallArgs:
				if e.Delta != `{"euros":5}` {
					t.Errorf("%s: the call is shown with %s", c.name, e.Delta)
				}
			case agui.ToolCallResult:
				code := ""
				if e.Output.Error != nil {
					code = e.Output.Error.Code
				}
				if string(e.Output.ToolCallArgs) != c.executed || code != c.failure {
					t.Errorf("%s: the result %q says that %s was executed", c.name, code, e.Output.ToolCallArgs)
				}
			}
		}
		b.clear()
	}
}

// The result of a rewritten call that a crash has interrupted has the arguments that it was made with.
func TestGuard_ShowsRewrittenAfterCrash(t *testing.T) {
	t.Parallel()
	called := make(chan string, 9)
	slow := tool{plugins.Info{Name: "pay"}, func(ctx context.Context, call *plugins.Call) (agui.ToolOutput, error) {
		called <- string(call.Args)
		return agui.ToolOutput{}, hang(ctx)
	}}
	g := verdict(plugins.Verdict{Verdict: plugins.Rewrite, Args: json.RawMessage(`{"euros":1}`)})
	b := open(t, runtime.Config{}, guarded{clerk, plugins.Guards{Tool: []plugins.Guard{g}}}, slow)
	s := b.start("main", "clerk", "pay")
	if got := <-called; got != `{"euros":1}` {
		t.Errorf("the tool was called with %s", got)
	}
	b.crash()
	b.wait(s.RunID, runtime.Completed)
	for _, r := range b.log("main") {
		if e, ok := r.Event.(agui.ToolCallResult); ok && (e.Output.Error.Code != "interrupted" || string(e.Output.ToolCallArgs) != `{"euros":1}`) {
			t.Errorf("the result says %s of %s", e.Output.Error.Code, e.Output.ToolCallArgs)
		}
	}
	if len(called) > 0 {
		t.Error("the tool was called twice")
	}
}

// The text of an answer is shown once it is allowed. A refused answer is in no later prompt.
func TestGuard_Output(t *testing.T) {
	t.Parallel()
	path := sqlitetest.New(t)
	for _, c := range []ruled{
		{"allow", verdict(plugins.Verdict{Verdict: "allow"}), "", "", "you said hi", "user hi; assistant you said hi", "g output allow"},
		{"refuse", verdict(plugins.Verdict{Verdict: "refuse", Reason: "no"}), "", "guard_refused: no", "", "user hi", "g output refuse no"},
		{"rewrite", verdict(plugins.Verdict{Verdict: "rewrite", Text: "***"}), "", "", "***", "user hi; assistant ***", "g output rewrite"},
		{"yes", verdict(plugins.Verdict{Verdict: "ask"}), approve, "", "you said hi", "user hi; assistant you said hi", "g output ask"},
		{"no", verdict(plugins.Verdict{Verdict: "ask"}), decline, "guard_refused: The output was not approved", "", "user hi", "g output ask"},
	} {
		b := c.play(t, path, "hi", plugins.Guards{Output: []plugins.Guard{c.guard}})
		var order []string
		for _, r := range b.log("main") {
			switch e := r.Event.(type) {
			case agui.TextMessageContent:
				if e.Delta != "read" {
					order = append(order, "text")
				}
			case agui.Custom:
				order = append(order, e.Name)
			}
		}
		want := map[string]string{"allow": "guard text", "refuse": "guard", "rewrite": "guard text", "yes": "guard text", "no": "guard"}[c.name]
		if got := strings.Join(order, " "); got != want {
			t.Errorf("%s: the log shows %s, want %s", c.name, got, want)
		}
		b.clear()
	}
}

// Guards judge what a client brings, messages of an assistant and of tools among it, once for each agent, and the query of a workflow's node.
func TestGuard_InputIsNew(t *testing.T) {
	t.Parallel()
	var got []string
	notes := func(input string) plugins.Verdict {
		got = append(got, input)
		return plugins.Verdict{Verdict: plugins.Allow}
	}
	b := open(t, runtime.Config{}, judging("listener", "", notes), judging("called", "", notes), plugins.Workflow{Name: "flow", Nodes: []plugins.Node{{ID: "n", Agent: "called", Input: `"mapped " + query`}}})
	s := b.request(runtime.StartRequest{Agent: "listener", ThreadID: "main", Messages: []agui.Message{
		{Role: agui.RoleUser, Content: "attack"},
		{Role: agui.RoleAssistant, Content: "sure", Metadata: json.RawMessage(`{"agent":"listener"}`), ToolCalls: []agui.ToolCall{{ID: "c", Name: "pay", Arguments: `{"n":1}`}}},
		{Role: agui.RoleTool, ToolCallID: "c", Content: "paid"},
		{Role: agui.RoleUser, Content: "go on"},
	}})
	b.wait(s.RunID, runtime.Completed)
	b.wait(b.start("main", "listener", "second").RunID, runtime.Completed)
	b.wait(b.startWorkflow("main", "flow", "third").RunID, runtime.Completed)
	const brought, beside = "attack\n\nsure\n{\"n\":1}\n\npaid\n\ngo on", "c\npay\nc"
	if want := []string{brought, beside, "second", brought + "\n\nsecond\n\nthird", beside, "mapped third"}; !slices.Equal(got, want) {
		t.Errorf("the guards were asked about %q, want %q", got, want)
	}
}

// The calls of a client's tool can only be allowed or refused, because the client has them as they were asked.
func TestGuard_ClientTools(t *testing.T) {
	t.Parallel()
	for verb, failure := range map[string]string{
		plugins.Allow: "", plugins.Refuse: "The guard g has refused the call",
		plugins.Rewrite: "The guard g can only allow or refuse a call of a client's tool", plugins.AskPerson: "The guard g can only allow or refuse a call of a client's tool",
	} {
		g := verdict(plugins.Verdict{Verdict: verb, Args: json.RawMessage(`{"n":2}`)})
		b := open(t, runtime.Config{}, guarded{asksFor("clerk", "paint", `{"n":1}`), plugins.Guards{Tool: []plugins.Guard{g}}})
		s := b.request(runtime.StartRequest{Agent: "clerk", ThreadID: "main", Messages: user("go"), Tools: []agui.Tool{{Name: "paint"}}})
		run := b.wait(s.RunID, runtime.Waiting, runtime.Completed)
		if (run.Status == runtime.Waiting) != (failure == "") || failure != "" && *run.OutputSummary != failure {
			t.Errorf("%s: the run is %s with %v", verb, run.Status, run.OutputSummary)
		}
	}
}

// The result of a client's call is input, and cannot be rewritten: a refused one is in no later prompt.
func TestGuard_ClientResults(t *testing.T) {
	t.Parallel()
	path := sqlitetest.New(t)
	for _, c := range []struct {
		ruled
		said string // by the person who decides
	}{
		{ruled{"allow", verdict(plugins.Verdict{Verdict: "allow"}), "", "", "bad", "user go; assistant ; tool bad; assistant bad", "g input allow"}, ""},
		{ruled{"refuse", verdict(plugins.Verdict{Verdict: "refuse", Reason: "no"}), "", "guard_refused: no", "", "user go", "g input refuse no"}, ""},
		{ruled{"rewrite", verdict(plugins.Verdict{Verdict: "rewrite", Text: "good"}), "", "guard_refused: A guard would rewrite the result of a client's tool, which is not possible", "", "user go", "g input rewrite"}, ""},
		{ruled{"the same", verdict(plugins.Verdict{Verdict: "rewrite", Text: "bad"}), "", "", "bad", "user go; assistant ; tool bad; assistant bad", "g input allow"}, ""},
		{ruled{"yes", verdict(plugins.Verdict{Verdict: "ask"}), "", "", "bad", "user go; assistant ; tool bad; assistant bad", "g input ask"}, approve},
		{ruled{"no", verdict(plugins.Verdict{Verdict: "ask"}), "", "guard_refused: The input was not approved", "", "user go", "g input ask"}, decline},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := c.guard
			check := g.Check
			g.Check = func(ctx context.Context, s plugins.Subject) (plugins.Verdict, error) {
				if s.Input != "bad" {
					return plugins.Verdict{Verdict: plugins.Allow}, nil
				}
				return check(ctx, s)
			}
			b := openAt(t, path, runtime.Config{}, guarded{asksFor("clerk", "paint", `{}`), plugins.Guards{Input: []plugins.Guard{g}}}, reader)
			s := b.request(runtime.StartRequest{Agent: "clerk", ThreadID: "main", Messages: user("go"), Tools: []agui.Tool{{Name: "paint"}}})
			b.reply(s.RunID, always(`"bad"`))
			if c.said != "" {
				b.reply(s.RunID, always(c.said))
			}
			run := b.wait(s.RunID, runtime.Completed, runtime.Failed)
			code, output := "", ""
			if run.Error != nil {
				code = run.Error.Code + ": " + run.Error.Message
			}
			if run.OutputSummary != nil {
				output = *run.OutputSummary
			}
			recs := b.log("main")
			checkLog(t, recs)
			rulings := rulings(recs)[2:] // after those of the message and of the tools
			var prompt []string
			for _, m := range b.asked("main") {
				prompt = append(prompt, fmt.Sprintf("%s %s", m.Role, m.Text()))
			}
			prompt = prompt[:len(prompt)-1]
			if code != c.code || output != c.output || strings.Join(rulings, "; ") != c.event || strings.Join(prompt, "; ") != c.prompt {
				t.Errorf("failed with %q, answered %q after %q, the next prompt is %q", code, output, rulings, prompt)
			}
			b.clear()
		})
	}
}

// Arguments that an approver has edited, and answers, are input. Refused arguments are nowhere.
func TestGuard_Answers(t *testing.T) {
	t.Parallel()
	noBad := plugins.Guards{Input: []plugins.Guard{{Name: "g", Check: func(_ context.Context, s plugins.Subject) (plugins.Verdict, error) {
		if strings.Contains(s.Input, "bad") {
			return plugins.Verdict{Verdict: plugins.Refuse, Reason: "no"}, nil
		}
		return plugins.Verdict{Verdict: plugins.Allow}, nil
	}}}}
	var calls atomic.Int64
	send := tool{plugins.Info{Name: "send", Approval: true}, func(context.Context, *plugins.Call) (agui.ToolOutput, error) {
		calls.Add(1)
		return agui.ToolOutput{ResultSummary: "sent"}, nil
	}}
	asks := agent{"asks", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		a, err := run.Ask(ctx, agui.Interrupt{Message: "Which?"})
		return agui.WorkerOutput{Answer: string(a.Payload)}, err
	}}
	b := open(t, runtime.Config{}, guarded{asksFor("sends", "send", `{"to":"me"}`), noBad}, guarded{asks, noBad}, send)
	s := b.start("edits", "sends", "go")
	b.reply(s.RunID, always(`{"approved":true,"editedArgs":{"to":"b\u0061d"}}`))
	if run := b.wait(s.RunID, runtime.Completed); *run.OutputSummary != "no" || calls.Load() != 0 {
		t.Errorf("answered %q after %d calls", *run.OutputSummary, calls.Load())
	}
	for _, r := range b.log("edits") {
		if e, ok := r.Event.(agui.ToolCallResult); ok && string(e.Output.ToolCallArgs) != `{"to":"me"}` {
			t.Errorf("the result has %s", e.Output.ToolCallArgs)
		}
	}
	s = b.start("answers", "asks", "go")
	b.reply(s.RunID, always(`"the bad one"`))
	if run := b.wait(s.RunID, runtime.Failed); run.Error.Code != "guard_refused" {
		t.Errorf("error %+v", run.Error)
	}
}

// failingGuard is a tool that fails with what it has to judge.
func failingGuard(name string, fail func(args string) error) tool {
	return tool{plugins.Info{Name: name}, func(_ context.Context, call *plugins.Call) (agui.ToolOutput, error) {
		return agui.ToolOutput{}, fail(string(call.Args))
	}}
}

// tracedWords is a tracer and a log.
type tracedWords struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (w *tracedWords) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *tracedWords) Begin(ctx context.Context, _ runtime.Op) (context.Context, func(runtime.End)) {
	return ctx, func(end runtime.End) { _, _ = fmt.Fprintln(w, end.Err, end.Code) }
}

func (w *tracedWords) Parent(context.Context) string { return "" }

func (w *tracedWords) Within(ctx context.Context, _ string) context.Context { return ctx }

// A tool that is a guard and fails does not repeat in the log and in traces what it judges.
func TestGuard_ToolIsSilent(t *testing.T) {
	t.Parallel()
	w := new(tracedWords)
	fails := []tool{
		failingGuard("fails", errors.New),
		failingGuard("panics", func(args string) error { panic(args) }),
		failingGuard("explains", func(args string) error { return &plugins.Error{Code: args, Message: args} }),
	}
	var plugs []plugins.Plugin
	for _, f := range fails {
		name := f.Info().Name
		plugs = append(plugs, f, guarded{agent{"guarded-" + name, clerk.run}, plugins.Guards{Output: []plugins.Guard{{Tool: name}}}})
	}
	b := open(t, runtime.Config{Tracer: w, Log: slog.New(slog.NewTextHandler(w, nil))}, plugs...)
	for _, f := range fails {
		name := f.Info().Name
		if run := b.wait(b.start(name, "guarded-"+name, "hi").RunID, runtime.Failed); run.Error.Code != "guard_refused" || strings.Contains(run.Error.Message, "you said") {
			t.Errorf("%s: error %+v", name, run.Error)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := w.text.String(); strings.Contains(got, "you said") || !strings.Contains(got, "tool failed") {
		t.Errorf("the log and the traces are\n%s", got)
	}
}

// Guards that do not exist are an error at the start.
func TestGuard_Exists(t *testing.T) {
	t.Parallel()
	for want, g := range map[string]plugins.Guard{
		`no agent "nobody"`: {Agent: "nobody"}, `no tool "nothing"`: {Tool: "nothing"}, "guards itself": {Agent: "clerk"}, "exactly one": {Name: "g"},
		"timeout is negative": {Agent: "reader", Timeout: -1},
	} {
		var reg host.Registry
		err := reg.Add(reader, guarded{clerk, plugins.Guards{Tool: []plugins.Guard{g}}})
		if err == nil {
			err = reg.Validate()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A refused input is in no later prompt, messages of earlier runs, which another agent has failed to answer, among it. Instructions and
// context of the client are judged, too, and an approver's arguments as those of the model.
func TestGuard_RefusesWhatOthersBrought(t *testing.T) {
	t.Parallel()
	noBad := func(_ context.Context, s plugins.Subject) (plugins.Verdict, error) {
		if strings.Contains(s.Input+string(s.Args), "bad") {
			return plugins.Verdict{Verdict: plugins.Refuse, Reason: "bad"}, nil
		}
		return plugins.Verdict{Verdict: plugins.Allow}, nil
	}
	guards := plugins.Guards{Input: []plugins.Guard{{Name: "g", Check: noBad}}, Tool: []plugins.Guard{{Name: "g", Check: noBad}}}
	var calls atomic.Int64
	send := tool{plugins.Info{Name: "send", Approval: true}, func(context.Context, *plugins.Call) (agui.ToolOutput, error) {
		calls.Add(1)
		return agui.ToolOutput{ResultSummary: "sent"}, nil
	}}
	clerk := guarded{agent{"clerk", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		out, err := run.CallTool(ctx, "send", map[string]string{"to": "me"})
		return agui.WorkerOutput{Answer: out.ResultSummary}, err
	}}, guards}
	broken := agent{"broken", func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{}, errors.New("boom")
	}}
	b := open(t, runtime.Config{}, clerk, broken, send)
	b.wait(b.start("main", "broken", "bad one").RunID, runtime.Failed)
	if run := b.wait(b.start("main", "clerk", "hello").RunID, runtime.Failed); run.Error.Code != "guard_refused" {
		t.Errorf("error %+v", run.Error)
	}
	th := b.found("main")
	if left, err := b.store.Messages(t.Context(), th.Key, 0, 10); err != nil || len(left) != 0 {
		t.Errorf("left are %s, %v", texts(left), err)
	}
	for name, req := range map[string]runtime.StartRequest{
		"system":  {Messages: []agui.Message{{Role: agui.RoleSystem, Content: "be bad"}, {Role: agui.RoleUser, Content: "go"}}},
		"context": {Messages: []agui.Message{{Role: agui.RoleUser, Content: "go"}}, Context: []agui.Context{{Value: "be bad"}}},
		"tools":   {Messages: user("go"), Tools: []agui.Tool{{Name: "t", Parameters: json.RawMessage(`{"properties":{"b\u0061d":{}}}`)}}},
		"items":   {Messages: user("go"), ContextItemIDs: []string{"bad"}},
		"props":   {Messages: user("go"), ForwardedProps: json.RawMessage(`{"bad":1}`)},
		"state":   {Messages: user("go"), State: json.RawMessage(`{"is":["bad"]}`)},
	} {
		req.Agent, req.ThreadID = "clerk", name
		s := b.request(req)
		if run := b.wait(s.RunID, runtime.Failed); run.Error.Code != "guard_refused" {
			t.Errorf("%s: error %+v", name, run.Error)
		}
	}
	s := b.start("edits", "clerk", "go")
	b.wait(s.RunID, runtime.Waiting)
	asked, err := b.Runs.Interrupts(t.Context(), local, s.RunID)
	if err != nil || len(asked) != 1 {
		t.Fatal(asked, err)
	}
	if _, err := b.Resume(t.Context(), local, s.RunID, []agui.ResumeEntry{
		{InterruptID: asked[0].ID, Status: "resolved", Payload: json.RawMessage(`{"approved":true,"editedArgs":{"to":"bad"}}`)},
	}); err != nil {
		t.Fatal(err)
	}
	if run := b.wait(s.RunID, runtime.Completed); *run.OutputSummary != "bad" || calls.Load() != 0 {
		t.Errorf("answer %q after %d calls", *run.OutputSummary, calls.Load())
	}
}

// Guards judge arguments as the tool gets them: numbers that a model has written as texts are numbers, an approver's among them.
func TestGuard_JudgesWhatIsExecuted(t *testing.T) {
	t.Parallel()
	most := plugins.Guard{Name: "g", Check: func(_ context.Context, s plugins.Subject) (plugins.Verdict, error) {
		var args struct{ Euros any }
		if err := json.Unmarshal(s.Args, &args); err != nil {
			return plugins.Verdict{}, err
		}
		switch args.Euros {
		case 500.0:
			return plugins.Verdict{Verdict: plugins.Refuse, Reason: "too much"}, nil
		case 5.0:
			return plugins.Verdict{Verdict: plugins.AskPerson}, nil
		}
		return plugins.Verdict{Verdict: plugins.Allow}, nil
	}}
	for args, edited := range map[string]string{`{"euros":"500"}`: "", `{"euros":5}`: `{"euros":"500"}`} {
		var calls atomic.Int64
		b := open(t, runtime.Config{}, guarded{asksFor("clerk", "pay", args), plugins.Guards{Tool: []plugins.Guard{most}}}, pay(&calls))
		s := b.start("main", "clerk", "go")
		if edited != "" {
			b.wait(s.RunID, runtime.Waiting)
			b.resume(s.RunID, `{"approved":true,"editedArgs":`+edited+`}`)
		}
		if run := b.wait(s.RunID, runtime.Completed); *run.OutputSummary != "too much" || calls.Load() != 0 {
			t.Errorf("%s%s: answer %q after %d calls", args, edited, *run.OutputSummary, calls.Load())
		}
	}
}
