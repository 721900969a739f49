package runtime

import (
	"context"
	"sync/atomic"

	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/work"
)

// An instance refuses requests with these errors until its process ends.
var (
	errFencedHere = refuse(KindUnavailable, "fenced", "Other servers have taken over the runs of this one; it ends")
	errUnbegun    = refuse(KindUnavailable, "unavailable", "This server could not start; it ends")
)

// Member is whether this instance may write the database, and so which requests it takes now.
type Member struct {
	cfg      *Config
	store    data.Members
	Instance string // the id of this process in the database
	work     *work.Engine
	commits  *commit.Queue // the queue of work

	joined   atomic.Bool           // this instance has a lease
	starting atomic.Bool           // Start has returned before the start was complete
	unbegun  atomic.Pointer[error] // the error of a start that continued after Start returned
}

// leave lets others take over this instance's work at once.
func (mb *Member) leave() {
	if !mb.joined.Load() || mb.isFenced() && mb.unbegun.Load() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), mb.cfg.Grace)
	defer cancel()
	if err := mb.store.Leave(ctx); err != nil {
		mb.cfg.Log.Warn("the lease was not given up; it runs out", "error", err)
	}
}

// Serves returns why this instance executes no runs now: it stops, or was fenced.
func (mb *Member) Serves() error {
	if mb.Stopping() {
		return ErrStopping
	}
	return mb.ended()
}

// ended returns why this instance will never write again.
func (mb *Member) ended() error {
	switch {
	case mb.unbegun.Load() != nil:
		return errUnbegun
	case mb.isFenced():
		return errFencedHere
	}
	return nil
}

func (mb *Member) isFenced() bool {
	select {
	case <-mb.work.Fenced():
		return true
	default:
		return false
	}
}
