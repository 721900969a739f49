package runtime

import (
	"context"
	"errors"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/quota"
)

// refused answers a request that is refused with why. If an equal request was accepted earlier it returns that answer
// instead, so that a repeat still learns its outcome, even if for example its agent is gone.
func (s *starting) refused(ctx context.Context, why error) (Started, error) {
	c, req := s.c, s.req
	refusal, ok := errors.AsType[*Error](why)
	if !ok || refusal.Kind == KindUnavailable || !repeatable(req) {
		return Started{}, why
	}
	*s = starting{rt: s.rt, c: c, req: req}
	if err := s.readThread(ctx); err != nil {
		return Started{}, unavailable(err)
	}
	run := data.Run{RunHead: RunHead{ThreadKey: s.th.Key, Project: c.project, User: c.user, ID: req.RunID}}
	out, err := s.rt.work.Ask(quota.OwnerOf(c.project, c.user), &decide.Start{
		Thread: s.th, New: s.first, Run: run, Named: req.RunID != "", BodyHash: req.BodyHash, Key: req.Idempotency, Refused: refusal,
	}, nil)
	if err != nil {
		return Started{}, unavailable(err)
	}
	return s.accepted(ctx, out)
}

// repeatable reports whether an earlier request can be equal to this one.
func repeatable(req *StartRequest) bool {
	for _, name := range []string{req.ThreadID, req.RunID} {
		if name != "" && !ValidName(name) {
			return false
		}
	}
	return req.Idempotency != nil || req.RunID != "" && req.BodyHash != ""
}
