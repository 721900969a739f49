// Package lease knows which runs belong to a connection. The Stop button of most clients is only a dropped
// connection: a run whose connection has been gone for a while is cancelled, unless its client came back.
//
// A run that waits for an answer belongs to nobody once its question was shown: people take their time, and answer
// from elsewhere. But a run that comes to wait when its connection is gone already has asked nobody: it is cancelled
// at the end of the grace like any other, or at once for a message that it would stand in the way of, unless somebody
// has answered it meanwhile.
package lease

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/batonrun/baton/runtime"
)

// Config holds what Leases need.
type Config struct {
	Runtime *runtime.Runtime
	Log     *slog.Logger
	Grace   time.Duration // what a dropped client has to come back to its run
}

// Leases are the ties of runs to connections.
type Leases struct {
	cfg Config

	tasks sync.WaitGroup // graces under way
	quit  chan struct{}  // closed by EndGraces

	mu      sync.Mutex // guards the fields below and those of Held
	held    map[threadName][]*Held
	stopped bool
}

// New returns Leases without one.
func New(cfg Config) *Leases {
	return &Leases{cfg: cfg, quit: make(chan struct{}), held: make(map[threadName][]*Held)}
}

type threadName struct{ project, user, id string }

// Peer is a connection that a run can belong to.
type Peer interface{ Gone() bool } // looks now, from any goroutine

// Held is a run's tie to a connection.
type Held struct {
	l       *Leases
	who     runtime.Caller
	started runtime.Started
	scope   string // of the request's Idempotency-Key
	peer    Peer
	early   bool               // of a repeat: it owns nothing yet, but will if the request that it repeats comes to hold the run
	grace   context.CancelFunc // ends the grace; nil while the connection's stream has the run
}

// StartRun is runtime.StartRun for doors that know connections. A run of the same user on the same thread
// whose connection is gone is cancelled first, without waiting for its client any longer: this is what its
// client, or another, wants now. If that run waits, it is only when req does not answer it. A repeat of the run's own
// request leaves it alone.
func (l *Leases) StartRun(ctx context.Context, who runtime.Caller, req runtime.StartRequest) (runtime.Started, error) {
	l.supersede(ctx, who, &req, false)
	started, err := l.cfg.Runtime.StartRun(ctx, who, req)
	if errors.Is(err, runtime.ErrThreadWaiting) && l.supersede(ctx, who, &req, true) {
		return l.cfg.Runtime.StartRun(ctx, who, req)
	}
	return started, err
}

// Hold ties the run that was started to the connection p, which owns it until Release or Drop. The answer to
// a repeated request takes over a run that belongs to a connection, and no other. Key is the request's
// Idempotency-Key, nil when it had none.
func (l *Leases) Hold(p Peer, who runtime.Caller, key *runtime.Idempotency, started runtime.Started) *Held {
	who = who.AsUser() // to whom the name of an own run never means another's
	h := &Held{l: l, who: who, started: started, peer: p}
	if key != nil {
		h.scope = key.Scope
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.find(h.thread(), started.RunKey)
	switch {
	case l.stopped:
		return h
	case old == nil:
		h.early = started.Replayed
	case old.early && !started.Replayed:
		old.early = false
		return h
	default:
		h.early = old.early
		l.forget(old)
	}
	l.held[h.thread()] = append(l.held[h.thread()], h)
	return h
}

// Late is for the requests of clients whose runs belong to their connections: what begins after its client was told that nobody
// knows belongs to one that is gone.
func (l *Leases) Late(who runtime.Caller, key *runtime.Idempotency) func(runtime.Started) {
	return func(started runtime.Started) {
		h := l.Hold(gone{}, who, key, started)
		cur, err := l.cfg.Runtime.ReadRun(context.Background(), started)
		if err != nil {
			h.Release()
			return
		}
		h.Drop(cur)
	}
}

// gone is the connection of a client that waits no longer.
type gone struct{}

func (gone) Gone() bool { return true }

// Detach unties the run that was started, so that only cancel ends it.
func (l *Leases) Detach(who runtime.Caller, started runtime.Started) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := l.find(threadName{who.Project(), who.User(), started.ThreadID}, started.RunKey); old != nil {
		l.forget(old)
	}
}

// Join unties the runs of the thread whose connection is gone: a client of the same user has joined it, so that
// only cancel ends them. Runs whose connection is there stay tied to it.
func (l *Leases) Join(who runtime.Caller, th *runtime.Thread) {
	if who.User() != th.User {
		return
	}
	l.mu.Lock()
	all := slices.Clone(l.held[threadName{th.Project, th.User, th.ID}])
	l.mu.Unlock()
	for _, h := range all {
		if h.peer.Gone() {
			h.Release()
		}
	}
}

// Release unties the run: it is over, or goes on by itself. A nil Held ties nothing.
func (h *Held) Release() {
	if h == nil {
		return
	}
	h.l.mu.Lock()
	defer h.l.mu.Unlock()
	h.l.forget(h)
}

// Drop says that the connection is gone: the run is cancelled after the grace, unless it ends or is answered, or
// another connection takes it over before. It takes over cur, at whatever event it stands, and returns at once.
func (h *Held) Drop(cur *runtime.RunCursor) {
	if h == nil {
		cur.Close()
		return
	}
	l := h.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped || h.early || l.find(h.thread(), h.started.RunKey) != h {
		l.forget(h)
		cur.Close()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.cfg.Grace)
	h.grace = cancel
	l.tasks.Go(func() { // ends with the grace
		defer cancel()
		defer cur.Close()
		h.wait(ctx, cur)
	})
}

// wait cancels the run if the grace passes before it ends or is answered. While the database is away it tries again.
func (h *Held) wait(ctx context.Context, cur *runtime.RunCursor) {
	err := error(nil)
	for err == nil {
		_, err = cur.Next(ctx)
	}
	if errors.Is(err, io.EOF) && !h.unanswered(ctx, cur) {
		h.Release()
		return
	}
	<-ctx.Done()
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) { // it was untied
		return
	}
	for h.cancel(context.Background(), false) || h.cancel(context.Background(), true) {
		select {
		case <-h.l.quit:
			return
		case <-time.After(again):
		}
	}
	h.Release()
}

// again is the pause before a run is cancelled that could not be.
const again = time.Second

// unanswered reports whether the run, whose span has ended, may wait since then.
func (h *Held) unanswered(ctx context.Context, cur *runtime.RunCursor) bool {
	run, err := h.l.cfg.Runtime.Run(ctx, h.who, h.started.RunID)
	return err != nil || run.Status == runtime.Waiting && run.ClosedEvent == cur.After()
}

// cancel cancels the run and unties it, unless it was untied: while it does what its request began, or, with waiting, while it
// waits for an answer to that. A run that does otherwise stays tied, for its stream or its grace to see what has become of it. It
// reports whether the runtime could not cancel now.
func (h *Held) cancel(ctx context.Context, waiting bool) (later bool) {
	h.l.mu.Lock()
	tied := h.l.find(h.thread(), h.started.RunKey) == h
	h.l.mu.Unlock()
	if !tied {
		return false
	}
	cancel := h.l.cfg.Runtime.CancelTurn
	if waiting {
		cancel = h.l.cfg.Runtime.CancelUnanswered
	}
	err := cancel(ctx, h.who, h.started)
	if refusal, refused := errors.AsType[*runtime.Error](err); refused {
		return refusal.Kind == runtime.KindUnavailable
	}
	if err != nil {
		h.l.cfg.Log.Error("cannot cancel the run of a client that left", "run", h.started.RunID, "thread", h.started.ThreadID,
			"user", h.who.User(), "project", h.who.Project(), "error", err)
	}
	h.Release()
	return false
}

// supersede cancels the runs in whose stead req is made: those that are under way, or with waiting those that wait, unless their
// stream is about to show what they ask. It reports whether there were any.
func (l *Leases) supersede(ctx context.Context, who runtime.Caller, req *runtime.StartRequest, waiting bool) (some bool) {
	l.mu.Lock()
	var others []*Held
	for _, h := range l.held[threadName{who.Project(), who.User(), req.ThreadID}] {
		if !h.early && (!waiting || h.grace != nil) && !h.repeated(req) {
			others = append(others, h)
		}
	}
	l.mu.Unlock()
	for _, h := range others {
		if h.peer.Gone() {
			_ = h.cancel(ctx, waiting) // what cannot be done now req is not accepted for either
			some = true
		}
	}
	return some
}

// Grace is what a dropped client has to come back to its run.
func (l *Leases) Grace() time.Duration { return l.cfg.Grace }

// EndGraces unties all runs, and those to come: a server that stops cancels none.
func (l *Leases) EndGraces() {
	l.mu.Lock()
	if !l.stopped {
		close(l.quit)
	}
	l.stopped = true
	for _, all := range l.held {
		for _, h := range slices.Clone(all) {
			l.forget(h)
		}
	}
	l.mu.Unlock()
	l.tasks.Wait()
}

// The functions below are called with l.mu held.

func (l *Leases) find(th threadName, run int64) *Held {
	for _, h := range l.held[th] {
		if h.started.RunKey == run {
			return h
		}
	}
	return nil
}

// forget unties h, if it is tied, and ends its grace.
func (l *Leases) forget(h *Held) {
	all := l.held[h.thread()]
	i := slices.Index(all, h)
	if i < 0 {
		return
	}
	if h.grace != nil {
		h.grace()
	}
	if all = slices.Delete(all, i, i+1); len(all) == 0 {
		delete(l.held, h.thread())
	} else {
		l.held[h.thread()] = all
	}
}

func (h *Held) thread() threadName {
	return threadName{h.who.Project(), h.who.User(), h.started.ThreadID}
}

// repeated reports whether req is the request that started the run, once more.
func (h *Held) repeated(req *runtime.StartRequest) bool {
	return req.RunID != "" && req.RunID == h.started.RunID ||
		h.scope != "" && req.Idempotency != nil && req.Idempotency.Scope == h.scope
}
