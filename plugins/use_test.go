package plugins_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/runtime/agui"
)

// notebook is a host that notes uses and records nothing.
type notebook struct {
	plugins.Host
	uses   []plugins.Use
	agents map[string]plugins.Agent
}

func (n *notebook) Do(ctx context.Context, u plugins.Use, fn func(context.Context) (plugins.Record, error)) (json.RawMessage, error) {
	n.uses = append(n.uses, u)
	rec, err := fn(ctx)
	return rec.Output, err
}

func (n *notebook) OpenCalls(_ context.Context, _ string, calls []plugins.Use) error {
	n.uses = append(n.uses, calls...)
	return nil
}

func (n *notebook) CallTool(context.Context, plugins.Use) (agui.ToolOutput, error) {
	return agui.ToolOutput{}, nil
}

func (n *notebook) CallAgent(ctx context.Context, _ string, u plugins.Use, query string) (agui.WorkerOutput, error) {
	n.uses = append(n.uses, u)
	return plugins.Execute(ctx, n.agents[u.Name], n, plugins.Input{Query: query})
}

func (n *notebook) Ask(_ context.Context, u plugins.Use, _ agui.Interrupt) (plugins.Answer, error) {
	n.uses = append(n.uses, u)
	return plugins.Answer{}, nil
}

func (n *notebook) Next(_ context.Context, u plugins.Use) ([]agui.Message, error) {
	n.uses = append(n.uses, u)
	return nil, nil
}

// uses returns the uses of a worker.
func uses(t *testing.T, a agent, agents map[string]plugins.Agent) []plugins.Use {
	t.Helper()
	host := &notebook{agents: agents}
	if _, err := plugins.Execute(t.Context(), a, host, plugins.Input{}); err != nil {
		t.Fatal(err)
	}
	return host.uses
}

func TestUse_Places(t *testing.T) {
	sub := agent(func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		_, err := run.Ask(ctx, agui.Interrupt{Message: run.Input.Query})
		return agui.WorkerOutput{}, err
	})
	list := uses(t, func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		twice := func(ctx context.Context) error {
			_, err := run.CallTools(ctx, plugins.ToolCall{Name: "t"}, plugins.ToolCall{Name: "t", Args: map[string]int{"n": 1}})
			return err
		}
		err := errors.Join(
			run.Do(ctx, "a", nil, func(inner context.Context) error {
				return errors.Join(run.Do(inner, "a", nil, twice), twice(inner), twice(ctx))
			}),
			run.Do(ctx, "50%/a#1", nil, func(context.Context) error { return nil }),
			twice(run.Branch(ctx, "k")), twice(run.Branch(run.Branch(ctx, "k"), "l")), twice(run.Branch(ctx, "k")),
			twice(context.Background()),
		)
		_, err2 := run.CallAgent(ctx, "sub", "q")
		_, err3 := run.Next(run.Branch(ctx, "k"))
		return agui.WorkerOutput{}, errors.Join(err, err2, err3)
	}, map[string]plugins.Agent{"sub": sub})
	var got []string
	for _, u := range list {
		got = append(got, u.Place+" "+string(u.Request))
	}
	tools := func(path string, n int) []string {
		return []string{fmt.Sprintf("%stool:t#%d {}", path, n), fmt.Sprintf(`%stool:t#%d {"n":1}`, path, n+1)}
	}
	var want []string
	want = append(want, "do:a#1 ", "do:a#1/do:a#1 ")
	want = append(want, tools("do:a#1/do:a#1/", 1)...)
	want = append(want, tools("do:a#1/", 1)...)
	want = append(want, tools("", 1)...)
	want = append(want, "do:50%25%2Fa%231#1 ")
	want = append(want, tools("branch:k/", 1)...)
	want = append(want, tools("branch:k/branch:l/", 1)...)
	want = append(want, tools("branch:k/", 3)...)
	want = append(want, tools("", 3)...)
	want = append(want, `agent:sub#1 "q"`, `agent:sub#1/ask#1 {"id":"","reason":"","message":"q"}`, "branch:k/next#1 ")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Places are database keys: they are short and unique.
func TestUse_DeepPlacesAreShort(t *testing.T) {
	var dig agent
	depth := 0
	dig = func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if depth++; depth > 60 {
			return agui.WorkerOutput{}, nil
		}
		for _, name := range []string{strings.Repeat("\x00é/", 200), strings.Repeat("\x00é/", 200) + "2", "\xff"} {
			if err := run.Do(ctx, name, nil, func(context.Context) error { return nil }); err != nil {
				return agui.WorkerOutput{}, err
			}
		}
		_, err := run.CallAgent(ctx, "digger", "")
		return agui.WorkerOutput{}, err
	}
	seen := map[string]bool{}
	for _, u := range uses(t, dig, map[string]plugins.Agent{"digger": dig}) {
		if len(u.Place) > 600 || seen[u.Place] || strings.ContainsRune(u.Place, 0) || u.Place != strings.ToValidUTF8(u.Place, "") {
			t.Fatalf("place %q", u.Place)
		}
		seen[u.Place] = true
	}
}

func TestUse_HashIgnoresVolatileFields(t *testing.T) {
	var hashes []string
	for _, q := range []agui.Interrupt{
		{Message: "Sure?"},
		{Message: "Sure?", ID: "x", ExpiresAt: "2026-01-01T00:00:00Z", SubagentRunID: "y"},
		{Message: "Really?"},
	} {
		list := uses(t, func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			_, err := run.Ask(ctx, q)
			return agui.WorkerOutput{}, err
		}, nil)
		hashes = append(hashes, list[0].Hash())
	}
	if hashes[0] != hashes[1] || hashes[0] == hashes[2] {
		t.Errorf("hashes %q", hashes)
	}
}

func TestCallTools_FailureBeatsWaiting(t *testing.T) {
	in := plugins.Input{Tools: []agui.Tool{{Name: "pick"}}}
	calls := 0
	res, err := plugintest.Execute(t.Context(), agent(func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		calls++
		_, err := run.CallTools(ctx, plugins.ToolCall{Name: "pick"}, plugins.ToolCall{Name: "gone", Args: map[string]int{"n": calls}})
		return agui.WorkerOutput{}, err
	}), plugintest.Config{Input: in, CrashAfter: 1})
	if known, ok := errors.AsType[*plugins.Error](res.Err); !ok || known.Code != "replay_mismatch" || known.Retryable || err == nil {
		t.Errorf("ended with %v, %v", res.Err, err)
	}
}

func TestDo_ConcurrentSameNameNeedsBranch(t *testing.T) {
	one := func(context.Context) error { return nil }
	res := plugintest.Run(t, agent(func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		err := run.Do(ctx, "a", nil, func(inner context.Context) error {
			err := run.Do(ctx, "a", nil, one)
			if known, ok := errors.AsType[*plugins.Error](err); !ok || known.Code != "name_in_use" {
				t.Errorf("a second Do of the name got %v", err)
			}
			return errors.Join(run.Do(inner, "a", nil, one), run.Do(run.Branch(ctx, "k"), "a", nil, one))
		})
		return agui.WorkerOutput{}, errors.Join(err, run.Do(ctx, "a", nil, one))
	}), plugintest.Config{})
	if res.Err != nil || res.Records != 4 {
		t.Errorf("%d records, %v", res.Records, res.Err)
	}
}

// meanwhile is a notebook that calls a function during its first Next.
type meanwhile struct {
	notebook
	then func()
}

func (m *meanwhile) Next(ctx context.Context, u plugins.Use) ([]agui.Message, error) {
	if then := m.then; then != nil {
		m.then = nil
		then()
	}
	return m.notebook.Next(ctx, u)
}

// On replay the messages of the two could not be told apart.
func TestNext_ConcurrentNeedsBranch(t *testing.T) {
	host := &meanwhile{}
	_, err := plugins.Execute(t.Context(), agent(func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		host.then = func() {
			_, err := run.Next(ctx)
			if known, ok := errors.AsType[*plugins.Error](err); !ok || known.Code != "name_in_use" {
				t.Errorf("a second Next got %v", err)
			}
			if _, err := run.Next(run.Branch(ctx, "k")); err != nil {
				t.Error(err)
			}
		}
		_, err := run.Next(ctx)
		_, err2 := run.Next(ctx)
		return agui.WorkerOutput{}, errors.Join(err, err2, run.Do(ctx, "next", nil, func(context.Context) error { return nil }))
	}), host, plugins.Input{})
	var got []string
	for _, u := range host.uses {
		got = append(got, u.Place)
	}
	if diff := cmp.Diff([]string{"branch:k/next#1", "next#1", "next#2", "do:next#1"}, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}
