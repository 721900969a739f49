package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/mcp"
	"github.com/batonrun/baton/transports/rest"
	"github.com/batonrun/baton/transports/transporttest"
)

func TestMain(m *testing.M) { transporttest.Main(m) }

var (
	ann = runtime.MustCaller("default", "local", runtime.RoleUser)
	bob = runtime.MustCaller("default", "bob", runtime.RoleUser)
)

// server is a runtime behind a real listener.
type server struct {
	*transporttest.Server
	t       *testing.T
	rt      *runtime.Runtime
	tools   mcp.Transport
	base    string
	http    *http.Client
	schemas map[string]*jsonschema.Schema // of each tool's output
}

// serve starts a server with some plugins beside the built-in ones.
func serve(t *testing.T, plugs ...plugins.Plugin) *server {
	t.Helper()
	s := &server{t: t, http: &http.Client{Transport: &http.Transport{MaxConnsPerHost: 100}}, schemas: outputs(t)}
	kit := transporttest.Serve(t, transporttest.Config{Plugins: plugs, Mount: func(kit *transporttest.Server) []transports.Mounter {
		s.tools = mcp.Transport{Runtime: kit.Runtime, Streams: kit.Streams, Log: kit.Logger, Version: "test"}
		return []transports.Mounter{rest.Transport{Runtime: kit.Runtime, Streams: kit.Streams}, s.tools}
	}})
	s.Server, s.rt, s.base = kit, kit.Runtime, kit.URL
	t.Cleanup(s.http.CloseIdleConnections)
	return s
}

// outputs compiles the output schema of each tool: the seeds' from testdata, the others from the package.
func outputs(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	files, err := filepath.Glob("schemas/*.output.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]*jsonschema.Schema)
	for _, file := range files {
		base := filepath.Base(file)
		if _, err := os.Stat("testdata/" + base); err == nil {
			file = "testdata/" + base
		}
		c := jsonschema.NewCompiler()
		c.AssertFormat()
		schema, err := c.Compile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(base, ".output.schema.json")] = schema
	}
	return all
}

// client is a session of the official client.
type client struct {
	s *server
	*sdk.ClientSession
}

// overHTTP connects a client to /mcp.
func (s *server) overHTTP() client {
	s.t.Helper()
	return s.connect(&sdk.StreamableClientTransport{Endpoint: s.base + "/mcp", HTTPClient: s.http, MaxRetries: -1})
}

// overStreams connects a client to a pair of pipes.
func (s *server) overStreams(who runtime.Caller) client {
	s.t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- s.tools.Serve(context.WithoutCancel(s.t.Context()), who, inR, outW) }() // ends when the client closes
	s.t.Cleanup(func() {
		if err := <-served; err != nil {
			s.t.Errorf("serve: %v", err)
		}
	})
	return s.connect(&sdk.IOTransport{Reader: outR, Writer: inW})
}

func (s *server) connect(tr sdk.Transport) client {
	s.t.Helper()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(s.t.Context(), tr, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = session.Close() })
	return client{s, session}
}

// args are a call's arguments.
type args map[string]any

// call calls a tool and returns its answer, which must be valid and the same as text and as structured content.
func (c client) call(name string, a args) string {
	c.s.t.Helper()
	res, err := c.CallTool(c.s.t.Context(), &sdk.CallToolParams{Name: name, Arguments: a})
	if err != nil {
		c.s.t.Fatalf("%s: %v", name, err)
	}
	text := res.Content[0].(*sdk.TextContent).Text
	if res.IsError || len(res.Content) != 1 {
		c.s.t.Fatalf("%s: %s", name, text)
	}
	structured, err := json.Marshal(res.StructuredContent)
	if err != nil {
		c.s.t.Fatal(err)
	}
	if !sameJSON(c.s.t, text, string(structured)) {
		c.s.t.Errorf("%s: text and structured content differ:\n%s\n%s", name, text, structured)
	}
	c.s.valid(name, text)
	return text
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal([]byte(a), &x), json.Unmarshal([]byte(b), &y)); err != nil {
		t.Fatal(err)
	}
	ja, _ := json.Marshal(x)
	jb, _ := json.Marshal(y)
	return string(ja) == string(jb)
}

// valid checks an answer against the tool's output schema.
func (s *server) valid(tool, answer string) {
	s.t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(answer))
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.schemas[tool].Validate(doc); err != nil {
		s.t.Errorf("%s: %v\n%s", tool, err, answer)
	}
}

// refused calls a tool that must refuse.
func (c client) refused(name string, a any, code, says string) {
	c.s.t.Helper()
	res, err := c.CallTool(c.s.t.Context(), &sdk.CallToolParams{Name: name, Arguments: a})
	if err != nil {
		c.s.t.Fatalf("%s: %v", name, err)
	}
	text := res.Content[0].(*sdk.TextContent).Text
	var p transports.Problem
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		c.s.t.Fatalf("%s: %v in %s", name, err, text)
	}
	if !res.IsError || p.Code != code || !strings.Contains(p.Detail, says) || res.StructuredContent != nil {
		c.s.t.Errorf("%s of %v: got %s, want code %s and %q", name, a, text, code, says)
	}
}

// started is the answer of start_agent_run.
type started struct{ ThreadID, RunID, ConversationID, Status string }

// is are the arguments that name the run.
func (r started) is(more ...any) args {
	a := args{"conversation_id": r.ConversationID, "run_id": r.RunID}
	for i := 0; i < len(more); i += 2 {
		a[more[i].(string)] = more[i+1]
	}
	return a
}

func decode[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// script starts a run of the scripted agent.
func (c client) script(ops string, more ...any) started {
	c.s.t.Helper()
	a := args{"agent": "scripted", "content": `{"do": [` + ops + `]}`}
	for i := 0; i < len(more); i += 2 {
		a[more[i].(string)] = more[i+1]
	}
	return decode[started](c.s.t, c.call("start_agent_run", a))
}

// await waits until the run has the status.
func (s *server) await(r started, status runtime.Status) runtime.Run {
	s.t.Helper()
	s.Await(r.RunID, status)
	run, err := s.rt.Run(s.t.Context(), ann, r.RunID)
	if err != nil {
		s.t.Fatal(err)
	}
	return run
}

// entry is an event of a page or a snapshot.
type entry struct {
	EventID *int64 `json:"event_id"`
	Event   json.RawMessage
}

// page is the answer of get_agent_run_events.
type page struct {
	Data     []entry
	PageInfo struct{ Self, First, Next, Prev *string } `json:"page_info"`
}

// snapshot is the answer of get_agent_run_snapshot.
type snapshot struct {
	AfterEventID int64 `json:"after_event_id"`
	Events       []entry
}

func (c client) events(a args) page {
	c.s.t.Helper()
	return decode[page](c.s.t, c.call("get_agent_run_events", a))
}

func (c client) snapshot(r started) snapshot {
	c.s.t.Helper()
	return decode[snapshot](c.s.t, c.call("get_agent_run_snapshot", r.is()))
}

// types are the types of events, in order.
func types(list []entry) string {
	var names []string
	for _, e := range list {
		var ev struct{ Type string }
		_ = json.Unmarshal(e.Event, &ev)
		names = append(names, ev.Type)
	}
	return strings.Join(names, " ")
}

// get answers a GET of REST.
func (s *server) get(path string) (int, string) {
	s.t.Helper()
	res, err := s.http.Get(s.base + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// user is a request of a user with one message.
func user(agent, text string) runtime.StartRequest {
	return runtime.StartRequest{Agent: agent, Messages: []agui.Message{{Role: agui.RoleUser, Content: text}}}
}
