// Package wire has the common parts of the providers' models: their configuration, HTTP requests, the assembly of streamed
// answers, and error codes.
package wire

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm/pace"
	"github.com/batonrun/baton/plugins/web"
)

// Endpoint is one model of a provider.
type Endpoint struct {
	Provider string // its name in configuration, usage and errors
	Model    string
	Server   string // the known server with OpenAI's protocol, "" for another
	Client   *http.Client
	Header   http.Header
	Secret   string // the key, which is removed from messages

	asked *url.URL // of the latest request, for error messages; nil if there was none
	Log   *slog.Logger

	sent     *sent // the latest request; nil if there was none
	accepted bool  // sent was accepted, and its answer is not over
	pace     *pace.Pacer
	address  string // a hash of its base URL
	known    *knowledge
}

// For returns e for a request with options, which can name another model.
func (e *Endpoint) For(o llms.CallOptions) *Endpoint {
	other := *e
	if o.Model != "" {
		other.Model = o.Model
	}
	return &other
}

// origin identifies the model for the data that its answers carry. The same model at another address is another one.
func (e *Endpoint) origin() string { return e.Provider + "/" + e.Model + "@" + e.address }

// Post sends a JSON body. The caller closes the response's body; a status other than 200 becomes an *llm.Error.
func (e *Endpoint) Post(ctx context.Context, address string, content []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.Provider, err)
	}
	maps.Copy(req.Header, e.Header)
	req.Header.Set("Content-Type", "application/json")
	res, err := e.Client.Do(req)
	if err != nil {
		return nil, e.Lost(ctx, err)
	}
	e.heed(res.Header)
	body := web.BodyOf(res, maxAnswer)
	res.Body = body
	if res.StatusCode == http.StatusOK {
		e.pace.Model(e.Model).Accepted()
		return res, nil
	}
	defer res.Body.Close()
	asked := *e
	if res.Request != nil {
		asked.asked = res.Request.URL
	}
	after := cmp.Or(delay(res.Header.Get("Retry-After-Ms")+"ms"), delay(res.Header.Get("Retry-After")))
	return nil, asked.fault(res.StatusCode, body.Fault(), after)
}

// maxAnswer limits an answer in bytes. An answer of 200 000 tokens has about 60 MB of events.
const maxAnswer = 128 << 20

// MaxEvent limits an event or line of an answer, in bytes.
const MaxEvent = 16 << 20
