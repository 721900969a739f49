// Package keys lets the admins of a project create, list and revoke its API keys. Package auth/apikey defines keys and
// authenticates with them.
package keys

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/auth/apikey"
	"github.com/batonrun/baton/transports/wire"
)

// Ledger stores keys, with the admin who changed them. It fails with runtime.ErrRevoked, without a change, if the admin's own key
// was revoked meanwhile.
type Ledger interface {
	APIKeys(ctx context.Context, ids []string) ([]runtime.APIKey, error)
	ProjectAPIKeys(ctx context.Context, project string, below int64, limit int) (runtime.Page[runtime.APIKey], error)
	PutAPIKey(ctx context.Context, k *runtime.APIKey, by *runtime.Audit) error
	RevokeAPIKey(ctx context.Context, id string, at time.Time, by *runtime.Audit) error
}

// Transport serves the keys of a ledger.
type Transport struct {
	Ledger  Ledger
	Secrets wire.Secrets    // that cursors are sealed with
	Ended   func(id string) // called for each revoked key; nil for a server without keys
}

var _ transports.Mounter = Transport{}

// maxProjectKeys limits the keys of a project, revoked ones included.
const maxProjectKeys = 10_000

// Routes are the routes of a project's keys.
func (t Transport) Routes() []transports.Route {
	const keys = "/api/projects/:projectId/keys"
	return []transports.Route{
		{Method: fiber.MethodGet, Path: keys, Known: t.admins(t.list)},
		{Method: fiber.MethodPost, Path: keys, Known: t.admins(t.create)},
		{Method: fiber.MethodDelete, Path: keys + "/:keyId", Known: t.admins(t.revoke)},
	}
}

// admins gives h to admins, where there are keys.
func (t Transport) admins(h auth.Handler) auth.Handler {
	return func(c *fiber.Ctx, who runtime.Caller) error {
		switch {
		case t.Ended == nil:
			return errNoKeys
		case who.Role() < runtime.RoleAdmin:
			return errAdmins
		}
		return h(c, who)
	}
}

// list answers GET keys, latest first.
func (t Transport) list(c *fiber.Ctx, who runtime.Caller) error {
	limit, err := wire.Limit(c.Query("limit"))
	if err != nil {
		return err
	}
	list, err := wire.NewList(c.UserContext(), t.Secrets, "keys", who, nil)
	if err != nil {
		return err
	}
	below, err := list.Position(c.Query("cursor"))
	if err != nil {
		return err
	}
	count, err := wire.Count(c.Query("count"))
	if err != nil {
		return err
	}
	page, err := t.Ledger.ProjectAPIKeys(c.UserContext(), who.Project(), below, limit)
	if err != nil {
		return errAway
	}
	page.Counted = page.Counted && count
	return c.JSON(wire.NewPage(list, page, wire.NewKey, func(k *runtime.APIKey) int64 { return k.Key }))
}

// create answers POST keys: only this answer contains the key. The key is for this project alone, with at most the rights of an
// admin.
func (t Transport) create(c *fiber.Ctx, who runtime.Caller) error {
	req, err := wire.DecodeKey(c.Request().Body())
	if err != nil {
		return err
	}
	text, row, err := apikey.New(req.Name, req.User, []string{who.Project()}, req.Role, req.ExpiresAt)
	if err != nil {
		return wire.Refuse("invalid_request", "name and user must be 1 to 200 characters without control characters, and the user not . or ..")
	}
	page, err := t.Ledger.ProjectAPIKeys(c.UserContext(), who.Project(), 0, 1)
	switch {
	case err != nil:
		return errAway
	case page.Total >= maxProjectKeys:
		return errManyKeys
	}
	by := who.Audit("create_key")
	by.At = row.CreatedAt
	if err := t.Ledger.PutAPIKey(c.UserContext(), &row, by); err != nil {
		return failed(err)
	}
	return c.Status(fiber.StatusCreated).JSON(wire.NewMadeKey(&row, text))
}

// revoke answers DELETE of a key, and ends the key's streams at once.
func (t Transport) revoke(c *fiber.Ctx, who runtime.Caller) error {
	id := wire.Unescape(c.Params("keyId"))
	if !runtime.ValidName(id) {
		return errKey
	}
	rows, err := t.Ledger.APIKeys(c.UserContext(), []string{id})
	switch {
	case err != nil:
		return errAway
	case len(rows) == 0 || !slices.Contains(rows[0].Projects, who.Project()):
		return errKey
	}
	own := auth.Of(c).Projects
	if slices.ContainsFunc(rows[0].Projects, func(project string) bool { return !slices.Contains(own, project) }) {
		return errForeign
	}
	by := who.Audit("revoke_key")
	by.At = time.Now()
	err = t.Ledger.RevokeAPIKey(c.UserContext(), id, by.At, by)
	if err != nil && !errors.Is(err, runtime.ErrNotFound) { // it was revoked before
		return failed(err)
	}
	t.Ended(id)
	return c.SendStatus(fiber.StatusNoContent)
}

// failed is the error for a change that was not made.
func failed(err error) error {
	if errors.Is(err, runtime.ErrRevoked) {
		return auth.ErrEnded
	}
	return errAway
}

// The refusals of keys.
var (
	errAway = &runtime.Error{
		Kind: runtime.KindUnavailable, Code: "unavailable", Detail: "The database is unavailable; try again shortly", RetryAfter: time.Second,
	}
	errNoKeys   = &runtime.Error{Kind: runtime.KindNotFound, Code: "not_found", Detail: "This server keeps no API keys"}
	errKey      = &runtime.Error{Kind: runtime.KindNotFound, Code: "not_found", Detail: "Key not found"}
	errAdmins   = &runtime.Error{Kind: runtime.KindForbidden, Code: "forbidden", Detail: "Your role may not do this: it is for admins"}
	errForeign  = &runtime.Error{Kind: runtime.KindForbidden, Code: "forbidden", Detail: "The key is for projects that are not yours, too; whoever runs the server revokes it"}
	errManyKeys = &runtime.Error{Kind: runtime.KindConflict, Code: "too_many_keys", Detail: "The project has as many keys as it may have"}
)
