package cmd

import (
	"context"
	"errors"
	"log/slog"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/wire"
)

// caller is the caller of runs that this process executes: the only user without accounts.
var caller = auth.Local

// local is a run that this process executes.
type local struct {
	*baton.Server
	started runtime.Started
	cursor  *runtime.RunCursor
	ready   []*runtime.Record // read from cursor, not yet returned
}

// startLocal starts a run in this process, which has exclusive use of the database until the feed is closed.
func startLocal(ctx context.Context, cfg config.Config, req request, log *slog.Logger, o offers) (_ feed, err error) {
	e, err := startEngine(ctx, cfg, log, o)
	if err != nil {
		return nil, err
	}
	l := &local{Server: e}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close(ctx))
		}
	}()
	_, req.workflow = l.Runtime().Offered(caller).Workflow(req.name)
	run, err := wire.DecodeRun(req.body())
	if err != nil {
		return nil, err
	}
	if l.started, err = l.Runtime().StartRun(ctx, caller, run.StartRequest); err != nil {
		return nil, err
	}
	if l.cursor, err = l.Runtime().Logs.ReadRun(context.WithoutCancel(ctx), l.started); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *local) next(ctx context.Context) (event, error) {
	for {
		for len(l.ready) > 0 {
			rec := l.ready[0]
			l.ready = l.ready[1:]
			if rec.ID == 0 && rec.Event.Type() == agui.TypeStateSnapshot { // generated for AG-UI clients, not in the log
				continue
			}
			if ev := agui.Project(rec.Event, agui.Seed); ev != nil {
				return event{ev, rec.ID, ev.AppendJSON(nil, agui.Seed)}, nil
			}
		}
		var err error
		if l.ready, err = l.cursor.Next(ctx); err != nil {
			return event{}, err
		}
	}
}

func (l *local) cancel(ctx context.Context) error {
	_, err := l.Runtime().Cancel(ctx, caller, l.started.RunID)
	var refused *runtime.Error
	if errors.As(err, &refused) && refused.Kind == runtime.KindInvalid { // the run has ended
		return nil
	}
	return err
}

func (l *local) close(context.Context) error {
	if l.cursor != nil {
		l.cursor.Close()
	}
	return l.Close()
}
