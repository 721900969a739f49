package cmd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/batonrun/baton/cmd"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/builtin"
)

const secret = "s3cr3t-t0ken"

// careless returns an agent with an error that quotes a URL with a token.
func careless() plugins.Agent {
	return plugins.AgentFunc("careless", func(ctx context.Context, _ *plugins.Run) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://user:"+secret+"@127.0.0.1:1/path?token="+secret, http.NoBody)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			return res.Body.Close()
		}
		return fmt.Errorf("ask the other server: %w", err)
	})
}

// hanging returns an agent that runs until it is stopped.
func hanging(began chan<- struct{}) plugins.Agent {
	return plugins.AgentFunc("hanging", func(ctx context.Context, _ *plugins.Run) error {
		began <- struct{}{}
		<-ctx.Done()
		return context.Cause(ctx)
	})
}

// logged is a log line.
type logged map[string]any

// lines returns the log lines with a message.
func lines(t *testing.T, log, msg string) []logged {
	t.Helper()
	var all []logged
	for line := range strings.Lines(log) {
		var l logged
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Errorf("%v: %s", err, line)
		}
		if l["msg"] == msg {
			all = append(all, l)
		}
	}
	return all
}

func TestLog_ReportsRunsWithoutSecrets(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("BATON_TIMEOUTS_DRAIN", "50ms")
	db := database(t)
	began := make(chan struct{}, 2)
	careful := plugins.Workflow{Name: "careful", Nodes: []plugins.Node{{ID: "broken", Agent: "careless"}}}
	start := func() (url string, log *output, stop func()) {
		var stdout output
		log = new(output)
		p := cmd.Program{
			Plugins: append(builtin.Plugins(), careless(), hanging(began), careful), Stdout: &stdout, Stderr: log,
			Args: []string{"serve", "--listen", "127.0.0.1:0", "--database", db, "--log-level", "debug", "--log-format", "json"},
		}
		ctx, cancel := context.WithCancel(t.Context())
		code := make(chan int, 1)
		go func() { code <- p.Run(ctx) }() // ends with stop
		stop = sync.OnceFunc(func() { cancel(); <-code })
		t.Cleanup(stop)
		stdout.until(t, "try: ")
		return strings.Fields(stdout.String())[4], log, stop
	}
	url, log, stop := start()
	ask(t, url, `{"agent":"echo","threadId":"one","runId":"r1","content":"hello"}`)
	ask(t, url, `{"agent":"careless","threadId":"two","runId":"r2","content":"`+secret+`"}`)
	ask(t, url, `{"agent":"scripted","threadId":"three","runId":"r3","content":"{\"do\":[{\"ask\":{\"message\":\"?\"}}]}"}`)
	ask(t, url, `{"workflowId":"careful","threadId":"five","runId":"r5","content":"x"}`)
	ask(t, url, `{"agent":"scripted","threadId":"six","runId":"r6","content":"{\"do\":[{\"ask\":{\"message\":\"?\"}}]}"}`)
	baton(t.Context(), "cancel", "--server", url, "r6").want(t, 0)
	attack(t, url)
	detached(t, url, `{"agent":"hanging","threadId":"four","runId":"r4","content":"x"}`)
	<-began
	stop()
	first := log.String()
	_, log, stop = start()
	<-began
	stop()
	second := log.String()

	if strings.Contains(first+second, secret) {
		for line := range strings.Lines(first + second) {
			if strings.Contains(line, secret) {
				t.Errorf("the log contains a secret: %s", line)
			}
		}
	}
	for _, w := range []struct{ log, msg, run, thread, key, value string }{
		{first, "run starts", "r1", "one", "agent", "echo"},
		{first, "run ends", "r1", "one", "status", "COMPLETED"},
		{first, "agent failed", "r2", "two", "agent", "careless"},
		{first, "run fails", "r2", "two", "level", "WARN"},
		{first, "run fails", "r2", "two", "code", "agent_failed"},
		{first, "run fails", "r2", "two", "message", "The agent failed"},
		{first, "run fails", "r5", "five", "node", "broken"},
		{first, "run ends", "r6", "six", "level", "NOTICE"},
		{first, "run waits for an answer", "r3", "three", "agent", "scripted"},
		{first, "run is released", "r4", "four", "agent", "hanging"},
		{second, "run is taken over", "r4", "four", "agent", "hanging"},
	} {
		found := false
		for _, l := range lines(t, w.log, w.msg) {
			found = found || l["run"] == w.run && l["thread"] == w.thread && l[w.key] == w.value
		}
		if !found {
			t.Errorf("no line %q of %s with %s=%s in\n%s", w.msg, w.run, w.key, w.value, w.log)
		}
	}
	if l := lines(t, first, "agent failed"); len(l) != 2 || !strings.Contains(fmt.Sprint(l[0]["error"]), "ask the other server: Get \"http://127.0.0.1:1/path\"") {
		t.Errorf("the lines about the failed agent: %v", l)
	}
	if l := lines(t, first, "a foreign Host is refused"); len(l) != 2 || l[0]["host"] != "evil.example" {
		t.Errorf("the lines about a foreign Host: %v", l)
	}
	if l := lines(t, first, "a foreign Origin is refused"); len(l) != 2 || l[0]["origin"] != "https://evil.example" {
		t.Errorf("the lines about a foreign Origin: %v", l)
	}
	if l := lines(t, first, "drained"); len(l) != 1 || l[0]["released"] != float64(1) {
		t.Errorf("the lines about draining: %v", l)
	}
	for line := range strings.Lines(first + second) {
		var l logged
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Error(err)
		}
		if (strings.HasPrefix(fmt.Sprint(l["msg"]), "run ") || l["agent"] != nil || l["tool"] != nil) &&
			(l["run"] == nil || l["thread"] == nil || l["user"] == nil || l["project"] == nil) {
			t.Errorf("a line without run, thread, user or project: %s", line)
		}
	}
}

// detached starts a run that continues without a client.
func detached(t *testing.T, url, body string) {
	t.Helper()
	res, err := http.Post(url+"/api/v1/agent/runs", "application/json", strings.NewReader(body))
	must(t, err)
	res.Body.Close()
	if res.StatusCode != http.StatusAccepted {
		t.Fatal(res.Status)
	}
}

// attack sends requests with secrets. The server refuses each for another reason.
func attack(t *testing.T, url string) {
	t.Helper()
	addr := strings.TrimPrefix(url, "http://")
	query := "?ticket=" + secret + "&token=" + secret
	bearer := "Authorization: Bearer " + secret + "\r\n"
	for _, request := range []string{
		"GET /nothing" + query + " HTTP/1.1\r\nHost: " + addr + "\r\n" + bearer + "\r\n",
		"GET /api/v1/threads" + query + " HTTP/1.1\r\nHost: evil.example\r\n" + bearer + "\r\n",
		"GET /api/v1/threads" + query + " HTTP/1.1\r\nHost: " + addr + "\r\nOrigin: https://evil.example\r\n" + bearer + "\r\n",
		"GET /api/v1/threads" + query + " HTTP/1.1\r\nHost: " + addr + "\r\nno header " + secret + "\r\n\r\n",
		"GET /api/v1/threads" + query + " " + secret + "\r\n\r\n",
		secret + " \x00\r\n\r\n",
		"GET /api/v1/threads" + query + " HTTP/1.1\r\nHost: " + addr + "\r\nX: " + strings.Repeat(secret, 4000) + "\r\n\r\n",
		"POST /api/v1/agent/runs" + query + " HTTP/1.1\r\nHost: " + addr + "\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\n{" + secret,
		"POST /api/v1/agent/runs" + query + " HTTP/1.1\r\nHost: " + addr + "\r\nContent-Length: " + secret + "\r\n\r\n",
		"GET /api/v1/ws" + query + " HTTP/1.1\r\nHost: " + addr + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n",
		"GET /api/v1/agent/runs/" + secret + "/events" + query + " HTTP/1.1\r\nHost: " + addr + "\r\n\r\n",
	} {
		for _, before := range []string{"", "GET /healthz HTTP/1.1\r\nHost: " + addr + "\r\n\r\n"} { // a connection's first request, and a later one
			c, err := net.Dial("tcp", addr)
			must(t, err)
			_, _ = io.WriteString(c, before+request)
			_ = c.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, c)
			c.Close()
		}
	}
}
