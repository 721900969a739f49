package monitor

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/tail"
)

// Feeds are the feeds of all projects.
type Feeds struct {
	Changes Changes // of the lists of runs and threads

	store data.Reader
	logs  *tail.Logs
	share atomic.Int64 // bytes in each ring at most

	ended     context.Context // done with Close
	end       context.CancelFunc
	following sync.WaitGroup

	mu    sync.Mutex // guards the fields below; taken before feed.mu
	names func(project string) []string
	feeds map[string]*feed
	swept time.Time
}

// New returns feeds that read runs from store and their events from logs. names returns the sorted names of a project's agents.
func New(store data.Reader, logs *tail.Logs, names func(project string) []string) *Feeds {
	m := &Feeds{store: store, logs: logs, names: names, feeds: make(map[string]*feed)}
	m.ended, m.end = context.WithCancel(context.Background())
	m.share.Store(feedBytes)
	return m
}

// Close ends the reading of logs. Feeds that are opened later show nothing.
func (m *Feeds) Close() {
	m.mu.Lock()
	m.end()
	m.mu.Unlock()
	m.following.Wait()
}

// SetAgents replaces the agents. A feed of a project whose agents differ is shut: its readers get ErrLagged, and see the new agents when
// they return.
func (m *Feeds) SetAgents(names func(project string) []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.names = names
	for _, f := range m.feeds {
		if !slices.Equal(names(f.project), f.agents) {
			m.shut(f)
		}
	}
}

// feed is the source of a project's monitors: a ring of notices that a follower adds. It exists from the first reader until no reader has
// come for a minute.
type feed struct {
	m       *Feeds
	project string
	epoch   string
	agents  []string      // whose states it shows, sorted
	ready   chan struct{} // closed once the follower knows the executions
	stop    context.CancelFunc

	mu      sync.RWMutex // guards the fields below
	working []int        // executions of each agent
	readers int
	left    time.Time // time when the last reader left
	shut    bool
	ring    [window]slot
	first   int64 // oldest offset in the ring
	last    int64 // newest offset
	bytes   int
	wake    chan struct{} // closed and replaced when there are new notices
}

// open begins a project's feed. The caller holds m.mu.
func (m *Feeds) open(project string) *feed {
	ctx, stop := context.WithCancel(m.ended)
	f := &feed{
		m: m, project: project, epoch: uuid.Must(uuid.NewV7()).String()[24:], agents: m.names(project),
		ready: make(chan struct{}), stop: stop, first: 1, wake: make(chan struct{}),
	}
	f.working = make([]int, len(f.agents))
	m.feeds[project] = f
	if m.ended.Err() != nil {
		close(f.ready)
		return f
	}
	fo := &follower{f: f, store: m.store, logs: m.logs, threads: make(map[int64]*followed), known: make(map[int64]known)}
	m.following.Go(func() { fo.run(ctx) }) // ends when the feed is shut, or with Close
	return f
}

// evict shuts the feed without readers that was left first, if there are too many. The caller holds m.mu.
func (m *Feeds) evict() {
	if len(m.feeds) <= maxFeeds {
		return
	}
	var first *feed
	var left time.Time
	for _, f := range m.feeds {
		f.mu.Lock()
		if f.readers == 0 && (first == nil || f.left.Before(left)) {
			first, left = f, f.left
		}
		f.mu.Unlock()
	}
	if first != nil {
		m.shut(first)
	}
}

// shut ends a feed. The caller holds m.mu.
func (m *Feeds) shut(f *feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stop()
	f.shut = true
	close(f.wake)
	delete(m.feeds, f.project)
}

// divide gives each ring an equal share of allBytes. The caller holds m.mu.
func (m *Feeds) divide() {
	share := min(feedBytes, allBytes/max(len(m.feeds), 1))
	m.share.Store(int64(share))
	for _, f := range m.feeds {
		f.mu.Lock()
		f.trim(share)
		f.mu.Unlock()
	}
}

// Sweep shuts feeds without a reader for a minute. It runs once a minute at most.
func (m *Feeds) Sweep(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Sub(m.swept) < time.Minute {
		return
	}
	m.swept = now
	for _, f := range m.feeds {
		f.mu.Lock()
		over := f.readers == 0 && now.Sub(f.left) >= unwatched
		f.mu.Unlock()
		if over {
			m.shut(f)
		}
	}
	m.divide()
}

// position returns the offset of a notice id and true if the ring still has everything behind it, otherwise the ring's
// end.
func (f *feed) position(id string) (after int64, resumed bool) {
	epoch, offset, ok := strings.Cut(id, "-")
	n, err := strconv.ParseInt(offset, 10, 64)
	if !ok || err != nil || epoch != f.epoch || n+1 < f.first || n > f.last {
		return f.last, false
	}
	return n, true
}

// States of an agent.
const (
	statusIdle    = "idle"
	statusRunning = "running"
)

func (f *feed) statuses() []AgentStatus {
	all := make([]AgentStatus, len(f.agents))
	for i, name := range f.agents {
		all[i] = AgentStatus{Name: name, Status: statusIdle}
		if f.working[i] > 0 {
			all[i].Status = statusRunning
		}
	}
	return all
}

// slot is an element of a ring.
type slot struct {
	n    atomic.Pointer[Notice] // nil until a reader needs the notice of rec
	run  *watched
	rec  *tail.Record
	size int
}

// add appends an empty notice to the ring. size is the bytes of its event or text; its encodings and
// record take as many again.
func (f *feed) add(run *watched, agent string, size int) *Notice {
	n := &Notice{epoch: f.epoch, offset: f.last + 1, run: run, agent: agent}
	f.put(n, run, nil, size)
	return n
}

// put appends a notice, or an event for which a reader makes one later.
func (f *feed) put(n *Notice, run *watched, rec *tail.Record, size int) {
	if f.last+1-f.first == window {
		f.forget()
	}
	f.last++
	s := &f.ring[f.last%window]
	if n != nil {
		s.n.Store(n)
	}
	s.run, s.rec, s.size = run, rec, 4*size+512
	f.bytes += s.size
	f.trim(int(f.m.share.Load()))
}

// notice returns the notice at an offset. A text without an agent was sent by a user.
func (f *feed) notice(offset int64) *Notice {
	s := &f.ring[offset%window]
	if n := s.n.Load(); n != nil {
		return n
	}
	n := &Notice{epoch: f.epoch, offset: offset, run: s.run, agent: s.rec.Event.Common().Agent, rec: s.rec}
	if _, ok := s.rec.Event.(agui.TextMessageContent); ok && n.agent != "" {
		n.kind = token
	}
	if s.n.CompareAndSwap(nil, n) {
		return n
	}
	return s.n.Load() // another reader was first
}

// trim drops the oldest notices beyond a size, but not the newest one.
func (f *feed) trim(bytes int) {
	for f.bytes > bytes && f.first < f.last {
		f.forget()
	}
}

func (f *feed) forget() {
	s := &f.ring[f.first%window]
	f.bytes -= s.size
	if s.n.Load() != nil { // a needless store would double the cost
		s.n.Store(nil)
	}
	s.run, s.rec, s.size = nil, nil, 0
	f.first++
}
