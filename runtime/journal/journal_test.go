package journal_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/journal"
)

// with returns a journal of records.
func with(records ...data.Memo) *journal.Journal {
	j := journal.New()
	j.Load(records)
	return j
}

func places(records []data.Memo) string {
	var list []string
	for i := range records {
		list = append(list, records[i].Place)
	}
	return strings.Join(list, " ")
}

// A replayed worker gets its record, and must make the request that has it.
func TestJournal_MemoIsTheRecordOfAPlace(t *testing.T) {
	t.Parallel()
	run := new(data.Run)
	run.Key, run.Generation = 7, 2
	j, u := journal.New(), plugins.Use{Place: "tool:a#1", Request: []byte(`{"n":1}`)}
	m, err := j.Memo(run, 3, u, 10)
	if want := (data.Memo{RunKey: 7, Generation: 2, Step: 3, Place: u.Place, Hash: u.Hash()}); err != nil || fmt.Sprint(*m) != fmt.Sprint(want) {
		t.Fatalf("a new record is %+v, %v", m, err)
	}
	m.Done, m.Output = true, []byte(`"a long output"`)
	j.Add(m)
	again, err := j.Memo(run, 3, u, 10)
	if err != nil || again == m || fmt.Sprint(*again) != fmt.Sprint(*m) {
		t.Errorf("a replayed worker gets %+v, %v", again, err)
	}
	u.Request = []byte(`{"n":2}`)
	if _, err := j.Memo(run, 3, u, 10); err == nil || !strings.Contains(err.Error(), "another request") {
		t.Errorf("another request gets the record: %v", err)
	}
	if _, err := j.Memo(run, 4, u, 10); err == nil || !strings.Contains(err.Error(), "of 10 bytes") {
		t.Errorf("a full journal takes more: %v", err)
	}
}

// An approver's edit replaces a guard's edit. Neither counts before the call has begun.
func TestJournal_EditedArguments(t *testing.T) {
	t.Parallel()
	u := plugins.Use{Place: "tool:a#1"}
	answer := func(payload string) data.Memo {
		return data.Memo{Place: u.Inside(journal.ApprovalPlace), Done: true, Output: data.MustJSON(plugins.Answer{Payload: []byte(payload)})}
	}
	guarded := data.Memo{Place: u.Inside(journal.EditedPlace), Done: true, Output: []byte(`{"by":"guard"}`)}
	for _, test := range []struct {
		begun   bool
		records []data.Memo
		want    string
	}{
		{true, nil, ""},
		{true, []data.Memo{answer(`{"approved":true}`)}, ""},
		{true, []data.Memo{guarded, answer(`{"approved":true}`)}, `{"by":"guard"}`},
		{true, []data.Memo{guarded, answer(`{"approved":true,"editedArgs":{"by":"person"}}`)}, `{"by":"person"}`},
		{true, []data.Memo{guarded, answer(`{"approved":false,"editedArgs":{"by":"person"}}`)}, `{"by":"guard"}`},
		{false, []data.Memo{guarded}, ""},
	} {
		j := with(append(test.records, data.Memo{Place: u.Place, CallID: "c", Tool: "a", Begun: test.begun})...)
		if got := string(j.Edited("c")); got != test.want {
			t.Errorf("begun %v with %s: %s, want %s", test.begun, places(test.records), got, test.want)
		}
	}
}

// The result of a call that a Do has left open completes the call's record. Calls with a request get their results from CallTool.
func TestJournal_ResultsOfCallsThatAWorkerAnswers(t *testing.T) {
	t.Parallel()
	j := with(
		data.Memo{Step: 1, Place: "do:a#1/tool:b#1", CallID: "left", Tool: "b"}, data.Memo{Step: 1, Place: "tool:b#1", CallID: "made", Tool: "b", Hash: "h"},
		data.Memo{Step: 1, Place: "agent:c#1", CallID: "agent", Agent: "c"},
	)
	for _, test := range []struct {
		step       int
		within, id string
		want       bool
	}{{1, "", "left", true}, {1, "do:a#1/", "left", true}, {1, "do:z#1/", "left", false}, {2, "", "left", false}, {1, "", "made", false}, {1, "", "agent", false}} {
		if got := j.LeftBy(test.step, test.within, test.id); got != test.want {
			t.Errorf("step %d, within %q: %s is left: %v", test.step, test.within, test.id, got)
		}
	}
	result := &agui.ToolCallResult{Output: &agui.ToolOutput{ToolCallID: "left"}}
	if m, _ := j.Complete("left", result, 9).(*data.Memo); m == nil || !m.Done || m.Event != 9 || j.Call("left") != nil {
		t.Errorf("the completed record is %+v", m)
	}
	if row := j.Complete("agent", result, 9); row != nil {
		t.Errorf("a sub-agent gets a call's result: %+v", row)
	}
	owed := j.Owed(map[string]bool{"made": true}, map[string]bool{"left": true})
	if !slices.Equal(owed, []string{"left"}) {
		t.Errorf("an earlier span's calls are %v", owed)
	}
}

// A replayed worker repeats a cancelled question, and gets the answer to an answered one.
func TestJournal_Questions(t *testing.T) {
	t.Parallel()
	j := with(data.Memo{Step: 1, Place: "sub/ask:a#1", CallID: "a"}, data.Memo{Step: 1, Place: "ask:b#1", CallID: "b", Done: true, Output: []byte("{}")})
	for _, in := range []data.Interrupt{{ID: "a", Step: 1, Place: "sub/ask:a#1"}, {ID: "b", Step: 1, Place: "ask:b#1", Frontend: true}} {
		j.Add(&in)
		j.Reopen(&in)
	}
	if !j.AsksClient("b") || j.AsksClient("a") || j.Find(1, "ask:b#1").Done {
		t.Error("the answered question is not open again")
	}
	rows := j.CancelQuestions(1, "sub/")
	if len(rows) != 2 || rows[0].(*data.Interrupt).Status != data.InterruptCancelled || rows[1].(*data.Memo).CallID != "" || len(j.CancelQuestions(2, "")) > 0 {
		t.Errorf("the sub-agent's question is cancelled with %v", rows)
	}
	for n := range agui.MaxOpen - 1 { // beside the client's
		if err := j.MayAsk(); err != nil {
			t.Fatal(err)
		}
		j.Add(&data.Interrupt{ID: fmt.Sprint(n)})
	}
	if j.MayAsk() == nil {
		t.Error("a run asks without end")
	}
}

// A step that is resumed at an event makes the calls again that had no result by then: nothing about them is a record any more.
func TestBefore_LeavesOutCallsThatAreMadeAgain(t *testing.T) {
	t.Parallel()
	done, open := plugins.Use{Place: "tool:a#1"}, plugins.Use{Place: "tool:a#2"}
	all := []data.Memo{{Step: 1, Place: "do:x#1", Done: true, Event: 4}, {Step: 1, Place: "do:y#1", Done: true, Event: 9}, {Step: 2, Place: "do:x#1", Done: true, Event: 4}}
	for _, u := range []plugins.Use{done, open} {
		all = append(all, data.Memo{Step: 1, Place: u.Place, CallID: u.Place, Tool: "a", Done: u.Place == done.Place, Event: 5})
		for _, name := range []string{journal.ApprovalPlace, journal.EditedPlace, journal.KeptPlace, "ask:k", "do:z"} {
			all = append(all, data.Memo{Step: 1, Place: u.Inside(name), Done: true, Event: 5})
		}
	}
	want := "do:x#1 tool:a#1 tool:a#1/approval tool:a#1/edited tool:a#1/kept tool:a#1/ask:k tool:a#1/do:z tool:a#2/do:z"
	if got := places(journal.Before(all, 1, 9)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Usage is counted by place, and the end of the run names the latest call that has ended its answer.
func TestJournal_ModelCalls(t *testing.T) {
	t.Parallel()
	at := time.Unix(100, 0)
	record := func(place, model, reason string, after time.Duration) data.Memo {
		return data.Memo{Step: 1, Place: place, Done: true, Output: data.MustJSON(journal.Spent{
			TokenUsage: agui.TokenUsage{Model: model, InputTokens: 5}, FinishReason: reason, At: at.Add(after),
		})}
	}
	j := with(record("do:a#1/usage#1", "last", "stop", 2), record("usage#1", "first", "stop", 1), record("usage#2", "none", "", 3))
	if got := j.Spent(1, plugins.Use{Place: "do:a#1"}); len(got) != 1 || got[0].Model != "last" {
		t.Errorf("the Do has used %+v", got)
	}
	meta := j.FinishMetadata([]agui.TokenUsage{{InputTokens: 5}, {InputTokens: 6}})
	if !strings.Contains(string(meta), `"last"`) || !strings.Contains(string(meta), "11") || journal.New().FinishMetadata(nil) != nil {
		t.Errorf("the end has %s", meta)
	}
}

// The innermost Do owns a message; among Dos that run side by side none does. After a crash, the messages of the Dos that were cut short
// are known.
func TestDoings_NameTheMessagesOfTheInnermost(t *testing.T) {
	t.Parallel()
	begun := func(string) bool { return false }
	outer := &journal.Doing{Memo: data.Memo{Place: "do:a#1"}}
	inner := &journal.Doing{Outer: outer, Memo: data.Memo{Place: "do:a#1/do:b#1"}}
	nested := journal.Doings{outer, inner}
	nested.Showing(agui.TextMessageStart{MessageID: "m"}, begun)
	rows := nested.Showing(agui.TextMessageEnd{MessageID: "m"}, begun)
	if len(rows) != 1 || rows[0].(*data.Memo).Place != inner.Memo.Place || string(rows[0].(*data.Memo).Output) != `["m"]` {
		t.Fatalf("the end of a message is stored with %v", rows)
	}
	if rows := nested.Shown(); rows != nil {
		t.Errorf("named messages are stored again: %v", rows)
	}
	j := with(*rows[0].(*data.Memo), data.Memo{Place: "do:c#1", Output: json.RawMessage(`["other"]`)}, data.Memo{Place: "tool:d#1", CallID: "call", Tool: "d"})
	messages, calls := j.Repeats(func(m *data.Memo) bool { return m.Place == inner.Memo.Place })
	if !slices.Equal(messages, []string{"m"}) || len(calls) != 1 || !calls["call"] {
		t.Errorf("messages %v of Dos are repeated beside the calls %v", messages, calls)
	}
	side := journal.Doings{outer, {}, {}}
	side.Showing(agui.TextMessageStart{MessageID: "n"}, begun)
	if rows := side.Showing(agui.TextMessageEnd{MessageID: "n"}, begun); rows != nil || outer.Over() != nil {
		t.Error("a message of Dos side by side has an owner")
	}
}
