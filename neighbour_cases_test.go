package baton_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// public are the routes that need no authentication.
var public = map[string]bool{
	"GET /healthz": true, "GET /readyz": true, "GET /openapi.json": true, "GET /docs": true, "GET /docs/{file}": true,
	"GET /api/v1/attachments/raw": true,
}

// cases are requests for the owner's things, by the operations of the OpenAPI document.
var cases = func() map[string][]ask {
	const (
		runs   = "/api/projects/{project}/agent-runs"
		api    = "/api/v1"
		kit    = "/api/copilotkit"
		answer = `{"resume":[{"interruptId":"{interrupt}","status":"resolved"}]}`
		input  = `{"threadId":"{thread}","runId":"{run}","parentRunId":"{busy}","state":{},"messages":[{"id":"{message}","role":"user","content":"hi"}],"tools":[],"context":[],"forwardedProps":{}}`
		// unchanged by any request
		sees, controls, deletes, own = "404 200 200 200", "404 403 200 200", "404 403 403 204", "200 200 200 200"
		// a name means the caller's own thing, which does not exist; the answer is on the socket
		names, upgrades = "404 404 404 404", "101 101 101 101"
	)
	get := func(roles string, paths ...string) (list []ask) {
		for _, p := range paths {
			list = append(list, ask{method: "GET", path: p, roles: roles})
		}
		return list
	}
	change := func(method, path, body, roles string, header ...string) ask {
		return ask{method: method, path: path, body: body, roles: roles, header: header}
	}
	makes := func(path, body, roles string, header ...string) ask {
		return ask{method: "POST", path: path, body: body, roles: roles, header: header, mine: true}
	}
	socket := func(path string, roles string, frames ...string) ask {
		return ask{method: "GET", path: path, frames: append([]string{}, frames...), roles: roles}
	}
	watch := func(path string) []ask { return []ask{{method: "GET", path: path, endless: true, roles: own}} }
	single := func(method, params, body string) string {
		return `{"method":"` + method + `","params":` + params + `,"body":` + body + `}`
	}
	tool := func(name, args string) ask {
		return ask{
			method: "POST", path: "/mcp", header: []string{"Accept", "application/json, text/event-stream"},
			roles: own, // withTools has its contents
			body:  `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `","arguments":` + args + `}}`,
		}
	}
	started := func(name, args string) ask { t := tool(name, args); t.mine = true; return t }
	one := func(list ...ask) []ask { return list }

	return map[string][]ask{
		"GET /healthz": get(own, "/healthz"),
		"GET /readyz":  get(own, "/readyz"),
		"DELETE /api/projects/{projectId}/users/{user}/data": one(change("DELETE", "/api/projects/{project}/users/{user}/data", ``, "403 403 403 204")),
		"GET /api/projects/{projectId}/interrupts": slices.Concat(get(own, "/api/projects/{project}/interrupts"),
			get("403 200 200 200", "/api/projects/{project}/interrupts?user={user}")),
		"GET /api/projects/{projectId}/threads": slices.Concat(get(own, "/api/projects/{project}/threads", "/api/projects/{project}/threads?q={thread}&archived=false"),
			get("403 200 200 200", "/api/projects/{project}/threads?user={user}"), get("400 400 400 400", "/api/projects/{project}/threads?cursor={threadscursor}")),
		"GET /api/projects/{projectId}/users":     get("403 200 200 200", "/api/projects/{project}/users", "/api/projects/{project}/users?q={user}"),
		"GET /api/projects/{projectId}/stats":     get("403 200 200 200", "/api/projects/{project}/stats?window=week"),
		"GET /api/projects/{projectId}/usage":     get(own, "/api/projects/{project}/usage?by=user,agent,model,day"),
		"GET /api/projects/{projectId}/budgets":   get(own, "/api/projects/{project}/budgets"),
		"GET /api/projects/{projectId}/audit":     get("403 403 403 200", "/api/projects/{project}/audit", "/api/projects/{project}/audit?run={run}", "/api/projects/{project}/audit?user={user}&actor={user}"),
		"GET /api/v1/servers":                     get("403 403 403 200", "/api/v1/servers"),
		"GET /api/v1/limits":                      slices.Concat(get("200 200 200 200", "/api/v1/limits"), get("403 403 403 200", "/api/v1/limits?user={user}")),
		"GET /api/projects/{projectId}/retention": get("403 200 200 200", "/api/projects/{project}/retention"),
		// this server has no API keys: see TestKeys_BelongToProject
		"GET /api/projects/{projectId}/keys": get("404 404 404 404", "/api/projects/{project}/keys"),
		"POST /api/projects/{projectId}/keys": one(
			makes("/api/projects/{project}/keys", `{"user":"{user}","role":"admin"}`, "404 404 404 404")),
		"DELETE /api/projects/{projectId}/keys/{keyId}": one(change("DELETE", "/api/projects/{project}/keys/aaaaaaaaaaaaa", ``, "404 404 404 404")),
		"GET /api/v1/me":       get(own, api+"/me"),
		"GET /api/v1/me/views": get(own, api+"/me/views"),
		"PUT /api/v1/me/views": one(ask{method: "PUT", path: api + "/me/views", body: `{"items":[{"name":"mine","query":"thread={thread}"}]}`, roles: own, mine: true}),
		"GET /openapi.json":    get(own, "/openapi.json"),
		"GET /docs":            get(own, "/docs"),
		"GET /docs/{file}":     get(names, "/docs/none"),

		"GET /api/projects/{projectId}/agent-runs": slices.Concat(get(own, runs), get(names, runs+"?threadId={thread}"), get("403 200 200 200", runs+"?user={user}"), get(sees, runs+"?threadId={conv}"),
			get("400 400 400 400", runs+"?cursor={runscursor}", runs+"?cursor={threadscursor}"), get("403 200 200 200", runs+"?user={user}&cursor={runscursor}")),
		"POST /api/projects/{projectId}/agent-runs": one(
			makes(runs, firstBody, "202 202 202 202", "Idempotency-Key", "{key}"),
			makes(runs, `{"agent":"echo","threadId":"{mine}","content":"x","rewindTo":"{message}"}`, "400 400 400 400"),
			makes(runs, `{"agent":"echo","threadId":"{conv}","content":"x","contextItemIds":["{run}","{conv}"]}`, "202 202 202 202"),
			makes(runs, `{"agent":"echo","threadId":"{asks}","runId":"{waiting}","resume":[{"interruptId":"{interrupt}","status":"resolved"}]}`, "400 400 400 400"),
			makes(runs, `{"agent":"scripted","threadId":"{calls}","messages":[{"id":"t","role":"tool","toolCallId":"{call}","content":"{}"}]}`, "202 202 202 202"),
			makes(runs, `{"agent":"echo","threadId":"{busythread}","multitask":"interrupt","content":"x"}`, "202 202 202 202"),
			makes(runs, `{"threadId":"{thread}-latest","content":"x"}`, "400 400 400 400")),
		"GET /api/projects/{projectId}/agent-runs/{runId}":            slices.Concat(get(sees, runs+"/{run}", runs+"/{name}", runs+"/{waiting}"), get("403 200 200 200", runs+"/{run}?user={user}")),
		"GET /api/projects/{projectId}/agent-runs/{runId}/definition": get(sees, runs+"/{run}/definition", runs+"/{waiting}/definition"),
		// no result here is so large that it is a file: see TestResult_IsAFileOfItsRun
		"GET /api/projects/{projectId}/agent-runs/{runId}/results/{callId}": get("404 404 404 404", runs+"/{caller}/results/{call}"),
		"GET /api/projects/{projectId}/agent-runs/{runId}/steps":            get(sees, runs+"/{run}/steps"),
		"GET /api/projects/{projectId}/agent-runs/{runId}/node-states":      get(sees, runs+"/{run}/node-states"),
		"GET /api/projects/{projectId}/agent-runs/{runId}/model-calls": slices.Concat(get(sees, runs+"/{run}/model-calls"), get("403 200 200 200", runs+"/{run}/model-calls?user={user}"),
			get("404 400 400 400", runs+"/{run}/model-calls?cursor={runscursor}")),
		"GET /api/projects/{projectId}/agent-runs/{runId}/model-calls/{callId}": get(sees, runs+"/{called}/model-calls/{modelcall}"),
		"GET /api/projects/{projectId}/agent-runs/{runId}/messages":             slices.Concat(get(sees, runs+"/{run}/messages"), get("404 400 400 400", runs+"/{run}/messages?cursor={messagescursor}", runs+"/{name}/messages?cursor={messagescursor}", runs+"/{run}/messages?cursor={runscursor}")),
		"POST /api/projects/{projectId}/agent-runs/{runId}/messages": one(
			change("POST", runs+"/{run}/messages", `{"content":"more"}`, "404 403 201 201"),
			change("POST", runs+"/{busy}/messages", `{"content":"more","contextItemIds":["{run}"]}`, "404 403 201 201", "Idempotency-Key", "{key}")),
		"POST /api/projects/{projectId}/agent-runs/{runId}/cancel": one(
			change("POST", runs+"/{busy}/cancel", ``, controls), change("POST", runs+"/{run}/cancel", ``, "404 403 400 400")),
		"POST /api/projects/{projectId}/agent-runs/{runId}/events/{name}": one(
			change("POST", runs+"/{busy}/events/paid", `{"x":1}`, "404 403 202 202"), change("POST", runs+"/{waiting}/events/paid?user={user}", ``, "403 403 202 202"),
			change("POST", runs+"/{run}/events/paid", `1`, "404 403 409 409", "Idempotency-Key", "{key}")),
		"POST /api/projects/{projectId}/agent-runs/{runId}/rerun": one(
			change("POST", runs+"/{run}/rerun", ``, "404 202 202 202"), change("POST", runs+"/{run}/rerun?user={user}", `{}`, "403 202 202 202"),
			change("POST", runs+"/{name}/rerun", `{"fromNode":"scripted"}`, "404 202 202 202", "Idempotency-Key", "{key}")),
		"POST /api/projects/{projectId}/agent-runs/{runId}/resume": one(
			change("POST", runs+"/{waiting}/resume", answer, "404 403 202 202"),
			change("POST", runs+"/{waiting}/resume", answer, "404 403 202 202", "Idempotency-Key", "{key}")),
		"DELETE /api/projects/{projectId}/agent-runs/{runId}": one(change("DELETE", runs+"/{run}", ``, deletes), change("DELETE", runs+"/{run}?user={user}", ``, "403 403 403 204"),
			change("DELETE", runs+"/{busy}", ``, "404 403 403 400")),

		"POST /api/v1/agent/runs": one(
			makes(api+"/agent/runs", firstBody, "202 202 202 202", "Idempotency-Key", "{key}"),
			makes(api+"/agent/runs", `{"agent":"echo","threadId":"{thread}-streamed","parentRunId":"{run}","content":"x"}`, own, "Accept", "text/event-stream"),
			makes(api+"/agent/runs", `{"agent":"echo","projectId":"{project}","threadId":"{conv}","content":"x"}`, "202 202 202 202"),
			makes(api+"/agent/runs", `{"agent":"echo","threadId":"{mine}","content":"x","rewindTo":"{message}"}`, "400 400 400 400"),
			makes(api+"/agent/runs", `{"agent":"echo","threadId":"{asksconv}","resume":[{"interruptId":"{interrupt}","status":"resolved"}]}`, "400 400 400 400")),
		"GET /api/v1/agent/runs/{thread_id}/events": slices.Concat(get(names, api+"/agent/runs/{thread}/events", api+"/agent/runs/{busythread}/events?follow=true"), get("404 204 204 204", api+"/agent/runs/{conv}/events?after_event_id=latest"),
			get(sees, api+"/agent/runs/{conv}/events"), get(sees, api+"/agent/runs/{busyconv}/events")),
		"GET /api/v1/agent/runs/{thread_id}/ws": one(socket(api+"/agent/runs/{thread}/ws", upgrades), socket(api+"/agent/runs/{busyconv}/ws?follow=true", upgrades)),
		"GET /api/v1/agent/history":             slices.Concat(get(own, api+"/agent/history"), get(names, api+"/agent/history?threadId={thread}"), get(sees, api+"/agent/history?threadId={conv}")),

		"GET /api/v1/conversations/{conversation_id}/agent-runs/{run_id}/events": slices.Concat(
			get(names, api+"/conversations/{thread}/agent-runs/{run}/events", api+"/conversations/{mine}/agent-runs/{run}/events"),
			get(sees, api+"/conversations/{conv}/agent-runs/{run}/events?after_event_id=1", api+"/conversations/{conv}/agent-runs/{name}/events")),
		"GET /api/v1/conversations/{conversation_id}/agent-runs/{run_id}/snapshot": slices.Concat(
			get(names, api+"/conversations/{thread}/agent-runs/{run}/snapshot"),
			get(sees, api+"/conversations/{conv}/agent-runs/{run}/snapshot")),

		"POST /api/v1/agent/attachments": one(
			makes(api+"/agent/attachments", aForm, "201 201 201 201", "Content-Type", "multipart/form-data; boundary=b"),
			makes(api+"/agent/runs", `{"agent":"echo","messages":[{"role":"user","content":"x","metadata":{"attachments":[{"path":"{attachment}"}]}}]}`, "404 404 404 404")),
		"GET /api/v1/agent/attachments/signed-url": get("403 403 403 403", api+"/agent/attachments/signed-url?bucket={project}&path={attachment}"),
		"GET /api/v1/attachments/raw":              get("403 403 403 403", api+"/attachments/raw?bucket={project}&path={attachment}&expires=99999999999&signature=x"),

		"GET /api/v1/threads": slices.Concat(get(own, api+"/threads", api+"/threads?q={thread}&archived=false"), get("403 200 200 200", api+"/threads?user={user}"),
			get("400 400 400 400", api+"/threads?cursor={threadscursor}", api+"/threads?cursor={runscursor}")),
		"GET /api/v1/threads/{thread_id}": slices.Concat(get(names, api+"/threads/{thread}"), get(sees, api+"/threads/{conv}")),
		"PATCH /api/v1/threads/{thread_id}": one(
			change("PATCH", api+"/threads/{thread}", `{"title":"mine"}`, names), change("PATCH", api+"/threads/{conv}", `{"title":"mine"}`, controls)),
		"DELETE /api/v1/threads/{thread_id}": one(
			change("DELETE", api+"/threads/{thread}", ``, names), change("DELETE", api+"/threads/{conv}", ``, deletes), change("DELETE", api+"/threads/{busyconv}", ``, deletes)),
		"GET /api/v1/threads/{thread_id}/messages": slices.Concat(
			get(names, api+"/threads/{thread}/messages", api+"/threads/{mine}/messages?before={message}"),
			get(sees, api+"/threads/{conv}/messages", api+"/threads/{conv}/messages?hidden=true&before={message}")),

		"GET /api/v1/agents":    get(own, api+"/agents"),
		"GET /api/v1/workflows": get(own, api+"/workflows"),

		"POST /api/v1/tools/{tool}/runs": one(
			makes(api+"/tools/calculator/runs", `{"threadId":"{thread}","runId":"{run}","arguments":{"expression":"6*7"}}`, "403 403 409 409", "Idempotency-Key", "{key}"),
			makes(api+"/tools/calculator/runs", `{"threadId":"{conv}","arguments":{"expression":"6*7"}}`, "403 403 202 202")),

		"GET /api/v1/agui/{agent}": slices.Concat(
			get(own, api+"/agui/echo?threadId={thread}", api+"/agui/echo?threadId={conv}", api+"/agui/echo?threadId={busyconv}&limit=1"),
			get(sees, api+"/agui/echo?runId={run}&offset=-1", api+"/agui/echo?runId={name}&offset=1"),
			get("404 400 400 400", api+"/agui/echo?runId={run}&offset=100000")),
		"GET /api/v1/agui/{agent}/capabilities": get(own, api+"/agui/echo/capabilities"),
		"POST /api/v1/agui/{agent}": one(
			makes(api+"/agui/echo", strings.ReplaceAll(input, "{run}", "{run}-agui"), own, "Idempotency-Key", "{key}"),
			makes(api+"/agui/echo", `{"threadId":"{conv}","runId":"{run}-edit","messages":[{"id":"{message}","role":"user","content":"hi"},{"id":"n","role":"user","content":"ho"}]}`, own),
			makes(api+"/agui/scripted", `{"threadId":"{asks}","runId":"{waiting}-agui","resume":[{"interruptId":"{interrupt}","status":"resolved"}]}`, "400 400 400 400")),
		"POST /api/v1/agui/{agent}/connect": one(
			change("POST", api+"/agui/echo/connect", `{"threadId":"{thread}"}`, own),
			change("POST", api+"/agui/echo/connect", `{"threadId":"{conv}","runId":"{run}"}`, own),
			change("POST", api+"/agui/scripted/connect", `{"threadId":"{busyconv}"}`, own)),
		"GET /api/v1/agui/{agent}/ws": one(func() ask {
			a := socket(api+"/agui/echo/ws", upgrades, `{"threadId":"{thread}-socket","runId":"{run}-socket","messages":[{"id":"{message}","role":"user","content":"hi"}]}`)
			a.mine = true
			return a
		}()),

		"GET /api/v1/ws": one(socket(api+"/ws", upgrades,
			`{"op":"subscribe","ref":1,"threadId":"{thread}"}`, `{"op":"subscribe","ref":2,"threadId":"{conv}","afterEventId":1}`,
			`{"op":"subscribe","ref":3,"threadId":"{busyconv}","afterEventId":"latest"}`, `{"op":"unsubscribe","ref":4,"threadId":"{thread}"}`,
			`{"op":"append","ref":5,"runId":"{run}","content":"more"}`, `{"op":"cancel","ref":6,"runId":"{busy}"}`,
			`{"op":"resume","ref":7,"runId":"{waiting}","resume":[{"interruptId":"{interrupt}","status":"resolved"}]}`,
			`{"op":"event","ref":12,"runId":"{busy}","name":"paid"}`, `{"op":"unwatch","ref":10}`, `{"op":"watch","ref":11}`), // for its messages see TestNeighbours_GetNoListUpdates
			func() ask {
				a := socket(api+"/ws", upgrades, `{"op":"run","ref":8,"agent":"echo","threadId":"{thread}-many","runId":"{run}-many","content":"hi"}`,
					`{"op":"run","ref":9,"agent":"echo","threadId":"{mine}","content":"hi","rewindTo":"{message}"}`)
				a.mine = true
				return a
			}()),

		// a ticket opens only streams that its bearer may open anyway, as the tests of tickets check
		"POST /api/v1/stream-tickets": one(change("POST", api+"/stream-tickets", `{"path":"/api/v1/agents"}`, "400 400 400 400"),
			change("POST", api+"/stream-tickets", `{"path":"/api/v1/ws","projectId":"{project}-other"}`, "404 404 404 404")),

		"GET /api/v1/events":        watch(api + "/events"),
		"GET /api/v1/agents/stream": watch(api + "/agents/stream?agent=echo"),
		"GET /api/v1/agui/events":   watch(api + "/agui/events"),

		"GET /api/copilotkit/info": get(own, kit+"/info"),
		"POST /api/copilotkit/agent/{agent}/run": one(
			makes(kit+"/agent/echo/run", strings.ReplaceAll(input, "{run}", "{run}-kit"), own)),
		"POST /api/copilotkit/agent/{agent}/connect": one(
			change("POST", kit+"/agent/echo/connect", `{"threadId":"{thread}"}`, own), change("POST", kit+"/agent/echo/connect", `{"threadId":"{busyconv}"}`, own)),
		"POST /api/copilotkit/agent/{agent}/stop/{thread_id}": one(
			change("POST", kit+"/agent/scripted/stop/{busythread}", ``, own),
			change("POST", kit+"/agent/scripted/stop/{busyconv}", ``, "200 403 200 200"),
			change("POST", kit+"/agent/scripted/stop/{busyconv}", `{"runId":"{busy}"}`, "200 403 200 200")),
		"GET /api/copilotkit/threads": get(own, kit+"/threads"),
		"PATCH /api/copilotkit/threads/{thread_id}": one(
			change("PATCH", kit+"/threads/{thread}", `{"name":"mine"}`, names), change("PATCH", kit+"/threads/{conv}", `{"name":"mine"}`, controls)),
		"DELETE /api/copilotkit/threads/{thread_id}": one(
			change("DELETE", kit+"/threads/{thread}", ``, names), change("DELETE", kit+"/threads/{conv}", ``, deletes)),
		"GET /api/copilotkit/threads/{thread_id}/{part}": slices.Concat(get(names, kit+"/threads/{thread}/messages"),
			get(sees, kit+"/threads/{conv}/messages", kit+"/threads/{conv}/events", kit+"/threads/{conv}/state")),
		"POST /api/copilotkit/threads/{thread_id}/{part}": one(change("POST", kit+"/threads/{conv}/archive", ``, controls)),
		"POST /api/copilotkit": one(
			change("POST", kit, single("info", `{}`, `{}`), own),
			makes(kit, single("agent/run", `{"agentId":"echo"}`, strings.ReplaceAll(input, "{run}", "{run}-single")), own),
			change("POST", kit, single("agent/connect", `{"agentId":"echo"}`, `{"threadId":"{conv}"}`), own),
			change("POST", kit, single("agent/stop", `{"agentId":"scripted","threadId":"{busyconv}"}`, `{}`), "200 403 200 200"),
			change("POST", kit, single("resource/request", `{"path":"/threads","httpMethod":"GET"}`, `{}`), own),
			change("POST", kit, single("resource/request", `{"path":"/threads/{conv}/messages","httpMethod":"GET"}`, `{}`), sees),
			change("POST", kit, single("resource/request", `{"path":"/threads/{conv}/events","httpMethod":"GET"}`, `{}`), sees),
			change("POST", kit, single("resource/request", `{"path":"/threads/{thread}/state","httpMethod":"GET"}`, `{}`), names),
			change("POST", kit, single("resource/request", `{"path":"/threads/{conv}","httpMethod":"PATCH"}`, `{"name":"mine"}`), controls),
			change("POST", kit, single("resource/request", `{"path":"/threads/{conv}/archive","httpMethod":"POST"}`, `{}`), controls),
			change("POST", kit, single("resource/request", `{"path":"/threads/{conv}","httpMethod":"DELETE"}`, `{}`), deletes)),

		"POST /mcp": one(
			tool("list_agents", `{}`),
			tool("list_agent_runs", `{}`), tool("list_agent_runs", `{"thread_id":"{conv}"}`), tool("list_agent_runs", `{"thread_id":"{thread}"}`),
			tool("get_agent_run_events", `{"conversation_id":"{conv}","run_id":"{run}"}`),
			tool("get_agent_run_events", `{"conversation_id":"{conv}","run_id":"{name}","after_event_id":1}`),
			tool("get_agent_run_snapshot", `{"conversation_id":"{conv}","run_id":"{run}"}`),
			tool("get_agent_run_snapshot", `{"conversation_id":"{busyconv}","run_id":"{busy}"}`),
			started("start_agent_run", `{"agent":"echo","content":"x","thread_id":"{thread}-tool"}`),
			started("start_agent_run", `{"agent":"echo","content":"x","thread_id":"{mine}","rewind_to":"{message}"}`),
			tool("append_agent_message", `{"run_id":"{run}","content":"more"}`),
			tool("resume_agent_run", `{"run_id":"{waiting}","resume":[{"interruptId":"{interrupt}","status":"resolved"}]}`),
			tool("send_event", `{"run_id":"{busy}","name":"paid","payload":{}}`),
			tool("cancel_agent_run", `{"run_id":"{busy}"}`)),
	}
}()

// offers are the server's routes, commands, methods and tools, by its OpenAPI document and its list of tools.
type offers struct{ routes, commands, methods, tools []string }

func (s site) offers() (o offers) {
	s.Helper()
	var doc struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct {
			Schemas map[string]struct {
				OneOf []struct {
					Properties struct{ Op struct{ Const string } }
				}
				Properties struct{ Method struct{ Enum []string } }
			}
		}
	}
	must(s, json.Unmarshal([]byte(s.request("", "GET", "/openapi.json", "").body), &doc))
	for path, item := range doc.Paths {
		for method := range item {
			o.routes = append(o.routes, strings.ToUpper(method)+" "+path)
		}
	}
	for _, command := range doc.Components.Schemas["SocketCommand"].OneOf {
		o.commands = append(o.commands, `"op":"`+command.Properties.Op.Const+`"`)
	}
	for _, method := range doc.Components.Schemas["CopilotKitCall"].Properties.Method.Enum {
		o.methods = append(o.methods, `"method":"`+method+`"`)
	}
	var listed struct {
		Result struct{ Tools []struct{ Name string } }
	}
	list := s.request("p9/nobody/user", "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Accept", "application/json, text/event-stream")
	if err := json.Unmarshal([]byte(list.body), &listed); err != nil || len(listed.Result.Tools) == 0 {
		s.Fatalf("%v: %s", err, list.body)
	}
	for _, tool := range listed.Result.Tools {
		o.tools = append(o.tools, `"name":"`+tool.Name+`"`)
	}
	if len(o.commands) < 6 || len(o.methods) < 5 {
		s.Error("the document does not tell of the sockets' commands or CopilotKit's methods")
	}
	return o
}

// covered fails for a route, a command of sockets, a method of CopilotKit's single endpoint or a tool that is not in cases.
func covered(s site) {
	s.Helper()
	there := s.offers()
	if diff := cmp.Diff(slices.Sorted(slices.Values(there.routes)), slices.Sorted(maps.Keys(cases))); diff != "" {
		s.Errorf("there is (-), and the neighbours ask (+):\n%s", diff)
	}
	for op, names := range map[string][]string{"GET /api/v1/ws": there.commands, "POST /api/copilotkit": there.methods, "POST /mcp": there.tools} {
		var asked strings.Builder
		for _, c := range cases[op] {
			asked.WriteString(c.body + strings.Join(c.frames, ""))
		}
		s.holds(op, asked.String(), names)
	}
}

// holds fails for a name that the requests lack.
func (s site) holds(where, asked string, names []string) {
	s.Helper()
	for _, name := range names {
		if !strings.Contains(asked, name) {
			s.Errorf("%s: nobody asks for %s", where, name)
		}
	}
}
