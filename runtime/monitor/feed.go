package monitor

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/tail"
)

// Feeds are the feeds of all projects.
type Feeds struct {
	Changes Changes // of the lists of runs and threads

	share  atomic.Int64 // bytes in each ring at most
	source *source      // nil for what this process commits

	mu     sync.Mutex // guards the fields below; taken before feed.mu
	names  func(project string) []string
	agents *agents // of the feed that was updated last: most projects have the same agents
	feeds  map[string]*feed
	rings  int
	swept  time.Time
}

// agents are the agents whose states a feed shows. They are immutable.
type agents struct {
	names []string       // sorted
	index map[string]int // of names
}

func newAgents(names []string) *agents {
	a := &agents{names: names, index: make(map[string]int)}
	for i, name := range names {
		a.index[name] = i
	}
	return a
}

// New returns feeds. names returns the sorted names of a project's agents.
func New(names func(project string) []string) *Feeds {
	m := &Feeds{names: names, agents: newAgents(nil), feeds: make(map[string]*feed)}
	m.share.Store(feedBytes)
	return m
}

// SetAgents replaces the agents. If a project's agents differ, its ring starts again: its readers get ErrLagged, and
// see the new agents when they return.
func (m *Feeds) SetAgents(names func(project string) []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.names = names
	for _, f := range m.feeds {
		f.mu.Lock()
		if a := m.agentsOf(f.project); !slices.Equal(a.names, f.agents.names) {
			f.setAgents(a)
		}
		f.mu.Unlock()
	}
}

// agentsOf returns a project's agents. The caller holds m.mu.
func (m *Feeds) agentsOf(project string) *agents {
	if names := m.names(project); !slices.Equal(names, m.agents.names) {
		m.agents = newAgents(names)
	}
	return m.agents
}

// setAgents sets a feed's agents. The caller holds f.mu.
func (f *feed) setAgents(a *agents) {
	f.agents, f.working = a, make([]int, len(a.names))
	for _, run := range f.runs {
		for _, x := range run.running {
			if i, known := a.index[x.Agent]; known {
				f.working[i]++
			}
		}
	}
	if f.ring != nil {
		f.renew()
	}
}

// renew starts a ring with a new epoch, and wakes the readers of the old one.
func (f *feed) renew() {
	if f.wake != nil {
		close(f.wake)
	}
	f.ring, f.epoch, f.wake = new([window]slot), uuid.Must(uuid.NewV7()).String()[24:], make(chan struct{})
	f.first, f.last, f.bytes = 1, 0, 0
}

// feed is the source of a project's monitors. It always knows the current executions. It has a ring of notices from the
// first reader until no reader has come for an hour. It exists while it has a ring or a run.
type feed struct {
	m       *Feeds
	project string
	ready   chan struct{} // closed once a follower knows the executions; nil without one

	mu      sync.RWMutex // guards the fields below
	runs    map[int64]*watched
	latest  *watched // cached result of run
	agents  *agents
	working []int // executions of each agent
	readers int
	left    time.Time // time when the last reader left
	epoch   string    // of the ring
	ring    *[window]slot
	first   int64 // oldest offset in the ring
	last    int64 // newest offset
	bytes   int
	wake    chan struct{} // closed and replaced when there are new notices
}

// feed returns the project's feed. The caller holds m.mu.
func (m *Feeds) feed(project string) *feed {
	f := m.feeds[project]
	if f == nil {
		a := m.agentsOf(project)
		f = &feed{m: m, project: project, runs: make(map[int64]*watched), agents: a, working: make([]int, len(a.names))}
		m.feeds[project] = f
	}
	return f
}

// lock returns the project's feed with its mutex held, so that it cannot be dropped.
func (m *Feeds) lock(project string) *feed {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.feed(project)
	f.mu.Lock()
	return f
}

// drop removes a feed without runs and ring.
func (m *Feeds) drop(f *feed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.empty() && m.feeds[f.project] == f {
		delete(m.feeds, f.project)
	}
}

func (f *feed) empty() bool { return f.ring == nil && len(f.runs) == 0 }

// evict closes the unwatched ring that was left first, if there are too many. The caller holds m.mu.
func (m *Feeds) evict() {
	if m.rings <= maxRings {
		return
	}
	var first *feed
	var left time.Time
	for _, f := range m.feeds {
		f.mu.Lock()
		if f.ring != nil && f.readers == 0 && (first == nil || f.left.Before(left)) {
			first, left = f, f.left
		}
		f.mu.Unlock()
	}
	if first != nil {
		m.shut(first)
	}
}

// shut closes a feed's ring, which has no readers. The caller holds m.mu.
func (m *Feeds) shut(f *feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ring, f.bytes = nil, 0
	m.rings--
	if f.empty() || m.source != nil {
		delete(m.feeds, f.project)
	}
}

// divide gives each ring an equal share of allBytes. The caller holds m.mu.
func (m *Feeds) divide() {
	share := min(feedBytes, allBytes/max(m.rings, 1))
	m.share.Store(int64(share))
	for _, f := range m.feeds {
		f.mu.Lock()
		f.trim(share)
		f.mu.Unlock()
	}
}

// lasts returns how long a ring without readers lasts. One that is read from logs costs more.
func (m *Feeds) lasts() time.Duration {
	if m.source != nil {
		return time.Minute
	}
	return unwatched
}

// Sweep closes rings without a reader for an hour, or for a minute after Share. It runs once a minute at most.
func (m *Feeds) Sweep(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rings == 0 || now.Sub(m.swept) < time.Minute {
		return
	}
	m.swept = now
	rings := m.rings
	for _, f := range m.feeds {
		f.mu.Lock()
		over := f.ring != nil && f.readers == 0 && now.Sub(f.left) >= m.lasts()
		f.mu.Unlock()
		if over {
			m.shut(f)
		}
	}
	if m.rings < rings {
		m.divide()
	}
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
	all := make([]AgentStatus, len(f.agents.names))
	for i, name := range f.agents.names {
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

// add appends an empty notice to the ring, which must exist. size is the bytes of its event or text; its encodings and
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
