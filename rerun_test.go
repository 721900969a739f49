package baton_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/llmtest"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports/wire"
)

// payment is a tool that may not be called twice.
type payment struct{ calls *atomic.Int64 }

func (payment) Info() plugins.Info { return plugins.Info{Name: "pay"} }

func (p payment) Call(context.Context, *plugins.Call) (agui.ToolOutput, error) {
	return agui.ToolOutput{ResultSummary: fmt.Sprint(p.calls.Add(1))}, nil
}

// books are the plugins of a workflow in which pay is called, note counts tokens and changes the state, and close asks, and fails the first time.
func books(paid, noted, closed *atomic.Int64) []plugins.Plugin {
	return []plugins.Plugin{
		payment{paid},
		plugins.AgentFunc("note", func(ctx context.Context, run *plugins.Run) error {
			noted.Add(1)
			if err := run.Usage(ctx, agui.TokenUsage{Provider: "p", Model: "m", InputTokens: 7}); err != nil {
				return err
			}
			return run.State(map[string]any{"noted": true})
		}),
		plugins.AgentFunc("close", func(ctx context.Context, run *plugins.Run) error {
			if _, err := run.Ask(ctx, agui.Interrupt{Message: "Close?"}); err != nil {
				return err
			}
			if closed.Add(1) == 1 {
				return &plugins.Error{Code: "locked", Message: "The books are locked"}
			}
			_, err := fmt.Fprint(run.Text(), "closed with "+run.Input.Query)
			return err
		}),
		plugins.Workflow{Name: "books", Nodes: []plugins.Node{
			{ID: "paid", Tool: "pay", Input: `{}`},
			{ID: "noted", Agent: "note", Needs: []string{"paid"}},
			{ID: "shut", Agent: "close", Needs: []string{"noted"}, When: "state.noted == true && state.year == 2026", Input: `nodes.paid.answer + " " + query`},
		}},
	}
}

// The rerun from a node begins with the state of its origin then: completed nodes are neither executed nor counted again, and later questions are asked
// again. It needs nothing of its origin once it has begun.
func TestRerun_FromANode(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database string) {
		var paid, noted, closed atomic.Int64
		s := site{t, open(t, baton.Config{Listen: "127.0.0.1:0", Database: database, Accounts: baton.AuthenticatorFunc(byHeader), Plugins: books(&paid, &noted, &closed)}).URL()}
		read := func(id string) (run wire.Run) { s.get(runsPath+id, &run); return run }
		reach := func(id string, status string) (run wire.Run) {
			s.until(id+" is "+status, func() bool { run = read(id); return string(run.Status) == status })
			return run
		}
		answer := func(run wire.Run) {
			s.must(asking, "POST", runsPath+run.ID+"/resume", fmt.Sprintf(`{"resume":[{"interruptId":%q,"status":"resolved"}]}`, run.Interrupts[0].ID))
		}
		rerun := func(of, body string) string {
			return s.must(asking, "POST", runsPath+of+"/rerun", body)["runId"].(string)
		}
		s.must(asking, "POST", "/api/v1/agent/runs", `{"workflowId":"books","threadId":"t","runId":"first","content":"for 2026","state":{"year":2026},"metadata":{"tags":["a"]},"contextItemIds":["c"]}`)
		answer(reach("first", "WAITING"))
		reach("first", "FAILED")

		again := rerun("first", `{"fromNode":"shut"}`)
		waiting := reach(again, "WAITING")
		if waiting.ThreadID == "t" || string(waiting.Metadata) != `{"rerunFrom":"shut","rerunOf":"first","tags":["a"]}` || len(waiting.Usage) > 0 {
			t.Errorf("the rerun is %+v with %s", waiting, waiting.Metadata)
		}
		var found struct{ Items []wire.Run }
		if s.get(runsPath[:len(runsPath)-1]+"?metadata.rerunOf=first", &found); len(found.Items) != 1 || found.Items[0].ID != again {
			t.Errorf("the origin's reruns are %v", found.Items)
		}
		s.must("p1/alice/admin", "DELETE", runsPath+"first", "")
		answer(waiting)
		if run := reach(again, "COMPLETED"); *run.OutputSummary != "closed with 1 for 2026" || len(run.Usage) > 0 {
			t.Errorf("the rerun says %q and has used %v", *run.OutputSummary, run.Usage)
		}
		if paid.Load() != 1 || noted.Load() != 1 {
			t.Errorf("completed nodes were executed again: %d, %d times", paid.Load(), noted.Load())
		}
		var steps struct{ Items []wire.Step }
		s.get(runsPath+again+"/steps", &steps)
		var names []string
		for _, st := range steps.Items {
			names = append(names, fmt.Sprintf("%d %s %s", st.StepNumber, st.NodeID, st.Status))
		}
		if got := strings.Join(names, ", "); got != "1 paid COMPLETED, 2 noted COMPLETED, 3 shut COMPLETED" {
			t.Errorf("the rerun's steps are %s", got)
		}

		whole := rerun(again, "") // of a rerun: all of it
		answer(reach(whole, "WAITING"))
		if run := reach(whole, "COMPLETED"); *run.OutputSummary != "closed with 2 for 2026" || run.Usage[0].InputTokens != 7 || string(run.Metadata) != fmt.Sprintf(`{"rerunOf":%q,"tags":["a"]}`, again) {
			t.Errorf("the whole rerun is %+v with %s", run, run.Metadata)
		}
		if got := s.request(asking, "POST", runsPath+whole+"/rerun", `{"fromNode":"none"}`); got.status != http.StatusBadRequest || !strings.Contains(got.body, "/fromNode") {
			t.Errorf("from a node that is not there: %d %s", got.status, got.body)
		}
	})
}

// bill is a tool that asks a question if its arguments say so, and then waits until others have gone on, if there are any.
type bill struct {
	paid   *atomic.Int64
	others chan struct{}
}

func (bill) Info() plugins.Info { return plugins.Info{Name: "bill", Idempotent: true} }

func (b bill) Call(ctx context.Context, c *plugins.Call) (agui.ToolOutput, error) {
	if strings.Contains(string(c.Args), "ask") {
		if _, err := c.Ask("sure", agui.Interrupt{Message: "Sure?"}); err != nil {
			return agui.ToolOutput{}, err
		}
		if b.others != nil {
			select {
			case <-b.others:
			case <-ctx.Done():
			}
		}
	}
	return agui.ToolOutput{ResultSummary: fmt.Sprint("bill ", b.paid.Add(1))}, nil
}

// A rerun from a model call sends the model the same prompt. It makes the later calls, and asks their questions, again. It neither makes nor
// counts the earlier calls again, and the thread shows them. What a guard had replaced then is not shown, what a later run has hidden is.
func TestRerun_FromAModelCall(t *testing.T) {
	t.Parallel()
	var paid atomic.Int64
	askers(t, "openai", func(l *llm.Config, c *baton.Config) {
		paid.Store(0)
		l.Tools, c.Plugins = []string{"bill"}, append(c.Plugins, bill{paid: &paid})
		l.Guards.Input = []plugins.Guard{{Name: "mask", Check: func(_ context.Context, s plugins.Subject) (plugins.Verdict, error) {
			if s.Input == "Pay twice." {
				return plugins.Verdict{Verdict: plugins.Rewrite, Text: "Pay 2 bills."}, nil
			}
			return plugins.Verdict{Verdict: plugins.Allow}, nil
		}}}
	}, func() func(*llmtest.Request) llmtest.Script {
		return func(r *llmtest.Request) llmtest.Script {
			usage := &agui.TokenUsage{InputTokens: 30, OutputTokens: 12}
			switch bytes.Count(r.Body, []byte(`"role":"tool"`)) {
			case 0:
				return llmtest.Script{Steps: toolCall("c1", "bill", `{}`), Usage: usage}
			case 1:
				return llmtest.Script{Steps: toolCall("c2", "bill", `{"how":"ask"}`), Usage: usage}
			}
			return llmtest.Script{Steps: []llmtest.Step{llmtest.Text("Paid.")}, Usage: usage}
		}
	}, func(a *asker) {
		read := func(id string) (run wire.Run) { a.get(runsPath+id, &run); return run }
		finish := func(id string) (run wire.Run) {
			a.until(id+" waits", func() bool { run = read(id); return run.Status == "WAITING" })
			a.must(asking, "POST", runsPath+id+"/resume", fmt.Sprintf(`{"resume":[{"interruptId":%q,"status":"resolved"}]}`, run.Interrupts[0].ID))
			a.until(id+" ends", func() bool { run = read(id); return run.Status == "COMPLETED" })
			return run
		}
		a.must(asking, "POST", "/api/v1/agent/runs", `{"agent":"asker","threadId":"main","runId":"first","content":"Pay twice."}`)
		finish("first")
		calls := a.calls("first")
		if len(calls) != 3 || paid.Load() != 2 {
			a.Fatalf("%d calls, %d bills", len(calls), paid.Load())
		}
		a.must(asking, "POST", "/api/v1/agent/runs", fmt.Sprintf(`{"agent":"asker","threadId":"main","runId":"second","content":"No more.","rewindTo":%q}`, calls[0].Sent.Messages[0].ID))
		a.until("second waits", func() bool { return read("second").Status == "WAITING" })
		again := a.must(asking, "POST", runsPath+"first/rerun", fmt.Sprintf(`{"fromCall":%q}`, calls[1].ID))["runId"].(string)
		run := finish(again)
		if paid.Load() != 4 {
			a.Errorf("%d bills, want one more than 3", paid.Load())
		}
		if len(run.Usage) != 1 || run.Usage[0].InputTokens != 60 || string(run.Metadata) != fmt.Sprintf(`{"rerunFrom":%q,"rerunOf":"first"}`, calls[1].ID) {
			a.Errorf("the rerun has used %+v, with %s", run.Usage, run.Metadata)
		}
		asked := a.calls(again)
		if len(asked) != 2 {
			a.Fatalf("the rerun has made %d calls", len(asked))
		}
		if got, want := sentIn(&asked[0]), sentIn(&calls[1]); got != want {
			a.Errorf("the rerun's model was sent\n%s\nwant\n%s", got, want)
		}
		if got := a.shown(run.ThreadID); got != "user Pay 2 bills., assistant , tool bill 1, assistant , tool bill 4, assistant Paid." {
			a.Errorf("the rerun's thread shows %s", got)
		}
		for body, code := range map[string]string{`{"fromCall":"none"}`: "unknown_call", `{"fromCall":"a","fromNode":"b"}`: "invalid_request"} {
			if got := a.request(asking, "POST", runsPath+"first/rerun", body); got.status != http.StatusBadRequest || !strings.Contains(got.body, code) {
				a.Errorf("%s: %d %s", body, got.status, got.body)
			}
		}
	})
}

// sentIn returns what a model call has sent, without the ids of messages.
func sentIn(c *wire.WholeModelCall) string {
	for i := range c.Sent.Messages {
		c.Sent.Messages[i].ID = ""
	}
	text, _ := json.Marshal(c.Sent)
	return string(text)
}

// shown returns the roles and texts of a thread's messages.
func (a *asker) shown(thread string) string {
	a.Helper()
	var messages struct {
		Messages []struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		}
	}
	a.get("/api/v1/threads/"+thread+"/messages?projectId=p1", &messages)
	var shown []string
	for _, m := range messages.Messages {
		shown = append(shown, m.Role+" "+m.Content)
	}
	return strings.Join(shown, ", ")
}

// approved is an agent that needs an approval.
type approved struct{ plugins.Agent }

func (a approved) Info() plugins.Info {
	info := a.Agent.Info()
	info.Approval = true
	return info
}

// A rerun from a model call of a sub-agent goes on in the middle of the sub-agent's call. What was not done before the model call is approved,
// asked and done again.
func TestRerun_FromAModelCallOfASubagent(t *testing.T) {
	t.Parallel()
	for name, started := range map[string]string{"agent": `"agent":"asker"`, "workflow": `"workflowId":"flow"`} {
		t.Run(name, func(t *testing.T) { rerunFromSubagents(t, started) })
	}
}

func rerunFromSubagents(t *testing.T, started string) {
	t.Helper()
	var paid atomic.Int64
	var others chan struct{}
	askers(t, "openai", func(l *llm.Config, c *baton.Config) {
		paid.Store(0)
		others = make(chan struct{})
		agent := func(name string, tools ...string) plugins.Agent {
			agent, err := llm.New(llm.Config{Name: name, Model: l.Model, System: "I am " + name + ".", Tools: tools})
			must(t, err)
			return agent
		}
		l.Tools = []string{"bill", "middle"}
		c.Plugins = append(c.Plugins, approved{agent("middle", "deep")}, agent("deep", "bill"), bill{&paid, others},
			plugins.Workflow{Name: "flow", Nodes: []plugins.Node{{ID: "only", Agent: "asker"}}})
	}, func() func(*llmtest.Request) llmtest.Script {
		release := sync.OnceFunc(func() { close(others) })
		return func(r *llmtest.Request) llmtest.Script {
			results := bytes.Count(r.Body, []byte(`"role":"tool"`))
			in := func(name string) bool { return bytes.Contains(r.Body, []byte("I am "+name+".")) }
			steps := []llmtest.Step{llmtest.Text("Done.")}
			switch {
			case in("deep") && results == 0:
				steps = toolCall("d", "bill", `{}`)
			case in("deep"):
				release()
			case in("middle") && results == 0:
				steps = toolCall("m", "deep", `{"query":"Pay."}`)
			case !in("middle") && results == 0:
				steps = []llmtest.Step{llmtest.Call(0, "a", "bill"), llmtest.Arguments(0, `{"how":"ask"}`), llmtest.Call(1, "b", "middle"), llmtest.Arguments(1, `{"query":"Pay."}`)}
			}
			return llmtest.Script{Steps: steps}
		}
	}, func(a *asker) {
		finish := func(id string) (run wire.Run) {
			a.until(id+" waits", func() bool { a.get(runsPath+id, &run); return run.Status.Final() || run.Status == "WAITING" })
			var answers []string
			for _, in := range run.Interrupts {
				answers = append(answers, fmt.Sprintf(`{"interruptId":%q,"status":"resolved","payload":{"approved":true}}`, in.ID))
			}
			if len(answers) != 2 {
				a.Fatalf("%s is %s (%+v) and asks %d questions, want an approval and a question", id, run.Status, run.Error, len(answers))
			}
			a.must(asking, "POST", runsPath+id+"/resume", `{"resume":[`+strings.Join(answers, ",")+`]}`)
			a.until(id+" ends", func() bool { a.get(runsPath+id, &run); return run.Status.Final() })
			if run.Status != "COMPLETED" || *run.OutputSummary != "Done." {
				a.Fatalf("%s is %+v", id, run)
			}
			return run
		}
		origin := a.must(asking, "POST", "/api/v1/agent/runs", `{`+started+`,"content":"Pay."}`)["runId"].(string)
		finish(origin)
		calls := a.calls(origin) // of asker, middle, deep, deep, middle, asker
		const bill = "assistant , tool bill, "
		for at, first := range map[int]string{1: bill, 2: bill, 3: ""} { // the call of deep that is made again
			paid.Store(0)
			again := a.must(asking, "POST", runsPath+origin+"/rerun", fmt.Sprintf(`{"fromCall":%q}`, calls[at].ID))["runId"].(string)
			run := finish(again)
			asked := a.calls(again)
			if len(asked) != len(calls)-at {
				a.Fatalf("from call %d: the rerun has made %d calls", at, len(asked))
			}
			if got, want := sentIn(&asked[0]), sentIn(&calls[at]); got != want {
				a.Errorf("from call %d: the model was sent\n%s\nwant\n%s", at, got, want)
			}
			got := regexp.MustCompile(`bill \d`).ReplaceAllString(a.shown(run.ThreadID), "bill")
			got = strings.Replace(got, "tool Done., tool bill, assistant", "tool bill, tool Done., assistant", 1) // two calls at once
			if want := "user Pay., assistant , tool bill, tool Done., assistant , tool Done., " + first + "assistant Done., assistant Done., assistant Done."; got != want {
				a.Errorf("from call %d: the thread shows\n%s\nwant\n%s", at, got, want)
			}
			if want := strings.Count(got, "bill"); int(paid.Load()) != want {
				a.Errorf("from call %d: %d bills, want %d", at, paid.Load(), want)
			}
		}
	})
}

// Overrides change the model, instructions or parameters of one run. They need an operator and an agent with a model.
func TestOverrides_OfAnAgentsModel(t *testing.T) {
	t.Parallel()
	askers(t, "openai", func(_ *llm.Config, c *baton.Config) {
		c.Plugins = append(c.Plugins,
			plugins.AgentFunc("plain", func(context.Context, *plugins.Run) error { return nil }),
			plugins.Workflow{Name: "flow", Nodes: []plugins.Node{{ID: "only", Agent: "asker"}}})
		price := baton.Price{Input: 1, Output: 1}
		c.Prices = baton.Prices{Currency: "USD", Models: map[string]baton.Price{"m": price, "other": price, "special": price, "third": price}}
		c.Budgets = []baton.Budget{{Name: "money", Scope: "project", Per: "day", Unit: "USD", Limit: 100}}
	}, always, func(a *asker) {
		start := func(user, path, body string) (id string, last string) {
			id = a.must(user, "POST", path, body)["runId"].(string)
			var run wire.Run
			a.until(id+" ends", func() bool { a.get(runsPath+id, &run); return run.Status == "COMPLETED" })
			all := a.provider.Requests()
			return id, string(all[len(all)-1].Body)
		}
		const with = `{"model":"special","system":"Be long.","parameters":{"temperature":0,"stop":["."]}}`
		id, body := start("p1/alice/operator", "/api/v1/agent/runs", `{"agent":"asker","content":"Hi","overrides":`+with+`}`)
		for _, part := range []string{`"model":"special"`, "Be long.", `"temperature":0,`, `"stop":["."]`} {
			if !strings.Contains(body, part) {
				a.Errorf("the model was not asked with %s: %s", part, body)
			}
		}
		if strings.Contains(body, "Be brief.") || strings.Contains(body, `"max`) {
			a.Errorf("the agent's own configuration was sent: %s", body)
		}
		var run wire.Run
		if a.get(runsPath+id, &run); run.Overrides == nil || run.Overrides.Model != "special" {
			a.Errorf("the run shows %+v", run.Overrides)
		}
		if _, body := start(asking, runsPath+id+"/rerun", ``); !strings.Contains(body, "Be long.") {
			a.Errorf("the rerun: %s", body)
		}
		if _, body := start(asking, runsPath+id+"/rerun", `{"overrides":{"model":"third"}}`); !strings.Contains(body, "Be brief.") || !strings.Contains(body, `"model":"third"`) {
			a.Errorf("the rerun with others: %s", body)
		}
		for _, c := range []struct {
			user, body string
			status     int
		}{
			{"p1/alice/user", `{"agent":"asker","content":"Hi","overrides":{}}`, 403},
			{asking, `{"agent":"plain","content":"Hi","overrides":{}}`, 400},
			{asking, `{"workflowId":"flow","content":"Hi","overrides":{}}`, 400},
			{asking, `{"agent":"asker","content":"Hi","overrides":{"tools":[]}}`, 400},
			{asking, `{"agent":"asker","content":"Hi","overrides":{"parameters":{"temperature":3}}}`, 400},
			{asking, `{"agent":"asker","content":"Hi","overrides":{"parameters":{"stop":["` + strings.Repeat("x", 201) + `"]}}}`, 400},
			{asking, `{"agent":"asker","content":"Hi","overrides":{"parameters":{"stop":[""]}}}`, 400},
			{asking, `{"agent":"asker","content":"Hi","overrides":{"parameters":{"stop":["` + strings.Repeat(`x","`, 16) + `x"]}}}`, 400},
			{asking, `{"agent":"asker","content":"Hi","overrides":{"model":"a\u0000"}}`, 400},
			{asking, `{"agent":"asker","content":"Hi","overrides":{"model":"without a price"}}`, 400},
		} {
			if got := a.request(c.user, "POST", "/api/v1/agent/runs", c.body); got.status != c.status || !strings.Contains(got.body, "verrid") {
				a.Errorf("%s of %s: %d %s", c.body, c.user, got.status, got.body)
			}
		}
		if got := a.request("p1/alice/user", "POST", runsPath+id+"/rerun", ``); got.status != 403 {
			a.Errorf("a user's rerun of what an operator has overridden: %d %s", got.status, got.body)
		}
	})
}
