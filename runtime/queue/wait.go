package queue

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
	// for runs at once or their bytes; provider_pace; time or event, for a wait of the run itself; or no_server, for a server of the
	// cluster that may execute the run. If none has come by Until, the run fails.
	Reason   string
	Behind   string // the run of the thread that comes first, empty if it is this one
	Name     string // of the event
	Position int    // among the QUEUED runs of the thread, or the user's threads that need a claim, from 1; 0 for none
	Since    time.Time
	Until    time.Time // zero if it is unknown
}

// WaitOf returns why a QUEUED run has not begun, or nil if it is about to. It reads the queue as it is now; a database that does not answer
// gives no reason.
func (q *Queue) WaitOf(ctx context.Context, run *data.RunHead) *Wait {
	place, position, err := q.cfg.Rows.Position(ctx, run.ThreadKey)
	if err == nil && place.Todo == data.ToClaim && place.RunKey == run.Key {
		reason := q.whyFirst(run)
		if reason == "" {
			return nil
		}
		return &Wait{Reason: reason, Position: position, Since: run.QueuedAt}
	}
	open, err := q.cfg.Store.OpenRuns(ctx, run.ThreadKey)
	if err != nil {
		return nil
	}
	decide.Order(open)
	at := slices.IndexFunc(open, func(r data.RunHead) bool { return r.Key == run.Key })
	if at <= 0 { // it has ended, or is about to begin
		return nil
	}
	w := &Wait{Reason: "thread_busy", Behind: open[0].ID, Position: at, Since: run.QueuedAt}
	if slices.ContainsFunc(open, func(r data.RunHead) bool { return !r.Busies() }) {
		w.Reason = "thread_waiting"
	}
	return w
}

// whyFirst returns why the first run of a thread has not begun, or "" if it is about to.
func (q *Queue) whyFirst(run *data.RunHead) string {
	if q.cfg.Servers != nil {
		if offers, _ := q.cfg.Servers.Offers(run); !offers {
			if full := q.admission.cappedScope(data.Name{Project: run.Project, User: run.User}); full != quota.None {
				return shortage{slot: full}.reason()
			}
			switch may, free := q.cfg.Servers.Elsewhere(run); {
			case free:
				return "" // another server is about to claim it
			case !may:
				return "no_server" // a sweep will count from now on until it fails
			}
			return "server_limit"
		}
	}
	weight := q.looks.weight(run.Key)
	lacks := q.looks.lacks(run, weight)
	if lacks == (shortage{}) {
		lacks = q.admission.lacks(run, weight)
	}
	return lacks.reason()
}
