package runtime

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/work"
)

// One instance at a time writes a database. The others stand by: they commit nothing and read stored rows but no live
// data. They check regularly whether the writing instance has left, died or let its lease expire.

// An instance refuses requests with these errors until its process ends.
var (
	errFencedHere = refuse(KindUnavailable, "fenced", "Another server has taken over the database; this one ends")
	errUnbegun    = refuse(KindUnavailable, "unavailable", "This server could not start; it ends")
)

// membership is whether this instance has the database, and so which requests it takes now.
type membership struct {
	cfg      *Config
	store    lease
	instance string
	work     *work.Engine
	commits  *commit.Queue // the queue of work

	joined   atomic.Bool               // this instance has a lease
	starting atomic.Bool               // Start has returned before the start was complete
	unbegun  atomic.Pointer[error]     // the error of a start that continued after Start returned
	standby  atomic.Pointer[HeldError] // the instance that has the database while this one stands by; else nil
}

// lease gives the database to one instance.
type lease interface {
	Join(ctx context.Context, instance, addr string) error
	Leave(ctx context.Context) error
	Fence(ctx context.Context, instance string) error
}

// join makes this the instance that writes. With Config.Takeover it fences the current one.
func (mb *membership) join(ctx context.Context) error {
	for {
		err := mb.store.Join(ctx, mb.instance, mb.cfg.Addr)
		held, others := errors.AsType[*HeldError](err)
		switch {
		case err == nil:
			mb.joined.Store(true)
			return nil
		case !others || !mb.cfg.Takeover:
			return fmt.Errorf("join: %w", err)
		}
		mb.cfg.Log.Warn("taking over from a server that has the database", "addr", held.Addr)
		if err := mb.store.Fence(ctx, held.Instance); err != nil {
			return fmt.Errorf("take over: %w", err)
		}
	}
}

// leave lets another instance begin.
func (mb *membership) leave() {
	if !mb.joined.Load() || mb.isFenced() && mb.unbegun.Load() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), mb.cfg.Grace)
	defer cancel()
	if err := mb.store.Leave(ctx); err != nil {
		mb.cfg.Log.Warn("the lease was not given up; it runs out", "error", err)
	}
}

// waits reports whether an instance that could not join tries again: it stands by, another one is silent, or the database is
// away, slow or full. A database that was migrated by another version of the program is no reason to wait.
func (mb *membership) waits(err error) bool {
	held, others := errors.AsType[*HeldError](err)
	switch {
	case others && mb.cfg.Standby:
		if mb.standby.Swap(held) == nil {
			mb.cfg.Log.Info("standing by", "reason", held)
		}
		return true
	case others && held.Silent: // either it renews its lease, or it is fenced
		return true
	case errors.Is(err, data.ErrSchema):
		return false
	case errors.Is(err, ErrDiskFull), errors.Is(err, ErrUnavailable), errors.Is(err, data.ErrTooSlow):
		mb.commits.Note(err)
		return true
	}
	return mb.standby.Load() != nil
}

// Serves returns why this instance executes no runs now: it stops, stands by, or was fenced.
func (mb *membership) Serves() error {
	if mb.Stopping() {
		return ErrStopping
	}
	if err := mb.ended(); err != nil {
		return err
	}
	return mb.StandsBy()
}

// ended returns why this instance will never write again.
func (mb *membership) ended() error {
	switch {
	case mb.unbegun.Load() != nil:
		return errUnbegun
	case mb.isFenced():
		return errFencedHere
	}
	return nil
}

func (mb *membership) isFenced() bool {
	select {
	case <-mb.work.Fenced():
		return true
	default:
		return false
	}
}

// StandsBy returns an error while this instance stands by. Requests for live data call it, since only the writing
// instance can answer them.
func (mb *membership) StandsBy() error {
	held := mb.standby.Load()
	if held == nil {
		return nil
	}
	e := refuse(KindUnavailable, "standby", "This server stands by: another one has the database")
	if held.Addr != "" {
		e.Detail += " and serves at " + held.Addr
	}
	return e
}
