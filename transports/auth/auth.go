// Package auth identifies callers: a request's Caller, the Host and Origin rules against foreign web pages, and the rules for
// request bodies. It knows HTTP and not runs.
package auth

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
)

// Authenticator identifies the sender of a request, or fails. It is called once per request, before the body is read, from
// several goroutines; it must not retain r or read its body. Clients see its error only if it is a *runtime.Error of the kind
// KindUnauthorized or KindUnavailable. An Authenticator whose credentials can be revoked is a Watcher, too.
type Authenticator interface {
	Authenticate(r *http.Request) (Identity, error)
}

// AuthenticatorFunc is a function as an Authenticator.
type AuthenticatorFunc func(r *http.Request) (Identity, error)

// Authenticate calls f.
func (f AuthenticatorFunc) Authenticate(r *http.Request) (Identity, error) { return f(r) }

// Signed is an Authenticator with signed credentials, which cannot be guessed and are checked without a lookup. They are checked
// however many credentials from the same address were wrong.
type Signed interface {
	// Signed reports whether the credential of a request is of that kind.
	Signed(r *http.Request) bool
}

// Identity is the result of authentication.
type Identity struct {
	User       string
	Projects   []string     // the user's projects; the first is the default project
	Home       string       // the project whose user the requests for all projects count as; empty for the first
	Role       runtime.Role // in each of them
	Credential string       // the credential's id, never the secret; empty for none
	Watched    string       // a Watcher's name for the thing with which the credential ends, such as its signer's key; empty for the Credential
	Expires    time.Time    // when the credential ends, and with it the streams that it has opened; zero for never
	Streams    bool         // it opens streams and nothing else, as a ticket does
	Scheme     string       // how the bearer is known: SchemeAPIKey, SchemeJWT; empty for a way of the program's own
}

// Watch is the name to check with a Watcher, empty for none.
func (id Identity) Watch() string { return cmp.Or(id.Watched, id.Credential) }

// The values of Identity.Scheme.
const (
	SchemeNone   = "none" // there are no accounts
	SchemeAPIKey = "api-key"
	SchemeJWT    = "jwt"
)

// Local is the caller of every request when authentication is off.
var Local = runtime.MustCaller("default", "local", runtime.RoleUser)

var errOutside = fiber.NewError(fiber.StatusForbidden, "Without accounts this server answers only its own machine")

// session is the sender of a request: a caller in each project of its identity.
type session struct {
	identity Identity
	callers  []runtime.Caller
	terms    *Terms // nil without accounts
}

type sessionKey struct{}

// open makes the session of an identity. It fails for an invalid user or project.
func (id Identity) open() (*session, error) {
	s := &session{identity: id}
	for _, project := range id.Projects {
		who, err := runtime.NewCaller(project, id.User, id.Role)
		if err != nil {
			return nil, err
		}
		s.callers = append(s.callers, who)
	}
	if len(s.callers) == 0 {
		return nil, errors.New("the identity has no project")
	}
	if !id.Expires.IsZero() && !time.Now().Before(id.Expires) {
		return nil, fmt.Errorf("the credential %.220q has expired", id.Credential)
	}
	return s, nil
}

// Callers authenticates each request before anything else is done for it, and answers unknown credentials with 401. Request
// converts a request to net/http's, terms end streams with their credentials, and guesses limits wrong credentials; nil
// sets no limit.
func Callers(a Authenticator, terms *Terms, guesses *Guesses, request func(*fiber.Ctx) (*http.Request, error), log *slog.Logger) fiber.Handler {
	signed, _ := a.(Signed)
	return func(c *fiber.Ctx) error {
		r, err := request(c)
		if err != nil {
			return fiber.ErrBadRequest
		}
		peer := PeerOf(c)
		guess, limited := guesses.begin(r, peer.Address)
		if limited != nil && (signed == nil || !signed.Signed(r)) {
			return limited
		}
		id, err := a.Authenticate(r)
		if err != nil && limited != nil {
			return limited
		}
		if err != nil {
			log.Debug("a caller is not known", "method", r.Method, "path", Shown(r.URL.Path), "error", err)
			refusal, ok := errors.AsType[*runtime.Error](err)
			switch {
			case ok && refusal.Kind == runtime.KindUnavailable: // it is unknown whether the credential is wrong
				return refusal
			case ok && refusal.Kind == runtime.KindUnauthorized:
				err = refusal
			default:
				err = ErrUnknown
			}
			guess.wrong()
			return err
		}
		s, err := id.open()
		if err != nil {
			log.Warn("whoever says who is asking named somebody who cannot be", "method", r.Method, "path", Shown(r.URL.Path), "error", err)
			guess.wrong()
			return ErrUnknown
		}
		guess.right()
		s.terms = terms
		origin := runtime.Origin{Credential: id.Credential, Request: peer.Request, Home: cmp.Or(id.Home, id.Projects[0])}
		if peer.Address.IsValid() {
			origin.Address = peer.Address.String()
		}
		for i := range s.callers {
			s.callers[i] = s.callers[i].From(origin)
		}
		c.Locals(sessionKey{}, s)
		return c.Next()
	}
}

// Everybody treats each request as one of Local. Unless insecure is set it refuses, with 403, requests to an address that other
// machines can reach.
func Everybody(insecure bool) fiber.Handler {
	local := &session{
		identity: Identity{User: Local.User(), Projects: []string{Local.Project()}, Role: Local.Role(), Scheme: SchemeNone},
		callers:  []runtime.Caller{Local},
	}
	return func(c *fiber.Ctx) error {
		if !insecure && !near(c.Context().LocalAddr()) {
			return errOutside
		}
		c.Locals(sessionKey{}, local)
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

// Handler answers an authenticated request.
type Handler func(c *fiber.Ctx, who runtime.Caller) error

// ForProject returns the caller in the named project; "" names the credential's default. It fails with
// runtime.ErrProjectNotFound for a project that is not the caller's, and with runtime.ErrNobody on a route without Callers
// or Everybody.
func ForProject(c *fiber.Ctx, project string) (runtime.Caller, error) {
	s, _ := c.Locals(sessionKey{}).(*session)
	if s == nil {
		return runtime.Caller{}, runtime.ErrNobody
	}
	if project == "" {
		return s.callers[0], nil
	}
	for _, who := range s.callers {
		if who.Project() == project {
			return who, nil
		}
	}
	return runtime.Caller{}, runtime.ErrProjectNotFound
}

// Of returns the identity of the sender. Without accounts it is empty but for Local's user.
func Of(c *fiber.Ctx) Identity {
	if s, _ := c.Locals(sessionKey{}).(*session); s != nil {
		return s.identity
	}
	return Identity{}
}

// TermOf returns for how long the request's credential is good.
func TermOf(c *fiber.Ctx) Term {
	s, _ := c.Locals(sessionKey{}).(*session)
	if s == nil || s.terms == nil {
		return Term{}
	}
	return Term{s.terms, s.identity.Credential, s.identity.Watch(), s.identity.Expires}
}
