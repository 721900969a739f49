package work

import (
	"context"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/quota"
)

// Wait is why a run does not begin or go on. Behind and Position consider only runs of its own user.
type Wait struct {
	// Reason is thread_busy or thread_waiting, for another run of its thread; user_limit, project_limit, agent_limit or server_limit,
	// for runs at once or their bytes; provider_pace; or no_server, for a server of the cluster that may execute the run. If none has
	// come by Until, the run fails.
	Reason   string
	Behind   string // the run of the thread that comes first, empty if it is this one
	Position int    // among the QUEUED runs of the thread, or the user's threads that need a claim, from 1; 0 for none
	Since    time.Time
	Until    time.Time // zero if it is unknown
}

// WaitOf returns why a run is QUEUED or has no slot, or nil. A QUEUED run that is about to begin has no reason, nor has an executing
// one whose tools alone wait. It reads the queue as it is now; a database that does not answer gives no reason.
func (en *Engine) WaitOf(ctx context.Context, run *data.RunHead) *Wait {
	if w := en.waitsForServer(run); w != nil {
		return w
	}
	switch run.Status {
	case data.Queued:
		return en.waitsInQueue(ctx, run)
	case data.Running:
		if l := en.liveRun(run.Key); l != nil {
			return l.waitOf()
		}
	}
	return nil
}

func (en *Engine) waitsInQueue(ctx context.Context, run *data.RunHead) *Wait {
	place, position, err := en.store.Position(ctx, run.ThreadKey)
	if err == nil && place.Todo == data.ToClaim && place.RunKey == run.Key {
		reason := en.whyQueued(run)
		if reason == "" {
			return nil
		}
		return &Wait{Reason: reason, Position: position, Since: run.QueuedAt}
	}
	open, err := en.store.OpenRuns(ctx, run.ThreadKey)
	if err != nil {
		return nil
	}
	decide.Order(open)
	at := slices.IndexFunc(open, func(r data.RunHead) bool { return r.Key == run.Key })
	if at <= 0 { // it has ended, or is about to begin
		return nil
	}
	w := &Wait{Reason: "thread_busy", Behind: open[0].ID, Position: at, Since: run.QueuedAt}
	if slices.ContainsFunc(open, func(r data.RunHead) bool { return r.Status == data.Waiting }) {
		w.Reason = "thread_waiting"
	}
	return w
}

// whyQueued returns why the first run of a thread has not begun, or "" if it is about to.
func (en *Engine) whyQueued(run *data.RunHead) string {
	if en.shared && !en.offersRun(run) {
		if full := en.admission.cappedScope(data.Name{Project: run.Project, User: run.User}); full != quota.None {
			return shortage{slot: full}.reason()
		}
		switch may, free := en.others(run, en.nodesOf(run)); {
		case free:
			return "" // another server is about to claim it
		case !may:
			return "no_server" // a sweep will count from now on until it fails
		}
		return "server_limit"
	}
	weight := en.looker.weight(run.Key)
	lacks := en.looker.lacks(run, weight)
	if lacks == (shortage{}) {
		lacks = en.admission.lacks(run, weight)
	}
	return lacks.reason()
}

// waitOf returns why an executing run has no slot, or nil.
func (l *live) waitOf() *Wait {
	r := &l.rests
	r.mu.Lock()
	defer r.mu.Unlock()
	w := &Wait{Since: r.since}
	switch {
	case !r.lent:
		return nil
	case r.taking != nil:
		w.Reason = shortage{slot: l.reserved.of.slots.Full(ownerOf(&l.run.RunHead), 1)}.reason()
	case len(r.paces) > 0:
		w.Reason = "provider_pace"
		for _, until := range r.paces {
			if w.Until.IsZero() || !until.IsZero() && until.Before(w.Until) {
				w.Until = *until
			}
		}
	}
	if w.Reason == "" {
		return nil
	}
	return w
}
