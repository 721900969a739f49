package mcp

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"time"

	"github.com/batonrun/baton/plugins"
)

// newClient returns a client that adds the headers of cfg and follows no redirect to another host.
func newClient(cfg *Config) *http.Client {
	c := new(http.Client)
	if cfg.Client != nil {
		*c = *cfg.Client
	}
	if c.Transport == nil {
		c.Transport = &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout:    10 * time.Second,
			IdleConnTimeout:        30 * time.Second,
			DisableCompression:     true,
			ForceAttemptHTTP2:      true,
			MaxResponseHeaderBytes: 64 << 10,
		}
	}
	c.Transport = &caller{next: c.Transport, headers: cfg.Headers}
	c.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		first := via[0]
		if req.URL.Host != first.URL.Host || req.URL.Scheme != first.URL.Scheme || req.Method != first.Method || len(via) > 3 {
			return errors.New("the tool server redirects to another host, which is not followed")
		}
		return nil
	}
	return c
}

// caller adds our headers to requests and limits responses.
type caller struct {
	next    http.RoundTripper
	headers map[string]string
}

// goodbye limits the request that ends a session.
const goodbye = 2 * time.Second

func (c *caller) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := req.Context(), context.CancelFunc(func() {})
	if req.Method == http.MethodDelete {
		ctx, cancel = context.WithTimeout(ctx, goodbye)
	}
	req = req.Clone(ctx)
	if parent := plugins.TraceParent(ctx); parent != "" {
		req.Header.Set("Traceparent", parent)
	}
	for name, v := range c.headers {
		req.Header.Set(name, v)
	}
	posts := req.Method == http.MethodPost // other requests only fetch the response
	if posts {
		mark(ctx, true)
	}
	res, err := c.next.RoundTrip(req)
	if err != nil {
		cancel()
		return nil, err
	}
	if posts && res.StatusCode == http.StatusNotFound { // an unknown session
		mark(ctx, false)
	}
	body := &answer{ReadCloser: res.Body, done: cancel, left: -1}
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind != "text/event-stream" { // the size of events is limited elsewhere
		body.left = maxFrame
	}
	res.Body = body
	return res, nil
}

// CloseIdleConnections closes idle connections.
func (c *caller) CloseIdleConnections() {
	if t, ok := c.next.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// answer is a response's body that fails after left bytes, unless left is negative.
type answer struct {
	io.ReadCloser
	done context.CancelFunc
	left int
}

func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if a.left < 0 {
		return n, err
	}
	if a.left -= n; a.left < 0 {
		a.left = 0
		return 0, errors.New("the answer is too large")
	}
	return n, err
}

func (a *answer) Close() error {
	defer a.done()
	return a.ReadCloser.Close()
}

func base64Of(data []byte) []byte {
	return base64.StdEncoding.AppendEncode(nil, data)
}
