// Package llmtest simulates servers of language models for tests. It answers with a Script in the streaming protocols of
// OpenAI (chat completions and responses), Anthropic (messages), Google (streamGenerateContent) and Ollama (chat), and
// records the requests.
package llmtest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/batonrun/baton/plugins/llm"
)

// Server simulates all providers, distinguished by path. The base URL is URL for Anthropic, Google and Ollama, and
// URL + "/v1" for OpenAI.
type Server struct {
	URL string

	answer func(*Request) Script
	http   *httptest.Server
	stop   context.CancelFunc

	mu       sync.Mutex // guards requests
	requests []*Request
}

// Request is a request received by a server.
type Request struct {
	Path   string
	Header http.Header
	Body   []byte
	Gone   <-chan struct{} // closed if the client disconnects before the answer ends
}

// New starts a Server on a loopback port. It calls answer, possibly concurrently, for the Script of each request. The
// caller closes it.
func New(answer func(*Request) Script) *Server {
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{answer: answer, stop: stop}
	s.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(ctx, w, r) }))
	s.URL = s.http.URL
	return s
}

// Close ends all running answers and frees the port.
func (s *Server) Close() {
	s.stop()
	s.http.Close()
}

// Requests returns the requests so far in order of arrival.
func (s *Server) Requests() []*Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*Request(nil), s.requests...)
}

// Each answers the nth request with the nth script, and later ones with a failure.
func Each(scripts ...Script) func(*Request) Script {
	var mu sync.Mutex
	return func(*Request) Script {
		mu.Lock()
		defer mu.Unlock()
		if len(scripts) == 0 {
			return Script{Fail: &llm.Error{Status: http.StatusTeapot, Message: "no script is left"}}
		}
		first := scripts[0]
		scripts = scripts[1:]
		return first
	}
}

// Always answers every request with script.
func Always(script Script) func(*Request) Script { return func(*Request) Script { return script } }

func (s *Server) serve(closed context.Context, w http.ResponseWriter, r *http.Request) {
	p := protocolOf(r.URL.Path)
	if p == nil || r.Method != http.MethodPost {
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	gone := make(chan struct{})
	req := &Request{Path: r.URL.RequestURI(), Header: r.Header, Body: body, Gone: gone}
	s.mu.Lock()
	s.requests = append(s.requests, req)
	s.mu.Unlock()

	script := s.answer(req)
	if script.Fail != nil {
		fail(w, p, script.Fail)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(closed, cancel)()
	out := open(ctx, w, p, script)
	if script.Body != "" || script.Status != 0 {
		out.write(script.Body)
	} else {
		p.answer(out, req, script)
	}
	if out.close != nil && !out.cut {
		_ = out.close() // ignores a disconnected client
	}
	if out.lost || r.Context().Err() != nil {
		close(gone)
	}
	if out.cut {
		panic(http.ErrAbortHandler) // closes the connection without the end required by HTTP
	}
}

// A protocol is one provider's protocol.
type protocol struct {
	name   string
	lines  bool // JSON lines instead of events
	answer func(*stream, *Request, Script)
	fault  func(*llm.Error) any // the body of an error response
}

func protocolOf(path string) *protocol {
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return &protocol{name: "chat", answer: chat, fault: openaiFault}
	case strings.HasSuffix(path, "/responses"):
		return &protocol{name: "responses", answer: responses, fault: openaiFault}
	case strings.HasSuffix(path, "/v1/messages"):
		return &protocol{name: "anthropic", answer: messages, fault: anthropicFault}
	case strings.HasSuffix(path, ":streamGenerateContent"):
		return &protocol{name: "google", answer: generate, fault: googleFault}
	case path == "/api/chat":
		return &protocol{name: "ollama", lines: true, answer: ollama, fault: ollamaFault}
	}
	return nil
}
