package storage_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// workload writes events and runs into some threads.
type workload struct {
	db      runtime.Store
	threads []int64 // keys
	runs    []int64
	last    []int64 // event ids
	n       int64   // of the last commit
	next    int
	names   int
}

func newLog(tb testing.TB, db runtime.Store, threads int) *workload {
	tb.Helper()
	log := &workload{db: db, last: make([]int64, threads)}
	log.commit(tb, nil, func(tx runtime.Tx) error {
		for range threads {
			thread, run, err := log.newRun(tx)
			if err != nil {
				return err
			}
			log.threads = append(log.threads, thread.Key)
			log.runs = append(log.runs, run.Key)
		}
		return nil
	})
	return log
}

func (l *workload) commit(tb testing.TB, events []runtime.StoredEvent, apply func(runtime.Tx) error) {
	tb.Helper()
	l.n++
	if err := l.db.Commit(tb.Context(), l.n, events, apply); err != nil {
		tb.Fatalf("commit %d: %v", l.n, err)
	}
}

var payload = []byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"0197a3c1-7b1e-7c3a-9d2f-1b2c3d4e5f60","delta":" tokens","timestamp":1760000000000}`)

// batch returns the next n events, in turn one of each thread.
func (l *workload) batch(n int) []runtime.StoredEvent {
	events := make([]runtime.StoredEvent, n)
	for i := range events {
		t := l.next % len(l.threads)
		l.next++
		l.last[t]++
		events[i] = runtime.StoredEvent{
			ThreadKey: l.threads[t], ID: l.last[t], RunKey: l.runs[t], Kind: agui.TypeTextMessageContent, Payload: payload,
		}
	}
	return events
}

// nextRuns starts another run in every thread.
func (l *workload) nextRuns(tx runtime.Tx, name string) error {
	for i, key := range l.threads {
		thread, err := tx.LockThread(key)
		if err != nil {
			return err
		}
		run := l.runOf(&thread, fmt.Sprint(name, i), tx.Now())
		if err := tx.Put(run); err != nil {
			return err
		}
		span := &runtime.Span{RunKey: run.Key, N: 1, ThreadKey: key, RunID: run.ID, First: l.last[i] + 1}
		if err := tx.Put(span); err != nil {
			return err
		}
		l.runs[i] = run.Key
	}
	return nil
}

// finishRuns ends the run of every thread.
func (l *workload) finishRuns(tx runtime.Tx) error {
	ctx := context.Background()
	for i, key := range l.threads {
		thread, err := tx.LockThread(key)
		if err != nil {
			return err
		}
		run, err := tx.Run(ctx, l.runs[i])
		if err != nil {
			return err
		}
		spans, err := tx.Spans(ctx, run.Key)
		if err != nil {
			return err
		}
		run.Status, thread.LastEventID, spans[0].Last = runtime.Completed, l.last[i], l.last[i]
		thread.UpdatedAt = tx.Now()
		if err := tx.Put(&run, &thread, &spans[0]); err != nil {
			return err
		}
	}
	return nil
}

// startAndFinish writes the rows of n runs that start and of n that end.
func (l *workload) startAndFinish(tx runtime.Tx, n int) error {
	for range n {
		thread, run, err := l.newRun(tx)
		if err != nil {
			return err
		}
		now := tx.Now()
		run.Status, run.FinishedAt = runtime.Completed, &now
		thread.LastEventID, thread.UpdatedAt = 10, now
		span := &runtime.Span{RunKey: run.Key, N: 1, ThreadKey: thread.Key, RunID: run.ID, First: 1}
		message := &runtime.Message{ThreadKey: thread.Key, RunKey: run.Key, Seq: 1, State: runtime.MessageConsumed, CreatedAt: now}
		message.ID, message.Role, message.Content = "m", agui.RoleAssistant, "hello"
		err = tx.Put(thread, run, span, message, &runtime.Node{RunKey: run.Key, NodeID: "main", Status: runtime.Completed},
			&runtime.Step{RunKey: run.Key, Number: 1, Status: runtime.Completed})
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *workload) newRun(tx runtime.Tx) (*runtime.Thread, *runtime.Run, error) {
	l.names++
	now, name := tx.Now(), fmt.Sprintf("%d-%d", time.Now().UnixNano(), l.names)
	thread := &runtime.Thread{Project: "p", User: "u", ID: name, ConversationID: name, CreatedAt: now, UpdatedAt: now}
	if err := tx.Put(thread); err != nil {
		return nil, nil, err
	}
	run := l.runOf(thread, name, now)
	if err := tx.Put(run); err != nil {
		return nil, nil, err
	}
	span := &runtime.Span{RunKey: run.Key, N: 1, ThreadKey: thread.Key, RunID: name, First: 1}
	err := tx.Put(span, &runtime.Node{RunKey: run.Key, NodeID: "main", Status: runtime.Running},
		&runtime.Step{RunKey: run.Key, Number: 1, Status: runtime.Running, StartedAt: now})
	return thread, run, err
}

func (l *workload) runOf(thread *runtime.Thread, id string, now time.Time) *runtime.Run {
	return &runtime.Run{
		ThreadKey: thread.Key, ID: id, Project: "p", User: "u", Agent: "echo", WorkflowID: "echo",
		Status: runtime.Running, Input: []byte(`{"messages":[]}`), Definition: []byte(`{"nodes":[]}`),
		CreatedAt: now, QueuedAt: now, StartedAt: &now,
	}
}
