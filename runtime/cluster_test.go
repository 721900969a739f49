package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/postgrestest"
)

// A server that stands still in a commit keeps from others what the commit is about: requests about that are refused after two
// seconds, and all others are served meanwhile.
func TestCluster_FrozenNamesDelayNoOther(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	frozen := stranger(t, url)
	b, _ := member(t, url, runtime.Config{}, answers("echo", "text", nil))
	request := func(thread, run, key string) error {
		req := runtime.StartRequest{Agent: "echo", ThreadID: thread, RunID: run, Messages: []agui.Message{{Role: agui.RoleUser, Content: "go"}}}
		if key != "" {
			req.Idempotency = &runtime.Idempotency{Scope: key, BodyHash: "same"}
		}
		s, err := b.StartRun(t.Context(), local, req)
		if err == nil {
			b.wait(s.RunID, runtime.Completed)
		}
		return err
	}
	all := [][3]string{{"new", "", ""}, {"a", "run", ""}, {"b", "", "key"}}
	name := func(id string) data.Name { return data.Name{Project: local.Project(), User: local.User(), ID: id} }
	asks := []data.Ask{{Name: name("new")}, {RunName: name("run")}, {Scope: "key"}}
	decide := func(i int, _ *data.View) (none data.Changes) {
		if i+1 < len(asks) {
			return none
		}
		refused := make(chan error)
		began := time.Now()
		for _, r := range all {
			go func() { refused <- request(r[0], r[1], r[2]) }()
		}
		if err := request("c", "another", "another"); err != nil {
			t.Errorf("another request: %v", err)
		}
		for range all {
			if e, ok := errors.AsType[*runtime.Error](<-refused); !ok || e.Code != "thread_contended" || time.Since(began) < 2*time.Second {
				t.Errorf("refused with %v after %v", e, time.Since(began))
			}
		}
		return none
	}
	if err := frozen.Commit(t.Context(), 1, &data.Batch{Asks: asks, Decide: decide}); err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if err := request(r[0], r[1], r[2]); err != nil {
			t.Errorf("once the server goes on: %v", err)
		}
	}
}

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
	if err := errors.Join(left.Commit(t.Context(), 1, batch), left.Members().Leave(t.Context())); err != nil {
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

// A server that dies without a word loses its runs to another one, which executes no more than it may and leaves runs of agents
// that it does not have. Until then nobody takes them. When it wakes up, it writes nothing.
func TestCluster_TakesOverFromADeadServer(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	hangs, goesOn := halves("half")
	own, _ := halves("own")
	a, store := member(t, url, runtime.Config{}, hangs, own)
	var threads []string
	var runs []runtime.Started
	for i := range 5 {
		threads = append(threads, fmt.Sprint("thread ", i))
		runs = append(runs, a.start(threads[i], "half", "go"))
		<-hangs.began
	}
	behind := a.start(threads[0], "half", "next")
	left := a.start("own", "own", "go")
	<-own.began
	unwanted := a.start("unwanted", "own", "go")
	<-own.began
	b, looks := member(t, url, runtime.Config{Limits: runtime.Limits{Runs: 2}}, goesOn)
	for looks.looked.Load() < 2 { // it has taken what the first look has found
		<-time.After(time.Millisecond)
	}
	for _, s := range append(runs, left) {
		if run, err := b.Runs.Get(t.Context(), local, s.RunID); err != nil || run.Status != runtime.Running || len(goesOn.ran) > 0 {
			t.Fatalf("%s is %s, %v; taken from a living server: %d", s.RunID, run.Status, err, len(goesOn.ran))
		}
	}
	wake := store.die()
	for _, s := range append(runs, behind) {
		if run := b.wait(s.RunID, runtime.Completed, runtime.Failed); run.Status != runtime.Completed {
			t.Errorf("%s: %+v", s.RunID, run.Error)
		}
	}
	if n := goesOn.most.Load(); n > 2 {
		t.Errorf("it executes %d runs, want 2 at most", n)
	}
	if run, err := b.Runs.Get(t.Context(), local, left.RunID); err != nil || run.Status != runtime.Running {
		t.Errorf("the run of an agent that it does not have is %s, %v", run.Status, err)
	}
	if run, err := b.Cancel(t.Context(), local, unwanted.RunID); err != nil || run.Status != runtime.Cancelled { // which needs no agent
		t.Errorf("a cancelled run of such an agent is %s, %v", run.Status, err)
	}
	checkLog(t, b.log("unwanted"))
	before := make(map[string][]*runtime.Record)
	for i, thread := range threads {
		before[thread] = b.log(thread)
		checkLog(t, before[thread])
		msgs, err := rows(b.Runs.Messages(t.Context(), local, runs[i].RunID, 0, 50))
		if err != nil || texts(msgs) != "go, one, two" {
			t.Errorf("%s: %s, %v", thread, texts(msgs), err)
		}
	}
	wake()
	<-a.Member.Fenced()
	for _, thread := range threads {
		if after := b.log(thread); len(after) != len(before[thread]) {
			t.Errorf("%s has %d events, and had %d", thread, len(after), len(before[thread]))
		}
	}
	back, _ := halves("own")
	back.goesOn = true
	c, _ := member(t, url, runtime.Config{}, back)
	c.wait(left.RunID, runtime.Completed)
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
	if err := errors.Join(later.Commit(t.Context(), 1, batch), later.Members().Leave(t.Context())); err != nil {
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

func (s late) Queue() data.Queue { return lateQueue{s.Store.Queue(), s.let} }

// lateQueue is the part Queue of a late store.
type lateQueue struct {
	data.Queue
	let chan struct{}
}

func (s lateQueue) Orphans(ctx context.Context, after int64, limit int) ([]data.RunHead, error) {
	<-s.let
	return s.Queue.Orphans(ctx, after, limit)
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
