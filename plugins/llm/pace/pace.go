// Package pace lets calls of a provider wait for its rate limits, so that they do not fail.
package pace

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/batonrun/baton/runtime/quota"
)

// Limits are a provider's limits. 0 is no limit.
type Limits struct {
	Requests   int64 // started in a minute
	Tokens     int64 // of requests and answers, in a minute
	Concurrent int64
}

// Pacer admits the calls of a provider within its configured limits, and within those that the provider states or shows for each
// model. Calls of one user are admitted in order, and users in turn. One call may exceed the limit of tokens. A Pacer is safe
// for concurrent use, and a nil Pacer has no limits.
type Pacer struct {
	pools pools // of the configured limits

	mu     sync.Mutex // guards the fields below
	models map[string]*Model
}

// New returns a Pacer without configured limits.
func New() *Pacer { return &Pacer{pools: newPools(), models: make(map[string]*Model)} }

// Model is a Pacer's state of one model. A nil Model knows nothing.
type Model struct {
	of       *Pacer
	name     string
	breaker  *breaker
	pools    pools       // of the limits that the provider tells
	starting *quota.Pool // calls that have no answer yet

	mu       sync.Mutex // guards the fields below
	until    time.Time  // no call is admitted before
	refusals int        // in a row
	room     int64      // for starting calls after a refusal, 0 for any number
}

// pools are the units in use: of the last minute, and of calls that are under way.
type pools struct{ requests, tokens, concurrent *quota.Pool }

func newPools() pools {
	return pools{quota.New(quota.Limits{}), quota.New(quota.Limits{}), quota.New(quota.Limits{})}
}

func total(n int64) quota.Limits { return quota.Limits{Total: n} }

const (
	// window is how long a call counts: a second more than a minute, because one call can take longer than the next to arrive.
	window = 61 * time.Second
	// maxModels limits the models of a provider that are known.
	maxModels = 1000
)

// Configure sets the limits. It may be called again.
func (p *Pacer) Configure(l Limits) {
	p.pools.requests.SetLimits(total(l.Requests))
	p.pools.tokens.SetLimits(total(l.Tokens))
	p.pools.concurrent.SetLimits(total(l.Concurrent))
}

// Model returns a model of the provider.
func (p *Pacer) Model(name string) *Model {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.models[name]
	if m == nil {
		if len(p.models) == maxModels {
			clear(p.models)
		}
		m = &Model{of: p, name: name, breaker: newBreaker(name), pools: newPools(), starting: quota.New(quota.Limits{})}
		p.models[name] = m
	}
	return m
}

// Tell sets the provider's own limits of requests and tokens of the model in a minute, where none are configured. 0 is unknown.
func (m *Model) Tell(requests, tokens int64) {
	if m == nil {
		return
	}
	own := &m.of.pools
	if requests > 0 && own.requests.Limits().Total == 0 {
		m.pools.requests.SetLimits(total(requests))
	}
	if tokens > 0 && own.tokens.Limits().Total == 0 {
		m.pools.tokens.SetLimits(total(tokens))
	}
}

// Request describes a call before it is made.
type Request struct {
	Project, User string
	Tokens        int64 // an estimate
	Else          bool  // another model can be called instead
}

// Call is an admitted call. End it.
type Call struct {
	held     []*quota.Reservation // until its end
	requests []*quota.Reservation // for a minute
	tokens   []*quota.Reservation // likewise
	starting *quota.Reservation   // until its answer begins
	breaker  *breaker
	done     func(error) // reports the outcome to the breaker; nil if it was reported, or is not asked for
}

// Admit returns when a call may start. If it has to wait, idle runs the wait, which lasts until
// a time if the provider has stated it, else the zero time. It fails with a *DownError if the model is down and
// another can be called instead, with ErrTooLong, and with ctx's cause.
func (m *Model) Admit(ctx context.Context, r Request, idle func(until time.Time, wait func() error) error) (*Call, error) {
	if m == nil {
		return nil, nil
	}
	if down := m.Down(); down != nil && r.Else {
		return nil, down
	}
	o := quota.OwnerOf(r.Project, r.User)
	c := &Call{breaker: m.breaker}
	full := m.take(c, r.Tokens, func(p *quota.Pool, n int64) (*quota.Reservation, error) {
		got, full := p.Try(o, n)
		if full != quota.None {
			return got, errFull
		}
		return got, nil
	})
	if full == nil && m.paused() > 0 {
		full = errFull
	}
	if full != nil {
		c.release()
		err := idle(m.pauseEnd(), func() error {
			err := m.take(c, r.Tokens, func(p *quota.Pool, n int64) (*quota.Reservation, error) { return p.Take(ctx, o, n) })
			if err == nil {
				err = m.pause(ctx)
			}
			return err
		})
		if err != nil {
			c.release()
			return nil, err
		}
	}
	var tried error
	if c.done, tried = m.breaker.Allow(); tried != nil && r.Else { // another call tries the model
		c.release()
		return nil, m.breaker.down()
	}
	time.AfterFunc(window, func() {
		releaseAll(c.requests)
		releaseAll(c.tokens)
	})
	return c, nil
}

var errFull = errors.New("a pool is full")

// take reserves the requests and tokens of a call with reserve.
func (m *Model) take(c *Call, tokens int64, reserve func(p *quota.Pool, n int64) (*quota.Reservation, error)) (err error) {
	into := func(list *[]*quota.Reservation, p *quota.Pool, n int64) {
		if err != nil {
			return
		}
		var r *quota.Reservation
		r, err = reserve(p, n)
		*list = append(*list, r)
	}
	var starting []*quota.Reservation
	into(&starting, m.starting, 1)
	c.starting = starting[0]
	into(&c.held, m.of.pools.concurrent, 1)
	for _, in := range []*pools{&m.of.pools, &m.pools} {
		into(&c.requests, in.requests, 1)
		into(&c.tokens, in.tokens, tokens)
	}
	return err
}

// release gives back the reservation of a call that was not made.
func (c *Call) release() {
	c.starting.Release()
	for _, list := range []*[]*quota.Reservation{&c.held, &c.requests, &c.tokens} {
		releaseAll(*list)
		*list = nil
	}
}

func releaseAll(list []*quota.Reservation) {
	for _, r := range list {
		r.Release()
	}
}

// ErrTooLong means that the provider takes no calls for longer than the call may take.
var ErrTooLong = errors.New("the provider takes no calls for longer than this one may take")

// pauseEnd returns the end of the present pause, zero if there is none.
func (m *Model) pauseEnd() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Until(m.until) <= 0 {
		return time.Time{}
	}
	return m.until
}

// paused returns for how long no call is admitted.
func (m *Model) paused() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Until(m.until)
}

// pause waits for the end of a pause. It fails at once with ErrTooLong if that is after ctx's deadline.
func (m *Model) pause(ctx context.Context) error {
	for left := m.paused(); left > 0; left = m.paused() {
		if end, ok := ctx.Deadline(); ok && time.Until(end) < left {
			return ErrTooLong
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
	return nil
}

// Answered says that the answer has begun: the model is up, and has room for another call. A nil Call ignores it, and only the first
// time counts.
func (c *Call) Answered() {
	if c == nil || c.starting == nil { // it is called for each piece
		return
	}
	c.starting.Release()
	c.starting = nil
	if c.done != nil {
		c.done(nil)
		c.done = nil
	}
}

// Used replaces the estimate of the call's tokens. A nil Call ignores it.
func (c *Call) Used(tokens int64) {
	if c == nil {
		return
	}
	for _, r := range c.tokens {
		if held := r.Held(); held > 0 {
			r.Force(tokens - held)
		}
	}
}

// End says that the call has ended with an answer, if err is nil, or has failed. Failures that do not mean that the model is down
// are reported as ErrNeither. A nil Call ignores it, and a second End does nothing.
func (c *Call) End(err error) {
	if c == nil {
		return
	}
	c.starting.Release()
	releaseAll(c.held)
	if c.done == nil {
		return
	}
	c.breaker.note(err)
	c.done(err)
	c.done = nil
}

// Pause admits no call of the model for d, unless that is more than a minute.
func (m *Model) Pause(d time.Duration) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.delay(d)
}

// delay moves the end of the pause. The caller holds mu.
func (m *Model) delay(d time.Duration) {
	if until := time.Now().Add(d); d <= longest && until.After(m.until) {
		m.until = until
	}
}

// first is the first pause after a refusal without a time, and longest limits all pauses.
const (
	first   = time.Second / 2
	longest = time.Minute
)

// Refused says that the provider refused a call that was too much for it, and for how long. Without a time, each refusal after a
// pause makes the next pause longer. Afterwards calls are admitted one by one, and each that is accepted makes room for one more.
func (m *Model) Refused(after time.Duration) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if paused := time.Now().Before(m.until); !paused { // calls that were under way together are refused together
		if after <= 0 || after > longest { // a long time is the caller's business
			after = first << min(m.refusals, 6)
		}
		m.refusals++
		m.room = 1
		m.starting.SetLimits(total(m.room))
	}
	m.delay(after)
}

// Accepted says that the provider accepted a call.
func (m *Model) Accepted() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refusals = 0; m.room == 0 {
		return
	}
	if m.room++; m.room > most {
		m.room = 0
	}
	m.starting.SetLimits(total(m.room))
}

// most is the number of starting calls from which they are not limited any more after a refusal.
const most = 1000
