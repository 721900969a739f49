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
)

// breaker watches the failures of one model, for all its callers.
type breaker struct {
	*gobreaker.TwoStepCircuitBreaker[struct{}]
	model string

	mu   sync.Mutex // guards the fields below
	last error
	at   time.Time
}

func newBreaker(model string) *breaker {
	return &breaker{model: model, TwoStepCircuitBreaker: gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:     downTime,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= maxFailures },
		IsExcluded:  func(err error) bool { return errors.Is(err, ErrNeither) },
	})}
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

// Down returns why the model is not called at present, or nil.
func (m *Model) Down() *DownError {
	if m == nil || m.breaker.State() != gobreaker.StateOpen {
		return nil
	}
	return m.breaker.down()
}
