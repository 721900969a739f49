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
}

// Mount adds the routes to r, which must stand for the root of the paths.
func (t Transport) Mount(r fiber.Router) {
	runs := r.Group("/api/projects/:projectId/agent-runs")
	runs.Get("/", t.list)
	runs.Post("/", t.start)
	runs.Get("/:runId", t.get)
	runs.Delete("/:runId", t.delete)
	runs.Get("/:runId/steps", t.steps)
	runs.Get("/:runId/node-states", t.nodes)
	runs.Get("/:runId/messages", t.messages)
	runs.Post("/:runId/messages", t.append)
	runs.Post("/:runId/cancel", t.cancel)
	runs.Post("/:runId/resume", t.resume)

	r.Get("/api/v1/conversations/:conversation_id/agent-runs/:run_id/events", t.logEvents)
	r.Get("/api/v1/conversations/:conversation_id/agent-runs/:run_id/snapshot", t.logSnapshot)

	r.Get("/api/v1/threads", t.threads)
	r.Patch("/api/v1/threads/:threadId", t.updateThread)
	r.Delete("/api/v1/threads/:threadId", t.deleteThread)
	r.Get("/api/v1/threads/:threadId/messages", t.threadMessages)
	r.Get("/api/v1/agent/history", t.history)

	r.Get("/api/v1/agents", t.agents)
	r.Get("/api/v1/workflows", t.workflows)
}

// caller is who asks, in the path's project.
func caller(c *fiber.Ctx) (runtime.Caller, error) {
	project := wire.Unescape(c.Params("projectId"))
	if project == "" {
		return runtime.Caller{}, runtime.ErrProjectNotFound
	}
	return auth.ForProject(c, project)
}

// reader is whose runs the caller asks to see.
func reader(c *fiber.Ctx) (runtime.Caller, error) {
	who, err := caller(c)
	if err != nil {
		return who, err
	}
	return stead(who, c.Query("user"), false)
}

// writer is whose runs the caller asks to change.
func writer(c *fiber.Ctx) (runtime.Caller, error) {
	who, err := caller(c)
	if err != nil {
		return who, err
	}
	return stead(who, c.Query("user"), true)
}

// stead lets a caller whose role sees others' runs look with the eyes of one user, where the name of a run
// alone is ambiguous.
func stead(who runtime.Caller, user string, change bool) (runtime.Caller, error) {
	switch {
	case user == "":
		return who, nil
	case user == who.User:
	case who.Role == runtime.RoleUser, who.Role == runtime.RoleViewer && change:
		return who, errOthers
	}
	return runtime.Caller{Project: who.Project, User: user, Role: runtime.RoleUser}, nil
}

var errOthers = &runtime.Error{
	Kind: runtime.KindForbidden, Code: "forbidden", Detail: "Your role may not do this with the runs of others",
}

// runID is the path's name of a run.
func runID(c *fiber.Ctx) string { return wire.Unescape(c.Params("runId")) }

// key is what the runtime remembers the request by. It is the caller's own, whoever's runs it is about.
func key(c *fiber.Ctx) (*runtime.Idempotency, error) {
	who, err := caller(c)
	if err != nil {
		return nil, err
	}
	path := c.Path()
	if user := c.Query("user"); user != "" {
		path += "?user=" + user
	}
	keys := c.Request().Header.PeekAll("Idempotency-Key")
	if len(keys) == 0 {
		return nil, nil
	}
	return wire.Idempotency(who, c.Method(), path, keys, wire.Hash(c.BodyRaw()))
}
