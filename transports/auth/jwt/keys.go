package jwt

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/batonrun/baton/runtime"
)

// The limits of a cached set of keys.
const (
	ahead    = 4 * time.Minute  // until it is fetched again, while it is used on
	fresh    = 5 * time.Minute  // age after which a set must be fetched again before use, if it can be
	usable   = time.Hour        // until it is not used any more: a key that was withdrawn must end some time
	pause    = 10 * time.Second // between two fetches, for any key
	patience = 10 * time.Second // for an answer
	maxSet   = 1 << 20          // bytes of a set
	minRSA   = 2048             // bits
)

// keySet is the set of keys published at an address. An unknown key causes a new fetch, at most every ten seconds, so that keys
// may be replaced at any time and clients cannot make this server flood another.
type keySet struct {
	url    string
	client *http.Client
	log    *slog.Logger
	pause  time.Duration

	mu       sync.Mutex // guards the fields below
	keys     map[string][]jose.JSONWebKey
	marks    map[string]struct{} // the marks of the keys that check signatures
	got      time.Time           // when they were fetched
	tried    time.Time           // when they were, or should have been
	failed   bool                // they were not then
	fetching chan struct{}       // closed when the current fetch has ended; nil for none
}

func newKeySet(address string, log *slog.Logger) (*keySet, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil {
		return nil, errors.New("the address of a JWKS must be a URL such as https://id.example.com/jwks.json")
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return nil, errors.New("the address of a JWKS must begin with https://: over plain HTTP anybody on the way could put in a key")
	}
	return &keySet{url: address, log: log, pause: pause, client: &http.Client{
		Timeout: patience,
		CheckRedirect: func(next *http.Request, before []*http.Request) error {
			if next.URL.Scheme != u.Scheme || next.URL.Host != u.Host || len(before) >= 3 {
				return errors.New("it leads elsewhere")
			}
			return nil
		},
	}}, nil
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

var errAway = &runtime.Error{
	Kind: runtime.KindUnavailable, Code: "unavailable", RetryAfter: time.Second,
	Detail: "The keys of the token's issuer are not to be had; try again shortly",
}

// find returns the key of that id, if it is made for the algorithm, and its id. Without an id it returns the only key made for the algorithm.
func (s *keySet) find(ctx context.Context, id, algorithm string) (key any, of string, err error) {
	several := false
	err = s.look(ctx, func() bool {
		key, of, several = nil, id, false
		if id != "" {
			key = suited(s.keys[id], algorithm)
			return key != nil
		}
		for name, keys := range s.keys {
			for i := range keys {
				if k := suited(keys[i:i+1], algorithm); k != nil {
					several = key != nil
					key, of = k, name
				}
				if several {
					return false
				}
			}
		}
		return key != nil
	})
	if several && errors.Is(err, errNoKey) {
		err = errNoKeyID
	}
	return key, of, err
}

// has fails with errNoKey when no key has that mark any more.
func (s *keySet) has(ctx context.Context, mark string) error {
	return s.look(ctx, func() bool {
		_, ok := s.marks[mark]
		return ok
	})
}

// look runs found, with mu held, on the current keys. It fails if that finds nothing. If the keys are older than fresh it waits for
// a fetch, as a withdrawn key would be accepted once more; but not while they cannot be fetched.
func (s *keySet) look(ctx context.Context, found func() bool) error {
	for waited := false; ; waited = true {
		s.mu.Lock()
		age := time.Since(s.got)
		known := s.keys != nil && age < usable
		has := found()
		old := age > fresh && !s.failed
		wait := s.fetching
		if (!has || age > ahead) && wait == nil && time.Since(s.tried) >= s.pause {
			wait = make(chan struct{})
			s.fetching = wait
			go s.fetch(wait) // ends with the client's patience
		}
		s.mu.Unlock()
		switch {
		case known && has && (!old || wait == nil || waited):
			return nil
		case wait == nil || waited:
			if known {
				return errNoKey
			}
			return errAway
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return errAway
		}
	}
}

// suited returns the key among those of an id that checks an algorithm's signatures, nil for none.
func suited(keys []jose.JSONWebKey, algorithm string) any {
	for i := range keys {
		k := &keys[i]
		if !k.Valid() || k.Use != "" && k.Use != "sig" || k.Algorithm != "" && k.Algorithm != algorithm {
			continue
		}
		fits := false
		switch public := k.Key.(type) {
		case *rsa.PublicKey:
			fits = algorithm == rs256 && public.N.BitLen() >= minRSA
		case *ecdsa.PublicKey:
			fits = algorithm == es256 && public.Curve == elliptic.P256()
		case ed25519.PublicKey:
			fits = algorithm == eddsa
		}
		if fits {
			return k.Key
		}
	}
	return nil
}

// fetch replaces the keys, or leaves them if it fails.
func (s *keySet) fetch(done chan struct{}) {
	defer close(done)
	keys, err := s.get(context.Background())
	if err != nil {
		s.log.Warn("the keys of tokens could not be fetched", "error", err, "help", "baton doctor checks auth.jwks_url")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetching, s.tried, s.failed = nil, time.Now(), err != nil
	if err == nil {
		s.keys, s.marks, s.got = keys, marks(keys), s.tried
	}
}

func (s *keySet) get(ctx context.Context) (map[string][]jose.JSONWebKey, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/jwk-set+json, application/json")
	res, err := s.client.Do(req)
	if err != nil {
		return nil, withoutQuery(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %s", res.Status)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxSet+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxSet {
		return nil, fmt.Errorf("the answer has more than %d bytes", maxSet)
	}
	return parse(text)
}

// mark identifies a published key that checks the signatures of tokens that name it. It is stable while the key is published.
func mark(id, algorithm string, key any) string {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		panic(err) // it is of one of the kinds that are suited
	}
	sum := sha256.Sum256(slices.Concat([]byte(algorithm), []byte{0}, []byte(id), []byte{0}, der))
	return "key:" + hex.EncodeToString(sum[:16])
}

func marks(keys map[string][]jose.JSONWebKey) map[string]struct{} {
	all := make(map[string]struct{}, len(keys))
	for id, some := range keys {
		for _, algorithm := range []string{rs256, es256, eddsa} {
			if key := suited(some, algorithm); key != nil {
				all[mark(id, algorithm, key)] = struct{}{}
			}
		}
	}
	return all
}

// parse reads a set. It skips keys of unknown kinds.
func parse(text []byte) (map[string][]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(bytes.TrimPrefix(text, []byte("\ufeff")), &set); err != nil {
		return nil, errors.New("the answer is no JWKS")
	}
	keys := make(map[string][]jose.JSONWebKey, len(set.Keys))
	for _, text := range set.Keys {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(text) == nil && checks(text) {
			keys[key.KeyID] = append(keys[key.KeyID], key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("the answer has no key that could be used")
	}
	return keys, nil
}

// checks reports whether a key may check signatures according to its operations, which jose ignores.
func checks(text []byte) bool {
	var key struct {
		Ops *[]string `json:"key_ops"`
	}
	return json.Unmarshal(text, &key) == nil && (key.Ops == nil || slices.Contains(*key.Ops, "verify"))
}

// withoutQuery is a client's error without the address, in which there may be a secret.
func withoutQuery(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}
