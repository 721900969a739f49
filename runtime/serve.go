package runtime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/batonrun/baton/runtime/commit"
)

// Start joins the database as a new instance, takes over the runs a crashed or stopped one left, and begins
// to claim queued ones. It returns once every open run is accounted for; while the database is away it waits. When that
// has no room, Start returns at once: reads are served, Ready says why nothing else is, and the rest follows when there is
// room. While another instance has the database it fails with a *HeldError, or with Config.Standby returns and stands by.
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
		begun <- rt.begin(background)
	})
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case err := <-begun:
			return err
		case <-look.C:
		}
		if errors.Is(rt.commits.Trouble(), ErrDiskFull) || rt.standby.Load() != nil {
			detach()
			rt.starting.Store(true)
			rt.work.Go(func() { rt.beginLate(begun) }) // likewise
			return nil
		}
	}
}

// begin does what Start says.
func (rt *Runtime) begin(ctx context.Context) error {
	for attempt := 0; ; attempt++ {
		err := rt.join(ctx)
		if err == nil {
			break
		}
		if !rt.waits(err) || ctx.Err() != nil || rt.Stopping() {
			return err
		}
		commit.Pause(ctx, attempt)
	}
	rt.commits.Note(nil)
	if err := rt.work.Begin(ctx); err != nil {
		return err
	}
	rt.standby.Store(nil)
	return nil
}

// beginLate waits for what Start did not wait for. An instance that cannot begin ends like one that is fenced, but for what Err
// says.
func (rt *Runtime) beginLate(begun <-chan error) {
	err := <-begun
	switch {
	case err == nil:
		rt.starting.Store(false)
	case rt.Stopping() && rt.standby.Load() != nil: // nobody was let in
	case rt.Stopping(), errors.Is(err, ErrFenced): // who waits for the commit queue is told so
		rt.commits.GiveUp(err)
	default:
		rt.unbegun.Store(&err)
		rt.commits.GiveUp(fmt.Errorf("%w: %w", ErrFenced, err))
	}
}

// Fenced is closed when another instance took this one's place, or when a start that Start did not wait for has failed:
// nothing can be written any more and the process should exit. An instance that is idle notices within Config.Heartbeat.
func (rt *Runtime) Fenced() <-chan struct{} { return rt.work.Fenced() }

// Err says why Fenced is closed: ErrFenced, or why the start has failed. It is nil before.
func (rt *Runtime) Err() error {
	switch err := rt.unbegun.Load(); {
	case err != nil:
		return fmt.Errorf("start: %w", *err)
	case rt.isFenced():
		return ErrFenced
	}
	return nil
}

// Stopping reports whether Shutdown was called.
func (rt *Runtime) Stopping() bool { return rt.work.Stopping() }

// admits refuses requests that write while the runtime stops or the database does not commit, so that they do
// not pile up.
func (rt *Runtime) admits() error {
	if rt.Stopping() {
		return ErrStopping
	}
	return rt.writes()
}

// writes is admits for what is done while the runtime stops, too: what ends runs or removes them.
func (rt *Runtime) writes() error {
	if err := rt.ended(); err != nil {
		return err
	}
	if err := rt.StandsBy(); err != nil {
		return err
	}
	if err := rt.commits.Trouble(); err != nil {
		return unavailable(err)
	}
	if rt.starting.Load() {
		return unavailable(ErrUnavailable)
	}
	return nil
}

// Ready says why the runtime cannot serve now: it stops, stands by or was fenced, the database does not commit or
// answer, or a plugin is ill. It is nil when all is well.
func (rt *Runtime) Ready(ctx context.Context) error {
	if err := rt.Serves(); err != nil {
		return err
	}
	if err := rt.commits.Trouble(); err != nil {
		if errors.Is(err, ErrDiskFull) {
			return unavailable(err)
		}
		return err
	}
	if rt.starting.Load() {
		return ErrUnavailable
	}
	if err := rt.store.Ping(ctx); err != nil {
		return err
	}
	return rt.Plugins().Check(ctx)
}

// Shutdown stops claiming, lets live runs end for Config.Drain or until ctx is done, then releases those
// left: they go on at the next start, or with the instance that stands by, which may begin from then on. It returns
// when all that was emitted is stored.
func (rt *Runtime) Shutdown(ctx context.Context) error {
	rt.stop()
	if !rt.work.Shutdown(ctx) {
		return nil
	}
	rt.leave()
	rt.work.Abandon()
	rt.changing.Lock()
	defer rt.changing.Unlock()
	return rt.work.Close()
}
