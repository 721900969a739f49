package span_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/span"
)

// log is a span that has begun, with the item that its events are added to.
type log struct {
	*span.Span
	run      data.Run
	it       commit.Item
	exceeded error
}

// open begins the span of a run with a state and bounds, those that are missing being large, in a memory that is full or not.
func open(t *testing.T, state string, full bool, b span.Bounds) *log {
	t.Helper()
	l, th := new(log), new(data.Thread)
	th.Key, th.ID, th.State = 3, "thread", json.RawMessage(state)
	l.run.Key, l.run.ID, l.run.ThreadKey, l.run.Generation, l.run.WorkflowID = 7, "run", 3, 1, "agent"
	l.Span = span.Next(64<<10, th, &l.run, 0, 0)
	if err := l.Started(&l.it, &l.run, []data.Message{{Message: agui.Message{ID: "asked", Role: agui.RoleUser, Content: "go"}}}, nil, ""); err != nil {
		t.Fatal(err)
	}
	l.Began.UpTo = l.Row.First
	b.Event, b.State, b.Messages = max(b.Event, 1<<10), max(b.State, 1<<10), cmp.Or(b.Messages, 64<<10)
	b.Grow, b.Exceeded = func(int) bool { return !full }, func(err error) { l.exceeded = err }
	l.Bounds = b
	return l
}

func worker(t *testing.T, parent *span.Worker) *span.Worker {
	return &span.Worker{Ctx: t.Context(), Step: 1, Agent: "agent", Parent: parent}
}

// emit emits events of a worker and stops at the first that is refused.
func (l *log) emit(w *span.Worker, evs ...agui.Event) error {
	for _, ev := range evs {
		if _, err := l.Emit(&l.it, w, ev, false); err != nil {
			return err
		}
	}
	return nil
}

func text(id, delta string) []agui.Event {
	return []agui.Event{agui.TextMessageStart{MessageID: id, Role: agui.RoleAssistant}, agui.TextMessageContent{MessageID: id, Delta: delta}, agui.TextMessageEnd{MessageID: id}}
}

// refused returns the code and the message of an error, "" for nil.
func refused(err error) string {
	if e, ok := errors.AsType[*plugins.Error](err); ok {
		return e.Code + ": " + e.Message
	}
	return fmt.Sprint(err)
}

func want(t *testing.T, what string, err error, fragment string) {
	t.Helper()
	if fragment == "" && err != nil || fragment != "" && !strings.Contains(refused(err), fragment) {
		t.Errorf("%s: %s, want %q", what, refused(err), fragment)
	}
}

// An event with several faults is refused for the first one, and leaves nothing in the log.
func TestSpan_RefusesForTheFirstReason(t *testing.T) {
	t.Parallel()
	l := open(t, `{}`, false, span.Bounds{})
	w, other := worker(t, nil), worker(t, nil)
	long := strings.Repeat("x", 5<<10)
	want(t, "the first text", l.emit(other, text("theirs", "x")[:1]...), "")
	last, records := l.Last(), len(l.it.Records)
	for _, test := range []struct {
		ev   agui.Event
		want string
	}{
		{agui.RunFinished{Result: json.RawMessage(`"` + long + `"`)}, "illegal_event: A worker may not emit RUN_FINISHED"},
		{agui.StateSnapshot{Snapshot: json.RawMessage(`{"x":"` + long + `"}`)}, "state_too_large"},
		{agui.StateDelta{Delta: json.RawMessage(`[{"op":"copy","from":"/none","path":"/x"}]`)}, "illegal_event"},
		{agui.TextMessageContent{MessageID: "theirs", Delta: long}, "event_too_large"},
		{agui.TextMessageContent{MessageID: "theirs", Delta: "x"}, "the agent has not opened the text theirs"},
		{agui.TextMessageContent{MessageID: "none", Delta: "x"}, "the agent has not opened the text none"},
		{agui.TextMessageStart{MessageID: "theirs", Role: agui.RoleAssistant}, "illegal_event: TEXT_MESSAGE_START"},
	} {
		want(t, string(test.ev.Type()), l.emit(w, test.ev), test.want)
	}
	if l.Last() != last || len(l.it.Records) != records || l.Exceeded() {
		t.Errorf("refused events are in the log: %d events after %d", l.Last(), last)
	}
}

// A bound that is exceeded refuses all later events and fails the run. A retraction may exceed the number of events.
func TestSpan_ExceededBoundsRefuseAllLaterEvents(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		bounds span.Bounds
		full   bool // the memory
		want   string
	}{
		{span.Bounds{Events: 4}, false, "too_many_events"},
		{span.Bounds{Event: 8 << 10, Messages: 4 << 10}, false, "messages_too_large"},
		{span.Bounds{}, true, "overloaded"},
	} {
		t.Run(test.want, func(t *testing.T) {
			t.Parallel()
			l := open(t, `{}`, test.full, test.bounds)
			w := worker(t, nil)
			err := l.emit(w, append(text("m", "x"), text("n", strings.Repeat("x", 5<<10))...)...)
			want(t, "the event", err, test.want)
			want(t, "a later one", l.emit(w, agui.Custom{Name: "small", Value: json.RawMessage("1")}), test.want)
			if !l.Exceeded() || refused(l.exceeded) != refused(err) {
				t.Errorf("the run is told %v", l.exceeded)
			}
			want(t, "an event of the engine", l.Stage(&l.it, agui.StateSnapshot{Snapshot: json.RawMessage("{}")}), "")
		})
	}
	l := open(t, `{}`, false, span.Bounds{Events: 4})
	w := worker(t, nil)
	want(t, "a text and its retraction", l.emit(w, append(text("m", "x"), agui.Retracted([]string{"m"}))...), "")
	if hide, ok := l.it.Rows[len(l.it.Rows)-1].(*data.Hide); !ok || hide.ID != "m" {
		t.Errorf("the retraction is stored with %v", l.it.Rows)
	}
}

// The size of a state counts as it is after a change. One that shrinks passes although it is too large: the limit may have been lowered.
func TestSpan_StatesAreBound(t *testing.T) {
	t.Parallel()
	state := func(n int) json.RawMessage { return json.RawMessage(`{"a":"` + strings.Repeat("x", n) + `"}`) }
	for what, test := range map[string]struct {
		now  json.RawMessage
		ev   agui.Event
		want string
	}{
		"another as large":    {state(600), agui.StateDelta{Delta: json.RawMessage(`[{"op":"replace","path":"/a","value":"` + strings.Repeat("y", 600) + `"}]`)}, ""},
		"a removal":           {state(1000), agui.StateDelta{Delta: json.RawMessage(`[{"op":"remove","path":"/a"}]`)}, ""},
		"copies":              {state(400), agui.StateDelta{Delta: json.RawMessage(`[{"op":"copy","from":"/a","path":"/b"},{"op":"c\u006fpy","from":"/a","path":"/c"}]`)}, "state_too_large"},
		"names that grow":     {json.RawMessage(`{"` + strings.Repeat(`\b`, 300) + `":1}`), agui.StateDelta{Delta: json.RawMessage(`[{"op":"add","path":"/a","value":1}]`)}, "state_too_large"},
		"a large one":         {state(400), agui.StateSnapshot{Snapshot: state(1100)}, "state_too_large"},
		"one that shrinks":    {state(2000), agui.StateSnapshot{Snapshot: state(1900)}, ""},
		"one that grows more": {state(2000), agui.StateSnapshot{Snapshot: state(2100)}, "state_too_large"},
	} {
		l := open(t, string(test.now), false, span.Bounds{Event: 8 << 10})
		want(t, what, l.emit(worker(t, nil), test.ev), test.want)
	}
}

func TestSpan_ClosesToWorkers(t *testing.T) {
	t.Parallel()
	l := open(t, `{}`, false, span.Bounds{})
	late, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("late"))
	ended, timedOut, live := worker(t, nil), worker(t, nil), worker(t, nil)
	ended.Ended, timedOut.Ctx = true, late
	want(t, "a live worker", l.Closed(live), "")
	want(t, "an ended one", l.Closed(ended), plugins.ErrEnded.Error())
	want(t, "one whose time is over", l.Closed(timedOut), "late")
	if !l.Shut(plugins.ErrCancelled) || l.Shut(plugins.ErrStopping) {
		t.Error("the first cause does not count")
	}
	for _, w := range []*span.Worker{live, ended, timedOut} {
		want(t, "after the end of the run", l.Closed(w), plugins.ErrCancelled.Error())
	}
	want(t, "the engine's events", l.Stage(&l.it, agui.StateSnapshot{Snapshot: json.RawMessage("{}")}), "")
}

// A worker continues the entities that it, or a worker that works for it, has opened. One text is open at a time, but a worker may wait for its own.
func TestSpan_WorkersOwnWhatTheyOpen(t *testing.T) {
	t.Parallel()
	l := open(t, `{}`, false, span.Bounds{})
	parent, sibling := worker(t, nil), worker(t, nil)
	child := worker(t, parent)
	want(t, "a text of the child", l.emit(child, text("m", "x")[:2]...), "")
	if l.MayOpenText(sibling) || l.MayOpenText(parent) || !l.MayOpenText(child) || !l.MayOpenText(worker(t, child)) {
		t.Error("others may open a text beside the child's")
	}
	want(t, "the sibling's end of it", l.emit(sibling, agui.TextMessageEnd{MessageID: "m"}), "not opened")
	want(t, "the parent's", l.emit(parent, agui.TextMessageEnd{MessageID: "m"}), "")
	if !l.MayOpenText(sibling) {
		t.Error("a text that has ended is in the way")
	}
	want(t, "a call", l.emit(parent, agui.ToolCallStart{ToolCallID: "c", ToolCallName: "tool"}, agui.ToolCallEnd{ToolCallID: "c"}), "")
	if l.Fold.Arguments("c") != "{}" || l.Tool("c") != "tool" || !l.Owns(parent, agui.ToolCallEnd{ToolCallID: "c"}) || l.Owns(child, agui.ToolCallEnd{ToolCallID: "c"}) {
		t.Errorf("the call has the arguments %q and the tool %q", l.Fold.Arguments("c"), l.Tool("c"))
	}
	result := l.OfItsCall(agui.ToolCallResult{MessageID: "r", ToolCallID: "c", Output: &agui.ToolOutput{ToolName: "other", Status: agui.StatusSuccess}})
	want(t, "its result of the sibling", l.emit(sibling, result), "not opened")
	if _, err := l.Emit(&l.it, sibling, result, true); err != nil || l.Tool("c") != "" {
		t.Errorf("the answer of a worker that the call was left to: %v", err)
	}
	if out := result.(agui.ToolCallResult).Output; out.ToolName != "tool" || string(out.ToolCallArgs) != "{}" {
		t.Errorf("the result is of %s %s", out.ToolName, out.ToolCallArgs)
	}
}

func TestSpan_RefusesIDsOfOthers(t *testing.T) {
	t.Parallel()
	l := open(t, `{}`, false, span.Bounds{})
	want(t, "a text", l.emit(worker(t, nil), text("m", "x")...), "")
	minted := func(id string) bool { return id == "minted" }
	for _, test := range []struct {
		ev      agui.Event
		unknown string
		want    string
	}{
		{agui.TextMessageStart{MessageID: "m", Role: agui.RoleAssistant}, "", ""},
		{agui.TextMessageStart{MessageID: "minted", Role: agui.RoleAssistant}, "", ""},
		{agui.TextMessageStart{MessageID: "new", Role: agui.RoleAssistant}, "new", ""},
		{agui.TextMessageStart{MessageID: "asked", Role: agui.RoleAssistant}, "", "used the id"},
		{agui.ReasoningMessageStart{MessageID: "m"}, "", "used the id"},
		{agui.ToolCallResult{MessageID: "m", ToolCallID: "c"}, "", "used the id"},
		{agui.ToolCallStart{ToolCallID: "call", ParentMessageID: "m"}, "call", ""},
		{agui.TextMessageContent{MessageID: "anything"}, "", ""},
	} {
		ids, err := l.Foreign(test.ev, minted)
		want(t, fmt.Sprintf("%+v", test.ev), err, test.want)
		if got := strings.Join(ids, " "); got != test.unknown {
			t.Errorf("%+v: %q is looked up, want %q", test.ev, got, test.unknown)
		}
	}
	found := []data.MessageHead{{ID: "m"}, {ID: "theirs", ToolCallID: "call"}}
	want(t, "what another worker of the run has begun meanwhile", l.Taken([]string{"m"}, found[:1]), "")
	want(t, "a call of an earlier run", l.Taken([]string{"call"}, found), `the id "call"`)
}

// reader has the rows of a log.
type reader struct {
	data.Reader
	events []data.StoredEvent
}

func (r *reader) Events(_ context.Context, _, after int64, _ int) (list []data.StoredEvent, err error) {
	i := slices.IndexFunc(r.events, func(e data.StoredEvent) bool { return e.ID > after })
	if i >= 0 {
		list = r.events[i:]
	}
	return list, nil
}

func (r *reader) MessagesByID(context.Context, int64, []string) ([]data.Message, error) {
	return nil, nil
}
func (r *reader) LastSeq(context.Context, int64) (int64, error) { return 0, nil }

// Messages are numbered as they begin, and a reader of the log numbers them like its writer. A text that was cut short is hidden, and
// retracted once.
func TestSpan_ReplayContinuesTheWriter(t *testing.T) {
	t.Parallel()
	l := open(t, `{"n":1}`, false, span.Bounds{})
	w := worker(t, nil)
	cut := agui.TextMessageEnd{MessageID: "cut", Output: &agui.WorkerOutput{
		Status: agui.StatusFailed, Error: &agui.OutputError{Code: span.CodeInterrupted, Message: "cut"},
	}}
	want(t, "the events", l.emit(w, slices.Concat(
		[]agui.Event{agui.ReasoningStart{MessageID: "why"}, agui.ReasoningMessageStart{MessageID: "thought"}}, text("m", "x"),
		[]agui.Event{agui.ToolCallStart{ToolCallID: "c", ToolCallName: "tool", ParentMessageID: "m"}, agui.ToolCallEnd{ToolCallID: "c"}},
		text("cut", "y")[:2], []agui.Event{cut, agui.StateDelta{Delta: json.RawMessage(`[{"op":"add","path":"/n","value":2}]`)}},
	)...), "")
	i := slices.IndexFunc(l.it.Rows, func(row data.Row) bool { m, ok := row.(*data.Message); return ok && m.ID == "cut" })
	if i < 0 || l.it.Rows[i].(*data.Message).State != data.MessageHidden {
		t.Error("the text that was cut short is shown")
	}
	again := span.Open(64<<10, l.Thread, &l.Row, 0, 0)
	if err := again.Replay(t.Context(), &reader{events: l.it.Events}, func(begun, _ map[string]bool) []string { return nil }); err != nil {
		t.Fatal(err)
	}
	for n, id := range []string{"asked", "thought", "m", "cut"} {
		if l.Messages.SeqOf(id) != int64(n+1) || again.Messages.SeqOf(id) != l.Messages.SeqOf(id) {
			t.Errorf("%s has the numbers %d and %d", id, l.Messages.SeqOf(id), again.Messages.SeqOf(id))
		}
	}
	if again.Last() != l.Last() || string(again.State()) != string(l.State()) || fmt.Sprint(again.Ver.Closers()) != fmt.Sprint(l.Ver.Closers()) || again.Tool("c") != "tool" {
		t.Errorf("the reader is at %d with %s, the writer at %d with %s", again.Last(), again.State(), l.Last(), l.State())
	}
	last := l.Last()
	for range 2 {
		want(t, "the retraction", l.RetractCut(&l.it), "")
	}
	if l.Last() != last+1 {
		t.Errorf("%d events retract the text", l.Last()-last)
	}
	fork := l.Fork()
	want(t, "an event of a fork", fork.Stage(new(commit.Item), agui.RunFinished{Outcome: agui.Outcome{Type: agui.OutcomeSuccess}}), "")
	if fork.Last() != l.Last()+1 {
		t.Errorf("a fork at %d ends at %d", l.Last(), fork.Last())
	}
}
