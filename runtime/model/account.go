package model

import "time"

// APIKey is a static credential and who its bearer is. Its secret is kept nowhere.
type APIKey struct {
	ID        string
	Name      string // for people
	Hash      string // of the secret, by which it is recognised
	User      string
	Projects  []string // the first is the one that is meant where a request names none
	Role      string   // its name
	CreatedAt time.Time
	ExpiresAt *time.Time // nil for never
	RevokedAt *time.Time // nil while it is not
	Key       int64      // its place in the list of a project's; filled by that
}

// Good reports whether the key opens anything at a time.
func (k *APIKey) Good(now time.Time) bool {
	return k.RevokedAt == nil && (k.ExpiresAt == nil || now.Before(*k.ExpiresAt))
}
