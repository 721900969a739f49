package cmd_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/fasthttp/websocket"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/batonrun/baton/cmd"
	"github.com/batonrun/baton/plugins/builtin"
)

// receiver is an OpenTelemetry collector that stores the spans it receives.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex // guards the fields below
	spans []*otlp.Span
	of    map[string]string // attributes of the resource
	wrong []string
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{of: map[string]string{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var sent collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &sent)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if err != nil || req.URL.Path != "/v1/traces" {
			r.wrong = append(r.wrong, req.URL.Path+": "+string(body))
		}
		for _, resource := range sent.ResourceSpans {
			for _, a := range resource.Resource.Attributes {
				r.of[a.Key] = a.Value.GetStringValue()
			}
			for _, scope := range resource.ScopeSpans {
				r.spans = append(r.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// attributes returns the attributes of a span as strings.
func attributes(s *otlp.Span) map[string]string {
	all := make(map[string]string)
	for _, a := range s.Attributes {
		all[a.Key] = strings.Trim(a.Value.String()[strings.IndexByte(a.Value.String(), ':')+1:], `"`)
	}
	return all
}

// serveUntil runs serve until stop is called, and returns its URL.
func serveUntil(t *testing.T, stderr io.Writer, args ...string) (url string, stop func()) {
	t.Helper()
	var stdout output
	p := cmd.Program{Plugins: builtin.Plugins(), Stdout: &stdout, Stderr: stderr, Args: append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)}
	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() { code <- p.Run(ctx) }() // ends with stop
	stop = sync.OnceFunc(func() {
		cancel()
		if got := <-code; got != 0 {
			t.Errorf("exit code %d", got)
		}
	})
	t.Cleanup(stop)
	stdout.until(t, "try: ")
	return strings.Fields(stdout.String())[4], stop
}

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	clients = "00f067aa0ba902b7" // the client's span
)

// ask starts a run and returns its stream.
func ask(t *testing.T, url, body string, header ...string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/api/v1/agent/runs", strings.NewReader(body))
	must(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(bufio.NewReader(res.Body))
	must(t, err)
	return string(text)
}

func TestTraces_CoverRuns(t *testing.T) {
	t.Chdir(t.TempDir())
	r := newReceiver(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.URL)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
	m := model(t)
	t.Setenv("OPENAI_API_KEY", "sk-secret")
	t.Setenv("OPENAI_BASE_URL", m.URL+"/v1")
	var stderr output
	url, stop := serveUntil(t, &stderr, "--database", database(t))
	stream := ask(t, url, `{"agent":"assistant","threadId":"main","runId":"r1","content":"6*7, by the secret word"}`,
		"traceparent", "00-"+traceID+"-"+clients+"-01")
	if !strings.Contains(stream, `"traceId":"`+traceID+`"`) {
		t.Errorf("RUN_STARTED does not name its trace:\n%s", stream)
	}
	if out := ask(t, url, `{"agent":"scripted","threadId":"t2","content":"{\"do\":[{\"tool\":\"fail\",\"args\":{\"message\":\"no\"}},{\"fail\":\"boom\",\"code\":\"x\"}]}"}`); strings.Contains(out, traceID) {
		t.Error("a request without a traceparent is in another's trace")
	}
	stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.wrong) > 0 {
		t.Error("the collector got ", r.wrong)
	}
	if r.of["service.name"] != "baton" || r.of["deployment.environment"] != "test" {
		t.Errorf("the resource is %v", r.of)
	}
	ids := map[string]string{clients: "client"}
	for _, s := range r.spans {
		ids[hexOf(s.SpanId)] = s.Name
	}
	got := map[string]int{}
	for _, s := range r.spans {
		if parent := ids[hexOf(s.ParentSpanId)]; hexOf(s.TraceId) == traceID {
			got[parent+" > "+s.Name]++
		}
		a := attributes(s)
		for _, v := range a {
			if strings.Contains(v, "secret") {
				t.Errorf("%s contains text of a message: %v", s.Name, a)
			}
		}
		for name, want := range map[string]map[string]string{
			"chat":                    {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.conversation.id": "main", "baton.run.id": "r1"},
			"execute_tool calculator": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "calculator", "gen_ai.tool.type": "function"},
			"invoke_agent assistant":  {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "assistant"},
			"run assistant":           {"baton.run.status": "completed", "baton.project": "default"},
			"run scripted":            {"baton.run.status": "failed", "error.type": "failed"},
			"invoke_agent scripted":   {"error.type": "x"},
			"execute_tool fail":       {"error.type": "failed"},
		} {
			if s.Name != name && (name != "chat" || !strings.HasPrefix(s.Name, "chat ")) {
				continue
			}
			for key, value := range want {
				if a[key] != value {
					t.Errorf("%s: %s is %q, want %q", s.Name, key, a[key], value)
				}
			}
		}
	}
	for name, n := range map[string]int{
		"client > start_run assistant": 1, "start_run assistant > run assistant": 1, "run assistant > invoke_agent assistant": 1,
		"invoke_agent assistant > execute_tool calculator": 1,
	} {
		if got[name] != n {
			t.Errorf("%q: %d spans, want %d", name, got[name], n)
		}
	}
	chats := 0
	for name, n := range got {
		if strings.HasPrefix(name, "invoke_agent assistant > chat ") {
			chats += n
		}
	}
	if chats != 2 {
		t.Errorf("there are %v", got)
	}
}

func hexOf(id []byte) string {
	const digits = "0123456789abcdef"
	var b strings.Builder
	for _, c := range id {
		b.WriteByte(digits[c>>4])
		b.WriteByte(digits[c&15])
	}
	return b.String()
}

func TestTraces_CanBeTurnedOff(t *testing.T) {
	t.Chdir(t.TempDir())
	r := newReceiver(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.URL)
	for _, name := range []string{"OTEL_TRACES_EXPORTER=none", "OTEL_SDK_DISABLED=true"} {
		key, value, _ := strings.Cut(name, "=")
		t.Run(name, func(t *testing.T) {
			t.Setenv(key, value)
			url, stop := serveUntil(t, io.Discard, "--database", database(t))
			stream := ask(t, url, `{"agent":"echo","content":"hello"}`, "traceparent", "00-"+traceID+"-"+clients+"-01")
			if strings.Contains(stream, "traceId") {
				t.Error("a run names a trace although traces are off")
			}
			stop()
		})
	}
	if len(r.spans) > 0 {
		t.Errorf("there are %d spans", len(r.spans))
	}
	for key, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_HEADERS":        "Authorization:Bearer " + secret,
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS": "ok=1,Author ization=" + secret,
		"OTEL_EXPORTER_OTLP_ENDPOINT":       "http://user:" + secret + "@collector:port/",
		"OTEL_EXPORTER_OTLP_TIMEOUT":        secret,
	} {
		t.Run(key, func(t *testing.T) {
			t.Setenv(key, value)
			r := baton(t.Context(), "serve", "--listen", "127.0.0.1:0", "--database", database(t)).want(t, 2)
			if !strings.Contains(r.stderr, "malformed") || strings.Contains(r.stderr, secret) {
				t.Errorf("got %q", r.stderr)
			}
		})
	}
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	if r := baton(t.Context(), "serve", "--database", database(t)).want(t, 2); !strings.Contains(r.stderr, "OTEL_EXPORTER_OTLP_PROTOCOL") {
		t.Errorf("got %q", r.stderr)
	}
}

// A run that is answered after a restart stays in its trace.
func TestTraces_SurviveRestart(t *testing.T) {
	t.Chdir(t.TempDir())
	r := newReceiver(t)
	t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", r.URL+"/v1/traces")
	db := database(t)
	url, stop := serveUntil(t, io.Discard, "--database", db)
	first := ask(t, url, `{"agent":"scripted","threadId":"a","runId":"r","content":"{\"do\":[{\"ask\":{\"message\":\"?\"}},{\"say\":\"done\"}]}"}`)
	_, rest, ok := strings.Cut(first, `"traceId":"`)
	if !ok {
		t.Fatalf("no trace in %s", first)
	}
	trace := rest[:32]
	_, rest, _ = strings.Cut(first, `"interrupts":[{"id":"`)
	question, _, _ := strings.Cut(rest, `"`)
	stop()
	url, stop = serveUntil(t, io.Discard, "--database", db)
	again := ask(t, url, `{"threadId":"a","runId":"r","resume":[{"interruptId":"`+question+`","status":"resolved","payload":{}}]}`)
	if !strings.Contains(again, "done") || !strings.Contains(again, `"traceId":"`+trace+`"`) {
		t.Errorf("the run continues in another trace than %s:\n%s", trace, again)
	}
	stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	runs := 0
	for _, s := range r.spans {
		if s.Name == "run scripted" && hexOf(s.TraceId) == trace {
			runs++
		}
	}
	if runs != 2 {
		t.Errorf("%d spans of the run are in the trace, want 2", runs)
	}
}

// A request's trace includes the runs of another server that is a remote agent or an MCP server, and runs started on a WebSocket.
func TestTraces_SpanServers(t *testing.T) {
	t.Chdir(t.TempDir())
	r := newReceiver(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.URL)
	other, stopOther := serveUntil(t, io.Discard, "--database", database(t))
	put(t, "baton.yaml", "agents:\n  far: {agui: {url: "+other+"/api/v1/agui/echo}}\nmcp:\n  other: {url: "+other+"/mcp}\n")
	url, stop := serveUntil(t, io.Discard, "--database", database(t))
	script := func(do string) string {
		text, err := json.Marshal(`{"do":[` + do + `]}`)
		must(t, err)
		return string(text)
	}
	parent := []string{"traceparent", "00-" + traceID + "-" + clients + "-01"}
	if out := ask(t, url, `{"agent":"far","content":"hello"}`, parent...); !strings.Contains(out, "RUN_FINISHED") {
		t.Fatal(out)
	}
	call := `{"tool":"other.start_agent_run","args":{"agent":"echo","content":"a b"}}`
	if out := ask(t, url, `{"agent":"scripted","content":`+script(call)+`}`, parent...); !strings.Contains(out, "RUN_FINISHED") {
		t.Fatal(out)
	}
	socket, res, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(url, "http")+"/api/v1/ws", http.Header{"Traceparent": {parent[1]}})
	must(t, err)
	defer res.Body.Close()
	defer socket.Close()
	must(t, socket.WriteMessage(websocket.TextMessage, []byte(`{"op":"run","ref":"1","agent":"echo","content":"x"}`)))
	if _, msg, err := socket.ReadMessage(); err != nil || !strings.Contains(string(msg), `"ack"`) {
		t.Fatalf("%s %v", msg, err)
	}
	stop()
	stopOther()
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := map[string]string{clients: "client"}
	for _, s := range r.spans {
		ids[hexOf(s.SpanId)] = s.Name
	}
	got := map[string]int{}
	for _, s := range r.spans {
		if hexOf(s.TraceId) == traceID {
			got[ids[hexOf(s.ParentSpanId)]+" > "+s.Name]++
		}
	}
	for _, want := range []string{
		"invoke_agent far > start_run echo", "start_run echo > run echo",
		"execute_tool other.start_agent_run > start_run echo",
		"client > start_run echo",
	} {
		if got[want] == 0 {
			t.Errorf("no %q in %v", want, got)
		}
	}
}
