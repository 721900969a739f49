package runtime_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/bus"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/postgrestest"
	"github.com/batonrun/baton/storage/sqlitetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits before it reports a hang: longer than any step takes on any machine.
const patience = 10 * time.Minute

var local = runtime.MustCaller("default", "local", runtime.RoleUser)

// agent is a worker from a function.
type agent struct {
	name string
	run  func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error)
}

func (a agent) Info() plugins.Info { return plugins.Info{Name: a.name} }

func (a agent) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	return a.run(ctx, run)
}

// tool is a tool from a function.
type tool struct {
	info plugins.Info
	call func(ctx context.Context, call *plugins.Call) (agui.ToolOutput, error)
}

func (t tool) Info() plugins.Info { return t.info }

func (t tool) Call(ctx context.Context, call *plugins.Call) (agui.ToolOutput, error) {
	return t.call(ctx, call)
}

// must ends the test if err is not nil.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// bench is a runtime and its database, which survives restarts of the runtime.
type bench struct {
	t     *testing.T
	path  string
	plugs []plugins.Plugin
	cfg   runtime.Config
	store runtime.Store
	*runtime.Runtime

	shared bool           // with other benches beside it
	bus    func() bus.Bus // of these; nil for the database's
}

func open(t *testing.T, cfg runtime.Config, plugs ...plugins.Plugin) *bench {
	t.Helper()
	return openAt(t, sqlitetest.New(t), cfg, plugs...)
}

// onBoth calls f with the address of an empty database of each kind.
func onBoth(t *testing.T, f func(t *testing.T, path string)) {
	t.Run("sqlite", func(t *testing.T) { f(t, sqlitetest.New(t)) })
	t.Run("postgres", func(t *testing.T) { f(t, postgrestest.New(t)) })
}

// openAt is open with a database: a file or a URL.
func openAt(t *testing.T, path string, cfg runtime.Config, plugs ...plugins.Plugin) *bench {
	t.Helper()
	b := &bench{t: t, path: path, plugs: plugs, cfg: cfg}
	b.begin()
	return b
}

// servers opens two runtimes beside each other on one database.
func servers(t *testing.T, cfg runtime.Config, plugs ...plugins.Plugin) (x, y *bench) {
	t.Helper()
	return linked(t, nil, cfg, plugs...)
}

// linked is servers with a bus of its own.
func linked(t *testing.T, join func() bus.Bus, cfg runtime.Config, plugs ...plugins.Plugin) (x, y *bench) {
	t.Helper()
	x = &bench{t: t, path: postgrestest.New(t), plugs: plugs, cfg: cfg, shared: true, bus: join}
	x.begin()
	other := *x
	other.cfg.Store, other.cfg.Registry = nil, nil
	y = &other
	y.begin()
	return x, y
}

// begin starts the runtime, and stops it when the test ends.
func (b *bench) begin() {
	b.t.Helper()
	cfg := b.cfg
	b.cfg.StepTimeout, b.cfg.ToolTimeout = cmp.Or(cfg.StepTimeout, time.Hour), cmp.Or(cfg.ToolTimeout, time.Hour) // must not end a hang while a test waits
	b.cfg.Patience = cmp.Or(cfg.Patience, time.Hour)                                                              // a busy machine may commit slowly
	b.cfg.Calm = cmp.Or(cfg.Calm, -1)                                                                             // crashes come early here
	if b.cfg.Log == nil {
		b.cfg.Log = slog.New(slog.NewTextHandler(b.t.Output(), nil))
	}
	b.up()
	b.t.Cleanup(b.down)
}

func (b *bench) up() {
	b.t.Helper()
	b.cfg.Registry = new(host.Registry)
	must(b.t, b.cfg.Registry.Add(b.plugs...))
	url := b.path
	if filepath.IsAbs(url) {
		url = "sqlite:" + url
	}
	db, err := storage.Open(context.Background(), storage.Config{URL: url, Migrate: !b.shared})
	must(b.t, err)
	b.store, b.cfg.Store = db, db
	if b.bus != nil {
		b.cfg.Bus = b.bus()
	} else {
		b.cfg.Bus = db.Registry.Bus()
	}
	if b.Runtime, err = runtime.New(b.cfg); err != nil {
		b.t.Fatal(err)
	}
	must(b.t, b.Start(context.Background()))
}

func (b *bench) down() {
	if b.Runtime == nil {
		return
	}
	if err := b.Shutdown(context.Background()); err != nil {
		b.t.Error(err)
	}
	if err := b.store.Close(); err != nil {
		b.t.Error(err)
	}
	b.Runtime = nil
}

// request starts a run.
func (b *bench) request(req runtime.StartRequest) runtime.Started {
	b.t.Helper()
	s, err := b.StartRun(context.Background(), local, req)
	must(b.t, err)
	return s
}

// start starts a run of an agent on a thread.
func (b *bench) start(thread, agent, content string) runtime.Started {
	b.t.Helper()
	return b.request(runtime.StartRequest{Agent: agent, ThreadID: thread, Messages: user(content)})
}

// cancel cancels a run.
func (b *bench) cancel(run string) {
	b.t.Helper()
	if _, err := b.Cancel(context.Background(), local, run); err != nil {
		b.t.Fatal(err)
	}
}

// found returns a thread.
func (b *bench) found(thread string) runtime.Thread {
	b.t.Helper()
	th, err := b.Threads.Get(context.Background(), local, thread)
	must(b.t, err)
	return th
}

// clear deletes the thread main and stops, so that the database can be used again.
func (b *bench) clear() {
	b.t.Helper()
	if err := b.DeleteThread(context.Background(), local, "main"); err != nil {
		b.t.Error(err)
	}
	b.down()
}

// log reads the thread's log from its start until it ends.
func (b *bench) log(thread string) []*runtime.Record {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	th := b.found(thread)
	cur, err := b.Logs.Read(ctx, th, 0, false)
	must(b.t, err)
	defer cur.Close()
	var all []*runtime.Record
	for {
		recs, err := cur.Next(ctx)
		if errors.Is(err, io.EOF) {
			return all
		}
		must(b.t, err)
		all = append(all, recs...)
	}
}

// wait waits until the run has one of the wanted statuses.
func (b *bench) wait(run string, want ...runtime.Status) runtime.Run {
	b.t.Helper()
	return b.waitAs(local, run, want...)
}

// waitAs is wait for a run of the caller.
func (b *bench) waitAs(who runtime.Caller, run string, want ...runtime.Status) runtime.Run {
	b.t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		r, err := b.Runs.Get(context.Background(), who, run)
		must(b.t, err)
		if slices.Contains(want, r.Status) {
			return r
		}
		if r.Status.Final() || time.Now().After(deadline) {
			b.t.Fatalf("run %s is %s, want %v", run, r.Status, want)
		}
		<-tick.C
	}
}

// types returns the events' types, with consecutive equal types as one.
func types(recs []*runtime.Record) []agui.Type {
	var ts []agui.Type
	for _, r := range recs {
		if t := r.Event.Type(); len(ts) == 0 || ts[len(ts)-1] != t {
			ts = append(ts, t)
		}
	}
	return ts
}

// checkLog checks the rules that hold for every complete log.
func checkLog(t *testing.T, recs []*runtime.Record) {
	t.Helper()
	var v agui.Verifier
	var owed []string
	calls := make(map[string]string) // arguments
	for i, r := range recs {
		if r.ID != int64(i+1) {
			t.Fatalf("record %d has id %d", i+1, r.ID)
		}
		if r.Event.Type() == agui.TypeRunStarted {
			v = agui.Verifier{}
		}
		if err := v.Add(r.Event); err != nil {
			t.Fatalf("record %d: %v", r.ID, err)
		}
		if agui.Timed(r.Event) == (r.Event.Common().Timestamp == 0) {
			t.Fatalf("record %d is %s", r.ID, r.JSON(agui.Stored))
		}
		switch e := r.Event.(type) {
		case agui.RunStarted:
			v.Owe(owed...)
		case agui.ToolCallArgs:
			calls[e.ToolCallID] += e.Delta
		case agui.ToolCallEnd:
			if calls[e.ToolCallID] == "" {
				t.Errorf("record %d ends the call %s without arguments", r.ID, e.ToolCallID)
			}
		}
		if r.Terminal() {
			owed = v.Unanswered()
		}
	}
	if len(owed) > 0 {
		t.Errorf("the log leaves calls without a result: %v", owed)
	}
}

// tick is a pause between two polls of another goroutine's work.
func tick() <-chan time.Time { return time.After(time.Millisecond) }

// rows returns a page's rows.
func rows[T any](p runtime.Page[T], err error) ([]T, error) { return p.Rows, err }

// thread returns the messages of the thread that a worker can read.
func thread(ctx context.Context, run *plugins.Run) []agui.Message {
	list, _, err := run.Messages(ctx, 0)
	if err != nil {
		panic(err)
	}
	return list
}
