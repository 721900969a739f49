package agui_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports"
	door "github.com/batonrun/baton/transports/agui"
	"github.com/batonrun/baton/transports/rest"
	"github.com/batonrun/baton/transports/sse"
	"github.com/batonrun/baton/transports/transporttest"
)

func TestMain(m *testing.M) { transporttest.Main(m) }

// page is a web origin that the servers of tests admit.
const page = "https://app.example.com"

// fail is the key on which a typist fails.
const fail = transporttest.Fail

var local = runtime.MustCaller("default", "local", runtime.RoleUser)

// server has hooks behind the handlers of agui and SSE.
type server struct {
	*transporttest.Server
	taken func() // called when a handler has returned and its answer has not begun, unless nil
}

// serve starts a server with more plugins.
func serve(tb testing.TB, cfg transports.StreamConfig, more ...plugins.Plugin) *server {
	tb.Helper()
	return serveSlots(tb, cfg, 0, more...)
}

// serveSlots is serve with a limit to concurrent runs.
func serveSlots(tb testing.TB, cfg transports.StreamConfig, slots int, more ...plugins.Plugin) *server {
	tb.Helper()
	return serveOn(tb, cfg, nil, runtime.Config{Limits: runtime.Limits{Grace: time.Second, Runs: slots}}, more...)
}

// serveOn is serve with a wrapper of the database and a configuration of the runtime.
func serveOn(tb testing.TB, cfg transports.StreamConfig, store func(runtime.Store) runtime.Store, rt runtime.Config, more ...plugins.Plugin) *server {
	tb.Helper()
	s := new(server)
	s.Server = transporttest.Start(tb, transporttest.Config{
		Runtime: rt,
		Store:   store,
		Streams: cfg,
		Server:  transports.Config{Origins: []string{page}},
		Plugins: more,
		Mount: func(kit *transporttest.Server) []transports.Mounter {
			return []transports.Mounter{
				hook{door.Transport{Runtime: kit.Runtime, Streams: kit.Streams}, s},
				hook{sse.Transport{Streams: kit.Streams}, s},
				rest.Transport{Runtime: kit.Runtime, Streams: kit.Streams},
			}
		},
	})
	return s
}

// hook calls taken behind a transport's handlers.
type hook struct {
	transports.Mounter
	s *server
}

func (h hook) Routes() []transports.Route {
	routes := h.Mounter.Routes()
	for i, r := range routes {
		routes[i].Known = func(c *fiber.Ctx, who runtime.Caller) error {
			err := r.Known(c, who)
			if h.s.taken != nil {
				h.s.taken()
			}
			return err
		}
	}
	return routes
}

// response is a response whose body is read as it arrives.
type response = transporttest.Response

// run asks an agent for a run and returns its stream. More are members of the request.
func (s *server) run(agent, thread, run, content, more string, header ...string) *response {
	s.Helper()
	return s.Do("POST", "/api/v1/agui/"+agent, input(thread, run, content, more), header...)
}

// input is HttpAgent's request for a thread with one message.
func input(thread, run, content, more string) string {
	text, _ := json.Marshal(content)
	return turn(thread, run, fmt.Sprintf(`{"id": "of-%s", "role": "user", "content": %s}`, run, text), more)
}

// turn is HttpAgent's request for a thread with those messages.
func turn(thread, run, messages, more string) string {
	if !strings.Contains(more, `"tools"`) {
		more = `, "tools": []` + more
	}
	return fmt.Sprintf(`{"threadId": %q, "runId": %q, "state": {}, "messages": [%s], "context": [], "forwardedProps": {}%s}`,
		thread, run, messages, more)
}

// connect joins the thread main.
func (s *server) connect(more string) *response {
	s.Helper()
	return s.Do("POST", "/api/v1/agui/echo/connect", turn("main", "joins", "", more))
}

// modern are the members with which a client says that it speaks AG-UI 1.0.
const modern = `, "protocolVersion": "1.0"`

func brief(s string) string { return transporttest.Brief(s) }

// script is a message for the agent scripted.
func script(ops string) string { return `{"do": [` + ops + `]}` }
