// Package hosttest is the contract of a plugins.Host as one suite: what is recorded and where, what is done again and
// what is not when a worker is called again, and what runs at the same time.
//
// It tests a host through the process that has it: one that runs a worker to its end, answers what it asks, and dies
// when it is told to.
package hosttest

import (
	"context"
	"slices"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// Case is a worker, and what happens to its process.
type Case struct {
	Agent       plugins.Agent    // is asked "go"
	Plugins     []plugins.Plugin // the tools and agents it may call
	ClientTools []agui.Tool      // those that the client answers
	// Answer answers each question of a run that waits, and each call of a client's tool: of that it is given the
	// ToolCallID, and the payload is the result.
	Answer func(q agui.Interrupt) plugins.Answer
	Next   []string // is said to the run while it is at work, each as a message of its own
	Said   func()   // is called once all of that waits for the worker's Next, if anything
	// Crash makes the process die whenever something is received from it, without a word to anybody. The run goes on
	// in another one. What has been committed by then is there.
	Crash <-chan struct{}
}

// Outcome is how a run went.
type Outcome struct {
	Answer string       // the worker's
	Code   string       // of the *plugins.Error that the run failed with, or whatever else says why it failed
	Events []agui.Event // of its log
	// Messages are those that the thread shows, without what was cut short or taken back.
	Messages []agui.Message
}

// Run tests the host of the processes in which run executes a case until it ends.
func Run(t *testing.T, run func(t *testing.T, c Case) Outcome) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *suite)
	}{
		{"RecordsAreNotDoneAgain", testRecords},
		{"RecordsOutliveAnAnswer", testAnswer},
		{"DoThatDiesIsDoneAgain", testDoDies},
		{"FailedDoIsNotRecorded", testDoFails},
		{"UsesInsideADoStandApart", testInsideDo},
		{"UsesInsideASubAgentStandApart", testInsideAgents},
		{"AnotherRequestIsRefused", testMismatch},
		{"CallThatHasBegunIsNotMadeAgain", testBegun},
		{"CallsAtOnceHavePlaces", testCallsAtOnce},
		{"CallsAtOnceWaitForTheLast", testCallsWait},
		{"BranchesHavePlaces", testBranches},
		{"BranchesHaveTheirMessages", testNexts},
		{"DosAtOnce", testDosAtOnce},
		{"FailedSubAgentAsksNobody", testFailedAgent},
		{"ToolsReportAndReturnParts", testParts},
		{"AnnouncedCallsAreMade", testAnnounced},
		{"AnnouncedCallsOutliveACrash", testAnnouncedCrash},
		{"AnnouncedCallsOfADoThatDiesAreNotMade", testAnnouncedDies},
		{"RetractedCallsAreNotMade", testRetracted},
		{"WhatIsSaidAgainIsTakenBack", testTakenBack},
		{"WhatADoThatDiesHasSaidIsTakenBack", testTakenBackByCrash},
		{"CallsInVainAreResults", testInVain},
		{"AgentsAreTools", testAgentsAreTools},
		{"WhatAgentsSpendIsKnown", testSpent},
		{"WhatAWorkerOpenedIsEndedByACrash", testOwnScopes},
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

// check runs a worker and checks its answer, and that the log is in order.
func (s *suite) check(want string, c Case, run func(ctx context.Context, run *plugins.Run) (string, error)) Outcome {
	s.t.Helper()
	c.Agent, c.Crash = worker{"worker", run}, s.crash
	if c.Answer == nil {
		c.Answer = func(q agui.Interrupt) plugins.Answer {
			s.t.Errorf("nobody was to be asked %+v", q)
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

// checkLog checks what holds of the log of every run that has ended.
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

// die ends the process that the worker runs in.
func (s *suite) die(ctx context.Context) error {
	select {
	case s.crash <- struct{}{}:
		<-ctx.Done()
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// yes answers everything with a text.
func yes(agui.Interrupt) plugins.Answer { return plugins.Answer{Payload: []byte(`"yes"`)} }

// say writes one message.
func say(run *plugins.Run, text string) error {
	return run.Emit(agui.Custom{Name: "said", Value: []byte(`"` + text + `"`)})
}

// said is what was said, in the order of the log.
func said(events []agui.Event) (texts []string) {
	for _, ev := range events {
		if e, ok := ev.(agui.Custom); ok && e.Name == "said" {
			texts = append(texts, string(e.Value))
		}
	}
	slices.Sort(texts)
	return texts
}
