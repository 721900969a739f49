package graph_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
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
