package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/bus/bustest"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/sim/memory"
)

// servers are the processes of a history. They serve its database in so many places at the same time, and in each place one after the
// other.
type servers struct {
	*world
	db    *database
	bus   bustest.Memory // between those that serve at the same time
	shift chan struct{}  // semaphore for changing the serving processes

	mu    sync.Mutex    // guards the fields below
	cur   []*process    // the serving processes by their places; nil between two
	ready chan struct{} // closed once one serves
	all   []*process
}

func newServers(h *History, db *database) *servers {
	s := &servers{
		world: newWorld(h), db: db, shift: make(chan struct{}, 1), cur: make([]*process, max(h.Servers, 1)), ready: make(chan struct{}),
	}
	s.bus.Fault = s.busFault
	return s
}

// busFault returns what happens to a datagram. In a quarter of the histories all are lost.
func (s *servers) busFault() bustest.Fault {
	x := s.chance("bus")
	f := bustest.Fault{Lost: s.h.Seed%4 == 0 || x%20 == 0, Doubled: x%20 == 1}
	if x%20 < 5 {
		f.Delay = time.Duration(x % uint64(2*time.Second))
	}
	return f
}

// able is the label of the processes that execute runs. In a quarter of the histories of several processes the first one lacks it.
const able = "able"

func (p *process) able() bool { return p.place > 0 || p.w.h.allAble() }

func (h *History) allAble() bool { return !h.several() || h.Seed%4 != 1 }

// process is one server process, until it is killed, fenced or stopped.
type process struct {
	s        *servers
	w        *world
	n        int
	place    int
	store    data.Store
	rt       *runtime.Runtime
	instance string
	dead     atomic.Bool   // killed
	leaves   atomic.Bool   // it shuts down
	unsure   atomic.Bool   // it has stored a batch without knowing, and does not show it yet, or cannot store one
	stood    atomic.Bool   // it has stood still once, so that others may take it for dead
	up       chan struct{} // closed when it has started or failed to

	ctx  context.Context // done when its clients are disconnected
	gone context.CancelFunc

	mu      sync.Mutex    // guards the field below
	stopped chan struct{} // closed when it is woken; nil while it is awake
}

func (p *process) String() string { return fmt.Sprint("process ", p.n) }

// stop stops a process like SIGSTOP: its calls of the store wait.
func (p *process) stop() {
	p.stood.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped == nil {
		p.stopped = make(chan struct{})
	}
}

// wake continues a stopped process.
func (p *process) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped != nil {
		close(p.stopped)
		p.stopped = nil
	}
}

// anyStands reports whether a process stands still.
func (s *servers) anyStands() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.all, func(p *process) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.stopped != nil
	})
}

// awake waits while the process is stopped.
func (p *process) awake() {
	for {
		p.mu.Lock()
		stopped := p.stopped
		p.mu.Unlock()
		if stopped == nil {
			return
		}
		<-stopped
	}
}

// fenced reports whether the others have fenced the process, whether or not it has noticed.
func (p *process) fenced() bool {
	s, ok := p.store.(*memory.Store)
	return ok && s.Ended(p.instance)
}

// several reports whether processes serve the database at the same time.
func (w *world) several() bool { return w.h.several() }

func (s *servers) boots() {
	s.shift <- struct{}{}
	for place := range s.cur {
		if s.serve(place) != nil {
			break
		}
	}
	<-s.shift
}

// server returns a serving process, waiting for one. What it is for chooses among several. It returns nil if none will start any more.
func (s *servers) server(why ...any) *process {
	for {
		s.mu.Lock()
		ready := s.ready
		s.mu.Unlock()
		if all := s.serving(); len(all) > 0 {
			return all[s.choose(len(all), why)]
		}
		select {
		case <-ready:
		case <-s.ctx.Done():
			return nil
		}
	}
}

// serving returns the serving processes.
func (s *servers) serving() (all []*process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.cur {
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

// serve starts a process that serves in a place. Like a supervisor it retries, up to a limit. The caller holds s.shift.
func (s *servers) serve(place int) (err error) {
	for range 5 {
		var p *process
		if p, err = s.boot(place); err != nil {
			s.note("%s does not start: %v", p, err)
			if errors.Is(err, data.ErrUnavailable) && !p.dead.Load() {
				s.find(RuleStart, "%s did not wait for the database: %v", p, err)
			}
			s.end(p)
			continue
		}
		s.mu.Lock()
		s.cur[place] = p
		select {
		case <-s.ready:
		default:
			close(s.ready)
		}
		s.mu.Unlock()
		s.note("%s serves", p)
		if p.dead.Load() {
			s.retire(p)
			continue
		}
		if s.several() {
			s.others.Go(func() { s.replaceFenced(p) })
		}
		return nil
	}
	s.find(RuleStart, "no server starts: %v", err)
	s.stop()
	return err
}

// replaceFenced starts another process once the others have fenced one of several.
func (s *servers) replaceFenced(p *process) {
	select {
	case <-p.rt.Member.Fenced():
	case <-p.ctx.Done():
		return
	}
	if p.dead.Load() || !s.retire(p) {
		return
	}
	s.note("%s was fenced", p)
	if !p.stood.Load() {
		s.find(RuleFence, "%s was taken for dead, and has never stood still", p)
	}
	s.replace(p)
}

// replace starts another process in the place of one that has ended.
func (s *servers) replace(p *process) {
	p.gone()
	s.shift <- struct{}{}
	defer func() { <-s.shift }()
	s.nap("boot")
	if s.ctx.Err() == nil {
		_ = s.serve(p.place)
	}
	s.end(p)
}

func (s *servers) boot(place int) (*process, error) {
	s.mu.Lock()
	p := &process{s: s, w: s.world, n: len(s.all) + 1, place: place, up: make(chan struct{})}
	p.ctx, p.gone = context.WithCancel(s.ctx)
	s.all = append(s.all, p)
	s.mu.Unlock()
	defer close(p.up)
	var err error
	if p.store, err = s.db.open(s.ctx, p); err != nil {
		return p, err
	}
	reg := new(host.Registry)
	if err := reg.Add(p.plugs()...); err != nil {
		return p, err
	}
	stepTime, runTime := 600*time.Millisecond, 3*time.Second
	if s.several() {
		runTime += 3 * lease // a run may lose its server
	}
	if s.h.Uses("long", "half") > 0 {
		stepTime, runTime = 30*time.Second, runTime+30*time.Second
	}
	cfg := runtime.Config{
		Store: &faulty{Store: p.store, s: s, p: p}, Registry: reg, Log: slog.New(slog.DiscardHandler),
		QueueDepth: s.h.Queue,
		Limits: runtime.Limits{
			RunsBytes: 48 << 20, RunsMessages: 1 << 30, // not what this machine has
			StepTimeout: s.patience(stepTime), RunTimeout: s.patience(runTime), ToolTimeout: 200 * time.Millisecond,
			Grace: 100 * time.Millisecond, Drain: 150 * time.Millisecond, Runs: cmp.Or(s.h.Slots, 10_000), RunEvents: s.h.Events, DeletedAtOnce: s.h.Parts,
			RunsPerProject: s.h.PerProject, RunsPerUser: s.h.PerUser,
		},
	}
	if s.several() {
		cfg.Bus = s.bus.Join()
	}
	if p.able() {
		cfg.Identity.Labels = []string{able}
	}
	s.h.Room.of(&cfg)
	p.rt, err = runtime.New(cfg)
	if err != nil {
		return p, err
	}
	err = p.rt.Start(s.ctx)
	return p, err
}

// lease is the lease of processes that serve at the same time.
const lease = 6 * time.Second

// retire takes p out of service, if it serves.
func (s *servers) retire(p *process) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cur[p.place] != p {
		return false
	}
	s.cur[p.place] = nil
	if !slices.ContainsFunc(s.cur, func(p *process) bool { return p != nil }) {
		s.ready = make(chan struct{})
	}
	return true
}

// end waits for a process's goroutines and ignores their errors.
func (s *servers) end(p *process) {
	p.gone()
	p.wake()
	if p.rt != nil {
		s.others.Go(func() { _ = p.rt.Shutdown(context.Background()) })
	}
}

// kill kills a process like kill -9 and starts another. Of several, the others know of the death of each second one, whose machine
// is theirs.
func (s *servers) kill(p *process) {
	if p.dead.Swap(true) {
		return
	}
	s.note("%s is killed", p)
	p.gone()
	p.wake()
	if !s.several() || s.slow || (s.h.Seed+uint64(p.n))%2 == 0 {
		s.db.died(p.store)
	}
	served := s.retire(p)
	s.others.Go(func() {
		s.shift <- struct{}{}
		defer func() { <-s.shift }()
		s.nap("boot")
		if s.mayServe(p.place, served) {
			_ = s.serve(p.place)
		}
		<-p.up
		s.end(p)
	})
}

// mayServe reports whether a place is free for another process behind one that has served there.
func (s *servers) mayServe(place int, served bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return served && s.cur[place] == nil
}

// restart stops a serving process and starts another.
func (s *servers) restart(p *process) {
	s.shift <- struct{}{}
	defer func() { <-s.shift }()
	s.mu.Lock()
	serves := s.cur[p.place] == p
	if !s.several() {
		p = s.cur[0]
		serves = p != nil
	}
	s.mu.Unlock()
	if !serves {
		return
	}
	s.note("%s stops", p)
	p.leaves.Store(true)
	if err := p.rt.Shutdown(context.Background()); err != nil && (!s.several() || !p.fenced()) {
		s.find(RuleStart, "%s does not stop: %v", p, err)
	}
	p.gone()
	if s.retire(p) { // otherwise it was killed meanwhile
		_ = s.serve(p.place)
	}
}

// pause stops one of several processes for a time, or until the channel is closed.
func (s *servers) pause(p *process, by time.Duration, until <-chan struct{}) {
	s.note("%s stands still for %v", p, by)
	p.stop()
	s.others.Go(func() {
		select {
		case <-until:
		case <-time.After(by):
		case <-s.calmed:
		}
		if !p.dead.Load() {
			s.note("%s goes on", p)
		}
		p.wake()
	})
}

// close ends all processes and readers.
func (s *servers) close() {
	s.endFaults()
	for _, p := range s.serving() {
		if p.rt != nil {
			s.end(p)
		}
	}
	s.stop()
	s.others.Wait()
	s.sleep(20 * time.Second) // the bubble's time ends with this goroutine, and there may be stalls
	for _, p := range s.all {
		if p.store != nil {
			_ = p.store.Close()
		}
	}
}
