package mcp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime"
)

// accept is the Accept header that clients of streamable HTTP send.
const accept = "application/json, text/event-stream"

// answered is a response that was read.
type answered struct {
	status int
	header http.Header
	body   string
}

// do makes a request to /mcp; header are pairs of name and value.
func (s *server) do(method, body string, header ...string) answered {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), method, s.URL+"/mcp", strings.NewReader(body))
	must(s, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", accept)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
	}
	res, err := s.http.Do(req)
	must(s, err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	must(s, err)
	return answered{res.StatusCode, res.Header, string(text)}
}

const (
	ping  = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
)

func TestEachRequestStandsForItself(t *testing.T) {
	t.Parallel()
	s := serve(t)
	a := s.do("POST", hello)
	if a.status != http.StatusOK || a.header.Get("Mcp-Session-Id") != "" || !strings.HasPrefix(a.header.Get("Content-Type"), "application/json") {
		t.Errorf("initialize: %+v", a)
	}
	got := decode[struct {
		Result struct {
			ProtocolVersion string
			Capabilities    map[string]json.RawMessage
			ServerInfo      struct{ Name, Version string }
			Instructions    string
		}
	}](t, a.body).Result
	if got.ProtocolVersion != "2025-06-18" || len(got.Capabilities) != 1 || got.Capabilities["tools"] == nil ||
		got.ServerInfo.Name != "baton" || got.ServerInfo.Version != "test" || got.Instructions == "" {
		t.Errorf("initialize: %s", a.body)
	}
	if a := s.do("POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`); a.status != http.StatusAccepted || a.body != "" {
		t.Errorf("a notification: %+v", a)
	}
	if a := s.do("POST", ping); a.body != `{"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Errorf("ping: %+v", a)
	}
	// A GET finds no stream: the server sends answers only.
	a = s.do("POST", `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},`+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen")
	if !strings.Contains(a.body, `"id":1`) {
		t.Errorf("a subscription: %+v", a)
	}
}

func TestRulesOfHTTPHoldForMCP(t *testing.T) {
	t.Parallel()
	s := serve(t)
	deep := `{"jsonrpc":"2.0","id":1,"method":"ping","params":` + strings.Repeat("[", 1<<20)
	for _, c := range []struct {
		name, method, body string
		header             []string
		status             int
		code               string
	}{
		{"GET", "GET", "", nil, 405, "method_not_allowed"},
		{"DELETE", "DELETE", "", nil, 405, "method_not_allowed"},
		{"PUT", "PUT", ping, nil, 405, "method_not_allowed"},
		{"a foreign host", "POST", ping, []string{"Host", "evil.example"}, 421, "foreign_host"},
		{"a foreign origin", "POST", ping, []string{"Origin", "https://evil.example"}, 403, "forbidden"},
		{"the origin null", "POST", ping, []string{"Origin", "null"}, 403, "forbidden"},
		{"a form", "POST", ping, []string{"Content-Type", "text/plain"}, 415, "unsupported_media_type"},
		{"a compressed body", "POST", ping, []string{"Content-Encoding", "gzip"}, 415, "unsupported_media_type"},
		{"events alone", "POST", ping, []string{"Accept", "text/event-stream"}, 400, "invalid_request"},
		{"a page", "POST", ping, []string{"Accept", "text/html"}, 400, "invalid_request"},
		{"no body", "POST", "", nil, 400, "invalid_request"},
		{"no JSON", "POST", "{", nil, 400, "invalid_request"},
		{"no message", "POST", "{}", nil, 400, "invalid_request"},
		{"a version of no protocol", "POST", ping, []string{"Mcp-Protocol-Version", "1999-01-01"}, 400, "invalid_request"},
		{"an unknown method", "POST", `{"jsonrpc":"2.0","id":1,"method":"nothing"}`, nil, 400, "invalid_request"},
		{"deep nesting", "POST", deep, nil, 400, "invalid_json"},
		{"a large batch", "POST", " [" + strings.Repeat(ping+",", 32) + ping + "]", nil, 400, "batch_too_large"},
		{"too much", "POST", strings.Repeat(" ", 33<<20), nil, 413, "body_too_large"},
	} {
		a := s.do(c.method, c.body, c.header...)
		p := struct{ Detail, Code string }{}
		_ = json.Unmarshal([]byte(a.body), &p)
		if a.status != c.status || p.Code != c.code || p.Detail == "" || !strings.HasPrefix(a.header.Get("Content-Type"), "application/json") {
			t.Errorf("%s: %+v", c.name, a)
		}
		if c.status == 405 && a.header.Get("Allow") != "POST" {
			t.Errorf("%s: allowed is %q", c.name, a.header.Get("Allow"))
		}
	}
	if a := s.do("POST", "["+ping+"]"); a.status != http.StatusOK || a.body != `[{"jsonrpc":"2.0","id":1,"result":{}}]` {
		t.Errorf("a batch: %+v", a)
	}
	for _, accept := range []string{"application/json", "application/json; charset=utf-8", "*/*", "text/html, application/*;q=0.8", ""} {
		if a := s.do("POST", ping, "Accept", accept); a.status != http.StatusOK || a.body != `{"jsonrpc":"2.0","id":1,"result":{}}` {
			t.Errorf("accept %q: %+v", accept, a)
		}
	}
	if a := s.do("POST", ping, "Origin", s.URL); a.status != http.StatusOK {
		t.Errorf("the own origin: %+v", a)
	}
	if a := s.do("POST", ping+strings.Repeat(" ", 5<<20)); a.status != http.StatusOK {
		t.Errorf("a body of 5 MB: %+v", a)
	}
}

// The answers to the messages of one request are bounded together, however many of them ask for much.
func TestAnswersOfABatchHaveOneBudget(t *testing.T) {
	t.Parallel()
	s := serve(t)
	run, err := s.Runtime.StartRun(t.Context(), ann, user("echo", strings.Repeat("x", 7<<20)))
	must(t, err)
	s.await(started{RunID: run.RunID}, runtime.Completed)
	const n = 8
	ask := `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"get_agent_run_snapshot","arguments":{"conversation_id":%q,"run_id":%q}}}`
	asks := make([]string, n)
	for i := range asks {
		asks[i] = fmt.Sprintf(ask, i, run.ConversationID, run.RunID)
	}
	a := s.do("POST", "["+strings.Join(asks, ",")+"]")
	refused := strings.Count(a.body, "answers_too_large")
	if a.status != http.StatusOK || refused == 0 || refused == n || len(a.body) > 40<<20 {
		t.Errorf("status %d, %d of %d refused, %d bytes", a.status, refused, n, len(a.body))
	}
	if a := s.do("POST", asks[0]); !strings.Contains(a.body, "structuredContent") || strings.Contains(a.body, "too_large") {
		t.Errorf("one alone: status %d, %d bytes: %.300s", a.status, len(a.body), a.body)
	}
}

// messages is how many messages a run has.
func (s *server) messages(run started) int {
	s.Helper()
	page, err := s.Runtime.Runs.Messages(s.Context(), ann, run.RunID, 0, 200)
	must(s, err)
	return len(page.Rows)
}

// A call has an effect only if there is room for its answer.
func TestRoomIsTakenBeforeAMessageIsAppended(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.overHTTP()
	run := c.script(`{"ask": {"message": "Go on?"}}`)
	s.await(run, runtime.Waiting)
	large, err := s.Runtime.StartRun(t.Context(), ann, user("echo", strings.Repeat(`\"<`, 100<<10)))
	must(t, err)
	s.await(started{RunID: large.RunID}, runtime.Completed)
	message := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"append_agent_message","arguments":{"run_id":%q,"content":%q}}}`,
		run.RunID, strings.Repeat("<", 100<<10))
	snapshot := fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get_agent_run_snapshot","arguments":{"conversation_id":%q,"run_id":%q}}}`,
		large.ConversationID, large.RunID)
	appended := func() int { return s.messages(run) }
	total := int(s.Streams.Budget.Total())
	usable := total - total/8
	others := s.Streams.Budget.Hold()
	outcomes := make(map[string]int)
	for room := 8 << 20; room > 200<<10; room -= room / 5 {
		must(t, errors.Join(others.Resize(0), others.Resize(usable-room)))
		before := appended()
		a := s.do("POST", "["+message+","+snapshot+"]")
		did, told := appended() > before, strings.Count(a.body, strings.Repeat(`\u003c`, 100<<10)) == 2 && a.status == http.StatusOK
		if did != told {
			t.Fatalf("with room for %d bytes: done: %t, told: %t, %d %.300s", room, did, told, a.status, a.body)
		}
		outcomes[fmt.Sprint(did, strings.Count(a.body, "overloaded"))]++
	}
	if len(outcomes) < 3 {
		t.Errorf("no room was tried that is enough for one of the two: %v", outcomes)
	}
}

// What an answer repeats of a message may grow in it, and so may the message's id; whoever sends little is served beside those who send much.
func TestMessagesAreAppendedAndToldBesideOthers(t *testing.T) {
	t.Parallel()
	s := serve(t)
	run := s.overHTTP().script(`{"ask": {"message": "Go on?"}}`)
	s.await(run, runtime.Waiting)
	appending := func(id, content string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":"%s","method":"tools/call","params":{"name":"append_agent_message","arguments":{"run_id":%q,"content":"%s"}}}`,
			id, run.RunID, content)
	}
	appended := func() int { return s.messages(run) }
	total := int(s.Streams.Budget.Total())
	others := s.Streams.Budget.Hold()
	for _, test := range []struct {
		name, body string
		room       int
		done       bool
	}{
		{"separators in little", appending("1", "a"+strings.Repeat("\u2028", 3000)), 0, true},
		{"separators", appending("1", "a"+strings.Repeat("\u2028", 20_000)), 400_000, true},
		{"separators in much", appending("1", "a"+strings.Repeat("\u2028", 50_000)), 620_000, false},
		{"an id", appending(strings.Repeat("\u2028", 9000), "hi"), 0, true},
		{"a long id", appending(strings.Repeat("\u2028", 20_000), "hi"), 100_000, true},
		{"little", appending("1", strings.Repeat("x", 31_000)), 0, true},
	} {
		must(t, errors.Join(others.Resize(0), others.Resize(total-total/8-test.room)))
		before := appended()
		a := s.do("POST", test.body)
		told := a.status == http.StatusOK && !strings.Contains(a.body, "isError")
		if done := appended() > before; done != told || done != test.done {
			t.Errorf("%s: done: %t, told: %t, %d %.200s", test.name, done, told, a.status, a.body)
		}
		s.Eventually("the answer is not held any more", func() bool { return s.Streams.Budget.Used() == int64(others.Size()) })
	}
	batch := make([]string, 32)
	for i := range batch {
		batch[i] = appending(fmt.Sprint(i), "hi")
	}
	if a := s.do("POST", "["+strings.Join(batch, ",")+"]"); strings.Contains(a.body, "overloaded") {
		t.Errorf("32 short messages: %.200s", a.body)
	}
}

// A call that changes something does not wait for reads, and a read waits no longer than its client does.
func TestOnlyWhatReadsHasTurns(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.overHTTP()
	run := c.script(`{"ask": {"message": "Deploy?"}}`)
	s.await(run, runtime.Waiting)
	_, back := s.TakeTurns()
	defer back()
	c.call("cancel_agent_run", args{"run_id": run.RunID})
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_agent_runs","arguments":{}}}`
	_ = s.Dial(fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: %s\r\nAccept: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		s.Addr, accept, len(list), list)).Close()
	s.Stop() // which waits for what is being answered
}
