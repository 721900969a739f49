package runtime

import (
	"context"
	"crypto/rand"
	"errors"
)

// Secret returns what transports sign or seal with for a purpose: made when it is first asked for, and then the same on all
// servers of the database. It never changes while they serve.
func (rt *Runtime) Secret(ctx context.Context, purpose string) (string, error) {
	if secret, ok := rt.secrets.Load(purpose); ok {
		return secret.(string), nil
	}
	secret, err := rt.store.Secret(ctx, purpose)
	if errors.Is(err, ErrNotFound) {
		if err = rt.store.PutSecret(ctx, purpose, rand.Text(), false); err == nil {
			secret, err = rt.store.Secret(ctx, purpose) // another server's perhaps
		}
	}
	if err != nil {
		return "", unavailable(err)
	}
	rt.secrets.Store(purpose, secret)
	return secret, nil
}
