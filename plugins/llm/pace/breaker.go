package pace

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
)

// ErrNeither ends a call that says nothing about its model: it was cancelled, or its request was wrong.
var ErrNeither = errors.New("neither an answer nor a failure of the model")

const (
	// maxFailures in a row mean that a model is down.
	maxFailures = 3
	// downTime is how long a model that is down gets no calls. Then one call tries it.
	downTime = 30 * time.Second
	// maxBreakers limits the models of a provider that are watched.
	maxBreakers = 1000
)

// breaker watches the failures of one model, for all its callers.
type breaker struct {
	*gobreaker.TwoStepCircuitBreaker[struct{}]
	model string

	mu   sync.Mutex // guards the fields below
	last error
	at   time.Time
}

// breaker returns the breaker of a model.
func (p *Pacer) breaker(model string) *breaker {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.breakers[model]
	if b == nil {
		if p.breakers == nil || len(p.breakers) == maxBreakers {
			p.breakers = make(map[string]*breaker)
		}
		b = &breaker{model: model, TwoStepCircuitBreaker: gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
			Timeout:     downTime,
			ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= maxFailures },
			IsExcluded:  func(err error) bool { return errors.Is(err, ErrNeither) },
		})}
		p.breakers[model] = b
	}
	return b
}

// note keeps a failure for the message of a DownError.
func (b *breaker) note(err error) {
	if err == nil || errors.Is(err, ErrNeither) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last, b.at = err, time.Now()
}

// DownError means that a model has failed several times in a row, and is not called for a while.
type DownError struct {
	Model string
	Until time.Time
	Last  error // the last failure
}

func (e *DownError) Error() string {
	return fmt.Sprintf("the model %s is not called until %s, because %d calls in a row have failed: %v", e.Model, e.Until.UTC().Format(time.TimeOnly), maxFailures, e.Last)
}

func (b *breaker) down() *DownError {
	b.mu.Lock()
	defer b.mu.Unlock()
	return &DownError{Model: b.model, Until: b.at.Add(downTime), Last: b.last}
}

// Down returns why a model is not called at present, or nil.
func (p *Pacer) Down(model string) *DownError {
	if p == nil {
		return nil
	}
	if b := p.breaker(model); b.State() == gobreaker.StateOpen {
		return b.down()
	}
	return nil
}
