package storage_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// workload writes events and runs into some threads.
type workload struct {
	db      data.Store
	threads []int64 // keys
	runs    []int64
	last    []int64 // event ids
	n       int64   // of the last commit
	next    int
	names   int
}

func newLog(tb testing.TB, db data.Store, threads int) *workload {
	tb.Helper()
	log := &workload{db: db, last: make([]int64, threads)}
	var rows []data.Row
	for range threads {
		thread, run, more := log.newRun(tb)
		log.threads, log.runs, rows = append(log.threads, thread.Key), append(log.runs, run.Key), append(rows, more...)
	}
	log.commit(tb, nil, rows...)
	return log
}

func (l *workload) commit(tb testing.TB, events []data.StoredEvent, rows ...data.Row) {
	tb.Helper()
	l.n++
	if err := l.db.Commit(context.WithoutCancel(tb.Context()), l.n, &data.Batch{Events: events, Rows: rows}); err != nil {
		tb.Fatalf("commit %d: %v", l.n, err)
	}
}

var payload = []byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"0197a3c1-7b1e-7c3a-9d2f-1b2c3d4e5f60","delta":" tokens","timestamp":1760000000000}`)

// batch returns the next n events, in turn one of each thread.
func (l *workload) batch(n int) []data.StoredEvent {
	events := make([]data.StoredEvent, n)
	for i := range events {
		t := l.next % len(l.threads)
		l.next++
		l.last[t]++
		events[i] = data.StoredEvent{
			ThreadKey: l.threads[t], ID: l.last[t], RunKey: l.runs[t], Kind: agui.TypeTextMessageContent, Payload: payload,
		}
	}
	return events
}

// nextRuns are the rows of another run in every thread.
func (l *workload) nextRuns(tb testing.TB, name string) (rows []data.Row) {
	tb.Helper()
	for i, key := range l.threads {
		run := l.runOf(tb, key, fmt.Sprint(name, i))
		rows = append(rows, run,
			&data.Span{RunKey: run.Key, N: 1, ThreadKey: key, RunID: run.ID, First: l.last[i] + 1})
		l.runs[i] = run.Key
	}
	return rows
}

// finishRuns are the rows with which the run of every thread ends.
func (l *workload) finishRuns(tb testing.TB) (rows []data.Row) {
	tb.Helper()
	for i, key := range l.threads {
		run, err := l.db.Run(tb.Context(), l.runs[i])
		must(tb, err)
		run.Status = data.Completed
		rows = append(rows, &run.RunHead, &data.ThreadHead{Key: key, LastEventID: l.last[i], UpdatedAt: time.Now()},
			&data.SpanEnd{RunKey: run.Key, N: 1, Last: l.last[i]})
	}
	return rows
}

// keyOf takes a key, however long the database is away.
func keyOf(tb testing.TB, take func(context.Context) (int64, error)) (key int64) {
	tb.Helper()
	retry(tb, func() (err error) { key, err = take(tb.Context()); return err })
	return key
}

// newRun returns a thread with a run that has just begun, and their rows.
func (l *workload) newRun(tb testing.TB) (*data.Thread, *data.Run, []data.Row) {
	tb.Helper()
	l.names++
	key := keyOf(tb, l.db.NewThreadKey)
	now, name := time.Now(), fmt.Sprintf("%d-%d", time.Now().UnixNano(), l.names)
	thread := &data.Thread{ThreadHead: data.ThreadHead{
		Key: key, Project: "p", User: "u", ID: name, ConversationID: name, CreatedAt: now, UpdatedAt: now,
	}}
	run := l.runOf(tb, key, name)
	return thread, run, []data.Row{
		thread, run, &data.RunName{RunKey: run.Key, Project: "p", User: "u", Name: name},
		&data.Span{RunKey: run.Key, N: 1, ThreadKey: key, RunID: name, First: 1},
		&data.Node{RunKey: run.Key, NodeID: "main", Status: data.Running, StartedAt: &now},
		&data.Step{RunKey: run.Key, Number: 1, NodeID: "main", Status: data.Running, StartedAt: now},
	}
}

// startAndFinish are the rows of n runs that start and end.
func (l *workload) startAndFinish(tb testing.TB, n int) (list []data.Row) {
	tb.Helper()
	for range n {
		thread, run, rows := l.newRun(tb)
		now := time.Now()
		run.Status, run.FinishedAt, thread.LastEventID = data.Completed, &now, 10
		message := &data.Message{ThreadKey: thread.Key, RunKey: run.Key, Seq: 1, State: data.MessageConsumed, CreatedAt: now}
		message.ID, message.Role, message.Content = "m", agui.RoleAssistant, "hello"
		list = append(append(list, rows...), message)
	}
	return list
}

func (l *workload) runOf(tb testing.TB, thread int64, id string) *data.Run {
	tb.Helper()
	key := keyOf(tb, l.db.NewRunKey)
	now := time.Now()
	return &data.Run{
		RunHead: data.RunHead{
			Key: key, ThreadKey: thread, ID: id, Project: "p", User: "u", Agent: "echo", WorkflowID: "echo",
			Status: data.Running, CreatedAt: now, QueuedAt: now, StartedAt: &now,
		},
		Input: []byte(`{"messages":[]}`), Definition: []byte(`{"nodes":[]}`),
	}
}

// startAndEnd returns a batch in which runs of new threads begin, and one in which they end.
func (l *workload) startAndEnd(tb testing.TB, n int) []*data.Batch {
	tb.Helper()
	starts, ends := &data.Batch{}, &data.Batch{}
	heads := make([]data.RunHead, n)
	event := func(run *data.RunHead, id int64) data.StoredEvent {
		return data.StoredEvent{ThreadKey: run.ThreadKey, ID: id, RunKey: run.Key, Kind: agui.TypeTextMessageContent, Payload: payload}
	}
	rows := make([][]data.Row, n)
	for i := range n {
		thread, run, list := l.newRun(tb)
		heads[i], rows[i] = run.RunHead, list
		m := &data.Message{ThreadKey: thread.Key, RunKey: run.Key, Seq: 1, EventID: 1, State: data.MessageConsumed}
		m.ID, m.Role, m.Content = "m1", agui.RoleUser, "hello"
		rows[i] = append(rows[i], m)
		name := data.Name{Project: "p", User: "u", ID: thread.ID}
		starts.Asks = append(starts.Asks, data.Ask{Name: name, RunName: name})
		ends.Asks = append(ends.Asks, data.Ask{Thread: thread.Key, Runs: []int64{run.Key}})
		answer := *m
		answer.Seq, answer.EventID, answer.ID, answer.Role = 2, 5, "m2", agui.RoleAssistant
		ends.Rows = append(ends.Rows, &answer)
		for id := int64(4); id < 9; id++ {
			ends.Events = append(ends.Events, event(&run.RunHead, id))
		}
	}
	starts.Decide = func(i int, v *data.View) data.Changes {
		if v.Exists || len(v.Names) > 0 {
			tb.Error("it is there already")
		}
		return data.Changes{Rows: rows[i], Events: []data.StoredEvent{event(&heads[i], 1), event(&heads[i], 2), event(&heads[i], 3)}}
	}
	ends.Decide = func(i int, v *data.View) data.Changes {
		run := *v.Run(heads[i].Key)
		run.Status, run.FinishedAt, run.ClosedEvent = data.Completed, &v.Now, 9
		thread := v.Thread
		thread.LastEventID, thread.LastSeq, thread.UpdatedAt = 9, 2, v.Now
		return data.Changes{
			Rows: []data.Row{
				&run, &thread, &data.RunResult{Key: run.Key, OutputSummary: new("hello")},
				&data.SpanEnd{RunKey: run.Key, N: 1, Last: 9},
				&data.Node{RunKey: run.Key, NodeID: "main", Status: data.Completed, Progress: 1, StartedAt: &v.Now, CompletedAt: &v.Now},
				&data.Step{RunKey: run.Key, Number: 1, NodeID: "main", Status: data.Completed, StartedAt: v.Now, CompletedAt: &v.Now},
			},
			Events: []data.StoredEvent{event(&run, 9)},
		}
	}
	return []*data.Batch{starts, ends}
}
