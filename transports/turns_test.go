package transports

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/batonrun/baton/runtime"
)

// A user who asks for more large answers than are made at a time waits for turns of its own, and others do not wait for it.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caller := func(user string) runtime.Caller {
			c, err := runtime.NewCaller("p1", user, runtime.RoleUser)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		ctx := t.Context()
		s := &Streams{turns: newTurns(true)}
		take := func(user string) (end func()) {
			t.Helper()
			end, err := s.Turn(ctx, caller(user))
			if err != nil {
				t.Fatal(err)
			}
			return end
		}
		var ends []func()
		for range s.turns.each {
			ends = append(ends, take("alice"))
		}
		gone := errors.New("the client has left")
		leaving, leave := context.WithCancelCause(ctx)
		left := make(chan error, 1)
		go func() {
			_, err := s.Turn(leaving, caller("alice"))
			left <- err
		}()
		taken := make(chan func(), 1)
		go func() { taken <- take("alice") }()
		synctest.Wait()
		take("bob")()
		if len(left)+len(taken) > 0 {
			t.Error("alice has more turns than a user may have")
		}
		leave(gone)
		if err := <-left; !errors.Is(err, gone) {
			t.Errorf("who waits in vain gets %v", err)
		}
		ends[0]()
		(<-taken)()
		for _, end := range ends[1:] {
			end()
		}
		if len(s.turns.by) > 0 {
			t.Errorf("%d users are remembered who ask for nothing", len(s.turns.by))
		}
	})
}

// All turns may be had by many users, and then everybody waits.
func TestTurnsOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Streams{turns: newTurns(false)}
		var ends []func()
		for range s.turns.each {
			end, err := s.Turn(t.Context(), runtime.Caller{})
			if err != nil {
				t.Fatal(err)
			}
			ends = append(ends, end)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, err = s.Turn(ctx, runtime.Caller{})
		}()
		synctest.Wait()
		cancel()
		<-done
		if !errors.Is(err, context.Canceled) {
			t.Errorf("one more gets %v", err)
		}
		for _, end := range ends {
			end()
		}
	})
}

// Users have their turns one after the other, however many requests of one of them came before.
func TestUsersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Streams{turns: newTurns(true)}
		had := make(chan string, 100)
		on := make(chan struct{})
		ask := func(user string) {
			go func() { // ends with its turn
				end, err := s.Turn(t.Context(), runtime.MustCaller("p", user, runtime.RoleUser))
				if err != nil {
					t.Error(err)
					return
				}
				had <- user
				<-on
				end()
			}()
			synctest.Wait()
		}
		for range s.turns.each {
			ask("first")
			ask("second")
		}
		for range 2 * s.turns.each {
			<-had
		}
		for range 10 {
			ask("alice")
		}
		ask("bob")
		ask("carol")
		var order strings.Builder
		for range 4 {
			on <- struct{}{}
			synctest.Wait()
			order.WriteString(<-had + " ")
		}
		if order.String() != "alice bob carol alice " {
			t.Errorf("turns were had by %s", order.String())
		}
		close(on)
		synctest.Wait()
		if len(s.turns.by)+len(s.turns.line) > 0 {
			t.Errorf("%d users are remembered who ask for nothing", len(s.turns.by))
		}
	})
}
