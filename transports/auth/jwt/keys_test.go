package jwt_test

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/auth/jwt"
)

// away fails unless it is said that the keys are not to be had.
func away(t *testing.T, tokens *jwt.Tokens, token string) {
	t.Helper()
	_, err := ask(tokens, token)
	if refusal, ok := errors.AsType[*runtime.Error](err); !ok || refusal.Kind != runtime.KindUnavailable {
		t.Errorf("got %v", err)
	}
}

func TestKeysRotate(t *testing.T) {
	one, two := newPair(t, "one", "ES256"), newPair(t, "two", "ES256")
	p := newProvider(t, one)
	tokens := ofProvider(t, p)
	first, second := one.sign(t, claims(nil)), two.sign(t, claims(nil))
	if _, err := ask(tokens, first); err != nil {
		t.Fatal(err)
	}
	for range 100 { // nobody has the provider asked for what ids they like
		refused(t, tokens, "a key that is not published yet", second)
	}
	if n := p.asked.Load(); n != 1 {
		t.Errorf("the provider was asked %d times", n)
	}
	p.publish(one, two)
	tokens.Pass(11 * time.Second)
	var all sync.WaitGroup
	for range 20 { // all who come while the keys are fetched wait for them
		all.Go(func() {
			if _, err := ask(tokens, second); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := p.asked.Load(); n != 2 {
		t.Errorf("the provider was asked %d times", n)
	}
	p.publish(two)
	tokens.Pass(6 * time.Minute)
	deadline := time.Now().Add(10 * time.Minute)
	for { // the next who asks has them fetched, and waits for nothing
		if _, err := ask(tokens, first); err != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a key that was withdrawn is taken on")
		}
		<-time.After(time.Millisecond)
	}
	refused(t, tokens, "a key that was withdrawn", first)
}

func TestKeysOutliveTheirProviderForAWhile(t *testing.T) {
	key := newPair(t, "one", "EdDSA")
	p := newProvider(t, key)
	tokens := ofProvider(t, p)
	token := key.sign(t, claims(nil))
	if _, err := ask(tokens, token); err != nil {
		t.Fatal(err)
	}
	p.Close()
	tokens.Pass(50 * time.Minute)
	if _, err := ask(tokens, token); err != nil {
		t.Errorf("after 50 minutes: %v", err)
	}
	tokens.Pass(11 * time.Minute)
	away(t, tokens, token)
}

// TestAnswersThatAreNoKeys has a provider answer with what must not hurt.
func TestAnswersThatAreNoKeys(t *testing.T) {
	key := newPair(t, "one", "ES256")
	token := key.sign(t, claims(nil))
	elsewhere := newProvider(t, key)
	for name, answer := range map[string]http.HandlerFunc{
		"an error": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"a page":   func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"no keys":  func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"keys":[]}`)) },
		"many keys": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"keys":[` + strings.Repeat("{},", 100) + `{}]}`))
		},
		"a large answer": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"keys":[],"x":"` + strings.Repeat("x", 2<<20) + `"}`))
		},
		"another address": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) },
	} {
		p := newProvider(t)
		p.answer.Store(&answer)
		var log strings.Builder
		tokens := newTokens(t, jwt.Config{
			JWKS: p.URL + "/jwks.json?secret=s3cret", Issuer: issuer, Audience: []string{audience}, Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		away(t, tokens, token)
		away(t, tokens, token)
		if n := p.asked.Load(); n != 1 {
			t.Errorf("%s: the provider was asked %d times", name, n)
		}
		if !strings.Contains(log.String(), "could not be fetched") || strings.Contains(log.String(), "s3cret") {
			t.Errorf("%s: the log says %s", name, log.String())
		}
	}
	if n := elsewhere.asked.Load(); n != 0 {
		t.Error("another host was asked for the keys")
	}
}

// TestKeysMayMoveOnTheirHost follows a redirect that stays.
func TestKeysMayMoveOnTheirHost(t *testing.T) {
	key := newPair(t, "one", "ES256")
	p := newProvider(t, key)
	moved := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/new" {
			http.Redirect(w, r, "/new", http.StatusFound)
			return
		}
		rec := httptest.NewRecorder()
		jwks, _ := key.jwk().MarshalJSON()
		_, _ = rec.WriteString(`{"keys":[{"kty":"unknown","kid":"x"},` + string(jwks) + `]}`)
		_, _ = w.Write(rec.Body.Bytes())
	})
	p.answer.Store(&moved)
	if _, err := ask(ofProvider(t, p), key.sign(t, claims(nil))); err != nil {
		t.Error(err)
	}
}
