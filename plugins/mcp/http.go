package mcp

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"math"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/web"
)

// newClient returns a client that adds the headers of cfg and follows no redirect to another host.
func newClient(cfg *Config, log *slog.Logger) *http.Client {
	c := web.NewClient(cfg.Client)
	c.Transport = &caller{next: c.Transport, headers: cfg.Headers, log: log}
	return c
}

// caller adds our headers to requests and reads the responses of a connection.
type caller struct {
	next    http.RoundTripper
	headers map[string]string
	conn    *connection // nil for the server's own client, which is the base of its connections' clients
	log     *slog.Logger
}

// of returns the client of a connection.
func (c *caller) of(base *http.Client, conn *connection) *http.Client {
	client := *base
	client.Transport = &caller{c.next, c.headers, conn, c.log}
	return &client
}

const (
	goodbye   = 2 * time.Second // limit of the request that ends a session
	sessionID = "Mcp-Session-Id"
	endless   = math.MaxInt64 // bytes of a stream, whose messages have a limit
)

func (c *caller) RoundTrip(req *http.Request) (*http.Response, error) {
	req = c.prepared(req)
	switch {
	case req.Method == http.MethodPost:
		return c.post(req)
	case req.Method == http.MethodDelete:
		ctx, cancel := context.WithTimeout(req.Context(), goodbye)
		defer cancel()
		res, err := c.next.RoundTrip(req.WithContext(ctx))
		if err == nil {
			_ = res.Body.Close()
			res.Body = http.NoBody
		}
		return res, err
	case !c.conn.old && req.Header.Get("Last-Event-Id") == "":
		in := &inbox{done: req.Context().Done(), conn: c.conn, open: func() (*http.Response, error) { return c.next.RoundTrip(req.Clone(req.Context())) }}
		return answered(req, http.StatusOK, in), nil
	}
	res, err := c.next.RoundTrip(req)
	if err == nil && res.StatusCode == http.StatusOK {
		x, _ := req.Context().Value(exchangeKey{}).(*exchange)
		if c.conn.old {
			x = nil
		}
		res = answered(req, http.StatusOK, &stream{tap: c.conn.tap, own: x, body: web.BodyOf(res, endless)})
	}
	return res, err
}

func (c *caller) prepared(req *http.Request) *http.Request {
	req = req.Clone(req.Context())
	if parent := plugins.TraceParent(req.Context()); parent != "" {
		req.Header.Set("Traceparent", parent)
	}
	for name, v := range c.headers {
		req.Header.Set(name, v)
	}
	return req
}

// post sends a message. The SDK ends the session after most errors of HTTP, so it gets them as errors of the one message,
// except for the loss of the session.
func (c *caller) post(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	_ = req.Body.Close()
	req.Body = io.NopCloser(bytes.NewReader(body))
	m, err := jsonrpc.DecodeMessage(body)
	if err != nil {
		return nil, err
	}
	x := c.conn.tap.begin(req.Context(), m)
	if x != nil && x.task != nil {
		if body, err = jsonrpc.EncodeMessage(m); err != nil {
			return nil, err
		}
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	res, err := c.next.RoundTrip(req)
	if err != nil || res.StatusCode/100 == 3 && res.Header.Get("Location") != "" {
		return res, err
	}
	if res.StatusCode/100 != 2 {
		return c.refused(req, res, x)
	}
	if x == nil || c.conn.old {
		_ = res.Body.Close()
		return answered(req, http.StatusAccepted, http.NoBody), nil
	}
	said := answered(req, http.StatusOK, &stream{tap: c.conn.tap, own: x, body: web.BodyOf(res, endless)})
	if session := res.Header.Get(sessionID); session != "" {
		said.Header.Set(sessionID, session)
	}
	return said, nil
}

// refused returns the response for a request that has been refused.
func (c *caller) refused(req *http.Request, res *http.Response, x *exchange) (*http.Response, error) {
	r := c.conn.tap.refusalOf(res)
	r.gone = r.lost(req.Header.Get(sessionID) != "" || c.conn.old)
	r.unexecuted = r.gone
	failed := &jsonrpc.Error{Code: -32000, Message: r.Error()}
	switch {
	case x == nil:
		c.log.Warn("the tool server refused a notification", "error", r)
	case x.method == "ping" && r.unknown(): // it has no pings; the SDK stops them then
		failed.Code = jsonrpc.CodeMethodNotFound
	}
	if x != nil {
		c.conn.tap.refuse(x, r, nil)
	}
	switch {
	case r.gone:
		return answered(req, http.StatusNotFound, http.NoBody), nil
	case x == nil:
		return answered(req, http.StatusAccepted, http.NoBody), nil
	case c.conn.old:
		return nil, r
	}
	said := &stream{err: io.EOF, body: web.BodyOf(res, 0)}
	said.put(&jsonrpc.Response{ID: x.id, Error: failed})
	return answered(req, http.StatusOK, said), nil
}

// answered returns a response with events.
func answered(req *http.Request, status int, body io.ReadCloser) *http.Response {
	return &http.Response{
		Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body, ContentLength: -1, Request: req,
	}
}

// CloseIdleConnections closes idle connections.
func (c *caller) CloseIdleConnections() {
	if t, ok := c.next.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}
