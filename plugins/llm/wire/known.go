package wire

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
)

// knowledge has the known limits of a provider's models. It is safe for concurrent use.
type knowledge struct {
	caps Caps // from configuration

	mu      sync.Mutex         // guards the fields below
	models  map[string]*model  // by name
	schemas map[key]normalised // by schema and dialect
}

// model is the knowledge of a model.
type model struct {
	state *state // proven by requests that were accepted
	trial *state // learned from a failed answer, for one request; nil if there is none
	usual rungs  // the parts about which a failure says nothing: requests with them were accepted
}

// maxModels limits the models of an Endpoint about which something is remembered.
const maxModels = 100

// use calls f with the knowledge of a model.
func (k *knowledge) use(name string, f func(*model)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	m := k.models[name]
	if m == nil {
		if k.models == nil || len(k.models) >= maxModels {
			k.models = make(map[string]*model)
		}
		m = &model{state: &state{caps: k.caps}}
		k.models[name] = m
	}
	f(m)
}

// of returns the state of a model.
func (k *knowledge) of(name string) (s *state) {
	k.use(name, func(m *model) { s = m.state })
	return s
}

// normalised is a result of normalise.
type normalised struct {
	schema json.RawMessage
	names  map[string]string
	err    error
}

// maxSchemas limits the schemas that are remembered.
const maxSchemas = 1000

// normalise is normalise, once for each schema: an agent sends the same ones in each request.
func (k *knowledge) normalise(raw json.RawMessage, d Dialect) normalised {
	id := keyOf("schema", []byte(d), raw)
	k.mu.Lock()
	n, ok := k.schemas[id]
	k.mu.Unlock()
	if ok {
		return n
	}
	n.schema, n.names, n.err = normalise(raw, d)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.schemas == nil || len(k.schemas) >= maxSchemas {
		k.schemas = make(map[key]normalised)
	}
	k.schemas[id] = n
	return n
}

// state is the knowledge of one model. It does not change.
type state struct {
	caps    Caps
	refused refused
	learned []lesson
}

func (s *state) clone() *state { return new(*s) }

// lesson is one thing that was learned from a refusal.
type lesson struct {
	what     string
	sentence string // the provider's
}

// remember keeps the lessons of a request that was accepted, and logs them without the words of the refusals.
func (e *Endpoint) remember(s *state) {
	e.known.use(e.Model, func(m *model) {
		learned := m.state // by another request, which s can lack
		for _, l := range s.learned {
			if !slices.Contains(m.state.learned, l) {
				cmp.Or(e.Log, slog.Default()).Info("learned what a model accepts", "provider", e.Provider, "model", e.Model, "learned", l.what)
				learned = s
			}
		}
		m.state = learned
	})
}

// maxLearned limits the lessons that are remembered of a model.
const maxLearned = 100

// with returns the latest lessons with l.
func (s *state) with(l lesson) []lesson {
	all := slices.DeleteFunc(slices.Clone(s.learned), func(old lesson) bool { return old.what == l.what })
	all = append(all, l)
	return all[max(0, len(all)-maxLearned):]
}

// key identifies something that can be refused.
type key [sha256.Size]byte

func keyOf(kind string, parts ...[]byte) key {
	h := sha256.New()
	h.Write([]byte(kind))
	for _, p := range parts {
		fmt.Fprintf(h, "\x00%d\x00", len(p))
		h.Write(p)
	}
	return key(h.Sum(nil))
}

// refused are the latest things that a model has refused. It does not change.
type refused []key

// maxRefused limits the refusals remembered of a model.
const maxRefused = 1000

func (r refused) has(k key) bool { return slices.Contains(r, k) }

func (r refused) with(keys ...key) refused {
	all := slices.DeleteFunc(slices.Clone(r), func(k key) bool { return slices.Contains(keys, k) })
	for _, k := range keys {
		if !all.has(k) {
			all = append(all, k)
		}
	}
	return all[max(0, len(all)-maxRefused):]
}
