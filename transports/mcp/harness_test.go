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
	"github.com/batonrun/baton/transports/transporttest"
)

// must ends the test if err is not nil.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func TestMain(m *testing.M) { transporttest.Main(m) }

var ann = runtime.MustCaller("default", "local", runtime.RoleUser)

// server has a client of its own.
type server struct {
	*transporttest.Server
	tools   mcp.Transport
	http    *http.Client
	schemas map[string]*jsonschema.Schema // of each tool's output
}

// serve starts a server with more plugins.
func serve(t *testing.T, plugs ...plugins.Plugin) *server {
	t.Helper()
	s := &server{
		Server:  transporttest.Start(t, transporttest.Config{Plugins: plugs}),
		http:    &http.Client{Transport: &http.Transport{MaxConnsPerHost: 100}},
		schemas: outputs(t),
	}
	s.tools = mcp.Transport{Runtime: s.Runtime, Streams: s.Streams, Log: s.Logger, Version: "test"}
	t.Cleanup(s.http.CloseIdleConnections)
	return s
}

// outputs compiles the output schema of each tool: the seeds' from testdata, the others from the package.
func outputs(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	files, err := filepath.Glob("schemas/*.output.schema.json")
	must(t, err)
	all := make(map[string]*jsonschema.Schema)
	for _, file := range files {
		base := filepath.Base(file)
		if _, err := os.Stat("testdata/" + base); err == nil {
			file = "testdata/" + base
		}
		c := jsonschema.NewCompiler()
		c.AssertFormat()
		schema, err := c.Compile(file)
		must(t, err)
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
	s.Helper()
	return s.connect(&sdk.StreamableClientTransport{Endpoint: s.URL + "/mcp", HTTPClient: s.http, MaxRetries: -1})
}

// overStreams connects a client to a pair of pipes.
func (s *server) overStreams(who runtime.Caller) client {
	s.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- s.tools.Serve(context.WithoutCancel(s.Context()), who, inR, outW) }() // ends when the client closes
	s.Cleanup(func() {
		if err := <-served; err != nil {
			s.Errorf("serve: %v", err)
		}
	})
	return s.connect(&sdk.IOTransport{Reader: outR, Writer: inW})
}

func (s *server) connect(tr sdk.Transport) client {
	s.Helper()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(s.Context(), tr, nil)
	must(s, err)
	s.Cleanup(func() { _ = session.Close() })
	return client{s, session}
}

// args are a call's arguments.
type args map[string]any

// call calls a tool and returns its answer, which must be valid and the same as text and as structured content.
func (c client) call(name string, a args) string {
	c.s.Helper()
	res, err := c.CallTool(c.s.Context(), &sdk.CallToolParams{Name: name, Arguments: a})
	if err != nil {
		c.s.Fatalf("%s: %v", name, err)
	}
	text := res.Content[0].(*sdk.TextContent).Text
	if res.IsError || len(res.Content) != 1 {
		c.s.Fatalf("%s: %s", name, text)
	}
	structured, err := json.Marshal(res.StructuredContent)
	must(c.s, err)
	if !sameJSON(c.s.TB, text, string(structured)) {
		c.s.Errorf("%s: text and structured content differ:\n%s\n%s", name, text, structured)
	}
	c.s.valid(name, text)
	return text
}

func sameJSON(tb testing.TB, a, b string) bool {
	tb.Helper()
	var x, y any
	must(tb, errors.Join(json.Unmarshal([]byte(a), &x), json.Unmarshal([]byte(b), &y)))
	ja, _ := json.Marshal(x)
	jb, _ := json.Marshal(y)
	return string(ja) == string(jb)
}

// valid checks an answer against the tool's output schema.
func (s *server) valid(tool, answer string) {
	s.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(answer))
	must(s, err)
	if err := s.schemas[tool].Validate(doc); err != nil {
		s.Errorf("%s: %v\n%s", tool, err, answer)
	}
}

// refused calls a tool that must refuse.
func (c client) refused(name string, a any, code, says string) {
	c.s.Helper()
	res, err := c.CallTool(c.s.Context(), &sdk.CallToolParams{Name: name, Arguments: a})
	if err != nil {
		c.s.Fatalf("%s: %v", name, err)
	}
	text := res.Content[0].(*sdk.TextContent).Text
	var p transports.Problem
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		c.s.Fatalf("%s: %v in %s", name, err, text)
	}
	if !res.IsError || p.Code != code || !strings.Contains(p.Detail, says) || res.StructuredContent != nil {
		c.s.Errorf("%s of %v: got %s, want code %s and %q", name, a, text, code, says)
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

func decode[T any](tb testing.TB, text string) (v T) {
	tb.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		tb.Fatalf("%v in %s", err, text)
	}
	return v
}

// script starts a run of the scripted agent.
func (c client) script(ops string, more ...any) started {
	c.s.Helper()
	a := args{"agent": "scripted", "content": `{"do": [` + ops + `]}`}
	for i := 0; i < len(more); i += 2 {
		a[more[i].(string)] = more[i+1]
	}
	return decode[started](c.s.TB, c.call("start_agent_run", a))
}

// await waits until the run has the status.
func (s *server) await(r started, status runtime.Status) runtime.Run {
	s.Helper()
	s.Await(r.RunID, status)
	run, err := s.Runtime.Runs.Get(s.Context(), ann, r.RunID)
	must(s, err)
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
	c.s.Helper()
	return decode[page](c.s.TB, c.call("get_agent_run_events", a))
}

func (c client) snapshot(r started) snapshot {
	c.s.Helper()
	return decode[snapshot](c.s.TB, c.call("get_agent_run_snapshot", r.is()))
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

// get sends a GET request to REST.
func (s *server) get(path string) (int, string) {
	s.Helper()
	r := s.Do(http.MethodGet, path, "")
	return r.StatusCode, r.All()
}

// user is a request of a user with one message.
func user(agent, text string) runtime.StartRequest {
	return runtime.StartRequest{Agent: agent, Messages: []agui.Message{{Role: agui.RoleUser, Content: text}}}
}
