package runtime

import (
	"context"
	"errors"

	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/model"
	"github.com/batonrun/baton/runtime/quota"
)

// refused answers a request that may not begin anything: with what an equal one was answered, as who asks again is told what has
// become of it whatever has gone since, its agent for one; and else with why it is refused.
func (rt *Runtime) refused(ctx context.Context, c Caller, req *StartRequest, why error) (Started, error) {
	refusal, ok := errors.AsType[*Error](why)
	if !ok || refusal.Kind == KindUnavailable || !repeatable(req) {
		return Started{}, why
	}
	s := starting{rt: rt, c: c, req: req}
	if err := s.readThread(ctx); err != nil {
		return Started{}, unavailable(err)
	}
	run := model.Run{RunHead: RunHead{ThreadKey: s.th.Key, Project: c.project, User: c.user, ID: req.RunID}}
	var err error
	s.out, err = rt.work.Decide(quota.OwnerOf(c.project, c.user), &decide.Start{
		Thread: s.th, New: s.first, Run: run, Named: req.RunID != "", BodyHash: req.BodyHash, Key: req.Idempotency, Refused: refusal,
	})
	if err == nil {
		err = s.recall(ctx)
	}
	if err != nil {
		return Started{}, unavailable(err)
	}
	return s.started(), nil
}

// repeatable reports whether there can be an earlier request that is equal.
func repeatable(req *StartRequest) bool {
	for _, name := range []string{req.ThreadID, req.RunID} {
		if name != "" && !ValidName(name) {
			return false
		}
	}
	return req.Idempotency != nil || req.RunID != "" && req.BodyHash != ""
}
