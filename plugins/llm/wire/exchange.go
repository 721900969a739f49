package wire

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"sync"

	"github.com/batonrun/baton/plugins/llm"
)

// Shape returns the body of a request for c. It is a pure function of its arguments and the model's configuration.
type Shape func(c *Conversation, caps Caps) any

// maxSends limits the requests for one answer.
const maxSends = 8

// Exchange sends req and returns the response. If the provider refuses the form of the request, Exchange changes what it knows of
// the provider and sends it again; it never repeats a request that was accepted or refused. The caller closes the response's body.
func (e *Endpoint) Exchange(ctx context.Context, url string, req llm.Request, shape Shape) (*http.Response, error) {
	s, trial := e.known.next(e.Model)
	var first error // the first refusal
	var tried refused
	for n := 1; ; n++ {
		c, err := e.arrange(req, s)
		if err != nil {
			return nil, err
		}
		body, err := encode(shape(c, s.caps), s.caps.Without)
		if err != nil {
			return nil, e.Refuse("the request: %s", err)
		}
		k := keyOf("request", body)
		if tried.has(k) {
			return nil, first
		}
		tried = tried.with(k)
		sent := &sent{c, body, n}
		e.sent = sent
		res, err := e.Post(ctx, url, body)
		if err == nil {
			e.proven = func() { e.remember(s) }
			if !trial { // what was learned from a failed answer is proven by an answer
				e.proven()
			}
			e.refused = func(err *llm.Error) *state { return s.learnFrom(err, sent) }
			return reportLeftOut(res, req, c)
		}
		next := s.learn(err, sent)
		if next == nil || n == maxSends {
			return nil, err
		}
		if s = next; first == nil {
			first = err
		}
	}
}

// teach learns from a failure in an answer: some servers refuse a request in a stream. The next request tries the lesson.
func (e *Endpoint) teach(err *llm.Error) {
	if e.refused == nil {
		return
	}
	if next := e.refused(err); next != nil {
		err.Retryable = true
		e.known.try(e.Model, next)
	}
	e.refused, e.proven = nil, nil
}

// complete remembers the lessons of a request with a complete answer.
func (e *Endpoint) complete() {
	if e.proven != nil {
		e.proven()
	}
	e.refused, e.proven = nil, nil
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
	c    *Conversation
	body json.RawMessage
	n    int // of the requests for this answer, from 1
}

// encode returns body as JSON without some of its members.
func encode(body any, without []string) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(body); err != nil || len(without) == 0 {
		return buf.Bytes(), err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(buf.Bytes(), &members); err != nil {
		return nil, err
	}
	for _, name := range without {
		delete(members, name)
	}
	return encode(members, nil)
}

// knowledge has the known limits of a provider's models. It is safe for concurrent use.
type knowledge struct {
	caps Caps // from configuration

	mu     sync.Mutex        // guards the fields below
	models map[string]*state // by name
	trials map[string]*state // what a failed answer may have taught, by the model's name

	schemas map[key]normalised // by schema and dialect
}

// normalised is a result of normalise.
type normalised struct {
	schema json.RawMessage
	err    error
}

// maxSchemas limits the schemas that are remembered.
const maxSchemas = 1000

// normalise is normalise, once for each schema: an agent sends the same ones in each request.
func (k *knowledge) normalise(raw json.RawMessage, d Dialect) (json.RawMessage, error) {
	id := keyOf("schema", []byte(d), raw)
	k.mu.Lock()
	n, ok := k.schemas[id]
	k.mu.Unlock()
	if ok {
		return n.schema, n.err
	}
	n.schema, n.err = normalise(raw, d)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.schemas == nil || len(k.schemas) >= maxSchemas {
		k.schemas = make(map[key]normalised)
	}
	k.schemas[id] = n
	return n.schema, n.err
}

// state is the knowledge of one model. It does not change.
type state struct {
	caps    Caps
	refused refused
	learned []lesson
}

// lesson is one thing that was learned from a refusal.
type lesson struct {
	what     string
	sentence string // the provider's
}

// of returns the state of a model.
func (k *knowledge) of(model string) *state {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.models[model]; s != nil {
		return s
	}
	return &state{caps: k.caps}
}

// try has the next request to a model try the lesson of a failed answer.
func (k *knowledge) try(model string, s *state) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.trials == nil || len(k.trials) >= maxModels {
		k.trials = make(map[string]*state)
	}
	k.trials[model] = s
}

// next returns the state for the next request to a model: once the one to be tried, else the known one.
func (k *knowledge) next(model string) (s *state, trial bool) {
	k.mu.Lock()
	s, trial = k.trials[model]
	delete(k.trials, model)
	k.mu.Unlock()
	if trial {
		return s, true
	}
	return k.of(model), false
}

// maxModels limits the models of an Endpoint about which something is remembered.
const maxModels = 100

// remember keeps the lessons of a request that was accepted, and logs them.
func (e *Endpoint) remember(s *state) {
	e.known.mu.Lock()
	defer e.known.mu.Unlock()
	before := e.known.models[e.Model]
	if before == s || before == nil && len(s.learned) == 0 {
		return
	}
	for _, l := range s.learned {
		if before == nil || !slices.Contains(before.learned, l) {
			cmp.Or(e.Log, slog.Default()).Info("learned what a model accepts", "provider", e.Provider, "model", e.Model, "learned", l.what, "refusal", l.sentence)
		}
	}
	if e.known.models == nil || len(e.known.models) >= maxModels {
		e.known.models = make(map[string]*state)
	}
	e.known.models[e.Model] = s
}

// Learned returns the rules learned from the provider's refusals, for operators.
func (e *Endpoint) Learned() (list []string) {
	for _, l := range e.known.of(e.Model).learned {
		list = append(list, l.what)
	}
	return list
}

// Takes implements llm.Taker.
func (e *Endpoint) Takes(mediaType string, url bool) bool {
	return e.known.of(e.Model).caps.Takes(mediaType, url)
}
