package transports

import (
	"context"
	goruntime "runtime"
	"sync"

	"github.com/gofiber/fiber/v2"
	"golang.org/x/sync/semaphore"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/auth"
)

// turns are for answers that may be large: while one is made, what it shows is in memory several times. Only so many are made at
// a time, with accounts half of them for one user, and others wait. What waits is bounded as requests are.
type turns struct {
	all  *semaphore.Weighted
	each int64 // of one user

	mu sync.Mutex // guards by
	by map[asker]*ownTurns
}

// asker is a user of a project, or who acts in another's stead.
type asker struct{ project, actor string }

// ownTurns are those of one who asks.
type ownTurns struct {
	places *semaphore.Weighted
	asked  int // requests that wait or have one
}

// newTurns returns as many as are worth it: more at a time would not be done sooner.
func newTurns(accounts bool) *turns {
	all := max(2, int64(goruntime.GOMAXPROCS(0)))
	each := all
	if accounts {
		each = all / 2
	}
	return &turns{all: semaphore.NewWeighted(all), each: each, by: make(map[asker]*ownTurns)}
}

// Turn waits until it is the caller's turn to be given an answer that may be large, which it is until end is called. It fails
// with the cause of ctx's end.
func (s *Streams) Turn(ctx context.Context, who runtime.Caller) (end func(), err error) {
	t := s.turns
	own, leave := t.enter(asker{who.Project(), who.Actor()})
	if own.Acquire(ctx, 1) != nil {
		leave()
		return nil, context.Cause(ctx)
	}
	if t.all.Acquire(ctx, 1) != nil {
		own.Release(1)
		leave()
		return nil, context.Cause(ctx)
	}
	return func() {
		t.all.Release(1)
		own.Release(1)
		leave()
	}, nil
}

// inTurn has a handler answer when it is the caller's turn.
func (s *Streams) inTurn(h auth.Handler) auth.Handler {
	return func(c *fiber.Ctx, who runtime.Caller) error {
		end, err := s.Turn(c.UserContext(), who)
		if err != nil {
			return err
		}
		defer end()
		return h(c, who)
	}
}

// enter returns the places of one who asks, which are forgotten when all who have entered have left.
func (t *turns) enter(who asker) (places *semaphore.Weighted, leave func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.by[who]
	if own == nil {
		own = &ownTurns{places: semaphore.NewWeighted(t.each)}
		t.by[who] = own
	}
	own.asked++
	return own.places, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if own.asked--; own.asked == 0 {
			delete(t.by, who)
		}
	}
}
