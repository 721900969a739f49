package storagetest

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

func testMessages(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	first := f.newRun(t, thread, "first", data.Completed)
	second := f.newRun(t, thread, "second", data.Running)
	put := func(run *data.Run, id string, seq int64, state data.MessageState) {
		f.put(t, message(run, id, seq, state))
	}
	put(first, "c", 3, data.MessageConsumed) // keys and seqs need not agree
	put(first, "a", 1, data.MessageConsumed)
	put(first, "b", 2, data.MessageHidden)
	put(second, "d", 4, data.MessageConsumed)
	put(second, "q1", 0, data.MessageQueued)
	put(second, "q2", 0, data.MessageQueued)
	put(second, "never taken", 0, data.MessageHidden)
	tool := message(second, "t", 5, data.MessageConsumed)
	tool.Role, tool.ToolCallID = agui.RoleTool, "call"
	f.put(t, tool)
	f.put(t, message(f.newRun(t, f.newThread(t, "ann", "other"), "third", data.Running), "a", 9, data.MessageConsumed))

	check := func(what string, want []string) func([]data.Message, error) {
		return func(got []data.Message, err error) {
			t.Helper()
			equal(t, what, ids(got), err, want)
		}
	}
	ctx := t.Context()
	check("all", []string{"a", "c", "d", "t"})(f.Messages(ctx, thread.Key, 0, 10))
	check("the newest", []string{"d", "t"})(f.Messages(ctx, thread.Key, 0, 2))
	check("up to an event", []string{"a", "c"})(f.Messages(ctx, thread.Key, 39, 10))
	check("all, from the end", []string{"a", "c", "d", "t"})(rowsOf(f.ByProject().MessagesBefore(ctx, thread.Project, thread.Key, 0, false, 10)))
	check("before one", []string{"a", "c"})(rowsOf(f.ByProject().MessagesBefore(ctx, thread.Project, thread.Key, 4, false, 10)))
	check("the latest before one", []string{"c"})(rowsOf(f.ByProject().MessagesBefore(ctx, thread.Project, thread.Key, 4, false, 1)))
	check("with hidden ones", []string{"b", "c", "d"})(rowsOf(f.ByProject().MessagesBefore(ctx, thread.Project, thread.Key, 5, true, 3)))
	check("queued", []string{"q1", "q2"})(f.Queued(ctx, second.Key))
	check("by id", []string{"b", "q1", "t"})(f.MessagesByID(ctx, thread.Key, []string{"q1", "call", "b", "nowhere"}))
	check("by no id", []string{})(f.MessagesByID(ctx, thread.Key, nil))
	heads, err := f.ShownHeads(ctx, thread.Key, 3)
	equal(t, "heads", heads, err, []data.MessageHead{headOf(first, "c", 3), headOf(second, "d", 4), {
		RunKey: second.Key, Seq: 5, State: data.MessageConsumed, ID: "t", ToolCallID: "call",
	}})
	heads, err = f.MessageHeads(ctx, thread.Key, []string{"call", "c", "nowhere"})
	slices.SortFunc(heads, func(a, b data.MessageHead) int { return cmp.Compare(a.Seq, b.Seq) })
	equal(t, "heads by id", heads, err, []data.MessageHead{headOf(first, "c", 3), {
		RunKey: second.Key, Seq: 5, State: data.MessageConsumed, ID: "t", ToolCallID: "call",
	}})
	heads, err = f.MessageHeads(ctx, thread.Key, []string{"b"})
	equal(t, "the state of a hidden head", heads[0].State, err, data.MessageHidden)
	told := f.newRun(t, f.newThread(t, "ann", "told"), "fourth", data.Running)
	for seq, m := range []data.Message{
		{State: data.MessageHidden, Message: agui.Message{ID: "hidden", Role: agui.RoleSystem}},
		{State: data.MessageConsumed, Message: agui.Message{ID: "be brief", Role: agui.RoleSystem}},
		{State: data.MessageConsumed, Message: agui.Message{ID: "a worker's", Role: agui.RoleSystem, Metadata: []byte(`{"agent":"writer"}`)}},
		{State: data.MessageConsumed, Message: agui.Message{ID: "hello", Role: agui.RoleUser}},
		{State: data.MessageConsumed, Message: agui.Message{ID: "be kind", Role: agui.RoleDeveloper}},
	} {
		row := message(told, m.ID, int64(seq+1), m.State)
		row.Message = m.Message
		f.put(t, row)
	}
	check("instructions", []string{"be brief", "be kind"})(f.Instructions(ctx, told.ThreadKey, 0))
	check("instructions up to an event", []string{"be brief"})(f.Instructions(ctx, told.ThreadKey, 20))
	page, total, err := Parts(f.ByProject().RunMessages(ctx, first.Project, first.Key, 0, 1))
	check("of a run", []string{"c"})(page, err)
	equal(t, "total of a run", total, err, 2)
	page, _, err = Parts(f.ByProject().RunMessages(ctx, first.Project, first.Key, page[0].Key, 10))
	check("of a run, next page", []string{"a"})(page, err)
	seq, err := f.LastSeq(ctx, thread.Key)
	equal(t, "LastSeq", seq, err, 5)
	seq, err = f.LastSeq(ctx, thread.Key+100)
	equal(t, "LastSeq of nothing", seq, err, 0)
}

// headOf is the head of a message that message makes.
func headOf(run *data.Run, id string, seq int64) data.MessageHead {
	m := message(run, id, seq, data.MessageConsumed)
	return data.MessageHead{RunKey: run.Key, Seq: seq, State: m.State, ID: id, Hash: data.ContentHash(&m.Message)}
}

// message is a message written by event 10 times its seq.
func message(run *data.Run, id string, seq int64, state data.MessageState) *data.Message {
	return &data.Message{
		ThreadKey: run.ThreadKey, RunKey: run.Key, Seq: seq, EventID: seq * 10, State: state, CreatedAt: at(0),
		Message: agui.Message{ID: id, Role: agui.RoleUser, Content: "content of " + id},
	}
}

func testQueued(t *testing.T, f *fixture) {
	const n = 2500
	run := f.newRun(t, f.newThread(t, "ann", "main"), "run", data.Running)
	var rows []data.Row
	want := []string{}
	for i := range n {
		rows = append(rows, message(run, fmt.Sprint("m", i), 0, data.MessageQueued))
		want = append(want, fmt.Sprint("m", i))
	}
	f.put(t, rows...)
	got, err := f.Queued(t.Context(), run.Key)
	equal(t, "Queued", ids(got), err, want)
}

func testHide(t *testing.T, f *fixture) {
	thread, other := f.newThread(t, "ann", "main"), f.newThread(t, "ann", "other")
	runs := make([]*data.Run, 5)
	for i := range runs {
		runs[i] = f.newRun(t, thread, fmt.Sprint("run", i), data.Completed)
		f.put(t, message(runs[i], fmt.Sprint("m", i), int64(i+1), data.MessageConsumed))
	}
	elsewhere := message(f.newRun(t, other, "elsewhere", data.Completed), "m", 9, data.MessageConsumed)
	f.put(t, elsewhere, message(runs[0], "q0", 0, data.MessageQueued), message(runs[1], "q1", 0, data.MessageQueued))
	hide := func(what string, hide data.Hide, queued int, want ...string) {
		t.Helper()
		hide.ThreadKey = thread.Key
		f.put(t, &hide)
		got, err := f.Messages(t.Context(), thread.Key, 0, 10)
		equal(t, what, ids(got), err, append([]string{}, want...))
		left := 0
		for _, run := range runs {
			list, err := f.Queued(t.Context(), run.Key)
			if err != nil {
				t.Error(err)
			}
			left += len(list)
		}
		equal(t, "queued after "+what, left, nil, queued)
	}
	hide("nothing", data.Hide{}, 2, "m0", "m1", "m2", "m3", "m4")
	hide("nothing of a run", data.Hide{RunKey: runs[1].Key}, 2, "m0", "m1", "m2", "m3", "m4")
	hide("what a run's inbox holds", data.Hide{RunKey: runs[1].Key, Queued: true}, 1, "m0", "m1", "m2", "m3", "m4")
	hide("what a run said", data.Hide{RunKey: runs[1].Key, FromSeq: 1}, 1, "m0", "m2", "m3", "m4")
	hide("another thread's run", data.Hide{RunKey: elsewhere.RunKey, FromSeq: 1, Queued: true}, 1, "m0", "m2", "m3", "m4")
	hide("from a seq", data.Hide{FromSeq: 5}, 1, "m0", "m2", "m3")
	hide("from an event", data.Hide{FromEvent: 31}, 1, "m0", "m2")
	hide("from an event of a run", data.Hide{RunKey: runs[0].Key, FromEvent: 10}, 1, "m2")
	hide("one message", data.Hide{ID: "m2"}, 1)
	hide("all", data.Hide{Queued: true, FromSeq: 1}, 0)
	got, err := f.Messages(t.Context(), other.Key, 0, 10)
	equal(t, "the other thread's", ids(got), err, []string{"m"})
	seq, err := f.LastSeq(t.Context(), thread.Key)
	equal(t, "LastSeq", seq, err, 5)
}
