package apikey

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/auth"
)

// Store holds the keys. It returns the existing keys among ids, revoked ones too, in any order.
type Store interface {
	APIKeys(ctx context.Context, ids []string) ([]runtime.APIKey, error)
}

// The limits of the cache that spares the database most lookups.
const (
	maxKnown   = 10_000
	maxUnknown = 10_000
	fresh      = 30 * time.Second
	patience   = 5 * time.Second // for the database
	lookups    = 2               // concurrent lookups of unknown keys, so that made-up keys do not delay known ones
)

// Keys authenticates requests with an API key. It caches keys for 30 s, so a revocation takes as long unless Forget or Recheck is called.
type Keys struct {
	store Store
	slots *semaphore.Weighted // of lookups
	asked singleflight.Group  // by id: requests that bring the same key share an answer

	mu      sync.Mutex // guards the fields below
	known   map[string]*entry
	unknown map[string]time.Time // when the database was found to have no such key
	changed time.Time            // when keys may have been revoked: older lookups are not cached
}

var (
	_ auth.Authenticator = (*Keys)(nil)
	_ auth.Watcher       = (*Keys)(nil)
)

// entry is a cached key.
type entry struct {
	key     runtime.APIKey
	id      auth.Identity
	checked time.Time
}

// NewKeys returns the keys of a store.
func NewKeys(s Store) *Keys {
	return &Keys{
		store: s, slots: semaphore.NewWeighted(lookups), known: make(map[string]*entry),
		unknown: make(map[string]time.Time),
	}
}

// Authenticate returns the identity of the key's user.
func (k *Keys) Authenticate(r *http.Request) (auth.Identity, error) {
	text, err := auth.Bearer(r)
	if err != nil {
		return auth.Identity{}, err
	}
	id, ok := parse(text)
	if !ok {
		return auth.Identity{}, errNoKey
	}
	e, err := k.find(r.Context(), id)
	if err != nil {
		return auth.Identity{}, err
	}
	if subtle.ConstantTimeCompare([]byte(e.key.Hash), []byte(hashed(text))) != 1 || !e.key.Good(time.Now()) {
		return auth.Identity{}, auth.ErrUnknown
	}
	return e.id, nil
}

var (
	errNoKey = &runtime.Error{
		Kind: runtime.KindUnauthorized, Code: "unauthorized",
		Detail: "This server takes API keys, which begin with baton_, and this is none: was it copied whole?",
	}
	errAway = &runtime.Error{
		Kind: runtime.KindUnavailable, Code: "unavailable", Detail: "The database is unavailable; try again shortly", RetryAfter: time.Second,
	}
)

// find returns a key, from the cache if the entry is fresh.
func (k *Keys) find(ctx context.Context, id string) (*entry, error) {
	e, known, absent := k.remembered(id)
	switch {
	case e != nil:
		return e, nil
	case absent:
		return nil, auth.ErrUnknown
	}
	v, err, _ := k.asked.Do(id, func() (any, error) { return k.ask(ctx, id, known) })
	if err != nil {
		return nil, err
	}
	return v.(*entry), nil
}

// ask reads a key from the database. Lookups of unknown keys are limited.
func (k *Keys) ask(ctx context.Context, id string, known bool) (*entry, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if !known {
		if err := k.slots.Acquire(ctx, 1); err != nil {
			return nil, errAway
		}
		defer k.slots.Release(1)
	}
	found, err := k.look(ctx, []string{id})
	if err != nil {
		return nil, errAway
	}
	if found[id] == nil {
		return nil, auth.ErrUnknown
	}
	return found[id], nil
}

// remembered returns a fresh entry of the cache, or reports whether the key was known before, or is absent.
func (k *Keys) remembered(id string) (e *entry, known, absent bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, known = k.known[id]
	if known && time.Since(e.checked) < fresh {
		return e, true, false
	}
	return nil, known, time.Since(k.unknown[id]) < fresh
}

// look reads keys from the database and caches the result.
func (k *Keys) look(ctx context.Context, ids []string) (map[string]*entry, error) {
	asked := time.Now()
	rows, err := k.store.APIKeys(ctx, ids)
	if err != nil {
		return nil, err
	}
	found := make(map[string]*entry, len(rows))
	for _, row := range rows {
		role, err := runtime.ParseRole(row.Role) // a newer server's role may be unknown here
		if err != nil {
			continue
		}
		id := auth.Identity{User: row.User, Projects: row.Projects, Role: role, Credential: row.ID, Scheme: auth.SchemeAPIKey}
		if row.ExpiresAt != nil {
			id.Expires = *row.ExpiresAt
		}
		found[row.ID] = &entry{row, id, asked}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !asked.After(k.changed) {
		return found, nil
	}
	for _, id := range ids {
		if e := found[id]; e != nil {
			keep(k.known, id, e, maxKnown)
			delete(k.unknown, id)
		} else {
			delete(k.known, id)
			keep(k.unknown, id, asked, maxUnknown)
		}
	}
	return found, nil
}

// keep puts a value into a map that has no more than most, in the place of any other.
func keep[V any](m map[string]V, id string, v V, most int) {
	if _, ok := m[id]; !ok && len(m) >= most {
		for other := range m {
			delete(m, other)
			break
		}
	}
	m[id] = v
}

// Valid reports whether there is a key that was not revoked.
func (k *Keys) Valid(ctx context.Context, id string) (bool, error) {
	e, err := k.find(ctx, id)
	if errors.Is(err, auth.ErrUnknown) {
		return false, nil
	}
	return err == nil && e.key.Good(time.Now()), err
}

// some is the number of keys in one statement.
const some = 1000

// Ended returns the keys that were revoked or deleted, according to the database.
func (k *Keys) Ended(ctx context.Context, ids []string) (ended []string, err error) {
	for start := 0; start < len(ids); start += some {
		part := ids[start:min(start+some, len(ids))]
		found, lookErr := k.look(ctx, part)
		if lookErr != nil {
			err = errors.Join(err, lookErr)
			continue
		}
		for _, id := range part {
			if e := found[id]; e == nil || !e.key.Good(time.Now()) {
				ended = append(ended, id)
			}
		}
	}
	return ended, err
}

// Forget removes a key from the cache.
func (k *Keys) Forget(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.known, id)
	delete(k.unknown, id)
	k.asked.Forget(id) // a new lookup must not share the result of an old one
	k.changed = time.Now()
}

// Recheck makes the next use of each key that is meant read it from the database again.
func (k *Keys) Recheck(meant func(id string) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, e := range k.known {
		if meant(id) {
			e.checked = time.Time{}
			k.asked.Forget(id)
		}
	}
	k.changed = time.Now()
}
