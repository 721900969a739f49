package runtime

import (
	"context"
	"strings"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/graph"
	"github.com/batonrun/baton/runtime/quota"
	"github.com/batonrun/baton/runtime/tail"
)

// AppendRequest is a user's message for a run.
type AppendRequest struct {
	Content        string
	ContextItemIDs []string
	Idempotency    *Idempotency
}

var errTools = refuse(KindForbidden, "forbidden", "Your role may not call tools by themselves")

// Append adds a message to a run. A queued or running run takes the message at its next safe boundary, a waiting run
// takes it with its answer, and a run that is over starts again for it. Append fails for a cancelled run.
func (rt *Runtime) Append(ctx context.Context, c Caller, name string, req AppendRequest) (Message, error) {
	if err := rt.Member.admits(c); err != nil {
		return Message{}, err
	}
	run, err := rt.Runs.owned(ctx, c, name)
	if err != nil {
		return Message{}, err
	}
	if rt.cfg.Accounts && graph.IsToolRun(run.WorkflowID) && !c.calls() {
		return Message{}, errTools
	}
	if strings.TrimSpace(req.Content) == "" {
		return Message{}, ErrEmptyContent
	}
	if err := checkContextItems(req.ContextItemIDs); err != nil {
		return Message{}, err
	}
	if most := rt.cfg.AppendBytes; len(req.Content) > most {
		return Message{}, refuse(KindTooLarge, "content_too_large", "A message may hold %d bytes", most)
	}
	msg := Message{
		State: MessageQueued, ContextItemIDs: req.ContextItemIDs,
		Message: agui.Message{ID: data.NewID(), Role: agui.RoleUser, Content: req.Content},
	}
	if len(req.ContextItemIDs) > 0 { // the worker reads them from the message
		msg.Metadata, _ = data.JSON(map[string]any{"contextItemIds": req.ContextItemIDs}) // strings always encode
	}
	size := len(msg.Stored())
	if most := tail.MaxMessages(rt.cfg.FrameBytes); size > most { // no event could hold it
		return Message{}, refuse(KindTooLarge, "content_too_large", "A message may hold %d bytes as it is stored", most)
	}
	out, err := rt.work.Append(quota.OwnerOf(run.Project, run.User), &decide.Append{
		Thread: run.ThreadKey, Run: run.Key, Project: c.project, Message: msg, Size: size, Key: req.Idempotency, Limits: rt.limits(&run.RunHead),
		By: rt.by(c, "append"),
	})
	if err != nil {
		return Message{}, unavailable(err)
	}
	if out.Message == msg.ID {
		msg.ThreadKey, msg.RunKey, msg.CreatedAt = run.ThreadKey, run.Key, out.At
		return msg, nil
	}
	msgs, err := rt.keyed.messagesByID(ctx, run.granted, []string{out.Message})
	if err == nil && len(msgs) == 0 {
		err = ErrRunNotFound
	}
	if err != nil {
		return Message{}, unavailable(err)
	}
	return msgs[0], nil
}

// limits returns the limits on queued runs, and the refusal of a run whose budgets are used up.
func (rt *Runtime) limits(run *data.RunHead) decide.Limits {
	return decide.Limits{
		Queue: rt.cfg.QueueDepth, PerProject: rt.cfg.QueuePerProject, PerUser: rt.cfg.QueuePerUser, PerThread: rt.cfg.QueuePerThread,
		InboxBytes: rt.cfg.MessageBytes,
		Spent:      rt.work.Budget.Spent(data.Spender{Project: run.Project, User: run.User, Agent: run.WorkflowID}, time.Now()),
	}
}
