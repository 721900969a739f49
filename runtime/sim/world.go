package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/model"
)

// world is one history in progress: a database, the processes that serve it one after the other, and the observations.
// It runs in a synctest bubble, so pauses cost nothing and end in the order of their lengths, which depend on the seed.
type world struct {
	h      *History
	db     *database
	ledger *ledger
	began  time.Time
	ctx    context.Context
	stop   context.CancelFunc
	others sync.WaitGroup // readers and ending processes
	shift  chan struct{}  // semaphore for changing the serving process

	slow   bool        // one caller at a time, and workers without a deadline
	spoilt atomic.Bool // the database has refused data of some run

	mu       sync.Mutex    // guards the fields below
	cur      *process      // the serving process; nil between two
	ready    chan struct{} // closed once cur is set
	all      []*process
	commits  int
	reads    int
	naps     map[string]int
	skew     time.Duration
	gate     chan struct{} // closed to release staying workers
	calm     bool          // no more faults
	findings []Finding
	notes    []string
	replies  []*reply
	readings []*reading
	retired  []retirement
}

// Finding is a broken rule.
type Finding struct {
	Rule   Rule
	Detail string
}

// process is one server process, until it is killed, fenced or stopped.
type process struct {
	w      *world
	n      int
	store  model.Store
	rt     *runtime.Runtime
	dead   atomic.Bool   // killed
	unsure atomic.Bool   // it has stored a batch without knowing, and does not show it yet
	up     chan struct{} // closed when it has started or failed to

	ctx  context.Context // done when its clients are disconnected
	gone context.CancelFunc
}

func (p *process) String() string { return fmt.Sprint("process ", p.n) }

func newWorld(h *History, db *database) *world {
	w := &world{
		h: h, db: db,
		began: time.Now(), naps: make(map[string]int), ready: make(chan struct{}), shift: make(chan struct{}, 1), gate: make(chan struct{}),
	}
	w.ctx, w.stop = context.WithCancel(context.Background())
	w.ledger = newLedger(w)
	return w
}

func (w *world) find(rule Rule, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := Finding{rule, fmt.Sprintf(format, args...)}
	w.findings = append(w.findings, f)
	w.notes = append(w.notes, fmt.Sprintf("%9s  !! %s: %s", w.now(), f.Rule, f.Detail))
}

// note adds a line to the story.
func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, fmt.Sprintf("%9s  %s", w.now(), fmt.Sprintf(format, args...)))
}

func (w *world) now() string { return time.Since(w.began).Round(time.Microsecond).String() }

// dbNow returns the database's clock, in milliseconds.
func (w *world) dbNow() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.skew).Truncate(time.Millisecond)
}

// stays returns a channel that releases staying workers.
func (w *world) stays() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gate
}

// patience is the limit for waiting.
func (w *world) patience(d time.Duration) time.Duration {
	if w.slow {
		return d * 3600
	}
	return d
}

func (w *world) sleep(d time.Duration) {
	<-time.After(d) // the bubble's time passes when all goroutines wait
}

// nap pauses for some hundred microseconds, which depend on the seed, the key and the number of its pauses.
func (w *world) nap(at ...any) {
	what := fmt.Sprint(at...)
	w.mu.Lock()
	w.naps[what]++
	n := w.naps[what]
	w.mu.Unlock()
	sum := fnv.New64a()
	_, _ = fmt.Fprint(sum, w.h.Seed, what, n)
	x := sum.Sum64()
	x ^= x >> 29
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 32
	w.sleep(time.Microsecond + time.Duration(x%400_000))
}

// nextCommit numbers a commit and returns its fault.
func (w *world) nextCommit() (int, Trouble) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.commits++
	return w.commits, w.trouble(func(f *Fault) bool { return f.Commit == w.commits })
}

// nextRead numbers a read and returns its fault.
func (w *world) nextRead() (int, Trouble) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads++
	return w.reads, w.trouble(func(f *Fault) bool { return f.Read == w.reads })
}

func (w *world) trouble(is func(*Fault) bool) Trouble {
	for i := range w.h.Faults {
		if f := &w.h.Faults[i]; !w.calm && is(f) {
			return f.Trouble
		}
	}
	return ""
}

// serve starts a process that takes over the database. Like a supervisor it retries, up to a limit. The caller holds
// w.shift.
// none will start. w.shift is held.
func (w *world) serve() (err error) {
	for range 5 {
		var p *process
		if p, err = w.boot(); err != nil {
			w.note("%s does not start: %v", p, err)
			if errors.Is(err, model.ErrUnavailable) && !p.dead.Load() {
				w.find(RuleStart, "%s did not wait for the database: %v", p, err)
			}
			w.end(p)
			continue
		}
		w.mu.Lock()
		old := w.cur
		w.cur = p
		if old == nil {
			close(w.ready)
		}
		w.mu.Unlock()
		w.note("%s serves", p)
		if p.dead.Load() {
			w.retire(p)
			continue
		}
		return nil
	}
	w.find(RuleStart, "no server starts: %v", err)
	w.stop()
	return err
}

// end waits for a process's goroutines and ignores their errors.
func (w *world) end(p *process) {
	p.gone()
	if p.rt != nil {
		w.others.Go(func() { _ = p.rt.Shutdown(context.Background()) })
	}
}

func (w *world) boot() (*process, error) {
	w.mu.Lock()
	p := &process{w: w, n: len(w.all) + 1, up: make(chan struct{})}
	p.ctx, p.gone = context.WithCancel(w.ctx)
	w.all = append(w.all, p)
	w.mu.Unlock()
	defer close(p.up)
	var err error
	if p.store, err = w.db.open(w); err != nil {
		return p, err
	}
	reg := new(host.Registry)
	if err := reg.Add(p.plugs()...); err != nil {
		return p, err
	}
	cfg := runtime.Config{
		Store: &faulty{Store: p.store, w: w, p: p}, Registry: reg, Takeover: true, Log: slog.New(slog.DiscardHandler),
		StepTimeout: w.patience(600 * time.Millisecond), RunTimeout: w.patience(3 * time.Second), ToolTimeout: 200 * time.Millisecond,
		Grace: 100 * time.Millisecond, Drain: 150 * time.Millisecond, QueueDepth: w.h.Queue, Runs: w.h.Slots, RunEvents: w.h.Events, DeletedAtOnce: w.h.Parts,
	}
	w.h.Room.of(&cfg)
	p.rt, err = runtime.New(cfg)
	if err != nil {
		return p, err
	}
	err = p.rt.Start(w.ctx)
	return p, err
}

// server returns the serving process, waiting for one. It returns nil if none will start any more.
func (w *world) server() *process {
	for {
		w.mu.Lock()
		p, ready := w.cur, w.ready
		w.mu.Unlock()
		if p != nil {
			return p
		}
		select {
		case <-ready:
		case <-w.ctx.Done():
			return nil
		}
	}
}

// retire takes p out of service, if it serves.
func (w *world) retire(p *process) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cur != p {
		return false
	}
	w.cur, w.ready = nil, make(chan struct{})
	return true
}

// kill kills a process like kill -9 and starts another.
func (w *world) kill(p *process) {
	if p.dead.Swap(true) {
		return
	}
	w.note("%s is killed", p)
	p.gone()
	w.db.died(p.store)
	served := w.retire(p)
	w.others.Go(func() {
		w.shift <- struct{}{}
		defer func() { <-w.shift }()
		w.nap("boot")
		if served && w.serving() == nil {
			_ = w.serve()
		}
		<-p.up
		w.end(p)
	})
}

func (w *world) serving() *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cur
}

// restart stops the serving process and starts another.
func (w *world) restart() {
	w.shift <- struct{}{}
	defer func() { <-w.shift }()
	p := w.serving()
	if p == nil {
		return
	}
	w.note("%s stops", p)
	if err := p.rt.Shutdown(context.Background()); err != nil {
		w.find(RuleStart, "%s does not stop: %v", p, err)
	}
	p.gone()
	if w.retire(p) { // otherwise it was killed meanwhile
		_ = w.serve()
	}
}

// takeover starts another process beside the serving one.
func (w *world) takeover() {
	w.shift <- struct{}{}
	defer func() { <-w.shift }()
	p := w.serving()
	if p == nil {
		return
	}
	w.note("%s is replaced", p)
	if w.serve() != nil {
		return
	}
	w.others.Go(func() {
		w.sleep(20 * time.Second) // it may wait for an answer that never comes
		select {
		case <-p.rt.Fenced():
		default:
			if !p.dead.Load() {
				w.find(RuleFence, "%s has not noticed in twenty seconds that it was replaced", p)
			}
		}
		w.end(p)
	})
}
