package jwt

import (
	"context"
	"time"

	"github.com/batonrun/baton/transports/auth"
)

// Pass lets time pass for the keys of t.
func (t *Tokens) Pass(d time.Duration) {
	t.keys.mu.Lock()
	defer t.keys.mu.Unlock()
	t.keys.got, t.keys.tried = t.keys.got.Add(-d), t.keys.tried.Add(-d)
}

// IdentifyAt reads a token at a time.
func (t *Tokens) IdentifyAt(text string, now time.Time) (auth.Identity, error) {
	return t.identify(context.Background(), text, now)
}

// Remembered is how many tokens are.
func (t *Tokens) Remembered() int { return len(t.known.young) + len(t.known.old) }
