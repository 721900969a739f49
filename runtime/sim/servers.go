package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/data"
)

// servers are the processes of a history, which serve its database one after the other.
type servers struct {
	*world
	db    *database
	shift chan struct{} // semaphore for changing the serving process

	mu    sync.Mutex    // guards the fields below
	cur   *process      // the serving process; nil between two
	ready chan struct{} // closed once cur is set
	all   []*process
}

func newServers(h *History, db *database) *servers {
	return &servers{world: newWorld(h), db: db, shift: make(chan struct{}, 1), ready: make(chan struct{})}
}

// process is one server process, until it is killed, fenced or stopped.
type process struct {
	w      *world
	n      int
	store  data.Store
	rt     *runtime.Runtime
	dead   atomic.Bool   // killed
	unsure atomic.Bool   // it has stored a batch without knowing, and does not show it yet
	up     chan struct{} // closed when it has started or failed to

	ctx  context.Context // done when its clients are disconnected
	gone context.CancelFunc
}

func (p *process) String() string { return fmt.Sprint("process ", p.n) }

func (s *servers) boots() {
	s.shift <- struct{}{}
	_ = s.serve()
	<-s.shift
}

// server returns the serving process, waiting for one. It returns nil if none will start any more.
func (s *servers) server() *process {
	for {
		s.mu.Lock()
		p, ready := s.cur, s.ready
		s.mu.Unlock()
		if p != nil {
			return p
		}
		select {
		case <-ready:
		case <-s.ctx.Done():
			return nil
		}
	}
}

func (s *servers) serving() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cur
}

// serve starts a process that takes over the database. Like a supervisor it retries, up to a limit. The caller holds
// s.shift.
func (s *servers) serve() (err error) {
	for range 5 {
		var p *process
		if p, err = s.boot(); err != nil {
			s.note("%s does not start: %v", p, err)
			if errors.Is(err, data.ErrUnavailable) && !p.dead.Load() {
				s.find(RuleStart, "%s did not wait for the database: %v", p, err)
			}
			s.end(p)
			continue
		}
		s.mu.Lock()
		old := s.cur
		s.cur = p
		if old == nil {
			close(s.ready)
		}
		s.mu.Unlock()
		s.note("%s serves", p)
		if p.dead.Load() {
			s.retire(p)
			continue
		}
		return nil
	}
	s.find(RuleStart, "no server starts: %v", err)
	s.stop()
	return err
}

func (s *servers) boot() (*process, error) {
	s.mu.Lock()
	p := &process{w: s.world, n: len(s.all) + 1, up: make(chan struct{})}
	p.ctx, p.gone = context.WithCancel(s.ctx)
	s.all = append(s.all, p)
	s.mu.Unlock()
	defer close(p.up)
	var err error
	if p.store, err = s.db.open(s.ctx, s.dbNow); err != nil {
		return p, err
	}
	reg := new(host.Registry)
	if err := reg.Add(p.plugs()...); err != nil {
		return p, err
	}
	cfg := runtime.Config{
		Store: &faulty{Store: p.store, s: s, p: p}, Registry: reg, Takeover: true, Log: slog.New(slog.DiscardHandler),
		QueueDepth: s.h.Queue,
		Limits: runtime.Limits{
			StepTimeout: s.patience(600 * time.Millisecond), RunTimeout: s.patience(3 * time.Second), ToolTimeout: 200 * time.Millisecond,
			Grace: 100 * time.Millisecond, Drain: 150 * time.Millisecond, Runs: s.h.Slots, RunEvents: s.h.Events, DeletedAtOnce: s.h.Parts,
		},
	}
	s.h.Room.of(&cfg)
	p.rt, err = runtime.New(cfg)
	if err != nil {
		return p, err
	}
	err = p.rt.Start(s.ctx)
	return p, err
}

// retire takes p out of service, if it serves.
func (s *servers) retire(p *process) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cur != p {
		return false
	}
	s.cur, s.ready = nil, make(chan struct{})
	return true
}

// end waits for a process's goroutines and ignores their errors.
func (s *servers) end(p *process) {
	p.gone()
	if p.rt != nil {
		s.others.Go(func() { _ = p.rt.Shutdown(context.Background()) })
	}
}

// kill kills a process like kill -9 and starts another.
func (s *servers) kill(p *process) {
	if p.dead.Swap(true) {
		return
	}
	s.note("%s is killed", p)
	p.gone()
	s.db.died(p.store)
	served := s.retire(p)
	s.others.Go(func() {
		s.shift <- struct{}{}
		defer func() { <-s.shift }()
		s.nap("boot")
		if served && s.serving() == nil {
			_ = s.serve()
		}
		<-p.up
		s.end(p)
	})
}

// restart stops the serving process and starts another.
func (s *servers) restart() {
	s.shift <- struct{}{}
	defer func() { <-s.shift }()
	p := s.serving()
	if p == nil {
		return
	}
	s.note("%s stops", p)
	if err := p.rt.Shutdown(context.Background()); err != nil {
		s.find(RuleStart, "%s does not stop: %v", p, err)
	}
	p.gone()
	if s.retire(p) { // otherwise it was killed meanwhile
		_ = s.serve()
	}
}

// takeover starts another process beside the serving one.
func (s *servers) takeover() {
	s.shift <- struct{}{}
	defer func() { <-s.shift }()
	p := s.serving()
	if p == nil {
		return
	}
	s.note("%s is replaced", p)
	if s.serve() != nil {
		return
	}
	s.others.Go(func() {
		s.sleep(20 * time.Second) // it may wait for an answer that never comes
		select {
		case <-p.rt.Fenced():
		default:
			if !p.dead.Load() {
				s.find(RuleFence, "%s has not noticed in twenty seconds that it was replaced", p)
			}
		}
		s.end(p)
	})
}

// close ends all processes and readers.
func (s *servers) close() {
	s.endFaults()
	if p := s.serving(); p != nil && p.rt != nil {
		s.end(p)
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
