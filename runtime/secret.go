package runtime

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/batonrun/baton/runtime/model"
)

// Secret returns what transports sign or seal with for a purpose: made when it is first asked for, and then the same on all
// servers of the database. It never changes while they serve.
func (rt *Runtime) Secret(ctx context.Context, purpose string) (string, error) {
	if secret, ok := rt.secrets.Load(purpose); ok {
		return secret.(string), nil
	}
	secret, err := MakeSecret(ctx, rt.store, purpose)
	if err != nil {
		return "", unavailable(err)
	}
	rt.secrets.Store(purpose, secret)
	return secret, nil
}

// MakeSecret returns the secret of a purpose, which it makes when there is none. When several do so at once one is kept, and
// returned to all.
func MakeSecret(ctx context.Context, s model.Secrets, purpose string) (string, error) {
	secret, err := s.Secret(ctx, purpose)
	if !errors.Is(err, ErrNotFound) {
		return secret, err
	}
	if err := s.PutSecret(ctx, purpose, rand.Text(), false); err != nil {
		return "", err
	}
	return s.Secret(ctx, purpose)
}
