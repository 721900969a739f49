// Package auth says who asks and from where: a request's Caller, the Host and Origin rules that keep web
// pages of others out, and the rules for what a request's body may be. It knows HTTP and nothing of runs.
package auth

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
)

// Who says who sent a request, or fails for somebody it does not know. It must not keep r or read its body.
type Who func(r *http.Request) (runtime.Caller, error)

// Local is who asks where there are no accounts: everybody.
var Local = runtime.Caller{Project: "default", User: "local", Role: runtime.RoleUser}

type callerKey struct{}

var (
	errUnknown = fiber.NewError(fiber.StatusUnauthorized, "This server does not know who you are; send a credential that it takes")
	errOutside = fiber.NewError(fiber.StatusForbidden, "Without accounts this server answers only its own machine")
)

// Callers finds out who sends each request before anything else is done for it; whom Who does not know it
// answers with 401. A Caller that Check refuses is nobody. Request gives a request as net/http has it.
func Callers(who Who, request func(*fiber.Ctx) (*http.Request, error), log *slog.Logger) fiber.Handler {
	return func(c *fiber.Ctx) error {
		r, err := request(c)
		if err != nil {
			return fiber.ErrBadRequest
		}
		caller, err := who(r)
		if err != nil {
			log.Debug("a caller is not known", "method", r.Method, "path", r.URL.Path, "error", err)
			return errUnknown
		}
		if caller.Role == "" {
			caller.Role = runtime.RoleUser
		}
		if err := Check(caller); err != nil {
			log.Warn("whoever says who is asking named somebody who cannot be", "method", r.Method, "path", r.URL.Path, "error", err)
			return errUnknown
		}
		c.Locals(callerKey{}, caller)
		return c.Next()
	}
}

// Everybody takes each request for one of Local. Unless insecure is set it refuses, with 403, what came in on
// an address that other machines reach.
func Everybody(insecure bool) fiber.Handler {
	return func(c *fiber.Ctx) error {
		if !insecure && !near(c.Context().LocalAddr()) {
			return errOutside
		}
		c.Locals(callerKey{}, Local)
		return c.Next()
	}
}

// near reports whether an address is one that no other machine reaches.
func near(addr net.Addr) bool {
	switch a := addr.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UDPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}

// Check says what is wrong with a caller: an empty project or user would be let see what is not theirs, as
// would one with a role that does not exist.
func Check(who runtime.Caller) error {
	switch {
	case !runtime.ValidName(who.Project):
		return fmt.Errorf("a project must be 1 to 200 characters without control characters, not %.220q", who.Project)
	case !runtime.ValidName(who.User) || who.User == "." || who.User == "..":
		return fmt.Errorf("a user must be 1 to 200 characters without control characters, not %.220q", who.User)
	}
	switch who.Role {
	case runtime.RoleUser, runtime.RoleViewer, runtime.RoleOperator, runtime.RoleAdmin:
		return nil
	}
	return fmt.Errorf("there is no role %.220q", who.Role)
}

// Caller returns who sent the request. It panics on a route that neither Callers nor Everybody stands before:
// there is nobody who may be assumed.
func Caller(c *fiber.Ctx) runtime.Caller { return c.Locals(callerKey{}).(runtime.Caller) }

// ForProject returns who sent the request, in the project it names; "" names the one the credential is for.
// It fails with runtime.ErrProjectNotFound for a project the caller has no part in.
func ForProject(c *fiber.Ctx, projectID string) (runtime.Caller, error) {
	who := Caller(c)
	if projectID != "" && projectID != who.Project {
		return runtime.Caller{}, runtime.ErrProjectNotFound
	}
	return who, nil
}
