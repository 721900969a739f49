package storage_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/model"
)

// workload writes events and runs into some threads.
type workload struct {
	db      model.Store
	threads []int64 // keys
	runs    []int64
	last    []int64 // event ids
	n       int64   // of the last commit
	next    int
	names   int
}

func newLog(tb testing.TB, db model.Store, threads int) *workload {
	tb.Helper()
	log := &workload{db: db, last: make([]int64, threads)}
	var rows []model.Row
	for range threads {
		thread, run, more := log.newRun(tb)
		log.threads, log.runs, rows = append(log.threads, thread.Key), append(log.runs, run.Key), append(rows, more...)
	}
	log.commit(tb, nil, rows...)
	return log
}

func (l *workload) commit(tb testing.TB, events []model.StoredEvent, rows ...model.Row) {
	tb.Helper()
	l.n++
	if err := l.db.Commit(context.WithoutCancel(tb.Context()), l.n, &model.Batch{Events: events, Rows: rows}); err != nil {
		tb.Fatalf("commit %d: %v", l.n, err)
	}
}

var payload = []byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"0197a3c1-7b1e-7c3a-9d2f-1b2c3d4e5f60","delta":" tokens","timestamp":1760000000000}`)

// batch returns the next n events, in turn one of each thread.
func (l *workload) batch(n int) []model.StoredEvent {
	events := make([]model.StoredEvent, n)
	for i := range events {
		t := l.next % len(l.threads)
		l.next++
		l.last[t]++
		events[i] = model.StoredEvent{
			ThreadKey: l.threads[t], ID: l.last[t], RunKey: l.runs[t], Kind: agui.TypeTextMessageContent, Payload: payload,
		}
	}
	return events
}

// nextRuns are the rows of another run in every thread.
func (l *workload) nextRuns(tb testing.TB, name string) (rows []model.Row) {
	tb.Helper()
	for i, key := range l.threads {
		run := l.runOf(tb, key, fmt.Sprint(name, i))
		rows = append(rows, run,
			&model.Span{RunKey: run.Key, N: 1, ThreadKey: key, RunID: run.ID, First: l.last[i] + 1})
		l.runs[i] = run.Key
	}
	return rows
}

// finishRuns are the rows with which the run of every thread ends.
func (l *workload) finishRuns(tb testing.TB) (rows []model.Row) {
	tb.Helper()
	for i, key := range l.threads {
		run, err := l.db.Run(tb.Context(), l.runs[i])
		if err != nil {
			tb.Fatal(err)
		}
		run.Status = model.Completed
		rows = append(rows, &run.RunHead, &model.ThreadHead{Key: key, LastEventID: l.last[i], UpdatedAt: time.Now()},
			&model.SpanEnd{RunKey: run.Key, N: 1, Last: l.last[i]})
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
func (l *workload) newRun(tb testing.TB) (*model.Thread, *model.Run, []model.Row) {
	tb.Helper()
	l.names++
	key := keyOf(tb, l.db.NewThreadKey)
	now, name := time.Now(), fmt.Sprintf("%d-%d", time.Now().UnixNano(), l.names)
	thread := &model.Thread{ThreadHead: model.ThreadHead{
		Key: key, Project: "p", User: "u", ID: name, ConversationID: name, CreatedAt: now, UpdatedAt: now,
	}}
	run := l.runOf(tb, key, name)
	return thread, run, []model.Row{
		thread, run, &model.RunName{RunKey: run.Key, Project: "p", User: "u", Name: name},
		&model.Span{RunKey: run.Key, N: 1, ThreadKey: key, RunID: name, First: 1},
		&model.Node{RunKey: run.Key, NodeID: "main", Status: model.Running, StartedAt: &now},
		&model.Step{RunKey: run.Key, Number: 1, NodeID: "main", Status: model.Running, StartedAt: now},
	}
}

// startAndFinish are the rows of n runs that start and end.
func (l *workload) startAndFinish(tb testing.TB, n int) (list []model.Row) {
	tb.Helper()
	for range n {
		thread, run, rows := l.newRun(tb)
		now := time.Now()
		run.Status, run.FinishedAt, thread.LastEventID = model.Completed, &now, 10
		message := &model.Message{ThreadKey: thread.Key, RunKey: run.Key, Seq: 1, State: model.MessageConsumed, CreatedAt: now}
		message.ID, message.Role, message.Content = "m", agui.RoleAssistant, "hello"
		list = append(append(list, rows...), message)
	}
	return list
}

func (l *workload) runOf(tb testing.TB, thread int64, id string) *model.Run {
	tb.Helper()
	key := keyOf(tb, l.db.NewRunKey)
	now := time.Now()
	return &model.Run{
		RunHead: model.RunHead{
			Key: key, ThreadKey: thread, ID: id, Project: "p", User: "u", Agent: "echo", WorkflowID: "echo",
			Status: model.Running, CreatedAt: now, QueuedAt: now, StartedAt: &now,
		},
		Input: []byte(`{"messages":[]}`), Definition: []byte(`{"nodes":[]}`),
	}
}

// startAndEnd returns a batch in which runs of new threads begin, and one in which they end.
func (l *workload) startAndEnd(tb testing.TB, n int) []*model.Batch {
	tb.Helper()
	starts, ends := &model.Batch{}, &model.Batch{}
	heads := make([]model.RunHead, n)
	event := func(run *model.RunHead, id int64) model.StoredEvent {
		return model.StoredEvent{ThreadKey: run.ThreadKey, ID: id, RunKey: run.Key, Kind: agui.TypeTextMessageContent, Payload: payload}
	}
	rows := make([][]model.Row, n)
	for i := range n {
		thread, run, list := l.newRun(tb)
		heads[i], rows[i] = run.RunHead, list
		m := &model.Message{ThreadKey: thread.Key, RunKey: run.Key, Seq: 1, EventID: 1, State: model.MessageConsumed}
		m.ID, m.Role, m.Content = "m1", agui.RoleUser, "hello"
		rows[i] = append(rows[i], m)
		name := model.Name{Project: "p", User: "u", ID: thread.ID}
		starts.Asks = append(starts.Asks, model.Ask{Name: name, RunName: name})
		ends.Asks = append(ends.Asks, model.Ask{Thread: thread.Key, Runs: []int64{run.Key}})
		answer := *m
		answer.Seq, answer.EventID, answer.ID, answer.Role = 2, 5, "m2", agui.RoleAssistant
		ends.Rows = append(ends.Rows, &answer)
		for id := int64(4); id < 9; id++ {
			ends.Events = append(ends.Events, event(&run.RunHead, id))
		}
	}
	starts.Decide = func(i int, v *model.View) model.Changes {
		if v.Exists || len(v.Names) > 0 {
			tb.Error("it is there already")
		}
		return model.Changes{Rows: rows[i], Events: []model.StoredEvent{event(&heads[i], 1), event(&heads[i], 2), event(&heads[i], 3)}}
	}
	ends.Decide = func(i int, v *model.View) model.Changes {
		run := *v.Run(heads[i].Key)
		run.Status, run.FinishedAt, run.ClosedEvent = model.Completed, &v.Now, 9
		thread := v.Thread
		thread.LastEventID, thread.LastSeq, thread.UpdatedAt = 9, 2, v.Now
		return model.Changes{
			Rows: []model.Row{
				&run, &thread, &model.RunResult{Key: run.Key, OutputSummary: new("hello")},
				&model.SpanEnd{RunKey: run.Key, N: 1, Last: 9},
				&model.Node{RunKey: run.Key, NodeID: "main", Status: model.Completed, Progress: 1, StartedAt: &v.Now, CompletedAt: &v.Now},
				&model.Step{RunKey: run.Key, Number: 1, NodeID: "main", Status: model.Completed, StartedAt: v.Now, CompletedAt: &v.Now},
			},
			Events: []model.StoredEvent{event(&run, 9)},
		}
	}
	return []*model.Batch{starts, ends}
}
