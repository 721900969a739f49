package auth_test

import (
	"errors"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/auth"
)

func TestProjects(t *testing.T) {
	app := fiber.New()
	c := app.AcquireCtx(new(fasthttp.RequestCtx))
	defer app.ReleaseCtx(c)
	for project, known := range map[string]bool{"": true, "default": true, "other": false, "Default": false} {
		who, err := auth.ForProject(c, project)
		switch {
		case known && (err != nil || who != auth.Caller(c)):
			t.Errorf("%q: got %v, %v", project, who, err)
		case !known && (!errors.Is(err, runtime.ErrProjectNotFound) || who != runtime.Caller{}):
			t.Errorf("%q: got %v, %v", project, who, err)
		}
	}
}
