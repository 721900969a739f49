// Package ownership records which connection owns a run. The Stop button of most clients only drops the connection:
// a run is cancelled when its connection has been closed for the grace period, unless the client comes back.
//
// A run that waits for an answer loses its owner once its question was shown: people take their time, and answer from
// elsewhere. If the connection was closed before the question was shown, the run is cancelled at the end of the
// grace like any other, or at once when a new message would have to wait for it, unless it was answered before.
package ownership

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batonrun/baton/runtime"
)

// Config configures a Registry. All fields but Ties are required.
type Config struct {
	Runtime *runtime.Runtime
	Log     *slog.Logger
	Grace   time.Duration // how long a run outlives its connection
	Ties    Ties          // the ties of all servers; nil on a database of one server
}

// Registry holds the ties of runs to connections.
type Registry struct {
	cfg Config

	tasks sync.WaitGroup // the graces that have begun
	quit  chan struct{}  // closed by EndGraces

	mu      sync.Mutex // guards the fields below and those of Tie
	ties    map[threadName][]*Tie
	dropped time.Time // when this server last began a grace in the database
	stopped bool

	connections atomic.Int64 // the last one's number
	toldAt      atomic.Int64 // the second in which logShared last logged
}

// New returns an empty Registry.
func New(cfg Config) *Registry {
	g := &Registry{cfg: cfg, quit: make(chan struct{}), ties: make(map[threadName][]*Tie)}
	if cfg.Ties != nil {
		g.tasks.Go(g.cancelOverdue) // ends with EndGraces
	}
	return g
}

type threadName struct{ project, user, id string }

// Peer is a connection that can own a run. Gone checks the connection now, from any goroutine.
type Peer interface{ Gone() bool }

// Tie binds a run to the connection that owns it.
type Tie struct {
	reg         *Registry
	who         runtime.Caller
	started     runtime.Started
	scope       string // of the request's Idempotency-Key
	peer        Peer
	connection  string             // see data.RunTie
	provisional bool               // made for a repeat: it owns the run only once the original request ties it
	grace       context.CancelFunc // ends the grace; nil while the connection's stream shows the run
}

// Own makes the run of req belong to its connection, which has to be given to TieRun. If the run begins after its request was
// answered with outcome_unknown, the connection counts as closed.
func (g *Registry) Own(who runtime.Caller, req *runtime.StartRequest) {
	req.TiedTo = g.newConnection()
	key := req.Idempotency
	req.Late = func(started runtime.Started) {
		t := g.TieRun(gone{}, who, key, started)
		cur, err := g.cfg.Runtime.Logs.ReadRun(context.Background(), started)
		if err != nil {
			t.Release()
			return
		}
		t.Drop(cur)
	}
}

// newConnection returns the name of a new connection of this server.
func (g *Registry) newConnection() string {
	return g.cfg.Runtime.Member.Instance + "." + strconv.FormatInt(g.connections.Add(1), 10)
}

// gone is a closed connection.
type gone struct{}

func (gone) Gone() bool { return true }

// StartRun is runtime.StartRun for transports whose connections own runs. It cancels the runs of the same user and
// thread whose connection is closed, without the rest of their grace: the new request replaces them. A run that waits is
// cancelled only if req does not answer it. A repeat of a run's own request does not cancel it.
func (g *Registry) StartRun(ctx context.Context, who runtime.Caller, req runtime.StartRequest) (runtime.Started, error) {
	g.supersede(ctx, who, &req, false)
	if g.cfg.Ties != nil {
		req.MakeWay = func(ctx context.Context) bool { return g.supersedeShared(ctx, who, &req, false) }
	}
	for again := 2; ; again-- { // a run in the way may begin to wait meanwhile
		started, err := g.cfg.Runtime.StartRun(ctx, who, req)
		if again == 0 || !g.makeWay(ctx, who, &req, &started, err) {
			return started, err
		}
	}
}

// makeWay cancels runs that a start has met. It reports whether the start may succeed now. The ties of other servers are read only then,
// because few threads are busy.
func (g *Registry) makeWay(ctx context.Context, who runtime.Caller, req *runtime.StartRequest, started *runtime.Started, err error) bool {
	refusal, refused := errors.AsType[*runtime.Error](err)
	switch {
	case errors.Is(err, runtime.ErrThreadWaiting):
		here := g.supersede(ctx, who, req, true)
		return g.supersedeShared(ctx, who, req, true) || here
	case refused && (refusal.Kind == runtime.KindConflict || refusal.Kind == runtime.KindOverloaded):
		return g.supersedeShared(ctx, who, req, false)
	case err == nil && started.Status == runtime.Queued && g.supersedeShared(ctx, who, req, false): // its turn comes then
		g.supersedeShared(ctx, who, req, true)
	}
	return false
}

// TieRun makes the connection p own the run that was started, until Release, End or Drop. A repeated request takes over only a
// run that another connection owns. Key is the request's Idempotency-Key, nil if it had none.
func (g *Registry) TieRun(p Peer, who runtime.Caller, key *runtime.Idempotency, started runtime.Started) *Tie {
	who = who.AsUser() // so that a name always means a run of this user
	t := &Tie{reg: g, who: who, started: started, peer: p, connection: started.TiedTo}
	if key != nil {
		t.scope = key.Scope
	}
	if g.cfg.Ties != nil && !t.owns() {
		return t
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	old := g.find(t.thread(), started.RunKey)
	switch {
	case g.stopped:
		return t
	case old == nil:
		t.provisional = started.Replayed && g.cfg.Ties == nil
	case old.started.Replayed && !started.Replayed && started.After <= old.started.After: // the repeat was faster
		old.provisional = false
		return t
	default:
		t.provisional = started.Replayed && old.provisional
		g.remove(old)
	}
	g.ties[t.thread()] = append(g.ties[t.thread()], t)
	return t
}

// Detach removes the tie of the run that was started, so that only a cancel request ends it.
func (g *Registry) Detach(who runtime.Caller, started runtime.Started) {
	if started.Replayed && g.cfg.Ties != nil { // otherwise the commit of the request has done it
		g.untie(&runtime.Tie{RunKey: started.RunKey})
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if old := g.find(threadName{who.Project(), who.User(), started.ThreadID}, started.RunKey); old != nil {
		g.remove(old)
	}
}

// Join detaches the runs of the thread whose connection is closed, because a client of the same user has joined the thread.
// Open connections still own their runs.
func (g *Registry) Join(who runtime.Caller, th *runtime.Thread) {
	if who.User() != th.User {
		return
	}
	g.mu.Lock()
	all := slices.Clone(g.ties[threadName{th.Project, th.User, th.ID}])
	g.mu.Unlock()
	for _, t := range all {
		if t.peer.Gone() {
			t.Release()
		}
	}
	if g.cfg.Ties != nil {
		ctx, cancel := context.WithTimeout(context.Background(), tieTime)
		defer cancel()
		of := runtime.Tie{Project: th.Project, User: th.User, ThreadID: th.ID}
		g.logShared(g.cfg.Ties.Join(ctx, &of, th.Key, g.cfg.Runtime.Member.Instance))
	}
}

// Release removes the tie of a run that goes on, or waits, without an owner. A nil Tie does nothing.
func (t *Tie) Release() {
	if t == nil {
		return
	}
	g := t.reg
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.remove(t) && g.cfg.Ties != nil { // none is left after EndGraces
		g.tasks.Go(func() { g.untie(t.row()) }) // ends with its statement
	}
}

// End removes the tie of a run that has ended. A nil Tie does nothing.
func (t *Tie) End() {
	if t == nil {
		return
	}
	t.reg.mu.Lock()
	defer t.reg.mu.Unlock()
	t.reg.remove(t)
}

// Drop starts the grace of a run whose connection was closed: the run is cancelled after it, unless it ends or is answered,
// or another connection takes it over before. Drop returns at once; it closes cur, the run's cursor, later.
func (t *Tie) Drop(cur *runtime.RunCursor) {
	if t == nil {
		cur.Close()
		return
	}
	g := t.reg
	g.mu.Lock()
	defer g.mu.Unlock()
	tied := g.cfg.Ties != nil && t.connection != "" || g.find(t.thread(), t.started.RunKey) == t // with Ties the run's row decides
	if g.stopped || t.provisional || !tied {
		g.remove(t)
		cur.Close()
		return
	}
	if g.cfg.Ties != nil { // then any server cancels the run
		t.grace = func() {}
		g.dropped = time.Now()
		ends := g.dropped.Add(g.cfg.Grace)
		cur.Close()
		g.tasks.Go(func() { g.dropShared(t, ends) }) // ends with its statement, or EndGraces
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), g.cfg.Grace)
	t.grace = cancel
	g.tasks.Go(func() { // ends with the grace
		defer cancel()
		defer cur.Close()
		t.wait(ctx, cur)
	})
}

// wait cancels the run if the grace passes before the run ends, is parked or is answered. It retries while the database is unavailable.
func (t *Tie) wait(ctx context.Context, cur *runtime.RunCursor) {
	recs, err := cur.Next(ctx)
	for ; err == nil; recs, err = cur.Next(ctx) {
		if slices.ContainsFunc(recs, (*runtime.Record).Parks) {
			t.End()
			return
		}
	}
	if errors.Is(err, io.EOF) && !t.unanswered(ctx, cur) {
		t.End()
		return
	}
	<-ctx.Done()
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) { // the tie was removed
		return
	}
	for t.cancel(context.Background(), false) || t.cancel(context.Background(), true) {
		select {
		case <-t.reg.quit:
			return
		case <-time.After(retryPause):
		}
	}
	t.End()
}

// retryPause is the time before a failed cancel is tried again.
const retryPause = time.Second

// unanswered reports whether the run may still wait since cur read the end of its span.
func (t *Tie) unanswered(ctx context.Context, cur *runtime.RunCursor) bool {
	run, err := t.reg.cfg.Runtime.Runs.Get(ctx, t.who, t.started.RunID)
	return err != nil || run.Status == runtime.Waiting && run.ClosedEvent == cur.After()
}

// cancel cancels a tied run and removes the tie. It cancels only the turn that the run's request began, or with waiting only
// a run that waits for an answer in that turn; in any other state the tie stays, and the run's stream or grace decides. It
// reports whether the runtime was unavailable.
func (t *Tie) cancel(ctx context.Context, waiting bool) (later bool) {
	t.reg.mu.Lock()
	tied := t.reg.find(t.thread(), t.started.RunKey) == t
	t.reg.mu.Unlock()
	if !tied {
		return false
	}
	err := t.reg.cfg.Runtime.CancelTurn(ctx, t.who, t.started, waiting)
	if refusal, refused := errors.AsType[*runtime.Error](err); refused {
		return refusal.Kind == runtime.KindUnavailable
	}
	if err != nil {
		t.reg.cfg.Log.Error("cannot cancel the run of a client that left", "run", t.started.RunID, "thread", t.started.ThreadID,
			"user", t.who.User(), "project", t.who.Project(), "error", err)
	}
	t.End()
	return false
}

// supersede cancels the runs that req replaces: the executing ones, or with waiting the waiting ones whose stream does not
// have to show the question first. It reports whether there were any.
func (g *Registry) supersede(ctx context.Context, who runtime.Caller, req *runtime.StartRequest, waiting bool) (some bool) {
	g.mu.Lock()
	var others []*Tie
	for _, t := range g.ties[threadName{who.Project(), who.User(), req.ThreadID}] {
		if !t.provisional && (!waiting || t.grace != nil) && !t.repeated(req) {
			others = append(others, t)
		}
	}
	g.mu.Unlock()
	for _, t := range others {
		if t.peer.Gone() {
			_ = t.cancel(ctx, waiting) // if this fails, the runtime does not accept req either
			some = true
		}
	}
	return some
}

// Grace is how long a run outlives its connection.
func (g *Registry) Grace() time.Duration { return g.cfg.Grace }

// EndGraces removes all ties, and ignores new ones: a server that stops cancels no run.
func (g *Registry) EndGraces() {
	g.mu.Lock()
	if !g.stopped {
		close(g.quit)
	}
	g.stopped = true
	for _, all := range g.ties {
		for _, t := range slices.Clone(all) {
			g.remove(t)
		}
	}
	g.mu.Unlock()
	g.tasks.Wait()
}

// The functions below are called with g.mu held.

func (g *Registry) find(th threadName, run int64) *Tie {
	for _, t := range g.ties[th] {
		if t.started.RunKey == run {
			return t
		}
	}
	return nil
}

// remove removes the tie and ends its grace. It reports false if the tie is not there.
func (g *Registry) remove(t *Tie) bool {
	all := g.ties[t.thread()]
	i := slices.Index(all, t)
	if i < 0 {
		return false
	}
	if t.grace != nil {
		t.grace()
	}
	if all = slices.Delete(all, i, i+1); len(all) == 0 {
		delete(g.ties, t.thread())
	} else {
		g.ties[t.thread()] = all
	}
	return true
}

func (t *Tie) thread() threadName {
	return threadName{t.who.Project(), t.who.User(), t.started.ThreadID}
}

func (t *Tie) repeated(req *runtime.StartRequest) bool {
	return repeats(req, t.started.RunID, t.scope)
}

// repeats reports whether req repeats the request that started a run.
func repeats(req *runtime.StartRequest, runID, scope string) bool {
	return req.RunID != "" && req.RunID == runID ||
		scope != "" && req.Idempotency != nil && req.Idempotency.Scope == scope
}
