// Package rates limits the requests of users and projects: requests in a second, with a burst that may come at once, open streams, and
// the threads that their sockets show. It knows nothing of HTTP.
//
// The Meter forgets a user with a whole burst left: a new limiter would be as full.
package rates

import (
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/quota"
)

// Config says how much is too much. Zero fields mean no limit.
type Config struct {
	User    Limits // of one user in one project; its Bytes in all that its credential is for
	Project Limits // of all its users together

	// Servers returns how many servers share the limits of requests; each applies an equal part. Nil means one.
	Servers func() int
}

// Limits are those of a user or a project.
type Limits struct {
	Requests int   // in a second
	Burst    int   // that may come at once, as many as Requests if that is more
	Streams  int   // open at a time
	Bytes    int64 // of requests, messages and answers in flight, which a budget counts; one alone may be larger
}

func (l Limits) burst() int { return max(l.Requests, l.Burst) }

// PerSocket is how many threads one socket shows at most.
const PerSocket = 256

// Subscriptions is how many threads all sockets together may show, 0 for no limit: ten for each stream that may be open, as one costs
// less than a stream but not nothing, and those of one socket at least.
func (l Limits) Subscriptions() int {
	if l.Streams <= 0 {
		return 0
	}
	return max(10*l.Streams, PerSocket)
}

// Meter counts. A nil Meter lets everything pass.
type Meter struct {
	cfg                    Config
	streams, subscriptions *quota.Pool

	mu   sync.Mutex            // guards the fields below
	of   map[key]*rate.Limiter // those that are not whole, and some that are again
	full int                   // how many there may be before those that are whole are removed
}

// key names a user of a project, or, without one, the project.
type key struct{ project, user string }

// few is how many limiters are never too many.
const few = 1024

// New returns a Meter that has counted nothing.
func New(cfg Config) *Meter {
	pool := func(of func(Limits) int) *quota.Pool {
		return quota.New(quota.Limits{PerUser: int64(of(cfg.User)), PerProject: int64(of(cfg.Project))})
	}
	return &Meter{
		cfg: cfg, of: make(map[key]*rate.Limiter), full: few,
		streams: pool(func(l Limits) int { return l.Streams }), subscriptions: pool(Limits.Subscriptions),
	}
}

// Config returns the Meter's configuration, with this server's parts of limits that servers share. It is the zero one for a nil Meter.
func (m *Meter) Config() Config {
	if m == nil {
		return Config{}
	}
	cfg := m.cfg
	for _, l := range []*Limits{&cfg.User, &cfg.Project} {
		l.Requests, l.Burst = m.part(l.Requests), m.part(l.burst())
	}
	return cfg
}

// servers returns how many servers share the limits of requests.
func (m *Meter) servers() int {
	if m.cfg.Servers == nil {
		return 1
	}
	return m.cfg.Servers()
}

// part returns this server's part of a limit, rounded up.
func (m *Meter) part(n int) int { return (n + m.servers() - 1) / m.servers() }

// Take lets a request pass, or refuses it with an *runtime.Error that says when to try again. One that is refused is not counted.
func (m *Meter) Take(who runtime.Caller) error { return m.take(who, 1) }

// Still lets a request go on that has waited since Take, or refuses it like Take if others have been charged with all that was left.
func (m *Meter) Still(who runtime.Caller) error { return m.take(who, 0) }

func (m *Meter) take(who runtime.Caller, n int) error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	user, project := m.accounts(who, now)
	if wait := lacks(user, n, now); wait > 0 {
		return refuse("rate_limited", wait, "You may send %s", m.promised(m.cfg.User))
	}
	if wait := lacks(project, n, now); wait > 0 {
		return refuse("rate_limited", wait, "Your project may send %s", m.promised(m.cfg.Project))
	}
	for _, l := range []*rate.Limiter{user, project} {
		if l != nil {
			l.AllowN(now, n)
		}
	}
	return nil
}

// Unit is how many bytes count as one request.
const Unit = 128 << 10

// Stored is how many times a byte counts that a request has stored: it is written into a message and an event, of each first into
// the database's log and then into its file, by the one writer of all users.
const Stored = 4

// Charge counts bytes of a request: those that it has sent or got, and Stored times those that it has stored. Each further Unit is
// another request, even if that is more than are left. Then the next requests wait.
func (m *Meter) Charge(who runtime.Caller, bytes int) {
	if m == nil || bytes < Unit {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	user, project := m.accounts(who, now)
	for _, l := range []*rate.Limiter{user, project} {
		for n := bytes / Unit; l != nil && n > 0; n -= l.Burst() { // a limiter reserves no more than its burst at a time
			l.ReserveN(now, min(n, l.Burst()))
		}
	}
}

// promised says how many requests this server lets pass.
func (m *Meter) promised(l Limits) string {
	text := fmt.Sprintf("%d requests a second, and %d at once, where large ones count as several", m.part(l.Requests), m.part(l.burst()))
	if n := m.servers(); n > 1 {
		text += fmt.Sprintf(", to each of %d servers", n)
	}
	return text
}

// lacks is how long it takes until l has n tokens, 0 for one that has.
func lacks(l *rate.Limiter, n int, now time.Time) time.Duration {
	if l == nil {
		return 0
	}
	missing := float64(n) - l.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return max(time.Duration(math.Ceil(missing/float64(l.Limit())*float64(time.Second))), 1)
}

// Reserve holds a place for a stream until release is called, or refuses it with an *runtime.Error.
func (m *Meter) Reserve(who runtime.Caller) (release func(), err error) {
	if m == nil {
		return func() {}, nil
	}
	return reserved(m.streams, who, "too_many_streams", "You may have %d streams open at a time", "Your project may have %d streams open at a time")
}

// Hold counts a stream that has begun until release is called.
func (m *Meter) Hold(who runtime.Caller) (release func()) {
	if m == nil {
		return func() {}
	}
	r := m.streams.Reserve(quota.OwnerOf(who.Project(), who.User()))
	r.Force(1)
	return r.Release
}

// Subscribe counts a thread that is shown on a socket until release is called, or refuses it with an *runtime.Error.
func (m *Meter) Subscribe(who runtime.Caller) (release func(), err error) {
	if m == nil {
		return func() {}, nil
	}
	return reserved(m.subscriptions, who, "too_many_subscriptions",
		"All your sockets together may show %d threads at a time", "All sockets of your project together may show %d threads at a time")
}

// retryReserve is when a caller that has too many streams open may try again: when one ends is unknown.
const retryReserve = 5 * time.Second

// reserved reserves one of p. The texts name the limit of a full user or project.
func reserved(p *quota.Pool, who runtime.Caller, code, user, project string) (release func(), err error) {
	r, full := p.Try(quota.OwnerOf(who.Project(), who.User()), 1)
	switch full {
	case quota.User:
		return nil, refuse(code, retryReserve, user, p.Limits().PerUser)
	case quota.Project:
		return nil, refuse(code, retryReserve, project, p.Limits().PerProject)
	}
	return r.Release, nil
}

// OwnerOf returns the owner of the bytes in flight of a caller: its project, and the user of all that its credential is for.
func OwnerOf(who runtime.Caller) quota.Owner {
	return quota.Owner{Project: who.Project(), User: quota.OwnerOf(who.Home(), who.User()).User}
}

// Used is how much of its limits a user or a project uses now.
type Used struct {
	Requests      int // of its burst
	Streams       int
	Subscriptions int
}

// Used returns the use of a caller and of its project.
func (m *Meter) Used(who runtime.Caller) (user, project Used) {
	if m == nil {
		return Used{}, Used{}
	}
	owner := quota.OwnerOf(who.Project(), who.User())
	streams, subscriptions := m.streams.Used(owner), m.subscriptions.Used(owner)
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	ofUser, ofProject := m.accounts(who, now)
	return Used{spent(ofUser, now), int(streams.User), int(subscriptions.User)}, Used{spent(ofProject, now), int(streams.Project), int(subscriptions.Project)}
}

// spent returns how much of its burst a limiter has let pass and not yet regained.
func spent(l *rate.Limiter, now time.Time) int {
	if l == nil {
		return 0
	}
	return l.Burst() - max(int(l.TokensAt(now)), 0)
}

// accounts returns a caller's limiter and its project's, nil for no limit. The caller holds mu.
func (m *Meter) accounts(who runtime.Caller, now time.Time) (user, project *rate.Limiter) {
	if len(m.of) >= m.full {
		for k, l := range m.of {
			if l.TokensAt(now) >= float64(l.Burst()) { // a new one would be as full
				delete(m.of, k)
			}
		}
		m.full = max(few, 2*len(m.of))
	}
	return m.account(key{who.Project(), who.User()}, m.cfg.User), m.account(key{project: who.Project()}, m.cfg.Project)
}

func (m *Meter) account(k key, l Limits) *rate.Limiter {
	if l.Requests <= 0 {
		return nil
	}
	limit, burst := rate.Limit(float64(l.Requests)/float64(m.servers())), m.part(l.burst())
	a := m.of[k]
	if a == nil {
		a = rate.NewLimiter(limit, burst)
		m.of[k] = a
	}
	if a.Limit() != limit {
		a.SetLimit(limit)
		a.SetBurst(burst)
	}
	return a
}

func refuse(code string, wait time.Duration, format string, args ...any) error {
	return &runtime.Error{Kind: runtime.KindOverloaded, Code: code, Detail: fmt.Sprintf(format, args...), RetryAfter: wait}
}
