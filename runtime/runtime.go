// Package runtime is Baton's engine: it runs agents and workflows, keeps one log per thread, and shows
// every event only after it was stored. Transports talk to a *Runtime; a Store keeps what it writes.
//
// Four rules carry everything. Store, then show: a reader never sees what a crash could take back. Only
// the owner of a run writes its thread's log, and a lost owner is fenced in the database. A state row and
// the event that announces it are in one transaction, so REST never contradicts the stream. No reader can
// slow a run: readers wait for a wake-up and read from memory or the store.
//
// All writes of a process pass through one queue (commit.go): what runs say, and commands. What commands that race
// (cancel against finish, append against finish, equal idempotency keys) come to is decided by package decide inside the
// transaction, in the order they were queued. A command is prepared before: what is large or slow to read is read outside, and
// prepared again when it has changed by the time of the decision.
package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/graph"
	"github.com/batonrun/baton/runtime/log"
	"github.com/batonrun/baton/runtime/monitor"
)

// Config holds what a Runtime needs. Store and Registry must be set; other zero fields mean the default.
type Config struct {
	Store    Store
	Registry *plugins.Registry
	Log      *slog.Logger // default slog.Default
	Addr     string       // where clients reach this instance, for the instances table

	Standby   bool          // let Start return while another instance has the database, and begin when it has not
	Takeover  bool          // fence an instance that has the database, and begin at once
	Heartbeat time.Duration // between two looks at the instance's own lease, default 1 s

	Runs           int // runs at once in this process, default 1 000 per core, at most one per MiB of memory
	RunsPerAgent   int // of one agent or workflow, 0 means no cap of its own
	RunsPerProject int
	RunsPerUser    int
	QueueDepth     int // runs that may be QUEUED, default 10 000
	QueuePerThread int // runs of one thread that may be QUEUED, default 100
	MessageBytes   int // new messages of one run, and those that wait for one to take them, default 8 MB

	StepTimeout time.Duration // one execution of a node, default 10 min
	RunTimeout  time.Duration // one generation of a run, default 1 h
	ToolTimeout time.Duration // one call of a tool, default 2 min
	Grace       time.Duration // what a worker or tool gets to notice that its context is done, default 5 s
	Drain       time.Duration // what running runs get to end at Shutdown, default 30 s
	MaxAttempts int           // claims after a crash until a run fails as crash_loop, default 3

	CommitInterval time.Duration // between the starts of two commits above 8 live runs, default 2 ms
	QueueRunBytes  int           // events of one run that wait for a commit, default 256 KiB
	QueueBytes     int           // of all runs, default 8 MiB
	BatchEvents    int           // events of one commit, default 1 000
	BatchBytes     int           // default 1 MiB

	RingEvents int // records a thread's ring keeps, default 1 024
	RingBytes  int // default 256 KiB
	RingsBytes int // of all threads, default 64 MiB
}

func (c Config) withDefaults() Config {
	c.Log = cmp.Or(c.Log, slog.Default())
	c.Heartbeat = cmp.Or(c.Heartbeat, time.Second)
	if c.Runs == 0 {
		c.Runs = carried()
	}
	c.QueueDepth = cmp.Or(c.QueueDepth, 10_000)
	c.QueuePerThread = cmp.Or(c.QueuePerThread, 100)
	c.MessageBytes = cmp.Or(c.MessageBytes, 8_000_000)
	c.StepTimeout = cmp.Or(c.StepTimeout, 10*time.Minute)
	c.RunTimeout = cmp.Or(c.RunTimeout, time.Hour)
	c.ToolTimeout = cmp.Or(c.ToolTimeout, 2*time.Minute)
	c.Grace = cmp.Or(c.Grace, 5*time.Second)
	c.Drain = cmp.Or(c.Drain, 30*time.Second)
	c.MaxAttempts = cmp.Or(c.MaxAttempts, 3)
	c.CommitInterval = cmp.Or(c.CommitInterval, 2*time.Millisecond)
	c.QueueRunBytes = cmp.Or(c.QueueRunBytes, 256<<10)
	c.QueueBytes = cmp.Or(c.QueueBytes, 8<<20)
	c.BatchEvents = cmp.Or(c.BatchEvents, 1000)
	c.BatchBytes = cmp.Or(c.BatchBytes, 1<<20)
	c.RingEvents = cmp.Or(c.RingEvents, 1024)
	c.RingBytes = cmp.Or(c.RingBytes, 256<<10)
	c.RingsBytes = cmp.Or(c.RingsBytes, 64<<20)
	return c
}

// Role says what a caller may do in its project.
type Role string

// The roles, from least to most. A user sees and controls own runs, a viewer sees all runs of the project,
// an operator controls them too, an admin does everything.
const (
	RoleUser     Role = "user"
	RoleViewer   Role = "viewer"
	RoleOperator Role = "operator"
	RoleAdmin    Role = "admin"
)

// Caller is who asks. Every method that serves a request takes one, and answers "not found" for what it
// may not see.
type Caller struct {
	Project string
	User    string
	Role    Role
}

// Runtime runs agents and keeps their logs. Create it with New, then call Start, and Shutdown at the end.
type Runtime struct {
	cfg      Config
	store    Store
	reg      *plugins.Registry
	log      *slog.Logger
	instance string
	graphs   *graph.Set
	logs     *log.Logs
	feeds    *monitor.Feeds
	commits  *commit.Queue
	slots    *slots
	queue    *runQueue

	liveRuns atomic.Int64
	stray    atomic.Int64 // workers and tools that were abandoned and still run

	mu       sync.Mutex      // guards the fields below
	live     map[int64]*live // RUNNING runs of this instance, by key
	stopping bool

	abandoned context.Context // done when nothing is worth waiting for: Shutdown's limit passed, or fenced
	abandon   context.CancelCauseFunc
	running   sync.WaitGroup // live runs
	tasks     sync.WaitGroup // committer, dispatcher, expiry, standing by
	quit      chan struct{}
	fenced    chan struct{}
	fence     sync.Once                 // closes fenced
	joined    atomic.Bool               // this instance has a lease
	loops     atomic.Bool               // the committer is at work
	starting  atomic.Bool               // Start has returned before all was begun
	standby   atomic.Pointer[HeldError] // who has the database while this instance stands by; nil when it does not
}

// New checks cfg and compiles the registry's workflows and tool schemas.
func New(cfg Config) (*Runtime, error) {
	cfg = cfg.withDefaults()
	if cfg.Store == nil || cfg.Registry == nil {
		return nil, errors.New("runtime: Config.Store and Config.Registry must be set")
	}
	rt := &Runtime{
		cfg: cfg, store: cfg.Store, reg: cfg.Registry, log: cfg.Log, instance: newID(),
		logs: log.New(log.Config{
			Store: cfg.Store, RingEvents: cfg.RingEvents, RingBytes: cfg.RingBytes, RingsBytes: cfg.RingsBytes,
		}),
		live: make(map[int64]*live),
		quit: make(chan struct{}), fenced: make(chan struct{}),
	}
	var err error
	if rt.graphs, err = graph.Compile(cfg.Registry); err != nil {
		return nil, err
	}
	rt.abandoned, rt.abandon = context.WithCancelCause(context.Background())
	rt.slots = newSlots(&rt.cfg)
	rt.queue = newRunQueue()
	agents := make([]string, 0, len(cfg.Registry.Agents()))
	for _, a := range cfg.Registry.Agents() { // by name
		agents = append(agents, a.Info().Name)
	}
	rt.feeds = monitor.New(agents)
	rt.commits = commit.New(commit.Config{
		Store: cfg.Store, Log: cfg.Log, Interval: cfg.CommitInterval, Heartbeat: cfg.Heartbeat,
		RunBytes: cfg.QueueRunBytes, Bytes: cfg.QueueBytes, BatchEvents: cfg.BatchEvents, BatchBytes: cfg.BatchBytes,
		Live: func() int { return int(rt.liveRuns.Load()) }, Show: rt.show, Lost: rt.lost,
	})
	return rt, nil
}

// newID mints a UUIDv7.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// Start joins the database as a new instance, takes over the runs a crashed or stopped one left, and begins
// to claim queued ones. It returns once every open run is accounted for. When the database has no room for that it
// returns at once: reads are served, Ready says why nothing else is, and the rest follows when there is room. While another
// instance has the database it fails with a *HeldError, or with Config.Standby returns and stands by: see standby.go.
func (rt *Runtime) Start(ctx context.Context) error {
	if err := rt.reg.Start(ctx); err != nil {
		return err
	}
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	detach := context.AfterFunc(ctx, cancel)
	begun := make(chan error, 1)
	rt.tasks.Go(func() { // ends with the committer at the latest
		defer cancel()
		begun <- rt.begin(work)
	})
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case err := <-begun:
			return err
		case <-look.C:
		}
		if errors.Is(rt.commits.Trouble(), ErrDiskFull) || rt.standby.Load() != nil {
			detach()
			rt.starting.Store(true)
			rt.tasks.Go(func() { rt.beginLate(begun) }) // likewise
			return nil
		}
	}
}

// begin does what Start says.
func (rt *Runtime) begin(ctx context.Context) error {
	for attempt := 0; ; attempt++ {
		err := rt.join(ctx)
		if err == nil {
			break
		}
		if !rt.waits(err) || ctx.Err() != nil || rt.Stopping() {
			return err
		}
		commit.Pause(rt.abandoned, attempt)
	}
	rt.loops.Store(true)
	rt.tasks.Go(func() { rt.commits.Run(rt.abandoned) })
	if err := rt.recover(ctx); err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	rt.standby.Store(nil)
	rt.tasks.Go(rt.dispatch)
	rt.tasks.Go(rt.expire)
	return nil
}

// beginLate waits for what Start did not wait for. An instance that cannot begin ends like one that is fenced.
func (rt *Runtime) beginLate(begun <-chan error) {
	err := <-begun
	switch {
	case err == nil:
		rt.starting.Store(false)
	case rt.Stopping() && rt.standby.Load() != nil: // nobody was let in
	case rt.Stopping(), errors.Is(err, ErrFenced): // who waits for the committer is told so
		rt.commits.GiveUp(err)
	default:
		rt.commits.GiveUp(fmt.Errorf("%w: %w", ErrFenced, err))
	}
}

// Fenced is closed when another instance took this one's place: nothing can be written any more and the
// process should exit. An instance that is idle notices within Config.Heartbeat.
func (rt *Runtime) Fenced() <-chan struct{} { return rt.fenced }

// Stopping reports whether Shutdown was called.
func (rt *Runtime) Stopping() bool {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return rt.stopping
}

// admits refuses requests that write while the runtime stops or the database does not commit, so that they do
// not pile up.
func (rt *Runtime) admits() error {
	if err := rt.Serves(); err != nil {
		return err
	}
	if err := rt.commits.Trouble(); err != nil {
		return unavailable(err)
	}
	if rt.starting.Load() {
		return unavailable(ErrUnavailable)
	}
	return nil
}

// Ready says why the runtime cannot serve now: it stops, stands by or was fenced, the database does not commit or
// answer, or a plugin is ill. It is nil when all is well.
func (rt *Runtime) Ready(ctx context.Context) error {
	if err := rt.Serves(); err != nil {
		return err
	}
	if err := rt.commits.Trouble(); err != nil {
		if errors.Is(err, ErrDiskFull) {
			return unavailable(err)
		}
		return err
	}
	if rt.starting.Load() {
		return ErrUnavailable
	}
	if err := rt.store.Ping(ctx); err != nil {
		return err
	}
	return rt.reg.Check(ctx)
}

// Shutdown stops claiming, lets live runs end for Config.Drain or until ctx is done, then releases those
// left: they go on at the next start, or with the instance that stands by, which may begin from then on. It returns
// when all that was emitted is stored.
func (rt *Runtime) Shutdown(ctx context.Context) error {
	rt.mu.Lock()
	if rt.stopping {
		rt.mu.Unlock()
		return nil
	}
	rt.stopping = true
	rt.mu.Unlock()
	rt.commits.Drain()
	close(rt.quit)

	drained := make(chan struct{})
	go func() { // ends when the last live run was settled
		defer close(drained)
		if rt.loops.Load() {
			_ = rt.commits.Flush() // claims queued before have been decided, and those behind see that we stop
		}
		rt.running.Wait()
	}()
	limit := time.NewTimer(rt.cfg.Drain)
	defer limit.Stop()
	select {
	case <-drained:
	case <-limit.C:
	case <-ctx.Done():
	}
	rt.releaseAll()
	grace := time.AfterFunc(rt.cfg.Grace, func() { rt.abandon(ErrStopping) })
	defer grace.Stop()
	select {
	case <-drained:
	case <-rt.abandoned.Done():
	}
	rt.commits.Finish()
	rt.tasks.Wait()
	rt.leave()
	rt.abandon(ErrStopping)
	return rt.reg.Close()
}

// show shows readers what was committed.
func (rt *Runtime) show(batch []*commit.Item) {
	for _, it := range batch {
		if it.Command != nil && it.Out.Thread != 0 {
			rt.queue.set(&it.Out)
		}
	}
	for _, it := range batch {
		if it.Err != nil && !it.Out.Gone {
			continue
		}
		thread := cmp.Or(it.Thread, it.Out.Thread)
		var change *log.Change
		if out := &it.Out; it.Command != nil {
			change = &log.Change{Busy: out.Busy(), Void: out.Void, Removed: out.Removed, Gone: out.Gone}
		}
		rt.logs.Deliver(thread, it.Records, change)
		rt.feeds.Observe(&monitor.Item{
			Run: it.Run, Records: it.Records, Ticks: it.Ticks, Takes: it.Takes, Began: it.Began, Leaves: it.Command != nil,
		})
	}
}

// lost is called once the committer has given up: live runs stop, as their logs are another's now.
func (rt *Runtime) lost(err error) {
	rt.log.Error("this instance may not write any more", "error", err)
	rt.mu.Lock()
	all := make([]*live, 0, len(rt.live))
	for _, l := range rt.live {
		all = append(all, l)
	}
	rt.mu.Unlock()
	for _, l := range all {
		l.drop(err)
	}
	if errors.Is(err, ErrFenced) {
		rt.abandon(err)
		rt.fence.Do(func() { close(rt.fenced) })
	}
}

// liveRun returns the run if this instance executes it.
func (rt *Runtime) liveRun(key int64) *live {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return rt.live[key]
}
