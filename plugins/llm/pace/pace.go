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

// Pacer admits calls within limits. Calls of one user are admitted in order, and users in turn. One call may exceed the limit of
// tokens. A Pacer is safe for concurrent use. The zero value has no limits until it is told of some, and a nil
// Pacer never has any.
type Pacer struct {
	mu         sync.Mutex // guards the fields below
	configured Limits
	told       Limits
	pools      *pools    // does not change once it is set
	until      time.Time // no call is admitted before
	refusals   int       // in a row
	room       int64     // for concurrent calls after a refusal, 0 for any number
	breakers   map[string]*breaker
}

// pools are the units in use: of the last minute, and of calls that are under way.
type pools struct{ requests, tokens, concurrent *quota.Pool }

// window is how long a call counts: a second more than a minute, because one call can take longer than the next to arrive.
const window = 61 * time.Second

// Configure sets the limits. It may be called again.
func (p *Pacer) Configure(l Limits) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.configured = l
	p.limit()
}

// Tell sets the provider's own limits of requests and tokens in a minute, where none are configured. 0 is unknown.
func (p *Pacer) Tell(requests, tokens int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if requests > 0 {
		p.told.Requests = requests
	}
	if tokens > 0 {
		p.told.Tokens = tokens
	}
	p.limit()
}

// limit sets the limits of the pools. The caller holds mu.
func (p *Pacer) limit() *pools {
	if p.pools == nil {
		p.pools = &pools{quota.New(quota.Limits{}), quota.New(quota.Limits{}), quota.New(quota.Limits{})}
	}
	either := func(configured, told int64) quota.Limits {
		if configured > 0 {
			return quota.Limits{Total: configured}
		}
		return quota.Limits{Total: told}
	}
	p.pools.requests.SetLimits(either(p.configured.Requests, p.told.Requests))
	p.pools.tokens.SetLimits(either(p.configured.Tokens, p.told.Tokens))
	concurrent := p.configured.Concurrent
	if p.room > 0 && (concurrent == 0 || p.room < concurrent) {
		concurrent = p.room
	}
	p.pools.concurrent.SetLimits(quota.Limits{Total: concurrent})
	return p.pools
}

// Request is what is known of a call before it is made.
type Request struct {
	Project, User string
	Model         string
	Tokens        int64 // an estimate
	Else          bool  // another model can be called instead
}

// Call is an admitted call. End it.
type Call struct {
	concurrent, request, tokens *quota.Reservation
	breaker                     *breaker
	done                        func(error)
}

// Admit returns when a call may start. If it has to wait, idle runs the wait. It fails with a *DownError if the model is down and
// another can be called instead, with ErrTooLong, and with ctx's cause.
func (p *Pacer) Admit(ctx context.Context, r Request, idle func(wait func() error) error) (*Call, error) {
	if p == nil {
		return nil, nil
	}
	b := p.breaker(r.Model)
	done, err := b.Allow()
	if err != nil && r.Else {
		return nil, b.down()
	}
	o := quota.OwnerOf(r.Project, r.User)
	c := p.try(o, r.Tokens)
	if c == nil {
		err := idle(func() (err error) {
			c, err = p.wait(ctx, o, r.Tokens)
			return err
		})
		if err != nil {
			if done != nil {
				done(ErrNeither)
			}
			return nil, err
		}
	}
	c.breaker, c.done = b, done
	time.AfterFunc(window, func() {
		c.request.Release()
		c.tokens.Release()
	})
	return c, nil
}

// release gives back what a call that was not made holds.
func (c *Call) release() {
	for _, r := range []*quota.Reservation{c.concurrent, c.request, c.tokens} {
		r.Release()
	}
}

// try admits a call that need not wait, or returns nil.
func (p *Pacer) try(o quota.Owner, tokens int64) *Call {
	p.mu.Lock()
	in, paused := p.limit(), time.Now().Before(p.until)
	p.mu.Unlock()
	if paused {
		return nil
	}
	var full quota.Scope
	c := new(Call)
	if c.concurrent, full = in.concurrent.Try(o, 1); full == quota.None {
		if c.request, full = in.requests.Try(o, 1); full == quota.None {
			c.tokens, full = in.tokens.Try(o, tokens)
		}
	}
	if full != quota.None {
		c.release()
		return nil
	}
	return c
}

// wait admits a call when it may start.
func (p *Pacer) wait(ctx context.Context, o quota.Owner, tokens int64) (_ *Call, err error) {
	c := new(Call)
	if c.concurrent, err = p.pools.concurrent.Take(ctx, o, 1); err == nil {
		if c.request, err = p.pools.requests.Take(ctx, o, 1); err == nil {
			if c.tokens, err = p.pools.tokens.Take(ctx, o, tokens); err == nil {
				err = p.pause(ctx)
			}
		}
	}
	if err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}

// ErrTooLong means that the provider takes no calls for longer than the call may take.
var ErrTooLong = errors.New("the provider takes no calls for longer than this one may take")

// pause waits for the end of a pause. It fails at once with ErrTooLong if that is after ctx's deadline.
func (p *Pacer) pause(ctx context.Context) error {
	for {
		p.mu.Lock()
		left := time.Until(p.until)
		p.mu.Unlock()
		if left <= 0 {
			return nil
		}
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
}

// Used replaces the estimate of the call's tokens. A nil Call ignores it.
func (c *Call) Used(tokens int64) {
	if c == nil {
		return
	}
	if held := c.tokens.Held(); held > 0 {
		c.tokens.Force(tokens - held)
	}
}

// End says that the call has ended with an answer, if err is nil, or has failed. Failures that do not mean that the model is down
// are reported as ErrNeither. A nil Call ignores it, and a second End does nothing.
func (c *Call) End(err error) {
	if c == nil {
		return
	}
	c.concurrent.Release()
	if c.done == nil {
		return
	}
	c.breaker.note(err)
	c.done(err)
	c.done = nil
}

// Pause admits no call for d, unless that is more than a minute.
func (p *Pacer) Pause(d time.Duration) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay(d)
}

// delay moves the end of the pause. The caller holds mu.
func (p *Pacer) delay(d time.Duration) {
	if until := time.Now().Add(d); d <= longest && until.After(p.until) {
		p.until = until
	}
}

// first is the first pause after a refusal without a time, and longest limits all pauses.
const (
	first   = time.Second / 2
	longest = time.Minute
)

// Refused says that the provider refused a call that was too much for it, and for how long. Without a time, each refusal after a
// pause makes the next pause longer. Afterwards calls are admitted one by one, and each that is accepted makes room for one more.
func (p *Pacer) Refused(after time.Duration) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if paused := time.Now().Before(p.until); !paused { // calls that were under way together are refused together
		if after <= 0 || after > longest { // a long time is the caller's business
			after = first << min(p.refusals, 6)
		}
		p.refusals++
		p.room = 1
		p.limit()
	}
	p.delay(after)
}

// Accepted says that the provider accepted a call.
func (p *Pacer) Accepted() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refusals = 0; p.room == 0 {
		return
	}
	if p.room++; p.room > most {
		p.room = 0
	}
	p.limit()
}

// most is the number of concurrent calls from which they are not limited any more after a refusal.
const most = 1000
