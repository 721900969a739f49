package rest

import (
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/wire"
)

// threads answers GET threads: the caller's own, or those of the user that a viewer names, those with the latest activity first.
func (t Transport) threads(c *fiber.Ctx, who runtime.Caller) error {
	limit, err := wire.Limit(c.Query("limit"))
	if err != nil {
		return err
	}
	f, err := wire.ThreadsAfter(who, c.Query("cursor"), limit)
	if err != nil {
		return err
	}
	f.Text = strings.TrimSpace(c.Query("q"))
	switch archived := c.Query("archived"); archived {
	case "":
	case "true", "false":
		f.Archived = new(archived == "true")
	default:
		return wire.Refuse("invalid_request", "archived must be true or false")
	}
	threads, err := t.Runtime.Threads(c.UserContext(), who, f)
	if err != nil {
		return err
	}
	return c.JSON(wire.NewThreads(who, threads))
}

// threadMessages answers GET messages of a thread, for front ends that load it before they connect.
func (t Transport) threadMessages(c *fiber.Ctx, who runtime.Caller) error {
	f := runtime.MessageFilter{Before: c.Query("before"), Hidden: c.Query("hidden") == "true"}
	if limit := c.Query("limit"); limit != "" {
		n, err := wire.Limit(limit)
		if err != nil {
			return err
		}
		f.Limit = n
	}
	th, err := t.Runtime.Thread(c.UserContext(), who, wire.Unescape(c.Params("threadId")))
	if err != nil {
		return err
	}
	snap, err := t.Runtime.ThreadMessages(c.UserContext(), th, f)
	if err != nil {
		return err
	}
	client := wire.RunRequest{ProtocolVersion: c.Query("protocolVersion")}
	return c.JSON(wire.NewThreadMessages(&th, &snap, client.Dialect()))
}

// updateThread answers PATCH of a thread.
func (t Transport) updateThread(c *fiber.Ctx, who runtime.Caller) error {
	patch, err := wire.DecodeThreadPatch(c.Request().Body(), "title")
	if err != nil {
		return err
	}
	th, err := t.Runtime.UpdateThread(c.UserContext(), who, wire.Unescape(c.Params("threadId")), patch)
	if err != nil {
		return err
	}
	return c.JSON(wire.NewThread(&th))
}

// deleteThread answers DELETE of a thread.
func (t Transport) deleteThread(c *fiber.Ctx, who runtime.Caller) error {
	if err := t.Runtime.DeleteThread(c.UserContext(), who, wire.Unescape(c.Params("threadId"))); err != nil {
		return err
	}
	return c.SendStatus(fiber.StatusNoContent)
}
