package storagetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// A page ends at a limit of bytes, and the next page continues behind it.
func testPageBytes(t *testing.T, f *fixture) {
	const n = 12
	ctx := t.Context()
	large := strings.Repeat("x", 1<<20)
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	var last *data.Run
	for i := range n {
		thread := f.threadOf(t, "ann", fmt.Sprint("thread", i))
		thread.Metadata = object(large)
		last = f.runOf(t, thread, fmt.Sprint("run", i), data.Completed)
		last.InputQuery, last.OutputSummary = large, new(large)
		if i%2 == 0 { // any text that a list shows
			last.InputQuery, last.OutputSummary, last.ContextItemIDs = "", nil, []string{large, large}
		}
		f.put(t, thread, last)
	}
	for i := range n {
		msg := message(last, fmt.Sprint("m", i), int64(i+1), data.MessageConsumed)
		msg.Content, msg.Day = large, day
		f.put(t, msg, &data.Step{RunKey: last.Key, Number: i + 1, Input: large, Output: new(large), StartedAt: at(0)})
	}

	var runs data.RunFilter
	runs.Project, runs.Limit, runs.Count = "project", 100, true
	pages(t, "runs", n, func(before *data.Run) (data.Page[data.Run], error) {
		if before != nil {
			runs.BeforeKey = before.Key
		}
		return f.ByProject().Runs(ctx, runs)
	})
	threads := data.ThreadFilter{Project: "project", User: "ann", Limit: 100, Count: true}
	pages(t, "threads", n, func(before *data.ListedThread) (data.Page[data.ListedThread], error) {
		if before != nil {
			threads.BeforeTime, threads.BeforeKey = before.UpdatedAt, before.Key
		}
		return f.ByProject().Threads(ctx, threads)
	})
	pages(t, "steps", n, func(after *data.Step) (data.Page[data.Step], error) {
		if after == nil {
			after = new(data.Step)
		}
		return f.ByProject().Steps(ctx, last.Project, last.Key, "", after.Number, 100)
	})
	pages(t, "messages", n, func(after *data.Message) (data.Page[data.Message], error) {
		if after == nil {
			after = new(data.Message)
		}
		return f.ByProject().RunMessages(ctx, last.Project, last.Key, after.Key, 100)
	})
	pages(t, "history", 0, func(after *data.Message) (data.Page[data.Message], error) {
		if after == nil {
			after = new(data.Message)
		}
		return f.ByProject().History(ctx, last.Project, last.ThreadKey, day, after.Seq, 100)
	})
}

// pages reads a list of twelve to its end and checks that each page has the total.
func pages[T any](t *testing.T, what string, total int, next func(last *T) (data.Page[T], error)) {
	t.Helper()
	var last *T
	read := 0
	for more := true; more; {
		p, err := next(last)
		if err != nil || len(p.Rows) == 0 || len(p.Rows) > 5 || p.Total != total {
			t.Fatalf("a page of %s has %d rows of %d, %v", what, len(p.Rows), p.Total, err)
		}
		read += len(p.Rows)
		last, more = &p.Rows[len(p.Rows)-1], p.More
	}
	if read != 12 {
		t.Errorf("the pages of %s have %d rows, want 12", what, read)
	}
	if p, err := next(last); err != nil || len(p.Rows) > 0 || p.More || p.Total != total {
		t.Errorf("behind all %s there are %d rows of %d, more %v, %v", what, len(p.Rows), p.Total, p.More, err)
	}
}

// A list does not read the members that it does not show.
func testListedRuns(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	run := f.runOf(t, thread, "run", data.Completed)
	run.Input, run.Definition, run.Metadata = object("input"), object("definition"), object("metadata")
	run.InputQuery, run.OutputSummary = "asked", new("answered")
	f.put(t, run, &data.Node{RunKey: run.Key, NodeID: "n", Output: object("output")})
	want := *run
	want.ThreadID, want.ConversationID = thread.ID, thread.ConversationID
	want.Input, want.Definition, want.Metadata = nil, nil, nil
	got, err := f.ByProject().Runs(t.Context(), data.RunFilter{Project: "project", Count: true})
	equal(t, "Runs", got, err, data.Page[data.Run]{Rows: []data.Run{want}, Total: 1, Counted: true})
	nodes, err := f.ByProject().NodeStates(t.Context(), run.Project, run.Key)
	equal(t, "NodeStates", nodes, err, []data.Node{{RunKey: run.Key, NodeID: "n"}})
}

// A run's weight is its worker's input, with its records and its thread, and no more of the thread than a worker gets.
func testWeight(t *testing.T, f *fixture) {
	const kib = 1 << 10
	thread := f.newThread(t, "ann", "main")
	run := f.runOf(t, thread, "run", data.Queued)
	weighs := func(what string, kibs int64) {
		t.Helper()
		if got, err := f.Weight(t.Context(), thread.Key, run.Key); err != nil || got.Asked < kibs*kib || got.Asked > (kibs+4)*kib {
			t.Errorf("%s: it weighs %+v, %v, want %d KiB", what, got, err, kibs)
		}
	}
	text := func(kibs int) string { return strings.Repeat("x", kibs*kib) }
	weighs("a run that is not there", 0)
	run.Input, run.InputQuery = object(text(64)), text(64)
	f.put(t, run)
	weighs("its input, without the query, which a message holds", 64)
	f.put(t, &data.ThreadState{Key: thread.Key, State: object(text(64))})
	weighs("the thread's state", 128)
	for i, state := range []data.MessageState{data.MessageQueued, data.MessageConsumed, data.MessageHidden} {
		m := message(run, fmt.Sprint("m", i), int64(i), state)
		m.Content = text(64)
		f.put(t, m)
	}
	weighs("messages", 256)
	for name, kibs := range map[string]int64{"run": 64, "other": 0} {
		r := run
		if name == "other" {
			r = f.runOf(t, thread, name, data.Queued)
		}
		if got, err := f.Weight(t.Context(), thread.Key, r.Key); err != nil || got.Said < kibs*kib || got.Said > (kibs+1)*kib {
			t.Errorf("%s has said %+v, %v, want %d KiB", name, got, err, kibs)
		}
	}
	asked := message(run, "asked", 7, data.MessageConsumed)
	asked.Content = text(64)
	f.put(t, asked, &data.Span{RunKey: run.Key, N: 1, ThreadKey: thread.Key, RunID: run.ID, Generation: 1, First: asked.EventID, Last: asked.EventID})
	weighs("a message that its span begins with", 320)
	if got, err := f.Weight(t.Context(), thread.Key, run.Key); err != nil || got.Said > 65*kib {
		t.Errorf("with what it was asked it has said %+v, %v, want 64 KiB", got, err)
	}
	f.put(t, &data.Memo{RunKey: run.Key, Generation: run.Generation, Step: 1, Place: "1", Done: true, Output: object(text(64))},
		&data.Memo{RunKey: run.Key, Generation: run.Generation + 1, Step: 1, Place: "1", Done: true, Output: object(text(64))})
	weighs("records", 384)
	for i := range 5 {
		m := message(run, fmt.Sprint("large", i), int64(i+10), data.MessageConsumed)
		m.Content = text(4 * kib)
		f.put(t, m)
	}
	weighs("more messages than a worker is given", 256+data.ThreadBytes/kib)

	thread = f.newThread(t, "ann", "many")
	run = f.newRun(t, thread, "many", data.Queued)
	const few = 12_000
	var rows []data.Row
	for i := range few {
		rows = append(rows, message(run, fmt.Sprint("small", i), 0, data.MessageQueued))
	}
	last := message(run, "last", 0, data.MessageQueued)
	last.Content = text(4 * kib)
	f.put(t, append(rows, last)...)
	if got, err := f.Weight(t.Context(), thread.Key, run.Key); err != nil || got.Asked < few*data.MessageBytes+4*kib*kib {
		t.Errorf("many small messages and a large one: it weighs %+v, %v", got, err)
	}
}

// The audit of a project is filtered, latest first.
func testAudit(t *testing.T, f *fixture) {
	entry := func(project, actor, action string, seconds int) *data.Audit {
		return &data.Audit{
			At: at(seconds), Project: project, User: "ann", Actor: actor, Action: action, ThreadID: "main", RunID: action,
			Credential: "credential", Address: "address", Request: "request",
		}
	}
	all := []*data.Audit{
		entry("project", "ann", "start", 1), entry("project", "bob", "cancel", 2), entry("project", "ann", "delete", 3),
	}
	all[1].User = "bob"
	f.put(t, all[0], entry("elsewhere", "ann", "start", 1), all[1])
	f.put(t, all[2])
	for _, test := range []struct {
		filter data.AuditFilter
		want   []int
		total  int
	}{
		{data.AuditFilter{}, []int{2, 1, 0}, 3},
		{data.AuditFilter{Actor: "ann"}, []int{2, 0}, 2},
		{data.AuditFilter{Action: "cancel"}, []int{1}, 1},
		{data.AuditFilter{Since: at(2)}, []int{2, 1}, 2},
		{data.AuditFilter{Actor: "nobody"}, nil, 0},
		{data.AuditFilter{Until: at(3)}, []int{1, 0}, 2},
		{data.AuditFilter{Since: at(2), Until: at(3)}, []int{1}, 1},
		{data.AuditFilter{User: "ann", Until: at(3)}, []int{0}, 1},
		{data.AuditFilter{Run: "delete"}, []int{2}, 1},
		{data.AuditFilter{User: "ann", Actor: "ann"}, []int{2, 0}, 2},
		{data.AuditFilter{User: "ann", Actor: "ann", Action: "start", Run: "start"}, []int{0}, 1},
		{data.AuditFilter{User: "bob", Actor: "ann"}, nil, 0},
	} {
		test.filter.Project, test.filter.Limit, test.filter.Count = "project", 1, true
		var got []data.Audit
		for more := true; more; {
			p, err := f.ByProject().Audit(t.Context(), test.filter)
			if err != nil || !p.Counted || p.Total != test.total || len(p.Rows) > 1 {
				t.Fatalf("%+v: %d rows of %d, %v", test.filter, len(p.Rows), p.Total, err)
			}
			for _, a := range p.Rows {
				test.filter.BeforeTime, test.filter.BeforeKey = a.At, a.Key
				a.Key = 0
				got = append(got, a)
			}
			more = p.More
		}
		var want []data.Audit
		for _, i := range test.want {
			want = append(want, *all[i])
		}
		equal(t, fmt.Sprintf("%+v", test.filter), got, nil, want)
	}
}

// Spending is added up by days, also that of one batch.
func testSpent(t *testing.T, f *fixture) {
	day := data.Day(at(0))
	call := func(project, user string, hours int, n int64) *data.CallUsage {
		return &data.CallUsage{
			Project: project, User: user, Agent: "a", At: day.Add(time.Duration(hours) * time.Hour), Calls: 1, Cost: 3 * n,
			Usage: agui.TokenUsage{Model: "m", InputTokens: n - 1, OutputTokens: 1},
		}
	}
	spending := func(project, user string, n int64) data.Spending {
		return data.Spending{Spender: data.Spender{Project: project, User: user, Agent: "a"}, Tokens: n, Cost: 3 * n}
	}
	f.put(t, call("p", "u", 0, 1), call("q", "u", 1, 10), call("p", "u", 23, 2), call("p", "u", 24, 100), call("p", "v", 47, 5))
	f.put(t, call("p", "u", 12, 4), call("q", "u", 26, 20))
	one, err := f.Budgets().Spent(t.Context(), "", day, day.AddDate(0, 0, 1))
	equal(t, "Spent of a day", one, err, []data.Spending{spending("p", "u", 7), spending("q", "u", 10)})
	mine, err := f.Budgets().Spent(t.Context(), "p", day, day.AddDate(0, 0, 1))
	equal(t, "Spent of a project", mine, err, []data.Spending{spending("p", "u", 7)})
	both, err := f.Budgets().Spent(t.Context(), "", day, day.AddDate(0, 0, 2))
	equal(t, "Spent of two days", both, err, []data.Spending{spending("p", "u", 107), spending("p", "v", 5), spending("q", "u", 30)})
}

// The last raise of a budget's period holds.
func testRaises(t *testing.T, f *fixture) {
	day := data.Day(at(0))
	raise := func(days int, subject string, amount int64) *data.Raise {
		return &data.Raise{Budget: "b", Project: "p", Subject: subject, From: day.AddDate(0, 0, days), Amount: amount}
	}
	f.put(t, raise(0, "u", 1), raise(1, "u", 2), raise(1, "u", 3))
	f.put(t, raise(1, "t", 4), raise(0, "u", 5))
	got, err := f.Budgets().Raises(t.Context(), day.AddDate(0, 0, 1))
	equal(t, "Raises of a day", got, err, []data.Raise{*raise(1, "t", 4), *raise(1, "u", 3)})
	got, err = f.Budgets().Raises(t.Context(), day)
	equal(t, "Raises", got, err, []data.Raise{*raise(0, "u", 5), *raise(1, "t", 4), *raise(1, "u", 3)})
}
