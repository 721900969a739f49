package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/graph"
)

func TestGuard_Verdicts(t *testing.T) {
	s := plugins.Subject{
		On: "tool", Input: "in", Tool: "pay", Args: json.RawMessage(`{"euros":5,"to":["bob"]}`), Output: "out", Result: json.RawMessage(`{"n":1}`), User: "ann", Project: "p",
	}
	for code, want := range map[string]plugins.Verdict{
		`args.euros < 10 and tool == "pay" and user + project == "annp"`: {Verdict: "allow"},
		`args.euros > 10`:                                                {Verdict: "refuse"},
		`"bob" in args.to ? "not bob" : true`:                            {Verdict: "refuse", Reason: "not bob"},
		`{verdict: "rewrite", args: {euros: 1}}`:                         {Verdict: "rewrite", Args: json.RawMessage(`{"euros":1}`)},
		`{verdict: "ask", reason: on + " " + input + output, text: "x"}`: {Verdict: "ask", Reason: "tool inout", Text: "x"},
		`result.n == 1`:                                                  {Verdict: "allow"},
		`args.missing.deep`:                                              {},
		`nil`:                                                            {},
		`1`:                                                              {},
		`{verdict: 1}`:                                                   {},
		`args.euros`:                                                     {},
		`map(1..1000000000, # * args.euros)`:                             {},
	} {
		check, err := graph.Guard(code)
		if err != nil {
			t.Errorf("%s: %v", code, err)
			continue
		}
		got, err := check(t.Context(), s)
		if diff := cmp.Diff(want, got); diff != "" && err == nil || (err == nil) != (want.Verdict != "") {
			t.Errorf("%s: %v %s", code, err, diff)
		}
	}
	for _, code := range []string{"", "inptu", "output.n", "input > 1"} {
		if _, err := graph.Guard(code); err == nil {
			t.Errorf("%q is accepted", code)
		}
	}
}

// The end of a run or a call that an expression works for is not the expression's fault.
func TestExpressions_EndWithContext(t *testing.T) {
	stopped := errors.New("stopped")
	ctx, stop := context.WithCancelCause(t.Context())
	stop(stopped)
	const long = `count(1..100000, # > 0) > 0`
	check, err := graph.Guard(long)
	if err != nil {
		t.Fatal(err)
	}
	_, verdict := check(ctx, plugins.Subject{})
	_, message := graph.CallMessage(ctx, long, nil)
	errs := map[string]error{"guard": verdict, "message": message}
	for name, n := range map[string]plugins.Node{"when": {When: long}, "input": {Input: long}, "wait": {Wait: plugins.NodeWait{Until: long}}} {
		n.ID, n.Agent = "a", "worker"
		reg := new(host.Registry)
		if err := reg.Add(plugins.AgentFunc("worker", func(context.Context, *plugins.Run) error { return nil }), plugins.Workflow{Name: "flow", Nodes: []plugins.Node{n}}); err != nil {
			t.Fatal(err)
		}
		_, errs[name] = graph.Play(ctx, reg, "flow", "q", nil, nil, nil)
	}
	for name, err := range errs {
		if !errors.Is(err, stopped) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
