package hosttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// announce announces calls of tools with the given arguments, one byte at a time in turns, and returns the calls.
func announce(ctx context.Context, run *plugins.Run, args ...string) ([]plugins.ToolCall, error) {
	var calls []plugins.ToolCall
	var open []*plugins.Announced
	var texts []string
	longest := 0
	for _, arg := range args {
		name, raw, _ := strings.Cut(arg, " ")
		a, err := run.Announce(ctx, name)
		if err != nil {
			return nil, err
		}
		call := plugins.ToolCall{Name: name, ID: a.ID}
		switch {
		case json.Valid([]byte(raw)):
			call.Args = json.RawMessage(raw)
		case raw != "":
			call.Args = raw
		}
		open, calls, texts = append(open, a), append(calls, call), append(texts, raw)
		longest = max(longest, len(raw))
	}
	for i := range longest {
		for n, a := range open {
			if i >= len(texts[n]) {
				continue
			}
			if _, err := a.WriteString(texts[n][i : i+1]); err != nil {
				return nil, err
			}
		}
	}
	var errs []error
	for _, a := range open {
		errs = append(errs, a.Close())
	}
	return calls, errors.Join(errs...)
}

// think is a Do that announces calls.
func think(ctx context.Context, run *plugins.Run, args ...string) (calls []plugins.ToolCall, err error) {
	err = run.Do(ctx, "think", &calls, func(ctx context.Context) error {
		if _, err := run.Text().Write([]byte("let me see")); err != nil {
			return err
		}
		calls, err = announce(ctx, run, args...)
		return err
	})
	return calls, err
}

// summaries returns the summaries of outputs, or the codes of their errors.
func summaries(outs []agui.ToolOutput) string {
	var texts []string
	for _, out := range outs {
		if out.Error != nil {
			out.ResultSummary = out.Error.Code
		}
		texts = append(texts, out.ResultSummary)
	}
	return strings.Join(texts, ", ")
}

// called returns the calls in the log, each with its arguments and its result.
func called(events []agui.Event) []string {
	var order []string
	shown := make(map[string]string)
	for _, ev := range events {
		switch e := ev.(type) {
		case agui.ToolCallStart:
			order = append(order, e.ToolCallID)
			shown[e.ToolCallID] = e.ToolCallName + " "
		case agui.ToolCallArgs:
			shown[e.ToolCallID] += e.Delta
		case agui.ToolCallResult:
			shown[e.ToolCallID] += " = " + summaries([]agui.ToolOutput{*e.Output})
		}
	}
	list := make([]string, len(order))
	for i, id := range order {
		list[i] = shown[id]
	}
	return list
}

func testAnnounced(t *testing.T, s *suite) {
	sun, calls := weather(2)
	var ids []string
	c := Case{
		Plugins:     append(counters(), sun),
		ClientTools: []agui.Tool{{Name: "pick"}},
		Answer: func(q agui.Interrupt) plugins.Answer {
			ids = append(ids, q.ToolCallID)
			return yes(q)
		},
	}
	out := s.check("sun in berlin, yes, sun in rome, 1", c, func(ctx context.Context, run *plugins.Run) (string, error) {
		asked, err := think(ctx, run, `weather {"city":"berlin"}`, `pick {"n": 1}`, `weather { "city": "rome" }`, "count ")
		if err != nil {
			return "", err
		}
		outs, err := run.CallTools(ctx, asked...)
		return summaries(outs), err
	})
	want := []string{
		`weather {"city":"berlin"} = sun in berlin`, `pick {"n": 1} = yes`, `weather { "city": "rome" } = sun in rome`, "count {} = 1",
	}
	if got := called(out.Events); !slices.Equal(got, want) || calls.Load() != 2 || len(ids) != 1 {
		t.Errorf("the log shows %q after %d calls, the client was asked for %q", got, calls.Load(), ids)
	}
	var parents []string
	for _, ev := range out.Events {
		switch e := ev.(type) {
		case agui.TextMessageStart:
			parents = append(parents, e.MessageID)
		case agui.ToolCallStart:
			parents = append(parents, e.ParentMessageID)
		}
	}
	if same := slices.Compact(slices.Clone(parents[:5])); len(same) != 1 || same[0] == "" {
		t.Errorf("the calls belong to the messages %q", parents)
	}
}

func testAnnouncedCrash(t *testing.T, s *suite) {
	var lives, thoughts atomic.Int64
	var ids sync.Map
	count := tool{name: "note", call: func(_ context.Context, call *plugins.Call) (string, error) {
		if _, again := ids.LoadOrStore(call.ID, true); again {
			t.Errorf("%s is called again", call.ID)
		}
		return string(call.Args), nil
	}}
	out := s.check(`{"n":1}, {"n":2}`, Case{Plugins: []plugins.Plugin{count}}, func(ctx context.Context, run *plugins.Run) (string, error) {
		life := lives.Add(1)
		var asked []plugins.ToolCall
		err := run.Do(ctx, "think", &asked, func(ctx context.Context) (err error) {
			thoughts.Add(1)
			asked, err = announce(ctx, run, `note {"n":1}`, `note {"n":2}`)
			return err
		})
		if err != nil {
			return "", err
		}
		if life == 1 {
			return "", s.die(ctx) // between the announcement and the calls
		}
		outs, err := run.CallTools(ctx, asked...)
		if err == nil && life == 2 {
			return "", s.die(ctx)
		}
		return summaries(outs), err
	})
	if got := called(out.Events); !slices.Equal(got, []string{`note {"n":1} = {"n":1}`, `note {"n":2} = {"n":2}`}) || thoughts.Load() != 1 {
		t.Errorf("the log shows %q after %d thoughts", got, thoughts.Load())
	}
}

func testAnnouncedDies(t *testing.T, s *suite) {
	var lives atomic.Int64
	out := s.check("1", Case{Plugins: counters()}, func(ctx context.Context, run *plugins.Run) (string, error) {
		var asked []plugins.ToolCall
		err := run.Do(ctx, "think", &asked, func(ctx context.Context) (err error) {
			if _, err := run.Text().Write([]byte("let me see")); err != nil {
				return err
			}
			asked, err = announce(ctx, run, `count {"n":1}`)
			if err == nil && lives.Add(1) == 1 {
				a, err := run.Announce(ctx, "count")
				if err != nil {
					return err
				}
				if _, err := a.WriteString(`{"n":`); err != nil {
					return err
				}
				if err := run.Do(ctx, "stored", nil, func(context.Context) error { return nil }); err != nil {
					return err
				}
				return s.die(ctx)
			}
			return err
		})
		if err != nil {
			return "", err
		}
		outs, err := run.CallTools(ctx, asked...)
		return summaries(outs), err
	})
	want := []string{`count {"n":1} = interrupted`, `count {"n": = interrupted`, `count {"n":1} = 1`}
	if got := called(out.Events); !slices.Equal(got, want) {
		t.Errorf("the log shows %q", got)
	}
}

func testRetracted(t *testing.T, s *suite) {
	out := s.check("1 refused", Case{Plugins: counters()}, func(ctx context.Context, run *plugins.Run) (string, error) {
		var asked, old []plugins.ToolCall
		err := run.Do(ctx, "think", &asked, func(ctx context.Context) (err error) {
			if old, err = announce(ctx, run, `count {"n":1}`); err != nil {
				return err
			}
			if _, err := run.Text().Write([]byte("no")); err != nil {
				return err
			}
			if err := run.Retract(ctx); err != nil {
				return err
			}
			asked, err = announce(ctx, run, `count {"n":2}`)
			return err
		})
		if err != nil {
			return "", err
		}
		outs, err := run.CallTools(ctx, asked...)
		if err != nil {
			return "", err
		}
		if _, err := run.CallTools(ctx, old...); err == nil {
			return "made", nil
		}
		if _, err := run.Announce(ctx, "count"); err == nil {
			return "announced", nil
		}
		return summaries(outs) + " refused", err
	})
	if got, want := called(out.Events), []string{`count {"n":1} = interrupted`, `count {"n":2} = 1`}; !slices.Equal(got, want) {
		t.Errorf("the log shows %q", got)
	}
	for _, ev := range out.Events {
		if e, ok := ev.(agui.TextMessageEnd); ok && e.Output.Answer == "no" && (e.Output.Error == nil || e.Output.Error.Code != "interrupted") {
			t.Errorf("the retracted text ends with %+v", e.Output)
		}
	}
}

func testInVain(t *testing.T, s *suite) {
	out := s.check("unknown_tool, invalid_arguments, invalid_arguments", Case{Plugins: counters(), ClientTools: []agui.Tool{{Name: "pick"}}},
		func(ctx context.Context, run *plugins.Run) (string, error) {
			asked, err := think(ctx, run, `gone {}`, `count {"n`, `pick [1]`)
			if err != nil {
				return "", err
			}
			outs, err := run.CallTools(ctx, asked...)
			return summaries(outs), err
		})
	want := []string{`gone {} = unknown_tool`, `count {"n = invalid_arguments`, `pick [1] = invalid_arguments`}
	if got := called(out.Events); !slices.Equal(got, want) {
		t.Errorf("the log shows %q", got)
	}
}

// testRefused has calls of a tool, of an agent and of the client's tool that the worker refuses itself.
func testRefused(t *testing.T, s *suite) {
	out := s.check("too_late, too_late, too_late", Case{Plugins: counters(), ClientTools: []agui.Tool{{Name: "pick"}}},
		func(ctx context.Context, run *plugins.Run) (string, error) {
			asked, err := think(ctx, run, `count {"n":1}`, `sub {"query":"?"}`, `pick {}`)
			if err != nil {
				return "", err
			}
			for i := range asked {
				asked[i].Output = &agui.ToolOutput{Status: agui.StatusFailure, Error: &agui.OutputError{Code: "too_late", Message: "It is too late"}}
			}
			outs, err := run.CallTools(ctx, asked...)
			return summaries(outs), err
		})
	want := []string{`count {"n":1} = too_late`, `sub {"query":"?"} = too_late`, `pick {} = too_late`}
	if got := called(out.Events); !slices.Equal(got, want) {
		t.Errorf("the log shows %q", got)
	}
}

func testAgentsAreTools(t *testing.T, s *suite) {
	var lives, helped atomic.Int64
	c := Case{Answer: yes, Plugins: append(counters(), worker{"helper", func(ctx context.Context, run *plugins.Run) (string, error) {
		a, err := run.Ask(ctx, agui.Interrupt{Message: "May I?"})
		if err != nil {
			return "", err
		}
		own, err := run.CallTool(ctx, "count", nil)
		if err != nil || run.Input.Query == "fail" {
			return "", errors.Join(err, &plugins.Error{Code: "no_luck", Message: "No luck"})
		}
		return fmt.Sprint(run.Input.Query, " ", own.ResultSummary, " ", helped.Add(1), " ", string(a.Payload)), nil
	}})}
	out := s.check(`please 1 1 "yes", invalid_arguments, no_luck`, c, func(ctx context.Context, run *plugins.Run) (string, error) {
		var names []string
		for _, info := range run.Tools("count", "h*") {
			names = append(names, fmt.Sprint(info.Name, " ", info.Parameters != nil))
		}
		if got := fmt.Sprint(names); got != "[count false helper true]" {
			t.Errorf("the host has %s", got)
		}
		first, err := run.CallTool(ctx, "helper", map[string]string{"query": "please"})
		if err != nil {
			return "", err
		}
		if lives.Add(1) == 1 {
			return "", s.die(ctx)
		}
		rest, err := run.CallTools(ctx, plugins.ToolCall{Name: "helper"}, plugins.ToolCall{Name: "helper", Args: map[string]string{"query": "fail"}})
		return summaries(append([]agui.ToolOutput{first}, rest...)), err
	})
	for _, ev := range out.Events {
		if e, ok := ev.(agui.SubagentStarted); ok && e.ParentToolCallID == "" {
			t.Errorf("a sub-agent belongs to no call: %+v", e)
		}
	}
}
