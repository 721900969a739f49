// Package auth says who asks and from where: a request's Caller, the Host and Origin rules that keep web
// pages of others out, and the rules for what a request's body may be. It knows HTTP and nothing of runs.
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

// Authenticator says who sent a request, or fails for somebody it does not know. It is asked once for each request, before
// its body is read, from several goroutines; it must not keep r or read its body. Its error is told to nobody, unless it is
// a *runtime.Error of the kinds KindUnauthorized and KindUnavailable. One that can take credentials back is a Watcher, too.
type Authenticator interface {
	Authenticate(r *http.Request) (Identity, error)
}

// AuthenticatorFunc is a function as an Authenticator.
type AuthenticatorFunc func(r *http.Request) (Identity, error)

// Authenticate calls f.
func (f AuthenticatorFunc) Authenticate(r *http.Request) (Identity, error) { return f(r) }

// Signed is an Authenticator whose credentials, or some of them, are signed: nobody guesses one, and to see that one is none asks
// nothing of anybody else. They are looked at however many from the same address were wrong.
type Signed interface {
	// Signed reports whether the credential of a request is of that kind.
	Signed(r *http.Request) bool
}

// Identity is who a credential says its bearer is.
type Identity struct {
	User       string
	Projects   []string     // those the user has a part in; the first is meant where a request names none
	Home       string       // the project as whose user it is counted what is asked for in all of them; empty for the first
	Role       runtime.Role // in each of them
	Credential string       // the credential's id, never the secret; empty when there is none
	Watched    string       // what a Watcher calls that with which the credential ends, as its signer's key; empty for the Credential
	Expires    time.Time    // when the credential ends, and with it the streams that it has opened; zero for never
	Streams    bool         // it opens streams and nothing else, as a ticket does
	Scheme     string       // how the bearer is known: SchemeAPIKey, SchemeJWT; empty for a way of the program's own
}

// Watch is what a Watcher is asked for, empty when there is nothing to ask for.
func (id Identity) Watch() string { return cmp.Or(id.Watched, id.Credential) }

// What an Identity's Scheme is.
const (
	SchemeNone   = "none" // there are no accounts
	SchemeAPIKey = "api-key"
	SchemeJWT    = "jwt"
)

// Local is who asks where there are no accounts: everybody.
var Local = runtime.MustCaller("default", "local", runtime.RoleUser)

var errOutside = fiber.NewError(fiber.StatusForbidden, "Without accounts this server answers only its own machine")

// session is who sent a request: a caller in each project of its identity.
type session struct {
	identity Identity
	callers  []runtime.Caller
	terms    *Terms // nil without accounts
}

type sessionKey struct{}

// open makes the session of an identity. It fails for one that names nobody who can be.
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

// Callers finds out who sends each request before anything else is done for it; whom a does not know it
// answers with 401. Request gives a request as net/http has it, terms see to it that streams end with what opened them, and
// guesses that nobody tries credentials without end; nil lets everybody.
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
			case ok && refusal.Kind == runtime.KindUnavailable: // nobody knows whether it is wrong
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

// Everybody takes each request for one of Local. Unless insecure is set it refuses, with 403, what came in on
// an address that other machines reach.
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

// Handler answers a request of somebody who is known.
type Handler func(c *fiber.Ctx, who runtime.Caller) error

// ForProject returns who sent the request, in the project it names; "" names the one the credential is for.
// It fails with runtime.ErrProjectNotFound for a project the caller has no part in, and with runtime.ErrNobody on a
// route that neither Callers nor Everybody stands before: there is nobody who may be assumed.
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

// Of returns who sent a request, as its credential says. Without accounts that is nothing but who Local is.
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
