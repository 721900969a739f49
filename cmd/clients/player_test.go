package clients

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/fasthttp/websocket"
	"github.com/google/uuid"
)

// player plays one scenario on its thread and keeps the events of its streams.
type player struct {
	t                           *testing.T
	s                           *server
	thread, projection, version string
	streams                     []record
}

// begin starts a run and returns its id, and a function that waits for the end of the stream.
func (p *player) begin(body object) (run string, wait func()) {
	p.t.Helper()
	run = uuid.NewString()
	body["threadId"], body["runId"] = p.thread, run
	if p.version != "" {
		body["protocolVersion"] = p.version
	}
	var events []json.RawMessage
	var reading sync.WaitGroup
	reading.Go(func() { events = p.s.post(p.t, "/api/v1/agent/runs", body) }) // ends with the run or the test
	p.t.Cleanup(reading.Wait)
	return run, func() {
		reading.Wait()
		name := fmt.Sprintf("%s, run %d", p.thread, len(p.streams)+1)
		p.streams = append(p.streams, record{Thread: name, Projection: p.projection, Events: events})
	}
}

// run is begin and wait.
func (p *player) run(body object) string {
	p.t.Helper()
	run, wait := p.begin(body)
	wait()
	return run
}

func (p *player) script(ops string) string {
	p.t.Helper()
	return p.run(object{"agent": "scripted", "content": `{"do":[` + ops + `]}`})
}

// asked reports whether the last run ended with questions.
func (p *player) asked() bool {
	p.t.Helper()
	last := p.streams[len(p.streams)-1].Events
	return bytes.Contains(last[len(last)-1], []byte(`"type":"interrupt"`))
}

// answer answers the questions that the last run ended with.
func (p *player) answer() {
	p.t.Helper()
	outcome, _ := p.find("RUN_FINISHED")["outcome"].(object)
	open, _ := outcome["interrupts"].([]any)
	if len(open) == 0 {
		p.t.Fatalf("the run does not wait: %v", outcome)
	}
	var resume []object
	for _, i := range open {
		resume = append(resume, object{"interruptId": i.(object)["id"], "status": "resolved", "payload": object{"ok": true}})
	}
	p.run(object{"resume": resume})
}

// find returns the last stream's event of a type.
func (p *player) find(typ string) object {
	p.t.Helper()
	for _, raw := range p.streams[len(p.streams)-1].Events {
		var ev object
		must(p.t, json.Unmarshal(raw, &ev))
		if ev["type"] == typ {
			return ev
		}
	}
	p.t.Fatalf("there is no %s", typ)
	return nil
}

// log returns the path of the thread's log.
func (p *player) log() string { return "/api/v1/agent/runs/" + url.PathEscape(p.thread) }

func (p *player) path(run string) string { return "/api/projects/default/agent-runs/" + run }

func (p *player) cancel(run string) { p.s.call(p.t, 200, "POST", p.path(run)+"/cancel", nil) }

func (p *player) append(run, content string) {
	p.s.call(p.t, 201, "POST", p.path(run)+"/messages", object{"content": content})
}

// until waits until the run has a status.
func (p *player) until(run, status string) {
	p.t.Helper()
	until(p.t, status, func() bool { return p.s.get(p.path(run))["status"] == status })
}

// says waits until the run has n messages, including the user's.
func (p *player) says(run string, n int) {
	p.t.Helper()
	until(p.t, fmt.Sprintf("at %d messages", n), func() bool {
		items, _ := p.s.get(p.path(run) + "/messages")["items"].([]any)
		return len(items) >= n
	})
}

// crash kills the server in the middle of a run, which resumes after the restart.
func (p *player) crash() {
	p.t.Helper()
	run := p.s.call(p.t, 202, "POST", "/api/v1/agent/runs", object{
		"agent": "scripted", "threadId": p.thread,
		"content": `{"do":[{"say":"before"},{"tool":"stubborn","args":{"ms":500}},{"tokens":100,"delayMs":2},{"reason":"after"}]}`,
	})["runId"].(string)
	p.says(run, 2)
	must(p.t, p.s.crash())
	p.until(run, "COMPLETED")
}

// get returns the JSON at a path, nil if the request fails.
func (s *server) get(path string) object {
	res, err := http.Get(s.url(path))
	if err != nil {
		return nil
	}
	defer func() { _ = res.Body.Close() }()
	var body object
	if json.NewDecoder(res.Body).Decode(&body) != nil || res.StatusCode != http.StatusOK {
		return nil
	}
	return body
}

// post returns the events of the stream that answers a request.
func (s *server) post(t *testing.T, path string, body object) []json.RawMessage {
	b, err := json.Marshal(body)
	if err != nil {
		t.Error(err)
		return nil
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url(path), bytes.NewReader(b))
	if err != nil {
		t.Error(err)
		return nil
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	return stream(t, req)
}

// events returns the events of a stream that ends.
func (s *server) events(t *testing.T, path string) []json.RawMessage {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url(path), nil)
	must(t, err)
	return stream(t, req)
}

func stream(t *testing.T, req *http.Request) []json.RawMessage {
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(res.Body)
		t.Errorf("%s %s: status %d\n%s", req.Method, req.URL.Path, res.StatusCode, b)
		return nil
	}
	var events []json.RawMessage
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			events = append(events, json.RawMessage(data))
		}
	}
	if err := lines.Err(); err != nil {
		t.Errorf("%s %s: %v", req.Method, req.URL.Path, err)
	}
	return events
}

// mirror returns the events of a thread's WebSocket mirror, up to its end.
func (s *server) mirror(t *testing.T, path, subprotocol string) []json.RawMessage {
	t.Helper()
	dialer := websocket.Dialer{Subprotocols: []string{subprotocol}}
	c, res, err := dialer.DialContext(t.Context(), "ws://"+s.addr+path, nil)
	must(t, err)
	defer func() { _, _ = c.Close(), res.Body.Close() }()
	var events []json.RawMessage
	for {
		_, event, err := c.ReadMessage()
		if websocket.IsCloseError(err, websocket.CloseNormalClosure) {
			return events
		}
		must(t, err)
		events = append(events, event)
	}
}
