package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fasthttp/websocket"
)

const (
	small  = 512 << 20 // the memory of a small server
	atOnce = 704 << 20 // the limit for all attacks at once: 450 to 600 MiB, of which 100 are SQLite's, outside of what the collector counts
)

// attack is a kind of request that any client may send and that a naive server needs gigabytes for.
type attack struct {
	name  string
	wants int // a status that some answers must have, or else the attack has no effect; 0 if the attack reads no answers
	do    func(s *assault)
}

// assault is a running attack on a server.
type assault struct {
	*server
	snapshots []string // MCP calls

	mu  sync.Mutex
	got map[int]int // answers by status
}

var attacks = []attack{
	{"bodies that never come", 0, func(s *assault) {
		var conns []net.Conn
		for range 140 {
			c, err := net.Dial("tcp", s.addr)
			if err != nil {
				break // the user's limit is reached
			}
			conns = append(conns, c)
			_, _ = fmt.Fprintf(c, "POST /api/v1/agent/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", 32<<20)
		}
		pause(time.Second)
		for _, c := range conns {
			_ = c.Close()
		}
	}},
	{"values", 413, func(s *assault) {
		var bodies []string
		for _, member := range []string{"tools", "messages", "resume", "context"} {
			bodies = append(bodies, fmt.Sprintf(`{"agent":"scripted",%q:[%s{}]}`, member, strings.Repeat("{},", 10<<20)))
		}
		calls := strings.Repeat(`{},`, 10<<20)
		bodies = append(bodies, `{"agent":"scripted","messages":[{"role":"assistant","toolCalls":[`+calls+`{}]}]}`)
		s.flood(10, func(i int) { s.post("/api/v1/agent/runs", bodies[i%len(bodies)]) })
	}},
	{"lists", 200, func(s *assault) {
		lists := []string{"/api/projects/default/agent-runs?limit=500", "/api/v1/threads?limit=500", "/api/projects/default/threads?limit=500"}
		s.flood(16, func(i int) { s.take(lists[i%len(lists)]) })
	}},
	{"histories", 200, func(s *assault) {
		s.flood(16, func(i int) { s.take(fmt.Sprintf("/api/v1/agent/history?threadId=large-%d", i%large)) })
	}},
	{"messages", 200, func(s *assault) {
		s.flood(16, func(i int) { s.take(fmt.Sprintf("/api/v1/threads/large-%d/messages", i%large)) })
	}},
	{"connects", 200, func(s *assault) {
		s.flood(16, func(i int) { s.post("/api/v1/agui/scripted/connect", fmt.Sprintf(`{"threadId":"large-%d"}`, i%large)) })
	}},
	{"logs", 200, func(s *assault) {
		s.flood(16, func(i int) { s.take(events(fmt.Sprintf("large-%d", i%large))) })
	}},
	{"batches of snapshots", 200, func(s *assault) {
		s.flood(8, func(int) { s.post("/mcp", "["+strings.Join(s.snapshots, ",")+"]") })
	}},
	{"large runs", 200, func(s *assault) {
		s.flood(12, func(i int) {
			s.post("/api/v1/agent/runs", fmt.Sprintf(`{"agent":"echo","threadId":"mine-%d","content":%q}`, i, strings.Repeat(strings.Repeat("x", 999)+" ", 7<<10)))
		})
	}},
	{"markup", 200, func(s *assault) {
		s.flood(2, func(i int) { s.post("/api/v1/agent/runs", "{"+markup(i)+"}") })
	}},
	{"markup on sockets", 0, func(s *assault) {
		s.flood(2, func(i int) {
			c, res, err := websocket.DefaultDialer.Dial("ws://"+s.addr+"/api/v1/ws", nil)
			if err != nil {
				return // the server is busy
			}
			_ = res.Body.Close()
			if c.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, `{"op":"run","runId":"frame-%d",%s}`, i, markup(i))) == nil {
				_, _, _ = c.ReadMessage()
			}
			_ = c.Close()
		})
	}},
	{"readers that take nothing", 0, func(s *assault) {
		var conns []net.Conn
		for i := range 60 {
			c, err := net.Dial("tcp", s.addr)
			if err != nil {
				break
			}
			conns = append(conns, c)
			_, _ = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", events(fmt.Sprintf("large-%d", i%large)))
		}
		pause(2 * time.Second)
		for _, c := range conns {
			_ = c.Close()
		}
	}},
}

// markup returns a request with text that grows sixfold when it is escaped for HTML.
func markup(i int) string {
	return fmt.Sprintf(`"agent":"echo","threadId":"markup-%d","content":"hi","forwardedProps":{"x":"%s"}`, i, strings.Repeat("<", 28<<20))
}

// large is the number of threads with a message of 7 MB.
const large = 4

// All attacks at once on the program as it is shipped. In a soak also one after another, and on PostgreSQL, which needs less memory in the
// server's process.
func TestAttacks_TakeLittleMemory(t *testing.T) {
	t.Parallel()
	if count(10) == 1 {
		attacked(t, sqlite(t))
		return
	}
	onBoth(t, attacked)
}

func attacked(t *testing.T, db database) {
	s := start(t, db)
	for i := range large {
		s.ended(s.run(fmt.Sprintf("large-%d", i), `{"do":[{"say":"large"}]}`+strings.Repeat(" ", 7<<20)))
	}
	for i := range 32 {
		s.ended(s.run(fmt.Sprintf("many-%d", i%8), `{"do":[{"say":"many"}]}`+strings.Repeat(" ", 1<<20)))
	}
	var snapshots []string
	for i, row := range s.items("/api/projects/default/agent-runs?limit=32") {
		snapshots = append(snapshots, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"get_agent_run_snapshot","arguments":{"conversation_id":%q,"run_id":%q}}}`,
			i, row["conversationId"], row["id"]))
	}
	if count(10) > 1 { // a soak
		for _, a := range attacks {
			s.bears(a.name, small, func() { a.on(&assault{server: s, snapshots: snapshots, got: make(map[int]int)}) })
		}
	}
	s.bears("all at once", atOnce, func() {
		var wg sync.WaitGroup
		for _, a := range attacks {
			wg.Go(func() { a.do(&assault{server: s, snapshots: snapshots, got: make(map[int]int)}) })
		}
		wg.Wait()
	})
	if row := s.ended(s.run("afterwards", `{"do":[{"say":"well"}]}`)); row["status"] != "COMPLETED" {
		t.Errorf("a run is %v: %v", row["status"], row["error"])
	}
}

// bears runs an attack and fails if the server's peak memory exceeds most.
func (s *server) bears(name string, most int, attack func()) {
	s.t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.pid()), []byte("5"), 0); err != nil { // resets the peak
		s.t.Fatal(err)
	}
	before := s.sizeOf("VmRSS")
	attack()
	peak := s.sizeOf("VmHWM")
	s.t.Logf("%-28s %4d MiB (before %d)", name, peak>>20, before>>20)
	if peak > most {
		s.t.Errorf("%s: the server took %d MiB", name, peak>>20)
	}
}

// sizeOf returns a size from the server's /proc/…/status.
func (s *server) sizeOf(name string) (size int) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid()))
	must(s.t, err)
	_, rest, _ := strings.Cut(string(b), "\n"+name+":")
	if _, err := fmt.Sscan(rest, &size); err != nil {
		s.t.Fatal(name, err)
	}
	return size << 10
}

// on runs the attack. Some answers must have the status a.wants.
func (a attack) on(s *assault) {
	a.do(s)
	if s.got[http.StatusInternalServerError] > 0 || a.wants != 0 && s.got[a.wants] == 0 {
		s.t.Errorf("%s: answers %v", a.name, s.got)
	}
}

// flood calls do concurrently for a number of clients, twice in a soak.
func (s *assault) flood(clients int, do func(i int)) {
	parallel(clients, clients, func(i int) {
		for range count(2) {
			do(i)
		}
	})
}

// post sends a request and reads any answer.
func (s *assault) post(path, body string) {
	req, err := http.NewRequest(http.MethodPost, s.url(path), strings.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	if path == "/mcp" {
		req.Header.Add("Accept", "application/json")
	}
	s.swallow(req)
}

// take is post for a GET.
func (s *assault) take(path string) {
	req, err := http.NewRequest(http.MethodGet, s.url(path), nil)
	if err != nil {
		s.t.Error(err)
		return
	}
	s.swallow(req)
}

// swallow reads an answer. The answer to a refused body may be lost with the connection.
func (s *assault) swallow(req *http.Request) {
	res, err := client.Do(req)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got[res.StatusCode]++
}
