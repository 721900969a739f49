package runtime_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/storage/postgrestest"
)

// paced is an agent that makes three records, each when it may: it sends the place on began, and waits for next. ran has the places of
// the functions that have run.
type paced struct {
	began, ran chan string
	next       chan struct{}
}

func newPaced() paced {
	return paced{make(chan string, 100), make(chan string, 100), make(chan struct{}, 100)}
}

func (p paced) agent() agent {
	return agent{"paced", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		for i := range 3 {
			err := run.Do(ctx, fmt.Sprint("record ", i), nil, func(ctx context.Context) error {
				p.began <- fmt.Sprint(run.Input.Node, i)
				select {
				case <-p.next:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
				p.ran <- fmt.Sprint(run.Input.Node, i)
				return say(run, fmt.Sprint(i))
			})
			if err != nil {
				return agui.WorkerOutput{}, err
			}
		}
		return agui.WorkerOutput{}, nil
	}}
}

// stop begins to stop the server, and returns a channel that is closed once it has stopped. The server knows by then whether another
// one can take its runs over.
func (b *bench) stop(store *dying) <-chan struct{} {
	stopped := make(chan struct{})
	go func() { defer close(stopped); b.down() }()
	for store.drains.Load() < 2 {
		<-tick()
	}
	return stopped
}

// A server that stops hands a run over at its next record. A call that is under way ends first, no call is made twice, and the client's
// stream goes on.
func TestCluster_HandsARunOverAtItsNextRecord(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	here, there := newPaced(), newPaced()
	a, store := member(t, url, runtime.Config{Limits: runtime.Limits{Drain: time.Hour}}, here.agent())
	b, _ := member(t, url, runtime.Config{}, there.agent())
	monitor := b.watch(local, runtime.MonitorQuery{View: runtime.EventsView})
	s := a.start("main", "paced", "go")
	viewer, err := a.Logs.ReadRun(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	shown := a.Logs.ShowRun()
	here.next <- struct{}{}
	<-here.began
	<-here.began
	stopped := a.stop(store)
	here.next <- struct{}{}
	if place := <-there.began; place != "paced2" {
		t.Errorf("the other server goes on at %s", place)
	}
	for range 3 {
		there.next <- struct{}{}
	}
	run := b.wait(s.RunID, runtime.Completed)
	recs := until(t, viewer, 0)
	viewer.Close()
	recs = slices.DeleteFunc(recs, func(r *runtime.Record) bool { return r.ID == 0 }) // the state of a reader that has none
	checkLog(t, recs)
	if last := recs[len(recs)-1]; last.ID != run.ClosedEvent {
		t.Errorf("the client of the stopping server has got %d events of %d", last.ID, run.ClosedEvent)
	}
	select {
	case <-stopped:
		t.Error("the server has not waited for its stream")
	default:
	}
	shown()
	<-stopped
	if len(here.ran) != 2 || len(there.ran) != 1 || run.Attempt != 0 {
		t.Errorf("%d records were made here, %d there, after %d crashes", len(here.ran), len(there.ran), run.Attempt)
	}
	msgs, err := rows(b.Runs.Messages(t.Context(), local, s.RunID, 0, 50))
	if err != nil || texts(msgs) != "go, 0, 1, 2" {
		t.Errorf("%s, %v", texts(msgs), err)
	}
	want := []string{"token paced 0", "token paced 1", "token paced 2", "agent_complete paced"}
	if got := summaries(monitor.until("agent_complete")); !slices.Equal(got, want) {
		t.Errorf("the monitor of the other server shows %q", got)
	}
}

// A node that waits at a record does not take the tool away that another node has called.
func TestCluster_HandsOverBetweenNodes(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	here, there := newPaced(), newPaced()
	called, returns := make(chan struct{}, 10), make(chan struct{}, 10)
	slow := tool{plugins.Info{Name: "slow"}, func(context.Context, *plugins.Call) (agui.ToolOutput, error) {
		called <- struct{}{}
		<-returns
		return agui.ToolOutput{ResultSummary: "done"}, nil
	}}
	flow := plugins.Workflow{Name: "flow", Nodes: []plugins.Node{{ID: "a", Agent: "paced"}, {ID: "b", Tool: "slow"}}}
	a, store := member(t, url, runtime.Config{Limits: runtime.Limits{Drain: time.Hour}}, here.agent(), slow, flow)
	b, _ := member(t, url, runtime.Config{}, there.agent(), slow, flow)
	s := a.startWorkflow("main", "flow", "go")
	<-here.began
	<-called
	stopped := a.stop(store)
	here.next <- struct{}{} // the agent waits at its record from here on
	<-here.ran
	returns <- struct{}{}
	<-stopped
	for range 2 {
		there.next <- struct{}{}
	}
	if run := b.wait(s.RunID, runtime.Completed, runtime.Failed); run.Status != runtime.Completed {
		t.Errorf("%+v", run.Error)
	}
	checkLog(t, b.log("main"))
	if len(called) != 0 || len(there.ran) != 2 {
		t.Errorf("the tool was called again: %d; %d records were made there", len(called), len(there.ran))
	}
}

// Where no server could take a run over, it ends where it is, as on a server that is alone.
func TestCluster_HandsNothingOverWhereAllStop(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	p := newPaced()
	cfg := runtime.Config{Limits: runtime.Limits{Drain: time.Hour}}
	a, storeOfA := member(t, url, cfg, p.agent())
	b, storeOfB := member(t, url, cfg, p.agent())
	runs := []runtime.Started{a.start("a", "paced", "go"), b.start("b", "paced", "go")}
	<-p.began
	<-p.began
	bothStop := []<-chan struct{}{b.stop(storeOfB), a.stop(storeOfA)}
	for n := storeOfB.drains.Load(); storeOfB.drains.Load() < n+2; { // it knows that the other one drains, too
		<-tick()
	}
	for range 6 {
		p.next <- struct{}{}
	}
	for _, stopped := range bothStop {
		<-stopped
	}
	d, _ := member(t, url, runtime.Config{})
	for _, s := range runs {
		d.wait(s.RunID, runtime.Completed)
	}
	if len(p.ran) != 6 {
		t.Errorf("%d records were made, want 6", len(p.ran))
	}
}

// A run that was handed over again and again without a new record stays until it has made one.
func TestCluster_HandsNoRunOverForEver(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	for releases, at := range map[int]string{4: "there", 5: "here"} {
		hangs := newPaced()
		a, _ := member(t, url, runtime.Config{}, hangs.agent())
		s := a.start(fmt.Sprint(releases), "paced", "go")
		<-hangs.began
		a.down()
		db, err := sql.Open("postgres", url)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), "UPDATE runs SET owner_instance = '~x.1.' || $1::int WHERE id = $2", releases, s.RunID); err != nil {
			t.Fatal(err)
		}
		_ = db.Close()
		here, there := newPaced(), newPaced()
		entered, enter := make(chan struct{}, 1), make(chan struct{})
		late := agent{"paced", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			entered <- struct{}{}
			<-enter
			return here.agent().run(ctx, run)
		}}
		b, store := member(t, url, runtime.Config{Limits: runtime.Limits{Drain: time.Hour}}, late)
		<-entered
		c, _ := member(t, url, runtime.Config{}, there.agent())
		stopped := b.stop(store)
		close(enter)
		for range 3 {
			here.next <- struct{}{}
			there.next <- struct{}{}
		}
		c.wait(s.RunID, runtime.Completed)
		<-stopped
		if n := len(here.ran); (n > 0) != (at == "here") || n > 1 {
			t.Errorf("after %d releases %d records were made here and %d there", releases, n, len(there.ran))
		}
		c.down()
	}
}
