package remote

import (
	"errors"
	"slices"
	"time"

	"github.com/batonrun/baton/plugins"
)

// ailments are the codes of errors that concern the remote rather than the request.
var ailments = []string{"unreachable", "stalled", "redirected", "not_agui", "unauthorized", "remote_not_found", "remote_failed", "connection_lost"}

// Health returns the result of the latest request.
func (a *Agent) Health() *plugins.Health {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.health
}

// observe records the result of a request, nil for success. Errors that do not concern the remote are ignored.
func (a *Agent) observe(err error) {
	now := plugins.Health{OK: err == nil, Since: time.Now()}
	if err != nil {
		e, ok := errors.AsType[*plugins.Error](err)
		if !ok || !slices.Contains(ailments, e.Code) {
			return
		}
		now.Detail = e.Code // without the remote's words: they can be an answer that a guard withholds
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.health != nil && a.health.OK == now.OK {
		now.Since = a.health.Since
	}
	a.health = &now
}
