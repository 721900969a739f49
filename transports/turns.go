package transports

import (
	"context"
	goruntime "runtime"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/quota"
	"github.com/batonrun/baton/transports/auth"
)

// newTurns returns the pool of the large answers that may be made at a time: each is in memory several times while it is made. With
// accounts half of them are for one user. More would not be done sooner.
func newTurns(accounts bool) *quota.Pool {
	all := int64(max(2, goruntime.GOMAXPROCS(0)))
	if !accounts {
		return quota.New(quota.Limits{Total: all})
	}
	return quota.New(quota.Limits{Total: all, PerUser: all / 2})
}

// Turn waits until the caller may be given an answer that may be large. The caller calls end once the answer is made and counts in
// the budget, and does not wait for the client to read it. It fails with the cause of ctx's end.
func (s *Streams) Turn(ctx context.Context, who runtime.Caller) (end func(), err error) {
	r, err := s.turns.Take(ctx, quota.OwnerOf(who.Project(), who.Actor()), 1)
	if err != nil {
		return nil, err
	}
	return r.Release, nil
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
