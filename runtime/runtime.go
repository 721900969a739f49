// Package runtime is Baton's engine for transports and embedders: a *Runtime runs agents and workflows, keeps one log
// per thread, and shows every event only after it was stored. A Store keeps the data.
//
// Four rules carry everything. Store, then show: a reader never sees an event that a crash could take back. Only the
// owner of a run writes its thread's log, and a lost owner is fenced in the database. A state row and the event that
// announces it are in one transaction, so REST never contradicts the stream. No reader can slow a run: readers wait
// for a wake-up and read from memory or the store.
//
// This package handles requests: it checks the caller's rights, refuses invalid requests, and prepares large or slow
// reads before a decision. Package decide resolves requests that race (cancel against finish, append against finish,
// equal idempotency keys) in the order of one commit queue; a request is prepared again when its data has changed by
// then. Each package below knows only some of those before it:
//
//	agui      events, and their legal order
//	fold      the messages and state that events add up to
//	data      stored rows, and the interface of the store
//	decide    the decisions on commands
//	tail      the live end of each log, and its readers
//	monitor   the activity of a project's runs, for viewers
//	commit    the queue of all writes
//	graph     the next nodes of a workflow
//	work      the execution of runs
package runtime

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/attach"
	"github.com/batonrun/baton/runtime/bus"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/exec"
	"github.com/batonrun/baton/runtime/monitor"
	"github.com/batonrun/baton/runtime/queue"
	"github.com/batonrun/baton/runtime/quota"
	"github.com/batonrun/baton/runtime/secrets"
	"github.com/batonrun/baton/runtime/tail"
	"github.com/batonrun/baton/runtime/work"
)

// Carried is how many runs this machine executes at once: the default of Limits.Runs.
func Carried() int { return queue.Carried() }

// CarriedBytes is the total input of those runs in bytes: the default of Limits.RunsBytes.
func CarriedBytes() int64 { return queue.CarriedBytes() }

// Memory is how many bytes this process may use: the limit of the machine, of its control group, or its own.
func Memory() int64 { return queue.Memory() }

// Limits are the limits on runs.
type Limits = work.Limits

// Config is the configuration of a Runtime. Store and Registry must be set; other zero fields mean the default.
type Config struct {
	Store    Store
	Registry *host.Registry
	Log      *slog.Logger // default slog.Default
	Addr     string       // where clients reach this instance, for the instances table

	Identity  Identity      // what the servers of a cluster tell each other
	Bus       bus.Bus       // tells other servers of the database soon what concerns them; without it they look four times a second
	Heartbeat time.Duration // between two checks of the instance's own lease, default 1 s

	// Revoked is called when another server may have revoked the credentials that were reports. It may be nil.
	Revoked func(ctx context.Context, were func(credential string) bool)

	Accounts bool // separate users: each sees only its own data unless its role allows more
	Audit    bool // record every change with its author

	Limits
	QueueDepth      int  // runs that may be QUEUED, default 10 000
	QueuePerThread  int  // runs of one thread that may be QUEUED, default 100
	QueuePerUser    int  // QUEUED runs of one user, 0 or less means no cap of its own
	QueuePerProject int  // QUEUED runs of one project, likewise
	MessageBytes    int  // new messages of one run, and messages that wait for a run, default 8 MB
	AppendBytes     int  // the text of an appended message, default 1 MiB
	NoPrompts       bool // what models are sent and answer is not stored; their calls are listed without it

	Patience      time.Duration // how long a request waits for its commit before it fails with outcome_unknown, default 10 s
	QueueRunBytes int           // events of one run that wait for a commit, in bytes, default 256 KiB
	QueueBytes    int           // the same for all runs, default 8 MiB
	BatchEvents   int           // events of one commit, default 1 000
	BatchBytes    int           // default 1 MiB

	RingEvents int // records a thread's ring keeps, default 1 024
	RingBytes  int // of them, as they are in memory, default 512 KiB
	RingsBytes int // of all threads, default 64 MiB
	PagesBytes int // large pages that readers hold from Store at a time, default 64 MiB; a quarter per project, with accounts an eighth per user

	Counter     data.Counter  // counts the results of runs; nil counts nothing
	Ledger      data.Ledger   // has the usage of model calls; nil has none
	Measures    Measures      // receives sizes and durations
	Tracer      Tracer        // receives nested operations; nil for none
	Attachments *attach.Files // stores uploaded files; nil when users cannot attach files
}

func (c Config) withDefaults() Config {
	c.Log = cmp.Or(c.Log, slog.Default())
	c.Heartbeat = cmp.Or(c.Heartbeat, time.Second)
	c.Patience = cmp.Or(c.Patience, 10*time.Second)
	c.Limits = work.WithDefaults(c.Limits, c.Accounts)
	c.QueueDepth = cmp.Or(c.QueueDepth, 10_000)
	c.QueuePerThread = cmp.Or(c.QueuePerThread, 100)
	c.MessageBytes = cmp.Or(c.MessageBytes, 8_000_000)
	c.AppendBytes = cmp.Or(c.AppendBytes, 1<<20)
	c.QueueRunBytes = cmp.Or(c.QueueRunBytes, 256<<10)
	c.QueueBytes = cmp.Or(c.QueueBytes, 8<<20)
	c.BatchEvents = cmp.Or(c.BatchEvents, 1000)
	c.BatchBytes = cmp.Or(c.BatchBytes, 1<<20)
	c.RingEvents = cmp.Or(c.RingEvents, 1024)
	c.RingBytes = cmp.Or(c.RingBytes, 512<<10)
	c.RingsBytes = cmp.Or(c.RingsBytes, 64<<20)
	c.PagesBytes = cmp.Or(c.PagesBytes, 64<<20)
	return c
}

// Runtime runs agents and keeps their logs. Create it with New, then call Start, and Shutdown at the end.
type Runtime struct {
	Runs    *Runs
	Threads *Threads
	Logs    *Logs
	Uploads *Uploads
	Views   *Views
	Secrets *secrets.Cache
	Member  *Member
	Prices  Prices // as configured

	cfg                     Config
	store                   data.ByProject
	ping                    func(context.Context) error
	newThreadKey, newRunKey func(context.Context) (int64, error)
	keyed                   keyed
	log                     *slog.Logger

	feeds   *monitor.Feeds
	work    *work.Engine
	commits *commit.Queue // the queue of work

	changing sync.Mutex // held while plugins are replaced or closed

	stopped context.Context // done when Shutdown was called
	stop    context.CancelFunc

	retirementLag atomic.Int64 // nanoseconds: see Stats.RetentionLag
}

// New checks cfg and compiles the registry's workflows and tool schemas.
func New(cfg Config) (*Runtime, error) {
	if cfg.Store == nil || cfg.Registry == nil {
		return nil, errors.New("runtime: Config.Store and Config.Registry must be set")
	}
	caps := data.Caps{}
	if cfg.Store.Shared() { // the defaults below are shares of this process
		caps = data.Caps{PerProject: cfg.RunsPerProject, PerUser: cfg.RunsPerUser}
	}
	cfg = cfg.withDefaults()
	rt := &Runtime{cfg: cfg, store: cfg.Store.ByProject(), ping: cfg.Store.Ping, newThreadKey: cfg.Store.NewThreadKey, newRunKey: cfg.Store.NewRunKey, log: cfg.Log, Prices: cfg.Prices}
	instance := data.NewID()
	link := bus.NewLink(cfg.Bus, instance, func() bool { return !rt.work.Fleet.OthersLive() })
	pages := int64(cfg.PagesBytes)
	logs := tail.New(tail.Config{
		Store: cfg.Store, RingEvents: cfg.RingEvents, RingBytes: cfg.RingBytes, RingsBytes: cfg.RingsBytes,
		LargePages: quota.Limits{Total: pages, PerProject: pages / 4, PerUser: queue.Shares(pages/4, cfg.Accounts).PerUser},
		EventBytes: cfg.FrameBytes, Shared: cfg.Store.Shared(), Wants: func(thread int64) { link.Hint(bus.Want, thread) }, Replayed: cfg.Measures.Replayed,
	})
	rt.keyed = keyed{cfg.Store, logs}
	searches := newSearches(cfg.Accounts)
	rt.Member = &Member{cfg: &rt.cfg, store: cfg.Store.Members(), Instance: instance}
	rt.Runs = &Runs{store: rt.store, keyed: rt.keyed, accounts: cfg.Accounts, searches: searches}
	rt.Threads = &Threads{store: rt.store, accounts: cfg.Accounts, searches: searches}
	rt.Secrets = secrets.New(cfg.Store.Saved())
	rt.Uploads = &Uploads{files: cfg.Attachments, secrets: rt.Secrets, member: rt.Member, runs: rt.Runs, log: cfg.Log}
	rt.Views = &Views{cfg.Store.Saved(), rt.Member}
	rt.feeds = monitor.New(cfg.Store, logs, agentNames(cfg.Registry))
	if cfg.Store.Shared() {
		rt.feeds.Changes.Wants = func(list int64) { link.Hint(bus.Watch, list) }
	}
	rt.stopped, rt.stop = context.WithCancel(context.Background())
	var err error
	var open func(context.Context, string, string, string, string) (data.Attachment, io.ReadCloser, error)
	var results exec.Results
	if cfg.Attachments != nil {
		open, results = cfg.Attachments.Open, cfg.Attachments
	}
	rt.work, err = work.New(work.Config{
		Attachment: open, Results: results,
		Store: cfg.Store, Registry: cfg.Registry, Log: cfg.Log, Instance: instance, Logs: logs, Feeds: rt.feeds, Link: link,
		Commits: commit.Config{
			Store: cfg.Store, Lease: cfg.Store.Members(), Log: cfg.Log, Gather: 10 * time.Millisecond, Interval: 2 * time.Millisecond,
			Heartbeat: cfg.Heartbeat, Patience: cfg.Patience,
			Committed: cfg.Measures.Committed,
			RunBytes:  cfg.QueueRunBytes, Bytes: cfg.QueueBytes, BatchEvents: cfg.BatchEvents, BatchBytes: cfg.BatchBytes,
		},
		Measures: cfg.Measures, Tracer: cfg.Tracer, Identity: cfg.Identity,
		Offered: func(all *host.Registry) { rt.feeds.SetAgents(agentNames(all)) },
		Revoked: cfg.Revoked,
		Limits:  cfg.Limits, Accounts: cfg.Accounts, Caps: caps, NoPrompts: cfg.NoPrompts,
	})
	if err != nil {
		return nil, err
	}
	rt.commits = rt.work.Commits
	rt.Member.work, rt.Member.commits = rt.work, rt.commits
	rt.Logs = &Logs{store: rt.store, keyed: rt.keyed, work: rt.work, frameBytes: cfg.FrameBytes}
	return rt, nil
}
