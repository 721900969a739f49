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
	"github.com/batonrun/baton/runtime/log"
)

// Feeds are the feeds of all projects.
type Feeds struct {
	Changes Changes // of what is listed

	share atomic.Int64 // bytes each ring may keep

	mu     sync.Mutex // guards the fields below; taken before feed.mu
	names  func(project string) []string
	agents *agents // the latest that a feed was given: most have the same
	feeds  map[string]*feed
	rings  int
	swept  time.Time
}

// agents are those whose states are told. They are not changed: others take their place.
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

// New returns feeds that tell in each project the states of the agents that names has for it, which are sorted.
func New(names func(project string) []string) *Feeds {
	m := &Feeds{names: names, agents: newAgents(nil), feeds: make(map[string]*feed)}
	m.share.Store(feedBytes)
	return m
}

// SetAgents makes others, which are sorted, the agents whose states are told. Where they are not the same, the project's ring
// begins anew: its readers get ErrLagged, and learn of the new ones when they come back.
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

// agentsOf returns the agents of a project. m.mu is held.
func (m *Feeds) agentsOf(project string) *agents {
	if names := m.names(project); !slices.Equal(names, m.agents.names) {
		m.agents = newAgents(names)
	}
	return m.agents
}

// setAgents does it for one feed, whose mutex is held.
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

// renew begins a ring, in an epoch of its own. Those who wait for the one that was there learn of it.
func (f *feed) renew() {
	if f.wake != nil {
		close(f.wake)
	}
	f.ring, f.epoch, f.wake = new([window]slot), uuid.Must(uuid.NewV7()).String()[24:], make(chan struct{})
	f.first, f.last, f.bytes = 1, 0, 0
}

// feed is what monitors of one project see. It knows what is executed all the time, and has a ring of notices
// from when somebody first looked until nobody has looked for an hour. It exists while it has a ring or a run.
type feed struct {
	m       *Feeds
	project string

	mu      sync.RWMutex // guards the fields below; who writes waits for no reader that comes after it
	runs    map[int64]*watched
	latest  *watched // of runs: the one that was asked for last
	agents  *agents  // of the project
	working []int    // executions of each agent
	readers int
	left    time.Time // when the last reader has left
	epoch   string    // of the ring
	ring    *[window]slot
	first   int64 // the oldest offset in the ring
	last    int64 // the newest
	bytes   int
	wake    chan struct{} // closed, and replaced, when readers have more to read
}

// feed returns the project's feed. m.mu is held.
func (m *Feeds) feed(project string) *feed {
	f := m.feeds[project]
	if f == nil {
		a := m.agentsOf(project)
		f = &feed{m: m, project: project, runs: make(map[int64]*watched), agents: a, working: make([]int, len(a.names))}
		m.feeds[project] = f
	}
	return f
}

// lock returns the project's feed with its mutex held, so that it is not dropped meanwhile.
func (m *Feeds) lock(project string) *feed {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.feed(project)
	f.mu.Lock()
	return f
}

// drop forgets a feed that has neither a run nor a ring.
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

// evict closes the ring that was left first, when there are too many. m.mu is held.
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

// shut closes a feed's ring, at which nobody may look. m.mu is held.
func (m *Feeds) shut(f *feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ring, f.bytes = nil, 0
	m.rings--
	if f.empty() {
		delete(m.feeds, f.project)
	}
}

// divide gives each ring an equal share of what all may hold. m.mu is held.
func (m *Feeds) divide() {
	share := min(feedBytes, allBytes/max(m.rings, 1))
	m.share.Store(int64(share))
	for _, f := range m.feeds {
		f.mu.Lock()
		f.trim(share)
		f.mu.Unlock()
	}
}

// Sweep closes, now and then, the rings at which nobody has looked for an hour.
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
		over := f.ring != nil && f.readers == 0 && now.Sub(f.left) >= unwatched
		f.mu.Unlock()
		if over {
			m.shut(f)
		}
	}
	if m.rings < rings {
		m.divide()
	}
}

// position is the offset behind which a reader goes on: the one of its id if nothing was lost since, else the
// end.
func (f *feed) position(id string) (after int64, resumed bool) {
	epoch, offset, ok := strings.Cut(id, "-")
	n, err := strconv.ParseInt(offset, 10, 64)
	if !ok || err != nil || epoch != f.epoch || n+1 < f.first || n > f.last {
		return f.last, false
	}
	return n, true
}

// The states of an agent.
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

// slot is a place in a ring.
type slot struct {
	n    atomic.Pointer[Notice] // nil until a reader comes to an event that is all there is to show
	run  *watched
	rec  *log.Record
	size int
}

// add puts a notice at the end of the ring, which must be there, and returns it to be filled in. Of the bytes
// that it refers to, size are the event's or the text's: its encodings and the record's have as many again.
func (f *feed) add(run *watched, agent string, size int) *Notice {
	n := &Notice{epoch: f.epoch, offset: f.last + 1, run: run, agent: agent}
	f.put(n, run, nil, size)
	return n
}

// put puts a notice, or the event that one is to be made of, at the end of the ring.
func (f *feed) put(n *Notice, run *watched, rec *log.Record, size int) {
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

// notice returns the notice at an offset. A text without an agent is one that a user has appended.
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
	return s.n.Load() // another reader came to it at the same time
}

// trim forgets the oldest notices beyond so many bytes, but not the newest one.
func (f *feed) trim(bytes int) {
	for f.bytes > bytes && f.first < f.last {
		f.forget()
	}
}

func (f *feed) forget() {
	s := &f.ring[f.first%window]
	f.bytes -= s.size
	if s.n.Load() != nil { // a store costs as much as all the rest
		s.n.Store(nil)
	}
	s.run, s.rec, s.size = nil, nil, 0
	f.first++
}
