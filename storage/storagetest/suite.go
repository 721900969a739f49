// Package storagetest holds the contract of runtime.Store as one suite, and throw-away PostgreSQL clusters
// to run it, and other tests, on.
package storagetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// Run tests that what open returns keeps the contract of runtime.Store. Each call of open must return a new,
// empty store, and close it when the test ends.
func Run(t *testing.T, open func(t *testing.T) runtime.Store) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *fixture)
	}{
		{"CommitWritesABatchOnce", testCommitOnce},
		{"CommitNeedsTheNextNumber", testCommitNumber},
		{"CommitAfterFenceWritesNothing", testFence},
		{"ApplyErrorRollsBack", testApplyError},
		{"ApplyPanicRollsBack", testApplyPanic},
		{"SwallowedErrorFailsTheCommit", testSwallowedError},
		{"KeysAreTakenBackOnRollback", testKeysTakenBack},
		{"TxReadsItsOwnWrites", testOwnWrites},
		{"OwnNamesAreFound", testOwnNames},
		{"AheadChangesNoAnswer", testAhead},
		{"LargeRowsOfManyThreads", testLargeRows},
		{"KeysAscend", testKeyOrder},
		{"NowIsNow", testNow},
		{"CancelledReadFails", testCancelledRead},

		{"ThreadKeepsAllFields", testThread},
		{"RunKeepsAllFields", testRun},
		{"RunKeepsInputWhenNil", testRunInput},
		{"SpanStepNodeKeepAllFields", testSpanStepNode},
		{"MessageKeepsAllFields", testMessage},
		{"MemoInterruptKeyKeepAllFields", testMemoInterruptKey},
		{"RowsThatDoNotExist", testNotFound},
		{"ManyRowsInOnePut", testManyRows},
		{"RowPutTwiceKeepsTheLast", testPutTwice},
		{"TextIsKeptOrRefused", testText},

		{"OneActiveRunPerThread", testOneActiveRun},
		{"NamesAreUniquePerUser", testNames},
		{"ThreadsHaveTheirOwnNames", testThreadNames},
		{"LatestThread", testLatestThread},
		{"OpenRunsInClaimOrder", testOpenRuns},
		{"RunsFiltersAndPages", testRuns},
		{"RunsCountIsBounded", testRunsBounded},
		{"UnfinishedPages", testUnfinished},
		{"ExpiredInterrupts", testExpired},
		{"StepsPage", testSteps},
		{"MessagesOfThreadAndRun", testMessages},
		{"HideMessages", testHideMessages},
		{"DeleteRunLeavesNeighboursAlone", testDeleteRun},
		{"ThreadsPageByActivity", testThreads},
		{"HistoryByDay", testHistory},
		{"DeleteThreadByParts", testDeleteThread},

		{"EventsPage", testEventsPage},
		{"EventsNameTheirRun", testEventsRunID},
		{"EventsOverGaps", testEventsGaps},
		{"EventsOfAnySize", testEventSizes},
		{"LargeEventsComeInShortPages", testLargeEvents},
		{"EventsThatAreRefused", testBadEvents},
		{"LastEventIDOutlivesEvents", testLastEventID},
		{"ReadersNeverSkip", testConcurrentReaders},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := &fixture{Store: open(t)}
			if err := f.Join(t.Context(), "instance-1", "127.0.0.1:1"); err != nil {
				t.Fatalf("Join: %v", err)
			}
			test.run(t, f)
		})
	}
}

// fixture is a joined store that counts its commits.
type fixture struct {
	runtime.Store
	n int64 // the last commit
}

// try makes the next commit, and counts it if it succeeds.
func (f *fixture) try(ctx context.Context, events []runtime.StoredEvent, apply func(runtime.Tx) error) error {
	err := f.Commit(ctx, f.n+1, events, apply)
	if err == nil {
		f.n++
	}
	return err
}

func (f *fixture) commit(t *testing.T, events []runtime.StoredEvent, apply func(runtime.Tx) error) {
	t.Helper()
	if err := f.try(t.Context(), events, apply); err != nil {
		t.Fatalf("commit %d: %v", f.n+1, err)
	}
}

func (f *fixture) put(t *testing.T, rows ...runtime.Row) {
	t.Helper()
	f.commit(t, nil, func(tx runtime.Tx) error { return tx.Put(rows...) })
}

// refuse makes a commit of rows that must fail for their own fault.
func (f *fixture) refuse(t *testing.T, rows ...runtime.Row) {
	t.Helper()
	wantDataError(t, f.try(t.Context(), nil, func(tx runtime.Tx) error { return tx.Put(rows...) }))
}

func wantDataError(t *testing.T, err error) {
	t.Helper()
	switch {
	case err == nil:
		t.Error("commit succeeded, want an error")
	case errors.Is(err, runtime.ErrUnavailable), errors.Is(err, runtime.ErrFenced),
		errors.Is(err, runtime.ErrDiskFull), errors.Is(err, context.Canceled):
		t.Errorf("commit: %v, want an error that is the data's fault", err)
	}
}

// newThread puts a thread of that user and name.
func (f *fixture) newThread(t *testing.T, user, id string) *runtime.Thread {
	t.Helper()
	thread := &runtime.Thread{
		Project: "project", User: user, ID: id, ConversationID: "conversation of " + user + " " + id,
		CreatedAt: at(0), UpdatedAt: at(0),
	}
	f.put(t, thread)
	return thread
}

// newRun puts a run of that name.
func (f *fixture) newRun(t *testing.T, thread *runtime.Thread, id string, status runtime.Status) *runtime.Run {
	t.Helper()
	run := runOf(thread, id, status)
	f.put(t, run)
	return run
}

func runOf(thread *runtime.Thread, id string, status runtime.Status) *runtime.Run {
	return &runtime.Run{
		ThreadKey: thread.Key, ID: id, Project: thread.Project, User: thread.User, Agent: "echo", WorkflowID: "echo",
		Status: status, Generation: 1, CreatedAt: at(0), QueuedAt: at(0),
		ThreadID: thread.ID, ConversationID: thread.ConversationID,
	}
}

// at is a time some milliseconds after a fixed one.
func at(ms int) time.Time {
	return time.Date(2026, 2, 3, 4, 5, 6, 789_000_000, time.UTC).Add(time.Duration(ms) * time.Millisecond)
}

func object(name string) json.RawMessage { return json.RawMessage(`{"` + name + `": 1}`) }

// events returns events first to last of the run.
func events(run *runtime.Run, first, last int64) []runtime.StoredEvent {
	var list []runtime.StoredEvent
	for id := first; id <= last; id++ {
		list = append(list, runtime.StoredEvent{
			ThreadKey: run.ThreadKey, ID: id, RunKey: run.Key, Kind: agui.TypeTextMessageContent,
			Payload: fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"%d"}`, id),
		})
	}
	return list
}

// equal compares what a read returned.
func equal[T any](t *testing.T, what string, got T, err error, want T) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// keys are the keys of runs, in their order.
func keys(runs []runtime.Run) []int64 {
	list := []int64{}
	for _, run := range runs {
		list = append(list, run.Key)
	}
	return list
}

// ids are the ids of messages, in their order.
func ids(messages []runtime.Message) []string {
	list := []string{}
	for _, m := range messages {
		list = append(list, m.ID)
	}
	return list
}
