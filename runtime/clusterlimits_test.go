package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/postgrestest"
)

// What others have used of a budget counts some seconds later, and at once in lists and for a run that is near its limit.
func TestCluster_BudgetsCountWhatOthersUse(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	var made, called atomic.Int64
	cfg := budgeted(tokensADay(300, ""))
	a, _ := member(t, url, cfg, careless)
	b, _ := member(t, url, cfg, caller(&made), noop(&called))
	a.wait(a.start("main", "careless", "1234").RunID, runtime.Completed)
	if list, err := b.Budgets(local); err != nil || list[0].Used != 240 {
		t.Errorf("the list shows %+v, %v", list, err)
	}
	a.wait(a.start("main", "careless", "1").RunID, runtime.Completed)
	s, err := b.StartRun(t.Context(), local, runtime.StartRequest{
		Agent: "caller", ThreadID: "other", Messages: []agui.Message{{Role: agui.RoleUser, Content: "1"}},
	})
	if err == nil {
		if run := b.wait(s.RunID, runtime.Completed, runtime.Failed); run.Error == nil || run.Error.Code != "budget_exceeded" {
			t.Errorf("the run is %s, %+v", run.Status, run.Error)
		}
	} else if refused, ok := errors.AsType[*runtime.Error](err); !ok || refused.Code != "budget_exceeded" {
		t.Error(err)
	}
	if made.Load() > 0 {
		t.Error("a model was called with a budget that another server has used up")
	}
}

// The limit on queued runs counts those of all servers.
func TestCluster_QueueLimitCountsAllServers(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	hangs, _ := halves("half")
	cfg := runtime.Config{QueueDepth: 3, Limits: runtime.Limits{Runs: 1}}
	a, _ := member(t, url, cfg, hangs)
	b, _ := member(t, url, cfg, hangs)
	for i, server := range []*bench{a, b} {
		server.start(fmt.Sprint("runs ", i), "half", "go")
		<-hangs.began
	}
	for i := range 3 {
		a.start(fmt.Sprint("waits ", i), "half", "go")
	}
	for i := 0; ; i++ { // b learns of them in a second
		_, err := b.StartRun(t.Context(), local, runtime.StartRequest{
			Agent: "half", ThreadID: fmt.Sprint("more ", i), Messages: []agui.Message{{Role: agui.RoleUser, Content: "go"}},
		})
		if refused, ok := errors.AsType[*runtime.Error](err); ok && refused.Code == "queue_full" {
			break
		}
		if err != nil || i == 3 {
			t.Fatalf("run %d is queued beside the limit, %v", i, err)
		}
		<-time.After(time.Second)
	}
}

// While a server completes the deletion of a dead one, it takes runs of another dead one over, and further servers start.
func TestCluster_TakesOverBesideADeletion(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	db := opened(t, url)
	slow := slowDeletions{db, make(chan struct{}), make(chan struct{})}
	hangs, goesOn := halves("half")
	b, _ := memberOf(t, url, db, slow, runtime.Config{Limits: runtime.Limits{DeletedAtOnce: 1}}, careless, goesOn)
	for mine := false; !mine; <-tick() { // it is the one that completes deletions
		mine, _ = db.TakeDuty(t.Context(), "deletions of other servers")
	}
	deletes, first := member(t, url, runtime.Config{Limits: runtime.Limits{DeletedAtOnce: 1}}, careless)
	executes, second := member(t, url, runtime.Config{}, hangs)
	s := deletes.start("main", "careless", "1234")
	deletes.wait(s.RunID, runtime.Completed)
	run := executes.start("other", "half", "go")
	<-hangs.began
	first.left.Store(3)
	gone := make(chan error, 1)
	go func() { gone <- deletes.DeleteThread(context.Background(), local, "main") }()
	<-slow.begun
	further := opened(t, url)
	memberOf(t, url, further, slowDeletions{further, slow.begun, slow.goOn}, runtime.Config{}, careless)
	wake := second.die()
	b.wait(run.RunID, runtime.Completed)
	close(slow.goOn)
	for {
		if _, err := b.Runs.Get(t.Context(), local, s.RunID); err != nil { // it is deleted
			break
		}
		<-tick()
	}
	wake()
	close(*first.asleep.Swap(nil))
	if err := <-gone; err == nil {
		t.Error("the deletion has an answer of the server that died")
	}
}

// slowDeletions is a database in which it takes long to complete deletions.
type slowDeletions struct {
	*storage.DB
	begun, goOn chan struct{}
}

func (d slowDeletions) Deletions(ctx context.Context, afterThread, afterRun int64, limit int) ([]data.Deletion, error) {
	list, err := d.DB.Deletions(ctx, afterThread, afterRun, limit)
	if len(list) > 0 {
		select {
		case d.begun <- struct{}{}:
			<-d.goOn
		case <-d.goOn:
		}
	}
	return list, err
}
