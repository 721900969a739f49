package remote

import (
	"errors"
	"slices"
	"time"

	"github.com/batonrun/baton/plugins"
)

// ailments are the codes of errors that tell of the remote, and not of what it was asked.
var ailments = []string{"unreachable", "stalled", "redirected", "not_agui", "unauthorized", "remote_not_found", "remote_failed", "connection_lost"}

// Health is how the remote was when it was asked last.
func (a *Agent) Health() *plugins.Health {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.health
}

// observe notes how the remote has taken a request: nil for well. What tells nothing of it changes nothing.
func (a *Agent) observe(err error) {
	now := plugins.Health{OK: err == nil, Since: time.Now()}
	if err != nil {
		e, ok := errors.AsType[*plugins.Error](err)
		if !ok || !slices.Contains(ailments, e.Code) {
			return
		}
		now.Detail = e.Message
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.health != nil && a.health.OK == now.OK {
		now.Since = a.health.Since
	}
	a.health = &now
}
