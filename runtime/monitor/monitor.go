// Package monitor shows the activity of a project's runs to viewers. Each project with viewers has a feed, a window of notices that a
// follower reads from the logs of the project's runs, wherever they execute. A Monitor is a reader's position in a feed. Nothing is
// stored, and a slow reader gets ErrLagged.
package monitor

import (
	"context"
	"errors"
	"time"
)

// View selects the content and format of a Monitor's frames.
type View uint8

const (
	// EventsView shows tokens, tool calls and how executions of workers end.
	EventsView View = iota
	// AGUIView shows runs, texts and tool calls as AG-UI events, and the agents' states.
	AGUIView
	views int = iota
)

// Query selects the notices of a monitor. Agents' states are always the whole project's.
type Query struct {
	View  View
	Agent string // only this agent's notices, for EventsView; empty for all
	After string // id of the reader's last notice; empty for none
}

// ErrLagged means that notices were dropped before the reader saw them, or that the project's agents have changed.
var ErrLagged = errors.New("the monitor is too far behind")

const (
	window    = 4096     // notices in a feed
	feedBytes = 8 << 20  // bytes in a feed
	allBytes  = 64 << 20 // bytes in all feeds
	maxFeeds  = 256      // unless more are watched; an empty ring takes 128 KiB
	unwatched = time.Minute
	page      = 500 // notices that one Next returns at most
)

// Monitor is a reader's position in a project's feed. It never blocks the feed. It is for one goroutine. Close it.
type Monitor struct {
	f        *feed
	q        Query
	all      bool   // shows all users' runs
	user     string // shows this user's runs, unless all
	after    int64  // last offset read
	reported int64  // last offset reported to the reader
	resumed  bool
	agents   []AgentStatus
	buf      []*Notice
}

// AgentStatus is the state of an agent: whether it is executing a run of the project.
type AgentStatus struct {
	Name   string `json:"name"`                       // The agent.
	Status string `json:"status" enum:"idle,running"` // The agent's state.
}

// Open opens a monitor of a project, for the runs of all users or of one. The first one waits until the states of agents were read.
func (m *Feeds) Open(project, user string, all bool, q Query) *Monitor {
	f := m.enter(project)
	<-f.ready
	if !f.forgetRemoved(q.After) {
		q.After = "" // it begins anew
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	w := &Monitor{f: f, q: q, all: all, user: user}
	w.after, w.resumed = f.position(q.After)
	w.reported = w.after
	w.agents = f.statuses()
	return w
}

// enter adds a reader to the project's feed.
func (m *Feeds) enter(project string) *feed {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.feeds[project]
	opened := f == nil
	if opened {
		f = m.open(project)
	}
	f.mu.Lock()
	f.readers++
	f.mu.Unlock()
	if opened {
		m.evict()
		m.divide()
	}
	return f
}

// Resumed reports whether the monitor continues behind Query.After without a loss.
func (w *Monitor) Resumed() bool { return w.resumed }

// ID returns the monitor's position for Query.After.
func (w *Monitor) ID() string { return noticeID(w.f.epoch, w.after) }

// Agents returns the states of all agents at the monitor's start, sorted by name; nil if it resumed.
func (w *Monitor) Agents() []AgentStatus { return w.agents }

// Close releases the feed. Call it once.
func (w *Monitor) Close() {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	w.f.readers--
	w.f.left = time.Now()
}

// Next returns new notices, waiting for at least one. The slice is valid until the next call. It is empty if so many
// other notices passed that the reader should store the new ID. Next fails with ErrLagged or ctx's cause.
func (w *Monitor) Next(ctx context.Context) ([]*Notice, error) {
	for {
		wake, err := w.read()
		if err != nil {
			return nil, err
		}
		if len(w.buf) > 0 || w.after-w.reported >= window/4 {
			w.reported = w.after
			return w.buf, nil
		}
		w.buf = nil // an idle monitor keeps no notices
		select {
		case <-wake:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// read fills buf with new notices, and returns a channel that is closed when there are more.
func (w *Monitor) read() (<-chan struct{}, error) {
	f := w.f
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.shut || w.after+1 < f.first {
		return nil, ErrLagged
	}
	w.buf = w.buf[:0]
	for w.after < f.last && len(w.buf) < page {
		w.after++
		if n := f.notice(w.after); w.shows(n) {
			w.buf = append(w.buf, n)
		}
	}
	return f.wake, nil
}

// shows reports whether the reader's query matches n.
func (w *Monitor) shows(n *Notice) bool {
	own := !n.run.gone && (w.all || n.run.user == w.user)
	if w.q.View == AGUIView {
		return n.status != "" || n.rec != nil && own
	}
	return n.kind != silent && own && (w.q.Agent == "" || w.q.Agent == n.agent)
}
