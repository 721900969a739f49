package wire

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/batonrun/baton/plugins/llm"
)

// Shape returns the body of a request for c. It is a pure function of its arguments and the model's configuration.
type Shape func(c *Conversation, caps Caps) any

// maxSends limits the requests for one answer: the first and eight in other forms.
const maxSends = 9

// Exchange sends req and returns the response. If the provider refuses the form of the request, Exchange changes what it knows of
// the provider and sends it again; it never repeats a request that was accepted or refused. The caller closes the response's body.
func (e *Endpoint) Exchange(ctx context.Context, url string, req llm.Request, shape Shape) (*http.Response, error) {
	var s, trial *state
	var climb climb
	e.known.use(e.Model, func(m *model) {
		s, trial, climb.usual = cmp.Or(m.trial, m.state), m.trial, m.usual
		m.trial = nil
	})
	var first error // the first refusal
	var tried refused
	for n := 1; ; n++ {
		sent, err := e.form(req, s, shape)
		if err != nil {
			return nil, err
		}
		k := keyOf("request", sent.body)
		if tried.has(k) {
			return nil, first
		}
		tried = tried.with(k)
		e.sent, e.accepted = sent, false
		res, err := e.Post(ctx, url, sent.body)
		if err == nil {
			e.known.use(e.Model, func(m *model) { m.usual |= rungsOf(sent) })
			if e.accepted = true; trial == nil { // what was learned from a failed answer is proven by an answer
				e.remember(s)
			}
			return reportLeftOut(res, req, sent.c)
		}
		failed, ok := errors.AsType[*llm.Error](err)
		if !ok {
			return nil, err
		}
		if s = climb.next(failed, sent); s == nil || n == maxSends {
			if failed.Status == http.StatusInternalServerError {
				e.known.use(e.Model, func(m *model) { m.usual |= climb.tried })
			}
			return nil, err
		}
		first = cmp.Or(first, err)
	}
}

// form returns req as it is sent in the form of s.
func (e *Endpoint) form(req llm.Request, s *state, shape Shape) (*sent, error) {
	c, err := e.arrange(req, s)
	if err != nil {
		return nil, err
	}
	body, err := encode(shape(c, s.caps), s.caps.Without)
	if err != nil {
		return nil, e.Refuse("the request: %s", err)
	}
	return &sent{s, c, body}, nil
}

// complete remembers the lessons of a request with a complete answer.
func (e *Endpoint) complete() {
	if e.accepted {
		e.remember(e.sent.state)
	}
	e.accepted = false
}

// reportLeftOut reports the tools that were left out.
func reportLeftOut(res *http.Response, req llm.Request, c *Conversation) (*http.Response, error) {
	if req.LeftOut == nil || len(c.LeftOut) == 0 {
		return res, nil
	}
	if err := req.LeftOut(c.LeftOut); err != nil {
		_ = res.Body.Close()
		return nil, err
	}
	return res, nil
}

// sent is a request as it was sent.
type sent struct {
	state *state
	c     *Conversation
	body  json.RawMessage
}
