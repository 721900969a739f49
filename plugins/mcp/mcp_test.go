package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/mcp"
	"github.com/batonrun/baton/runtime/agui"
)

// must ends the test if err is not nil.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// TestMain is also the program that tests start.
func TestMain(m *testing.M) {
	if text := os.Getenv("MCP_SCRIPT"); text != "" {
		playScript(text)
		return
	}
	if kind := os.Getenv("MCP_SERVER"); kind != "" {
		fmt.Fprintln(os.Stderr, "the server is there, and knows", len(os.Environ()), "variables")
		server := newServer(nil)
		switch kind {
		case "tasks":
			newTaskServer().run()
			return
		case "asks":
			server = asksByRequest()
		case "results":
			server = asksByResult()
		}
		if err := server.Run(context.Background(), &sdk.StdioTransport{}); err != nil {
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// newServer has tools of every kind. hanging reports the start and end of hanging calls.
func newServer(hanging chan string) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	object := json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`)
	add := func(name string, a *sdk.ToolAnnotations, fn func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error)) {
		s.AddTool(&sdk.Tool{Name: name, Description: "does " + name, InputSchema: object, Annotations: a}, fn)
	}
	add("echo", &sdk.ToolAnnotations{ReadOnlyHint: true}, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(req.Params.Arguments)}}}, nil
	})
	add("rich", nil, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{StructuredContent: map[string]any{"n": 1}, Content: []sdk.Content{
			&sdk.TextContent{Text: "look"},
			&sdk.ImageContent{Data: []byte("hi"), MIMEType: "image/png"},
			&sdk.ResourceLink{URI: "file:///a", Name: "a", MIMEType: "text/plain"},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///b", Text: "inside", MIMEType: "text/plain"}},
		}}, nil
	})
	add("wrong", nil, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: "no such file"}}}, nil
	})
	add("die", nil, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		os.Exit(3)
		return nil, nil
	})
	add("hang", nil, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if hanging != nil {
			hanging <- "began"
		}
		_ = req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
			ProgressToken: req.Params.GetProgressToken(), Progress: 1, Total: 4, Message: "a quarter",
		})
		<-ctx.Done()
		if hanging != nil {
			hanging <- "ended"
		}
		return nil, ctx.Err()
	})
	return s
}

func started(t *testing.T, cfg mcp.Config) *mcp.Server {
	t.Helper()
	if cfg.Name == "" {
		cfg.Name = "it"
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	s, err := mcp.New(cfg)
	must(t, err)
	must(t, s.Start(t.Context()))
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	<-s.Settled()
	return s
}

// program returns a Config of this program as a server.
func program(t *testing.T) mcp.Config {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	return mcp.Config{Command: []string{self}, Env: map[string]string{"MCP_SERVER": "1"}}
}

// endpoint returns a Config of a server in this process.
func endpoint(t *testing.T, s *sdk.Server) mcp.Config {
	t.Helper()
	srv := httptest.NewServer(handle(t, s))
	t.Cleanup(srv.Close)
	return mcp.Config{URL: srv.URL}
}

// handle serves s and ends its sessions after the test.
func handle(t *testing.T, s *sdk.Server) http.Handler {
	t.Helper()
	t.Cleanup(func() {
		for session := range s.Sessions() {
			_ = session.Close()
		}
	})
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
}

func names(s *mcp.Server) []string {
	list := []string{}
	for _, t := range s.Tools() {
		list = append(list, t.Info().Name)
	}
	return list
}

func find(t *testing.T, s *mcp.Server, name string) plugins.Tool {
	t.Helper()
	for _, tool := range s.Tools() {
		if tool.Info().Name == name {
			return tool
		}
	}
	t.Fatalf("no tool %s among %q", name, names(s))
	return nil
}

func call(t *testing.T, s *mcp.Server, name, args string) (agui.ToolOutput, error) {
	t.Helper()
	return find(t, s, name).Call(t.Context(), &plugins.Call{ID: "c", Args: json.RawMessage(args)})
}

func TestTools_AreConverted(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]mcp.Config{"stdio": program(t), "http": endpoint(t, newServer(nil))} {
		t.Run(name, func(t *testing.T) {
			cfg.Approval = []string{"d*"}
			s := started(t, cfg)
			if diff := cmp.Diff([]string{"it.die", "it.echo", "it.hang", "it.rich", "it.wrong"}, names(s)); diff != "" {
				t.Fatalf("tools (-want +got):\n%s", diff)
			}
			echo, die := find(t, s, "it.echo").Info(), find(t, s, "it.die").Info()
			if !echo.Idempotent || echo.Approval || die.Idempotent || !die.Approval || echo.Description != "does echo" ||
				!strings.Contains(string(echo.Parameters), `"properties"`) {
				t.Errorf("got %+v and %+v", echo, die)
			}
			out, err := call(t, s, "it.echo", `{"text":"hi"}`)
			if err != nil || out.ResultSummary != `{"text":"hi"}` || out.Parts != nil {
				t.Errorf("echo: %+v, %v", out, err)
			}
			out, err = call(t, s, "it.rich", `{}`)
			if err != nil || out.Status != agui.StatusSuccess || !strings.HasPrefix(out.ResultSummary, "look\n[image image/png, 2 bytes]\na: file:///a\ninside") ||
				string(out.UIHints) != `{"structuredContent":{"n":1}}` {
				t.Errorf("rich: %+v, %v", out, err)
			}
			if parts, err := agui.ParseParts(out.Parts); err != nil || !strings.Contains(string(parts), `"value":"aGk="`) || strings.Count(string(parts), `"type"`) != 6 {
				t.Errorf("parts: %s, %v", out.Parts, err)
			}
			out, err = call(t, s, "it.wrong", `{}`)
			if err != nil || out.Status != agui.StatusFailure || out.Error == nil || out.Error.Message != "no such file" {
				t.Errorf("wrong: %+v, %v", out, err)
			}
		})
	}
}

func TestTools_OnlyAllowed(t *testing.T) {
	t.Parallel()
	cfg := endpoint(t, newServer(nil))
	cfg.Allow = []string{"e*", "rich", "nobody"}
	if diff := cmp.Diff([]string{"it.echo", "it.rich"}, names(started(t, cfg))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCall_FailsWhenServerDies(t *testing.T) {
	t.Parallel()
	s := started(t, program(t))
	_, err := call(t, s, "it.die", `{}`)
	if e, ok := errors.AsType[*plugins.Error](err); !ok || e.Code != "tool_unavailable" || !e.Retryable {
		t.Fatalf("got %v", err)
	}
	out, err := call(t, s, "it.echo", `{}`) // it is restarted
	if err != nil || out.ResultSummary != "{}" {
		t.Errorf("after it: %+v, %v", out, err)
	}
}

func TestCall_CancelReachesServer(t *testing.T) {
	t.Parallel()
	hanging := make(chan string, 4)
	s := started(t, endpoint(t, newServer(hanging)))
	ctx, cancel := context.WithCancelCause(t.Context())
	told := make(chan string, 1)
	go func() {
		<-hanging
		<-told
		cancel(plugins.ErrCancelled)
	}()
	_, err := find(t, s, "it.hang").Call(ctx, &plugins.Call{ID: "c", Progress: func(fraction float64, message string) {
		told <- fmt.Sprint(fraction, message)
		if fraction != 0.25 || message != "a quarter" {
			t.Errorf("progress %v %q", fraction, message)
		}
	}})
	if !errors.Is(err, plugins.ErrCancelled) {
		t.Errorf("got %v", err)
	}
	if got := <-hanging; got != "ended" {
		t.Errorf("the server says %s", got)
	}
}

func TestTools_FollowServerList(t *testing.T) {
	t.Parallel()
	server := newServer(nil)
	s := started(t, endpoint(t, server))
	server.RemoveTools("die", "hang", "rich", "wrong")
	server.AddTool(&sdk.Tool{Name: "new tool", InputSchema: json.RawMessage(`{"type":"object"}`)}, nil)
	want := "[it.echo it.new_tool]"
	until(t, func() bool { return fmt.Sprint(names(s)) == want })
}

// until polls a condition of another goroutine or process.
func until(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Minute); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("timeout")
		}
	}
}

// Baton connects to a server once it is available, for the first time or again.
func TestStart_ServerUnavailable(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	handler := http.NotFoundHandler()
	swap := func(h http.Handler) {
		mu.Lock()
		defer mu.Unlock()
		handler = h
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		h := handler
		mu.Unlock()
		if r.Header.Get("Authorization") != "Bearer x" {
			t.Error("a request without the header")
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	s := started(t, mcp.Config{URL: srv.URL, Headers: map[string]string{"Authorization": "Bearer x"}, Required: true})
	if len(s.Tools()) != 0 || s.Check(t.Context()) == nil {
		t.Error("an unavailable server has tools")
	}
	swap(handle(t, newServer(nil)))
	until(t, func() bool { return len(s.Tools()) == 5 && s.Check(t.Context()) == nil })
	swap(handle(t, newServer(nil))) // another process without the session
	if out, err := call(t, s, "it.echo", `{}`); err != nil || out.ResultSummary != "{}" {
		t.Errorf("after a restart: %+v, %v", out, err)
	}
}

func TestNew_RefusesInvalidConfig(t *testing.T) {
	t.Parallel()
	for _, cfg := range []mcp.Config{
		{},
		{Name: "a.b", URL: "http://host"},
		{Name: "a"},
		{Name: "a", URL: "http://host", Command: []string{"x"}},
		{Name: "a", URL: "file:///x"},
		{Name: "a", Command: []string{""}},
		{Name: "a", URL: "http://host", Allow: []string{"["}},
		{Name: "a", URL: "http://host", Headers: map[string]string{"X": "a\nb"}},
	} {
		if _, err := mcp.New(cfg); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
}

// A program that does not exist fails nothing but its tools.
func TestStart_MissingProgram(t *testing.T) {
	t.Parallel()
	s := started(t, mcp.Config{Command: []string{"no-such-program"}, Required: true})
	if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "no-such-program") {
		t.Errorf("got %v", err)
	}
	if h := s.Health(); h == nil || h.OK || !strings.Contains(h.Detail, "no-such-program") {
		t.Errorf("health: %+v", h)
	}
}

// Start does not wait for a server that never answers.
func TestStart_SilentServer(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 9)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	for _, cfg := range []mcp.Config{{Name: "web", URL: silent.URL}, {Name: "program", Command: []string{"sleep", "1000"}}} {
		s, err := mcp.New(cfg)
		must(t, err)
		must(t, s.Start(t.Context()))
		if cfg.URL != "" {
			<-asked
		}
		select {
		case <-s.Settled():
			t.Error("it has settled")
		default:
		}
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
		<-s.Settled()
	}
}

// The server refuses a call with an error code that the SDK also uses for unsent calls.
func TestCall_ServerErrorIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, code := range []int64{-32003, -32004} {
		var calls atomic.Int64
		server := newServer(nil)
		server.AddTool(&sdk.Tool{Name: "pay", InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				calls.Add(1)
				return nil, &jsonrpc.Error{Code: code, Message: "the account is empty"}
			})
		s := started(t, endpoint(t, server))
		_, err := call(t, s, "it.pay", "{}")
		shown, ok := errors.AsType[*plugins.Error](err)
		if !ok || shown.Code != "tool_failed" || !strings.Contains(shown.Message, "the account is empty") || calls.Load() != 1 {
			t.Errorf("%d: called %d times: %v", code, calls.Load(), err)
		}
	}
}

// The server forgets its sessions while a call runs; another call notices it first.
func TestCall_RunningCallIsNotRepeated(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	began, release := make(chan struct{}, 9), make(chan struct{})
	serve := func() http.Handler {
		server := newServer(nil)
		server.AddTool(&sdk.Tool{Name: "pay", InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				calls.Add(1)
				began <- struct{}{}
				<-release
				return &sdk.CallToolResult{}, nil
			})
		return handle(t, server)
	}
	var now atomic.Pointer[http.Handler]
	first, second := serve(), serve()
	now.Store(&first)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*now.Load()).ServeHTTP(w, r) }))
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	s := started(t, mcp.Config{URL: web.URL})
	paid := make(chan error, 1)
	go func() { // ends with its call
		_, err := find(t, s, "it.pay").Call(context.Background(), &plugins.Call{ID: "c", Args: json.RawMessage(`{}`)})
		paid <- err
	}()
	<-began
	now.Store(&second)
	if out, err := call(t, s, "it.echo", `{"text":"a"}`); err != nil || out.ResultSummary != `{"text":"a"}` {
		t.Errorf("echo: %+v, %v", out, err)
	}
	close(release)
	err := <-paid
	if shown, ok := errors.AsType[*plugins.Error](err); !ok || shown.Code != "tool_unavailable" {
		t.Errorf("pay: %v", err)
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("called %d times", n)
	}
}

// A program that takes the place of another is started before that one is ended, and only once.
func TestServer_Begin(t *testing.T) {
	works, gone, ends := program(t), mcp.Config{Command: []string{"no-such-program"}}, mcp.Config{Command: []string{"sh", "-c", "exit 3"}}
	for name, tt := range map[string]struct {
		cfg mcp.Config
		err string // empty if it can be connected
	}{"it works": {works, ""}, "it is gone": {gone, "executable file not found"}, "it ends": {ends, "exit status 3"}, "an address": {mcp.Config{URL: "http://127.0.0.1:1"}, ""}} {
		tt.cfg.Name, tt.cfg.Log = "it", slog.New(slog.NewTextHandler(t.Output(), nil))
		s, err := mcp.New(tt.cfg)
		must(t, err)
		err = s.Begin(t.Context())
		if tt.err == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v, want %q", name, err, tt.err)
		}
		if err := s.Start(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if name == "it works" && !s.Health().OK {
			t.Errorf("%s: not connected after its start: %s", name, s.Health().Detail)
		}
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
