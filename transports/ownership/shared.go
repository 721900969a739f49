package ownership

import (
	"context"
	"errors"
	"time"

	"github.com/batonrun/baton/runtime"
)

// On PostgreSQL a client may come back at another server than the one that has the connection that a run belongs to, and a server may end
// while a run has its grace. So the run's row names the connection, and the grace of a closed connection runs in the database. Any server
// cancels the run at its end. A server that ends is no client that left: its open connections lose their runs.

// Ties has the ties of all servers. See package storage, which implements it.
type Ties interface {
	// Take ties a run to t.TiedTo, the connection of a repeated request. It reports false if the run belongs to no connection.
	Take(ctx context.Context, t *runtime.Tie) (bool, error)
	// Untie unties a run from t.TiedTo, or from any connection if that is empty.
	Untie(ctx context.Context, t *runtime.Tie) error
	// Drop begins the grace of a run whose connection is closed, if the run still belongs to it. It unties the run instead if the client
	// has just joined the thread at another server.
	Drop(ctx context.Context, t *runtime.Tie, grace time.Duration) error
	// Join unties the runs of a thread whose connections are closed, because a client of its user has joined it at the instance.
	Join(ctx context.Context, t *runtime.Tie, thread int64, instance string) error
	// Dropped returns the runs of a thread whose connections are closed.
	Dropped(ctx context.Context, t *runtime.Tie) ([]runtime.Tie, error)
	// Overdue returns runs whose grace is over. Other calls do not return them again for some seconds.
	Overdue(ctx context.Context) ([]runtime.Tie, error)
}

// tieTime bounds the work of one request in the database.
const tieTime = 5 * time.Second

// row returns the tie as the database has it.
func (t *Tie) row() *runtime.Tie {
	return &runtime.Tie{
		Project: t.who.Project(), User: t.who.User(), ThreadID: t.started.ThreadID,
		RunKey: t.started.RunKey, RunID: t.started.RunID, Scope: t.scope, After: t.started.After, TiedTo: t.connection,
	}
}

// owns reports whether the run belongs to the connection in the database. A repeated request takes over a run of another connection.
func (t *Tie) owns() bool {
	if !t.started.Replayed {
		return t.connection != ""
	}
	t.connection = t.reg.newConnection()
	ctx, cancel := context.WithTimeout(context.Background(), tieTime)
	defer cancel()
	taken, err := t.reg.cfg.Ties.Take(ctx, t.row())
	t.reg.logShared(err)
	return taken || err != nil // then at least this server knows that the client is back
}

// logShared logs an error of the ties in the database, once a minute.
func (g *Registry) logShared(err error) {
	now, last := time.Now().Unix(), g.toldAt.Load()
	if err != nil && now-last >= 60 && g.toldAt.CompareAndSwap(last, now) {
		g.cfg.Log.Warn("other servers do not know whether a client is connected", "error", err)
	}
}

func (g *Registry) untie(row *runtime.Tie) {
	ctx, cancel := context.WithTimeout(context.Background(), tieTime)
	defer cancel()
	g.logShared(g.cfg.Ties.Untie(ctx, row))
}

// dropShared begins the grace in the database, and tries again while it is away.
func (g *Registry) dropShared(t *Tie, ends time.Time) {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), tieTime)
		err := g.cfg.Ties.Drop(ctx, t.row(), max(time.Until(ends), 0))
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
	t.End()
}

// supersedeShared is supersede for the runs whose connections other servers have seen closed.
func (g *Registry) supersedeShared(ctx context.Context, who runtime.Caller, req *runtime.StartRequest, waiting bool) (some bool) {
	if req.ThreadID == "" || g.cfg.Ties == nil {
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
	err = g.cfg.Runtime.CancelTurn(ctx, who, started, waiting)
	if refusal, refused := errors.AsType[*runtime.Error](err); refused && refusal.Kind != runtime.KindUnavailable {
		return nil
	}
	return err
}

// cancelOverdue looks for runs whose grace is over, and cancels them. It ends with EndGraces.
func (g *Registry) cancelOverdue() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	tick := time.NewTicker(retryPause)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-g.quit:
			return
		case <-tick.C:
		}
		g.mu.Lock()
		idle := time.Since(g.dropped) > g.cfg.Grace+tieTime
		g.mu.Unlock()
		if idle && n%5 > 0 { // only servers that have ended may have begun graces
			continue
		}
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
