// Package rest serves runs and threads as resources: it lists, starts, reads, continues, cancels and deletes them, and lists the
// offered agents, tools and workflows. Answers are snapshots; streams show progress.
package rest

import (
	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/retention"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/wire"
)

// Transport serves a runtime's runs. Its handlers return errors as they are: the server turns them into
// answers.
type Transport struct {
	Runtime *runtime.Runtime
	Streams *transports.Streams // a run started here supersedes one of the same thread whose connection is closed
	Version string              // the server's version
	// Retention is the policy that Retainer applies. Nil for a server that shows none.
	Retention *retention.Policy
	Retainer  retention.Retainer
}

// Routes are the routes of runs, threads and offers.
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
		{Method: fiber.MethodGet, Path: runs + "/:runId/model-calls", Known: on(runtime.RoleViewer, t.modelCalls), Large: true},
		{Method: fiber.MethodGet, Path: runs + "/:runId/model-calls/:callId", Known: on(runtime.RoleViewer, t.modelCall), Large: true},
		{Method: fiber.MethodGet, Path: runs + "/:runId/messages", Known: on(runtime.RoleViewer, t.messages), Large: true},
		{Method: fiber.MethodPost, Path: runs + "/:runId/messages", Known: on(runtime.RoleOperator, t.append), Echoes: true},
		{Method: fiber.MethodPost, Path: runs + "/:runId/events/:name", Known: on(runtime.RoleOperator, t.event)},
		{Method: fiber.MethodPost, Path: runs + "/:runId/rerun", Known: t.rerun},
		{Method: fiber.MethodPost, Path: runs + "/:runId/cancel", Known: on(runtime.RoleOperator, t.cancel), Cancels: transports.Cancels},
		{Method: fiber.MethodPost, Path: runs + "/:runId/resume", Known: on(runtime.RoleOperator, t.resume)},

		{Method: fiber.MethodGet, Path: "/api/projects/:projectId/interrupts", Known: on(runtime.RoleViewer, t.questions), Large: true},
		{Method: fiber.MethodGet, Path: "/api/projects/:projectId/threads", Known: on(runtime.RoleViewer, t.allThreads), Large: true, Searched: true},
		{Method: fiber.MethodGet, Path: "/api/projects/:projectId/users", Known: t.users},
		{Method: fiber.MethodGet, Path: "/api/projects/:projectId/stats", Known: t.stats},
		{Method: fiber.MethodGet, Path: "/api/projects/:projectId/usage", Known: t.usage, Large: true},
		{Method: fiber.MethodGet, Path: "/api/projects/:projectId/budgets", Known: t.budgets},
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
		{Method: fiber.MethodGet, Path: "/api/v1/me/views", Known: t.views},
		{Method: fiber.MethodPut, Path: "/api/v1/me/views", Known: t.putViews},
		{Method: fiber.MethodGet, Path: "/api/v1/agents", Known: t.agents},
		{Method: fiber.MethodGet, Path: "/api/v1/servers", Known: t.servers},
		{Method: fiber.MethodGet, Path: "/api/v1/workflows", Known: t.workflows},
		{Method: fiber.MethodPost, Path: "/api/v1/tools/:tool/runs", Known: t.startTool, Input: true},
	}
}

// on calls h with the user whose runs the request names: the caller, or the user in the query, as a run's name may be ambiguous
// for roles that see others' runs. Least is the role needed to act on another user's run.
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

// key is the request's Idempotency-Key. Its scope is the caller's, also for another user's run.
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
