package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/postgrestest"
)

// Orphans that no living server can execute do not hide one that a server can.
func TestCluster_FindsAnOrphanBehindOthers(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	left := stranger(t, url)
	hangs, goesOn := halves("rare")
	batch := new(data.Batch)
	for i := range 1100 { // more than two pages
		thread, err := left.NewThreadKey(t.Context())
		run, failed := left.NewRunKey(t.Context())
		if err := errors.Join(err, failed); err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprint("orphan ", i)
		batch.Rows = append(batch.Rows,
			&data.Thread{ThreadHead: data.ThreadHead{Key: thread, Project: local.Project(), User: local.User(), ID: id, ConversationID: id}},
			&data.Run{ThreadID: id, ConversationID: id, RunHead: data.RunHead{
				Key: run, ThreadKey: thread, ID: id, Project: local.Project(), User: local.User(), Agent: "absent", WorkflowID: "absent",
				Status: data.Running, Owner: "stranger", Generation: 1,
			}})
	}
	if err := errors.Join(left.Commit(t.Context(), 1, batch), left.Leave(t.Context())); err != nil {
		t.Fatal(err)
	}
	_, _ = member(t, url, runtime.Config{}, answers("common", "text", nil))
	x, dead := member(t, url, runtime.Config{}, hangs)
	run := x.start("main", "rare", "go")
	<-hangs.began
	z, _ := member(t, url, runtime.Config{}, goesOn)
	defer dead.die()()
	if ran := <-goesOn.ran; ran != run.RunID {
		t.Errorf("%s goes on, want %s", ran, run.RunID)
	}
	z.wait(run.RunID, runtime.Completed)
}

// half is an agent that says half of its answer where it is called first, and hangs. It says the rest where it goes on.
type half struct {
	name       string
	began, ran chan string // names of runs
	goesOn     bool
	now, most  *atomic.Int64 // workers that execute
}

func (h half) Info() plugins.Info { return plugins.Info{Name: h.name} }

func (h half) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	for n := h.now.Add(1); ; {
		if most := h.most.Load(); n <= most || h.most.CompareAndSwap(most, n) {
			break
		}
	}
	defer h.now.Add(-1)
	if err := run.Do(ctx, "half", nil, func(context.Context) error { return say(run, "one") }); err != nil {
		return agui.WorkerOutput{}, err
	}
	if !h.goesOn {
		h.began <- run.Input.RunID
		return agui.WorkerOutput{}, hang(ctx)
	}
	h.ran <- run.Input.RunID
	return agui.WorkerOutput{}, say(run, "two")
}

func halves(name string) (hangs, goesOn half) {
	hangs = half{name: name, began: make(chan string, 100), ran: make(chan string, 100), now: new(atomic.Int64), most: new(atomic.Int64)}
	goesOn = hangs
	goesOn.goesOn, goesOn.now, goesOn.most = true, new(atomic.Int64), new(atomic.Int64)
	return hangs, goesOn
}

// A server takes over a run of a later version, with events of types that it does not know in its log. They change nothing for it, and all
// viewers get them.
func TestCluster_TakesOverFromALaterVersion(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	hangs, goesOn := halves("half")
	x, dead := member(t, url, runtime.Config{}, hangs)
	s := x.start("main", "half", "go")
	<-hangs.began
	y, _ := member(t, url, runtime.Config{}, answers("other", "text", nil))
	later := stranger(t, url) // writes what the later version does
	wake := dead.die()
	defer wake()
	last, err := later.LastEventID(t.Context(), s.ThreadKey)
	if err != nil {
		t.Fatal(err)
	}
	batch := new(data.Batch)
	for i, payload := range []string{
		`{"type":"LATER_OPENED","laterId":"one","deep":{"list":[1,{"type":"TEXT_MESSAGE_END"}]}}`,
		`{"type":"LATER_CONTENT","messageId":"m","delta":"text","metadata":{"a":1}}`,
	} {
		batch.Events = append(batch.Events, data.StoredEvent{
			ThreadKey: s.ThreadKey, RunKey: s.RunKey, ID: last + int64(i) + 1, Kind: agui.Type("LATER"), Payload: []byte(payload),
		})
	}
	if err := errors.Join(later.Commit(t.Context(), 1, batch), later.Leave(t.Context())); err != nil {
		t.Fatal(err)
	}
	shown := func(recs []*runtime.Record) (all []string) {
		for _, r := range recs {
			if _, ok := r.Event.(agui.Unknown); ok {
				all = append(all, string(r.JSON(agui.Stored)))
			}
			if old := r.JSON(agui.AGUI0); strings.Contains(string(old), "LATER") {
				t.Errorf("dialect 0.0 shows %s", old)
			}
		}
		return all
	}
	want := shown(until(t, y.reader(true), last+2))
	if len(want) != 2 || !strings.Contains(want[0], `"deep":{"list":[1,{"type":"TEXT_MESSAGE_END"}]}`) {
		t.Fatalf("a viewer gets %s", want)
	}
	z, _ := member(t, url, runtime.Config{}, goesOn)
	cur := z.reader(true)
	z.wait(s.RunID, runtime.Completed)
	whole := y.log("main")
	checkLog(t, whole)
	if got := shown(whole); !slices.Equal(got, want) {
		t.Errorf("after it was taken over a viewer gets %s, want %s", got, want)
	}
	if got := shown(until(t, cur, whole[len(whole)-1].ID)); !slices.Equal(got, want) {
		t.Errorf("a viewer that was there gets %s, want %s", got, want)
	}
	for _, b := range []*bench{y, z} {
		if got := b.contents(); !slices.Equal(got, []string{"go", "one", "two"}) {
			t.Errorf("the thread has %q", got)
		}
	}
}

// late is a store that finds no runs of dead servers until it is let.
type late struct {
	runtime.Store
	let chan struct{}
}

func (s late) Orphans(ctx context.Context, after int64, limit int) ([]data.RunHead, error) {
	<-s.let
	return s.Store.Orphans(ctx, after, limit)
}

// A server that starts beside others serves before it has taken runs over, which may be many.
func TestCluster_ServesBeforeItTakesRunsOver(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	hangs, goesOn := halves("half")
	a, store := member(t, url, runtime.Config{}, hangs)
	left := a.start("left", "half", "go")
	<-hangs.began
	other, _ := halves("other")
	_, _ = member(t, url, runtime.Config{}, other)
	defer store.die()()
	let := make(chan struct{})
	db := opened(t, url)
	c, _ := memberOf(t, url, db, late{db, let}, runtime.Config{}, goesOn)
	if run, err := c.Runs.Get(t.Context(), local, left.RunID); err != nil || run.Status != runtime.Running {
		t.Errorf("the run is %s, %v", run.Status, err)
	}
	close(let)
	c.wait(left.RunID, runtime.Completed)
}
