package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/batonrun/baton/runtime/model"
)

// One instance at a time writes a database. The others stand by: they commit nothing and read stored rows but no live
// data. They check regularly whether the writing instance has left, died or let its lease expire.

// An instance refuses requests with these errors until its process ends.
var (
	errFencedHere = refuse(KindUnavailable, "fenced", "Another server has taken over the database; this one ends")
	errUnbegun    = refuse(KindUnavailable, "unavailable", "This server could not start; it ends")
)

// join makes this the instance that writes. With Config.Takeover it fences the current one.
func (rt *Runtime) join(ctx context.Context) error {
	for {
		err := rt.store.Join(ctx, rt.instance, rt.cfg.Addr)
		held, others := errors.AsType[*HeldError](err)
		switch {
		case err == nil:
			rt.joined.Store(true)
			return nil
		case !others || !rt.cfg.Takeover:
			return fmt.Errorf("join: %w", err)
		}
		rt.log.Warn("taking over from a server that has the database", "addr", held.Addr)
		if err := rt.store.Fence(ctx, held.Instance); err != nil {
			return fmt.Errorf("take over: %w", err)
		}
	}
}

// leave lets another instance begin.
func (rt *Runtime) leave() {
	if !rt.joined.Load() || rt.isFenced() && rt.unbegun.Load() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), rt.cfg.Grace)
	defer cancel()
	if err := rt.store.Leave(ctx); err != nil {
		rt.log.Warn("the lease was not given up; it runs out", "error", err)
	}
}

// waits reports whether an instance that could not join tries again: it stands by, or the database is away, slow or
// full. A database that was migrated by another version of the program is no reason to wait.
func (rt *Runtime) waits(err error) bool {
	held, others := errors.AsType[*HeldError](err)
	switch {
	case others && rt.cfg.Standby:
		if rt.standby.Swap(held) == nil {
			rt.log.Info("standing by", "reason", held)
		}
		return true
	case errors.Is(err, model.ErrSchema):
		return false
	case errors.Is(err, ErrDiskFull), errors.Is(err, ErrUnavailable), errors.Is(err, model.ErrTooSlow):
		rt.commits.Note(err)
		return true
	}
	return rt.standby.Load() != nil
}

// Serves returns why this instance executes no runs now: it stops, stands by, or was fenced.
func (rt *Runtime) Serves() error {
	if rt.Stopping() {
		return ErrStopping
	}
	if err := rt.ended(); err != nil {
		return err
	}
	return rt.StandsBy()
}

// ended returns why this instance will never write again.
func (rt *Runtime) ended() error {
	switch {
	case rt.unbegun.Load() != nil:
		return errUnbegun
	case rt.isFenced():
		return errFencedHere
	}
	return nil
}

func (rt *Runtime) isFenced() bool {
	select {
	case <-rt.work.Fenced():
		return true
	default:
		return false
	}
}

// StandsBy returns an error while this instance stands by. Requests for live data call it, since only the writing
// instance can answer them.
func (rt *Runtime) StandsBy() error {
	held := rt.standby.Load()
	if held == nil {
		return nil
	}
	e := refuse(KindUnavailable, "standby", "This server stands by: another one has the database")
	if held.Addr != "" {
		e.Detail += " and serves at " + held.Addr
	}
	return e
}
