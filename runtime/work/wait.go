package work

import (
	"cmp"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/data"
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
// one whose tools alone wait.
func (en *Engine) WaitOf(run *data.RunHead) *Wait {
	if w := en.waitsForServer(run); w != nil {
		return w
	}
	switch run.Status {
	case data.Queued:
		w := en.queue.waitOf(run)
		if w != nil && w.Reason == "server_limit" && en.shared && !en.offersRun(run) {
			switch maybe, _, free := en.others(run, en.nodesOf(run)); {
			case free:
				return nil // another server is about to claim it
			case !maybe:
				w.Reason = "no_server" // a sweep will count from now on until it fails
			}
		}
		return w
	case data.Running:
		if l := en.liveRun(run.Key); l != nil {
			return l.waitOf()
		}
	}
	return nil
}

// waitOf returns why a QUEUED run does not begin, by the latest scan of the queue, or nil.
func (q *runQueue) waitOf(run *data.RunHead) *Wait {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := &Wait{Since: run.QueuedAt}
	open := q.counts[run.ThreadKey].open
	if at := slices.IndexFunc(open, func(r openRun) bool { return r.key == run.Key }); at != 0 {
		if at < 0 {
			return nil // the row is older than the queue
		}
		w.Reason, w.Behind, w.Position = "thread_busy", open[0].name, at
		if _, asks := q.asking[run.ThreadKey]; asks {
			w.Reason = "thread_waiting"
		}
		return w
	}
	p, stands := q.needs[run.ThreadKey]
	if !stands {
		return nil
	}
	if w.Reason = p.at.Value.(*need).lacks.reason(); w.Reason == "" {
		return nil
	}
	for e := p.at; e != nil; e = e.Prev() {
		if e.Value.(*need).Do == data.ToClaim {
			w.Position++
		}
	}
	return w
}

// reason returns the Reason of a Wait, empty for the zero shortage.
func (s shortage) reason() string {
	switch {
	case s.agent:
		return "agent_limit"
	case s.absent:
		return "server_limit" // of the servers that have it
	}
	switch cmp.Or(s.slot, s.asked, s.said) {
	case quota.User:
		return "user_limit"
	case quota.Project:
		return "project_limit"
	case quota.Total:
		return "server_limit"
	}
	return ""
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
		w.Reason = shortage{slot: l.bounds.reserved.of.slots.Full(ownerOf(&l.run.RunHead), 1)}.reason()
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
