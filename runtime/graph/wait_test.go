package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/graph"
)

var worker = plugins.AgentFunc("worker", func(context.Context, *plugins.Run) error { return nil })

// compiled returns the nodes of a workflow, whose agents are the worker.
func compiled(t *testing.T, nodes ...plugins.Node) []*graph.Node {
	t.Helper()
	reg := new(host.Registry)
	if err := reg.Add(worker, plugins.Workflow{Name: "flow", Nodes: nodes}); err != nil {
		t.Fatal(err)
	}
	set, err := graph.Compile(reg)
	if err != nil {
		t.Fatal(err)
	}
	return set.Workflow("flow").Nodes
}

func TestNode_WaitsUntil(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ now, until, want string }{
		{"2026-05-01T08:00:00Z", `"2026-05-02T09:00:00+02:00"`, "2026-05-02T07:00:00Z"},
		{"2026-05-01T08:00:00Z", `"1d12h"`, "2026-05-02T20:00:00Z"},
		{"2026-05-01T08:00:00Z", `now() + duration("2h")`, "2026-05-01T10:00:00Z"},
		{"2026-05-01T08:00:00Z", `duration("90m")`, "2026-05-01T09:30:00Z"},
		{"2026-05-01T06:59:00Z", `"09:00 Europe/Berlin"`, "2026-05-01T07:00:00Z"},
		{"2026-05-01T07:00:00Z", `"9:00:30 " + state.zone`, "2026-05-01T07:00:30Z"},
		{"2026-05-01T07:00:00Z", `"09:00 Europe/Berlin"`, "2026-05-02T07:00:00Z"},
		{"2026-12-31T22:00:00Z", `"00:30 UTC"`, "2027-01-01T00:30:00Z"},
		{"2026-03-28T12:00:00Z", `"02:30 Europe/Berlin"`, "2026-03-29T01:00:00Z"},    // skipped: clocks go from 2 to 3
		{"2026-03-08T05:30:00Z", `"02:30 America/New_York"`, "2026-03-08T07:00:00Z"}, // likewise, west of UTC
		{"2026-03-29T01:00:00Z", `"02:30 Europe/Berlin"`, "2026-03-30T00:30:00Z"},
		{"2026-10-24T12:00:00Z", `"02:30 Europe/Berlin"`, "2026-10-25T00:30:00Z"}, // occurs twice
		{"2026-10-25T00:30:00Z", `"02:30 Europe/Berlin"`, "2026-10-26T01:30:00Z"}, // the second does not count
		{"2026-11-01T00:00:00Z", `"01:30 America/New_York"`, "2026-11-01T05:30:00Z"},
		{"2011-12-30T09:00:00Z", `"09:00 Pacific/Apia"`, "2011-12-30T10:00:00Z"}, // a day that the zone has skipped
		{"2026-05-01T08:00:00Z", `"25:00 UTC"`, "bad_wait"},
		{"2026-05-01T08:00:00Z", `"09:00 Local"`, "bad_wait"},
		{"2026-05-01T08:00:00Z", `"09:00 Mars/Olympus"`, "bad_wait"},
		{"2026-05-01T08:00:00Z", `7`, "bad_wait"},
		{"2026-05-01T08:00:00Z", `state.gone`, "bad_wait"},
	} {
		n := compiled(t, plugins.Node{ID: "a", Wait: plugins.NodeWait{Until: c.until}})[0]
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		env := func() map[string]any { return graph.Scope(now, "", json.RawMessage(`{"zone":"Europe/Berlin"}`), nil) }
		until, err := n.Until(t.Context(), env, now)
		got := until.UTC().Format(time.RFC3339)
		if e, ok := errors.AsType[*plugins.Error](err); ok {
			got = e.Code
		}
		if got != c.want {
			t.Errorf("%s at %s: %s, want %s; %v", c.until, c.now, got, c.want, err)
		}
	}
}

func TestCompile_RefusesWordsAsIDs(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"now", "count", "len", "query", "nodes", "in"} {
		reg := new(host.Registry)
		if err := reg.Add(worker, plugins.Workflow{Name: "flow", Nodes: []plugins.Node{{ID: id, Agent: "worker"}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := graph.Compile(reg); err == nil {
			t.Errorf("%s is accepted", id)
		}
	}
}
