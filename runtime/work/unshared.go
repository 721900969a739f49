package work

import (
	"errors"
	"time"

	"github.com/batonrun/baton/runtime/data"
)

// logUnshared logs an error of the work for other instances, which is tried again soon, once a minute. The commit queue logs that the
// database is away.
func (en *Engine) logUnshared(err error) {
	if err == nil || errors.Is(err, data.ErrFenced) || en.abandoned.Err() != nil || en.Stopping() || en.commits.Trouble() != nil {
		return
	}
	if now, last := time.Now().Unix(), en.unsharedAt.Load(); now-last >= 60 && en.unsharedAt.CompareAndSwap(last, now) {
		en.log.Warn("work that all servers share could not be read or taken over", "error", err)
	}
}
