package e2e

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// keys runs baton keys beside the server, and returns its output.
func (s *server) keys(args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), binary, append([]string{"keys", args[0], "--database", s.db.url}, args[1:]...)...)
	cmd.Dir = s.t.TempDir()
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("keys %v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

// status requests a path, and returns the status of the answer.
func (s *server) status(path string, headers ...string) (int, http.Header) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url(path), http.NoBody)
	must(s.t, err)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := client.Do(req)
	must(s.t, err)
	_ = res.Body.Close()
	return res.StatusCode, res.Header
}

// While the public keys of tokens cannot be fetched, because their provider sends endless data, is unreachable or fails, requests
// with tokens get 503. Fetched keys remain valid for a while.
func TestToken_WhileKeysCannotBeFetched(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public, KeyID: "k", Algorithm: "EdDSA", Use: "sig"}}})
	must(t, err)
	var well atomic.Bool
	var sent atomic.Int64
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if well.Load() {
			_, _ = w.Write(set)
			return
		}
		_, _ = w.Write([]byte(`{"keys":[`))
		for text := []byte(strings.Repeat("{},", 20_000)); ; { // until the server stops reading
			n, err := w.Write(text)
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	}))
	defer provider.Close()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: private, KeyID: "k"}}, nil)
	must(t, err)
	claims, err := json.Marshal(map[string]any{"iss": "i", "aud": "a", "sub": "u", "projects": []string{"p"}, "exp": time.Now().Add(time.Hour).Unix()})
	must(t, err)
	signed, err := signer.Sign(claims)
	must(t, err)
	text, err := signed.CompactSerialize()
	must(t, err)
	s := start(t, database{url: "sqlite:" + t.TempDir() + "/baton.db"},
		"BATON_AUTH=jwt", "BATON_JWKS_URL="+provider.URL, "BATON_JWT_ISSUER=i", "BATON_JWT_AUDIENCE=a")
	ask := func() (int, http.Header) { return s.status("/api/v1/agents", "Authorization", "Bearer "+text) }
	for range 3 {
		if got, head := ask(); got != http.StatusServiceUnavailable || head.Get("Retry-After") == "" {
			t.Errorf("keys without an end: %d, Retry-After %q", got, head.Get("Retry-After"))
		}
	}
	if n := sent.Load(); n > 32<<20 { // with the kernels' buffers
		t.Errorf("the server read %d bytes", n)
	}
	well.Store(true)
	s.until("known, once the keys are there", func() bool {
		got, _ := ask()
		return got == http.StatusOK
	})
	provider.CloseClientConnections()
	provider.Close()
	if got, _ := ask(); got != http.StatusOK {
		t.Errorf("while the provider is unreachable: %d", got)
	}
}
