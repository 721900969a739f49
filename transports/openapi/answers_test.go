package openapi_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every operation that answers over HTTP is called here, or TestAnswersAreAsDescribed fails.
func TestAnswersAreAsDescribed(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for _, area := range []struct {
		name string
		ask  func(*client)
	}{
		{"offers", (*client).offers},
		{"runs", (*client).runs},
		{"streams", (*client).streams},
		{"questions", (*client).questions},
		{"agui", (*client).agui},
		{"log", (*client).log},
		{"threads", (*client).threads},
		{"attachments", (*client).attachments},
		{"monitor", (*client).monitor},
		{"copilotkit", (*client).copilotkit},
		{"admin", (*client).admin},
		{"keys", (*client).keys},
		{"mcp", (*client).mcp},
		{"sockets", (*client).sockets},
		{"tickets", (*client).tickets},
		{"pages", (*client).pages},
		{"refusals", (*client).refusals},
	} {
		t.Run(area.name, func(t *testing.T) {
			in := *c
			in.T = t
			area.ask(&in)
		})
	}
	var missed []string
	for _, op := range c.spec.operations() {
		if name := op.method + " " + op.path; !c.met[name] {
			missed = append(missed, name)
		}
	}
	slices.Sort(missed)
	if len(missed) > 0 {
		t.Errorf("not asked:\n%s", strings.Join(missed, "\n"))
	}
}

// all is a script that emits events of nearly all types.
const all = `{"reason": "let me see"}, {"state": {"n": 1}}, {"tool": "calculator", "args": {"expression": "6*7"}}, {"tool": "fail", "args": {"message": "no"}},
	{"progress": 0.5, "message": "half"}, {"say": "hello world"}, {"state": {"n": 2}}`

func (c *client) tickets() {
	got := c.do(201, "POST", "/api/v1/stream-tickets", `{"path": "/api/v1/agent/runs/main/events?after_event_id=latest"}`).(object)
	if got["ticket"] == "" {
		c.Errorf("got %v", got)
	}
	c.do(201, "POST", "/api/v1/stream-tickets", `{"path": "/api/v1/ws", "projectId": "default"}`)
	c.do(404, "POST", "/api/v1/stream-tickets", `{"path": "/api/v1/ws?projectId=other"}`)
	for _, body := range []string{
		`{`, `{}`, `{"path": 1}`, `{"path": "/api/v1/agents"}`, `{"path": "/api/v1/agent/runs"}`, `{"path": "https://example.com/api/v1/ws"}`,
		`{"path": "//example.com/api/v1/ws"}`, `{"path": "api/v1/ws"}`, `{"path": "/api/v1/agent/runs/../ws"}`, `{"path": "/api/v1/agent/runs/a/b/events"}`,
	} {
		c.do(400, "POST", "/api/v1/stream-tickets", body)
	}
}

func (c *client) offers() {
	c.do(200, "GET", "/api/v1/agents", "")
	c.do(200, "GET", "/api/v1/workflows", "")
	const tool = "/api/v1/tools/calculator/runs"
	run := c.do(202, "POST", tool, `{"arguments": {"expression": "6*7"}, "threadId": "tool"}`).(object)["runId"].(string)
	if got := c.await(run, "COMPLETED"); got["outputSummary"] != "42" || got["workflowId"] != "tool:calculator" || got["agent"] != nil {
		c.Errorf("got %v", got)
	}
	c.await(c.do(202, "POST", tool, `{}`).(object)["runId"].(string), "FAILED")
	c.do(400, "POST", tool, `{"arguments": []}`)
	c.do(404, "POST", "/api/v1/tools/none/runs", `{}`)
	c.do(404, "POST", tool+"?projectId=other", `{}`)
	c.do(200, "GET", "/healthz", "")
	c.do(200, "GET", "/readyz", "")
}

func (c *client) runs() {
	c.do(200, "PUT", "/api/v1/me/views", `{"items": [{"name": "a", "query": "status=failed"}]}`)
	c.do(400, "PUT", "/api/v1/me/views", `{"items": [{"name": "a", "query": ""}, {"name": "a", "query": ""}]}`)
	c.do(200, "GET", "/api/v1/me/views", "")
	run := c.do(202, "POST", runs, script(c.T, "runs", all)).(object)["runId"].(string)
	at := runs + "/" + run
	c.await(run, "COMPLETED")
	c.do(200, "GET", runs+"?limit=1&threadId=runs&status=COMPLETED", "")
	c.do(200, "GET", runs+"?status=COMPLETED,FAILED&status=QUEUED&q=lets&order=oldest&until=2100-01-01T00:00:00Z", "")
	c.do(200, "GET", runs+"?tag=red,blue&tag=green&metadata.env=prod&q=lets&limit=1", "")
	for _, wrong := range []string{"status=DONE", "order=up", "until=x", "q=%00", "tag=a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p&metadata.q=1"} {
		c.do(400, "GET", runs+"?"+wrong, "")
	}
	for _, part := range []string{"/definition", "/steps", "/node-states", "/messages", "/messages?limit=1"} {
		c.do(200, "GET", at+part, "")
	}
	asks := c.start(`{"agent": "modelled", "threadId": "asks", "content": "what?"}`)
	c.await(asks, "COMPLETED")
	call := c.do(200, "GET", runs+"/"+asks+"/model-calls", "").(object)["items"].([]any)[0].(object)["id"].(string)
	if whole := c.do(200, "GET", runs+"/"+asks+"/model-calls/"+call, "").(object); whole["sent"] == nil || whole["answered"] == nil {
		c.Errorf("the call is %v", whole)
	}
	c.do(404, "GET", runs+"/"+asks+"/model-calls/none", "")
	c.do(201, "POST", at+"/messages", `{"content": "more", "contextItemIds": ["c"]}`)
	c.await(run, "COMPLETED")
	c.do(400, "POST", at+"/cancel", "")

	failed := c.start(script(c.T, "failed", `{"fail": "boom", "code": "x"}`))
	c.await(failed, "FAILED")
	c.do(200, "GET", runs+"/"+failed+"/steps", "")
	c.do(200, "GET", runs+"/"+failed+"/node-states", "")
	c.do(204, "DELETE", runs+"/"+failed, "")

	slow := c.start(script(c.T, "slow", `{"tool": "sleep", "args": {"ms": 60000}}`))
	c.do(400, "DELETE", runs+"/"+slow, "")
	c.do(409, "POST", "/api/v1/agent/runs", `{"agent": "echo", "threadId": "slow", "content": "x", "multitask": "reject"}`)
	c.do(202, "POST", runs+"/"+slow+"/events/paid", `{"order": 1}`)
	c.do(400, "POST", runs+"/"+slow+"/events/-", `1`)
	c.do(200, "POST", runs+"/"+slow+"/cancel", "")
	c.do(409, "POST", runs+"/"+slow+"/events/paid", "")
	c.do(400, "POST", runs+"/"+slow+"/messages", `{"content": "x"}`)

	demo := c.start(`{"workflowId": "demo", "threadId": "demo", "content": "What is new?"}`)
	c.do(200, "GET", runs+"/"+demo+"/node-states", "")
	c.await(demo, "COMPLETED")
	c.do(202, "POST", runs+"/"+demo+"/rerun", `{"fromNode": "review"}`)
	c.do(400, "POST", runs+"/"+demo+"/rerun", `{"fromNode": "none"}`)
	c.do(400, "POST", runs+"/"+demo+"/rerun", `{"fromCall": "none", "overrides": {"model": "m"}}`)
	c.do(404, "POST", runs+"/none/rerun", "")
	if w := c.do(200, "GET", runs+"/"+demo+"/definition", "").(object); w["name"] != "demo" || len(w["nodes"].([]any)) < 2 {
		c.Errorf("the run has %v", w)
	}
	c.await(demo, "COMPLETED")
	c.do(200, "GET", runs+"/"+demo+"/steps", "")
	c.do(200, "GET", runs+"/"+demo, "")
}

const asStream = "text/event-stream"

func (c *client) streams() {
	for i, ops := range []string{all, `{"fail": "boom"}`, `{"tokens": 20}`} {
		thread := fmt.Sprint("streams", i)
		body := script(c.T, thread, ops)
		c.do(200, "POST", "/api/v1/agent/runs", body, "Accept", asStream)
		c.do(200, "POST", "/api/v1/agent/runs", strings.Replace(body, "{", `{"protocolVersion": "1.0", `, 1), "Accept", asStream)
		c.do(200, "GET", "/api/v1/agent/runs/"+thread+"/events?after_event_id=0&follow=false", "", "Accept", asStream)
	}
	for _, body := range []string{`{"agent": "echo", "content": "hello"}`, `{"workflowId": "demo", "content": "hello", "protocolVersion": "1.0"}`} {
		c.do(200, "POST", "/api/v1/agent/runs", body, "Accept", asStream)
	}
	c.do(200, "GET", "/api/v1/agent/runs/demo/events", "")
	c.do(204, "GET", "/api/v1/agent/runs/demo/events?after_event_id=latest", "")
	c.do(400, "GET", "/api/v1/agent/runs/demo/events?after_event_id=999999", "")
	c.do(404, "GET", "/api/v1/agent/runs/nobody/events", "")
}

// questions asks, answers, and calls a tool of the client.
func (c *client) questions() {
	ask := script(c.T, "ask", `{"ask": {"message": "Deploy?", "schema": {"type": "object"}}}, {"say": "done"}`)
	list := c.do(200, "POST", "/api/v1/agent/runs", ask, "Accept", asStream).([]any)
	run := list[0].(object)["data"].(object)["runId"].(string)
	asked := c.await(run, "WAITING")["interrupts"].([]any)[0].(object)["id"]
	c.do(409, "POST", "/api/v1/agent/runs", `{"agent": "echo", "threadId": "ask", "content": "x"}`)
	c.do(400, "POST", runs+"/"+run+"/resume", `{"resume": []}`)
	answer := fmt.Sprintf(`{"resume": [{"interruptId": %q, "status": "resolved", "payload": {"approved": true}}]}`, asked)
	c.do(202, "POST", runs+"/"+run+"/resume", answer)
	c.await(run, "COMPLETED")
	c.do(409, "POST", runs+"/"+run+"/resume", answer)
	c.do(200, "GET", "/api/v1/agent/runs/ask/events", "")

	cancelled := script(c.T, "cancelled", `{"ask": {"message": "Deploy?"}}`)
	run = c.start(cancelled)
	c.await(run, "WAITING")
	if open := c.do(200, "GET", "/api/projects/default/interrupts?limit=1&count=true", "").(object); fmt.Sprint(open["total"]) != "1" {
		c.Errorf("one question is open, and the list has %v", open)
	}
	c.do(400, "GET", "/api/projects/default/interrupts?cursor=x", "")
	c.do(200, "POST", runs+"/"+run+"/cancel", "")
	c.do(200, "GET", "/api/v1/agent/runs/cancelled/events", "")
}

func (c *client) agui() {
	body := `{"threadId": "agui", "runId": "r-1", "protocolVersion": "1.0", "state": {"a": 1}, "messages": [{"id": "m-1", "role": "user", "content": "hello"}], "tools": [], "context": [], "forwardedProps": {}}`
	c.do(200, "POST", "/api/v1/agui/echo", body)
	c.do(404, "POST", "/api/v1/agui/nobody", body)
	for _, thread := range []string{"agui", "ask", "cancelled", "demo", "unknown"} {
		for _, version := range []string{"", `"protocolVersion": "1.0", `} {
			c.do(200, "POST", "/api/v1/agui/echo/connect", fmt.Sprintf(`{%s"threadId": %q, "runId": "r-2", "messages": []}`, version, thread))
		}
	}
	c.do(400, "POST", "/api/v1/agui/echo/connect", `{}`)
	for _, query := range []string{"threadId=agui", "threadId=ask&limit=2", "threadId=demo", "threadId=unknown", "runId=r-1", "runId=r-1&offset=2"} {
		c.do(200, "GET", "/api/v1/agui/echo?"+query, "")
	}
	c.do(400, "GET", "/api/v1/agui/echo", "")
	c.do(404, "GET", "/api/v1/agui/echo?runId=nobody", "")
	c.do(200, "GET", "/api/v1/agui/echo/capabilities", "")
	c.do(200, "GET", "/api/v1/agui/demo/capabilities", "")
	c.do(404, "GET", "/api/v1/agui/nobody/capabilities", "")
}

func (c *client) log() {
	run := c.await(c.start(script(c.T, "log", all)), "COMPLETED")
	at := fmt.Sprintf("/api/v1/conversations/%s/agent-runs/%s", run["conversationId"], run["id"])
	c.do(200, "GET", at+"/events", "")
	c.do(200, "GET", at+"/events?limit=2", "")
	states := c.do(200, "GET", at+"/events?types=STATE_DELTA,STATE_SNAPSHOT", "").(object)["data"].([]any)
	if len(states) == 0 {
		c.Error("no event of the state is found")
	}
	last := c.do(200, "GET", at+"/events?before_event_id=0&limit=1", "").(object)
	if ev := last["data"].([]any)[0].(object)["event"].(object)["type"]; ev != "RUN_FINISHED" || last["page_info"].(object)["prev"] == nil {
		c.Errorf("the last event is %v", last)
	}
	c.do(400, "GET", at+"/events?before_event_id=2&after_event_id=1", "")
	c.do(200, "GET", at+"/snapshot", "")
	c.do(400, "GET", at+"/events?limit=0", "")
	c.do(404, "GET", at+"x/snapshot", "")
}

func (c *client) threads() {
	c.do(200, "GET", "/api/v1/agent/history", "")
	c.do(200, "GET", "/api/v1/agent/history?threadId=runs", "")
	c.do(400, "GET", "/api/v1/agent/history?before=x", "")
	c.do(404, "GET", "/api/v1/agent/history?threadId=nobody", "")
	c.do(200, "GET", "/api/v1/threads?limit=2", "")
	c.do(400, "GET", "/api/v1/threads?archived=x", "")
	if found := c.do(200, "GET", "/api/v1/threads?q=STREAM&archived=false&limit=1&count=true", "").(object); len(found["items"].([]any)) != 1 || found["total"] != nil {
		c.Errorf("by a text there are %v", found)
	}
	if none := c.do(200, "GET", "/api/v1/threads?archived=true&count=true", "").(object); fmt.Sprint(none["total"]) != "0" {
		c.Errorf("put away are %v", none)
	}
	c.do(200, "PATCH", "/api/v1/threads/runs", `{"title": "Runs", "metadata": {"a": 1}, "archived": false}`)
	if th := c.do(200, "GET", "/api/v1/threads/runs", "").(object); th["title"] != "Runs" || th["asked"] == nil {
		c.Errorf("got %v", th)
	}
	c.do(404, "GET", "/api/v1/threads/nobody", "")
	if titled := c.do(200, "GET", runs+"?threadId=runs&limit=1", "").(object)["items"].([]any)[0].(object); titled["threadTitle"] != "Runs" {
		c.Errorf("of a run of a thread with a title is told %v", titled)
	}
	of := "/api/projects/default/threads"
	one := c.do(200, "GET", of+"?limit=1", "").(object)
	c.do(200, "GET", of+"?archived=false&q=s&limit=1&cursor="+c.do(200, "GET", of+"?archived=false&q=s&limit=1", "").(object)["nextCursor"].(string), "")
	c.do(200, "GET", of+"?cursor="+one["nextCursor"].(string), "")
	c.do(400, "GET", "/api/v1/threads?cursor="+one["nextCursor"].(string), "") // of another list
	c.do(400, "GET", of+"?limit=0", "")
	users := c.do(200, "GET", "/api/projects/default/users?q=OC&limit=1", "").(object)["items"].([]any)
	if len(users) != 1 || users[0].(object)["user"] != "local" || fmt.Sprint(users[0].(object)["threads"]) == "0" {
		c.Errorf("there are the users %v", users)
	}
	c.do(400, "GET", "/api/projects/default/users?cursor=x", "")
	c.do(400, "GET", "/api/projects/default/users?q=%00", "")
	c.do(400, "PATCH", "/api/v1/threads/runs", `{"title": 1}`)
	c.do(200, "GET", "/api/v1/threads/runs/messages?limit=3", "")
	c.do(200, "GET", "/api/v1/threads/runs/messages?hidden=true&protocolVersion=1.0", "")
	c.do(400, "GET", "/api/v1/threads/runs/messages?limit=0", "")
	c.do(400, "GET", "/api/v1/threads/runs/messages?before=nobody", "")
	c.do(404, "GET", "/api/v1/threads/nobody/messages", "")
	c.do(204, "DELETE", "/api/v1/threads/streams0", "")
	c.do(404, "DELETE", "/api/v1/threads/nobody", "")
}

func (c *client) monitor() {
	run := func() { c.start(script(c.T, "monitored", all)) }
	c.watch("/api/v1/events", "agent_complete", run)
	c.watch("/api/v1/agents/stream?agent=scripted", "agent_complete", run)
	c.watch("/api/v1/agui/events", "RUN_FINISHED", run)
	c.watch("/api/v1/events", "error", func() { c.start(script(c.T, "monitored", `{"fail": "boom"}`)) })
	c.watch("/api/v1/events", "reset", func() {}, "Last-Event-ID", "gone-1")
	c.watch("/api/v1/agui/events", "STATE_SNAPSHOT", func() {}, "Last-Event-ID", "gone-1")
	c.do(400, "GET", "/api/v1/agents/stream", "")
	c.do(404, "GET", "/api/v1/agents/stream?agent=nobody", "")
}

func (c *client) copilotkit() {
	body := `{"threadId": "kit", "runId": "r-kit", "state": {}, "messages": [{"id": "m-1", "role": "user", "content": "hello"}], "tools": [], "context": [], "forwardedProps": {}}`
	c.do(200, "GET", "/api/copilotkit/info", "")
	c.do(200, "POST", "/api/copilotkit/agent/echo/run", body)
	c.do(200, "POST", "/api/copilotkit/agent/echo/connect", body)
	c.do(200, "POST", "/api/copilotkit/agent/echo/stop/kit", "")
	c.start(script(c.T, "kit", all+`, {"tool": "sleep", "args": {"ms": 60000}}`))
	c.do(200, "POST", "/api/copilotkit/agent/scripted/stop/kit", "{}")
	c.do(200, "GET", "/api/copilotkit/threads?agentId=scripted", "")
	for _, part := range []string{"messages", "events", "state"} {
		c.do(200, "GET", "/api/copilotkit/threads/kit/"+part, "")
	}
	c.do(404, "GET", "/api/copilotkit/threads/kit/nothing", "")
	for _, call := range []string{
		`{"method": "info"}`,
		`{"method": "agent/connect", "params": {"agentId": "echo"}, "body": ` + body + `}`,
		`{"method": "agent/stop", "params": {"agentId": "echo", "threadId": "kit"}}`,
		`{"method": "resource/request", "params": {"path": "/threads/kit/messages", "httpMethod": "GET"}}`,
	} {
		c.do(200, "POST", "/api/copilotkit", call)
	}
	c.do(400, "POST", "/api/copilotkit", `{"method": "nothing"}`)
	c.do(200, "PATCH", "/api/copilotkit/threads/kit", `{"name": "Kit"}`)
	c.do(400, "PATCH", "/api/copilotkit/threads/kit", `{"name": 1}`)
	c.do(200, "POST", "/api/copilotkit/threads/kit/archive", `{}`)
	c.do(200, "GET", "/api/copilotkit/threads?includeArchived=true", "")
	c.do(200, "POST", "/api/copilotkit", `{"method": "resource/request", "params": {"path": "/threads/kit", "httpMethod": "PATCH"}, "body": {"archived": false}}`)
	c.do(204, "DELETE", "/api/copilotkit/threads/kit", "")
}

func (c *client) mcp() {
	ask := func(status int, text string) {
		c.Helper()
		c.do(status, "POST", "/mcp", text, "Accept", "application/json, text/event-stream", "MCP-Protocol-Version", "2025-06-18")
	}
	ask(200, `{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "me", "version": "1"}}}`)
	ask(202, `{"jsonrpc": "2.0", "method": "notifications/initialized"}`)
	ask(200, `{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}`)
	ask(200, `{"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "list_agents", "arguments": {}}}`)
	ask(200, `{"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "nothing", "arguments": {}}}`)
	ask(400, `{"jsonrpc": "2.0", "id": 5, "method": "nothing"}`)
}

func (c *client) attachments() {
	const at, form = "/api/v1/agent/attachments", "multipart/form-data; boundary=b"
	one := func(text string) string {
		return "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\n" + text + "\r\n--b--\r\n"
	}
	up := c.do(201, "POST", at, one("text"), "Content-Type", form).(object)
	where := at + "/signed-url?bucket=" + up["bucket"].(string) + "&path="
	signed := c.do(200, "GET", where+up["path"].(string), "").(object)
	c.do(200, "GET", strings.TrimPrefix(signed["url"].(string), c.url), "")
	c.do(400, "POST", at, "--b--", "Content-Type", form)
	c.do(400, "POST", at, one(""), "Content-Type", form)
	c.do(400, "POST", at, one("cut")[:75], "Content-Type", form)
	c.do(413, "POST", at, one(strings.Repeat("a", 20<<20+1)), "Content-Type", form)
	c.do(413, "POST", at, one(strings.Repeat("a", 21<<20)), "Content-Type", form)
	c.do(415, "POST", at, one("<html>"), "Content-Type", form)
	c.do(415, "POST", at, "{}")
	c.do(400, "GET", where, "")
	c.do(400, "GET", at+"/signed-url?bucket=other&path=x", "")
	c.do(403, "GET", where+"agent-inputs/local/../x", "")
	c.do(404, "GET", where+"agent-inputs/local/x", "")
	run := c.do(202, "POST", runs, script(c.T, "large", fmt.Sprintf(`{"tool": "fail", "args": {"message": %q}}`, strings.Repeat("large ", 1<<18)))).(object)["runId"].(string)
	c.await(run, "COMPLETED")
	shown := fmt.Sprint(c.do(200, "GET", runs+"/"+run+"/messages", ""))
	c.do(200, "GET", runs+"/"+run+"/results/"+regexp.MustCompile(`/results/([^ ]+)\. `).FindStringSubmatch(shown)[1], "")
	c.do(404, "GET", runs+"/none/results/none", "")
	c.do(403, "GET", "/api/v1/attachments/raw?bucket=default&path=x&expires=1&signature=x", "")
}

func (c *client) pages() {
	c.do(200, "GET", "/docs", "")
	c.do(200, "GET", "/docs/page.css", "")
	c.do(200, "GET", "/docs/LICENSE", "")
	c.do(404, "GET", "/docs/nothing", "")
	c.do(200, "GET", "/openapi.json", "")
	c.do(200, "GET", "/metrics", "")
}

// refusals tests error answers that many operations share.
func (c *client) refusals() {
	c.do(400, "GET", runs+"?limit=x", "")
	c.do(400, "POST", runs, `{`)
	c.do(404, "GET", runs+"/nobody", "")
	c.do(404, "POST", runs, `{"agent": "nobody", "content": "x"}`)
	c.do(404, "GET", "/api/projects/other/agent-runs", "")
	c.do(403, "GET", runs, "", "Origin", "https://elsewhere.example")
	c.do(413, "POST", runs+"/x/messages", `{"content": "`+strings.Repeat("x", 3<<20)+`"}`)
	c.do(415, "POST", runs, `{}`, "Content-Type", "text/plain")
	for _, path := range []string{
		"/api/v1/threads", "/api/v1/agent/history", "/api/v1/agent/runs/demo/events", "/api/v1/events", "/api/v1/agui/events",
		"/api/v1/agents/stream?agent=echo", "/api/v1/conversations/demo/agent-runs/x/events", "/api/copilotkit/threads",
	} {
		sep := "?"
		if strings.Contains(path, "?") {
			sep = "&"
		}
		c.do(404, "GET", path+sep+"projectId=other", "")
	}
	c.do(404, "PATCH", "/api/v1/threads/runs?projectId=other", `{}`)
	c.do(413, "PATCH", "/api/v1/threads/runs", `{"metadata": {"a": "`+strings.Repeat("x", 70<<10)+`"}}`)
	c.do(400, "GET", "/api/v1/threads?cursor=x", "")
	c.do(415, "PATCH", "/api/v1/threads/runs", `{}`, "Content-Type", "text/plain")
	key := []string{"Idempotency-Key", "k"}
	c.do(202, "POST", "/api/v1/agent/runs", `{"agent": "echo", "content": "x"}`, key...)
	c.do(409, "POST", "/api/v1/agent/runs", `{"agent": "echo", "content": "y"}`, key...)

	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, c.url+runs, http.NoBody)
	must(c, err)
	req.Host = "elsewhere.example"
	resp, err := c.http.Do(req)
	must(c, err)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusMisdirectedRequest {
		c.Errorf("a foreign Host got %d", resp.StatusCode)
	}
}
