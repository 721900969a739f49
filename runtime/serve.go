package runtime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
)

// Start joins the database as a new instance, takes over the runs that a crashed or stopped instance left, and begins
// to claim queued runs. It blocks until every open run is accounted for (on PostgreSQL runs are taken over later), and while the database is away, and fails if that does not
// pass: the database is damaged, or may not be written. If the database has no room, Start returns at once: the runtime serves reads, Ready
// reports the reason, and the start completes when there is room.
func (rt *Runtime) Start(ctx context.Context) error {
	if err := rt.Plugins().Start(ctx); err != nil {
		return err
	}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	detach := context.AfterFunc(ctx, cancel)
	context.AfterFunc(rt.stopped, cancel)
	begun := make(chan error, 1)
	rt.work.Go(func() { // ends with the commit queue at the latest
		defer cancel()
		begun <- rt.Member.begin(background)
	})
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case err := <-begun:
			return err
		case <-look.C:
		}
		switch trouble := rt.commits.Trouble(); {
		case trouble != nil && !data.Passes(trouble):
			cancel()
			rt.work.Abandon()
			<-begun //nolint:errcheck // the trouble is why it did not begin
			return trouble
		case errors.Is(trouble, ErrDiskFull):
			detach()
			rt.Member.starting.Store(true)
			rt.work.Go(func() { rt.Member.beginLate(begun) }) // likewise
			return nil
		}
	}
}

// begin joins the database and starts the work: see Start.
func (mb *Member) begin(ctx context.Context) error {
	for attempt := 0; ; attempt++ {
		err := mb.store.Join(ctx, mb.Instance, mb.cfg.Addr)
		if err == nil {
			mb.joined.Store(true)
			break
		}
		if !data.Passes(err) || ctx.Err() != nil || mb.Stopping() {
			return err
		}
		mb.commits.Note(err)
		commit.Pause(ctx, attempt)
	}
	mb.commits.Note(nil)
	return mb.work.Begin(ctx)
}

// beginLate waits for a start that continues after Start has returned. An instance that cannot begin ends like a
// fenced one, except for the error that Err returns.
func (mb *Member) beginLate(begun <-chan error) {
	err := <-begun
	switch {
	case err == nil:
		mb.starting.Store(false)
	case mb.Stopping(), errors.Is(err, ErrFenced): // everything that waits for the commit queue gets the error
		mb.commits.GiveUp(err)
	default:
		mb.unbegun.Store(&err)
		mb.commits.GiveUp(fmt.Errorf("%w: %w", ErrFenced, err))
	}
}

// Fenced is closed when another instance took this one's place, or when a start failed after Start returned: nothing
// can be written any more and the process should exit. An idle instance notices within Config.Heartbeat.
func (mb *Member) Fenced() <-chan struct{} { return mb.work.Fenced() }

// Err returns why Fenced is closed: ErrFenced, or the error of the start. It is nil before.
func (mb *Member) Err() error {
	switch err := mb.unbegun.Load(); {
	case err != nil:
		return fmt.Errorf("start: %w", *err)
	case mb.isFenced():
		return ErrFenced
	}
	return nil
}

// Stopping reports whether Shutdown was called.
func (mb *Member) Stopping() bool { return mb.work.Stopping() }

// admits refuses the zero Caller, and requests that write while the runtime stops or the database does not commit, so that they do not
// pile up.
func (mb *Member) admits(c Caller) error {
	switch {
	case c.role == 0:
		return ErrNobody
	case mb.Stopping():
		return ErrStopping
	}
	return mb.writes()
}

// writes is admits for requests that are also served while the runtime stops: those that end or remove runs.
func (mb *Member) writes() error {
	if err := mb.ended(); err != nil {
		return err
	}
	if err := mb.commits.Trouble(); err != nil {
		return unavailable(err)
	}
	if mb.starting.Load() {
		return unavailable(ErrUnavailable)
	}
	return nil
}

// Ready returns why the runtime cannot serve now: it stops or was fenced, the database does not commit or
// answer, or a plugin is unhealthy. It is nil when all is well.
func (rt *Runtime) Ready(ctx context.Context) error {
	if err := rt.Member.Serves(); err != nil {
		return err
	}
	if err := rt.commits.Trouble(); err != nil {
		if errors.Is(err, ErrDiskFull) || errors.Is(err, data.ErrDamaged) || errors.Is(err, data.ErrDenied) || errors.Is(err, data.ErrMissing) {
			return unavailable(err)
		}
		return err
	}
	if rt.Member.starting.Load() {
		return ErrUnavailable
	}
	if err := rt.ping(ctx); err != nil {
		return err
	}
	return rt.Plugins().Check(ctx)
}

// Shutdown stops claiming, lets live runs end for Config.Drain or until ctx is done, then releases the remaining
// ones: they continue at the next start, or on another instance. It returns when
// all emitted events are stored and all plugins are closed. A plugin that has not closed Config.Grace after the drain ends by force.
func (rt *Runtime) Shutdown(ctx context.Context) error {
	rt.stop()
	limit, cancel := context.WithTimeout(ctx, rt.cfg.Drain+rt.cfg.Grace)
	defer cancel()
	if !rt.work.Shutdown(ctx) {
		return nil
	}
	rt.feeds.Close()
	rt.Member.leave()
	rt.work.Abandon()
	rt.changing.Lock()
	defer rt.changing.Unlock()
	return rt.work.Offers.Close(limit)
}
