// Package storagetest holds the contract of data.Store as one suite, and throw-away PostgreSQL clusters
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

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// Run tests that the stores of open keep the contract of data.Store. Each call of open must return a new, empty store, and
// close it when the test ends.
func Run(t *testing.T, open func(t *testing.T) data.Store) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *fixture)
	}{
		{"CommitWritesABatchOnce", testCommitOnce},
		{"CommitNeedsTheNextNumber", testCommitNumber},
		{"CommitAfterFenceWritesNothing", testFence},
		{"RenewNeedsTheLastNumber", testRenew},
		{"LeavingMakesRoom", testLeave},
		{"InstanceKeepsItsEnd", testInstance},
		{"NowIsTheTimeOfDecisions", testNow},
		{"BadRowsWriteNothing", testBadRows},
		{"PanicWritesNothing", testPanic},
		{"RefusalsWriteNothing", testRefusal},
		{"KeysAreGivenOnce", testKeys},
		{"KeysAscend", testKeyOrder},
		{"CancelledCallFails", testCancelled},
		{"SecretStaysUntilRemoved", testSecret},

		{"ViewOfAThread", testViewThread},
		{"ViewOfRuns", testViewRuns},
		{"ViewOfWhatWasAccepted", testViewInbox},
		{"Signals", testSignals},
		{"ViewOfInterrupts", testViewAsked},
		{"ViewKnowsIDs", testViewKnown},
		{"ViewOfRunNames", testViewNames},
		{"ViewRemembersKeys", testViewRemembered},
		{"ViewOfAnOwner", testViewOwner},
		{"DecisionsShareTheViewOfAThread", testViewShared},
		{"DecisionsSeeTheRowsOfTheBatch", testViewAfterRows},
		{"ManyDecisions", testManyDecisions},

		{"ThreadKeepsAllFields", testThread},
		{"RunKeepsAllFields", testRun},
		{"HeadLeavesTheRestAlone", testHead},
		{"SpanStepNodeKeepAllFields", testSpanStepNode},
		{"MessageKeepsAllFields", testMessage},
		{"MemoInterruptKeepAllFields", testMemoInterrupt},
		{"PromptKeepsAllFields", testPrompt},
		{"PiecesGoWithTheLastRun", testPieces},
		{"RowsThatDoNotExist", testNotFound},
		{"ManyRowsInOneBatch", testManyRows},
		{"LargeRowsOfManyThreads", testLargeRows},
		{"RowPutTwiceKeepsTheLast", testPutTwice},
		{"RowsOfABatchTakeEffectInOrder", testOrder},
		{"TextIsKeptOrRefused", testText},

		{"OneActiveRunPerThread", testOneActiveRun},
		{"NamesAreUniquePerUser", testNames},
		{"ThreadsHaveTheirOwnNames", testThreadNames},
		{"LatestThread", testLatestThread},
		{"OpenRunsInClaimOrder", testOpenRuns},
		{"RunsFiltersAndPages", testRuns},
		{"RunsAreNewestFirst", testRunsByTime},
		{"RunsBehindAnothersTellNothing", testRunsBehindForeign},
		{"RunsCountIsBounded", testRunsBounded},
		{"RunsByTerms", testRunsByTerms},
		{"RunsTermsFollow", testRunsTermsFollow},
		{"Orphans", testOrphans},
		{"PlacesFollowRuns", testPlaces},
		{"LineOfTheQueue", testLine},
		{"Take", testTake},
		{"PositionInTheQueue", testPosition},
		{"Backlog", testBacklog},
		{"CancelIsAskedOfTheOwner", testCancelAsks},
		{"AppendedCountsQueued", testAppended},
		{"ExpiredInterrupts", testExpired},
		{"AnswersAndWithdrawals", testAnswers},
		{"QuestionsOldestFirst", testQuestions},
		{"UsersOfAProject", testUsers},
		{"Views", testViews},
		{"StepsPage", testSteps},
		{"PagesHoldSoManyBytes", testPageBytes},
		{"ListsShowNoInputs", testListedRuns},
		{"RunsAreWeighed", testWeight},
		{"NodesBesideSteps", testNodesBesideSteps},
		{"Audit", testAudit},
		{"Spent", testSpent},
		{"Raises", testRaises},
		{"MessagesOfThreadAndRun", testMessages},
		{"QueuedReturnsAll", testQueued},
		{"HideMessages", testHide},
		{"DeleteRunLeavesNeighboursAlone", testDeleteRun},
		{"ThreadsPageByActivity", testThreads},
		{"HistoryByDay", testHistory},
		{"KeysOfOtherProjectsLeadNowhere", testForeignKeys},
		{"DeleteThreadByParts", testDeleteThread},
		{"DeletionsShareABatch", testDeleteTogether},

		{"OneOpenSpanPerThread", testOneOpenSpan},
		{"EventsPage", testEventsPage},
		{"EventsNameTheirRun", testEventsRunID},
		{"EventsOverGaps", testEventsGaps},
		{"EventsOfAnySize", testEventSizes},
		{"LargeEventsComeInShortPages", testLargeEvents},
		{"EventsThatAreRefused", testBadEvents},
		{"LastEventIDOutlivesEvents", testLastEventID},
		{"LogHeads", testLogHeads},
		{"ReadersNeverSkip", testConcurrentReaders},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := &fixture{Store: open(t)}
			if err := f.Members().Join(t.Context(), "instance-1", "127.0.0.1:1"); err != nil {
				t.Fatalf("Join: %v", err)
			}
			test.run(t, f)
		})
	}
}

// fixture is a joined store that counts its commits.
type fixture struct {
	data.Store
	n        int64  // the last commit
	midnight func() // of RunTwoWriters
}

// try makes the next commit, and counts it if it succeeds.
func (f *fixture) try(ctx context.Context, b *data.Batch) error {
	err := f.Commit(ctx, f.n+1, b)
	if err == nil {
		f.n++
	}
	return err
}

func (f *fixture) commit(t *testing.T, events []data.StoredEvent, rows ...data.Row) {
	t.Helper()
	if err := f.try(t.Context(), &data.Batch{Events: events, Rows: rows}); err != nil {
		t.Fatalf("commit %d: %v", f.n+1, err)
	}
}

func (f *fixture) put(t *testing.T, rows ...data.Row) {
	t.Helper()
	f.commit(t, nil, rows...)
}

// refuse makes a commit of rows that must fail because of the rows, or because their names are taken.
func (f *fixture) refuse(t *testing.T, rows ...data.Row) {
	t.Helper()
	err := f.try(t.Context(), &data.Batch{Rows: rows})
	if !errors.Is(err, data.ErrConflict) {
		wantDataError(t, err)
	}
}

// views returns the views of decisions with these asks. The decisions change nothing.
func (f *fixture) views(t *testing.T, asks ...data.Ask) []*data.View {
	t.Helper()
	var views []*data.View
	b := &data.Batch{Asks: asks, Decide: func(i int, v *data.View) data.Changes {
		if i != len(views) {
			t.Errorf("decision %d comes at place %d", i, len(views))
		}
		views = append(views, v)
		return data.Changes{}
	}}
	if err := f.try(t.Context(), b); err != nil {
		t.Fatalf("commit %d: %v", f.n+1, err)
	}
	if len(views) != len(asks) {
		t.Fatalf("%d of %d decisions were taken", len(views), len(asks))
	}
	return views
}

func wantDataError(t *testing.T, err error) {
	t.Helper()
	switch {
	case err == nil:
		t.Error("commit succeeded, want an error")
	case errors.Is(err, data.ErrUnavailable), errors.Is(err, data.ErrFenced), errors.Is(err, data.ErrTooSlow),
		errors.Is(err, data.ErrConflict),
		errors.Is(err, data.ErrDiskFull), errors.Is(err, context.Canceled):
		t.Errorf("commit: %v, want an error that is the data's fault", err)
	}
}

// newThread puts a thread of that user and name.
func (f *fixture) newThread(t *testing.T, user, id string) *data.Thread {
	t.Helper()
	thread := f.threadOf(t, user, id)
	f.put(t, thread)
	return thread
}

func (f *fixture) threadOf(t *testing.T, user, id string) *data.Thread {
	t.Helper()
	key, err := f.NewThreadKey(t.Context())
	if err != nil {
		t.Fatalf("NewThreadKey: %v", err)
	}
	return &data.Thread{ThreadHead: data.ThreadHead{
		Key: key, Project: "project", User: user, ID: id, ConversationID: "conversation of " + user + " " + id,
		CreatedAt: at(0), UpdatedAt: at(0),
	}}
}

// newRun puts a run of that name.
func (f *fixture) newRun(t *testing.T, thread *data.Thread, id string, status data.Status) *data.Run {
	t.Helper()
	run := f.runOf(t, thread, id, status)
	f.put(t, run, named(run))
	return run
}

func (f *fixture) runOf(t *testing.T, thread *data.Thread, id string, status data.Status) *data.Run {
	t.Helper()
	key, err := f.NewRunKey(t.Context())
	if err != nil {
		t.Fatalf("NewRunKey: %v", err)
	}
	return &data.Run{
		RunHead: data.RunHead{
			Key: key, ThreadKey: thread.Key, ID: id, Project: thread.Project, User: thread.User, Agent: "echo",
			WorkflowID: "echo", Status: status, Generation: 1, CreatedAt: at(0), QueuedAt: at(0),
		},
		ThreadID: thread.ID, ConversationID: thread.ConversationID,
	}
}

// rollUp writes the terms of runs, in a store that does not write them with the runs.
func (f *fixture) rollUp(t *testing.T) {
	t.Helper()
	c, ok := f.Budgets().(data.Counter)
	if !ok {
		return
	}
	if _, err := c.RollUp(t.Context(), at(0)); err != nil {
		t.Fatalf("RollUp: %v", err)
	}
}

// named returns the run's first name.
func named(run *data.Run) *data.RunName {
	return &data.RunName{RunKey: run.Key, Project: run.Project, User: run.User, Name: run.ID}
}

// at returns a time some milliseconds after a fixed one.
func at(ms int) time.Time {
	return time.Date(2026, 2, 3, 4, 5, 6, 789_000_000, time.UTC).Add(time.Duration(ms) * time.Millisecond)
}

func object(name string) json.RawMessage { return json.RawMessage(`{"` + name + `": 1}`) }

// events returns events first to last of the run.
func events(run *data.Run, first, last int64) []data.StoredEvent {
	var list []data.StoredEvent
	for id := first; id <= last; id++ {
		list = append(list, data.StoredEvent{
			ThreadKey: run.ThreadKey, ID: id, RunKey: run.Key, Kind: agui.TypeTextMessageContent,
			Payload: fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"%d"}`, id),
		})
	}
	return list
}

// equal compares the result of a read.
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

// Parts returns a page's rows, and the length of the list.
func Parts[T any](p data.Page[T], err error) ([]T, int, error) { return p.Rows, p.Total, err }

// rowsOf returns a page's rows.
func rowsOf[T any](p data.Page[T], err error) ([]T, error) { return p.Rows, err }

// keys returns the keys of runs, in their order.
func keys(runs []data.Run) []int64 {
	list := []int64{}
	for _, run := range runs {
		list = append(list, run.Key)
	}
	return list
}

// headKeys returns the keys of heads of runs, in their order.
func headKeys(runs []data.RunHead) []int64 {
	list := []int64{}
	for _, run := range runs {
		list = append(list, run.Key)
	}
	return list
}

// ids returns the ids of messages, in their order.
func ids(messages []data.Message) []string {
	list := []string{}
	for _, m := range messages {
		list = append(list, m.ID)
	}
	return list
}
