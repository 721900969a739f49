package jwt_test

import (
	"bytes"
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
	t.Parallel()
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
	refused(t, tokens, "a key that was withdrawn, by the first who asks after a pause", first)
}

// TestKeysAreFetchedAhead has nobody wait for a provider while its keys are used on, nor while it is away.
func TestKeysAreFetchedAhead(t *testing.T) {
	t.Parallel()
	key := newPair(t, "one", "ES256")
	p := newProvider(t, key)
	tokens := ofProvider(t, p)
	token := key.sign(t, claims(nil))
	good := func(when string) {
		t.Helper()
		if _, err := ask(tokens, token); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	good("at first")
	hold := make(chan struct{})
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-hold
		w.WriteHeader(http.StatusInternalServerError)
	})
	p.answer.Store(&answer)
	tokens.Pass(4*time.Minute + time.Second)
	good("while they are fetched") // it would never end
	close(hold)
	tokens.Pass(2 * time.Minute)
	good("when that has failed")
	again := make(chan struct{})
	defer close(again)
	silent := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-again })
	p.answer.Store(&silent)
	tokens.Pass(time.Minute)
	good("while it fails on")
}

// TestWhatWasSignedEndsWithItsKey asks for the key of what a token has opened.
func TestWhatWasSignedEndsWithItsKey(t *testing.T) {
	t.Parallel()
	one, two, impostor := newPair(t, "one", "ES256"), newPair(t, "two", "EdDSA"), newPair(t, "one", "ES256")
	p := newProvider(t, one, two)
	tokens := ofProvider(t, p)
	first, err := ask(tokens, one.sign(t, claims(nil)))
	if err != nil {
		t.Fatal(err)
	}
	second, err := ask(tokens, two.sign(t, claims(nil)))
	if err != nil {
		t.Fatal(err)
	}
	if first.Watch() == first.Credential || first.Watch() == second.Watch() {
		t.Fatalf("tokens of two keys are watched as %q and %q", first.Watch(), second.Watch())
	}
	both := []string{first.Watch(), second.Watch()}
	if ended, err := tokens.Ended(t.Context(), both); len(ended) > 0 || err != nil {
		t.Errorf("while both are published: %q, %v", ended, err)
	}
	p.publish(impostor, two) // another key of the same name is another
	tokens.Pass(6 * time.Minute)
	if ended, err := tokens.Ended(t.Context(), both); len(ended) != 1 || ended[0] != first.Watch() || err != nil {
		t.Errorf("when one is withdrawn: %q, %v", ended, err)
	}
	if valid, err := tokens.Valid(t.Context(), first.Watch()); valid || err != nil {
		t.Errorf("a ticket of it: %v, %v", valid, err)
	}
	p.Close()
	tokens.Pass(50 * time.Minute)
	if valid, err := tokens.Valid(t.Context(), second.Watch()); !valid || err != nil {
		t.Errorf("while the provider is away: %v, %v", valid, err)
	}
	tokens.Pass(11 * time.Minute)
	if ended, err := tokens.Ended(t.Context(), both); len(ended) > 0 || err == nil {
		t.Errorf("when nobody knows any more: %q, %v", ended, err)
	}
}

// TestTicketsEndWithASecret has tokens signed with another one after a restart.
func TestTicketsEndWithASecret(t *testing.T) {
	t.Parallel()
	secret := pair{algorithm: "HS256", private: bytes.Repeat([]byte("s"), 32)}
	tokens := newTokens(t, jwt.Config{Secret: secret.private.([]byte)})
	id, err := ask(tokens, secret.sign(t, claims(nil)))
	if err != nil {
		t.Fatal(err)
	}
	if valid, err := tokens.Valid(t.Context(), id.Watch()); !valid || err != nil {
		t.Errorf("got %v, %v", valid, err)
	}
	other := newTokens(t, jwt.Config{Secret: bytes.Repeat([]byte("t"), 32)})
	if ended, err := other.Ended(t.Context(), []string{id.Watch()}); len(ended) != 1 || err != nil {
		t.Errorf("got %q, %v", ended, err)
	}
}

// TestKeysAreForWhatTheySay publishes a key whose operations leave signatures out.
func TestKeysAreForWhatTheySay(t *testing.T) {
	t.Parallel()
	key := newPair(t, "one", "ES256")
	for ops, taken := range map[string]bool{`["verify"]`: true, `["sign","verify"]`: true, `["encrypt"]`: false, `[]`: false, `"verify"`: false} {
		p := newProvider(t, newPair(t, "two", "ES256"))
		text, _ := key.jwk().MarshalJSON()
		answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			other, _ := p.set.Keys[0].MarshalJSON()
			_, _ = w.Write([]byte(`{"keys":[` + string(other) + `,{"key_ops":` + ops + `,` + string(text[1:]) + `]}`))
		})
		p.answer.Store(&answer)
		if _, err := ask(ofProvider(t, p), key.sign(t, claims(nil))); (err == nil) != taken {
			t.Errorf("key_ops %s: %v", ops, err)
		}
	}
}

func TestKeysOutliveTheirProviderForAWhile(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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
