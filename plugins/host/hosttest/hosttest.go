// Package hosttest tests the contract of a plugins.Host: records, their places, the behavior on replay, and concurrency.
//
// It tests a host through its process, which runs a worker to its end, answers its questions, and crashes on demand.
package hosttest

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// Case is a worker and the events around it.
type Case struct {
	Agent       plugins.Agent    // its query is "go"
	Plugins     []plugins.Plugin // the tools and agents it can call
	ClientTools []agui.Tool      // tools that the client executes
	// Answer answers a question of a waiting run or a call of a client's tool, which has only a ToolCallID: there the
	// payload is the result.
	Answer func(q agui.Interrupt) plugins.Answer
	Next   []string // texts appended to the running run, each as a message
	Events []Event
	Said   func() // called once the texts are available to the worker's Next; optional
	// Crash makes the process die without notice whenever it receives. The run continues in a new process, which sees all
	// commits made before.
	Crash <-chan struct{}
}

// Event is sent to the run for its WaitFor.
type Event struct {
	Name    string
	Payload json.RawMessage
	After   time.Duration // the run's beginning
}

// Outcome is the result of a run.
type Outcome struct {
	Answer string       // the worker's
	Code   string       // of the *plugins.Error that the run failed with, or another description of the failure
	Events []agui.Event // of its log
	// Messages are the thread's visible messages, without interrupted and retracted ones.
	Messages []agui.Message
}

// Run tests a host. run executes a case in processes of that host until it ends.
func Run(t *testing.T, run func(t *testing.T, c Case) Outcome) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *suite)
	}{
		{"Records_ReplayAfterCrash", testRecords},
		{"Records_ReplayAfterAnswer", testAnswer},
		{"Wait_GoesOnWithRecords", testWaits},
		{"Wait_SurvivesCrash", testWaitDies},
		{"WaitFor_ReceivesOnce", testEvents},
		{"WaitFor_SurvivesCrash", testEventDies},
		{"Do_RepeatsAfterCrash", testDoDies},
		{"Do_DoesNotRecordFailure", testDoFails},
		{"Places_InsideDo", testInsideDo},
		{"Places_InsideSubAgent", testInsideAgents},
		{"Replay_RefusesOtherRequest", testMismatch},
		{"CallTool_IsNotRepeated", testBegun},
		{"CallTool_Asks", testToolAsks},
		{"CallTool_Keeps", testKeeps},
		{"CallTools_Places", testCallsAtOnce},
		{"CallTools_WaitForAll", testCallsWait},
		{"Branch_Places", testBranches},
		{"Branch_Messages", testNexts},
		{"Do_RunsConcurrently", testDosAtOnce},
		{"CallAgent_FailureDropsQuestions", testFailedAgent},
		{"CallTool_ProgressAndParts", testParts},
		{"Announce_CallsAreMade", testAnnounced},
		{"Announce_CallsSurviveCrash", testAnnouncedCrash},
		{"Announce_CrashInDoDropsCalls", testAnnouncedDies},
		{"Retract_DropsCalls", testRetracted},
		{"Retract_HidesRepeatedText", testTakenBack},
		{"Retract_CrashInDoHidesText", testTakenBackByCrash},
		{"AttachValue_BelongsToFirstMessage", testAttached},
		{"CallTool_FailuresAreResults", testInVain},
		{"CallTools_RefusedAreNotMade", testRefused},
		{"CallTool_RunsAgents", testAgentsAreTools},
		{"Spent_CountsAgents", testSpent},
		{"Emit_CrashEndsOpenScopes", testOwnScopes},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, &suite{t: t, run: run, crash: make(chan struct{})}) })
	}
}

// suite is one test of a host.
type suite struct {
	t     *testing.T
	run   func(t *testing.T, c Case) Outcome
	crash chan struct{}
}

// worker is an agent made of a function.
type worker struct {
	name string
	run  func(ctx context.Context, run *plugins.Run) (string, error)
}

func (w worker) Info() plugins.Info { return plugins.Info{Name: w.name} }

func (w worker) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	answer, err := w.run(ctx, run)
	return agui.WorkerOutput{Answer: answer}, err
}

// tool is a tool made of a function.
type tool struct {
	name       string
	idempotent bool
	call       func(ctx context.Context, call *plugins.Call) (string, error)
}

func (t tool) Info() plugins.Info {
	return plugins.Info{Name: t.name, Idempotent: t.idempotent, Description: "the tool " + t.name}
}

func (t tool) Call(ctx context.Context, call *plugins.Call) (agui.ToolOutput, error) {
	summary, err := t.call(ctx, call)
	return agui.ToolOutput{ResultSummary: summary}, err
}

// check runs a worker, and checks its answer and the log's order.
func (s *suite) check(want string, c Case, run func(ctx context.Context, run *plugins.Run) (string, error)) Outcome {
	s.t.Helper()
	c.Agent, c.Crash = worker{"worker", run}, s.crash
	if c.Answer == nil {
		c.Answer = func(q agui.Interrupt) plugins.Answer {
			s.t.Errorf("unexpected question %+v", q)
			return plugins.Answer{Cancelled: true}
		}
	}
	out := s.run(s.t, c)
	if out.Answer != want || out.Code != "" {
		s.t.Errorf("answer %q, failure %q, want %q", out.Answer, out.Code, want)
	}
	s.checkLog(out.Events)
	return out
}

// checkLog checks the invariants of a finished run's log.
func (s *suite) checkLog(events []agui.Event) {
	s.t.Helper()
	var v agui.Verifier
	for _, ev := range events {
		if err := v.Add(ev); err != nil {
			s.t.Errorf("the log is not in order: %v", err)
		}
	}
	if open := v.Unanswered(); len(open) > 0 {
		s.t.Errorf("the log leaves calls without a result: %q", open)
	}
}

// die ends the worker's process.
func (s *suite) die(ctx context.Context) error {
	select {
	case s.crash <- struct{}{}:
		<-ctx.Done()
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// yes answers every question with the text yes.
func yes(agui.Interrupt) plugins.Answer { return plugins.Answer{Payload: []byte(`"yes"`)} }

// say emits text as a CUSTOM event.
func say(run *plugins.Run, text string) error {
	return run.Emit(agui.Custom{Name: "said", Value: []byte(`"` + text + `"`)})
}

// said returns the texts in the order of the log.
func said(events []agui.Event) (texts []string) {
	for _, ev := range events {
		if e, ok := ev.(agui.Custom); ok && e.Name == "said" {
			texts = append(texts, string(e.Value))
		}
	}
	slices.Sort(texts)
	return texts
}
