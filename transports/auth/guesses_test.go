package auth_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/auth"
)

// guarded is a server that knows who has a credential that begins with "good", and lets each address guess five times a minute.
type guarded struct {
	app *fiber.App
	log bytes.Buffer
}

// signing is an Authenticator whose credentials are signed that end in "token".
type signing struct{ auth.AuthenticatorFunc }

func (signing) Signed(r *http.Request) bool {
	return strings.HasSuffix(r.Header.Get("Authorization"), "token")
}

func newGuarded() *guarded {
	g := &guarded{app: fiber.New()}
	log := slog.New(slog.NewTextHandler(&g.log, nil))
	proxies := auth.Proxies{netip.MustParsePrefix("10.0.0.0/8")}
	vouch := auth.AuthenticatorFunc(func(r *http.Request) (auth.Identity, error) {
		text, err := auth.Bearer(r)
		if ticket := r.URL.Query().Get("ticket"); ticket != "" {
			text, err = ticket, nil
		}
		switch {
		case err != nil:
			return auth.Identity{}, err
		case text == "away":
			return auth.Identity{}, &runtime.Error{Kind: runtime.KindUnavailable}
		case !strings.HasPrefix(text, "good"):
			return auth.Identity{}, errors.New("nobody")
		}
		return auth.Identity{User: "u", Projects: []string{"p"}, Role: runtime.RoleUser}, nil
	})
	request := func(c *fiber.Ctx) (*http.Request, error) {
		r := httptest.NewRequest(http.MethodGet, string(c.Request().RequestURI()), http.NoBody)
		if text := c.Get("Authorization"); text != "" {
			r.Header.Set("Authorization", text)
		}
		return r, nil
	}
	g.app.Use(proxies.Handler(func(*fiber.Ctx) bool { return false }))
	g.app.Use(auth.Callers(signing{vouch}, nil, auth.NewGuesses(5, proxies.Has, log), request, log))
	g.app.Get("/", func(*fiber.Ctx) error { return nil })
	return g
}

// ask sends a credential, "" for none, and returns why it is refused, "" when it is not.
func (g *guarded) ask(from, credential string, header ...string) string {
	var ctx fasthttp.RequestCtx
	ctx.Init(&fasthttp.Request{}, &net.TCPAddr{IP: net.ParseIP(from), Port: 4711}, nil)
	ctx.Request.SetRequestURI("/")
	if ticket, ok := strings.CutPrefix(credential, "ticket "); ok {
		ctx.Request.SetRequestURI("/?ticket=" + ticket)
	} else if credential != "" {
		ctx.Request.Header.Set("Authorization", "Bearer "+credential)
	}
	for i := 0; i < len(header); i += 2 {
		ctx.Request.Header.Set(header[i], header[i+1])
	}
	c := g.app.AcquireCtx(&ctx)
	defer g.app.ReleaseCtx(c)
	g.app.Handler()(&ctx)
	return string(ctx.Response.Body())
}

func TestGuessesOfAnAddressAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded()
		expect := func(from, credential, want string, header ...string) {
			t.Helper()
			if got := g.ask(from, credential, header...); !strings.Contains(got, want) || want == "" && got != "" {
				t.Errorf("%s with %q: %q, want %q", from, credential, got, want)
			}
		}
		const unknown, limited = "does not know who you are", "were wrong"
		expect("192.0.2.1", "good-key", "")
		for i := range 50 { // what guesses nothing, or the same again
			expect("192.0.2.1", "", "A credential is needed")
			expect("192.0.2.1", "expired", unknown)
			if got := g.ask("192.0.2.1", "away"); strings.Contains(got, limited) {
				t.Fatalf("%d: %s", i, got)
			}
		}
		for i := range 4 {
			expect("192.0.2.1", fmt.Sprint("guess", i), unknown)
		}
		expect("192.0.2.1", "guess4", limited)
		expect("192.0.2.1", "ticket guess", limited)
		expect("192.0.2.1", "good-one-that-is-new-here", limited)
		expect("192.0.2.1", "expired", unknown) // which was told before
		expect("192.0.2.1", "good-key", "")     // which was good before
		expect("192.0.2.1", "good-token", "")   // which nobody can guess
		expect("192.0.2.1", "bad-token", limited)
		expect("192.0.2.2", "good-elsewhere", "") // another address
		expect("192.0.2.2", "guess", unknown)
		expect("192.0.2.1", "good-elsewhere", "")

		// An address is the client's where a proxy says so, and a proxy itself is none.
		for i := range 9 {
			want := unknown
			if i >= 5 {
				want = limited
			}
			expect("10.0.0.1", fmt.Sprint("guess", i), want, "X-Forwarded-For", "203.0.113.9")
			expect("10.0.0.1", fmt.Sprint("guess", i), unknown)
		}
		expect("10.0.0.1", "guess", unknown, "X-Forwarded-For", "203.0.113.10")

		// All that one subscriber has of version 6 is one address.
		for i := range 5 {
			expect(fmt.Sprintf("2001:db8:0:1::%d", i+1), fmt.Sprint("guess", i), unknown)
		}
		expect("2001:db8:0:1::9", "guess", limited)
		expect("2001:db8:0:2::9", "guess", unknown)

		<-time.After(12 * time.Second)
		expect("192.0.2.1", "good-one-that-is-new-here", "")
		expect("192.0.2.1", "guess5", unknown)
		expect("192.0.2.1", "guess6", limited)
		if n := strings.Count(g.log.String(), "192.0.2.1"); n != 1 || strings.Contains(g.log.String(), "guess5") {
			t.Errorf("the log: %s", g.log.String())
		}
	})
}

// However many addresses guess, and with however many credentials, what is remembered is bounded; who guesses no more is forgotten
// before others.
func TestGuessesAreForgotten(t *testing.T) {
	t.Parallel()
	g := newGuarded()
	for i := range 12_000 {
		from := net.IPv4(192, byte(i>>16), byte(i>>8), byte(i)).String()
		if got := g.ask(from, fmt.Sprint("guess", i)); !strings.Contains(got, "does not know") {
			t.Fatal(i, got)
		}
	}
	if got := g.ask("198.51.100.1", "good"); got != "" {
		t.Error(got)
	}
}
