// Package plugintest runs an agent without a server, for the tests of its author. It keeps the events
// in order as a server does and refuses an illegal one, calls tools and sub-agents, ends a span to wait
// for an answer, and can die in the middle and call the worker again with the records made so far.
//
// It is no sandbox and no server: it has no database, checks no arguments against a schema, applies only
// the timeouts that tools ask for, and asks nobody to approve a call. In all that hosttest proves it is like one.
package plugintest

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// Config says what a worker runs with. The zero Config is a run without input.
type Config struct {
	// Input is what the worker is asked. Query alone is enough, as is Messages; ids, Node and Execution
	// are filled in.
	Input plugins.Input

	Tools  []plugins.Tool  // what CallTool finds; the tools in Input.Tools are answered from Answers
	Agents []plugins.Agent // what CallAgent finds

	// Answers are given to the questions in the order they were asked, those asked in one span together.
	// To a call of a tool in Input.Tools the payload is its result.
	Answers []plugins.Answer
	// Answer, when it is not nil, answers each question instead. Of a call of a tool in Input.Tools it is given the
	// ToolCallID and the Reason tool_call.
	Answer func(q agui.Interrupt) plugins.Answer
	// Attachments are what the worker can open, by their paths.
	Attachments map[string]Attachment
	// Next is what each call of Next takes, messages of role user; later calls take nothing.
	Next [][]agui.Message

	// CrashAfter makes the process die, once, right after that many records were made, and calls the
	// worker again. 0 means never.
	CrashAfter int
	// CrashBefore makes it die, once, right before that record is stored: its work is done, and neither the record
	// nor the event that is stored with it is there when the worker is called again. 0 means never.
	CrashBefore int
	// Crash makes it die whenever something is received from it. nil means never.
	Crash <-chan struct{}

	again bool // calls that a crash cut short are made again, whatever their tool is
}

// Attachment is a file that a message refers to.
type Attachment struct {
	Filename, MimeType string
	Data               []byte
}

// Result is how a run went.
type Result struct {
	Output    agui.WorkerOutput
	Err       error            // what the worker ended with; ErrWaiting when the Answers did not suffice
	Events    []agui.Event     // from RUN_STARTED to the terminal event, for each span
	Questions []agui.Interrupt // what was asked, answered or not
	Records   int              // how many were made: of Do, CallTool, CallAgent, Ask, Next and Usage
	Usage     []agui.TokenUsage

	messages    []agui.Message
	state       json.RawMessage
	interrupted map[string]bool // ids of messages, and of calls, that a crash cut short
	once        []agui.TokenUsage
}

// Execute runs a until it ends or waits for an answer that cfg does not have. Its error says what was
// wrong with the events; how the worker ended is in the Result, which is never nil.
func Execute(ctx context.Context, a plugins.Agent, cfg Config) (*Result, error) {
	s := newSession(a, cfg)
	return s.run(ctx)
}

// Run is Execute for tests: it fails tb at once when an event was illegal.
func Run(tb testing.TB, a plugins.Agent, cfg Config) *Result {
	tb.Helper()
	res, err := Execute(tb.Context(), a, cfg)
	if err != nil {
		tb.Fatalf("%s: %v\n%s", a.Info().Name, err, res.Log())
	}
	return res
}

// Replay fails tb unless a is safe to call again: it runs a once, and then twice for each record, dying
// right before and right after that record is stored. Each of these runs must come to the same output,
// state and messages, apart from ids and from messages the crash cut short. The worker must be
// deterministic, and keep nothing in a from one run for the next. A call that the crash cuts short is made
// again, also when its Tool is not Idempotent: CrashBefore tests what a worker makes of an interrupted one.
func Replay(tb testing.TB, a plugins.Agent, cfg Config) {
	tb.Helper()
	cfg.CrashBefore, cfg.CrashAfter, cfg.again = 0, 0, true
	want := Run(tb, a, cfg)
	for n := range want.Records {
		before, after := cfg, cfg
		before.CrashBefore, after.CrashAfter = n+1, n+1
		for when, cfg := range map[string]Config{"before": before, "after": after} {
			got := Run(tb, a, cfg)
			if got, want := got.summary(), want.summary(); got != want {
				tb.Errorf("%s: a crash %s record %d leaves\n%s\nwithout it\n%s", a.Info().Name, when, n+1, got, want)
				return
			}
		}
	}
}

// Messages returns the thread's messages after the run, those of the input first.
func (r *Result) Messages() []agui.Message { return r.messages }

// State returns the thread's state after the run, an object.
func (r *Result) State() json.RawMessage { return r.state }

// Text returns the texts of the assistant's messages, a line break between them.
func (r *Result) Text() string {
	var texts []string
	for _, m := range r.messages {
		if m.Role == agui.RoleAssistant && m.Content != "" {
			texts = append(texts, m.Content)
		}
	}
	return strings.Join(texts, "\n")
}

// Log returns the events as JSON, one on each line.
func (r *Result) Log() string {
	var log []byte
	for _, ev := range r.Events {
		log = append(ev.AppendJSON(log, agui.Stored), '\n')
	}
	return string(log)
}

// summary is what a reader of the run is left with, without ids. A result stands with its call: those of calls
// that are made at once come in any order.
func (r *Result) summary() string {
	results := map[string]string{}
	for _, m := range r.messages {
		if m.Role == agui.RoleTool {
			results[m.ToolCallID] = m.Text()
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, m := range r.messages {
		calls := slices.DeleteFunc(slices.Clone(m.ToolCalls), func(c agui.ToolCall) bool { return r.interrupted[c.ID] })
		cut := r.interrupted[m.ID] || len(m.ToolCalls) > 0
		if cut && len(calls) == 0 || m.Role == agui.RoleTool {
			continue
		}
		for i := range calls {
			calls[i].ID = results[calls[i].ID]
		}
		_ = enc.Encode([]any{m.Role, m.Text(), calls})
	}
	_ = enc.Encode(r.Output)
	_ = enc.Encode(r.once) // what a Do has counted that dies is counted again
	_ = enc.Encode(r.state)
	if r.Err != nil {
		b.WriteString(r.Err.Error())
	}
	return b.String()
}
