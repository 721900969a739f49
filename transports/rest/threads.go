package rest

import (
	"context"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/wire"
)

// threads answers GET threads: the caller's, or those of the user that a viewer names, the latest activity first.
func (t Transport) threads(c *fiber.Ctx, who runtime.Caller) error {
	return t.listThreads(c, who, "threads", t.Runtime.Threads.List)
}

// allThreads answers GET threads of a project: the threads that the caller may see.
func (t Transport) allThreads(c *fiber.Ctx, who runtime.Caller) error {
	return t.listThreads(c, who, "all threads", t.Runtime.Threads.ListAll)
}

// readThreads reads a page of threads.
type readThreads func(ctx context.Context, who runtime.Caller, f runtime.ThreadFilter) (runtime.Page[runtime.ListedThread], error)

func (t Transport) listThreads(c *fiber.Ctx, who runtime.Caller, name string, read readThreads) error {
	f := runtime.ThreadFilter{Text: strings.TrimSpace(c.Query("q"))}
	switch archived := c.Query("archived"); archived {
	case "":
	case "true", "false":
		f.Archived = new(archived == "true")
	default:
		return wire.Refuse("invalid_request", "archived must be true or false")
	}
	list, err := wire.NewList(c.UserContext(), t.Runtime.Secrets, name, who, f)
	if err != nil {
		return err
	}
	if f.Limit, err = wire.Limit(c.Query("limit")); err != nil {
		return err
	}
	if err = wire.ThreadsAfter(list, c.Query("cursor"), &f); err != nil {
		return err
	}
	if f.Count, err = wire.Count(c.Query("count")); err != nil {
		return err
	}
	threads, err := read(c.UserContext(), who, f)
	if err != nil {
		return err
	}
	return c.JSON(wire.NewThreads(list, threads))
}

// users answers GET users of a project: the users with threads there.
func (t Transport) users(c *fiber.Ctx, who runtime.Caller) error {
	f := runtime.UserFilter{Text: strings.TrimSpace(c.Query("q"))}
	list, err := wire.NewList(c.UserContext(), t.Runtime.Secrets, "users", who, f)
	if err != nil {
		return err
	}
	if f.Limit, err = wire.Limit(c.Query("limit")); err != nil {
		return err
	}
	if f.After, err = list.Name(c.Query("cursor")); err != nil {
		return err
	}
	users, err := t.Runtime.Threads.Users(c.UserContext(), who, f)
	if err != nil {
		return err
	}
	return c.JSON(wire.NewUsers(list, users))
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
	th, err := t.Runtime.Threads.Get(c.UserContext(), who, wire.Unescape(c.Params("threadId")))
	if err != nil {
		return err
	}
	snap, err := t.Runtime.Logs.Messages(c.UserContext(), th, f)
	if err != nil {
		return err
	}
	client := wire.RunRequest{ProtocolVersion: c.Query("protocolVersion")}
	answer := wire.NewThreadMessages(&th, &snap, client.Dialect())
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return c.Send(answer.JSON())
}

// thread answers GET of a thread.
func (t Transport) thread(c *fiber.Ctx, who runtime.Caller) error {
	th, err := t.Runtime.Threads.Listed(c.UserContext(), who, wire.Unescape(c.Params("threadId")))
	if err != nil {
		return err
	}
	return c.JSON(wire.NewThread(&th))
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
