package auth_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/auth"
)

func TestProjects(t *testing.T) {
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
	app := fiber.New()
	c := app.AcquireCtx(new(fasthttp.RequestCtx))
	defer app.ReleaseCtx(c)
	defer func() {
		if recover() == nil {
			t.Error("somebody was")
		}
	}()
	_ = auth.Caller(c)
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		who runtime.Caller
		ok  bool
	}{
		{runtime.Caller{Project: "p", User: "u", Role: runtime.RoleUser}, true},
		{runtime.Caller{Project: "p", User: "ü 1/2", Role: runtime.RoleAdmin}, true},
		{runtime.Caller{}, false},
		{runtime.Caller{Project: "p", Role: runtime.RoleUser}, false},
		{runtime.Caller{User: "u", Role: runtime.RoleUser}, false},
		{runtime.Caller{Project: "p", User: "u"}, false},
		{runtime.Caller{Project: "p", User: "u", Role: "Admin"}, false},
		{runtime.Caller{Project: "p\x00", User: "u", Role: runtime.RoleUser}, false},
		{runtime.Caller{Project: "p", User: "u\n", Role: runtime.RoleUser}, false},
		{runtime.Caller{Project: "p", User: "..", Role: runtime.RoleUser}, false},
		{runtime.Caller{Project: "p", User: strings.Repeat("u", 201), Role: runtime.RoleUser}, false},
	} {
		if err := auth.Check(c.who); (err == nil) != c.ok {
			t.Errorf("%+q: %v", c.who, err)
		}
	}
}
