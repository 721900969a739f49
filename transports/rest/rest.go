// Package rest is runs and threads as resources: it lists, starts, reads, continues, cancels and deletes them,
// and tells what a server offers. Every answer is complete when it is given; what happens while a run goes on
// is for the streams to tell.
package rest

import (
	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/wire"
)

// Transport serves a runtime's runs. Its handlers return errors as they are: the server turns them into
// answers.
type Transport struct {
	Runtime *runtime.Runtime
	// Streams are the server's, so that a run started here goes before one of the same thread whose
	// connection is gone. Nil when no run belongs to a connection.
	Streams *transports.Streams
	Version string // what the server's version is called
	// Retention is how long what is over is kept, of which Retainer knows what there is. Nil for a server that tells nothing of it.
	Retention *runtime.Policy
	Retainer  runtime.Retainer
}

// Routes are those of runs and of threads, and of what is offered.
func (t Transport) Routes() []transports.Route {
	const (
		runs   = "/api/projects/:projectId/agent-runs"
		logged = "/api/v1/conversations/:conversation_id/agent-runs/:run_id"
		thread = "/api/v1/threads/:threadId"
	)
	return []transports.Route{
		{Method: fiber.MethodGet, Path: runs, Known: on(runtime.RoleViewer, t.list), Large: true, Searched: true},
		{Method: fiber.MethodPost, Path: runs, Known: t.start, Input: true},
		{Method: fiber.MethodGet, Path: runs + "/:runId", Known: on(runtime.RoleViewer, t.get), Large: true},
		{Method: fiber.MethodDelete, Path: runs + "/:runId", Known: on(runtime.RoleAdmin, t.delete)},
		{Method: fiber.MethodGet, Path: runs + "/:runId/definition", Known: on(runtime.RoleViewer, t.definition), Large: true},
		{Method: fiber.MethodGet, Path: runs + "/:runId/steps", Known: on(runtime.RoleViewer, t.steps), Large: true},
		{Method: fiber.MethodGet, Path: runs + "/:runId/node-states", Known: on(runtime.RoleViewer, t.nodes), Large: true},
		{Method: fiber.MethodGet, Path: runs + "/:runId/messages", Known: on(runtime.RoleViewer, t.messages), Large: true},
		{Method: fiber.MethodPost, Path: runs + "/:runId/messages", Known: on(runtime.RoleOperator, t.append), Echoes: true},
		{Method: fiber.MethodPost, Path: runs + "/:runId/cancel", Known: on(runtime.RoleOperator, t.cancel)},
		{Method: fiber.MethodPost, Path: runs + "/:runId/resume", Known: on(runtime.RoleOperator, t.resume)},

		{Method: fiber.MethodGet, Path: "/api/projects/:projectId/interrupts", Known: on(runtime.RoleViewer, t.questions), Large: true},
		{Method: fiber.MethodGet, Path: "/api/projects/:projectId/threads", Known: on(runtime.RoleViewer, t.allThreads), Large: true, Searched: true},
		{Method: fiber.MethodGet, Path: "/api/projects/:projectId/users", Known: t.users},
		{Method: fiber.MethodGet, Path: "/api/projects/:projectId/stats", Known: t.stats},
		{Method: fiber.MethodGet, Path: "/api/projects/:projectId/audit", Known: t.audit},
		{Method: fiber.MethodDelete, Path: "/api/projects/:projectId/users/:user/data", Known: t.deleteUser},
		{Method: fiber.MethodGet, Path: "/api/projects/:projectId/retention", Known: t.retention},

		{Method: fiber.MethodGet, Path: logged + "/events", Known: t.logEvents, Large: true},
		{Method: fiber.MethodGet, Path: logged + "/snapshot", Known: t.logSnapshot, Large: true},

		{Method: fiber.MethodGet, Path: "/api/v1/threads", Known: on(runtime.RoleViewer, t.threads), Large: true, Searched: true},
		{Method: fiber.MethodGet, Path: thread, Known: t.thread},
		{Method: fiber.MethodPatch, Path: thread, Known: t.updateThread},
		{Method: fiber.MethodDelete, Path: thread, Known: t.deleteThread},
		{Method: fiber.MethodGet, Path: thread + "/messages", Known: t.threadMessages, Large: true},
		{Method: fiber.MethodGet, Path: "/api/v1/agent/history", Known: t.history},

		{Method: fiber.MethodGet, Path: "/api/v1/me", Known: t.me},
		{Method: fiber.MethodGet, Path: "/api/v1/agents", Known: t.agents},
		{Method: fiber.MethodGet, Path: "/api/v1/workflows", Known: t.workflows},
		{Method: fiber.MethodPost, Path: "/api/v1/tools/:tool/runs", Known: t.startTool, Input: true},
	}
}

// on gives h whose runs the request is about: the caller's, or those of the user that the query names, because the name of
// a run alone may be ambiguous to those who see the runs of others. Least is the role that does this to what is another's.
func on(least runtime.Role, h auth.Handler) auth.Handler {
	return func(c *fiber.Ctx, who runtime.Caller) error {
		who, err := transports.InStead(who, c.Query("user"), least)
		if err != nil {
			return err
		}
		return h(c, who)
	}
}

// runID is the path's name of a run.
func runID(c *fiber.Ctx) string { return wire.Unescape(c.Params("runId")) }

// key is what the runtime remembers the request by. It is the caller's own, whoever's runs it is about.
func key(c *fiber.Ctx, who runtime.Caller) (*runtime.Idempotency, error) {
	path := c.Path()
	if user := c.Query("user"); user != "" {
		path += "?user=" + user
	}
	if len(c.Request().Header.PeekAll("Idempotency-Key")) == 0 {
		return nil, nil
	}
	return transports.Idempotency(c, who, path, wire.Hash(c.Request().Body()))
}
