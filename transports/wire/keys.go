package wire

import (
	"time"

	"github.com/batonrun/baton/runtime"
)

// Key is an API key, without its secret.
type Key struct {
	ID        string     `json:"id"`
	Name      *string    `json:"name"` // A label.
	User      string     `json:"user"`
	Role      string     `json:"role" enum:"user,viewer,operator,admin"` // What the user may do.
	CreatedAt time.Time  `json:"createdAt"`
	ExpiresAt *time.Time `json:"expiresAt"` // Expiry time. Null if the key does not expire.
	RevokedAt *time.Time `json:"revokedAt"` // Revocation time. Null if the key is not revoked.
}

// MadeKey is a new API key with its secret.
type MadeKey struct {
	Key
	Text string `json:"key"` // The secret to send as `Authorization: Bearer`. Returned only in this response.
}

// NewKey returns a key as a list has it.
func NewKey(k *runtime.APIKey) Key {
	return Key{
		ID: k.ID, Name: orNull(k.Name), User: k.User, Role: k.Role, CreatedAt: stamp(k.CreatedAt),
		ExpiresAt: stampOrNull(k.ExpiresAt), RevokedAt: stampOrNull(k.RevokedAt),
	}
}

// NewMadeKey returns a key with its text.
func NewMadeKey(k *runtime.APIKey, text string) MadeKey { return MadeKey{NewKey(k), text} }

// KeyRequest is a request for a key.
type KeyRequest struct {
	Name, User string
	Role       runtime.Role
	ExpiresAt  time.Time // zero for never
}

// DecodeKey reads the body of a request for a key. It fails as DecodeRun does.
func DecodeKey(body []byte) (KeyRequest, error) {
	r := read(body)
	req := KeyRequest{Name: r.text("name"), User: r.text("user")}
	role, expires := r.text("role"), r.text("expiresAt")
	if r.err != nil {
		return req, r.err
	}
	var err error
	if req.Role, err = runtime.ParseRole(role); err != nil {
		return req, refuseMember("role", codeRequest, "role must be user, viewer, operator or admin")
	}
	if expires != "" {
		if req.ExpiresAt, err = time.Parse(time.RFC3339, expires); err != nil {
			return req, refuseMember("expiresAt", codeRequest, "expiresAt must be a time like 2024-01-15T10:00:00Z")
		}
		if !time.Now().Before(req.ExpiresAt) || req.ExpiresAt.UTC().Year() > 9999 { // JSON cannot express a later year
			return req, refuseMember("expiresAt", codeRequest, "expiresAt must be a time to come, before the year 10000")
		}
	}
	return req, nil
}
