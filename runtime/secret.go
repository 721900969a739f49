package runtime

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/batonrun/baton/runtime/data"
)

// secretFresh is how long a server uses a secret before it reads it again, since another server may have reset it.
const secretFresh = time.Minute

// Secrets reads and makes secrets, and caches them.
type Secrets struct {
	store data.Saved

	mu    sync.Mutex            // guards the fields below
	known map[string]readSecret // by purpose
	reset time.Time             // values read before this time are void
}

type readSecret struct {
	value string
	at    time.Time // when the read began
}

// Secret returns the key for signing or sealing for a purpose. The first call makes it; all servers of the database
// then use the same secret until it is reset.
func (s *Secrets) Secret(ctx context.Context, purpose string) (string, error) {
	s.mu.Lock()
	got, reset := s.known[purpose], s.reset
	s.mu.Unlock()
	if got.at.After(reset) && time.Since(got.at) < secretFresh {
		return got.value, nil
	}
	at := time.Now()
	value, err := readOrMakeSecret(ctx, s.store, purpose)
	if err != nil {
		return "", unavailable(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = make(map[string]readSecret)
	}
	s.known[purpose] = readSecret{value, at}
	return value, nil
}

// Reset voids everything that was signed or sealed until now: tickets, signed URLs and the cursors of lists.
// It takes effect here at once, and on other servers of the database within a minute.
func (s *Secrets) Reset(ctx context.Context) error {
	err := s.store.RemoveSecrets(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reset = time.Now()
	return unavailable(err)
}

// readOrMakeSecret returns the secret of a purpose, and makes it when there is none. When several callers make it at
// once, one secret is kept and returned to all of them.
func readOrMakeSecret(ctx context.Context, s data.Saved, purpose string) (string, error) {
	secret, err := s.Secret(ctx, purpose)
	if !errors.Is(err, ErrNotFound) {
		return secret, err
	}
	if err := s.PutSecret(ctx, purpose, rand.Text()); err != nil {
		return "", err
	}
	return s.Secret(ctx, purpose)
}
