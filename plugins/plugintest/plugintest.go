// Package plugintest runs an agent without a server, for its author's tests. Like a server it checks the order of events,
// calls tools and sub-agents, ends a span to wait for an answer, and can crash and replay the worker with the records made
// so far.
//
// It is neither a sandbox nor a server: it has no database, does not validate arguments against schemas, applies only the
// tools' own timeouts, and requires no approvals. Otherwise it behaves as hosttest specifies.
package plugintest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// Config is a worker's environment. The zero Config is a run without input.
type Config struct {
	// Input is the worker's input. Query or Messages alone is enough; ids, Node and Execution have defaults.
	Input plugins.Input
	// Messages are those of the thread, default one with the Query.
	Messages []agui.Message

	Tools  []plugins.Tool  // for CallTool; calls of tools in Input.Tools get their results from Answers
	Agents []plugins.Agent // for CallAgent

	// Answers are used for the questions in order; those of one span get theirs together. For a call of a tool in
	// Input.Tools the payload is the result.
	Answers []plugins.Answer
	// Answer, if not nil, answers each question instead. For a call of a tool in Input.Tools the interrupt has the
	// ToolCallID and the Reason tool_call.
	Answer func(q agui.Interrupt) plugins.Answer
	// Attachments are the files that the worker can open, by path.
	Attachments map[string]Attachment
	// Remembered has the texts that the agent has remembered in earlier runs of the thread, by key.
	Remembered map[string]string
	// Next has the results of the calls of Next, messages of the role user; later calls return nothing.
	Next [][]agui.Message

	// Events are sent to the run for its WaitFor.
	Events []Event

	// CrashAfter crashes once, right after that many records were made, and replays the worker. 0 means never.
	CrashAfter int
	// CrashBefore crashes once, right before that record is stored: its work is done, but the replayed worker sees neither
	// the record nor the event stored with it. 0 means never.
	CrashBefore int
	// Crash makes the process die whenever it receives. nil means never.
	Crash <-chan struct{}

	again bool // repeat interrupted calls even if their tool is not Idempotent
}

// Event is an event from outside.
type Event struct {
	Name    string
	Payload json.RawMessage
	After   time.Duration // when it comes, from the run's beginning on: a wait moves the run's clock
}

// Attachment is a file that a message refers to.
type Attachment struct {
	Filename, MimeType string
	Data               []byte
}

// Result is the result of a run.
type Result struct {
	Output    agui.WorkerOutput
	Err       error            // the worker's error; ErrWaiting if the Answers did not suffice
	Events    []agui.Event     // from RUN_STARTED to the terminal event, for each span
	Questions []agui.Interrupt // all questions, answered or not
	Records   int              // number of records of Do, CallTool, CallAgent, Ask, Next and Usage
	Usage     []agui.TokenUsage

	Remembered map[string]string // for later runs: Config.Remembered, with the worker's additions

	messages    []agui.Message
	state       json.RawMessage
	interrupted map[string]bool // ids of messages and calls that a crash interrupted
	once        []agui.TokenUsage
}

// Execute runs a until it ends or waits for an answer that cfg does not have. Its error reports illegal events; the worker's
// own error is in the Result, which is never nil.
func Execute(ctx context.Context, a plugins.Agent, cfg Config) (*Result, error) {
	s := newSession(a, cfg)
	return s.run(ctx)
}

// Run is Execute for tests: illegal events fail tb at once.
func Run(tb testing.TB, a plugins.Agent, cfg Config) *Result {
	tb.Helper()
	res, err := Execute(tb.Context(), a, cfg)
	if err != nil {
		tb.Fatalf("%s: %v\n%s", a.Info().Name, err, res.Log())
	}
	return res
}

// Replay fails tb unless a is safe to replay. It runs a once, and then twice for each record, crashing right before and
// right after the record is stored. Each run must produce the same output, state and messages, apart from ids and
// interrupted messages. The worker must be deterministic and keep no data of a run in a. Interrupted calls are repeated
// even if their Tool is not Idempotent: test the handling of an interrupted call with CrashBefore. A worker that reads the clock inside a Do
// needs the same clock in each run: call Replay in a bubble of testing/synctest, where time passes only while everything waits.
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
				tb.Errorf("%s: a crash %s record %d changes %s\nIt leaves\n%s\nwithout it\n%s", a.Info().Name, when, n+1, firstDifference(got, want), got, want)
				return
			}
		}
	}
}

// firstDifference returns the first line in which two summaries differ.
func firstDifference(got, want string) string {
	is, should := strings.Split(got, "\n"), strings.Split(want, "\n")
	at := 0
	for at < len(is) && at < len(should) && is[at] == should[at] {
		at++
	}
	line := func(of []string) string {
		if at < len(of) {
			return strconv.Quote(of[at])
		}
		return "nothing"
	}
	return fmt.Sprintf("line %d from %s to %s", at+1, line(should), line(is))
}

// Messages returns the thread's messages after the run, beginning with those of the input.
func (r *Result) Messages() []agui.Message { return r.messages }

// State returns the thread's state after the run, an object.
func (r *Result) State() json.RawMessage { return r.state }

// Text returns the texts of the assistant's messages, separated by line breaks.
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

// summary is the visible result of the run without ids. Results are next to their calls, because the results of
// concurrent calls come in any order.
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
	_ = enc.Encode(r.once) // usage inside an interrupted Do is counted again
	_ = enc.Encode(r.state)
	if r.Err != nil {
		b.WriteString(r.Err.Error())
	}
	return b.String()
}
