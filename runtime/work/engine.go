// Package work has the runs of this process: it claims queued runs, has them executed, cancels and hands them over, takes over those of
// earlier processes, and ends those that no server executes. The packages above control access; the packages below execute a run, decide
// commands and order all writes.
package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/answer"
	"github.com/batonrun/baton/runtime/budget"
	"github.com/batonrun/baton/runtime/bus"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/exec"
	"github.com/batonrun/baton/runtime/fleet"
	"github.com/batonrun/baton/runtime/monitor"
	"github.com/batonrun/baton/runtime/observe"
	"github.com/batonrun/baton/runtime/offer"
	"github.com/batonrun/baton/runtime/queue"
	"github.com/batonrun/baton/runtime/quota"
	"github.com/batonrun/baton/runtime/tail"
)

// Config configures an Engine. All fields must be set, except Link.
type Config struct {
	Store    data.Store
	Registry *host.Registry
	Log      *slog.Logger
	Instance string // this process's id in the database
	Logs     *tail.Logs
	Feeds    *monitor.Feeds
	Link     *bus.Link     // to the other servers of the database
	Commits  commit.Config // the engine sets Live, Queued, Show and Lost
	Measures observe.Measures
	Tracer   observe.Tracer // nil traces nothing

	Limits
	Accounts  bool      // there are users: each has a share of a limit on all
	Caps      data.Caps // over all instances of a cluster; zero without one
	NoPrompts bool      // what models are sent and answer is not stored

	Identity fleet.Identity
	// Offered is called with the current registry once it was replaced.
	Offered func(*host.Registry)
	// Revoked is called when another server may have revoked the credentials that were reports. It may be nil.
	Revoked func(ctx context.Context, were func(credential string) bool)

	// Attachment opens an attachment of a user of a project; nil when there are none.
	Attachment func(ctx context.Context, project, user, bucket, path string) (data.Attachment, io.ReadCloser, error)
	Results    exec.Results // nil leaves all results in the log
}

// Limits are the limits on runs. A zero field means its default.
type Limits struct {
	Runs           int // runs at once in this process, default one per MiB of memory, at most 10 000
	RunsPerAgent   int // runs at once of one agent or workflow, 0 means no cap of its own
	RunsPerProject int // runs at once of one project; with accounts 0 means three quarters of Runs
	RunsPerUser    int // runs at once of one user; with accounts 0 means half of Runs
	RunEvents      int // events of one run between two answers of its client, 0 for no limit
	EventBytes     int // an event that a worker emits, default and at most 8 MB, at least 64 KiB
	FrameBytes     int // the most that an event may hold, default 8 MB, which is the clients' limit; only tests set less
	StateBytes     int // a thread's state, default and at most 4 MiB
	DeletedAtOnce  int // rows of a thread or a run that one transaction removes, default DeletedAtOnce
	MaxAttempts    int // claims after a crash until a run fails as crash_loop, default 3

	// Memory of running runs. Inputs and messages of a run up to LightBytes are not counted.
	RunsBytes    int64 // total input, default a 16th of the memory, 48 MiB at most; one run alone may exceed it
	RunsMessages int64 // total messages, default an 8th of the memory
	RunMessages  int64 // messages of one run, with tool results and outputs counted twice, default 64 MiB
	LightBytes   int   // default 64 KiB; only tests set less

	Budgets []data.Budget // what model calls may use
	Prices  data.Prices   // by which the costs of model calls are computed

	StepTimeout     time.Duration // one execution of a node, default 10 min
	RunTimeout      time.Duration // one generation of a run, default 1 h
	ToolTimeout     time.Duration // one call of a tool, default 2 min
	ApprovalTimeout time.Duration // until an unanswered approval is refused, default 30 days
	Grace           time.Duration // time for a worker or tool to return after its context is done, default 5 s
	AgentGone       time.Duration // in a cluster, time without a server that may execute a run until the run fails, default 15 min
	Drain           time.Duration // time for running runs to end at Shutdown, default 30 s
	Calm            time.Duration // see suspects, default 30 s; tests set less, or a negative one for no suspects
}

// DeletedAtOnce is the default of Limits.DeletedAtOnce. The commits of runs wait for each transaction, whose rows may be large.
const DeletedAtOnce = 100

// maxState limits the STATE_SNAPSHOT of a thread to the size of an event.
const maxState = 4 << 20

// WithDefaults returns l with its defaults. accounts says whether there are users.
func WithDefaults(l Limits, accounts bool) Limits {
	if l.Runs == 0 {
		l.Runs = queue.Carried()
	}
	if accounts {
		l.RunsPerUser = cmp.Or(l.RunsPerUser, l.Runs-l.Runs/2) // rounded up, because Runs may be small
		l.RunsPerProject = cmp.Or(l.RunsPerProject, l.Runs-l.Runs/4)
	}
	l.FrameBytes = cmp.Or(l.FrameBytes, tail.MaxEvent)
	l.EventBytes = min(max(cmp.Or(l.EventBytes, tail.MaxEvent), tail.LeastEvent), l.FrameBytes)
	l.StateBytes = min(cmp.Or(l.StateBytes, maxState), maxState)
	l.DeletedAtOnce = cmp.Or(l.DeletedAtOnce, DeletedAtOnce)
	l.MaxAttempts = cmp.Or(l.MaxAttempts, 3)
	if l.RunsBytes == 0 {
		l.RunsBytes = queue.CarriedBytes()
	}
	if l.RunsMessages == 0 {
		l.RunsMessages = queue.SaidBytes()
	}
	l.RunMessages = cmp.Or(l.RunMessages, 64<<20)
	l.LightBytes = cmp.Or(l.LightBytes, 64<<10)
	l.StepTimeout = cmp.Or(l.StepTimeout, 10*time.Minute)
	l.RunTimeout = cmp.Or(l.RunTimeout, time.Hour)
	l.ToolTimeout = cmp.Or(l.ToolTimeout, 2*time.Minute)
	l.ApprovalTimeout = cmp.Or(l.ApprovalTimeout, 30*24*time.Hour)
	l.Grace = cmp.Or(l.Grace, 5*time.Second)
	l.AgentGone = cmp.Or(l.AgentGone, 15*time.Minute)
	l.Drain = cmp.Or(l.Drain, 30*time.Second)
	l.Calm = cmp.Or(l.Calm, 30*time.Second)
	return l
}

// Engine executes the runs of this process. Create it with New, then call Begin, and Shutdown at the end.
type Engine struct {
	cfg     Config
	store   data.Store
	log     *slog.Logger
	Offers  *offer.Offers
	Answers answer.Checker
	shared  bool // other instances write the database too
	runs    runs
	Budget  *budget.Ledger
	Queue   *queue.Queue
	Fleet   *fleet.Fleet
	link    *bus.Link // nil without a bus
	Commits *commit.Queue
	exec    *exec.Config // of the runs at work

	fences   atomic.Int64 // commits refused because another instance has the database
	repaired atomic.Int64 // see RepairQueue

	abandoned  context.Context // done when waiting is pointless: Shutdown's limit passed, or fenced
	abandon    context.CancelCauseFunc
	tasks      sync.WaitGroup // the commit queue, the queue of runs, expiry, and functions passed to Go
	quit       chan struct{}
	stopping   atomic.Bool // quit is closed, or about to be
	fence      sync.Once   // closes fenced
	fenced     chan struct{}
	committing atomic.Bool // the queue is at work

	handing     atomic.Bool  // runs are handed over to another instance
	shown       atomic.Int64 // see Show
	drained     atomic.Bool  // drain has returned
	searchUntil atomic.Int64 // until when orphans are looked for often, because an instance has ended

	successor successor
	expiry    expiry

	unsharedAt atomic.Int64 // the second in which logUnshared last logged
}

// New compiles the registry's workflows and tool schemas.
func New(cfg Config) (*Engine, error) {
	en := &Engine{
		cfg: cfg, store: cfg.Store, log: cfg.Log, link: cfg.Link, shared: cfg.Store.Shared(), runs: runs{live: make(map[int64]*exec.Live)},
		quit: make(chan struct{}), fenced: make(chan struct{}),
	}
	en.successor.en, en.expiry.en = en, en
	var err error
	en.Offers, err = offer.New(cfg.Registry, cfg.Identity.Role == fleet.Gateway, cfg.Log, func() {
		cfg.Offered(en.Offers.Plugins())
		en.Queue.Wake(false)
	})
	if err != nil {
		return nil, err
	}
	en.Answers = answer.Checker{Offers: en.Offers, FrameBytes: cfg.FrameBytes}
	en.Budget, err = budget.New(cfg.Store.Budgets(), en.shared, cfg.Instance, cfg.Budgets, cfg.Prices)
	if err != nil {
		return nil, err
	}
	en.abandoned, en.abandon = context.WithCancelCause(context.Background())
	en.Fleet = fleet.New(en.abandoned, fleet.Config{
		Shared: en.shared, Members: cfg.Store.Members(), Queue: cfg.Store.Queue(), Store: cfg.Store, Instance: cfg.Instance, Identity: cfg.Identity, Log: cfg.Log, Link: cfg.Link, Gone: cfg.AgentGone,
		Plugins: en.Offers.Plugins, Load: en.load, Stopping: en.Stopping, Wake: func() { en.Queue.Wake(false) },
	})
	begins := queue.Config{
		Store: cfg.Store, Rows: cfg.Store.Queue(), Runs: dispatcher{en}, Link: cfg.Link, Quit: en.quit, Gateway: cfg.Identity.Role == fleet.Gateway, Unshared: en.logUnshared,
		Slots: quota.Limits{Total: int64(cfg.Runs), PerProject: int64(cfg.RunsPerProject), PerUser: int64(cfg.RunsPerUser)}, PerAgent: cfg.RunsPerAgent,
		OwnLimit: en.Offers.Concurrency, Asked: quota.Limits{Total: cfg.RunsBytes, PerUser: queue.Shares(cfg.RunsBytes, cfg.Accounts).PerUser}, Said: queue.Shares(cfg.RunsMessages, cfg.Accounts),
		LightBytes: cfg.LightBytes, Caps: cfg.Caps,
	}
	if en.shared {
		begins.Servers = en.Fleet
	}
	en.Queue = queue.New(begins)
	cfg.Commits.Live, cfg.Commits.Show, cfg.Commits.Lost = en.runs.count, en.show, en.lost
	cfg.Commits.Queued = en.Queue.Queued
	en.Commits = commit.New(cfg.Commits)
	en.exec = &exec.Config{
		Engine: dispatcher{en}, Store: cfg.Store, Signal: cfg.Store.Queue().Signal, Commits: en.Commits, Queue: en.Queue, Budget: en.Budget, Logs: cfg.Logs, Offers: en.Offers, Log: cfg.Log,
		Measures: cfg.Measures, Tracer: cmp.Or(cfg.Tracer, observe.Untraced()), Unshared: en.logUnshared, Abandoned: en.abandoned,
		Instance: cfg.Instance, Shared: en.shared, Caps: cfg.Caps, NoPrompts: cfg.NoPrompts, Prices: cfg.Prices,
		RunEvents: cfg.RunEvents, EventBytes: cfg.EventBytes, FrameBytes: cfg.FrameBytes, StateBytes: cfg.StateBytes, MaxAttempts: cfg.MaxAttempts, RunMessages: cfg.RunMessages,
		StepTimeout: cfg.StepTimeout, RunTimeout: cfg.RunTimeout, ToolTimeout: cfg.ToolTimeout, ApprovalTimeout: cfg.ApprovalTimeout, Grace: cfg.Grace,
		Attachment: cfg.Attachment, Results: cfg.Results,
	}
	return en, nil
}

func (en *Engine) load() fleet.Load {
	l := fleet.Load{Running: en.runs.count(), Free: max(en.Queue.Free(), 0), Queued: en.Queue.Queued("", "").All, Deaf: en.link.Stats().Deaf}
	if en.cfg.Identity.Role == fleet.Gateway || en.Stopping() {
		l.Free = 0
	}
	return l
}

// Append decides a message to a run. An executing run receives it with its next Next.
func (en *Engine) Append(of quota.Owner, cmd *decide.Append) (*decide.Decided, error) {
	it := &commit.Item{Owner: of, Command: cmd, Bytes: cmd.Size, Then: func(out *decide.Decided) {
		if l := en.runs.of(cmd.Run); l == nil {
			en.link.Hint(bus.Inbox, cmd.Run)
		} else if out.Message == cmd.Message.ID {
			l.Inbox.Add(1)
		}
	}}
	return ask(en, it, nil)
}

// SendEvent decides a signal to a run. A node of an executing run that waits for it goes on.
func (en *Engine) SendEvent(of quota.Owner, cmd *decide.SendEvent) (*decide.Decided, error) {
	it := &commit.Item{Owner: of, Command: cmd, Bytes: len(cmd.Payload), Then: func(*decide.Decided) {
		if l := en.runs.of(cmd.Run); l != nil {
			l.Signal()
		} else {
			en.link.Hint(bus.Signal, cmd.Run)
		}
	}}
	return ask(en, it, nil)
}

// Go runs f, for which Shutdown waits.
func (en *Engine) Go(f func()) { en.tasks.Go(f) }

// Begin starts the commit queue, takes over the runs of earlier instances, and then starts to claim queued runs. The
// instance must have joined the database.
func (en *Engine) Begin(ctx context.Context) error {
	en.committing.Store(true)
	en.tasks.Go(func() { en.Commits.Run(en.abandoned) })
	retry := func(read func() error) error {
		_, err := commit.RetryUnavailable(ctx, func() (none struct{}, err error) { return none, read() })
		return err
	}
	if err := retry(func() error { return en.Budget.Load(ctx, "", time.Now()) }); err != nil {
		return fmt.Errorf("read what was spent: %w", err)
	}
	if en.shared {
		if err := retry(func() error { return errors.Join(en.Fleet.Meet(ctx), en.Fleet.Introduce(ctx)) }); err != nil {
			return fmt.Errorf("meet the other servers: %w", err)
		}
	}
	if err := en.successor.recover(ctx); err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	if err := retry(func() error { return en.Queue.Count(ctx) }); err != nil {
		return fmt.Errorf("count the queue: %w", err)
	}
	en.successor.suspects.since = time.Now()
	en.Queue.Look(en.abandoned) // so that new runs know of those that wait
	en.tasks.Go(func() { en.Queue.Run(en.abandoned) })
	en.tasks.Go(en.expiry.expire)
	en.tasks.Go(alarm{en}.ring)
	if !en.shared {
		en.tasks.Go(en.successor.takeSuspects)
	} else {
		en.Fleet.Connect(func(kind bus.Kind, most int) []int64 {
			if kind == bus.Watch {
				return en.cfg.Feeds.Changes.Watched(most)
			}
			return en.cfg.Logs.Wanted(most)
		})
		en.tasks.Go(en.watch)
		en.tasks.Go(en.successor.share)
		en.tasks.Go(en.successor.deleteRest)
		en.tasks.Go(en.look)
	}
	return nil
}

// Fenced is closed when this instance can write no more because another instance has taken its place.
func (en *Engine) Fenced() <-chan struct{} { return en.fenced }

// Shutdown stops claiming, lets live runs end for Config.Drain or until ctx is done, then releases the others. In a cluster it hands
// live runs over meanwhile. It returns when all emitted events are stored, and false when it was called before.
func (en *Engine) Shutdown(ctx context.Context) bool {
	if en.stopping.Swap(true) {
		return false
	}
	en.Commits.Drain()
	close(en.quit)
	if en.shared && en.committing.Load() {
		en.tasks.Go(func() { _ = en.store.Members().LeaveDuties(en.abandoned) }) // others take them at the latest when the instance has left
	}

	drained := make(chan struct{})
	go func() { // ends when the last live run was settled
		defer close(drained)
		if en.committing.Load() {
			_ = en.Commits.Flush() // earlier claims have been decided, and later ones see that the engine stops
		}
		en.runs.executing.Wait()
	}()
	limit, cancel := context.WithTimeout(ctx, en.cfg.Drain)
	defer cancel()
	en.drain(limit, drained)
	en.drained.Store(true)
	for _, l := range en.runs.all() {
		l.Release()
	}
	grace := time.AfterFunc(en.cfg.Grace, func() { en.abandon(commit.ErrStopping) })
	defer grace.Stop()
	select {
	case <-drained:
	case <-en.abandoned.Done():
	}
	en.Commits.Finish()
	en.tasks.Wait()
	en.Fleet.Disconnect()
	en.log.Info("drained", "released", en.exec.Counts.Released.Load())
	return true
}

// Abandon ends the contexts of workers that have not returned. The engine no longer waits for them.
func (en *Engine) Abandon() { en.abandon(commit.ErrStopping) }

// executes reports whether an instance executes a run of the thread after a decision about it.
func executes(instance string, out *decide.Decided) bool {
	return slices.ContainsFunc(out.Open, func(r data.RunHead) bool { return r.Status == data.Running && r.Owner == instance })
}

// show delivers committed items to readers.
func (en *Engine) show(batch []*commit.Item) {
	for _, it := range batch {
		if it.Out != nil && it.Out.Thread != 0 {
			en.Queue.Note(it.Out)
		}
	}
	for _, it := range batch {
		if it.Err != nil && (it.Out == nil || !it.Out.Gone) {
			continue
		}
		thread, rows := it.Thread, it.Rows
		var change *tail.Change
		if out := it.Out; out != nil {
			thread, rows = cmp.Or(thread, out.Thread), out.Rows
			change = &tail.Change{Busy: out.Busy(), Here: executes(en.cfg.Instance, out), Void: out.Void, Removed: out.Removed != nil, Gone: out.Gone}
		}
		for _, row := range rows {
			switch row := row.(type) {
			case *data.Raise:
				en.Budget.Raise(row)
			case *data.Interrupt:
				if row.ExpiresAt != nil {
					en.expiry.expiresAt(*row.ExpiresAt)
				}
			}
		}
		en.cfg.Logs.Deliver(thread, it.Records, rows, change)
		en.link.News(thread)
		if _, released := it.Command.(*decide.Release); released && it.Out != nil && it.Out.Run.Status == data.Running {
			en.link.HintAll(bus.Orphans)
		}
		if out := it.Out; out != nil && out.Removed != nil {
			en.cfg.Feeds.Forget(out.Project, out.User, out.Name, out.Removed.RunKey)
		}
		if out := it.Out; out != nil && (len(out.Rows) > 0 || out.Gone) {
			en.cfg.Feeds.Changes.Tell(out.Project, out.User)
			if en.shared {
				for _, list := range monitor.ListKeys(out.Project, out.User) {
					en.link.Changed(list)
				}
			}
		}
	}
}

// lost is called once the queue has given up. Live runs stop: another instance owns their logs now.
func (en *Engine) lost(err error) {
	en.log.Error("this instance may not write any more", "error", err)
	for _, l := range en.runs.all() {
		l.Drop(err)
	}
	if errors.Is(err, data.ErrFenced) {
		en.fences.Add(1)
		en.abandon(err)
		en.fence.Do(func() { close(en.fenced) })
	}
}
