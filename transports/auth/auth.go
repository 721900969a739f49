// Package auth says who asks and from where: a request's Caller, the Host and Origin rules that keep web
// pages of others out, and the rules for what a request's body may be. It knows HTTP and nothing of runs.
package auth

import (
	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
)

// Caller returns who sent the request. There are no accounts yet: everybody is the user local of the
// project default.
func Caller(*fiber.Ctx) runtime.Caller {
	return runtime.Caller{Project: "default", User: "local", Role: runtime.RoleUser}
}

// ForProject returns who sent the request, in the project it names; "" names the one the credential is for.
// It fails with runtime.ErrProjectNotFound for a project the caller has no part in.
func ForProject(c *fiber.Ctx, projectID string) (runtime.Caller, error) {
	who := Caller(c)
	if projectID != "" && projectID != who.Project {
		return runtime.Caller{}, runtime.ErrProjectNotFound
	}
	return who, nil
}
