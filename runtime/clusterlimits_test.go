package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/postgrestest"
)

// mostRunning counts the RUNNING runs of names again and again until stop is called, which returns the most of each that it has
// seen.
func mostRunning(t *testing.T, url string, names ...data.Name) (stop func() map[data.Name]int) {
	t.Helper()
	db, err := storage.Open(t.Context(), storage.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	most, done := make(map[data.Name]int), make(chan struct{})
	var counting sync.WaitGroup
	counting.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-tick():
			}
			now, err := db.Queue().CountRunning(context.Background(), names)
			if err != nil {
				t.Error(err)
				return
			}
			for _, n := range names {
				most[n] = max(most[n], now[n])
			}
		}
	})
	return func() map[data.Name]int {
		close(done)
		counting.Wait()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		return most
	}
}

// All servers together execute no more runs of a project or a user than the limits allow, also while one after the other dies, and as
// many.
func TestCluster_CapsHoldOverAllServers(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	brief := agent{"brief", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		for i := range 4 {
			err := run.Do(ctx, fmt.Sprint("step ", i), nil, func(context.Context) error {
				<-time.After(10 * time.Millisecond)
				return nil
			})
			if err != nil {
				return agui.WorkerOutput{}, err
			}
		}
		return agui.WorkerOutput{}, nil
	}}
	cfg := runtime.Config{Limits: runtime.Limits{RunsPerProject: 5, RunsPerUser: 3}}
	a, store := member(t, url, cfg, brief)
	b, _ := member(t, url, cfg, brief)
	c, next := member(t, url, cfg, brief)
	project, ann, bob := data.Name{Project: "p"}, data.Name{Project: "p", User: "ann"}, data.Name{Project: "p", User: "bob"}
	stop := mostRunning(t, url, project, ann, bob)
	type started struct {
		who runtime.Caller
		runtime.Started
	}
	var mu sync.Mutex
	var runs []started
	var starting sync.WaitGroup
	for i, server := range []*bench{a, b, c} {
		starting.Go(func() {
			for j := range 20 {
				who := runtime.MustCaller("p", []string{"ann", "bob"}[j%2], runtime.RoleUser)
				s, err := server.StartRun(t.Context(), who, runtime.StartRequest{
					Agent: "brief", ThreadID: fmt.Sprint("thread ", i, " ", j), Messages: []agui.Message{{Role: agui.RoleUser, Content: "go"}},
				})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				runs = append(runs, started{who, s})
				mu.Unlock()
			}
		})
	}
	starting.Wait()
	wake := store.die()
	defer wake()
	for i, s := range runs {
		if i == len(runs)/3 {
			defer next.die()()
		}
		b.waitAs(s.who, s.RunID, runtime.Completed)
	}
	for of, most := range stop() {
		want := 3
		if of == project {
			want = 5
		}
		if most != want {
			t.Errorf("%v: %d runs at once, want %d", of, most, want)
		}
	}
}

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
	queues := func(server *bench, thread string) bool {
		_, err := server.StartRun(t.Context(), local, runtime.StartRequest{
			Agent: "half", ThreadID: thread, Messages: []agui.Message{{Role: agui.RoleUser, Content: "go"}},
		})
		if refused, ok := errors.AsType[*runtime.Error](err); ok && refused.Code == "queue_full" {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		return true
	}
	for i := range 3 {
		for !queues(a, fmt.Sprint("waits ", i)) { // it has seen b's run in the queue, and learns in a second that it left it
			<-tick()
		}
	}
	for i := 0; queues(b, fmt.Sprint("more ", i)); i++ { // b learns of them in a second
		if i == 3 {
			t.Fatal("the fourth run is queued beside the limit")
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
		mine, _ = db.Members().TakeDuty(t.Context(), "deletions of other servers")
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

func (d slowDeletions) Queue() data.Queue { return slowQueue{d.DB.Queue(), d} }

// slowQueue is the part Queue of a database with slow deletions.
type slowQueue struct {
	data.Queue
	slowDeletions
}

func (d slowQueue) Deletions(ctx context.Context, afterThread, afterRun int64, limit int) ([]data.Deletion, error) {
	list, err := d.Queue.Deletions(ctx, afterThread, afterRun, limit)
	if len(list) > 0 {
		select {
		case d.begun <- struct{}{}:
			<-d.goOn
		case <-d.goOn:
		}
	}
	return list, err
}
