package jwt

import "time"

// Pass lets time pass for the keys of t.
func (t *Tokens) Pass(d time.Duration) {
	t.keys.mu.Lock()
	defer t.keys.mu.Unlock()
	t.keys.got, t.keys.tried = t.keys.got.Add(-d), t.keys.tried.Add(-d)
}
