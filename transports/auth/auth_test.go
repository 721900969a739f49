package auth_test

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/auth"
)

func TestProjects(t *testing.T) {
	t.Parallel()
	app := fiber.New()
	app.Get("/", auth.Everybody(false), func(c *fiber.Ctx) error {
		for project, known := range map[string]bool{"": true, "default": true, "other": false, "Default": false} {
			who, err := auth.ForProject(c, project)
			switch {
			case known && (err != nil || who != auth.Local):
				t.Errorf("%q: got %v, %v", project, who, err)
			case !known && (!errors.Is(err, runtime.ErrProjectNotFound) || who != runtime.Caller{}):
				t.Errorf("%q: got %v, %v", project, who, err)
			}
		}
		return nil
	})
	app.Handler()(new(fasthttp.RequestCtx))
}

// TestNobodyIsAssumed reaches a route that nothing stands before.
func TestNobodyIsAssumed(t *testing.T) {
	t.Parallel()
	app := fiber.New()
	c := app.AcquireCtx(new(fasthttp.RequestCtx))
	defer app.ReleaseCtx(c)
	if who, err := auth.ForProject(c, ""); !errors.Is(err, runtime.ErrNobody) || who != (runtime.Caller{}) {
		t.Errorf("got %v, %v", who, err)
	}
}

// TestIdentitiesThatNobodyCanHave has an authenticator vouch for who cannot be.
func TestIdentitiesThatNobodyCanHave(t *testing.T) {
	t.Parallel()
	one := []string{"p"}
	for _, c := range []struct {
		id auth.Identity
		ok bool
	}{
		{auth.Identity{User: "u", Projects: one, Role: runtime.RoleUser}, true},
		{auth.Identity{User: "ü 1/2", Projects: []string{"p", "q"}, Role: runtime.RoleAdmin, Expires: time.Now().Add(time.Hour)}, true},
		{auth.Identity{}, false},
		{auth.Identity{User: "u", Role: runtime.RoleUser}, false},
		{auth.Identity{User: "u", Projects: []string{"p", ""}, Role: runtime.RoleUser}, false},
		{auth.Identity{Projects: one, Role: runtime.RoleUser}, false},
		{auth.Identity{User: "u", Projects: one}, false},
		{auth.Identity{User: "u", Projects: one, Role: runtime.RoleAdmin + 1}, false},
		{auth.Identity{User: "u", Projects: []string{"p\x00"}, Role: runtime.RoleUser}, false},
		{auth.Identity{User: "u\n", Projects: one, Role: runtime.RoleUser}, false},
		{auth.Identity{User: "..", Projects: one, Role: runtime.RoleUser}, false},
		{auth.Identity{User: strings.Repeat("u", 201), Projects: one, Role: runtime.RoleUser}, false},
		{auth.Identity{User: "u", Projects: one, Role: runtime.RoleUser, Expires: time.Now().Add(-time.Second)}, false},
	} {
		app, reached := fiber.New(), false
		vouch := auth.AuthenticatorFunc(func(*http.Request) (auth.Identity, error) { return c.id, nil })
		request := func(*fiber.Ctx) (*http.Request, error) {
			return httptest.NewRequest(http.MethodGet, "/", http.NoBody), nil
		}
		app.Get("/", auth.Callers(vouch, auth.NewTerms(vouch, slog.New(slog.DiscardHandler)), nil, request, slog.New(slog.DiscardHandler)), func(*fiber.Ctx) error {
			reached = true
			return nil
		})
		app.Handler()(new(fasthttp.RequestCtx))
		if reached != c.ok {
			t.Errorf("%+v: reached %v", c.id, reached)
		}
	}
}
