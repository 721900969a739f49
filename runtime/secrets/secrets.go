// Package secrets has the secrets that sign and seal, as the servers of a database share them.
package secrets

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/batonrun/baton/runtime/data"
)

// fresh is how long a server uses a secret before it reads it again, since another server may have reset it.
const fresh = time.Minute

// Cache reads and makes secrets, and keeps them for a while.
type Cache struct {
	store data.Saved

	mu    sync.Mutex      // guards the fields below
	known map[string]read // by purpose
	reset time.Time       // values read before this time are void
}

type read struct {
	value string
	at    time.Time // when the read began
}

// New returns an empty cache.
func New(store data.Saved) *Cache { return &Cache{store: store, known: make(map[string]read)} }

// Secret returns the key for signing or sealing for a purpose. The first call makes it; all servers of the database
// then use the same secret until it is reset.
func (s *Cache) Secret(ctx context.Context, purpose string) (string, error) {
	s.mu.Lock()
	got, reset := s.known[purpose], s.reset
	s.mu.Unlock()
	if got.at.After(reset) && time.Since(got.at) < fresh {
		return got.value, nil
	}
	at := time.Now()
	value, err := s.store.Secret(ctx, purpose)
	if errors.Is(err, data.ErrNotFound) { // of those that are made at once, one is stored and used by all
		if err = s.store.PutSecret(ctx, purpose, rand.Text()); err == nil {
			value, err = s.store.Secret(ctx, purpose)
		}
	}
	if err != nil {
		return "", data.Unavailable(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[purpose] = read{value, at}
	return value, nil
}

// Reset voids everything that was signed or sealed until now: tickets, signed URLs and the cursors of lists.
// It takes effect here at once, and on other servers of the database within a minute.
func (s *Cache) Reset(ctx context.Context) error {
	err := s.store.RemoveSecrets(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reset = time.Now()
	return data.Unavailable(err)
}
