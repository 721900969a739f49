package ownership

import (
	"context"
	"errors"
	"time"

	"github.com/batonrun/baton/runtime"
)

// In a cluster a client may come back at another server than the one that holds the connection that a run belongs to, and a server
// may end while a run has its grace. So the database has the ties, too, except those of a server alone, which writes them there
// before another one that joins takes requests. There the grace of a closed connection runs, and any server cancels the run at its
// end. A server that ends is no client that left: its open connections lose their runs.

// Ties has the ties of all servers of a cluster. See package storage, which implements it.
type Ties interface {
	// Tie ties a run to a connection of t.Instance. With repeat, for a repeated request, it only takes over a tie. It reports
	// whether the run is tied then.
	Tie(ctx context.Context, t *runtime.Tie, repeat bool) (bool, error)
	// Untie removes a tie, unless another server has taken it over or the run was tied again. Without an instance it removes
	// every tie of the run.
	Untie(ctx context.Context, t *runtime.Tie) error
	// Drop begins the grace of a tie whose connection is closed. It removes the tie instead if the client has just joined the
	// thread at another server.
	Drop(ctx context.Context, t *runtime.Tie, grace time.Duration) error
	// Join removes the ties of a thread whose connections are closed, because a client of its user has joined it at t.Instance.
	Join(ctx context.Context, t *runtime.Tie) error
	// Dropped returns the ties of a thread whose connections are closed.
	Dropped(ctx context.Context, t *runtime.Tie) ([]runtime.Tie, error)
	// Overdue returns ties whose grace is over. Other calls do not return them again for some seconds.
	Overdue(ctx context.Context) ([]runtime.Tie, error)
}

// tieTime bounds the work of one request in the database.
const tieTime = 5 * time.Second

// row returns the tie as the other servers see it.
func (t *Tie) row() *runtime.Tie {
	return &runtime.Tie{
		Project: t.who.Project(), User: t.who.User(), ThreadID: t.started.ThreadID,
		RunKey: t.started.RunKey, RunID: t.started.RunID, Scope: t.scope, After: t.started.After, Instance: t.reg.cfg.Runtime.Instance(),
	}
}

// share ties the run in the database. It reports whether it is tied there, and whether the database has answered. Otherwise the
// tie is known to this server alone.
func (g *Registry) share(t *Tie, repeat bool) (shared, known bool) {
	if g.alone() {
		return false, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), tieTime)
	defer cancel()
	shared, err := g.cfg.Ties.Tie(ctx, t.row(), repeat)
	g.logShared(err)
	return shared, err == nil
}

// alone reports whether there is no other server that could know of ties.
func (g *Registry) alone() bool { return g.cfg.Ties == nil }

// shareAll shares the ties that were made while this server was alone, and those that the database did not take. The grace of a closed
// connection goes on in the database.
func (g *Registry) shareAll() {
	g.sharing.Lock()
	defer g.sharing.Unlock()
	began := time.Now()
	g.mu.Lock()
	var all []*Tie
	for _, ties := range g.ties {
		for _, t := range ties {
			if !t.shared && !t.provisional {
				all = append(all, t)
			}
		}
	}
	g.mu.Unlock()
	for _, t := range all {
		if time.Since(began) > retryPause {
			return // the next look goes on
		}
		shared, known := g.share(t, false)
		if !known {
			return // the next look tries again
		}
		g.mu.Lock()
		t.shared = shared
		gone := g.find(t.thread(), t.started.RunKey) != t
		if shared && !gone && t.grace != nil && !g.stopped {
			t.grace() // the database has it from now on
			t.grace = func() {}
			g.tasks.Go(func() { g.dropShared(t) }) // ends with its statement, or EndGraces
		}
		g.mu.Unlock()
		if shared && gone {
			g.untie(t.row())
		}
	}
}

// logShared logs an error of the ties in the database, once a minute.
func (g *Registry) logShared(err error) {
	now, last := time.Now().Unix(), g.toldAt.Load()
	if err != nil && now-last >= 60 && g.toldAt.CompareAndSwap(last, now) {
		g.cfg.Log.Warn("other servers do not know whether a client is connected", "error", err)
	}
}

func (g *Registry) untie(row *runtime.Tie) {
	if g.alone() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), tieTime)
	defer cancel()
	g.logShared(g.cfg.Ties.Untie(ctx, row))
}

func (g *Registry) joinShared(th *runtime.Thread) {
	if g.alone() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), tieTime)
	defer cancel()
	g.logShared(g.cfg.Ties.Join(ctx, &runtime.Tie{Project: th.Project, User: th.User, ThreadID: th.ID, Instance: g.cfg.Runtime.Instance()}))
}

// dropShared begins the grace in the database, and tries again while it is away.
func (g *Registry) dropShared(t *Tie) {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), tieTime)
		err := g.cfg.Ties.Drop(ctx, t.row(), max(time.Until(t.graceEnds), 0))
		cancel()
		if err == nil {
			break
		}
		g.logShared(err)
		select {
		case <-g.quit:
			return
		case <-time.After(retryPause):
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.remove(t)
}

// supersedeShared is supersede for the runs whose connections other servers have seen closed.
func (g *Registry) supersedeShared(ctx context.Context, who runtime.Caller, req *runtime.StartRequest, waiting bool) (some bool) {
	if req.ThreadID == "" || g.alone() {
		return false
	}
	rows, err := g.cfg.Ties.Dropped(ctx, &runtime.Tie{Project: who.Project(), User: who.User(), ThreadID: req.ThreadID})
	g.logShared(err)
	for i := range rows {
		if row := &rows[i]; !repeats(req, row.RunID, row.Scope) {
			_ = g.cancelRow(ctx, row, waiting) // if this fails, the runtime does not accept req either
			some = true
		}
	}
	return some
}

// cancelRow is cancel for a tie of any server. It fails only if the runtime is unavailable.
func (g *Registry) cancelRow(ctx context.Context, row *runtime.Tie, waiting bool) error {
	who, err := runtime.NewCaller(row.Project, row.User, runtime.RoleUser)
	if err != nil {
		return err
	}
	var started runtime.Started
	started.RunID, started.After = row.RunID, row.After
	cancel := g.cfg.Runtime.CancelTurn
	if waiting {
		cancel = g.cfg.Runtime.CancelUnanswered
	}
	err = cancel(ctx, who, started)
	if refusal, refused := errors.AsType[*runtime.Error](err); refused && refusal.Kind != runtime.KindUnavailable {
		return nil
	}
	return err
}

// cancelOverdue looks each second for runs whose grace is over, and cancels them. It ends with EndGraces.
func (g *Registry) cancelOverdue() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	tick := time.NewTicker(retryPause)
	defer tick.Stop()
	for {
		select {
		case <-g.quit:
			return
		case <-tick.C:
		}
		if g.alone() {
			continue
		}
		g.shareAll()
		rows, _ := g.cfg.Ties.Overdue(ctx) // the next look tries again
		for i := range rows {
			g.tasks.Go(func() { // ends with the cancel
				row := &rows[i]
				for _, waiting := range []bool{false, true} {
					if err := g.cancelRow(ctx, row, waiting); err != nil { // a later look tries again
						g.logShared(err)
						return
					}
				}
				g.untie(row)
			})
		}
	}
}
