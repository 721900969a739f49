package jwt_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/auth/jwt"
)

const (
	issuer   = "https://id.example.com"
	audience = "baton"
)

// pair is a key with the algorithm and the id that it signs under.
type pair struct {
	id, algorithm   string
	private, public any
}

func newPair(t *testing.T, id, algorithm string) pair {
	t.Helper()
	p := pair{id: id, algorithm: algorithm}
	var err error
	switch algorithm {
	case "RS256":
		var key *rsa.PrivateKey
		if key, err = rsa.GenerateKey(rand.Reader, 2048); err == nil {
			p.private, p.public = key, &key.PublicKey
		}
	case "ES256":
		var key *ecdsa.PrivateKey
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err == nil {
			p.private, p.public = key, &key.PublicKey
		}
	case "EdDSA":
		var public ed25519.PublicKey
		var private ed25519.PrivateKey
		public, private, err = ed25519.GenerateKey(rand.Reader)
		p.private, p.public = private, public
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p pair) jwk() jose.JSONWebKey {
	return jose.JSONWebKey{Key: p.public, KeyID: p.id, Algorithm: p.algorithm, Use: "sig"}
}

// sign returns a token that says claims, and is signed as p.
func (p pair) sign(t *testing.T, claims map[string]any) string {
	t.Helper()
	options := (&jose.SignerOptions{}).WithType("JWT")
	if p.id != "" {
		options = options.WithHeader("kid", p.id)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(p.algorithm), Key: p.private}, options)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(text)
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// claims are those of a good token, with others in their place.
func claims(others map[string]any) map[string]any {
	now := time.Now().Unix()
	all := map[string]any{
		"iss": issuer, "aud": audience, "sub": "alice", "iat": now, "exp": now + 600,
		"projects": []string{"p1", "p2"}, "roles": []string{"viewer"}, "jti": "token-1",
	}
	maps.Copy(all, others)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	return all
}

// provider publishes keys.
type provider struct {
	*httptest.Server
	asked  atomic.Int64
	answer atomic.Pointer[http.HandlerFunc] // nil for the keys
	mu     sync.Mutex
	set    jose.JSONWebKeySet
}

func newProvider(t *testing.T, keys ...pair) *provider {
	t.Helper()
	p := new(provider)
	p.publish(keys...)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.asked.Add(1)
		if h := p.answer.Load(); h != nil {
			(*h)(w, r)
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		_ = json.NewEncoder(w).Encode(p.set)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *provider) publish(keys ...pair) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set.Keys = nil
	for _, k := range keys {
		p.set.Keys = append(p.set.Keys, k.jwk())
	}
}

func newTokens(t *testing.T, cfg jwt.Config) *jwt.Tokens {
	t.Helper()
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	tokens, err := jwt.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// ofProvider takes the tokens of a provider.
func ofProvider(t *testing.T, p *provider) *jwt.Tokens {
	t.Helper()
	return newTokens(t, jwt.Config{JWKS: p.URL + "/jwks.json", Issuer: issuer, Audience: []string{audience, "other"}})
}

func ask(tokens *jwt.Tokens, token string) (auth.Identity, error) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return tokens.Authenticate(r)
}

// refused fails unless the token is refused, without a word of it.
func refused(t *testing.T, tokens *jwt.Tokens, what, token string) {
	t.Helper()
	id, err := ask(tokens, token)
	refusal, ok := errors.AsType[*runtime.Error](err)
	if !ok || refusal.Kind != runtime.KindUnauthorized || id.User != "" {
		t.Errorf("%s: got %+v, %v", what, id, err)
	}
	for part := range strings.SplitSeq(token, ".") {
		if len(part) > 8 && ok && strings.Contains(err.Error(), part) {
			t.Errorf("%s: the error has the token: %v", what, err)
		}
	}
}

func TestTokensSayWhoAsks(t *testing.T) {
	t.Parallel()
	secret := pair{algorithm: "HS256", private: bytes.Repeat([]byte("s"), 32)}
	pairs := []pair{newPair(t, "r", "RS256"), newPair(t, "e", "ES256"), newPair(t, "d", "EdDSA")}
	p := newProvider(t, pairs...)
	published := ofProvider(t, p)
	shared := newTokens(t, jwt.Config{Secret: secret.private.([]byte)})
	for _, key := range append(pairs, secret) {
		tokens := published
		if key.id == "" {
			tokens = shared
		}
		c := claims(nil)
		id, err := ask(tokens, key.sign(t, c))
		if err != nil || id.User != "alice" || !slices.Equal(id.Projects, []string{"p1", "p2"}) || id.Role != runtime.RoleViewer ||
			id.Credential != "jwt:token-1" || id.Scheme != auth.SchemeJWT || id.Expires.Unix() != c["exp"].(int64)+30 {
			t.Errorf("%s: got %+v, %v", key.algorithm, id, err)
		}
	}
	if n := p.asked.Load(); n != 1 {
		t.Errorf("three tokens have asked for the keys %d times", n)
	}
}

// TestTokensThatAreRefused is the corpus of confusions.
func TestTokensThatAreRefused(t *testing.T) {
	t.Parallel()
	good, other, stranger := newPair(t, "good", "RS256"), newPair(t, "other", "ES256"), newPair(t, "stranger", "RS256")
	weak := pair{id: "weak", algorithm: "RS256"}
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	weak.private, weak.public = key, &key.PublicKey
	p := newProvider(t, good, other, weak)
	octet := jose.JSONWebKey{Key: bytes.Repeat([]byte("o"), 32), KeyID: "octet", Algorithm: "HS256", Use: "sig"}
	enc := newPair(t, "enc", "RS256")
	encJWK := enc.jwk()
	encJWK.Use = "enc"
	p.set.Keys = append(p.set.Keys, octet, encJWK)
	tokens := ofProvider(t, p)
	if _, err := ask(tokens, good.sign(t, claims(nil))); err != nil {
		t.Fatal(err)
	}

	der, err := x509.MarshalPKIXPublicKey(good.public)
	if err != nil {
		t.Fatal(err)
	}
	inPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	jwk, _ := json.Marshal(good.jwk())
	for name, secret := range map[string][]byte{"DER": der, "PEM": inPEM, "PKCS #1": x509.MarshalPKCS1PublicKey(good.public.(*rsa.PublicKey)), "JWK": jwk} {
		refused(t, tokens, "HS256 with the public key as "+name, pair{"good", "HS256", secret, nil}.sign(t, claims(nil)))
	}
	refused(t, tokens, "HS256 with a symmetric key of the set", pair{"octet", "HS256", octet.Key, nil}.sign(t, claims(nil)))
	refused(t, tokens, "a key for encryption", enc.sign(t, claims(nil)))
	refused(t, tokens, "a key that is too short", weak.sign(t, claims(nil)))
	refused(t, tokens, "RS512", pair{"good", "RS512", good.private, nil}.sign(t, claims(nil)))
	refused(t, tokens, "PS256", pair{"good", "PS256", good.private, nil}.sign(t, claims(nil)))
	refused(t, tokens, "a stranger's key", stranger.sign(t, claims(nil)))
	refused(t, tokens, "a stranger's key under another's id", pair{"good", "RS256", stranger.private, nil}.sign(t, claims(nil)))
	refused(t, tokens, "the key of another id", pair{"other", "RS256", good.private, nil}.sign(t, claims(nil)))
	if _, err := ask(tokens, pair{"", "RS256", good.private, nil}.sign(t, claims(nil))); err != nil {
		t.Errorf("no id, and one key that fits: %v", err)
	}
	refused(t, tokens, "no id, and a stranger's key", pair{"", "RS256", stranger.private, nil}.sign(t, claims(nil)))
	several := ofProvider(t, newProvider(t, good, stranger, other))
	refused(t, several, "no id, and two keys that fit", pair{"", "RS256", good.private, nil}.sign(t, claims(nil)))
	if _, err := ask(several, pair{"", "ES256", other.private, nil}.sign(t, claims(nil))); err != nil {
		t.Errorf("no id, and one key that fits: %v", err)
	}

	for _, alg := range []string{"none", "None", "NONE", "nOnE", ""} {
		head := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"alg":%q,"kid":"good","typ":"JWT"}`, alg))
		signed := strings.Split(good.sign(t, claims(nil)), ".")
		for _, signature := range []string{"", signed[2]} {
			refused(t, tokens, "alg "+alg, head+"."+signed[1]+"."+signature)
		}
		refused(t, tokens, "alg "+alg+" in two parts", head+"."+signed[1])
	}
	signed := strings.Split(good.sign(t, claims(nil)), ".")
	changed := base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"` + issuer + `","aud":"baton","sub":"root","exp":9999999999,"projects":["p1"]}`))
	refused(t, tokens, "changed claims", signed[0]+"."+changed+"."+signed[2])
	refused(t, tokens, "no signature", signed[0]+"."+signed[1]+".")
	refused(t, tokens, "two parts", signed[0]+"."+signed[1])
	refused(t, tokens, "five parts", strings.Join(append(signed, "x", "y"), "."))
	refused(t, tokens, "no token", "abc")
	own, _ := json.Marshal(jose.JSONWebKey{Key: stranger.public, KeyID: "good"})
	for name, header := range map[string]string{
		"jwk": `"jwk":` + string(own), "jku": `"jku":"http://127.0.0.1:1/jwks"`, "crit": `"crit":["exp"],"exp":1`,
	} {
		head := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","kid":"good",` + header + `}`))
		refused(t, tokens, "a header with "+name, head+"."+signed[1]+"."+signed[2])
	}

	now := time.Now().Unix()
	for name, c := range map[string]map[string]any{
		"another issuer":             {"iss": "https://evil.example"},
		"an issuer that begins so":   {"iss": issuer + "/"},
		"no issuer":                  {"iss": nil},
		"another audience":           {"aud": "shop"},
		"other audiences":            {"aud": []string{"shop", "bato"}},
		"no audience":                {"aud": nil},
		"expired":                    {"exp": now - 31},
		"expired long ago":           {"exp": 0},
		"no expiry":                  {"exp": nil},
		"an expiry in milliseconds":  {"exp": (now + 600) * 1000},
		"a user that many could be":  {"sub": "a\ufffd"},
		"an expiry that is no time":  {"exp": "tomorrow"},
		"not valid yet":              {"nbf": now + 40},
		"of tomorrow":                {"iat": now + 86400},
		"no user":                    {"sub": nil},
		"an empty user":              {"sub": ""},
		"a user that is no text":     {"sub": 7},
		"no project":                 {"projects": nil},
		"projects that are no texts": {"projects": []any{1, 2}},
		"a project many could be":    {"projects": []string{"p", "a\ufffd"}},
		"an empty list of projects":  {"projects": []string{}},
		"a project that is a table":  {"projects": map[string]any{"p": 1}},
	} {
		refused(t, tokens, name, good.sign(t, claims(c)))
	}
	for name, c := range map[string]map[string]any{
		"of the leeway":    {"exp": now - 20, "nbf": now + 20, "iat": now + 20},
		"several for whom": {"aud": []string{"shop", "other"}},
	} {
		if _, err := ask(tokens, good.sign(t, claims(c))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}

	shared := newTokens(t, jwt.Config{Secret: bytes.Repeat([]byte("s"), 32), Issuer: issuer})
	refused(t, shared, "a signature of a key pair for a secret", good.sign(t, claims(nil)))
	refused(t, shared, "another secret", pair{"", "HS256", bytes.Repeat([]byte("x"), 32), nil}.sign(t, claims(nil)))
	refused(t, shared, "HS512", pair{"", "HS512", bytes.Repeat([]byte("s"), 64), nil}.sign(t, claims(nil)))
	refused(t, shared, "another issuer", pair{"", "HS256", bytes.Repeat([]byte("s"), 32), nil}.sign(t, claims(map[string]any{"iss": "x"})))
}

func TestClaimsHaveNames(t *testing.T) {
	t.Parallel()
	key := pair{algorithm: "HS256", private: bytes.Repeat([]byte("s"), 32)}
	cfg := jwt.Config{
		Secret: key.private.([]byte), UserClaim: "email", ProjectsClaim: "https://baton.example/projects", RolesClaim: "realm_access.roles",
		Roles: map[string]runtime.Role{"team": runtime.RoleOperator, "boss": runtime.RoleAdmin}, Role: runtime.RoleUser,
	}
	of := func(cfg jwt.Config, c map[string]any) (auth.Identity, error) {
		t.Helper()
		all := map[string]any{"exp": time.Now().Unix() + 60, "email": "a@b", "https://baton.example/projects": "p 1"}
		maps.Copy(all, c)
		return ask(newTokens(t, cfg), key.sign(t, all))
	}
	for _, c := range []struct {
		access any
		want   runtime.Role
	}{
		{nil, runtime.RoleUser},
		{map[string]any{"roles": []string{"admin", "other"}}, runtime.RoleUser},
		{map[string]any{"roles": []string{"other", "team"}}, runtime.RoleOperator},
		{map[string]any{"roles": "team boss"}, runtime.RoleAdmin},
		{map[string]any{"roles": "boss,team"}, runtime.RoleAdmin},
		{map[string]any{"roles": []string{"other, Boss"}}, runtime.RoleAdmin},
		{map[string]any{"roles": []string{"TEAM"}}, runtime.RoleOperator},
		{"boss", runtime.RoleUser},
	} {
		id, err := of(cfg, map[string]any{"realm_access": c.access})
		if err != nil || id.Role != c.want || id.User != "a@b" || !slices.Equal(id.Projects, []string{"p 1"}) || !strings.HasPrefix(id.Credential, "jwt:") {
			t.Errorf("%v: %+v, %v", c.access, id, err)
		}
	}
	cfg.Role = 0
	if id, err := of(cfg, nil); err == nil {
		t.Errorf("without a role: %+v", id)
	}
}

func TestConfigurationsThatAreRefused(t *testing.T) {
	t.Parallel()
	secret := bytes.Repeat([]byte("s"), 32)
	published := jwt.Config{JWKS: "https://id.example.com/jwks.json", Issuer: issuer, Audience: []string{audience}}
	with := func(change func(*jwt.Config)) jwt.Config {
		cfg := published
		change(&cfg)
		return cfg
	}
	if _, err := jwt.New(published); err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]jwt.Config{
		"nothing":             {},
		"both":                with(func(c *jwt.Config) { c.Secret = secret }),
		"short":               {Secret: secret[1:]},
		"no issuer":           with(func(c *jwt.Config) { c.Issuer = "" }),
		"no audience":         with(func(c *jwt.Config) { c.Audience = nil }),
		"none":                {Secret: secret, Algorithms: []string{"none"}},
		"HS256 and a JWKS":    with(func(c *jwt.Config) { c.Algorithms = []string{"RS256", "HS256"} }),
		"RS256 and a secret":  {Secret: secret, Algorithms: []string{"HS256", "RS256"}},
		"plain HTTP":          with(func(c *jwt.Config) { c.JWKS = "http://id.example.com/jwks.json" }),
		"a file":              with(func(c *jwt.Config) { c.JWKS = "file:///etc/passwd" }),
		"a password":          with(func(c *jwt.Config) { c.JWKS = "https://u:p@id.example.com/" }),
		"a name of loopback?": with(func(c *jwt.Config) { c.JWKS = "http://localhost.evil.example/" }),
	} {
		if _, err := jwt.New(cfg); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// A token that is brought again says the same without being checked again, until it has expired; another of the same words
// with another signature says nothing.
func TestTokensAreRemembered(t *testing.T) {
	secret := pair{algorithm: "HS256", private: bytes.Repeat([]byte("s"), 32)}
	tokens := newTokens(t, jwt.Config{Secret: secret.private.([]byte)})
	text := secret.sign(t, claims(nil))
	first, err := ask(tokens, text)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ask(tokens, text)
	if diff := cmp.Diff(first, again); diff != "" || err != nil {
		t.Errorf("%v, %s", err, diff)
	}
	checked := testing.AllocsPerRun(10, func() { _, _ = ask(newTokens(t, jwt.Config{Secret: secret.private.([]byte)}), text) })
	if known := testing.AllocsPerRun(10, func() { _, _ = ask(tokens, text) }); known > checked/3 {
		t.Errorf("a token that is known takes %v allocations, another %v", known, checked)
	}
	refused(t, tokens, "another signature", text[:strings.LastIndex(text, ".")+1]+strings.Repeat("A", 43))
	for _, later := range []time.Duration{0, 2 * time.Hour} {
		_, err := tokens.IdentifyAt(text, time.Now().Add(later))
		if (err == nil) != (later == 0) {
			t.Errorf("after %v: %v", later, err)
		}
	}
}

// However many tokens are brought, no more are remembered than two generations of them.
func TestFewTokensAreRemembered(t *testing.T) {
	t.Parallel()
	secret := pair{algorithm: "HS256", private: bytes.Repeat([]byte("s"), 32)}
	tokens := newTokens(t, jwt.Config{Secret: secret.private.([]byte)})
	for i := range 5000 {
		if _, err := ask(tokens, secret.sign(t, claims(map[string]any{"sub": fmt.Sprint("user-", i)}))); err != nil {
			t.Fatal(err)
		}
	}
	if n := tokens.Remembered(); n == 0 || n > 4096 {
		t.Errorf("%d tokens are remembered", n)
	}
}

// A token that is signed well, and in which something is of a wrong type, is told what; one that is not signed well never is.
func TestClaimsOfAWrongTypeAreNamed(t *testing.T) {
	t.Parallel()
	secret := pair{"", "HS256", bytes.Repeat([]byte("s"), 32), nil}
	stranger := pair{"", "HS256", bytes.Repeat([]byte("x"), 32), nil}
	tokens := newTokens(t, jwt.Config{Secret: bytes.Repeat([]byte("s"), 32), ProjectsClaim: "at.projects", Role: runtime.RoleUser})
	fine := func(more map[string]any) map[string]any {
		c := map[string]any{"sub": "u", "exp": time.Now().Add(time.Hour).Unix(), "at": map[string]any{"projects": []string{"p"}}}
		maps.Copy(c, more)
		return c
	}
	if _, err := ask(tokens, secret.sign(t, fine(nil))); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]map[string]any{
		"exp": {"exp": "tomorrow"}, "nbf": {"nbf": []int{1}}, "iat": {"iat": map[string]any{}}, "aud": {"aud": 5}, "iss": {"iss": 7}, "jti": {"jti": true},
		"sub": {"sub": 7}, "at.projects": {"at": map[string]any{"projects": []any{1}}}, "roles": {"roles": 7},
	} {
		want := "The token's claim " + name + " must be "
		if _, err := ask(tokens, secret.sign(t, fine(c))); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v: %v, want %q", c, err, want)
		}
		if _, err := ask(tokens, stranger.sign(t, fine(c))); err == nil || err.Error() != "The token's signature is wrong" {
			t.Errorf("signed by a stranger, %v: %v", c, err)
		}
	}
}

// Of tokens that name hundreds of projects fewer are remembered: each takes many times as much memory.
func TestLongTokensAreRememberedByTheirLength(t *testing.T) {
	t.Parallel()
	secret := pair{algorithm: "HS256", private: bytes.Repeat([]byte("s"), 32)}
	tokens := newTokens(t, jwt.Config{Secret: secret.private.([]byte)})
	projects := make([]string, 700)
	for i := range projects {
		projects[i] = fmt.Sprintf("%03d", i)
	}
	length := 0
	for i := range 1500 {
		text := secret.sign(t, claims(map[string]any{"sub": fmt.Sprint("user-", i), "projects": projects}))
		length = len(text)
		if _, err := ask(tokens, text); err != nil {
			t.Fatal(err)
		}
	}
	if n := tokens.Remembered(); n == 0 || n*length > 4<<20 {
		t.Errorf("%d tokens of %d bytes are remembered", n, length)
	}
}
