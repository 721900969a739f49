package ws_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fasthttp/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/transporttest"
)

// quick makes the sweep look often, and the grace short.
var quick = transports.StreamConfig{Ping: 300 * time.Millisecond, Grace: 50 * time.Millisecond}

// ask opens the socket of an agent and sends an input.
func (s *server) ask(agent, input string, header ...string) *socket {
	s.Helper()
	c := s.open("/api/v1/agui/"+agent+"/ws", header...)
	c.send(input)
	return c
}

// typing starts run a of the typist.
func (s *server) typing(more string) *socket {
	s.Helper()
	c := s.ask("typist", `{"threadId": "main", "messages": [{"id": "m", "role": "user", "content": "x"}], "runId": "a"`+more+`}`)
	c.until("STEP_STARTED")
	return c
}

func TestInputIsAnsweredWithItsRunAlone(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	s.Await(s.Script("main", `{"say": "before"}`).RunID, "COMPLETED")
	got := s.ask("scripted", transporttest.Scripted("main", words)).all(1000)
	if !strings.HasPrefix(got[0], `{"type":"RUN_STARTED"`) || !strings.HasPrefix(got[len(got)-1], `{"type":"RUN_FINISHED"`) ||
		strings.Contains(strings.Join(got, ""), "before") {
		t.Errorf("got %s", strings.Join(got, "\n"))
	}
	log := s.events("main")
	got = slices.Delete(got, 1, 2) // the state, which the log does not have there
	want := s.watch("main", fmt.Sprintf("?after_event_id=%d", len(log)-len(got)), protocolHeader, "agui").all(1000)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWorkflowsHaveASocketToo(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	if got := strings.Join(s.ask("demo", `{"content": "x"}`).all(1000), "\n"); !strings.Contains(got, `"stepName":"plan"`) {
		t.Errorf("got %s", got)
	}
}

func TestDialectIsTheClients(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	const old, newer = `"code":"CANCELLED"`, `"outcome":{"type":"cancelled"}`
	for _, c := range []struct{ version, offered, want string }{
		{``, "", old},
		{`, "protocolVersion": "1.0"`, "", newer},
		{`, "protocolVersion": "1.0"`, "agui", old},
		{``, "agui.1", newer},
	} {
		var header []string
		if c.offered != "" {
			header = []string{protocolHeader, c.offered}
		}
		run := s.ask("typist", `{"content": "x"`+c.version+`}`, header...)
		_, id, _ := strings.Cut(run.next(), `"runId":"`)
		id, _, _ = strings.Cut(id, `"`)
		s.request("POST", "/api/projects/default/agent-runs/"+id+"/cancel")
		if got := run.all(1000); run.Subprotocol() != c.offered || !strings.Contains(got[len(got)-1], c.want) {
			t.Errorf("%+v: got %q, %s", c, run.Subprotocol(), got)
		}
	}
}

func TestBadInputClosesTheSocket(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	s.Start(`{"agent": "typist", "threadId": "busy", "content": "x"}`)
	for input, want := range map[string]struct {
		code   int
		reason string
	}{
		`{`:                      {4400, "not valid JSON"},
		`[]`:                     {4400, "JSON object"},
		``:                       {4400, "empty"},
		`{"threadId": 7}`:        {4400, "threadId"},
		`{"agent": "scripted"}`:  {4400, "leave agent and workflowId out"},
		`{"projectId": "other"}`: {4404, ""},
		`{"content": " "}`:       {4400, ""},
		`{"threadId": "` + strings.Repeat("日", 300) + `"}`:            {4400, ""},
		`{"threadId": "busy", "multitask": "reject", "content": "x"}`: {4409, ""},
	} {
		_, _, err := s.ask("echo", input).ReadMessage()
		if reason := (&socket{s: s}).closed(err, want.code); reason == "" || len(reason) > 123 || !strings.Contains(reason, want.reason) {
			t.Errorf("%s: got the reason %q", brief(input), reason)
		}
	}
	s.ask("nobody", `{"content": "x"}`).all(4404)
	s.open("/api/v1/agui/echo/ws?projectId=other").all(4404)
	c := s.open("/api/v1/agui/echo/ws")
	_ = c.WriteMessage(websocket.BinaryMessage, []byte(`{"content": "x"}`))
	c.all(4400)
}

// brief is the beginning of a text.
func brief(s string) string { return s[:min(len(s), 100)] }

func TestReasonsAreCutAtARune(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	for n := range 3 { // so that the cut falls on each byte of a rune
		agent := strings.Repeat("a", n) + strings.Repeat("日", 60)
		_, _, err := s.ask(strings.ReplaceAll(agent, "日", "%E6%97%A5"), `{"content": "x"}`).ReadMessage()
		reason := (&socket{s: s}).closed(err, 4404)
		if len(reason) > 123 || len(reason) < 120 || !strings.HasSuffix(reason, "日") {
			t.Errorf("got %d bytes: %q", len(reason), reason)
		}
	}
}

func TestInputThatIsTooBigIsSaidToBe(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	c := s.open("/api/v1/agui/echo/ws")
	_ = c.WriteMessage(websocket.TextMessage, []byte(`{"content": "`+strings.Repeat("x", 33<<20)+`"}`)) // cut off half-way
	c.all(1009)
	c = s.ask("echo", `{"content": "x", "forwardedProps": {"x": "`+strings.Repeat("x", 3<<20)+`"}}`)
	if got := c.all(1000); !strings.Contains(got[len(got)-1], "RUN_FINISHED") {
		t.Errorf("got %s", got)
	}
}

func TestWhatFollowsTheInputIsIgnored(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	c := s.typing("")
	for range 5 {
		c.send(`{"content": "another"}`)
	}
	s.Keys <- "hello"
	close(s.Keys)
	if got := strings.Join(c.all(1000), "\n"); !strings.Contains(got, "hello") || strings.Count(got, "RUN_FINISHED") != 1 {
		t.Errorf("got %s", got)
	}
}

func TestDroppedSocketCancelsItsRun(t *testing.T) {
	t.Parallel()
	for name, drop := range map[string]func(*socket){
		"closed": func(c *socket) { _ = c.WriteMessage(websocket.CloseMessage, nil) },
		"cut":    func(c *socket) { _ = c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, quick)
			drop(s.typing(""))
			s.Await("a", "CANCELLED")
		})
	}
}

func TestRequestsThatAreNoUpgrade(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	s.Script("main", `{"say": "x"}`)
	for _, path := range []string{"/api/v1/agent/runs/main/ws", "/api/v1/agent/runs/other/ws", "/api/v1/agui/echo/ws", "/api/v1/ws"} {
		status, body := s.request("GET", path)
		if status != http.StatusUpgradeRequired || !strings.Contains(body, `"code":"upgrade_required"`) {
			t.Errorf("%s: got %d %s", path, status, body)
		}
		if status, _ := s.request("HEAD", path); status != http.StatusUpgradeRequired {
			t.Errorf("HEAD %s: got %d", path, status)
		}
		status, body = s.request("GET", path, "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "8", "Sec-WebSocket-Key", "x")
		if status != http.StatusUpgradeRequired || !strings.Contains(body, `"code":"upgrade_required"`) {
			t.Errorf("%s in version 8: got %d %s", path, status, body)
		}
	}
}

func TestForeignPagesFailBeforeTheUpgrade(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	for _, path := range []string{"/api/v1/agent/runs/main/ws", "/api/v1/agui/echo/ws", "/api/v1/ws"} {
		for origin, want := range map[string]int{
			"https://evil.example": 403, "null": 403, "http://" + s.Addr + ".evil.example": 403, "http://localhost": 403,
			"http://" + s.Addr: 101, "": 101,
		} {
			if _, status := s.dial(path, nil, "Origin", origin); status != want {
				t.Errorf("%s from %q: got %d, want %d", path, origin, status, want)
			}
		}
		if _, status := s.dial(path, nil, "Host", "evil.example"); status != http.StatusMisdirectedRequest {
			t.Errorf("%s at a foreign host: got %d", path, status)
		}
	}
}
