package plugintest_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/plugins/typed"
	"github.com/batonrun/baton/runtime/agui"
)

type trip struct {
	To string `json:"to"`
}

type price struct {
	Cents int `json:"cents"`
}

// trips returns a workflow that books cheap trips at once, and asks before it books others.
func trips(when string) (plugins.Workflow, plugintest.Config) {
	tries := 0
	cost := typed.Tool(plugins.Info{Name: "price", Idempotent: true}, func(_ context.Context, _ *plugins.Call, to trip) (price, error) {
		if tries++; tries == 1 {
			return price{}, &plugins.Error{Code: "busy", Message: "try again", Retryable: true}
		}
		return price{100 * len(to.To)}, nil
	})
	ask := plugins.AgentFunc("ask", func(ctx context.Context, run *plugins.Run) error {
		_, err := run.Ask(ctx, agui.Interrupt{Message: run.Input.Query})
		return err
	})
	book := plugins.AgentFunc("book", func(_ context.Context, run *plugins.Run) error { return say(run, "booked "+run.Input.Query) })
	return plugins.Workflow{Name: "trips", Nodes: []plugins.Node{
		{ID: "cost", Tool: "price", Input: `{"to": query}`, Retry: plugins.Retry{Retries: 1}},
		{ID: "sure", Agent: "ask", Needs: []string{"cost"}, When: when},
		{ID: "booking", Agent: "book", Needs: []string{"cost", "sure"}, Input: `query + " for " + string(cost.output.cents)`},
	}}, plugintest.Config{Tools: []plugins.Tool{cost}, Agents: []plugins.Agent{ask, book}}
}

func TestRunWorkflow_DecidesByTypedOutput(t *testing.T) {
	for query, want := range map[string]struct {
		answer string
		asks   bool
	}{"Rome": {"booked Rome for 400", false}, "Copenhagen": {"booked Copenhagen for 1000", true}} {
		w, cfg := trips("cost.output.cents > 500")
		cfg.Input.Query, cfg.Answers = query, []plugins.Answer{{Payload: []byte("true")}}
		res := plugintest.RunWorkflow(t, w, cfg)
		if asked := res.Nodes["sure"] != nil; res.Err != nil || res.Answer != want.answer || asked != want.asks {
			t.Errorf("%s: %q, asks %t; %v", query, res.Answer, asked, res.Err)
		}
		if want.asks {
			cfg.Answers = nil
			if res := plugintest.RunWorkflow(t, w, cfg); !errors.Is(res.Err, plugins.ErrWaiting) {
				t.Errorf("without an answer: %v", res.Err)
			}
		}
	}
}

// The waits of nodes take no time, and move now().
func TestRunWorkflow_Waits(t *testing.T) {
	began := time.Now()
	book := plugins.AgentFunc("book", func(_ context.Context, run *plugins.Run) error { return say(run, run.Input.Query) })
	res := plugintest.RunWorkflow(t, plugins.Workflow{Name: "later", Nodes: []plugins.Node{
		{ID: "pause", Wait: plugins.NodeWait{For: 24 * time.Hour}},
		{ID: "booking", Agent: "book", Needs: []string{"pause"}, When: `now() > date(query)`, Wait: plugins.NodeWait{Until: "now()"}},
	}}, plugintest.Config{Agents: []plugins.Agent{book}, Input: plugins.Input{Query: began.Add(23 * time.Hour).Format(time.RFC3339)}})
	if res.Err != nil || res.Nodes["booking"] == nil || len(res.Waits) != 2 || res.Waits["pause"].Sub(began) < 24*time.Hour {
		t.Errorf("%+v", res)
	}
}

// A node receives an event, or says that none has come.
func TestRunWorkflow_WaitsForEvents(t *testing.T) {
	book := plugins.AgentFunc("book", func(_ context.Context, run *plugins.Run) error { return say(run, run.Input.Query) })
	flow := plugins.Workflow{Name: "order", Nodes: []plugins.Node{
		{ID: "paid", Wait: plugins.NodeWait{Event: "paid", Within: 24 * time.Hour}},
		{ID: "booking", Agent: "book", Needs: []string{"paid"}, Input: `paid.status == 'success' ? paid.output.name : paid.status`},
	}}
	cfg := plugintest.Config{Agents: []plugins.Agent{book}}
	if res := plugintest.RunWorkflow(t, flow, cfg); res.Err != nil || res.Answer != "expired" {
		t.Errorf("without an event: %q, %v", res.Answer, res.Err)
	}
	cfg.Events = []plugintest.Event{{Name: "paid", Payload: []byte(`{"name":"ann"}`), After: time.Hour}}
	if res := plugintest.RunWorkflow(t, flow, cfg); res.Err != nil || res.Answer != "ann" {
		t.Errorf("with an event: %q, %v", res.Answer, res.Err)
	}
}

// Rounds, retries by code, and failures that a node catches.
func TestRunWorkflow_RepeatsAndCatches(t *testing.T) {
	tries := 0
	more := plugins.AgentFunc("more", func(_ context.Context, run *plugins.Run) error {
		if tries++; tries == 2 {
			return &plugins.Error{Code: "busy"}
		}
		return say(run, run.Input.Query+"x")
	})
	fail := plugins.AgentFunc("fail", func(context.Context, *plugins.Run) error { return &plugins.Error{Code: "sold_out"} })
	flow := func(max int, onMax bool) *plugintest.WorkflowResult {
		tries = 0
		return plugintest.RunWorkflow(t, plugins.Workflow{Name: "flow", Nodes: []plugins.Node{
			{ID: "draft", Agent: "more", Input: "query + draft.answer", Repeat: plugins.Repeat{Until: "draft.round == 3", Max: max, Fail: onMax}, Retry: plugins.Retry{Retries: 1, On: []string{"busy"}}},
			{ID: "sell", Agent: "fail", ContinueOnError: true, Retry: plugins.Retry{Retries: 1, On: []string{"busy"}}},
			{ID: "shown", Agent: "more", Needs: []string{"draft", "sell"}, When: "sell.status == 'failed'", Input: "draft.answer + draft.status + sell.error.code"},
		}}, plugintest.Config{Agents: []plugins.Agent{more, fail}, Input: plugins.Input{Query: "q"}})
	}
	if res := flow(0, false); res.Err != nil || res.Answer != "qqqxxxsuccesssold_outx" {
		t.Errorf("%q, %v", res.Answer, res.Err)
	}
	if res := flow(2, false); res.Err != nil || res.Answer != "qqxxpartial_successsold_outx" {
		t.Errorf("%q, %v", res.Answer, res.Err)
	}
	if e, ok := errors.AsType[*plugins.Error](flow(2, true).Err); !ok || e.Code != "repeat_max" {
		t.Errorf("at max: %v", e)
	}
}

// Questions of nodes use the answers in their order.
func TestRunWorkflow_Asks(t *testing.T) {
	book := plugins.AgentFunc("book", func(_ context.Context, run *plugins.Run) error { return say(run, run.Input.Query) })
	ask := func(id, needs string, a plugins.Ask) plugins.Node {
		a.Schema = []byte(`{"type":"string"}`)
		return plugins.Node{ID: id, Ask: &a, Needs: strings.Fields(needs), Approver: plugins.Approver{Message: "'Where, ' + query + '?'"}}
	}
	flow := plugins.Workflow{Name: "flow", Nodes: []plugins.Node{
		ask("where", "", plugins.Ask{}), ask("via", "where", plugins.Ask{Output: "'nowhere'"}), ask("seat", "where", plugins.Ask{Skip: true}),
		{ID: "booking", Agent: "book", Needs: []string{"where", "via", "seat"}, Input: "where.output + via.output + seat.status"},
	}}
	cfg := plugintest.Config{Agents: []plugins.Agent{book}, Input: plugins.Input{Query: "Ann"}}
	cfg.Answers = []plugins.Answer{{Payload: []byte(`"Rome"`)}, {Cancelled: true}, {Cancelled: true}}
	res := plugintest.RunWorkflow(t, flow, cfg)
	if res.Err != nil || res.Answer != "Romenowhereskipped" || res.Nodes["where"].Questions[0].Message != "Where, Ann?" {
		t.Errorf("%q, %v", res.Answer, res.Err)
	}
	cfg.Answers = []plugins.Answer{{Cancelled: true}}
	if e, ok := errors.AsType[*plugins.Error](plugintest.RunWorkflow(t, flow, cfg).Err); !ok || e.Code != "unanswered" {
		t.Errorf("declined: %v", e)
	}
	cfg.Answers = nil
	if res := plugintest.RunWorkflow(t, flow, cfg); !errors.Is(res.Err, plugins.ErrWaiting) {
		t.Errorf("without an answer: %v", res.Err)
	}
}

func TestRunWorkflow_FailsWhereServerWouldNotStart(t *testing.T) {
	w, cfg := trips("cost.output.euros > 5")
	rec := &recorder{TB: t}
	plugintest.RunWorkflow(rec, w, cfg)
	if !strings.Contains(rec.failed, "euros") {
		t.Errorf("failed with %q", rec.failed)
	}
}

// A map is played item by item: with a retry, and the effect of its OnError.
func TestRunWorkflow_PlaysMaps(t *testing.T) {
	tries := 0
	read := plugins.AgentFunc("read", func(_ context.Context, run *plugins.Run) error {
		switch tries++; {
		case tries == 1:
			return &plugins.Error{Message: "later", Retryable: true}
		case run.Input.Query == "bad":
			return &plugins.Error{Code: "sick", Message: "I am ill"}
		}
		return say(run, "read "+run.Input.Query)
	})
	tell := plugins.AgentFunc("tell", func(_ context.Context, run *plugins.Run) error { return say(run, run.Input.Query) })
	for onError, want := range map[string]string{plugins.SkipErrors: "sick 1 of 2: read one\n\nread three", plugins.FailMap: ""} {
		tries = 0
		res := plugintest.RunWorkflow(t, plugins.Workflow{Name: "w", Nodes: []plugins.Node{
			{ID: "read", Agent: "read", Retry: plugins.Retry{Retries: 1}, Map: &plugins.Map{Over: `["one", query, "three"]`, OnError: onError}},
			{ID: "tell", Agent: "tell", Needs: []string{"read"}, Input: `read.errors[0].code + " " + read.errors[0].key + " of " + string(len(read.items)) + ": " + read.answer`},
		}}, plugintest.Config{Agents: []plugins.Agent{read, tell}, Input: plugins.Input{Query: "bad"}})
		if failed := onError == plugins.FailMap; res.Answer != want || (res.Err != nil) != failed || res.Nodes["read[1]"] == nil || (res.Nodes["read[2]"] == nil) != failed {
			t.Errorf("%s: %q, %v, nodes %v", onError, res.Answer, res.Err, slices.Sorted(maps.Keys(res.Nodes)))
		}
	}
}
