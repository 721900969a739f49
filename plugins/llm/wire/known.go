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

	mu     sync.Mutex        // guards the fields below
	models map[string]*state // by name
	trials map[string]*state // what a failed answer may have taught, by the model's name
	usual  map[string]rungs  // the parts about which a model's failures say nothing: requests with them were accepted, by its name

	schemas map[key]normalised // by schema and dialect
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

func (s *state) clone() *state { return &state{caps: s.caps, refused: s.refused, learned: s.learned} }

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

// settle notes parts that are usual in requests to a model.
func (k *knowledge) settle(model string, parts rungs) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.usual == nil || len(k.usual) >= maxModels {
		k.usual = make(map[string]rungs)
	}
	k.usual[model] |= parts
}

// usualOf returns the parts that are usual in requests to a model.
func (k *knowledge) usualOf(model string) rungs {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.usual[model]
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

// remember keeps the lessons of a request that was accepted, and logs them without the words of the refusals.
func (e *Endpoint) remember(s *state) {
	e.known.mu.Lock()
	defer e.known.mu.Unlock()
	before := e.known.models[e.Model]
	if before == s || before == nil && len(s.learned) == 0 {
		return
	}
	for _, l := range s.learned {
		if before == nil || !slices.Contains(before.learned, l) {
			cmp.Or(e.Log, slog.Default()).Info("learned what a model accepts", "provider", e.Provider, "model", e.Model, "learned", l.what)
		}
	}
	if e.known.models == nil || len(e.known.models) >= maxModels {
		e.known.models = make(map[string]*state)
	}
	e.known.models[e.Model] = s
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
