package ws_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fasthttp/websocket"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/transporttest"
	"github.com/batonrun/baton/transports/ws"
)

func TestMain(m *testing.M) { transporttest.Main(m) }

const patience = transporttest.Patience

var local = runtime.MustCaller("default", "local", runtime.RoleUser)

type server struct{ *transporttest.Server }

// serve starts a server with a drummer.
func serve(tb testing.TB, cfg transports.StreamConfig) *server {
	tb.Helper()
	return serveWith(tb, cfg, 0, 0)
}

// serveWith starts a server whose messages may pause for slack, and whose clients must read rate bytes a second.
func serveWith(tb testing.TB, cfg transports.StreamConfig, slack time.Duration, rate int) *server {
	tb.Helper()
	return &server{transporttest.Start(tb, transporttest.Config{
		Runtime: runtime.Config{Limits: runtime.Limits{Grace: time.Second, Runs: 5000}},
		Streams: cfg,
		Server:  transports.Config{Slack: slack, Rate: rate},
		Plugins: []plugins.Plugin{transporttest.Drummer{}},
		Mount: func(s *transporttest.Server) []transports.Mounter {
			return append(transporttest.All(s), ws.Panicking{Transport: ws.Transport{Streams: s.Streams, Log: s.Logger}})
		},
	})}
}

// socket is a client's end of a WebSocket.
type socket struct {
	*websocket.Conn
	s *server
}

// open opens a socket. Header holds pairs of name and value.
func (s *server) open(path string, header ...string) *socket {
	s.Helper()
	c, status := s.dial(path, nil, header...)
	if c == nil {
		s.Fatalf("got the status %d", status)
	}
	return c
}

// dial asks for a socket, over a connection that is adjusted first, and returns nil and the answer's status when
// it is refused.
func (s *server) dial(path string, adjust func(*net.TCPConn), header ...string) (*socket, int) {
	s.Helper()
	d := websocket.Dialer{HandshakeTimeout: patience, NetDial: func(network, addr string) (net.Conn, error) {
		c, err := net.Dial(network, addr)
		if err == nil && adjust != nil {
			adjust(c.(*net.TCPConn))
		}
		return c, err
	}}
	h := make(http.Header)
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	c, resp, err := d.Dial("ws://"+s.Addr+path, h)
	if resp == nil {
		s.Fatal(err)
	}
	_ = resp.Body.Close()
	if err != nil {
		return nil, resp.StatusCode
	}
	s.Cleanup(func() { _ = c.Close() })
	_ = c.SetReadDeadline(time.Now().Add(patience))
	return &socket{c, s}, resp.StatusCode
}

const protocolHeader = "Sec-WebSocket-Protocol"

// watch opens the socket of a thread.
func (s *server) watch(thread, query string, header ...string) *socket {
	s.Helper()
	return s.open("/api/v1/agent/runs/"+thread+"/ws"+query, header...)
}

// next returns the next frame, which must be there.
func (c *socket) next() string {
	c.s.Helper()
	kind, msg, err := c.ReadMessage()
	if err != nil || kind != websocket.TextMessage {
		c.s.Fatalf("got %v, a frame of kind %d", err, kind)
	}
	return string(msg)
}

// until reads the frames up to one that holds part, and fails when the socket is closed.
func (c *socket) until(part string) {
	c.s.Helper()
	for !strings.Contains(c.next(), part) {
	}
}

// all returns the frames up to the close, which must have the code.
func (c *socket) all(code int) []string {
	c.s.Helper()
	for all := []string(nil); ; {
		_, msg, err := c.ReadMessage()
		if err != nil {
			c.closed(err, code)
			return all
		}
		all = append(all, string(msg))
	}
}

// closed checks the end of a socket, and returns the reason of its close frame.
func (c *socket) closed(err error, code int) string {
	c.s.Helper()
	var end *websocket.CloseError
	if !errors.As(err, &end) || end.Code != code {
		c.s.Fatalf("the socket ended with %v, want the code %d", err, code)
	}
	return end.Text
}

// send sends a text frame.
func (c *socket) send(msg string) {
	c.s.Helper()
	if err := c.WriteMessage(websocket.TextMessage, []byte(msg)); err != nil {
		c.s.Fatal(err)
	}
}

// request sends a request without a body over HTTP and returns the answer's status and body.
func (s *server) request(method, path string, header ...string) (int, string) {
	s.Helper()
	r := s.Do(method, path, "", header...)
	return r.StatusCode, r.All()
}

// events are the events of the thread's SSE stream: of each event its id and its JSON.
func (s *server) events(thread string, header ...string) (all []numbered) {
	s.Helper()
	_, body := s.request("GET", "/api/v1/agent/runs/"+thread+"/events", header...)
	for block := range strings.SplitSeq(body, "\n\n") {
		if _, data, ok := strings.Cut(block, "\ndata: "); ok {
			_, rest, _ := strings.Cut("\n"+block, "\nid: ")
			id, _, _ := strings.Cut(rest, "\n")
			n, _ := strconv.ParseInt(id, 10, 64)
			all = append(all, numbered{n, json.RawMessage(data)})
		}
	}
	return all
}

// numbered is an event as frames show it.
type numbered struct {
	ID    int64           `json:"id"`
	Event json.RawMessage `json:"event"`
}

// frame is the frame that shows the event.
func (n numbered) frame() string {
	if n.ID == 0 {
		return fmt.Sprintf(`{"event":%s}`, n.Event)
	}
	return fmt.Sprintf(`{"id":%d,"event":%s}`, n.ID, n.Event)
}

func frames(all []numbered) (list []string) {
	for _, n := range all {
		list = append(list, n.frame())
	}
	return list
}

type started = transporttest.Started
