package runtime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// A worker that is interrupted at any of its points, once at each, ends as one that is not: what is recorded is not done again, and what
// it has shown halfway is shown once. It does not matter who calls it.
func TestInterrupted_WorkerGoesOnWithItsRecords(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, path string) {
		var calls, repeats, done atomic.Int64
		died := make(map[int]bool) // points; each run sets it anew
		at := func(point int) error {
			if died[point] {
				return nil
			}
			died[point] = true
			return &plugins.Interrupted{Reason: fmt.Sprint("point ", point)}
		}
		fragile := agent{"fragile", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			if err := at(0); err != nil {
				return agui.WorkerOutput{}, err
			}
			err := run.Do(ctx, "load", nil, func(context.Context) error {
				done.Add(1)
				if err := say(run, "loading "); err != nil {
					return err
				}
				if _, err := io.WriteString(run.Text(), "half of "); err != nil {
					return err
				}
				return at(1)
			})
			if err == nil {
				err = at(2)
			}
			if err == nil {
				_, err = run.CallTool(ctx, "once", nil)
			}
			if err == nil {
				_, err = run.CallTool(ctx, "often", nil)
			}
			if err == nil {
				_, err = run.CallAgent(ctx, "helper", "help")
			}
			if err != nil {
				return agui.WorkerOutput{}, err
			}
			text := run.Text()
			if _, err := io.WriteString(text, "the "); err != nil {
				return agui.WorkerOutput{}, err
			}
			if err := at(3); err != nil {
				return agui.WorkerOutput{}, err
			}
			if _, err := io.WriteString(text, "end"); err != nil {
				return agui.WorkerOutput{}, err
			}
			return agui.WorkerOutput{}, at(4)
		}}
		helper := agent{"helper", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			if _, err := io.WriteString(run.Text(), "helped "); err != nil {
				return agui.WorkerOutput{}, err
			}
			return agui.WorkerOutput{}, at(5)
		}}
		caller := agent{"caller", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			_, err := run.CallAgent(ctx, "fragile", "x")
			return agui.WorkerOutput{}, err
		}}
		once := tool{plugins.Info{Name: "once"}, func(context.Context, *plugins.Call) (agui.ToolOutput, error) {
			calls.Add(1)
			return agui.ToolOutput{}, at(6)
		}}
		often := tool{plugins.Info{Name: "often", Idempotent: true}, func(context.Context, *plugins.Call) (agui.ToolOutput, error) {
			repeats.Add(1)
			return agui.ToolOutput{}, at(7)
		}}
		flow := plugins.Workflow{Name: "flow", Nodes: []plugins.Node{{ID: "a", Agent: "fragile"}, {ID: "b", Agent: "echo"}}}
		echo := agent{"echo", func(context.Context, *plugins.Run) (agui.WorkerOutput, error) { return agui.WorkerOutput{}, nil }}
		b := openAt(t, path, runtime.Config{}, fragile, helper, caller, once, often, echo, flow)
		for _, name := range []string{"fragile", "caller", "flow"} {
			clear(died)
			calls.Store(0)
			repeats.Store(0)
			done.Store(0)
			var s runtime.Started
			if name == "flow" {
				s = b.startWorkflow(name, name, "x")
			} else {
				s = b.start(name, name, "x")
			}
			run := b.wait(s.RunID, runtime.Completed)
			if run.Attempt != 0 || len(died) != 8 || done.Load() != 2 || calls.Load() != 1 || repeats.Load() != 2 {
				t.Errorf("%s: %d crashes are counted, it died %d times; Do ran %d times, once %d, often %d", name, run.Attempt, len(died), done.Load(), calls.Load(), repeats.Load())
			}
			recs := b.log(name)
			checkLog(t, recs)
			msgs, err := rows(b.Runs.Messages(t.Context(), local, s.RunID, 0, 50))
			got := strings.Join(slices.DeleteFunc(strings.Split(texts(msgs), ", "), func(s string) bool { return s == "" || s == "x" || strings.HasPrefix(s, "The call was") }), ", ")
			if err != nil || got != "loading , half of , helped , the end" {
				t.Errorf("%s shows %q, %v", name, got, err)
			}
			if codes := results(recs); !slices.Equal(codes, []string{"once interrupted", "often "}) {
				t.Errorf("%s: results %q", name, codes)
			}
		}
	})
}

// results returns the names and error codes of the results of calls.
func results(recs []*runtime.Record) (list []string) {
	for _, r := range recs {
		if e, ok := r.Event.(agui.ToolCallResult); ok {
			code := ""
			if e.Output.Error != nil {
				code = e.Output.Error.Code
			}
			list = append(list, e.Output.ToolName+" "+code)
		}
	}
	return list
}

// An interruption that counts is a crash: the fourth without a record in between ends the run, in the middle of a server's crash too. One
// that does not count never does.
func TestInterrupted_CountsTowardsCrashLoop(t *testing.T) {
	t.Parallel()
	var called, before atomic.Int64
	dies := agent{"dies", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		called.Add(1)
		before.Store(int64(run.Input.Interruptions))
		return agui.WorkerOutput{}, &plugins.Interrupted{Reason: "it died", Counts: run.Input.Query == "its fault"}
	}}
	survives := agent{"survives", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if run.Input.Interruptions < 10 {
			return agui.WorkerOutput{}, &plugins.Interrupted{Reason: "a neighbour died"}
		}
		return agui.WorkerOutput{}, nil
	}}
	caller := agent{"caller", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		_, err := run.CallAgent(ctx, "dies", "its fault")
		return agui.WorkerOutput{}, err
	}}
	again := tool{plugins.Info{Name: "again", Idempotent: true}, func(context.Context, *plugins.Call) (agui.ToolOutput, error) {
		called.Add(1)
		return agui.ToolOutput{}, &plugins.Interrupted{Reason: "it died", Counts: true}
	}}
	calls := agent{"calls", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		out, err := run.CallTool(ctx, "again", nil)
		raw, _ := json.Marshal(out.Error)
		return agui.WorkerOutput{Answer: string(raw)}, err
	}}
	b := open(t, runtime.Config{}, dies, survives, caller, again, calls)
	for _, name := range []string{"dies", "caller"} {
		called.Store(0)
		s := b.start(name, name, "its fault")
		run := b.wait(s.RunID, runtime.Failed)
		if run.Error == nil || run.Error.Code != "crash_loop" || called.Load() != 4 || before.Load() != 3 {
			t.Errorf("%s: error %+v after %d calls, the last behind %d", name, run.Error, called.Load(), before.Load())
		}
		checkLog(t, b.log(name))
	}
	b.wait(b.start("survives", "survives", "x").RunID, runtime.Completed)
	called.Store(0)
	s := b.start("calls", "calls", "x") // a tool that dies each time does not end the run
	b.wait(s.RunID, runtime.Completed)
	if codes := results(b.log("calls")); called.Load() != 4 || !slices.Equal(codes, []string{"again interrupted"}) {
		t.Errorf("%d calls, results %q", called.Load(), codes)
	}
}
