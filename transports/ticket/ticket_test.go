package ticket

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/batonrun/baton/transports/auth"
)

type secret string

func (s secret) Secret(context.Context, string) (string, error) { return string(s), nil }

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	var tickets auth.Authenticator = New(secret("s"), nil)
	for name, c := range map[string]struct {
		method, path, header string
		secret               string
		lasts                time.Duration
		ok                   bool
	}{
		"its path":        {"GET", "/a/b", "", "s", time.Hour, true},
		"escaped path":    {"GET", "/%61/b", "", "s", time.Hour, true},
		"escaped slash":   {"GET", "/a%2Fb", "", "s", time.Hour, false},
		"another path":    {"GET", "/a/b/c", "", "s", time.Hour, false},
		"another method":  {"HEAD", "/a/b", "", "s", time.Hour, false},
		"another secret":  {"GET", "/a/b", "", "t", time.Hour, false},
		"expired":         {"GET", "/a/b", "", "s", -time.Second, false},
		"too long a term": {"GET", "/a/b", "", "s", lifetime + 2*skew, false},
		"two credentials": {"GET", "/a/b", "Bearer x", "s", time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			text := seal(c.secret, &claims{Path: "/a/b", Project: "p", User: "ann", Role: "viewer", Expires: time.Now().Add(c.lasts).Unix()})
			r := httptest.NewRequest(c.method, c.path+"?ticket="+text, http.NoBody)
			if c.header != "" {
				r.Header.Set("Authorization", c.header)
			}
			id, err := tickets.Authenticate(r)
			if (err == nil) != c.ok || c.ok && (id.User != "ann" || id.Projects[0] != "p" || !id.Streams) {
				t.Errorf("got %+v, %v", id, err)
			}
		})
	}
}

func TestCanonical(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{"/a/%2F": "/a/%2F", "/%61": "/a", "/ä": "/%C3%A4", "/a/../b": "", "/%2e": "", "/%zz": "", "a": ""} {
		if got, ok := canonical(path); ok != (want != "") || ok && got != want {
			t.Errorf("%s: %s, %v", path, got, ok)
		}
	}
}
