// Package ticket opens streams for clients that cannot send a header: the EventSource and the WebSocket of browsers. A client
// requests a ticket for a path with its credential and sends it in the URL's query. The ticket opens only GETs of that path
// in that project, for the same caller, for at most twelve hours and never longer than its credential. It is signed with a
// secret in the database: it survives restarts, and becomes invalid when the secrets are reset.
package ticket

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/wire"
)

// purpose is the name of the secret.
const purpose = "stream-tickets"

const (
	lifetime = 12 * time.Hour  // of a ticket at most
	skew     = time.Minute     // by which the clocks of two servers may differ
	patience = 5 * time.Second // for the database
)

// Tickets issues and checks tickets. It is an Authenticator for requests with a ticket, and uses another one for all others.
type Tickets struct {
	secrets wire.Secrets
	next    auth.Authenticator // nil without accounts
	watcher auth.Watcher       // next, if it is one
	open    []string           // the paths of streams, as routes have them
}

var (
	_ auth.Authenticator = (*Tickets)(nil)
	_ auth.Watcher       = (*Tickets)(nil)
	_ auth.Signed        = (*Tickets)(nil)
	_ transports.Mounter = (*Tickets)(nil)
)

// New returns the tickets for the streams among some routes.
func New(s wire.Secrets, next auth.Authenticator, mounts ...transports.Mounter) *Tickets {
	t := &Tickets{secrets: s, next: next}
	t.watcher, _ = next.(auth.Watcher)
	for _, m := range mounts {
		for _, r := range m.Routes() {
			if r.Stream {
				t.open = append(t.open, r.Path)
			}
		}
	}
	return t
}

// claims are the content of a ticket, with short names to keep URLs short.
type claims struct {
	Path       string `json:"p"`
	Project    string `json:"j"`
	Home       string `json:"h,omitempty"`
	User       string `json:"u"`
	Role       string `json:"r"`
	Credential string `json:"c,omitempty"`
	Watched    string `json:"w,omitempty"`
	Expires    int64  `json:"e"` // in Unix seconds
}

// Authenticate returns the identity that a ticket was made for. Requests without one go to next.
func (t *Tickets) Authenticate(r *http.Request) (auth.Identity, error) {
	tickets := r.URL.Query()["ticket"]
	if len(tickets) == 0 {
		return t.next.Authenticate(r)
	}
	if len(tickets) > 1 || len(r.Header.Values("Authorization")) > 0 {
		return auth.Identity{}, errSeveral
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), patience)
	defer cancel()
	secret, err := t.secrets.Secret(ctx, purpose)
	if err != nil {
		return auth.Identity{}, errAway
	}
	c, ok := open(secret, tickets[0])
	path, known := canonical(r.URL.EscapedPath())
	left := time.Until(time.Unix(c.Expires, 0))
	if !ok || !known || c.Path != path || r.Method != http.MethodGet || left <= 0 || left > lifetime+skew {
		return auth.Identity{}, errTicket
	}
	id := auth.Identity{
		User: c.User, Projects: []string{c.Project}, Home: c.Home, Credential: c.Credential, Watched: c.Watched, Expires: time.Unix(c.Expires, 0), Streams: true,
	}
	if t.watcher != nil && id.Watch() != "" {
		switch valid, err := t.watcher.Valid(ctx, id.Watch()); {
		case err != nil:
			return auth.Identity{}, errAway
		case !valid:
			return auth.Identity{}, errTicket
		}
	}
	if id.Role, err = runtime.ParseRole(c.Role); err != nil {
		return auth.Identity{}, errTicket
	}
	return id, nil
}

// Signed reports true for a ticket, and asks next for other credentials.
func (t *Tickets) Signed(r *http.Request) bool {
	if r.URL.Query().Has("ticket") {
		return true
	}
	next, ok := t.next.(auth.Signed)
	return ok && next.Signed(r)
}

// Valid is next's.
func (t *Tickets) Valid(ctx context.Context, credential string) (bool, error) {
	if t.watcher == nil {
		return true, nil
	}
	return t.watcher.Valid(ctx, credential)
}

// Ended is next's.
func (t *Tickets) Ended(ctx context.Context, credentials []string) ([]string, error) {
	if t.watcher == nil {
		return nil, nil
	}
	return t.watcher.Ended(ctx, credentials)
}

// Routes is the route that issues tickets.
func (t *Tickets) Routes() []transports.Route {
	return []transports.Route{{Method: fiber.MethodPost, Path: "/api/v1/stream-tickets", Known: t.issue}}
}

// Issued is a ticket that opens a stream.
type Issued struct {
	Ticket    string    `json:"ticket"`    // Value of the query parameter `ticket`. Keep it secret.
	ExpiresAt time.Time `json:"expiresAt"` // Expiry time. Streams opened with the ticket end then.
}

// issue answers POST stream-tickets.
func (t *Tickets) issue(c *fiber.Ctx, who runtime.Caller) error {
	req, err := wire.DecodeTicket(c.Request().Body())
	if err != nil {
		return err
	}
	at, err := url.Parse(req.Path)
	if err != nil || at.IsAbs() || at.Host != "" {
		return errPath
	}
	path, ok := canonical(at.EscapedPath())
	if !ok || !t.streams(path) {
		return errPath
	}
	if named := at.Query().Get("projectId"); named != "" {
		req.ProjectID = named
	}
	if who, err = transports.InBody(c, who, req.ProjectID); err != nil {
		return err
	}
	secret, err := t.secrets.Secret(c.UserContext(), purpose)
	if err != nil {
		return err
	}
	id := auth.Of(c)
	until := time.Now().Add(lifetime).Truncate(time.Second)
	if !id.Expires.IsZero() && id.Expires.Before(until) {
		until = id.Expires.Truncate(time.Second)
	}
	sealed := seal(secret, &claims{path, who.Project(), who.Home(), who.User(), who.Role().String(), id.Credential, id.Watched, until.Unix()})
	return c.Status(fiber.StatusCreated).JSON(Issued{sealed, until.UTC()})
}

// streams reports whether a path is one of a stream.
func (t *Tickets) streams(path string) bool {
	for _, pattern := range t.open {
		if fiber.RoutePatternMatch(path, pattern, fiber.Config{CaseSensitive: true}) {
			return true
		}
	}
	return false
}

// canonical returns a path with each segment escaped in one way, so that escaped and plain slashes stay distinct. It fails for an
// invalid path.
func canonical(escaped string) (string, bool) {
	segments := strings.Split(escaped, "/")
	for i, s := range segments {
		plain, err := url.PathUnescape(s)
		if err != nil || plain == "." || plain == ".." {
			return "", false
		}
		segments[i] = url.PathEscape(plain)
	}
	return strings.Join(segments, "/"), strings.HasPrefix(escaped, "/")
}

func sign(secret, body string) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return mac.Sum(nil)
}

// seal encodes and signs claims.
func seal(secret string, c *claims) string {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // it is made of strings and a number
	}
	body := base64.RawURLEncoding.EncodeToString(text)
	return body + "." + base64.RawURLEncoding.EncodeToString(sign(secret, body))
}

// open verifies and decodes a ticket.
func open(secret, ticket string) (c claims, ok bool) {
	body, signature, _ := strings.Cut(ticket, ".")
	given, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil || !hmac.Equal(given, sign(secret, body)) {
		return claims{}, false
	}
	text, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil {
		return claims{}, false
	}
	return c, json.Unmarshal(text, &c) == nil
}

// The refusals of tickets.
var (
	errTicket = &runtime.Error{
		Kind: runtime.KindUnauthorized, Code: "unauthorized",
		Detail: "This ticket is for another path or another method, or has ended; ask for a new one",
	}
	errSeveral = &runtime.Error{
		Kind: runtime.KindUnauthorized, Code: "unauthorized", Detail: "Send one credential: a ticket, or the header Authorization",
	}
	errAway = &runtime.Error{
		Kind: runtime.KindUnavailable, Code: "unavailable", Detail: "The database is unavailable; try again shortly", RetryAfter: time.Second,
	}
	errPath = &runtime.Error{
		Kind: runtime.KindInvalid, Code: "invalid_request", Detail: "The member path must be that of a stream or a socket of this server, such as /api/v1/events",
	}
)
