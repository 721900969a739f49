package runtime

import (
	"context"
	"errors"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/quota"
)

// Resume answers open interrupts of a run. The run continues with these answers when its turn comes; what is not answered stays open.
func (rt *Runtime) Resume(ctx context.Context, c Caller, name string, entries []agui.ResumeEntry) (Run, error) {
	return rt.ResumeOnce(ctx, c, name, entries, nil)
}

// ResumeOnce is Resume with an idempotency key: a repeated request with the same key and body gets the first answer
// again. A nil key means none.
func (rt *Runtime) ResumeOnce(ctx context.Context, c Caller, name string, entries []agui.ResumeEntry, key *Idempotency) (Run, error) {
	if err := rt.Member.admits(c); err != nil {
		return Run{}, err
	}
	run, err := rt.Runs.owned(ctx, c, name)
	if err != nil {
		return Run{}, err
	}
	if len(entries) == 0 {
		return Run{}, refuseAt("/resume", "invalid_request", "resume must hold at least one answer")
	}
	for i, e := range entries {
		if e.InterruptID != "" && !ValidName(e.InterruptID) { // some databases cannot be queried for such an id
			return Run{}, badInterruptID(i)
		}
	}
	g, err := run.grant()
	if err != nil {
		return Run{}, err
	}
	for {
		all, err := rt.keyed.interrupts(ctx, g)
		if err != nil {
			return Run{}, unavailable(err)
		}
		replies, err := rt.work.Answers.RepliesTo(&run.RunHead, all, entries, rt.Runs.responder(c))
		if err != nil {
			return Run{}, err
		}
		out, err := rt.work.Ask(quota.OwnerOf(run.Project, run.User), &decide.Resume{Thread: run.ThreadKey, Run: run.Key, Project: c.project, Replies: replies, Key: key, Limits: rt.limits(&run.RunHead), By: rt.by(c, "answer")}, func(err error) {
			if errors.Is(err, decide.ErrStale) {
				_, _ = rt.ResumeOnce(context.Background(), c, name, entries, key)
			}
		})
		if !errors.Is(err, decide.ErrStale) {
			run.RunHead = out.Run
			return run, unavailable(err)
		}
	}
}
