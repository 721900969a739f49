package mcp_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/mcp"
	"github.com/batonrun/baton/runtime/agui"
)

const (
	helloResult = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`
	listResult  = `{"tools":[{"name":"get","inputSchema":{"type":"object"}},{"name":"put","inputSchema":{"type":"object"}}]}`
	hiResult    = `{"content":[{"type":"text","text":"hi"}]}`
)

// played is a server over HTTP that answers calls of tools with call, and other requests as it should.
func played(t *testing.T, call http.HandlerFunc) mcp.Config {
	t.Helper()
	return playedBy(t, func(w http.ResponseWriter, r *http.Request, method string) {
		switch method {
		case "initialize":
			w.Header().Set("Mcp-Session-Id", "one")
			reply(w, r, helloResult)
		case "tools/list":
			reply(w, r, listResult)
		case "tools/call":
			call(w, r)
		default:
			normal(w, r)
		}
	})
}

func playedBy(t *testing.T, serve func(w http.ResponseWriter, r *http.Request, method string)) mcp.Config {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &m)
		r.Header.Set("Test-Id", string(m.ID))
		r.Body = io.NopCloser(bytes.NewReader(body))
		serve(w, r, m.Method)
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(srv.CloseClientConnections)
	return mcp.Config{Name: "it", URL: srv.URL}
}

// normal answers what is neither a call nor a list nor the first request.
func normal(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case id(r) == "":
		w.WriteHeader(http.StatusAccepted)
	default:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, id(r))
	}
}

func id(r *http.Request) string { return r.Header.Get("Test-Id") }

func reply(w http.ResponseWriter, r *http.Request, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id(r), result)
}

// An odd part of a result costs that part, and no more.
func TestResult_OddMembers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ result, want string }{
		"unknown content":    {`{"content":[{"type":"text","text":"hi"},{"type":"hologram","depth":3}]}`, "hi\n[content of type hologram] {\"type\":\"hologram\",\"depth\":3}"},
		"flag as text":       {`{"content":[{"type":"text","text":"hi"}],"isError":"false"}`, "hi"},
		"flag as number":     {`{"content":[{"type":"text","text":"hi"}],"isError":0}`, "hi"},
		"flag is true":       {`{"content":[{"type":"text","text":"no"}],"isError":"true"}`, "failed: no"},
		"flag null":          {`{"content":[{"type":"text","text":"hi"}],"isError":null}`, "hi"},
		"broken base64":      {`{"content":[{"type":"image","data":"@@@","mimeType":"image/png"},{"type":"text","text":"hi"}]}`, "[image image/png that cannot be read]\nhi"},
		"data is a number":   {`{"content":[{"type":"audio","data":7,"mimeType":"audio/wav"}]}`, "[audio audio/wav that cannot be read]"},
		"url-safe base64":    {`{"content":[{"type":"image","data":"-_-_","mimeType":"image/png"}]}`, "[image image/png, 3 bytes]"},
		"unpadded base64":    {`{"content":[{"type":"image","data":"aGk","mimeType":"image/png"}]}`, "[image image/png, 2 bytes]"},
		"base64 in lines":    {`{"content":[{"type":"image","data":"aG\nk=\n","mimeType":"image/png"}]}`, "[image image/png, 2 bytes]"},
		"data url":           {`{"content":[{"type":"image","data":"data:image/gif;base64,aGk="}]}`, "[image image/gif, 2 bytes]"},
		"image without type": {`{"content":[{"type":"image","data":"iVBORw0KGgo="}]}`, "[image image/png, 8 bytes]"},
		"blob without type":  {`{"content":[{"type":"resource","resource":{"uri":"file:///a","blob":"iVBORw0KGgo="}}]}`, "[image image/png file:///a, 8 bytes]"},
		"broken blob":        {`{"content":[{"type":"resource","resource":{"uri":"file:///a","blob":"!"}}]}`, "[document file:///a that cannot be read]"},
		"resource null":      {`{"content":[{"type":"resource","resource":null},{"type":"text","text":"hi"}]}`, "hi"},
		"content object":     {`{"content":{"type":"text","text":"hi"}}`, "hi"},
		"content text":       {`{"content":"hi"}`, "hi"},
		"element text":       {`{"content":["hi",null]}`, "hi"},
		"element number":     {`{"content":[5]}`, "5"},
		"text number":        {`{"content":[{"type":"text","text":12345678901234567890}]}`, "12345678901234567890"},
		"text null":          {`{"content":[{"type":"text","text":null},{"type":"text","text":"hi"}]}`, "\nhi"},
		"type missing":       {`{"content":[{"text":"hi"}]}`, "hi"},
		"content null":       {`{"content":null}`, ""},
		"no content":         {`{}`, ""},
		"result null":        {`null`, ""},
		"result text":        {`"hi"`, "hi"},
		"result list":        {`[{"type":"text","text":"hi"}]`, "hi"},
		"result bare":        {`{"temperature":12345678901234567890}`, `{"temperature":12345678901234567890}`},
		"meta odd":           {`{"content":[{"type":"text","text":"hi","annotations":"x","_meta":5}],"_meta":[]}`, "hi"},
		"size as text":       {`{"content":[{"type":"resource_link","uri":"file:///a","name":"a","size":"12"}]}`, "a: file:///a"},
		"big number":         {`{"content":[],"structuredContent":{"id":1915883588174806058}}`, `{"id":1915883588174806058}`},
		"summary beside":     {`{"content":[{"type":"text","text":"OK"}],"structuredContent":{"n":1.50}}`, "OK\n{\"n\":1.50}"},
		"said twice":         {`{"content":[{"type":"text","text":"{ \"b\": [2], \"a\": 1 }"}],"structuredContent":{"a":1,"b":[2]}}`, `{ "b": [2], "a": 1 }`},
		"wrapped":            {`{"content":[{"type":"text","text":"5"}],"structuredContent":{"result":5}}`, "5"},
		"wrapped text":       {`{"content":[{"type":"text","text":"hi"}],"structuredContent":{"result":"hi"}}`, "hi"},
		"structured text":    {`{"content":[],"structuredContent":"hi"}`, `"hi"`},
		"structured null":    {`{"content":[{"type":"text","text":"hi"}],"structuredContent":null}`, "hi"},
		"structured list":    {`{"content":[{"type":"text","text":"hi"}],"structuredContent":[1]}`, "hi\n[1]"},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			cfg := played(t, func(w http.ResponseWriter, r *http.Request) { calls.Add(1); reply(w, r, c.result) })
			s := started(t, cfg)
			for range 2 { // the session goes on
				out, err := call(t, s, "it.put", `{}`)
				got := out.ResultSummary
				if out.Status == agui.StatusFailure {
					got = "failed: " + got
				}
				if err != nil || got != c.want {
					t.Errorf("got %q, %v; want %q", got, err, c.want)
				}
				if parts, err := agui.ParseParts(out.Parts); out.Parts != nil && err != nil {
					t.Errorf("parts %s: %v", parts, err)
				}
			}
			if calls.Load() != 2 {
				t.Errorf("%d calls reached the server", calls.Load())
			}
		})
	}
}

// A response is read by its content.
func TestResponse_OddForms(t *testing.T) {
	t.Parallel()
	write := func(kind, format string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Content-Type"] = nil
			if kind != "" {
				w.Header().Set("Content-Type", kind)
			}
			fmt.Fprint(w, strings.ReplaceAll(format, "$id", id(r)))
		}
	}
	const whole = `{"jsonrpc":"2.0","id":$id,"result":` + hiResult + `}`
	for name, serve := range map[string]http.HandlerFunc{
		"text/plain":            write("text/plain", whole),
		"no type":               write("", whole),
		"json in an event type": write("text/event-stream", whole),
		"events in a json type": write("application/json", "data: "+whole+"\n\n"),
		"batch":                 write("application/json", "["+whole+"]"),
		"batch with others":     write("application/json", `[{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}},{"jsonrpc":"2.0","id":999,"result":{}},`+whole+"]"),
		"id as text":            write("application/json", strings.ReplaceAll(whole, "$id", `"$id"`)),
		"id as a fraction":      write("application/json", strings.ReplaceAll(whole, "$id", `$id.0`)),
		"id null":               write("application/json", strings.ReplaceAll(whole, "$id", `null`)),
		"no id":                 write("application/json", `{"jsonrpc":"2.0","result":`+hiResult+`}`),
		"no version":            write("application/json", `{"id":$id,"result":`+hiResult+`}`),
		"error null":            write("application/json", `{"jsonrpc":"2.0","id":$id,"error":null,"result":`+hiResult+`}`),
		"bom":                   write("application/json", "\ufeff"+whole),
		"pretty":                write("application/json", strings.ReplaceAll(whole, ",", ",\n  ")),
		"no last blank line":    write("text/event-stream", "event: message\ndata: "+whole),
		"named otherwise":       write("text/event-stream", "event: response\ndata: "+whole+"\n\n"),
		"comments and pings":    write("text/event-stream", ": hello\n\nevent: ping\ndata: {}\n\ndata: ping\n\ndata: [DONE]\n\ndata: "+whole+"\n\n"),
		"data in lines":         write("text/event-stream", "data: {\"jsonrpc\":\"2.0\",\ndata: \"id\":$id,\ndata: \"result\":"+hiResult+"}\n\n"),
		"progress without sense": write("text/event-stream",
			"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"c\",\"progress\":\"half\"}}\n\ndata: "+whole+"\n\n"),
		"gzip": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			fmt.Fprint(z, strings.ReplaceAll(whole, "$id", id(r)))
			_ = z.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := started(t, played(t, serve))
			for range 2 {
				if out, err := call(t, s, "it.put", `{}`); err != nil || out.ResultSummary != "hi" {
					t.Errorf("got %+v, %v", out, err)
				}
			}
		})
	}
}

// An error of a call is reported with its status and its sentence, and the session goes on.
func TestCall_ErrorIsTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status     int
		kind, body string
		code, want string
		retryable  bool
	}{
		"401":        {401, "application/json", `{"error":"invalid_token","error_description":"the token has expired"}`, "tool_unauthorized", "answered 401: the token has expired", false},
		"403":        {403, "text/plain", "Access is only allowed at localhost:7833", "tool_unauthorized", "answered 403: Access is only allowed at localhost:7833", false},
		"429":        {429, "application/json", `{"message":"slow down"}`, "rate_limited", "answered 429: slow down", true},
		"500 page":   {500, "text/html", "<html><head><title>It broke</title></head></html>", "tool_unavailable", "answered 500: It broke", true},
		"502 empty":  {502, "", "", "tool_unavailable", "answered 502 Bad Gateway", true},
		"503":        {503, "application/json", `{"detail":"warming up"}`, "tool_unavailable", "answered 503: warming up", true},
		"400":        {400, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no such city"}}`, "tool_failed", "answered 400: no such city", false},
		"413":        {413, "text/plain", "too much", "tool_failed", "answered 413: too much", false},
		"page":       {200, "text/html", "<title>Welcome</title>", "tool_failed", "answered with a web page: Welcome", false},
		"text":       {200, "text/plain", "hello there", "tool_failed", "answered without a result: hello there", false},
		"nothing":    {200, "application/json", "", "tool_failed", "answered without a result", false},
		"other json": {200, "application/json", `{"detail":"maintenance"}`, "tool_failed", "answered without a result: maintenance", false},
		"202":        {202, "", "", "tool_failed", "answered without a result", false},
		"rpc error":  {200, "application/json", `{"jsonrpc":"2.0","id":$id,"error":{"code":-32000,"message":"no such city"}}`, "tool_failed", "no such city", false},
		"data":       {200, "application/json", `{"jsonrpc":"2.0","id":$id,"error":{"code":-32602,"message":"no such city","data":{ "city": "x y" }}}`, "tool_failed", `no such city: {"city":"x y"}`, false},
		"data text":  {200, "application/json", `{"jsonrpc":"2.0","id":$id,"error":{"code":-32602,"message":"no such city","data":"x y"}}`, "tool_failed", "no such city: x y", false},
		"data again": {200, "application/json", `{"jsonrpc":"2.0","id":$id,"error":{"code":-32602,"message":"no city x y","data":"x y"}}`, "tool_failed", "no city x y", false},
		"rpc silent": {200, "application/json", `{"jsonrpc":"2.0","id":$id,"error":{"code":-32602,"message":""}}`, "tool_failed", "does not say why", false},
		"data null":  {200, "application/json", `{"jsonrpc":"2.0","id":$id,"error":{"code":-32602,"message":"no such city","data":null}}`, "tool_failed", "no such city", false},
		"data none":  {200, "application/json", `{"jsonrpc":"2.0","id":$id,"error":{"code":-32602,"message":"no such city","data":{}}}`, "tool_failed", "no such city", false},
		"data alone": {200, "application/json", `{"jsonrpc":"2.0","id":$id,"error":{"code":-32602,"data":["x y"]}}`, "tool_failed", `["x y"]`, false},
		"400 data":   {400, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no such city","data":[1,2]}}`, "tool_failed", "answered 400: no such city: [1,2]", false},
		"rpc text":   {200, "application/json", `{"jsonrpc":"2.0","id":$id,"error":"no such city"}`, "tool_failed", "no such city", false},
		"rpc odd":    {200, "application/json", `{"jsonrpc":"2.0","id":$id,"error":{"code":"E1","message":{"detail":"no such city"}}}`, "tool_failed", "no such city", false},
		"rpc id":     {200, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`, "tool_failed", "parse error", false},
	} {
		t.Run(name, func(t *testing.T) {
			var bad atomic.Bool
			var calls, sessions atomic.Int64
			cfg := playedBy(t, func(w http.ResponseWriter, r *http.Request, method string) {
				switch {
				case method == "initialize":
					sessions.Add(1)
					reply(w, r, helloResult)
				case method == "tools/list":
					reply(w, r, listResult)
				case method == "tools/call" && bad.Load():
					calls.Add(1)
					w.Header()["Content-Type"] = []string{c.kind}
					w.WriteHeader(c.status)
					fmt.Fprint(w, strings.ReplaceAll(c.body, "$id", id(r)))
				case method == "tools/call":
					reply(w, r, hiResult)
				default:
					normal(w, r)
				}
			})
			var log bytes.Buffer
			cfg.Log = slog.New(slog.NewTextHandler(&locked{w: &log}, nil))
			s := started(t, cfg)
			bad.Store(true)
			_, err := call(t, s, "it.put", `{}`)
			shown, ok := errors.AsType[*plugins.Error](err)
			if !ok || shown.Code != c.code || shown.Retryable != c.retryable || !strings.Contains(shown.Message, c.want) {
				t.Errorf("got %#v; want %s, %q", err, c.code, c.want)
			}
			if strings.HasPrefix(name, "data") && ok && shown.Message != c.want {
				t.Errorf("got %q; want %q", shown.Message, c.want)
			}
			if strings.HasPrefix(c.want, "answered") {
				if h := s.Health(); h.OK || !strings.Contains(h.Detail, c.want) {
					t.Errorf("health: %+v", h)
				}
			}
			bad.Store(false)
			if out, err := call(t, s, "it.put", `{}`); err != nil || out.ResultSummary != "hi" {
				t.Errorf("the next call: %+v, %v", out, err)
			}
			if h := s.Health(); !h.OK {
				t.Errorf("health after it: %+v", h)
			}
			if calls.Load() != 1 || sessions.Load() != 1 {
				t.Errorf("%d calls, %d sessions", calls.Load(), sessions.Load())
			}
			must(t, s.Close(context.Background()))
			if strings.HasPrefix(c.want, "answered") && !strings.Contains(log.String(), c.want) {
				t.Errorf("not in the log: %s", log.String())
			}
		})
	}
}

// locked is a writer for several goroutines.
type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// A server that refuses the first request says why.
func TestConnect_RefusalIsTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status     int
		kind, body string
		want       string
	}{
		"403":      {403, "text/plain", "Access is only allowed at localhost:7833", "answered 403: Access is only allowed at localhost:7833"},
		"401":      {401, "application/json", `{"error":"invalid_token"}`, "answered 401: invalid_token"},
		"web site": {200, "text/html", "<title>My site</title>", "answered with a web page: My site"},
		"404 page": {404, "text/html", "<title>Not here</title>", "answered 404: Not here; it speaks neither streamable HTTP nor HTTP+SSE"},
		"503":      {503, "", "", "answered 503 Service Unavailable"},
		"rpc":      {200, "application/json", `{"jsonrpc":"2.0","id":$id,"error":{"code":-32000,"message":"no license"}}`, "no license"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := playedBy(t, func(w http.ResponseWriter, r *http.Request, _ string) {
				w.Header().Set("Content-Type", c.kind)
				w.WriteHeader(c.status)
				fmt.Fprint(w, strings.ReplaceAll(c.body, "$id", id(r)))
			})
			cfg.Required = true
			s := started(t, cfg)
			if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v; want %q", err, c.want)
			}
			if h := s.Health(); h == nil || h.OK || !strings.Contains(h.Detail, c.want) {
				t.Errorf("health: %+v", h)
			}
		})
	}
}

// A session that is gone, in any form, is joined anew, and the call is made again once.
func TestCall_LostSession(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
	}{
		"404":         {404, "not found"},
		"404 rpc":     {404, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`},
		"400 words":   {400, "Bad Request: No valid session ID provided"},
		"400 rpc":     {400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}`},
		"401":         {401, `{"error":"session expired"}`},
		"410":         {410, "gone"},
		"422":         {422, `{"detail":"Invalid session"}`},
		"rpc -32600":  {200, `{"jsonrpc":"2.0","id":$id,"error":{"code":-32600,"message":"Session terminated"}}`},
		"rpc -32001":  {200, `{"jsonrpc":"2.0","id":$id,"error":{"code":-32001,"message":"Unknown session id"}}`},
		"rpc no id":   {200, `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Session not found"}}`},
		"stays away":  {404, "not found"},
		"500 unknown": {404, "{}"},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			joined, made, lost, done := 0, 0, map[string]bool{}, 0
			cfg := playedBy(t, func(w http.ResponseWriter, r *http.Request, method string) {
				mu.Lock()
				defer mu.Unlock()
				session := r.Header.Get("Mcp-Session-Id")
				switch {
				case method == "initialize":
					joined++
					w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", joined))
					reply(w, r, helloResult)
				case r.Method == http.MethodPost && id(r) != "" && (lost[session] || method == "tools/call" && name == "stays away"):
					made++
					w.WriteHeader(c.status)
					fmt.Fprint(w, strings.ReplaceAll(c.body, "$id", id(r)))
				case method == "tools/list":
					reply(w, r, listResult)
				case method == "tools/call":
					done++
					reply(w, r, hiResult)
				default:
					normal(w, r)
				}
			})
			s := started(t, cfg)
			mu.Lock()
			lost["s1"] = true
			mu.Unlock()
			out, err := call(t, s, "it.put", `{}`)
			if name == "stays away" { // it is not joined for ever
				mu.Lock()
				defer mu.Unlock()
				if err == nil || made > 3 {
					t.Errorf("got %+v, %v, refused %d times", out, err, made)
				}
				return
			}
			if err != nil || out.ResultSummary != "hi" {
				t.Errorf("got %+v, %v", out, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if joined != 2 || made != 1 || done != 1 {
				t.Errorf("joined %d times, refused %d, done %d", joined, made, done)
			}
		})
	}
}

// A stream for the server's own messages that ends at once, or never begins, costs nothing.
func TestStream_EndsAtOnce(t *testing.T) {
	t.Parallel()
	for name, get := range map[string]http.HandlerFunc{
		"200 empty": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/event-stream") },
		"200 json":  func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") },
		"500":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"500 stream": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusInternalServerError)
		},
		"404":         func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"no headers":  func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"no response": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"comment, end": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, ": hi\n\n")
		},
		"odd event": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: what\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":7}\n\ndata: {\"jsonrpc\":\"1.0\"}\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			var gets, sessions atomic.Int64
			asked := make(chan struct{}, 100)
			cfg := playedBy(t, func(w http.ResponseWriter, r *http.Request, method string) {
				switch {
				case r.Method == http.MethodGet:
					gets.Add(1)
					asked <- struct{}{}
					get(w, r)
				case method == "initialize":
					sessions.Add(1)
					w.Header().Set("Mcp-Session-Id", "one")
					reply(w, r, helloResult)
				case method == "tools/list":
					reply(w, r, listResult)
				case method == "tools/call":
					reply(w, r, hiResult)
				default:
					normal(w, r)
				}
			})
			s := started(t, cfg)
			<-asked
			for range 5 {
				if out, err := call(t, s, "it.put", `{}`); err != nil || out.ResultSummary != "hi" {
					t.Errorf("got %+v, %v", out, err)
				}
			}
			if sessions.Load() != 1 || gets.Load() > 5 { // net/http repeats a GET that was cut
				t.Errorf("%d sessions, %d streams", sessions.Load(), gets.Load())
			}
		})
	}
}

// A stream for the server's own messages that cannot be opened at first is opened later.
func TestStream_OpensLater(t *testing.T) {
	for name, fail := range map[string]http.HandlerFunc{
		"no response": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"503":         func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var gets, lists, open atomic.Int64
			cfg := playedBy(t, func(w http.ResponseWriter, r *http.Request, method string) {
				switch {
				case r.Method == http.MethodGet && gets.Add(1) < 4: // net/http repeats a GET that was cut
					fail(w, r)
				case r.Method == http.MethodGet:
					w.Header().Set("Content-Type", "text/event-stream")
					w.(http.Flusher).Flush()
					open.Add(1)
					<-r.Context().Done()
				case method == "initialize":
					reply(w, r, helloResult)
				case method == "tools/list":
					lists.Add(1)
					reply(w, r, listResult)
				default:
					normal(w, r)
				}
			})
			started(t, cfg)
			until(t, func() bool { return open.Load() > 0 && (name != "503" || lists.Load() > 1) }) // a change may have been told before
		})
	}
}

// A server that has only the transport of 2024 is spoken to.
func TestConnect_SSEOnly(t *testing.T) {
	t.Parallel()
	for _, status := range []int{404, 405, 400} {
		var mu sync.Mutex
		streams := map[string]chan string{}
		n := 0
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			session := r.URL.Query().Get("session")
			mu.Lock()
			out := streams[session]
			mu.Unlock()
			switch {
			case r.Method == http.MethodGet && r.URL.Path == "/sse":
				mu.Lock()
				n++
				name := fmt.Sprint("s", n)
				out := make(chan string, 10)
				streams[name] = out
				mu.Unlock()
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprintf(w, "event: endpoint\ndata: /messages?session=%s\n\n", name)
				for {
					w.(http.Flusher).Flush()
					select {
					case m := <-out:
						fmt.Fprintf(w, ": ping\n\nevent: message\ndata: %s\n\n", m)
					case <-r.Context().Done():
						return
					}
				}
			case r.URL.Path == "/messages" && out != nil:
				var m struct {
					ID     json.RawMessage
					Method string
				}
				_ = json.NewDecoder(r.Body).Decode(&m)
				w.WriteHeader(http.StatusAccepted)
				result := map[string]string{"initialize": helloResult, "tools/list": listResult, "tools/call": hiResult}[m.Method]
				switch {
				case m.ID == nil:
				case result == "":
					out <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
				default:
					out <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
				}
			case r.URL.Path == "/messages":
				http.Error(w, "Could not find session", http.StatusNotFound)
			default:
				http.Error(w, "no", status)
			}
		}))
		t.Cleanup(srv.Close)
		t.Cleanup(srv.CloseClientConnections)
		s := started(t, mcp.Config{URL: srv.URL + "/sse"})
		for range 2 {
			if out, err := call(t, s, "it.put", `{}`); err != nil || out.ResultSummary != "hi" {
				t.Errorf("%d: got %+v, %v", status, out, err)
			}
		}
		mu.Lock()
		clear(streams) // the server has lost its sessions, and keeps the stream
		mu.Unlock()
		if out, err := call(t, s, "it.put", `{}`); err != nil || out.ResultSummary != "hi" {
			t.Errorf("%d: after the loss: %+v, %v", status, out, err)
		}
	}
}
