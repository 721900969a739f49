package pace_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonrun/baton/plugins/llm/pace"
)

// atOnce runs a wait as it is.
func atOnce(_ time.Time, wait func() error) error { return wait() }

// provider records when its calls arrived.
type provider struct {
	mu       sync.Mutex
	arrivals []arrival
}

type arrival struct {
	at     time.Time
	user   string
	tokens int64
}

func (p *provider) take(user string, tokens int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.arrivals = append(p.arrivals, arrival{time.Now(), user, tokens})
}

// most returns the most calls and tokens in any minute.
func (p *provider) most() (calls, tokens int64) {
	for i, from := range p.arrivals {
		var n, sum int64
		for _, a := range p.arrivals[i:] {
			if a.at.Sub(from.at) < time.Minute {
				n, sum = n+1, sum+a.tokens
			}
		}
		calls, tokens = max(calls, n), max(tokens, sum)
	}
	return calls, tokens
}

func TestPacer_KeepsTheLimitsAndServesUsersInTurn(t *testing.T) {
	for _, limits := range []pace.Limits{
		{Requests: 60}, {Tokens: 6000}, {Requests: 60, Tokens: 6000, Concurrent: 10}, {Requests: 60, Concurrent: 3},
	} {
		t.Run(fmt.Sprint(limits), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := pace.New()
				p.Configure(limits)
				var served provider
				var all sync.WaitGroup
				calls := map[string]int{"busy": 300}
				for i := range 9 {
					calls[fmt.Sprint("user ", i)] = 5
				}
				begun := time.Now()
				for range calls["busy"] {
					all.Go(func() { call(t, p, &served, "busy") })
				}
				synctest.Wait() // the busy user is in line first
				for user, n := range calls {
					for range n {
						if user != "busy" {
							all.Go(func() { call(t, p, &served, user) })
						}
					}
				}
				all.Wait()
				n, tokens := served.most()
				if limits.Requests > 0 && n > limits.Requests || limits.Tokens > 0 && tokens > limits.Tokens {
					t.Errorf("%d calls and %d tokens in a minute", n, tokens)
				}
				if len(served.arrivals) != 345 {
					t.Errorf("%d calls were made, want 345", len(served.arrivals))
				}
				for _, a := range served.arrivals {
					if took := a.at.Sub(begun); a.user != "busy" && took > 3*time.Minute {
						t.Errorf("a call of %s started after %s", a.user, took)
					}
				}
			})
		})
	}
}

// call makes a call that takes half a second and 100 tokens, which were estimated as 150.
func call(t *testing.T, p *pace.Pacer, to *provider, user string) {
	t.Helper()
	c, err := p.Model("m").Admit(t.Context(), pace.Request{Project: "p", User: user, Tokens: 150}, atOnce)
	if err != nil {
		t.Error(err)
		return
	}
	to.take(user, 100)
	<-time.After(time.Second / 2)
	c.Used(100)
	c.End(nil)
}

func TestPacer_LimitsConcurrentCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace.New()
		p.Configure(pace.Limits{Concurrent: 2})
		var mu sync.Mutex
		var now, most int
		var all sync.WaitGroup
		for range 9 {
			all.Go(func() {
				c, err := p.Model("m").Admit(t.Context(), pace.Request{Project: "p", User: "u", Tokens: 0}, atOnce)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				now++
				most = max(most, now)
				mu.Unlock()
				<-time.After(time.Second)
				mu.Lock()
				now--
				mu.Unlock()
				c.End(nil)
				c.End(nil)
			})
		}
		all.Wait()
		if most != 2 {
			t.Errorf("%d calls at once, want 2", most)
		}
	})
}

func TestPacer_PausesAfterRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace.New()
		waited := func() time.Duration {
			from := time.Now()
			c, err := p.Model("m").Admit(t.Context(), pace.Request{Project: "p", User: "u", Tokens: 1}, atOnce)
			if err != nil {
				t.Fatal(err)
			}
			c.End(nil)
			return time.Since(from)
		}
		for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 64} {
			p.Model("m").Refused(0)
			p.Model("m").Refused(0) // under way at the same time
			if got := waited(); got != min(want*time.Second/2, time.Minute) {
				t.Errorf("waited for %s, want %s", got, want*time.Second/2)
			}
		}
		p.Model("m").Accepted()
		p.Model("m").Refused(0)
		if got := waited(); got != time.Second/2 {
			t.Errorf("waited for %s after an accepted call, want 500ms", got)
		}
		p.Model("m").Refused(7 * time.Second)
		p.Model("m").Pause(3 * time.Second)
		if got := waited(); got != 7*time.Second {
			t.Errorf("waited for %s, want 7s", got)
		}
		p.Model("m").Pause(time.Hour)
		if got := waited(); got != 0 {
			t.Errorf("waited for %s, want not at all", got)
		}
		p.Model("m").Accepted()
		p.Model("m").Refused(time.Hour)
		if got := waited(); got != time.Second/2 {
			t.Errorf("waited for %s, want 500ms", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		p.Model("m").Pause(3 * time.Second)
		if _, err := p.Model("m").Admit(ctx, pace.Request{}, atOnce); !errors.Is(err, pace.ErrTooLong) || ctx.Err() != nil {
			t.Errorf("got %v, want %v at once", err, pace.ErrTooLong)
		}
	})
}

func TestPacer_LearnsLimitsThatAreNotConfigured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace.New()
		admitted := func(n int) (in int) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			for range n {
				if _, err := p.Model("m").Admit(ctx, pace.Request{Project: "p", User: "u", Tokens: 1}, atOnce); err == nil {
					in++
				}
			}
			<-time.After(2 * time.Minute)
			return in
		}
		if got := admitted(9); got != 9 {
			t.Errorf("%d of 9 were admitted without a limit", got)
		}
		p.Model("m").Tell(5, 0)
		if got := admitted(9); got != 5 {
			t.Errorf("%d were admitted, want 5", got)
		}
		p.Configure(pace.Limits{Requests: 3})
		p.Model("m").Tell(7, 0)
		if got := admitted(9); got != 3 {
			t.Errorf("%d were admitted, want 3: a configured limit goes first", got)
		}
	})
}

func TestPacer_WaitsEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("gone")
		for _, limits := range []pace.Limits{{Requests: 1}, {Tokens: 1}, {Concurrent: 1}, {}} {
			p := pace.New()
			p.Configure(limits)
			first, err := p.Model("m").Admit(t.Context(), pace.Request{Project: "p", User: "u", Tokens: 1}, atOnce)
			if err != nil {
				t.Fatal(err)
			}
			if limits == (pace.Limits{}) {
				p.Model("m").Pause(time.Minute)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := p.Model("m").Admit(ctx, pace.Request{Project: "p", User: "v", Tokens: 1}, atOnce)
				ended <- err
			}()
			synctest.Wait()
			cancel(gone)
			if err := <-ended; !errors.Is(err, gone) {
				t.Errorf("%+v: %v, want %v", limits, err, gone)
			}
			first.End(nil)
			<-time.After(2 * time.Minute)
			if _, err := p.Model("m").Admit(t.Context(), pace.Request{Project: "p", User: "v", Tokens: 1}, atOnce); err != nil { // nothing was left behind
				t.Error(err)
			}
		}
	})
}

var errBroken = errors.New("503")

// ends makes a call that ends with err, and returns the failure of its admission.
func ends(t *testing.T, p *pace.Pacer, r pace.Request, err error) error {
	t.Helper()
	c, refused := p.Model("m").Admit(t.Context(), r, atOnce)
	if refused == nil {
		c.End(err)
	}
	return refused
}

func TestPacer_ModelThatIsDownIsTriedOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace.New()
		r := pace.Request{Else: true}
		for _, err := range []error{errBroken, errBroken, nil, errBroken, pace.ErrNeither, errBroken, errBroken} {
			if down := ends(t, p, r, err); down != nil || p.Model("other").Down() != nil {
				t.Fatal(down)
			}
		}
		down, ok := errors.AsType[*pace.DownError](ends(t, p, r, nil))
		want := pace.DownError{Model: "m", Until: time.Now().Add(30 * time.Second), Last: errBroken}
		if !ok || *down != want || p.Model("m").Down() == nil {
			t.Fatalf("got %+v, want %+v", down, want)
		}
		if err := ends(t, p, pace.Request{}, errBroken); err != nil {
			t.Errorf("without another model: %v", err)
		}
		<-time.After(31 * time.Second)
		trying, err := p.Model("m").Admit(t.Context(), r, atOnce)
		if err != nil {
			t.Fatal(err)
		}
		if err := ends(t, p, r, nil); err == nil {
			t.Error("two calls try the model")
		}
		if trying.End(errBroken); p.Model("m").Down() == nil {
			t.Error("the model is not down after a failed trial")
		}
		<-time.After(31 * time.Second)
		for _, err := range []error{pace.ErrNeither, nil, errBroken} {
			if down := ends(t, p, r, err); down != nil {
				t.Error(down)
			}
		}
		if err := p.Model("m").Down(); err != nil {
			t.Errorf("after an answer: %v", err)
		}
	})
}

func TestPacer_CallThatDidNotStartTriesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace.New()
		r := pace.Request{Else: true}
		for range 3 {
			_ = ends(t, p, r, errBroken)
		}
		<-time.After(31 * time.Second)
		p.Model("m").Pause(time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := p.Model("m").Admit(ctx, r, atOnce); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		<-time.After(2 * time.Minute)
		if err := ends(t, p, r, nil); err != nil {
			t.Error(err)
		}
	})
}

// Long answers that were accepted before a refusal do not hold up other calls.
func TestModel_RefusalDoesNotWaitForAcceptedAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace.New()
		m := p.Model("m")
		for range 5 {
			c, err := m.Admit(t.Context(), pace.Request{}, atOnce)
			if err != nil {
				t.Fatal(err)
			}
			m.Accepted()
			c.Answered()
		}
		m.Refused(0)
		from := time.Now()
		if _, err := m.Admit(t.Context(), pace.Request{}, atOnce); err != nil || time.Since(from) != time.Second/2 {
			t.Errorf("admitted after %s, %v", time.Since(from), err)
		}
	})
}

func TestModel_LimitsAreItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace.New()
		p.Model("small").Tell(1, 1)
		p.Model("small").Refused(20 * time.Second)
		from := time.Now()
		for range 3 {
			if _, err := p.Model("large").Admit(t.Context(), pace.Request{Tokens: 9}, atOnce); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(from); took != 0 {
			t.Errorf("a call of another model waited for %s", took)
		}
	})
}

// The first call after an outage shows with the beginning of its answer that the model is up.
func TestModel_AnswerThatBeginsEndsTheTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace.New()
		r := pace.Request{Else: true}
		for range 3 {
			_ = ends(t, p, r, errBroken)
		}
		<-time.After(31 * time.Second)
		long, err := p.Model("m").Admit(t.Context(), r, atOnce)
		if err != nil {
			t.Fatal(err)
		}
		long.Answered()
		if err := ends(t, p, r, nil); err != nil {
			t.Error(err)
		}
	})
}
