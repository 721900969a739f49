// Package jwt authenticates requests with a JSON Web Token, signed with a shared secret or with a key of a set (JWKS) that an
// identity provider publishes.
//
// A token must be signed with a configured algorithm, by a key that is made for it: the token's header only selects among
// them. Its kid selects the key; jwk, jku and x5u are ignored. A token must have an expiry.
package jwt

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/auth"
)

// Config defines the accepted tokens and their claims. It has a Secret or a JWKS; zero fields mean the default.
type Config struct {
	Secret []byte // of HS256, 32 bytes at least
	JWKS   string // the URL of a set of keys: https, or http on this machine

	Issuer     string   // that a token's iss must be; needed with JWKS
	Audience   []string // of which a token's aud must name one; needed with JWKS
	Algorithms []string // of HS256, or of RS256, ES256 and EdDSA; default all that fit the Secret or the JWKS

	Leeway time.Duration // by which clocks may differ, default 30 s

	// The claims with the user, the projects (the first is the default project) and the roles: a claim's name, or a path through
	// objects, such as realm_access.roles. Default sub, projects and roles.
	UserClaim, ProjectsClaim, RolesClaim string

	// Roles maps the values of the roles' claim, in upper or lower case; the greatest counts. Default the roles' own names.
	Roles map[string]runtime.Role
	// Role is the role of a token without any of Roles. Zero refuses such a token.
	Role runtime.Role

	Log *slog.Logger // default slog.Default
}

// The algorithms that can be configured.
const (
	hs256 = string(jose.HS256)
	rs256 = string(jose.RS256)
	es256 = string(jose.ES256)
	eddsa = string(jose.EdDSA)
)

func (c Config) withDefaults() Config {
	if len(c.Algorithms) == 0 {
		c.Algorithms = []string{rs256, es256, eddsa}
		if len(c.Secret) > 0 {
			c.Algorithms = []string{hs256}
		}
	}
	c.Leeway = cmp.Or(c.Leeway, 30*time.Second)
	c.UserClaim = cmp.Or(c.UserClaim, "sub")
	c.ProjectsClaim = cmp.Or(c.ProjectsClaim, "projects")
	c.RolesClaim = cmp.Or(c.RolesClaim, "roles")
	if len(c.Roles) == 0 {
		c.Roles = make(map[string]runtime.Role)
		for r := runtime.RoleUser; r <= runtime.RoleAdmin; r++ {
			c.Roles[r.String()] = r
		}
	}
	roles := make(map[string]runtime.Role, len(c.Roles))
	for name, role := range c.Roles {
		name = strings.ToLower(name)
		roles[name] = max(roles[name], role)
	}
	c.Roles = roles
	c.Log = cmp.Or(c.Log, slog.Default())
	return c
}

func (c *Config) check() error {
	if (len(c.Secret) > 0) == (c.JWKS != "") {
		return errors.New("tokens are signed with a secret or with keys of a JWKS: one of the two must be set")
	}
	if n := len(c.Secret); n > 0 && n < 32 {
		return fmt.Errorf("a secret of %d bytes can be guessed; 32 are needed", n)
	}
	if c.JWKS != "" && (c.Issuer == "" || len(c.Audience) == 0) {
		return errors.New("with a JWKS the issuer and the audience must be set: its keys sign what is for others, too")
	}
	for _, alg := range c.Algorithms {
		if !slices.Contains([]string{hs256, rs256, es256, eddsa}, alg) {
			return fmt.Errorf("there is no algorithm %q; there are HS256, RS256, ES256 and EdDSA", alg)
		}
		if (alg == hs256) != (len(c.Secret) > 0) {
			return fmt.Errorf("%s is not for tokens of this kind: HS256 takes a secret, the others a JWKS", alg)
		}
	}
	return nil
}

// Tokens authenticate requests that bring a token.
type Tokens struct {
	cfg        Config
	algorithms []jose.SignatureAlgorithm
	keys       *keySet // nil with a secret
	known      known
	own        string // the mark of the secret; empty without one
}

var (
	_ auth.Authenticator = (*Tokens)(nil)
	_ auth.Watcher       = (*Tokens)(nil)
	_ auth.Signed        = (*Tokens)(nil)
)

// New checks cfg. It fetches nothing: that is done when it is needed.
func New(cfg Config) (*Tokens, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	t := &Tokens{cfg: cfg}
	for _, alg := range cfg.Algorithms {
		t.algorithms = append(t.algorithms, jose.SignatureAlgorithm(alg))
	}
	if len(cfg.Secret) > 0 { // a token's owner can guess a weak secret offline
		mac := hmac.New(sha256.New, cfg.Secret)
		mac.Write([]byte("what this secret is called"))
		t.own = "key:" + hex.EncodeToString(mac.Sum(nil)[:16])
	}
	if cfg.JWKS != "" {
		var err error
		if t.keys, err = newKeySet(cfg.JWKS, cfg.Log); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Authenticate returns the identity in the token.
func (t *Tokens) Authenticate(r *http.Request) (auth.Identity, error) {
	text, err := auth.Bearer(r)
	if err != nil {
		return auth.Identity{}, err
	}
	return t.identify(r.Context(), text, time.Now())
}

// Signed reports that all tokens are.
func (t *Tokens) Signed(*http.Request) bool { return true }

// Valid reports whether the key with that mark (see Identity.Watched) is still accepted: a ticket must not outlive the token it was
// made with.
func (t *Tokens) Valid(ctx context.Context, mark string) (bool, error) {
	if t.keys == nil {
		return mark == t.own, nil
	}
	err := t.keys.has(ctx, mark)
	if errors.Is(err, errNoKey) {
		return false, nil
	}
	return err == nil, err
}

// Ended returns the marks for which Valid is false.
func (t *Tokens) Ended(ctx context.Context, marks []string) (ended []string, err error) {
	for _, mark := range marks {
		switch valid, why := t.Valid(ctx, mark); {
		case why != nil:
			err = why
		case !valid:
			ended = append(ended, mark)
		}
	}
	return ended, err
}

// identify reads a token. Its errors never contain any of it.
func (t *Tokens) identify(ctx context.Context, text string, now time.Time) (auth.Identity, error) {
	sum := sha256.Sum256([]byte(text))
	if v := t.known.get(sum); v != nil {
		key, _, err := t.keyFor(ctx, v.header)
		if err != nil {
			return auth.Identity{}, err
		}
		if same(key, v.key) {
			if err := t.valid(&v.std, now); err != nil {
				return auth.Identity{}, err
			}
			return v.id, nil
		}
	}
	v, claims, err := t.verify(ctx, text)
	if err != nil {
		return auth.Identity{}, err
	}
	if err := t.valid(&v.std, now); err != nil {
		return auth.Identity{}, err
	}
	v.id = auth.Identity{
		Expires: v.std.Expiry.Time().Add(t.cfg.Leeway), Credential: nameOf(v.std.ID, text), Watched: t.own, Scheme: auth.SchemeJWT,
	}
	if t.keys != nil {
		v.id.Watched = mark(v.keyID, v.header.Algorithm, v.key)
	}
	if v.id.User = one(claim(claims, t.cfg.UserClaim)); v.id.User == "" || strings.ContainsRune(v.id.User, utf8.RuneError) { // which many could be
		return auth.Identity{}, errUser
	}
	v.id.Projects = several(claim(claims, t.cfg.ProjectsClaim))
	if len(v.id.Projects) == 0 || strings.ContainsRune(strings.Join(v.id.Projects, ""), utf8.RuneError) {
		return auth.Identity{}, errProjects
	}
	if v.id.Role = t.role(claim(claims, t.cfg.RolesClaim)); v.id.Role == 0 {
		return auth.Identity{}, errRole
	}
	t.known.put(sum, v)
	return v.id, nil
}

// verify checks a token's signature, and reads its claims.
func (t *Tokens) verify(ctx context.Context, text string) (v *verified, claims map[string]json.RawMessage, err error) {
	token, err := jwt.ParseSigned(text, t.algorithms)
	if err != nil || len(token.Headers) != 1 {
		return nil, nil, errMalformed
	}
	v = &verified{length: len(text), header: token.Headers[0]}
	if v.key, v.keyID, err = t.keyFor(ctx, v.header); err != nil {
		return nil, nil, err
	}
	switch err := token.Claims(v.key, &claims); {
	case errors.Is(err, jose.ErrCryptoFailure):
		return nil, nil, errSignature
	case err != nil, claims == nil:
		return nil, nil, errObject
	}
	if err := t.mistyped(claims); err != nil {
		return nil, nil, err
	}
	if token.UnsafeClaimsWithoutVerification(&v.std) != nil { // they were verified above
		return nil, nil, errObject
	}
	return v, claims, nil
}

// mistyped refuses a well-signed token with a claim of the wrong type.
func (t *Tokens) mistyped(claims map[string]json.RawMessage) error {
	for _, c := range []struct {
		name, want string
		into       []any // any of them
	}{
		{"iss", "a text", []any{new(string)}},
		{"aud", "a text or a list of texts", []any{new(string), new([]string)}},
		{"exp", "a time in seconds", []any{new(jwt.NumericDate)}},
		{"nbf", "a time in seconds", []any{new(jwt.NumericDate)}},
		{"iat", "a time in seconds", []any{new(jwt.NumericDate)}},
		{"jti", "a text", []any{new(string)}},
		{"sub", "a text", []any{new(string)}},
		{t.cfg.UserClaim, "a text", []any{new(string)}},
		{t.cfg.ProjectsClaim, "a text or a list of texts", []any{new(string), new([]string)}},
		{t.cfg.RolesClaim, "a text or a list of texts", []any{new(string), new([]string)}},
	} {
		text := claim(claims, c.name)
		if text == nil || string(text) == "null" {
			continue
		}
		if !slices.ContainsFunc(c.into, func(into any) bool { return json.Unmarshal(text, into) == nil }) {
			return refuse(fmt.Sprintf("The token's claim %s must be %s", c.name, c.want))
		}
	}
	return nil
}

// Reach fails when the keys of the JWKS cannot be fetched now. With a secret it does nothing.
func (t *Tokens) Reach(ctx context.Context) error {
	if t.keys == nil {
		return nil
	}
	_, err := t.keys.get(ctx)
	return err
}

// keyFor returns the key that checks the signature of a token with that header.
func (t *Tokens) keyFor(ctx context.Context, header jose.Header) (key any, id string, err error) {
	if t.keys == nil {
		return t.cfg.Secret, "", nil
	}
	return t.keys.find(ctx, header.KeyID, header.Algorithm)
}

// valid checks a token's audience, issuer and times.
func (t *Tokens) valid(c *jwt.Claims, now time.Time) error {
	if c.Expiry == nil {
		return errNoExpiry
	}
	if c.Expiry.Time().Year() > 9000 { // as one in milliseconds
		return errExpiry
	}
	err := c.ValidateWithLeeway(jwt.Expected{Issuer: t.cfg.Issuer, AnyAudience: t.cfg.Audience, Time: now}, t.cfg.Leeway)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jwt.ErrExpired):
		return errExpired
	case errors.Is(err, jwt.ErrNotValidYet), errors.Is(err, jwt.ErrIssuedInTheFuture):
		return errEarly
	case errors.Is(err, jwt.ErrInvalidAudience):
		return errAudience
	}
	return errIssuer
}

// role is the greatest role that the claim names, in upper or lower case. Each of its texts is a name, or a list separated by spaces
// or commas.
func (t *Tokens) role(claim json.RawMessage) runtime.Role {
	var role runtime.Role
	for _, text := range several(claim) {
		names := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
		for _, name := range append(names, text) {
			role = max(role, t.cfg.Roles[strings.ToLower(name)])
		}
	}
	if role == 0 && len(claim) > 0 {
		t.cfg.Log.Debug("a token names no role of this server", "claim", t.cfg.RolesClaim, "default", t.cfg.Role)
	}
	return cmp.Or(role, t.cfg.Role)
}

// The errors of tokens. The sender may see them, as it has the token.
var (
	errMalformed = refuse("This is no JSON Web Token that is signed as this server wants it")
	errSignature = refuse("The token's signature is wrong")
	errObject    = refuse("What the token holds is no JSON object of claims")
	errNoKeyID   = refuse("The token's header must name its key (kid): its issuer has several")
	errNoKey     = refuse("The token's key is none of its issuer's")
	errNoExpiry  = refuse("The token must say when it expires (exp)")
	errExpiry    = refuse("The token must say when it expires in seconds (exp)")
	errExpired   = refuse("The token has expired")
	errEarly     = refuse("The token is not valid yet")
	errIssuer    = refuse("The token is of another issuer")
	errAudience  = refuse("The token is for another audience")
	errUser      = refuse("The token does not name a user")
	errProjects  = refuse("The token does not name a project")
	errRole      = refuse("The token names no role of this server")
)

func refuse(detail string) *runtime.Error {
	return &runtime.Error{Kind: runtime.KindUnauthorized, Code: "unauthorized", Detail: detail}
}

// nameOf is the name of a token where its text must not appear.
func nameOf(id, text string) string {
	if id != "" && len(id) <= 100 && runtime.ValidName(id) {
		return "jwt:" + id
	}
	sum := sha256.Sum256([]byte(text))
	return "jwt:" + hex.EncodeToString(sum[:10])
}

// claim returns the claim of that name or path; nil for none.
func claim(claims map[string]json.RawMessage, name string) json.RawMessage {
	if text, ok := claims[name]; ok {
		return text
	}
	first, rest, ok := strings.Cut(name, ".")
	var inner map[string]json.RawMessage
	if !ok || json.Unmarshal(claims[first], &inner) != nil {
		return nil
	}
	return claim(inner, rest)
}

// one reads a string, "" if it is not one.
func one(text json.RawMessage) (s string) {
	_ = json.Unmarshal(text, &s) // a value of another type is ""
	return s
}

// several reads a list of strings, or a string that is the only one.
func several(text json.RawMessage) []string {
	if s := one(text); s != "" {
		return []string{s}
	}
	var list []string
	if json.Unmarshal(text, &list) != nil {
		return nil
	}
	return list
}
