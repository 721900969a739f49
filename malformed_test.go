package baton_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fasthttp/websocket"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/storage/postgrestest"
)

// malformer generates malformed requests, and some valid ones.
type malformer struct {
	*rand.Rand
	routes       []malformable
	conversation string
}

// malformable is a route of the OpenAPI document.
type malformable struct {
	method, path string
	query        []string
}

// words are values that are valid for some parameters, and values that are valid for none.
var words = []string{
	"", "t", "r", "default", "local", "echo", "scripted", "demo", "latest", "true", "false", "user", "assistant", "tool", "QUEUED", "COMPLETED",
	"0", "1", "-1", "500", "9223372036854775807", "9223372036854775808", "1e999", "NaN", "2024-01-15", "2024-02-30", "0000-01-01", "9999-12-31",
	"2024-01-15T00:00:00Z", "\x00", "a\x00b", "\xff", "\xc3\x28", "\xed\xa0\x80", "\u2028", "\U0010ffff", "é", "%", "%00", "%zz", "..", ".", "/", "//", "\\",
	"' OR 1=1 --", `"`, "{}", "[]", "null", "*", "a,b", "\r\n", "\t", "agui", "baton.v1", "tools/call", "start_agent_run", "get_agent_run_events",
	"enqueue", "reject", "interrupt", "rollback", "hidden", "steps", "events", "messages", "connect",
	strings.Repeat("x", 200), strings.Repeat("x", 201), strings.Repeat("é", 300),
}

// members are names of members in bodies.
var members = []string{
	"threadId", "runId", "parentRunId", "agent", "workflowId", "messages", "id", "role", "content", "name", "toolCalls", "toolCallId", "function",
	"arguments", "type", "text", "source", "mimeType", "data", "url", "state", "tools", "parameters", "description", "context", "value", "resume", "interruptId",
	"status", "payload", "contextItemIds", "forwardedProps", "background", "edits", "metadata", "multitask", "rewindTo", "projectId", "protocolVersion",
	"title", "path", "jsonrpc", "method", "params", "body", "agentId", "httpMethod", "error", "encryptedValue", "activityType", "after_event_id", "run_id", "limit",
}

func (m *malformer) word() string {
	if m.IntN(8) == 0 { // values that databases cannot store
		return []string{"\x00", "a\x00", "\xff"}[m.IntN(3)]
	}
	return words[m.IntN(len(words))]
}

// value returns JSON, and sometimes text that is no JSON.
func (m *malformer) value(depth int) string {
	switch n := m.IntN(12); {
	case n < 2 && depth > 0:
		var all []string
		for range m.IntN(4) {
			all = append(all, m.value(depth-1))
		}
		return "[" + strings.Join(all, ",") + "]"
	case n < 6 && depth > 0:
		return m.object(depth)
	case n == 6:
		return []string{"null", "true", "false", "0", "-1", "1e999", "0.1", "9223372036854775808", `"\u0000"`, `"\ud800"`, `"a\u0000b"`}[m.IntN(11)]
	default:
		text, _ := json.Marshal(m.word())
		return string(text)
	}
}

func (m *malformer) object(depth int) string {
	var all []string
	for range m.IntN(6) {
		all = append(all, fmt.Sprintf("%q:%s", members[m.IntN(len(members))], m.value(depth-1)))
	}
	return "{" + strings.Join(all, ",") + "}"
}

// body returns the body of a request.
func (m *malformer) body() string {
	switch m.IntN(10) {
	case 0:
		return m.word()
	case 1:
		return m.value(3)
	case 2:
		text := m.object(4)
		return text[:m.IntN(len(text)+1)]
	case 3: // a message with members that may be wrong
		return fmt.Sprintf(`{"threadId":%s,"runId":%s,"messages":[{"id":%s,"role":"tool","toolCallId":%s,"content":%s},{"role":"assistant","toolCalls":[{"id":%s,"type":"function","function":{"name":%s,"arguments":%s}}]}]}`,
			m.value(0), m.value(0), m.value(0), m.value(0), m.value(2), m.value(0), m.value(0), m.value(0))
	case 4:
		return fmt.Sprintf(`{"agent":"echo","threadId":%s,"content":%s,"rewindTo":%s,"contextItemIds":[%s],"metadata":{%q:%s}}`,
			m.value(0), m.value(0), m.value(0), m.value(0), "k", m.value(2))
	case 5:
		return fmt.Sprintf(`{"threadId":"t","agent":"echo","resume":[{"interruptId":%s,"status":"resolved","payload":%s}]}`, m.value(0), m.value(2))
	case 6:
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`,
			[]string{"start_agent_run", "list_agent_runs", "get_agent_run_events", "get_agent_run_snapshot", "append_agent_message", "resume_agent_run", "cancel_agent_run"}[m.IntN(7)], m.object(3))
	default:
		return m.object(4)
	}
}

// start creates the thread and the run that requests refer to.
func (m *malformer) start(t *testing.T, base string) {
	t.Helper()
	res := send(t, "POST", base+"/api/v1/agent/runs", `{"agent":"echo","threadId":"t","runId":"r","content":"hi"}`)
	var ids struct{ ConversationID string }
	if body := answer(t, res); res.StatusCode == http.StatusAccepted {
		if err := json.Unmarshal([]byte(body), &ids); err != nil || ids.ConversationID == "" {
			t.Fatal(body)
		}
		m.conversation = ids.ConversationID
	}
}

// named returns a value for a path parameter. Most values exist, so that requests get past the lookup.
func (m *malformer) named(name string) string {
	if m.IntN(4) > 0 {
		for part, known := range map[string]string{"project": "default", "thread": "t", "run": "r", "agent": "echo", "user": "local", "conversation": m.conversation} {
			if strings.HasPrefix(strings.ToLower(name), part) {
				return known
			}
		}
	}
	return m.word()
}

func (m *malformer) request(base string) *http.Request {
	route := m.routes[m.IntN(len(m.routes))]
	path := route.path
	for strings.Contains(path, "{") {
		before, rest, _ := strings.Cut(path, "{")
		name, after, _ := strings.Cut(rest, "}")
		path = before + url.PathEscape(m.named(name)) + after
	}
	query := make(url.Values)
	for _, name := range route.query {
		if m.IntN(2) == 0 {
			query.Add(name, m.word())
		}
	}
	if m.IntN(3) == 0 {
		query.Add(words[m.IntN(len(words))], m.word())
	}
	var body io.Reader
	if route.method != http.MethodGet && route.method != http.MethodDelete || m.IntN(10) == 0 {
		body = strings.NewReader(m.body())
		if m.IntN(4) == 0 {
			body = struct{ io.Reader }{body} // in chunks
		}
	}
	target := path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	r, err := http.NewRequest(route.method, base, body)
	if err != nil {
		panic(err)
	}
	r.URL.Opaque = target
	if m.IntN(10) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, name := range []string{"Accept", "Idempotency-Key", "Last-Event-ID", "Content-Type", "Mcp-Session-Id", "Mcp-Protocol-Version", "If-None-Match"} {
		if m.IntN(8) == 0 {
			r.Header.Set(name, strings.Map(func(c rune) rune {
				if c < ' ' {
					return -1
				}
				return c
			}, m.word()))
		}
	}
	if m.IntN(3) == 0 {
		r.Header.Set("Accept", "application/json, text/event-stream")
	}
	return r
}

// frame returns a command of a socket, mostly with an existing name, with members that it has and others.
func (m *malformer) frame() string {
	if m.IntN(8) == 0 {
		return m.body()
	}
	op := []string{"subscribe", "unsubscribe", "watch", "unwatch", "run", "append", "cancel", "resume"}[m.IntN(8)]
	all := []string{fmt.Sprintf(`"op":%q,"ref":%d`, op, m.IntN(100))}
	for _, name := range []string{"threadId", "runId"} {
		text, _ := json.Marshal(m.named(name))
		all = append(all, fmt.Sprintf("%q:%s", name, text))
	}
	if m.IntN(2) == 0 {
		all = append(all, fmt.Sprintf(`"agent":"echo","content":%s`, m.value(1)))
	}
	if m.IntN(2) == 0 {
		all = append(all, fmt.Sprintf(`"resume":[{"interruptId":%s,"status":"resolved","payload":%s}]`, m.value(0), m.value(2)))
	}
	if m.IntN(4) == 0 {
		all = append(all, fmt.Sprintf("%q:%s", members[m.IntN(len(members))], m.value(2)))
	}
	return "{" + strings.Join(all, ",") + "}"
}

// internal is the code of internal errors.
var internal = regexp.MustCompile(`"code"\s*:\s*"internal"`)

// No malformed request to any route may be answered with 500.
func TestMalformedRequests_AreClientErrors(t *testing.T) {
	t.Parallel()
	n := 2000
	if os.Getenv("BATON_SOAK") != "" {
		n = 100_000
	}
	for seed, database := range []string{"", postgrestest.New(t)} { // each gets other requests
		t.Run([]string{"SQLite", "PostgreSQL"}[seed], func(t *testing.T) {
			s := open(t, baton.Config{Listen: "127.0.0.1:0", Database: database})
			m := &malformer{Rand: rand.New(rand.NewPCG(1, uint64(seed))), routes: routesOf(t, s)}
			m.start(t, s.URL())
			m.breakIn(t, s.URL())
			for i := range n {
				if i%50 == 0 { // earlier requests may have deleted it
					m.start(t, s.URL())
				}
				r := m.request(s.URL())
				sent := new(bytes.Buffer)
				if r.Body != nil {
					r.Body = struct {
						io.Reader
						io.Closer
					}{io.TeeReader(r.Body, sent), r.Body}
				}
				res, err := http.DefaultTransport.RoundTrip(r)
				if err != nil {
					t.Fatalf("%d: %s %s %q: %v", i, r.Method, r.URL.Opaque, sent, err)
				}
				var body []byte
				if res.StatusCode >= 500 || strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") { // a stream may not end
					body, _ = io.ReadAll(io.LimitReader(res.Body, 1000))
				}
				if res.StatusCode >= 500 || internal.Match(body) {
					t.Errorf("%d: %s %q %v %q: got %d %s", i, r.Method, r.URL.Opaque, r.Header, sent, res.StatusCode, body)
				}
				_ = res.Body.Close()
			}
			http.DefaultTransport.(*http.Transport).CloseIdleConnections()
			m.talk(t, s.URL(), n/5)
		})
	}
}

// talk sends frames to a socket, and opens a new socket when it is closed.
func (m *malformer) talk(t *testing.T, base string, n int) {
	t.Helper()
	for n > 0 {
		m.start(t, base)
		c, status := dial(t, base+"/api/v1/ws", nil)
		if c == nil {
			t.Fatal(status)
		}
		var group sync.WaitGroup
		sent := make([]string, 0, 50) // later frames would refer to deleted things
		for range min(n, cap(sent)) {
			sent = append(sent, m.frame())
		}
		n -= len(sent)
		group.Go(func() {
			for _, frame := range append(slices.Clip(sent), `{"op":"unwatch","ref":"last"}`) {
				if c.WriteMessage(websocket.TextMessage, []byte(frame)) != nil {
					return
				}
			}
		})
		for last := false; !last; {
			_, msg, err := c.ReadMessage()
			if err != nil {
				if !websocket.IsUnexpectedCloseError(err) {
					t.Errorf("after %q: %v", sent, err)
				}
				break
			}
			if internal.Match(msg) && !bytes.Contains(msg, []byte(`"event"`)) {
				t.Errorf("one of %q: got %s", sent, msg)
			}
			last = bytes.Contains(msg, []byte(`"last"`))
		}
		group.Wait()
		_ = c.Close()
	}
}

// breakIn sends requests that were answered with 500 before.
func (m *malformer) breakIn(t *testing.T, base string) {
	t.Helper()
	runs := base + "/api/projects/default/agent-runs"
	for _, query := range []string{"agent=%00", "workflowId=%00", "threadId=%00", "user=%00", "user=%ff", "agent=%ff", "cursor=%00", "since=%00", "status=%00"} {
		if res := send(t, "GET", runs+"?"+query, ""); res.StatusCode >= 500 {
			t.Errorf("?%s: got %d %s", query, res.StatusCode, answer(t, res))
		}
	}
	for _, path := range []string{"/api/v1/agents/stream?agent=%00", "/api/v1/agent/history?threadId=%00", "/api/v1/threads/t/messages?before=%00", runs + "/%00"} {
		if res := send(t, "GET", base+strings.TrimPrefix(path, base), ""); res.StatusCode >= 500 {
			t.Errorf("%s: got %d %s", path, res.StatusCode, answer(t, res))
		}
	}
	for _, body := range []string{
		`"messages":[{"role":"tool","toolCallId":"\u0000","content":"x"}]`,
		`"messages":[{"role":"assistant","toolCalls":[{"id":"\u0000","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"user","content":"hi"}]`,
		`"content":"hi","rewindTo":"\u0000"`,
		`"content":"hi","contextItemIds":["\u0000"]`,
		`"content":"hi","metadata":{"\u0000":"\u0000"}`,
		`"content":"\u0000"`,
		`"messages":[{"role":"user","name":"\u0000","content":"hi"}]`,
		`"resume":[{"interruptId":"\u0000","status":"resolved"}]`,
		`"content":"hi","state":{"\u0000":1}`,
		`"content":"hi","tools":[{"name":"\u0000","description":"","parameters":{}}]`,
	} {
		if res := send(t, "POST", base+"/api/v1/agent/runs", `{"agent":"echo","threadId":"t",`+body+`}`); res.StatusCode >= 500 {
			t.Errorf("%s: got %d %s", body, res.StatusCode, answer(t, res))
		}
	}
}

// routesOf returns the routes in the server's OpenAPI document.
func routesOf(t *testing.T, s *baton.Server) (all []malformable) {
	t.Helper()
	type parameter struct {
		Name, In string
		Ref      string `json:"$ref"`
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []parameter
		}
		Components struct{ Parameters map[string]parameter }
	}
	must(t, json.Unmarshal([]byte(answer(t, send(t, "GET", s.URL()+"/openapi.json", ""))), &doc))
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
			route := malformable{method: strings.ToUpper(method), path: path}
			for _, p := range doc.Paths[path][method].Parameters {
				if p.Ref != "" {
					p = doc.Components.Parameters[p.Ref[strings.LastIndexByte(p.Ref, '/')+1:]]
				}
				if p.In == "query" {
					route.query = append(route.query, p.Name)
				}
			}
			all = append(all, route)
		}
	}
	return all
}
