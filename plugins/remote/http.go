package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/web"
)

// errStalled is the cause after Config.Idle without data.
var errStalled = errors.New("nothing came in time")

// post sends body and returns the answer's stream, which the caller closes. last is the id of the last event received,
// or empty.
func (a *Agent) post(ctx context.Context, body []byte, key, last string) (*web.Body, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Idempotency-Key", key)
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	if parent := plugins.TraceParent(ctx); parent != "" {
		req.Header.Set("Traceparent", parent)
	}
	res, err := a.do(req)
	if err != nil {
		return nil, a.unreachable(ctx, err)
	}
	if res.StatusCode/100 != 2 {
		defer res.Body.Close()
		return nil, a.refused(res)
	}
	stream := web.BodyOf(res, a.cfg.MaxStream)
	if !stream.HasEvents() {
		defer res.Body.Close()
		return nil, &plugins.Error{Code: "not_agui", Message: "The remote agent does not answer with an event stream" + a.said(stream)}
	}
	a.observe(nil)
	return stream, nil
}

// do sends a request with the configured headers.
func (a *Agent) do(req *http.Request) (*http.Response, error) {
	req.Header.Set("Content-Type", "application/json")
	for name, v := range a.cfg.Headers {
		req.Header.Set(name, v)
	}
	return a.client.Do(req)
}

const (
	threadID  = "{threadId}"    // in Config.Stop
	stopLimit = 3 * time.Second // of its request, during which a cancelled run waits
)

// stop stops the thread's run at the remote, if there is a URL for that. ctx can be done.
func (a *Agent) stop(ctx context.Context, thread string) {
	if a.cfg.Stop == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.ReplaceAll(a.cfg.Stop, threadID, thread), strings.NewReader("{}"))
	if err == nil {
		var res *http.Response
		if res, err = a.do(req); err == nil {
			defer res.Body.Close()
			if res.StatusCode/100 != 2 {
				err = a.refused(res)
			}
		}
	}
	if err != nil {
		a.warn("the run of a remote agent was not stopped", err)
	}
}

// warn logs the error of a request without its URL.
func (a *Agent) warn(what string, err error) {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	a.cfg.Log.Warn(what, "agent", a.cfg.Name, "host", a.host, "error", a.secrets.Hide(err.Error()))
}

// unreachable returns the error of a request without response. The client's error contains the URL and is only logged.
func (a *Agent) unreachable(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errStalled):
		return stalled()
	case cause != nil:
		return cause
	}
	if led, ok := errors.AsType[*web.Redirect](err); ok {
		return &plugins.Error{Code: "redirected", Message: "The remote agent cannot be used: " + led.Error()}
	}
	a.warn("remote agent not reached", err)
	return &plugins.Error{Code: "unreachable", Message: "The remote agent cannot be reached", Retryable: true}
}

func stalled() error {
	return &plugins.Error{Code: "stalled", Message: "The remote agent sent nothing for too long", Retryable: true}
}

// refused returns the error of an unsuccessful response.
func (a *Agent) refused(res *http.Response) error {
	e := &plugins.Error{Code: "refused", Message: fmt.Sprintf("The remote agent refuses the request with status %d", res.StatusCode) + a.said(web.BodyOf(res, a.cfg.MaxStream))}
	switch s := res.StatusCode; {
	case s == http.StatusUnauthorized || s == http.StatusForbidden:
		e.Code = "unauthorized"
	case s == http.StatusNotFound:
		e.Code = "remote_not_found"
	case s == http.StatusTooManyRequests:
		e.Code, e.Retryable = "rate_limited", true
	case s == http.StatusConflict:
		e.Code, e.Retryable = "remote_busy", true
	case s >= 500 || s == http.StatusRequestTimeout:
		e.Code, e.Retryable = "remote_failed", true
	}
	return e
}

// said returns the description in a response that is no event stream, behind a colon, or "".
func (a *Agent) said(body *web.Body) string {
	if s := body.Sentence(a.secrets.Hide); s != "" {
		return ": " + s
	}
	return ""
}

// clip cuts s after n bytes.
func clip(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "")
}
