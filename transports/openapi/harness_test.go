package openapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/cmd"
	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/builtin"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/storage/sqlitetest"
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

const patience = transporttest.Patience

// client calls a real server and checks each answer against the server's document.
type client struct {
	*testing.T
	spec *spec
	url  string
	http *http.Client
	met  map[string]bool // the operations that have answered with success
}

// serve starts the server as the program does, with the built-in plugins.
func serve(t *testing.T) *client {
	t.Helper()
	cfg := config.Default()
	cfg.Listen, cfg.Database = "127.0.0.1:0", "sqlite:"+sqlitetest.New(t)
	s, err := cmd.Start(t.Context(), cfg, slog.New(slog.NewTextHandler(t.Output(), nil)), append(builtin.Plugins(), modelled())...)
	must(t, err)
	c := &client{T: t, url: s.URL(), http: &http.Client{Transport: new(http.Transport)}, met: make(map[string]bool)}
	t.Cleanup(func() {
		c.http.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		_ = s.Shutdown(ctx) // fails, because it did not wait for runs
	})
	doc := decode(t, c.send("GET", "/openapi.json", "").body).(object)
	c.spec = (&spec{doc: doc}).closed(t)
	return c
}

// modelled returns an agent that sends its query to a model.
func modelled() plugins.Agent {
	return plugins.AgentFunc("modelled", func(ctx context.Context, run *plugins.Run) error {
		image := json.RawMessage(`[{"type":"text","text":"look"},{"type":"image","mimeType":"image/png","size":3}]`)
		_, end := run.SendPrompt(ctx, &plugins.Prompt{
			System: []string{"Be brief."}, Messages: []plugins.PromptMessage{{Message: agui.Message{Role: agui.RoleUser, Parts: image}}},
			Tools:      []plugins.PromptTool{{Name: "search", Description: "Searches.", Parameters: json.RawMessage(`{"type":"object"}`)}},
			Parameters: json.RawMessage(`{"temperature":0.5}`), Changes: []plugins.PromptChange{{Kind: plugins.PromptLeftOut, Of: "other", Why: "too many"}},
		})
		end(plugins.ModelCall{Usage: agui.TokenUsage{Provider: "them", Model: "m", InputTokens: 3, OutputTokens: 2, TotalTokens: 5}},
			&plugins.ModelAnswer{Calls: []agui.ToolCall{{ID: "c", Name: "search", Arguments: "{}"}}, FirstToken: time.Millisecond}, nil)
		return nil
	})
}

// answered is an answer of the server.
type answered struct {
	status int
	kind   string
	body   []byte
}

// send makes a request. Header holds pairs of name and value.
func (c *client) send(method, path, body string, header ...string) answered {
	c.Helper()
	resp := c.open(c.Context(), method, path, body, header...)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.Fatalf("%s %s: %v after %s", method, path, err, text)
	}
	return answered{resp.StatusCode, resp.Header.Get("Content-Type"), text}
}

func (c *client) open(ctx context.Context, method, path, body string, header ...string) *http.Response {
	c.Helper()
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	must(c, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.http.Do(req)
	must(c, err)
	return resp
}

// do makes a request and checks that the answer has the status and matches the document. It returns the answer's body:
// decoded JSON, or the list of frames of an event stream.
func (c *client) do(status int, method, path, body string, header ...string) any {
	c.Helper()
	a := c.send(method, path, body, header...)
	if a.status != status {
		c.Fatalf("%s %s %s: got %d %s, want %d", method, path, body, a.status, a.body, status)
	}
	return c.check(method, path, a)
}

// exemplified checks that the document has an example with the code of a refusal.
func (c *client) exemplified(a answered, said object, what string) {
	c.Helper()
	var refusal struct{ Code string }
	if a.status < 400 || json.Unmarshal(a.body, &refusal) != nil || refusal.Code == "" {
		return
	}
	said = c.spec.resolve(said).(object)
	media, _ := said["content"].(object)["application/json"].(object)
	if examples, _ := media["examples"].(object); examples[refusal.Code] == nil {
		c.Errorf("%s has no example of the answer %d %s", what, a.status, a.body)
	}
}

// check checks an answer against the document.
func (c *client) check(method, path string, a answered) any {
	c.Helper()
	op := c.operation(method, path)
	if a.status < 400 {
		c.met[op.method+" "+op.path] = true
	}
	at := []string{"responses", fmt.Sprint(a.status)}
	said, ok := c.spec.at(append([]string{"paths", op.path, op.method}, at...)...).(object)
	if !ok {
		c.Fatalf("%s %s does not tell of the answer %d %s", op.method, op.path, a.status, a.body)
	}
	content, _ := said["content"].(object)
	if said["x-event-stream"] != nil {
		content = object{asStream: said["x-event-stream"]}
	}
	if len(a.body) == 0 || content == nil {
		if len(a.body) > 0 || content != nil {
			c.Errorf("%s %s: the answer %d has the body %q, the document says %v", method, path, a.status, a.body, content)
		}
		return nil
	}
	c.exemplified(a, said, op.method+" "+op.path)
	kind, _, _ := strings.Cut(a.kind, ";")
	if content[kind] == nil {
		c.Fatalf("%s %s: does not tell of an answer of type %s", op.method, op.path, a.kind)
	}
	schema := c.spec.schema(c.T, c.spec.place(op, a.status, kind)...)
	what := fmt.Sprintf("%s %s %d", method, path, a.status)
	if kind != asStream {
		var v any = string(a.body)
		if kind == "application/json" {
			v = decode(c.T, a.body)
		}
		validate(c.T, schema, v, what)
		return v
	}
	list := frames(c.T, string(a.body))
	for _, f := range list {
		validate(c.T, schema, f, what)
	}
	return list
}

// place returns the path of the schema of an answer.
func (s *spec) place(op operation, status int, kind string) []string {
	answer := op.object["responses"].(object)[fmt.Sprint(status)].(object)
	if kind == asStream {
		at := []string{"paths", op.path, op.method, "responses", fmt.Sprint(status)}
		if answer["x-event-stream"] != nil {
			return append(at, "x-event-stream", "schema", "contentSchema")
		}
		return append(at, "content", kind, "schema", "contentSchema")
	}
	if ref, ok := answer["$ref"].(string); ok {
		return append(strings.Split(strings.TrimPrefix(ref, "#/"), "/"), "content", kind, "schema")
	}
	return []string{"paths", op.path, op.method, "responses", fmt.Sprint(status), "content", kind, "schema"}
}

// operation finds the operation of a request: the match with the most literal path.
func (c *client) operation(method, path string) operation {
	c.Helper()
	path, _, _ = strings.Cut(path, "?")
	var found operation
	for _, op := range c.spec.operations() {
		if strings.EqualFold(op.method, method) && fits(op.path, path) &&
			(found.path == "" || strings.Count(op.path, "{") < strings.Count(found.path, "{")) {
			found = op
		}
	}
	if found.path == "" {
		c.Fatalf("the document has no %s %s", method, path)
	}
	return found
}

func fits(template, path string) bool {
	want, got := strings.Split(template, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if want[i] != got[i] && !strings.HasPrefix(want[i], "{") {
			return false
		}
	}
	return true
}

// script returns a request for a run of the scripted agent.
func script(t *testing.T, thread, ops string) string {
	t.Helper()
	return string(encode(t, object{"agent": "scripted", "threadId": thread, "content": `{"do": [` + ops + `]}`}))
}

const runs = "/api/projects/default/agent-runs"

// start starts a run and returns its id.
func (c *client) start(body string) string {
	c.Helper()
	return c.do(http.StatusAccepted, "POST", "/api/v1/agent/runs", body).(object)["runId"].(string)
}

// await waits until the run has the status, and returns it.
func (c *client) await(run, status string) object {
	c.Helper()
	for deadline := time.Now().Add(patience); ; {
		r := c.do(http.StatusOK, "GET", runs+"/"+url.PathEscape(run), "").(object)
		if r["status"] == status {
			return r
		}
		if time.Now().After(deadline) {
			c.Fatalf("the run is %v, not %s", r["status"], status)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// watch returns the first frames of a stream that does not end, up to one of that event.
func (c *client) watch(path, event string, meanwhile func(), header ...string) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	resp := c.open(ctx, "GET", path, "", header...)
	defer func() { _ = resp.Body.Close() }()
	done := make(chan []byte, 1)
	go func() { // ends with the frame, or with ctx
		var text []byte
		for buf := make([]byte, 4096); !strings.Contains(string(text), "event: "+event+"\n"); {
			n, err := resp.Body.Read(buf)
			text = append(text, buf[:n]...)
			if err != nil {
				break
			}
		}
		done <- text
	}()
	meanwhile()
	text := <-done
	if !strings.Contains(string(text), "event: "+event+"\n") {
		c.Errorf("%s: no %s in %s", path, event, text)
	}
	whole := text[:strings.LastIndex(string(text), "\n\n")+2]
	c.check("GET", path, answered{resp.StatusCode, resp.Header.Get("Content-Type"), whole})
}
