package runtime

import (
	"context"
	"encoding/json"
	"unicode/utf8"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/quota"
)

// EventRequest is an event for a run's WaitFor.
type EventRequest struct {
	Name        string          // see plugins.IsEventName
	Payload     json.RawMessage // any JSON value up to MaxPayload; null if it is empty
	Idempotency *Idempotency
}

// MaxPayload is the size limit of an event's payload.
const MaxPayload = 1 << 20

// SendEvent sends an event to a run that has not ended, and reports whether the run has gone on for it. Otherwise the event is kept until
// a worker waits for it, or the run ends.
func (rt *Runtime) SendEvent(ctx context.Context, c Caller, name string, req EventRequest) (delivered bool, err error) {
	if err := rt.Member.admits(c); err != nil {
		return false, err
	}
	run, err := rt.Runs.owned(ctx, c, name)
	if err != nil {
		return false, err
	}
	if len(req.Payload) == 0 {
		req.Payload = json.RawMessage("null")
	}
	switch {
	case !plugins.IsEventName(req.Name):
		return false, refuse(KindInvalid, "invalid_event_name", plugins.EventNames)
	case len(req.Payload) > MaxPayload:
		return false, refuse(KindTooLarge, "payload_too_large", "The payload of an event may hold %d bytes", MaxPayload)
	case !json.Valid(req.Payload) || !utf8.Valid(req.Payload):
		return false, refuse(KindInvalid, "invalid_json", "The payload of an event must be JSON")
	}
	by := rt.by(c, "event")
	if by.Request != nil {
		by.Request.Subject = req.Name
	}
	out, err := rt.work.SendEvent(quota.OwnerOf(run.Project, run.User), &decide.SendEvent{
		Thread: run.ThreadKey, Run: run.Key, Project: c.project, Name: req.Name, Payload: req.Payload, Key: req.Idempotency, By: by,
	})
	return out.Delivered, unavailable(err)
}
