package agui

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/wire"
)

// copilotKit is the protocol that CopilotKit's front ends speak with their runtime: the same runs under other
// paths, and all of them once more behind a single one.
type copilotKit struct{ Transport }

// kitVersion is the version of the runtime whose protocol this implements.
const kitVersion = "1.75.0"

func (k copilotKit) routes() []transports.Route {
	const root = "/api/copilotkit"
	thread := func(c *fiber.Ctx, who runtime.Caller) error {
		return k.resource(c, who, &kitResource{
			method: c.Method(), thread: c.Params("thread_id"), part: c.Params("part"), body: c.Request().Body(),
		})
	}
	return []transports.Route{
		{Method: fiber.MethodPost, Path: root, Known: k.single, Input: true, Cancels: func(body []byte) bool {
			var call kitRequest
			return json.Unmarshal(body, &call) == nil && call.Method == "agent/stop"
		}},
		{Method: fiber.MethodGet, Path: root + "/info", Known: k.info},
		{Method: fiber.MethodPost, Path: root + "/agent/:agent/run", Known: k.run, Input: true},
		{Method: fiber.MethodPost, Path: root + "/agent/:agent/connect", Input: true, Known: func(c *fiber.Ctx, who runtime.Caller) error {
			return k.connect(c, who, agentOf(c), c.Request().Body())
		}},
		{Method: fiber.MethodPost, Path: root + "/agent/:agent/stop/:thread_id", Cancels: transports.Cancels, Known: func(c *fiber.Ctx, who runtime.Caller) error {
			return k.stop(c, who, agentOf(c), wire.Unescape(c.Params("thread_id")), c.Request().Body())
		}},
		{Method: fiber.MethodGet, Path: root + "/threads", Known: func(c *fiber.Ctx, who runtime.Caller) error {
			return k.resource(c, who, &kitResource{method: c.Method(), query: string(c.Request().URI().QueryString())})
		}},
		{Method: fiber.MethodPatch, Path: root + "/threads/:thread_id", Known: thread},
		{Method: fiber.MethodDelete, Path: root + "/threads/:thread_id", Known: thread},
		{Method: fiber.MethodGet, Path: root + "/threads/:thread_id/:part", Known: thread},
		{Method: fiber.MethodPost, Path: root + "/threads/:thread_id/:part", Known: thread},
	}
}

// kitRequest is the body of a POST on the root, which names the route.
type kitRequest struct {
	Method string `json:"method"`
	Params struct {
		AgentID    string `json:"agentId"`
		ThreadID   string `json:"threadId"`
		Path       string `json:"path"`
		HTTPMethod string `json:"httpMethod"`
	} `json:"params"`
	Body json.RawMessage `json:"body"`
}

// single answers POST on the root.
func (k copilotKit) single(c *fiber.Ctx, who runtime.Caller) error {
	var call kitRequest
	if err := json.Unmarshal(c.Request().Body(), &call); err != nil {
		return wire.Refuse("invalid_request", "The request must be a JSON object with the strings method, params.agentId and params.threadId")
	}
	switch call.Method {
	case "info":
		return k.info(c, who)
	case "agent/run":
		return k.start(c, who, call.Params.AgentID, call.Body)
	case "agent/connect":
		return k.connect(c, who, call.Params.AgentID, call.Body)
	case "agent/stop":
		return k.stop(c, who, call.Params.AgentID, call.Params.ThreadID, call.Body)
	case "resource/request":
		path, query, _ := strings.Cut(call.Params.Path, "?")
		name, ok := strings.CutPrefix(path+"/", "/threads/")
		if !ok {
			return errNoResource
		}
		thread, part, _ := strings.Cut(strings.TrimSuffix(name, "/"), "/")
		return k.resource(c, who, &kitResource{call.Params.HTTPMethod, thread, part, query, call.Body})
	}
	return wire.Refuse("unknown_method", "method must be info, agent/run, agent/connect, agent/stop or resource/request")
}

// kitAgent is an agent as info lists it.
type kitAgent struct {
	Name         string       `json:"name"`
	Description  string       `json:"description"`
	ClassName    string       `json:"className"`
	Capabilities capabilities `json:"capabilities"`
}

// kitThreads are the supported operations on threads.
type kitThreads struct {
	List             bool `json:"list"`
	Inspect          bool `json:"inspect"`
	Mutations        bool `json:"mutations"`
	RealtimeMetadata bool `json:"realtimeMetadata"`
}

// info answers GET info: the agents and workflows, and the runtime's abilities.
func (k copilotKit) info(c *fiber.Ctx, who runtime.Caller) error {
	offered := k.Runtime.Offered(who)
	agents := make(map[string]kitAgent)
	add := func(p plugins.Plugin, class string) {
		info := p.Info()
		agents[info.Name] = kitAgent{info.Name, info.Description, class, capabilitiesOf(offered, p)}
	}
	for _, a := range offered.Agents() {
		add(a, "Agent")
	}
	for _, w := range offered.Workflows() {
		add(w, "Workflow")
	}
	threads := kitThreads{List: true, Inspect: true, Mutations: true}
	return c.JSON(fiber.Map{
		"version": kitVersion, "mode": "sse", "agents": agents,
		"audioFileTranscriptionEnabled": false, "a2uiEnabled": false, "openGenerativeUIEnabled": false,
		"suggestions": false, "telemetryDisabled": true,
		"threadEndpoints": threads,
		"singleRoute":     fiber.Map{"resourceOperations": true, "threadEndpoints": threads},
	})
}

// connect joins a thread as AG-UI's connect does. For an unknown thread it shows nothing: the front end has made up its id, and
// already has the user's input.
func (k copilotKit) connect(c *fiber.Ctx, who runtime.Caller, agent string, body []byte) error {
	v, err := k.join(c, who, agent, body)
	if err != nil {
		return err
	}
	if v.unknown() {
		v.prelude = nil
	}
	return v.serve(c)
}

// stop cancels the run that the body names or, without a body, the thread's runs that are queued or running.
func (k copilotKit) stop(c *fiber.Ctx, who runtime.Caller, agent, thread string, body []byte) error {
	if _, err := find(k.Runtime, who, agent); err != nil {
		return err
	}
	var named struct {
		RunID string `json:"runId"`
	}
	if len(body) > 0 && json.Unmarshal(body, &named) != nil {
		return wire.Refuse("invalid_request", "The body must be a JSON object with the string runId, or empty")
	}
	stopped, err := k.cancel(c.UserContext(), who, thread, named.RunID)
	if err != nil {
		return err
	}
	if !stopped {
		return c.JSON(fiber.Map{"stopped": false, "message": "The thread has no such run that is queued or running"})
	}
	return c.JSON(fiber.Map{
		"stopped":   true,
		"interrupt": fiber.Map{"type": agui.TypeRunError, "message": "Run stopped by user", "code": "STOPPED"},
	})
}

// cancel cancels the thread's run of that name or, without one, all that are queued or running, and reports
// whether there were any.
func (k copilotKit) cancel(ctx context.Context, who runtime.Caller, thread, name string) (stopped bool, err error) {
	th, err := k.Runtime.Threads.Get(ctx, who, thread)
	if err != nil {
		return false, unlessMissing(err)
	}
	runs, err := k.open(ctx, who, &th, name)
	if err != nil {
		return false, unlessMissing(err)
	}
	if len(runs) > 0 { // the user is known, and other users may have runs of the same names
		if who, err = who.InSteadOf(th.User, runtime.RoleOperator); err != nil {
			return false, err
		}
	}
	for i := range runs { // the last queued run first, so that none starts meanwhile
		_, err := k.Runtime.Cancel(ctx, who, runs[i].ID)
		refusal, ok := errors.AsType[*runtime.Error](err)
		if ok && (refusal.Kind == runtime.KindInvalid || refusal.Kind == runtime.KindNotFound) {
			continue // it has ended
		}
		if err != nil {
			return stopped, err
		}
		stopped = true
	}
	return stopped, nil
}

// open lists the thread's open run of that name or, without one, all that keep it busy, newest first.
func (k copilotKit) open(ctx context.Context, who runtime.Caller, th *runtime.Thread, name string) ([]runtime.Run, error) {
	if name == "" {
		queued, err := k.Runtime.Runs.List(ctx, who, runtime.RunFilter{ThreadKey: th.Key, Statuses: []runtime.Status{runtime.Queued}, Limit: maxStopped})
		if err != nil {
			return nil, err
		}
		begun, err := k.Runtime.Runs.List(ctx, who, runtime.RunFilter{ThreadKey: th.Key, Statuses: []runtime.Status{runtime.Running, runtime.Waiting}, Limit: 1})
		begun.Rows = slices.DeleteFunc(begun.Rows, func(r runtime.Run) bool { return !r.Busies() })
		return slices.Concat(queued.Rows, begun.Rows), err
	}
	run, err := k.Runtime.Runs.Get(ctx, who, name)
	if err != nil || run.ThreadKey != th.Key || run.Status.Final() {
		return nil, err
	}
	return []runtime.Run{run}, nil
}

// maxStopped is how many queued runs of a thread one stop cancels.
const maxStopped = 500

// unlessMissing is err unless it is a not-found error.
func unlessMissing(err error) error {
	if refusal, ok := errors.AsType[*runtime.Error](err); ok && refusal.Kind == runtime.KindNotFound {
		return nil
	}
	return err
}
