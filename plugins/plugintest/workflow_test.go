package plugintest_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

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

func TestRunWorkflow_FailsWhereServerWouldNotStart(t *testing.T) {
	w, cfg := trips("cost.output.euros > 5")
	rec := &recorder{TB: t}
	plugintest.RunWorkflow(rec, w, cfg)
	if !strings.Contains(rec.failed, "euros") {
		t.Errorf("failed with %q", rec.failed)
	}
}

// A map is played item by item: with a retry, and with what its OnError says about a failed one.
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
