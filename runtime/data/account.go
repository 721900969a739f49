package data

import "time"

// APIKey is a static credential and its bearer's identity. Only the hash of its secret is stored.
type APIKey struct {
	ID        string
	Name      string // a label
	Hash      string // of the secret
	User      string
	Projects  []string // the first is the default
	Role      string
	CreatedAt time.Time
	ExpiresAt *time.Time // nil for never
	RevokedAt *time.Time // nil unless revoked
	Key       int64      // position in the project's list; set by reads
}

// Good reports whether the key is valid at a time.
func (k *APIKey) Good(now time.Time) bool {
	return k.RevokedAt == nil && (k.ExpiresAt == nil || now.Before(*k.ExpiresAt))
}

// SavedView is a saved list of runs.
type SavedView struct {
	Name  string `json:"name"`  // The view's name, unique among the user's views.
	Query string `json:"query"` // The query of the list's URL in the console, up to 2 KiB.
}
