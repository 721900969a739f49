// Package wire is what the models of providers have in common: how they ask over HTTP, how an answer is gathered while
// it is shown, and by which codes failures go.
package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
)

// Endpoint is where one model is asked.
type Endpoint struct {
	Provider string // as it is named in configuration, in usage and in errors
	Model    string
	Client   *http.Client
	Header   http.Header
	Secret   string // the key, which no message shows
}

// For returns e for a request with options, which may name another model.
func (e *Endpoint) For(o llms.CallOptions) *Endpoint {
	other := *e
	if o.Model != "" {
		other.Model = o.Model
	}
	return &other
}

// Client returns a client like c, or one of its own for nil, that follows no redirect to another host, where the key
// would go with it, and has no time limit but its requests' contexts.
func Client(c *http.Client) *http.Client {
	if c == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConnsPerHost = t.MaxIdleConns // conversations go on where they were
		t.DisableCompression = true            // what is compressed arrives in lumps
		c = &http.Client{Transport: t}
	}
	own := *c
	own.Timeout = 0
	own.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if from := via[0].URL; req.URL.Host != from.Host || req.URL.Scheme != from.Scheme {
			return errRedirect
		}
		if c.CheckRedirect != nil {
			return c.CheckRedirect(req, via)
		}
		if len(via) >= 10 {
			return errRedirect
		}
		return nil
	}
	return &own
}

var errRedirect = errors.New("is redirected elsewhere, which is not followed")

// Post asks with body as JSON. The caller closes the answer's body; an answer that is no success is an *llm.Error.
func (e *Endpoint) Post(ctx context.Context, url string, body any) (*http.Response, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(body); err != nil {
		return nil, fmt.Errorf("%s: encode the request: %w", e.Provider, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, &buf)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.Provider, err)
	}
	maps.Copy(req.Header, e.Header)
	req.Header.Set("Content-Type", "application/json")
	res, err := e.Client.Do(req)
	if err != nil {
		return nil, e.Lost(ctx, err)
	}
	if res.StatusCode != http.StatusOK {
		defer res.Body.Close()
		return nil, e.Refused(res)
	}
	res.Body = &bounded{res.Body, maxAnswer}
	return res, nil
}

// maxAnswer is how much of an answer is read, in bytes. One of 200 000 tokens has some 60 MB of events.
const maxAnswer = 128 << 20

// bounded is a body that fails with errLong when it is longer than left.
type bounded struct {
	io.ReadCloser
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errLong
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// maxFault is how much of a provider's complaint is read, in bytes.
const maxFault = 64 << 10

// Refused returns what an answer that is no success says, of which it reads the body.
func (e *Endpoint) Refused(res *http.Response) *llm.Error {
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxFault)) // what could be read is all there is to say
	err := e.Fault(res.StatusCode, body)
	if after := retryAfter(res.Header); after > 0 {
		err.RetryAfter = after
	}
	return err
}

// clean returns s without the key, on one line and of a bearable length.
func (e *Endpoint) clean(s string) string {
	if e.Secret != "" {
		s = strings.ReplaceAll(s, e.Secret, "[key]")
	}
	s = strings.Join(strings.Fields(s), " ")
	const most = 1000
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
