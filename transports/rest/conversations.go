package rest

import (
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports/query"
	"github.com/batonrun/baton/transports/wire"
)

// log is the log of the path's run.
func (t Transport) log(c *fiber.Ctx, who runtime.Caller) (query.Log, error) {
	conversation, run := wire.Unescape(c.Params("conversation_id")), wire.Unescape(c.Params("run_id"))
	return query.Open(c.UserContext(), t.Runtime, who, conversation, run)
}

// logEvents answers GET events of a run of a conversation: one page of its log.
func (t Transport) logEvents(c *fiber.Ctx, who runtime.Caller) error {
	log, err := t.log(c, who)
	if err != nil {
		return err
	}
	after, err := wire.EventCursor(c.Query("after_event_id"))
	if err != nil {
		return err
	}
	limit, err := wire.EventLimit(c.Query("limit"))
	if err != nil {
		return err
	}
	projection, err := wire.EventProjection(c.Query("projection"))
	if err != nil {
		return err
	}
	var types []agui.Type
	for _, some := range several(c, "types") {
		for name := range strings.SplitSeq(some, ",") {
			if name != "" {
				types = append(types, agui.Type(name))
			}
		}
	}
	var page wire.EventPage
	if back := c.Query("before_event_id"); back == "" {
		page, err = log.Events(c.UserContext(), projection, after, limit, types...)
	} else if before, wrong := wire.EventCursor(back); wrong != nil || c.Query("after_event_id") != "" {
		return wire.Refuse("invalid_cursor", "before_event_id must be the id of an event, or 0, without after_event_id beside it")
	} else {
		page, err = log.EventsBefore(c.UserContext(), projection, before, limit, types...)
	}
	if err != nil {
		return err
	}
	return c.JSON(page)
}

// logSnapshot answers GET snapshot of a run of a conversation.
func (t Transport) logSnapshot(c *fiber.Ctx, who runtime.Caller) error {
	log, err := t.log(c, who)
	if err != nil {
		return err
	}
	snap, err := log.Snapshot(c.UserContext())
	if err != nil {
		return err
	}
	return c.JSON(snap)
}
