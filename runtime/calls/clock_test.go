package calls

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// The time in which a call waits for a provider's pace does not count, also when two calls wait at once.
func TestClock_StandsStill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, stop := WithTimeout(t.Context(), 3*time.Second)
		defer stop()
		<-time.After(time.Second)
		one := StopClock(ctx)
		<-time.After(time.Minute)
		two := StopClock(ctx)
		one()
		<-time.After(time.Minute)
		two()
		<-ctx.Done()
		if got, want := time.Since(began), 2*time.Minute+3*time.Second; got != want || !errors.Is(context.Cause(ctx), ErrTimeout) {
			t.Errorf("it ended after %v with %v, want %v", got, context.Cause(ctx), want)
		}
	})
}
