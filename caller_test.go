package baton_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
)

// whoami returns an agent that answers with its caller.
func whoami() plugins.Agent {
	return plugins.AgentFunc("whoami", func(_ context.Context, run *plugins.Run) error {
		_, err := run.Text().Write([]byte(run.Input.Project + "/" + run.Input.User))
		return err
	})
}

// byHeader authenticates by the header User: project/user/role.
func byHeader(r *http.Request) (baton.Identity, error) {
	parts := strings.Split(r.Header.Get("User"), "/")
	if len(parts) != 3 {
		return baton.Identity{}, errors.New("who are you?")
	}
	role, _ := runtime.ParseRole(parts[2])
	return baton.Identity{Projects: strings.Split(parts[0], "+"), User: parts[1], Role: role}, nil
}

func TestAccounts_IdentifyCallers(t *testing.T) {
	t.Parallel()
	through(t, func(t *testing.T, door string) {
		s := open(t, baton.Config{Plugins: []plugins.Plugin{whoami()}, Accounts: baton.AuthenticatorFunc(byHeader)})
		url := doors[door](t, s)
		start := func(user string) string {
			res := send(t, "POST", url+"/api/v1/agent/runs", `{"agent":"whoami","threadId":"main","content":"?"}`, "User", user, "Accept", "text/event-stream")
			return answer(t, res)
		}
		if got := start("p1/alice/user"); !strings.Contains(got, `"delta":"p1/alice"`) {
			t.Errorf("alice's run: %s", got)
		}
		if got := start("p1/bob/user"); !strings.Contains(got, `"delta":"p1/bob"`) {
			t.Errorf("bob's run: %s", got)
		}
		for user, want := range map[string]int{
			"p1/alice/user":    1, // own runs
			"p1/bob/user":      1,
			"p1/bob/":          -401, // no role
			"p2+p1/bob/user":   1,    // member of both projects
			"p1/eve/user":      0,
			"p1/victor/viewer": 2, // all runs of the project
			"p2/alice/admin":   -404,
			"p1/alice/Admin":   -401, // no role
			"p1/alice/root":    -401,
			"p1//user":         -401, // no user
			"/alice/user":      -401,
			"p1/../user":       -401,
			"":                 -401,
		} {
			res := send(t, "GET", url+"/api/projects/p1/agent-runs", "", "User", user)
			if want < 0 {
				if res.StatusCode != -want {
					t.Errorf("%q: %s, want %d", user, res.Status, -want)
				}
				continue
			}
			var list struct{ Items []json.RawMessage }
			if err := json.Unmarshal([]byte(answer(t, res)), &list); err != nil || len(list.Items) != want {
				t.Errorf("%q: %d runs, %v, want %d", user, len(list.Items), err, want)
			}
		}
		if res := send(t, "GET", url+"/readyz", ""); res.StatusCode != http.StatusOK {
			t.Errorf("readiness needs authentication: %s", res.Status)
		}
	})
}

type key struct{}

// TestAccounts_SeeContextOfMiddleware authenticates in the program's own middleware.
func TestAccounts_SeeContextOfMiddleware(t *testing.T) {
	t.Parallel()
	who := baton.AuthenticatorFunc(func(r *http.Request) (baton.Identity, error) {
		user, _ := r.Context().Value(key{}).(string)
		return baton.Identity{Projects: []string{"p"}, User: user, Role: baton.RoleUser}, nil
	})
	ask := func(t *testing.T, url string) {
		t.Helper()
		res := send(t, "POST", url+"/api/v1/agent/runs", `{"agent":"whoami","content":"?"}`, "Accept", "text/event-stream", "Authorization", "alice")
		if got := answer(t, res); !strings.Contains(got, `"delta":"p/alice"`) {
			t.Errorf("got %s", got)
		}
		if res := send(t, "GET", url+"/api/v1/threads", ""); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("without a user: %s", res.Status)
		}
	}
	t.Run("net/http", func(t *testing.T) {
		s := open(t, baton.Config{Plugins: []plugins.Plugin{whoami()}, Accounts: who})
		h := s.Handler()
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, r.Header.Get("Authorization"))))
		}))
		defer srv.Close()
		ask(t, srv.URL)
	})
	t.Run("fiber", func(t *testing.T) {
		s := open(t, baton.Config{Plugins: []plugins.Plugin{whoami()}, Accounts: who})
		app := fiber.New(fiber.Config{DisableStartupMessage: true})
		app.Use(func(c *fiber.Ctx) error {
			c.Locals(key{}, strings.Clone(c.Get("Authorization")))
			return c.Next()
		}, s.Fiber())
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		served := make(chan error, 1)
		go func() { served <- app.Listener(ln) }() // ends with Shutdown
		ask(t, "http://"+ln.Addr().String())
		if err := errors.Join(app.Shutdown(), <-served); err != nil {
			t.Error(err)
		}
	})
}

func TestHandler_WithoutAccountsRefusesOtherMachines(t *testing.T) {
	t.Parallel()
	outside := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80}
	for _, c := range []struct {
		cfg  baton.Config
		want int
	}{
		{baton.Config{}, 403},
		{baton.Config{Tuning: baton.Tuning{Insecure: true}}, 200},
		{baton.Config{Accounts: baton.AuthenticatorFunc(func(*http.Request) (baton.Identity, error) {
			return baton.Identity{Projects: []string{"p"}, User: "u", Role: baton.RoleUser}, nil
		})}, 200},
	} {
		h := open(t, c.cfg).Handler()
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(outside)), "GET", "/api/v1/agents", nil)
		r.Host = "192.0.2.1"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%d: %s, want %d", w.Code, w.Body, c.want)
		}
	}
}
