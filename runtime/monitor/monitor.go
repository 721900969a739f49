// Package monitor shows what the runs of a project do, to people who watch and to nobody's cost: whoever commits tells it
// what was stored, and waits for no reader. Each project has a feed of notices, in a window that begins when somebody first
// looks; a Monitor is a place in it. Nothing here is stored, and a reader who falls behind is told so.
package monitor

import (
	"context"
	"errors"
	"time"
)

// View says what a Monitor shows and how its frames look.
type View uint8

// The views of a project.
const (
	// EventsView shows tokens, tool calls and how executions of workers end.
	EventsView View = iota
	// AGUIView shows runs, texts and tool calls as AG-UI events, and the agents' states.
	AGUIView
	views int = iota
)

// Query says what a monitor is to show. The agents' states are the project's for all.
type Query struct {
	View  View
	Agent string // of the notices, with EventsView; empty for all
	After string // the id of the last notice that the reader has seen; empty for none
}

// ErrLagged means that a monitor has fallen so far behind that notices were lost to it, or that the agents are others now.
var ErrLagged = errors.New("the monitor is too far behind")

const (
	window    = 4096     // notices that a feed keeps
	feedBytes = 8 << 20  // of one feed
	allBytes  = 64 << 20 // of all feeds
	maxRings  = 256      // of all projects, unless more are being watched: a ring alone takes 128 KiB
	unwatched = time.Hour
	page      = 500 // notices that one Next returns at most
)

// Monitor is a place in what the runs of a project do, from when it was opened on or from where an earlier one
// has left off. Nobody waits for it. A Monitor is used by one goroutine; Close it when done.
type Monitor struct {
	f       *feed
	q       Query
	all     bool   // it shows the runs of all users
	user    string // whose runs it shows, unless all
	epoch   string // of the ring when it was opened
	after   int64  // the last offset it has passed
	told    int64  // the last one that the reader knows of
	resumed bool
	agents  []AgentStatus
	buf     []*Notice
}

// AgentStatus says whether an agent works: it is running while at least one execution of it is, in this
// process and for the project.
type AgentStatus struct {
	Name   string `json:"name"`
	Status string `json:"status"` // "idle" or "running"
}

// Open opens a monitor of a project. It shows the runs of all users, or those of one alone.
func (m *Feeds) Open(project, user string, all bool, q Query) *Monitor {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.feed(project)
	f.mu.Lock()
	f.readers++
	opened := f.ring == nil
	if opened {
		f.renew()
		m.rings++
	}
	w := &Monitor{f: f, q: q, all: all, user: user}
	w.after, w.resumed = f.position(q.After)
	w.epoch, w.told = f.epoch, w.after
	w.agents = f.statuses()
	f.mu.Unlock()
	if opened {
		m.evict()
		m.divide()
	}
	return w
}

// Resumed reports whether the monitor goes on behind Query.After without a loss.
func (w *Monitor) Resumed() bool { return w.resumed }

// ID returns the id of where the monitor stands, for Query.After.
func (w *Monitor) ID() string { return noticeID(w.epoch, w.after) }

// Agents returns the states of all agents, sorted by name, as of where the monitor began, unless it resumed.
func (w *Monitor) Agents() []AgentStatus { return w.agents }

// Close lets go of the project. It may be called once.
func (w *Monitor) Close() {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	w.f.readers--
	w.f.left = time.Now()
}

// Next returns the notices that have come since the last call, waiting for one. The slice is valid until the
// next call; it is empty when so many passed that were not to be shown that the reader should note the new ID.
// It fails with ErrLagged or with ctx's cause.
func (w *Monitor) Next(ctx context.Context) ([]*Notice, error) {
	for {
		wake, err := w.read()
		if err != nil {
			return nil, err
		}
		if len(w.buf) > 0 || w.after-w.told >= window/4 {
			w.told = w.after
			return w.buf, nil
		}
		w.buf = nil // an idle monitor holds no notices
		select {
		case <-wake:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// read fills buf with what is there, and returns a channel that is closed when there is more.
func (w *Monitor) read() (<-chan struct{}, error) {
	f := w.f
	f.mu.RLock()
	defer f.mu.RUnlock()
	if w.epoch != f.epoch || w.after+1 < f.first {
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

// shows reports whether n is for this reader.
func (w *Monitor) shows(n *Notice) bool {
	own := !n.run.gone && (w.all || n.run.user == w.user)
	if w.q.View == AGUIView {
		return n.status != "" || n.rec != nil && own
	}
	return n.kind != silent && own && (w.q.Agent == "" || w.q.Agent == n.agent)
}
