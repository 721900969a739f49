// Package rates counts what users and projects ask for: requests in a second, with a burst that may come at once, the streams
// that are open at a time, the threads that their sockets show, and the bytes that are held for them. It knows nothing of HTTP.
//
// What it remembers of users is bounded by what they do: who has asked for nothing for as long as it takes to be allowed a
// whole burst again, and has nothing open, is forgotten, and loses nothing by it.
package rates

import (
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/batonrun/baton/runtime"
)

// Config says how much is too much. Zero fields mean no limit.
type Config struct {
	User    Limits // of one user in one project; its Bytes, of which the server has so many, in all that its credential is for
	Project Limits // of all its users together
}

// Limits are those of a user or a project.
type Limits struct {
	Requests int   // in a second
	Burst    int   // that may come at once, as many as Requests if that is more
	Streams  int   // open at a time
	Bytes    int64 // of requests, messages and answers that are held at a time; one alone may be larger
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
	cfg Config

	mu   sync.Mutex // guards the fields below
	of   map[key]*account
	full int // how many accounts there are when those are looked for that can go
}

// key names a user of a project, or, without one, the project.
type key struct{ project, user string }

// account is what is known of a user or a project.
type account struct {
	requests, repeats *rate.Limiter // nil for no limit
	streams           int
	subscriptions     int
	bytes             int64
}

// few is how many accounts are never too many.
const few = 1024

// New returns a Meter that has counted nothing.
func New(cfg Config) *Meter {
	return &Meter{cfg: cfg, of: make(map[key]*account), full: few}
}

// Config is what the Meter was made with, nothing for a nil Meter.
func (m *Meter) Config() Config {
	if m == nil {
		return Config{}
	}
	return m.cfg
}

// Take lets a request pass, or refuses it with an *runtime.Error that says when to try again. One that is refused is not counted.
func (m *Meter) Take(who runtime.Caller) error {
	return m.take(who, func(a *account) *rate.Limiter { return a.requests })
}

// TakeRepeat is Take, out of buckets of their own, for requests that Take has refused and that may be repeats: what they are
// answered is remembered, but it costs something to find out.
func (m *Meter) TakeRepeat(who runtime.Caller) error {
	return m.take(who, func(a *account) *rate.Limiter { return a.repeats })
}

func (m *Meter) take(who runtime.Caller, of func(*account) *rate.Limiter) error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	user, project := m.accounts(who, now)
	if wait := lacks(of(user), now); wait > 0 {
		return refuse("rate_limited", wait, "You may send %d requests a second, and %d at once", m.cfg.User.Requests, m.cfg.User.burst())
	}
	if wait := lacks(of(project), now); wait > 0 {
		return refuse("rate_limited", wait, "Your project may send %d requests a second, and %d at once", m.cfg.Project.Requests, m.cfg.Project.burst())
	}
	for _, l := range []*rate.Limiter{of(user), of(project)} {
		if l != nil {
			l.AllowN(now, 1)
		}
	}
	return nil
}

// lacks is how long it takes until l has a token, 0 for one that has.
func lacks(l *rate.Limiter, now time.Time) time.Duration {
	if l == nil {
		return 0
	}
	missing := 1 - l.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return max(time.Duration(math.Ceil(missing/float64(l.Limit())*float64(time.Second))), 1)
}

// retryStream is when whoever has too many streams open may try again: nobody knows when one ends.
const retryStream = 5 * time.Second

// Reserve holds a place for a stream until release is called, or refuses it with an *runtime.Error.
func (m *Meter) Reserve(who runtime.Caller) (release func(), err error) {
	if m == nil {
		return func() {}, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	user, project := m.accounts(who, time.Now())
	switch {
	case m.cfg.User.Streams > 0 && user.streams >= m.cfg.User.Streams:
		return nil, refuse("too_many_streams", retryStream, "You may have %d streams open at a time", m.cfg.User.Streams)
	case m.cfg.Project.Streams > 0 && project.streams >= m.cfg.Project.Streams:
		return nil, refuse("too_many_streams", retryStream, "Your project may have %d streams open at a time", m.cfg.Project.Streams)
	}
	return m.open(user, project), nil
}

// Hold counts a stream that has begun until release is called.
func (m *Meter) Hold(who runtime.Caller) (release func()) {
	if m == nil {
		return func() {}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.open(m.accounts(who, time.Now()))
}

// open counts a stream. The caller holds mu.
func (m *Meter) open(user, project *account) (release func()) {
	user.streams++
	project.streams++
	return sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		user.streams--
		project.streams--
	})
}

// Subscribe counts a thread that is shown on a socket until release is called, or refuses it with an *runtime.Error.
func (m *Meter) Subscribe(who runtime.Caller) (release func(), err error) {
	if m == nil {
		return func() {}, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	user, project := m.accounts(who, time.Now())
	over := func(a *account, most int) bool { return most > 0 && a.subscriptions >= most }
	switch most, all := m.cfg.User.Subscriptions(), m.cfg.Project.Subscriptions(); {
	case over(user, most):
		return nil, refuse("too_many_subscriptions", retryStream, "All your sockets together may show %d threads at a time", most)
	case over(project, all):
		return nil, refuse("too_many_subscriptions", retryStream, "All sockets of your project together may show %d threads at a time", all)
	}
	user.subscriptions++
	project.subscriptions++
	return sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		user.subscriptions--
		project.subscriptions--
	}), nil
}

// retryBytes is when whoever has too much held may try again.
const retryBytes = 2 * time.Second

// Payer returns who pays for what is held for a caller, and its project. It keeps within their limits, but one request, message
// or answer alone may be larger.
func (m *Meter) Payer(who runtime.Caller) *Payer { return &Payer{m, who} }

// Payer is a caller as somebody for whom bytes are held. A Payer of a nil Meter pays for anything.
type Payer struct {
	m   *Meter
	who runtime.Caller
}

// Pay counts n bytes more of what has some already, or refuses them with an *runtime.Error. Below 0 they are given back.
func (p *Payer) Pay(has, n int64) error {
	m := p.m
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	_, project := m.accounts(p.who, time.Now())
	user := m.holder(p.who)
	over := func(a *account, most int64) bool { return n > 0 && most > 0 && a.bytes > has && a.bytes+n > most }
	switch {
	case over(user, m.cfg.User.Bytes):
		return refuse("too_many_bytes", retryBytes, "You may have %d bytes of requests and answers under way", m.cfg.User.Bytes)
	case over(project, m.cfg.Project.Bytes):
		return refuse("too_many_bytes", retryBytes, "Your project may have %d bytes of requests and answers under way", m.cfg.Project.Bytes)
	}
	user.bytes += n
	project.bytes += n
	return nil
}

// Used is how much of its limits somebody uses now.
type Used struct {
	Requests      int // of its burst
	Streams       int
	Subscriptions int
	Bytes         int64
}

// Used returns what a caller and its project use.
func (m *Meter) Used(who runtime.Caller) (user, project Used) {
	if m == nil {
		return Used{}, Used{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	u, p := m.accounts(who, now)
	user, project = u.used(now), p.used(now)
	user.Bytes = m.holder(who).bytes
	return user, project
}

// holder returns the account that a caller's bytes are counted in. The caller holds mu.
func (m *Meter) holder(who runtime.Caller) *account {
	return m.account(key{who.Home(), who.User()}, m.cfg.User)
}

func (a *account) used(now time.Time) Used {
	u := Used{Streams: a.streams, Subscriptions: a.subscriptions, Bytes: a.bytes}
	if a.requests != nil {
		u.Requests = a.requests.Burst() - int(a.requests.TokensAt(now))
	}
	return u
}

// accounts returns a caller's and its project's. The caller holds mu.
func (m *Meter) accounts(who runtime.Caller, now time.Time) (user, project *account) {
	if len(m.of) >= m.full {
		for k, a := range m.of {
			if a.idle(now) {
				delete(m.of, k)
			}
		}
		m.full = max(few, 2*len(m.of))
	}
	return m.account(key{who.Project(), who.User()}, m.cfg.User), m.account(key{project: who.Project()}, m.cfg.Project)
}

func (m *Meter) account(k key, l Limits) *account {
	a := m.of[k]
	if a == nil {
		a = &account{requests: bucket(l), repeats: bucket(l)}
		m.of[k] = a
	}
	return a
}

func bucket(l Limits) *rate.Limiter {
	if l.Requests <= 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(l.Requests), l.burst())
}

// idle reports whether nothing is lost with the account: a new one would be as full.
func (a *account) idle(now time.Time) bool {
	return a.streams == 0 && a.subscriptions == 0 && a.bytes == 0 && whole(a.requests, now) && whole(a.repeats, now)
}

func whole(l *rate.Limiter, now time.Time) bool {
	return l == nil || l.TokensAt(now) >= float64(l.Burst())
}

func refuse(code string, wait time.Duration, format string, args ...any) error {
	return &runtime.Error{Kind: runtime.KindOverloaded, Code: code, Detail: fmt.Sprintf(format, args...), RetryAfter: wait}
}
