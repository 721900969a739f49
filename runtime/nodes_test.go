package runtime_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// states returns the states of a run's nodes as words, by their ids.
func (b *bench) states(run string) (words []string) {
	b.t.Helper()
	nodes, err := b.Runs.Nodes(b.t.Context(), local, run)
	must(b.t, err)
	for _, n := range nodes {
		words = append(words, fmt.Sprintf("%s %s", n.NodeID, n.Status))
	}
	return words
}

// flaky returns an agent that fails its first execution, in any process.
func flaky(name string) agent {
	return agent{name, func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if run.Input.Execution == 1 {
			return agui.WorkerOutput{}, &plugins.Error{Code: "busy", Message: "Busy", Retryable: true}
		}
		return agui.WorkerOutput{Answer: strings.ToUpper(run.Input.Query)}, nil
	}}
}

// A wait of a node is for one time, whatever happens meanwhile: the death of its server, and a retry of the node.
func TestNodeWait_IsComputedOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, path string) {
		t.Parallel()
		b := openAt(t, path, runtime.Config{}, flaky("worker"), plugins.Workflow{Name: "flow", Nodes: []plugins.Node{
			{ID: "pause", Wait: plugins.NodeWait{For: 4 * time.Second}},
			{ID: "send", Agent: "worker", Needs: []string{"pause"}, When: "pause.status == 'success' and pause.output == nil",
				Wait: plugins.NodeWait{Until: `now() + duration("3s")`}, Retry: plugins.Retry{Retries: 1, Initial: time.Millisecond}},
		}})
		began := time.Now()
		s := b.startWorkflow("main", "flow", "go")
		run := b.wait(s.RunID, runtime.Waiting)
		wait := b.Logs.WaitOf(t.Context(), &run)
		if !run.Parked() || wait == nil || wait.Reason != "time" {
			t.Errorf("it waits for %+v", wait)
		}
		if got := b.states(s.RunID); !slices.Equal(got, []string{"pause WAITING", "send PENDING"}) {
			t.Errorf("the nodes are %v", got)
		}
		b.crash()
		now := b.wait(s.RunID, runtime.Waiting)
		if again := b.Logs.WaitOf(t.Context(), &now); again == nil || !again.Until.Equal(wait.Until) {
			t.Errorf("after a crash it waits for %+v", again)
		}
		run = b.wait(s.RunID, runtime.Completed)
		if took := time.Since(began); took < 7*time.Second || *run.OutputSummary != "GO" {
			t.Errorf("it took %s, and says %q", took, *run.OutputSummary)
		}
		log := b.log("main")
		checkLog(t, log)
		if got := customs(log); !slices.Equal(got, []string{agui.ParkedEvent, agui.WokenEvent, agui.ParkedEvent, agui.WokenEvent}) {
			t.Errorf("the log has %q", got)
		}
	})
}

// A wait that cannot be computed, or is too long, fails its run. A short one does not park.
func TestNodeWait_Limits(t *testing.T) {
	t.Parallel()
	wait := func(name string, w plugins.NodeWait) plugins.Workflow {
		return plugins.Workflow{Name: name, Nodes: []plugins.Node{{ID: "pause", Wait: w}}}
	}
	b := open(t, runtime.Config{}, wait("long", plugins.NodeWait{For: 366 * 24 * time.Hour}), wait("bad", plugins.NodeWait{Until: "query"}), wait("short", plugins.NodeWait{For: time.Millisecond}))
	for name, code := range map[string]string{"long": "wait_too_long", "bad": "bad_wait", "short": ""} {
		run := b.wait(b.startWorkflow(name, name, "go").RunID, runtime.Failed, runtime.Completed)
		if code == "" != (run.Error == nil) || run.Error != nil && run.Error.Code != code {
			t.Errorf("%s: %+v", name, run.Error)
		}
		checkLog(t, b.log(name))
	}
}

// The approval of a call comes behind the wait, with the arguments that were computed before it.
func TestNodeWait_ComesBeforeApproval(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, refund, plugins.Workflow{Name: "flow", Nodes: []plugins.Node{
		{ID: "pay", Tool: "refund", Input: `{"euros": 7}`, Wait: plugins.NodeWait{For: 3 * time.Second}, Approval: true},
	}})
	s := b.startWorkflow("main", "flow", "go")
	if run := b.wait(s.RunID, runtime.Waiting); !run.Parked() {
		t.Error("it asks before it has waited")
	}
	for asked := false; !asked; <-tick() {
		open, err := b.Runs.Interrupts(t.Context(), local, s.RunID)
		must(t, err)
		asked = len(open) > 0
	}
	b.wait(s.RunID, runtime.Waiting)
	b.reply(s.RunID, always(`{"approved": true}`))
	b.wait(s.RunID, runtime.Completed)
	checkLog(t, b.log("main"))
}
